package testnet

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/ethclient"
	libp2pcrypto "github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/sec"
	"github.com/libp2p/go-libp2p/p2p/muxer/yamux"
	"github.com/libp2p/go-libp2p/p2p/net/upgrader"
	"github.com/libp2p/go-libp2p/p2p/security/noise"
	libp2ptcp "github.com/libp2p/go-libp2p/p2p/transport/tcp"
	ma "github.com/multiformats/go-multiaddr"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/genesis"
	blocksync "github.com/bornode/bornode/sync"
	"github.com/bornode/bornode/transport"
	"github.com/bornode/bornode/transport/link"
	"github.com/bornode/bornode/transport/tcp"
)

// logged waits until a node's log has a line with all the words.
func logged(t *testing.T, x *Node, words ...string) {
	t.Helper()
	require.Eventually(t, func() bool {
		b, _ := os.ReadFile(x.LogFile()) // no line, then
		for line := range strings.Lines(string(b)) {
			found := true
			for _, w := range words {
				found = found && strings.Contains(line, w)
			}
			if found {
				return true
			}
		}
		return false
	}, patience, 5*pollEvery, "node %d never logged %q", x.Index, words)
}

// A node that is no member, and one with another genesis, are refused by name on both sides and do no harm; admitted
// and with the right genesis they come into sync.
func TestStrangersAreRefused(t *testing.T) {
	n := upNetwork(t, func(s *Spec) { s.Set = []string{"sync.ban_time=1s"} }) // else a stranger put right waits as long as an enemy
	join := func() *Node {
		x, err := n.addNode("observer", "certified")
		require.NoError(t, err)
		require.NoError(t, n.connectRoutes(t.Context(), x))
		return x
	}
	stranger := join()
	require.NoError(t, n.startNode(stranger))
	logged(t, n.Nodes[0], `"level":"warn"`, "not a member", stranger.PeerID)
	logged(t, stranger, `"level":"warn"`, "this node is not a member", stranger.PeerID)
	require.NoError(t, n.admit(t.Context(), n.Nodes[0].HTTP, stranger))
	until(t, n, stranger.Index, "in sync once admitted", func(s Status) bool { return s.Synced && s.Final > 0 && s.Peers > 0 })

	foreign := join()
	require.NoError(t, n.admit(t.Context(), n.Nodes[0].HTTP, foreign))
	b, err := os.ReadFile(n.genesisFile())
	require.NoError(t, err)
	other := filepath.Join(foreign.Dir, "genesis.json")
	require.NoError(t, os.WriteFile(other, b, 0o600))
	edit(t, other, func(v map[string]any) {
		at, err := v["genesis_time"].(json.Number).Int64()
		require.NoError(t, err)
		v["genesis_time"] = at + 1
	})
	before := metric(t, n.Nodes[0], "bornode_blocksync_go_away_sent_total")
	require.NoError(t, n.startNode(foreign, "BORNODE_GENESIS="+other))
	logged(t, foreign, "peer is sent away", "wrong_chain", n.Nodes[0].PeerID)
	logged(t, n.Nodes[0], "wrong_chain", foreign.PeerID)
	s := until(t, n, foreign.Index, "runs on alone", func(s Status) bool { return s.Peers == 0 })
	require.Zero(t, s.Head)
	require.GreaterOrEqual(t, metric(t, n.Nodes[0], "bornode_blocksync_go_away_sent_total"), before)

	s = until(t, n, 0, "an answer", func(Status) bool { return true })
	finalAbove(t, n, s.Head+5, 0, 1, 2, 3, stranger.Index)
	// With the right genesis its data, which is of the other chain, is refused by name; an empty folder comes in sync.
	require.NoError(t, foreign.Process.stop(t.Context()))
	out, err := bornode(t, nil, "run", "--dir", foreign.Dir)
	oneSentence(t, out, err, "genesis")
	for _, d := range []string{"blocks", "state", "consensus"} {
		require.NoError(t, os.RemoveAll(filepath.Join(foreign.Dir, d)))
	}
	require.NoError(t, n.startNode(foreign))
	until(t, n, foreign.Index, "in sync on the right chain", func(s Status) bool { return s.Synced && s.Final > 0 && s.Peers > 0 })
	sameChain(t, n, 0, stranger.Index, foreign.Index)
}

// badPeer is a member with a link of our making to a node.
type badPeer struct {
	key     *tcp.Identity
	private libp2pcrypto.PrivKey
}

func newBadPeer(t *testing.T) *badPeer {
	t.Helper()
	file := filepath.Join(t.TempDir(), "identity.key")
	key, err := tcp.LoadOrCreateIdentity(file)
	require.NoError(t, err)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	b, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(text)))
	require.NoError(t, err)
	private, err := libp2pcrypto.UnmarshalPrivateKey(b)
	require.NoError(t, err)
	return &badPeer{key: key, private: private}
}

// dial makes a link to a node.
func (p *badPeer) dial(t *testing.T, x *Node) transport.Link {
	t.Helper()
	h, err := tcp.New(tcp.Config{Link: link.DefaultConfig()}, p.key, nil, nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, h.Close()) })
	require.NoError(t, h.Dial(t.Context(), multiaddr(x.P2P)+"/p2p/"+x.PeerID))
	select {
	case l := <-h.Links():
		return l
	case <-time.After(patience):
		require.Fail(t, "no link")
		return nil
	}
}

// dropped reads until the node ends the link and returns the reason of its go_away.
func dropped(t *testing.T, l transport.Link) blocksync.Reason {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	reason := blocksync.NoReason
	for {
		m, err := l.Recv(ctx)
		if err != nil {
			require.NoError(t, ctx.Err(), "the node keeps the link")
			return reason
		}
		if blocksync.MessageType(m.Type) == blocksync.TypeGoAway {
			g, err := blocksync.DecodeGoAway(m.Payload)
			require.NoError(t, err)
			reason = g.Reason
		}
	}
}

// greet sends a handshake that only the change makes wrong.
func (p *badPeer) greet(t *testing.T, l transport.Link, chain common.Hash, change func(*blocksync.Handshake)) {
	t.Helper()
	at := blocksync.Ref{Hash: chain}
	h := &blocksync.Handshake{NetVersion: blocksync.NetVersion, ChainID: chain, NodeID: string(p.key.ID()), Time: uint64(time.Now().UnixNano()), //nolint:gosec // after 1970
		P2PAddress: "127.0.0.1:1", Head: at, LIB: at, OS: "test", Agent: "test", Generation: 1, First: 1}
	if change != nil {
		change(h)
	}
	h.Token = blocksync.HandshakeToken(h.ChainID, h.NodeID, h.Time)
	p.say(t, l, blocksync.TypeHandshake, h.Encode())
}

func (p *badPeer) say(t *testing.T, l transport.Link, kind blocksync.MessageType, payload []byte) {
	t.Helper()
	require.NoError(t, l.Send(t.Context(), transport.Message{Lane: transport.LaneConsensus, Type: uint8(kind), Payload: payload}))
}

// sealedHead is the sealed header of a node's head.
func sealedHead(ctx context.Context, c *ethclient.Client) (*block.SealedHeader, error) {
	var r struct {
		Raw hexutil.Bytes `json:"raw"`
	}
	if err := c.Client().CallContext(ctx, &r, "bor_getRecord", "latest"); err != nil {
		return nil, err
	}
	return block.DecodeSealedHeader(r.Raw)
}

// Members that turn bad: whatever they send, the node goes on, and drops them where it is their fault.
func TestBadPeers(t *testing.T) {
	key, err := crypto.GenerateKey()
	require.NoError(t, err)
	garbage := make([]byte, 4000)
	_, _ = rand.Read(garbage)
	// header sends children of the head, made anew until the node has seen one that is not below its LIB already.
	header := func(t *testing.T, p *badPeer, n *Network, l transport.Link, change func(*block.SealedHeader)) {
		p.greet(t, l, sealedZero(t, n), nil)
		c := client(t, n, 0)
		next := func() error {
			h, err := sealedHead(t.Context(), c)
			if err != nil {
				return err
			}
			h.Header.ParentHash, h.Header.Number = h.Hash(), new(big.Int).SetUint64(h.Number()+1)
			h.Record.Slot++
			h.Header.Extra = h.Record.Hash().Bytes()
			change(h)
			if h, err = block.DecodeSealedHeader(h.Encode()); err != nil { // forget the hash of what it was
				return err
			}
			if h.Header.Coinbase == crypto.PubkeyToAddress(key.PublicKey) {
				digest := block.Domain{Genesis: sealedZero(t, n)}.SealDigest(h.Hash())
				seal, err := crypto.Sign(digest[:], key)
				if err != nil {
					return err
				}
				copy(h.Seal[:], seal)
			}
			m := (&blocksync.BlockHeader{Size: 1000, Sealed: h}).Encode()
			return l.Send(t.Context(), transport.Message{Lane: transport.LaneConsensus, Type: uint8(blocksync.TypeBlockHeader), Payload: m})
		}
		require.NoError(t, next())
		again := time.NewTicker(time.Second)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			defer again.Stop()
			for {
				select {
				case <-l.Done():
					return
				case <-again.C:
					if next() != nil { // the link or the test ends
						return
					}
				}
			}
		}()
		t.Cleanup(func() { _ = l.Close("end"); <-ended })
	}
	cases := []struct {
		name   string
		reason blocksync.Reason // NoReason: any
		act    func(*testing.T, *badPeer, *Network, transport.Link)
	}{
		{"garbage as a handshake", blocksync.Validation, func(t *testing.T, p *badPeer, _ *Network, l transport.Link) {
			p.say(t, l, blocksync.TypeHandshake, garbage)
		}},
		{"another chain", blocksync.WrongChain, func(t *testing.T, p *badPeer, _ *Network, l transport.Link) {
			p.greet(t, l, common.Hash{1}, nil)
		}},
		{"another version", blocksync.WrongVersion, func(t *testing.T, p *badPeer, n *Network, l transport.Link) {
			p.greet(t, l, sealedZero(t, n), func(h *blocksync.Handshake) { h.NetVersion = 999 })
		}},
		{"another's name", blocksync.Authentication, func(t *testing.T, p *badPeer, n *Network, l transport.Link) {
			p.greet(t, l, sealedZero(t, n), func(h *blocksync.Handshake) { h.NodeID = n.Nodes[1].PeerID })
		}},
		{"another's account", blocksync.Authentication, func(t *testing.T, p *badPeer, n *Network, l transport.Link) {
			p.greet(t, l, sealedZero(t, n), func(h *blocksync.Handshake) { h.Key, h.Sig = n.Nodes[1].Account, garbage[:65] })
		}},
		{"another history", blocksync.Forked, func(t *testing.T, p *badPeer, n *Network, l transport.Link) {
			p.greet(t, l, sealedZero(t, n), func(h *blocksync.Handshake) {
				h.LIB = blocksync.Ref{Height: 1, Slot: 1, Hash: common.Hash{9}}
				h.Head = h.LIB
			})
		}},
		{"garbage as a block", blocksync.Validation, func(t *testing.T, p *badPeer, n *Network, l transport.Link) {
			p.greet(t, l, sealedZero(t, n), nil)
			p.say(t, l, blocksync.TypeSignedBlock, garbage)
		}},
		{"garbage as votes", blocksync.Validation, func(t *testing.T, p *badPeer, n *Network, l transport.Link) {
			p.greet(t, l, sealedZero(t, n), nil)
			p.say(t, l, blocksync.TypeVotes, garbage)
		}},
		{"forged seal", blocksync.Validation, func(t *testing.T, p *badPeer, n *Network, l transport.Link) {
			header(t, p, n, l, func(h *block.SealedHeader) { h.Header.GasUsed++ })
		}},
		{"not in the schedule", blocksync.Validation, func(t *testing.T, p *badPeer, n *Network, l transport.Link) {
			header(t, p, n, l, func(h *block.SealedHeader) { h.Header.Coinbase = crypto.PubkeyToAddress(key.PublicKey) })
		}},
		{"record of another block", blocksync.Validation, func(t *testing.T, p *badPeer, n *Network, l transport.Link) {
			header(t, p, n, l, func(h *block.SealedHeader) { h.Record.BodyDigest[0]++ })
		}},
	}
	var members []genesis.Member
	peers := make([]*badPeer, len(cases)+1)
	for i := range peers {
		peers[i] = newBadPeer(t)
		members = append(members, genesis.Member{PeerID: string(peers[i].key.ID()), Roles: genesis.RoleObserver})
	}
	n := upNetwork(t, func(s *Spec) {
		s.Members = members
		s.Set = append(s.Set, "p2p.tcp.link.close_timeout="+patience.String()) // a stall does not cut off the reason
	})
	finalAbove(t, n, 3, 0, 1, 2, 3)
	for i, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			before := metric(t, n.Nodes[0], "bornode_blocksync_go_away_sent_total")
			l := peers[i].dial(t, n.Nodes[0])
			c.act(t, peers[i], n, l)
			require.Equal(t, c.reason, dropped(t, l))
			require.Greater(t, metric(t, n.Nodes[0], "bornode_blocksync_go_away_sent_total"), before)
			logged(t, n.Nodes[0], "peer is sent away", string(peers[i].key.ID()), c.reason.String())
		})
	}
	t.Run("future slot", func(t *testing.T) { // clocks differ: dropped blocks, not dropped peers
		l := peers[len(cases)].dial(t, n.Nodes[0])
		header(t, peers[len(cases)], n, l, func(h *block.SealedHeader) {
			h.Record.Slot += 100_000
			h.Header.Time += 20_000
			h.Header.Extra = h.Record.Hash().Bytes()
		})
	})
	rawGarbage(t, n.Nodes[0], garbage)
	rawFrames(t, peers[0], n.Nodes[1], garbage)
	s := until(t, n, 0, "all peers are there", func(s Status) bool { return s.Peers >= 3 })
	finalAbove(t, n, s.Head+5, 0, 1, 2, 3)
	sameChain(t, n, 0, 1, 2, 3)
}

// sealedZero is the hash of block 0.
func sealedZero(t *testing.T, n *Network) common.Hash {
	t.Helper()
	g, err := genesis.Load(n.genesisFile())
	require.NoError(t, err)
	b, err := g.Block()
	require.NoError(t, err)
	return b.Hash()
}

// rawGarbage connects without any protocol: some close at once, some say nonsense, some say nothing. All are cut off,
// most by the time-out for setting up a connection.
func rawGarbage(t *testing.T, x *Node, garbage []byte) {
	t.Helper()
	var open []net.Conn
	for i := range 40 {
		c, err := net.Dial("tcp", x.P2P)
		require.NoError(t, err)
		switch i % 4 { // writing fails where the node has closed it already
		case 0:
			_, _ = c.Write(garbage)
		case 1:
			_, _ = c.Write([]byte("\x13/multistream/1.0.0\n\x07/noise\n"))
			_, _ = c.Write(garbage)
		case 2:
			_, _ = c.Write([]byte("GET / HTTP/1.1\r\n\r\n"))
		}
		if i < 4 {
			require.NoError(t, c.Close())
			continue
		}
		open = append(open, c)
	}
	for _, c := range open {
		require.NoError(t, c.SetReadDeadline(time.Now().Add(patience)))
		_, err := io.Copy(io.Discard, c)
		var late net.Error
		require.False(t, errorsAs(err, &late) && late.Timeout(), "the node keeps a connection")
		_ = c.Close()
	}
}

func errorsAs(err error, target *net.Error) bool {
	e, ok := err.(net.Error) //nolint:errorlint // of the connection itself
	*target = e
	return ok
}

// rawFrames opens libp2p's stream as a member and sends frames that no link sends.
func rawFrames(t *testing.T, p *badPeer, x *Node, garbage []byte) {
	t.Helper()
	hello := (&transport.Hello{Local: transport.SessionID{1}}).Encode()
	frame := func(h transport.Header, payload []byte) []byte {
		b := make([]byte, transport.HeaderBytes)
		transport.PutHeader(b, &h)
		return append(b, payload...)
	}
	opening := frame(transport.Header{Flags: transport.FlagControl, Type: transport.ControlHello, Length: uint32(len(hello)), Total: uint32(len(hello))}, hello) //nolint:gosec // small
	for name, content := range map[string][]byte{
		"no hello":        garbage,
		"half a header":   garbage[:7],
		"oversized":       append(bytes.Clone(opening), frame(transport.Header{Type: 1, Length: 1 << 31, Total: 1 << 31}, garbage)...),
		"out of sequence": append(bytes.Clone(opening), frame(transport.Header{Type: 1, Length: 8, Total: 8, Sequence: 77}, garbage[:8])...),
		"unknown lane":    append(bytes.Clone(opening), frame(transport.Header{Lane: 9, Type: 1, Length: 8, Total: 8}, garbage[:8])...),
		"garbage":         append(bytes.Clone(opening), garbage...),
	} {
		stream := p.stream(t, x)
		_, _ = stream.Write(content) // the node may have closed it
		if name == "half a header" {
			require.NoError(t, stream.CloseWrite())
		}
		require.NoError(t, stream.SetReadDeadline(time.Now().Add(patience)))
		_, err := io.Copy(io.Discard, bufio.NewReader(stream))
		var late net.Error
		require.False(t, errorsAs(err, &late) && late.Timeout(), "the node keeps the stream: %s", name)
	}
}

// stream is what a link writes its frames to.
func (p *badPeer) stream(t *testing.T, x *Node) network.MuxedStream {
	t.Helper()
	muxers := []upgrader.StreamMuxer{{ID: yamux.ID, Muxer: yamux.DefaultTransport}}
	security, err := noise.New(noise.ID, p.private, muxers)
	require.NoError(t, err)
	up, err := upgrader.New([]sec.SecureTransport{security}, muxers, nil, nil, nil)
	require.NoError(t, err)
	tr, err := libp2ptcp.NewTCPTransport(up, nil, nil, libp2ptcp.DisableReuseport())
	require.NoError(t, err)
	id, err := peer.Decode(x.PeerID)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	conn, err := tr.Dial(ctx, ma.StringCast(multiaddr(x.P2P)), id)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	if string(p.key.ID()) < x.PeerID { // the lower id opens
		s, err := conn.OpenStream(ctx)
		require.NoError(t, err)
		return s
	}
	s, err := conn.AcceptStream()
	require.NoError(t, err)
	return s
}
