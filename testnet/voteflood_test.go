package testnet

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"math/big"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/consensus/dpos"
	"github.com/bornode/bornode/genesis"
	"github.com/bornode/bornode/internal/bls"
	blocksync "github.com/bornode/bornode/sync"
	"github.com/bornode/bornode/transport"
	"github.com/bornode/bornode/transport/link"
	"github.com/bornode/bornode/transport/tcp"
)

const floodTime = 20 * time.Second

// nodeCounts are what a node has counted so far.
type nodeCounts struct {
	received float64            // payload bytes of all lanes
	final    uint64             // height
	finality map[float64]uint64 // blocks that became final within so many seconds of their slot
	useless  map[string]float64 // votes, by the verdicts that honest peers give no reason for
}

// uselessVerdicts are those that only the votes of a flood have, where they are not kept from others.
var uselessVerdicts = []dpos.VoteVerdict{dpos.VoteStranger, dpos.VoteForged, dpos.VoteMalformed, dpos.VoteOverShare}

func countsOf(t *testing.T, n *Network, i int) nodeCounts {
	t.Helper()
	s := nodeCounts{received: metric(t, n.Nodes[i], "bornode_link_received_bytes_total"), finality: map[float64]uint64{}, useless: map[string]float64{}}
	for _, v := range uselessVerdicts {
		s.useless[v.String()] = metricWith(t, n.Nodes[i], "bornode_consensus_received_votes_total", `verdict="`+v.String()+`"`)
	}
	s.final = until(t, n, i, "an answer", func(Status) bool { return true }).Final
	resp, err := http.Get("http://" + n.Nodes[i].Metrics + "/metrics")
	require.NoError(t, err)
	defer resp.Body.Close()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		rest, ok := strings.CutPrefix(lines.Text(), `bornode_consensus_finality_latency_seconds_bucket{le="`)
		if !ok {
			continue
		}
		le, count, _ := strings.Cut(rest, `"} `)
		bound, err := strconv.ParseFloat(le, 64) // +Inf too
		require.NoError(t, err)
		s.finality[bound], err = strconv.ParseUint(count, 10, 64)
		require.NoError(t, err)
	}
	return s
}

// finalityP99 is the least bound of the histogram that 99 % of the blocks between two samples of each node kept.
func finalityP99(before, after []nodeCounts) float64 {
	best, all := 0.0, uint64(0)
	counts := map[float64]uint64{}
	for i := range before {
		for le, c := range after[i].finality {
			counts[le] += c - before[i].finality[le]
			all = max(all, counts[le])
		}
	}
	for le, c := range counts {
		if float64(c) >= 0.99*float64(all) && (best == 0 || le < best) {
			best = le
		}
	}
	return best
}

// votesOfNoUse makes votes of one kind, each different from all others.
func votesOfNoUse(t *testing.T, n *Network, kind string, head func() block.Point) func() []block.Vote {
	key, err := bls.GenerateKey(rand.Reader)
	require.NoError(t, err)
	signature := key.Sign([]byte(kind)) // a point of the group, but no voter's signature
	serial := uint64(0)
	return func() []block.Vote {
		h := head()
		vs := make([]block.Vote, 512)
		for i := range vs {
			serial++
			var unknown common.Hash
			new(big.Int).SetUint64(serial).FillBytes(unknown[:8])
			unknown[31] = byte(len(kind))
			v := block.Vote{Voter: n.Nodes[serial%4].Account, Signature: signature}
			v.Link = block.Link{Kind: block.Precommit, Source: block.Point{Slot: h.Slot, Hash: unknown}, Target: block.Point{Slot: h.Slot, Hash: unknown}}
			switch kind {
			case "strangers":
				v.Voter = common.BytesToAddress(unknown[:20])
			case "far slots":
				v.Source.Slot += 1_000_000 + serial
				v.Target = v.Source
			case "forged":
				v.Source, v.Target = h, h
				new(big.Int).SetUint64(serial).FillBytes(v.Signature[88:]) // hardly ever a point
			}
			vs[i] = v
		}
		return vs
	}
}

// flood sends votes to a node as fast as its link takes them, and dials again whenever it is cut off. It returns the
// bytes sent and the reasons that the node gave.
func (p *badPeer) flood(ctx context.Context, x *Node, chain common.Hash, next func() []block.Vote) (bytes int, reasons map[blocksync.Reason]int, err error) {
	h, err := tcp.New(tcp.Config{Link: link.DefaultConfig()}, p.key, nil, nil)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = h.Close() }()
	reasons = make(map[blocksync.Reason]int)
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for ctx.Err() == nil {
		_ = h.Dial(ctx, multiaddr(x.P2P)+"/p2p/"+x.PeerID) // refused once it is known
		select {
		case <-ctx.Done():
		case <-again.C:
		case l, ok := <-h.Links():
			if !ok {
				return bytes, reasons, fmt.Errorf("the host of the flood was closed")
			}
			bytes += p.floodLink(ctx, l, chain, next, reasons)
			_ = l.Close("again")
		}
	}
	return bytes, reasons, nil
}

func (p *badPeer) floodLink(ctx context.Context, l transport.Link, chain common.Hash, next func() []block.Vote, reasons map[blocksync.Reason]int) (bytes int) {
	at := blocksync.Ref{Hash: chain}
	hello := &blocksync.Handshake{NetVersion: blocksync.NetVersion, ChainID: chain, NodeID: string(p.key.ID()), Time: uint64(time.Now().UnixNano()), //nolint:gosec // after 1970
		P2PAddress: "127.0.0.1:1", Head: at, LIB: at, OS: "test", Agent: "test", Generation: 1, First: 1}
	hello.Token = blocksync.HandshakeToken(chain, hello.NodeID, hello.Time)
	send := func(kind blocksync.MessageType, payload []byte) error {
		return l.Send(ctx, transport.Message{Lane: transport.LaneConsensus, Type: uint8(kind), Payload: payload})
	}
	heard := make(chan struct{})
	go func() {
		defer close(heard)
		for {
			m, err := l.Recv(ctx)
			if err != nil {
				return
			}
			if blocksync.MessageType(m.Type) != blocksync.TypeGoAway {
				continue
			}
			if g, err := blocksync.DecodeGoAway(m.Payload); err == nil {
				reasons[g.Reason]++
			}
		}
	}()
	if send(blocksync.TypeHandshake, hello.Encode()) == nil {
		for {
			payload := blocksync.EncodeVotes(next())
			if send(blocksync.TypeVotes, payload) != nil {
				break
			}
			bytes += len(payload)
		}
	}
	<-heard
	return bytes
}

// onlySentAway checks that no node but one has sent a peer away for a fault, and that one only flooders, for their flood.
func onlySentAway(t *testing.T, n *Network, flooded int, flooders map[string]bool) {
	t.Helper()
	noFault := []string{blocksync.Duplicate.String(), blocksync.BenignOther.String()} // a second link; a peer that was too slow
	for _, x := range n.Nodes {
		text, err := os.ReadFile(x.LogFile())
		require.NoError(t, err)
		for line := range strings.Lines(string(text)) {
			var said struct {
				What         string `json:"msg"`
				Peer, Reason string
			}
			if json.Unmarshal([]byte(line), &said) != nil || said.What != "peer is sent away" || slices.Contains(noFault, said.Reason) {
				continue
			}
			require.Equal(t, flooded, x.Index, "a node that nobody flooded punishes: %s", line)
			require.True(t, flooders[said.Peer], "an honest node is punished: %s", line)
			require.Equal(t, blocksync.Flood.String(), said.Reason, line)
		}
	}
}

// Members that flood a producer with votes of no use: of strangers, of slots far ahead, on blocks that nobody has, and
// with forged signatures. The flood ends where it came in: the others receive no more than in calm times, finality goes
// on, and each flooder, and nobody else, is named in the log and sent away.
func TestAFloodOfVotesEndsAtTheDoor(t *testing.T) {
	kinds := []string{"strangers", "far slots", "unknown blocks", "forged"}
	var members []genesis.Member
	var peers []*badPeer
	for range kinds {
		p := newBadPeer(t)
		peers = append(peers, p)
		members = append(members, genesis.Member{PeerID: string(p.key.ID()), Roles: genesis.RoleObserver})
	}
	n := upNetwork(t, func(s *Spec) { s.Members = members })
	finalAbove(t, n, 10, 0, 1, 2, 3)
	chain := sealedZero(t, n)
	others := []int{1, 2, 3}
	during := func(what func(context.Context)) (per float64, p99 float64) {
		var before, after []nodeCounts
		for _, i := range others {
			before = append(before, countsOf(t, n, i))
		}
		ctx, cancel := context.WithTimeout(t.Context(), floodTime)
		defer cancel()
		what(ctx)
		<-ctx.Done()
		bytes, blocks := 0.0, uint64(0)
		for k, i := range others {
			after = append(after, countsOf(t, n, i))
			bytes += after[k].received - before[k].received
			blocks += after[k].final - before[k].final
			require.Equal(t, before[k].useless, after[k].useless, "node %d was passed votes of no use", i)
		}
		require.NotZero(t, blocks, "nothing became final")
		return bytes / float64(blocks), finalityP99(before, after)
	}
	calm, calmP99 := during(func(context.Context) {})

	var head atomic.Pointer[block.Point]
	eth := client(t, n, 1)
	look := func() {
		if h, err := sealedHead(t.Context(), eth); err == nil {
			p := h.Point()
			head.Store(&p)
		}
	}
	look()
	require.NotNil(t, head.Load())
	var wg sync.WaitGroup
	sent := make([]int, len(kinds))
	reasons := make([]map[blocksync.Reason]int, len(kinds))
	errs := make([]error, len(kinds))
	flooded, floodP99 := during(func(ctx context.Context) {
		for i, p := range peers {
			next := votesOfNoUse(t, n, kinds[i], func() block.Point { return *head.Load() })
			wg.Go(func() { sent[i], reasons[i], errs[i] = p.flood(ctx, n.Nodes[0], chain, next) })
		}
		again := time.NewTicker(100 * time.Millisecond)
		defer again.Stop()
		for ctx.Err() == nil {
			select {
			case <-again.C:
				look()
			case <-ctx.Done():
			}
		}
	})
	wg.Wait()
	for i, k := range kinds {
		require.NoError(t, errs[i])
		t.Logf("%s: %.1f MB sent, reasons given %v", k, float64(sent[i])/1e6, reasons[i])
	}
	t.Logf("per final block the others received %.0f bytes in calm, %.0f in the flood (x%.2f)", calm, flooded, flooded/calm)
	t.Logf("finality p99 of the others: %.0f ms in calm, %.0f ms in the flood (x%.2f)", 1e3*calmP99, 1e3*floodP99, floodP99/calmP99)

	require.Less(t, flooded, 2*calm, "the flood passes through relays")
	flooders := make(map[string]bool)
	for i, k := range kinds {
		flooders[string(peers[i].key.ID())] = true
		require.Positive(t, reasons[i][blocksync.Flood], "%s: sent away", k)
		logged(t, n.Nodes[0], `"level":"warn"`, "peer is sent away", string(peers[i].key.ID()), blocksync.Flood.String())
	}
	onlySentAway(t, n, 0, flooders)
	s := until(t, n, 0, "all producers are there", func(s Status) bool { return s.Peers >= 3 })
	finalAbove(t, n, s.Head+5, 0, 1, 2, 3)
	sameChain(t, n, 0, 1, 2, 3)
}
