package testnet

import (
	"context"
	bigendian "encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/rlp"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/consensus/dpos"
	blocksync "github.com/bornode/bornode/sync"
	"github.com/bornode/bornode/transport"
	"github.com/bornode/bornode/transport/link"
	"github.com/bornode/bornode/transport/tcp"
)

// witness is a member that signs nothing and keeps all votes and headers that nodes send it, and what it is shown of vote logs. It
// judges them by the two rules of every producer (rule 6), apart from the program's own judge.
type witness struct {
	peer  *badPeer
	chain common.Hash

	mu      sync.Mutex
	votes   map[common.Address]map[block.Link]struct{}
	headers map[common.Hash]seenHeader
	sealed  map[common.Address]map[uint64]common.Hash // by producer and slot
	faults  []string
}

type seenHeader struct {
	slot   uint64
	parent common.Hash
}

// newWitness listens to nodes until the test ends.
func newWitness(t *testing.T, n *Network, peer *badPeer) *witness {
	w := &witness{peer: peer, chain: sealedZero(t, n), votes: make(map[common.Address]map[block.Link]struct{}),
		headers: make(map[common.Hash]seenHeader), sealed: make(map[common.Address]map[uint64]common.Hash)}
	h, err := tcp.New(tcp.Config{Link: link.DefaultConfig()}, peer.key, nil, nil)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { w.dialOn(ctx, h, n.Nodes[:4]) })
	wg.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case l := <-h.Links():
				wg.Go(func() { w.listen(ctx, l) })
			}
		}
	})
	t.Cleanup(func() {
		cancel()
		require.NoError(t, h.Close())
		wg.Wait()
	})
	return w
}

func (w *witness) dialOn(ctx context.Context, h transport.Host, nodes []*Node) {
	again := time.NewTicker(200 * time.Millisecond)
	defer again.Stop()
	for ctx.Err() == nil {
		for _, x := range nodes {
			_ = h.Dial(ctx, multiaddr(x.P2P)+"/p2p/"+x.PeerID) // nothing if it is linked
		}
		select {
		case <-ctx.Done():
		case <-again.C:
		}
	}
}

// listen takes all that a node sends. It follows the node's position, so that it is sent what is new.
func (w *witness) listen(ctx context.Context, l transport.Link) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer func() { _ = l.Close("gone") }()
	generation := uint64(0)
	at := blocksync.Ref{Hash: w.chain}
	lib := at
	greet := func() {
		generation++
		h := &blocksync.Handshake{NetVersion: blocksync.NetVersion, ChainID: w.chain, NodeID: string(w.peer.key.ID()), Time: uint64(time.Now().UnixNano()), //nolint:gosec // after 1970
			P2PAddress: "127.0.0.1:1", Head: at, LIB: lib, OS: "test", Agent: "test", Generation: generation, First: lib.Height + 1}
		h.Token = blocksync.HandshakeToken(h.ChainID, h.NodeID, h.Time)
		_ = l.Send(ctx, transport.Message{Lane: transport.LaneConsensus, Type: uint8(blocksync.TypeHandshake), Payload: h.Encode()})
	}
	greet()
	for {
		m, err := l.Recv(ctx)
		if err != nil {
			return
		}
		switch blocksync.MessageType(m.Type) {
		case blocksync.TypeHandshake:
			if h, err := blocksync.DecodeHandshake(m.Payload); err == nil {
				at, lib = h.Head, h.LIB
				w.keepVotes(h.Votes)
				greet()
			}
		case blocksync.TypeTime:
			if x, err := blocksync.DecodeTime(m.Payload); err == nil {
				at, lib = x.Head, x.LIB
				answer := blocksync.Time{Org: x.Xmt, Rec: x.Xmt, Xmt: x.Xmt, Head: at, LIB: lib, Justified: x.Justified}
				_ = l.Send(ctx, transport.Message{Lane: transport.LaneConsensus, Type: uint8(blocksync.TypeTime), Payload: answer.Encode()})
			}
		case blocksync.TypeVotes:
			if vs, err := blocksync.DecodeVotes(m.Payload); err == nil {
				w.keepVotes(vs)
			}
		case blocksync.TypeBlockHeader:
			if h, err := blocksync.DecodeBlockHeader(m.Payload); err == nil {
				w.keepHeader(h.Sealed)
			}
		case blocksync.TypeSignedBlock:
			if s, err := blocksync.DecodeSignedBlock(m.Payload); err == nil {
				if h, err := block.DecodeBlockHeader(s.Raw); err == nil {
					w.keepHeader(h)
				}
			}
		}
	}
}

func (w *witness) keepVotes(vs []block.Vote) {
	for i := range vs {
		w.keepLink(vs[i].Voter, vs[i].Link)
	}
}

func (w *witness) keepLink(voter common.Address, x block.Link) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.votes[voter] == nil {
		w.votes[voter] = make(map[block.Link]struct{})
	}
	w.votes[voter][x] = struct{}{}
}

func (w *witness) keepHeader(h *block.SealedHeader) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.headers[h.Hash()] = seenHeader{h.Slot(), h.Parent()}
	producer := h.Header.Coinbase
	of := w.sealed[producer]
	if of == nil {
		of = make(map[uint64]common.Hash)
		w.sealed[producer] = of
	}
	if was, ok := of[h.Slot()]; ok && was != h.Hash() {
		w.faults = append(w.faults, fmt.Sprintf("%s sealed %s and %s for slot %d", producer, was, h.Hash(), h.Slot()))
	}
	of[h.Slot()] = h.Hash()
}

// readLog keeps the votes of a node's vote log, by the file's form alone (docs/storage.md).
func (w *witness) readLog(t *testing.T, x *Node) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(x.Dir, "consensus", "votes.log"))
	require.NoError(t, err)
	const header, entryHeader = 8 + 20 + 32 + 4, 16
	require.Greater(t, len(raw), header)
	account := common.BytesToAddress(raw[8:28])
	for raw = raw[header:]; len(raw) > entryHeader; {
		size := int(bigendian.BigEndian.Uint32(raw))
		if len(raw) < entryHeader+size {
			return // a kill tore it: it was not signed
		}
		payload := raw[entryHeader : entryHeader+size]
		raw = raw[entryHeader+size:]
		if payload[0] != 1 {
			continue
		}
		var r dpos.SignRecord
		require.NoError(t, rlp.DecodeBytes(payload[1:], &r))
		if r.Kind == dpos.RecordPrevote || r.Kind == dpos.RecordPrecommit {
			w.keepLink(account, r.Link)
		}
	}
}

// descends reports whether the block d is b or a descendant of it; known says that all blocks between are known.
func (w *witness) descends(d, b block.Point) (yes, known bool) {
	at := d.Hash
	for {
		if at == b.Hash {
			return true, true
		}
		h, ok := w.headers[at]
		if !ok {
			return false, false
		}
		if h.slot <= b.Slot {
			return false, true
		}
		at = h.parent
	}
}

// contradictions are pairs of signatures that no honest producer makes, among all that was kept. unknown counts the pairs for which
// a block is missing.
func (w *witness) contradictions() (faults []string, votes, unknown int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	faults = append(faults, w.faults...)
	for voter, links := range w.votes {
		votes += len(links)
		prevotes := make(map[uint64]block.Link)
		for x := range links {
			if x.Kind != block.Prevote {
				continue
			}
			if y, ok := prevotes[x.Target.Slot]; ok && y.Target != x.Target {
				faults = append(faults, fmt.Sprintf("%s prevotes %v and %v", voter, x, y))
			}
			prevotes[x.Target.Slot] = x
		}
		for b := range links {
			if b.Kind != block.Precommit {
				continue
			}
			for d := range links {
				if d.Kind != block.Prevote || d.Source.Slot >= b.Target.Slot || d.Target.Slot <= b.Target.Slot {
					continue
				}
				switch yes, known := w.descends(d.Target, b.Target); {
				case !known:
					unknown++
				case !yes:
					faults = append(faults, fmt.Sprintf("%s precommits %v and prevotes %v", voter, b, d))
				}
			}
		}
	}
	return faults, votes, unknown
}

// requireHonest asserts that nothing that was kept contradicts itself, here and in the nodes' logs.
func (w *witness) requireHonest(t *testing.T, n *Network) {
	t.Helper()
	for i := range 4 {
		w.readLog(t, n.Nodes[i])
	}
	faults, votes, unknown := w.contradictions()
	require.Empty(t, faults)
	require.NotZero(t, votes)
	t.Logf("%d votes and %d headers seen, no two contradict each other; of %d pairs a block between is not known", votes, len(w.headers), unknown)
	unslashed(t, n)
	requireNobodyGuilty(t, n)
}

// The witness itself notices each kind of contradiction.
func TestWitnessNoticesContradictions(t *testing.T) {
	point := func(slot uint64, branch byte) block.Point {
		return block.Point{Slot: slot, Hash: common.Hash{branch, byte(slot)}}
	}
	prevote := func(source, target block.Point) block.Link {
		return block.Link{Kind: block.Prevote, Source: source, Target: target}
	}
	precommit := func(p block.Point) block.Link { return block.Link{Kind: block.Precommit, Source: p, Target: p} }
	for name, c := range map[string]struct {
		links []block.Link
		fault bool
	}{
		"one slot twice":           {[]block.Link{prevote(point(1, 0), point(5, 1)), prevote(point(1, 0), point(5, 2))}, true},
		"around a precommit":       {[]block.Link{precommit(point(3, 1)), prevote(point(1, 0), point(5, 2))}, true},
		"on the precommits' chain": {[]block.Link{precommit(point(3, 1)), prevote(point(1, 0), point(5, 1))}, false},
		"from a source above":      {[]block.Link{precommit(point(3, 1)), prevote(point(4, 2), point(5, 2))}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := &witness{votes: make(map[common.Address]map[block.Link]struct{}), headers: make(map[common.Hash]seenHeader)}
			parents := map[block.Point]block.Point{point(1, 0): {}, point(3, 1): point(1, 0), point(5, 1): point(3, 1), point(4, 2): point(1, 0), point(5, 2): point(4, 2)}
			for p, parent := range parents {
				w.headers[p.Hash] = seenHeader{p.Slot, parent.Hash}
			}
			for _, x := range c.links {
				w.keepLink(common.Address{1}, x)
			}
			faults, _, unknown := w.contradictions()
			require.Zero(t, unknown)
			require.Equal(t, c.fault, len(faults) > 0, "%v", faults)
		})
	}
}
