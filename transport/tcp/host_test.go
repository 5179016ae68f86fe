package tcp

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/transport"
	"github.com/bornode/bornode/transport/conformance"
)

func TestIdentityFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "identity")
	id, err := LoadOrCreateIdentity(path)
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(string(id.ID()), "12D3Koo"), "an ed25519 peer id: %s", id.ID())
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o600), info.Mode().Perm())
	again, err := LoadOrCreateIdentity(path)
	require.NoError(t, err)
	require.Equal(t, id.ID(), again.ID())
	entries, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, entries, 1, "no temporary file stays")

	require.NoError(t, os.Chmod(path, 0o640))
	_, err = LoadOrCreateIdentity(path)
	require.ErrorContains(t, err, "chmod 600")
	require.NoError(t, os.Chmod(path, 0o600))
	for _, bad := range []string{"", "!!!", "AAAA", strings.Repeat("A", maxIdentityBytes+1)} {
		require.NoError(t, os.WriteFile(path, []byte(bad), 0o600))
		_, err = LoadOrCreateIdentity(path)
		require.ErrorContains(t, err, path)
	}
	_, err = LoadOrCreateIdentity(filepath.Dir(path))
	require.Error(t, err)
	_, err = LoadOrCreateIdentity(filepath.Join(path, "below", "nothing"))
	require.Error(t, err)
}

// TestIdentityRace: of many that create the same file, all end with the same key.
func TestIdentityRace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "identity")
	ids := make([]transport.PeerID, 16)
	var wg sync.WaitGroup
	for i := range ids {
		wg.Go(func() {
			if id, err := LoadOrCreateIdentity(path); err == nil {
				ids[i] = id.ID()
			}
		})
	}
	wg.Wait()
	for _, id := range ids {
		require.Equal(t, ids[0], id)
	}
	require.NotEmpty(t, ids[0])
}

func TestConfig(t *testing.T) {
	c := DefaultConfig()
	require.NoError(t, c.Validate())
	for _, bad := range []string{"", "0.0.0.0:9876", "/ip4/1.2.3.4/udp/1", "/ip4/1.2.3.4"} {
		c.Listen = []string{bad}
		require.Error(t, c.Validate(), bad)
	}
	c = DefaultConfig()
	c.Link.Heartbeat = 0
	require.Error(t, c.Validate())

	id, err := GenerateIdentity()
	require.NoError(t, err)
	h, err := New(testConfig(conformance.Config()), id, nil, nil)
	require.NoError(t, err)
	require.Equal(t, "/ip4/127.0.0.1/tcp/"+port(h)+"/p2p/"+string(h.ID()), h.Addrs()[0])
	other, err := GenerateIdentity()
	require.NoError(t, err)
	taken := testConfig(conformance.Config())
	taken.Listen = []string{"/ip4/127.0.0.1/tcp/" + port(h)}
	_, err = New(taken, other, nil, nil)
	require.ErrorContains(t, err, "cannot listen")
	require.NoError(t, h.Close())
}

func TestResolve(t *testing.T) {
	ctx := context.Background()
	a := ma.StringCast("/ip4/10.1.2.3/tcp/9")
	got, err := resolve(ctx, a)
	require.NoError(t, err)
	require.Equal(t, []ma.Multiaddr{a}, got)
	got, err = resolve(ctx, ma.StringCast("/dns4/localhost/tcp/9"))
	require.NoError(t, err)
	require.Contains(t, got[0].String(), "/ip4/127.0.0.1/tcp/9")
	for _, bad := range []string{"/ip4/1.2.3.4/tcp/1", "/p2p/12D3KooWJWoaqZhDaoEFshF7Rh1bpY9ohihFhzcW6d69Lr2NASuq", "/ip4/1.2.3.4/udp/1/p2p/12D3KooWJWoaqZhDaoEFshF7Rh1bpY9ohihFhzcW6d69Lr2NASuq"} {
		_, err := parse(bad)
		require.Error(t, err, bad)
	}
}

// TestWrongIdentity: whoever answers at the address must prove the identity in it.
func TestWrongIdentity(t *testing.T) {
	n := newBench()
	a, b := n.newHost(t, 0, conformance.Config()), n.newHost(t, 1, conformance.Config())
	defer func() { require.NoError(t, errors.Join(a.Close(), b.Close())) }()
	other := n.identity(t, 2)
	err := a.(*Host).connect(context.Background(), "/ip4/127.0.0.1/tcp/"+port(b)+"/p2p/"+string(other.ID()))
	require.ErrorContains(t, err, "peer id mismatch")
	require.Empty(t, b.Links())
}

// TestStrangers: connections that never get anywhere, or talk nonsense, do not keep a member out while they are open.
func TestStrangers(t *testing.T) {
	n := newBench()
	b := n.newHost(t, 1, conformance.Config())
	defer func() { require.NoError(t, b.Close()) }()
	var conns []net.Conn
	defer func() {
		for _, c := range conns {
			_ = c.Close()
		}
	}()
	for i := range 3 * maxTransientConns {
		c, err := net.Dial("tcp", "127.0.0.1:"+port(b))
		require.NoError(t, err)
		conns = append(conns, c)
		if i%2 == 0 {
			_, _ = c.Write([]byte("GET / HTTP/1.1\r\n\r\n")) // it may have hung up
		}
	}
	a := n.newHost(t, 0, conformance.Config())
	defer func() { require.NoError(t, a.Close()) }()
	require.NoError(t, a.Dial(context.Background(), b.Addrs()[0]))
	select {
	case l := <-b.Links():
		require.Equal(t, a.ID(), l.Peer())
	case <-time.After(conformance.Patience):
		require.FailNow(t, "the member was kept out")
	}
}

// TestStrangersMakeRoom: the oldest connection of the host with most goes, and who proved itself is none of them.
func TestStrangersMakeRoom(t *testing.T) {
	s := &strangers{limit: 3}
	first, second, third := newFakeConn(t, "10.0.0.1"), newFakeConn(t, "10.0.0.2"), newFakeConn(t, "10.0.0.2")
	for _, c := range []*fakeConn{first, second, third} {
		s.admit(c)
	}
	require.False(t, first.closed || second.closed || third.closed)
	member := newFakeConn(t, "10.0.0.3")
	s.admit(member)
	require.True(t, second.closed, "the older one of the host with two")
	require.False(t, first.closed || third.closed || member.closed)
	s.release(member)
	require.Len(t, s.mu.waiting, 2)
	for range 2 * s.limit {
		s.admit(newFakeConn(t, "10.0.0.2"))
	}
	require.False(t, first.closed || member.closed, "others of a host with many do not displace another host's")
	require.Len(t, s.mu.waiting, s.limit)
}

type fakeConn struct {
	manet.Conn
	remote ma.Multiaddr
	closed bool
}

func newFakeConn(t *testing.T, ip string) *fakeConn {
	a, err := ma.NewMultiaddr("/ip4/" + ip + "/tcp/1")
	require.NoError(t, err)
	return &fakeConn{remote: a}
}

func (c *fakeConn) RemoteMultiaddr() ma.Multiaddr { return c.remote }
func (c *fakeConn) Close() error                  { c.closed = true; return nil }

// TestManyPeers: the resource limits admit a full house from one address.
func TestManyPeers(t *testing.T) {
	n := newBench()
	hub := n.newHost(t, 0, conformance.Config())
	defer func() { require.NoError(t, hub.Close()) }()
	count := 30
	if os.Getenv("BORNODE_LONG") != "" {
		count = 120
	}
	for i := range count {
		h := n.newHost(t, i+1, conformance.Config())
		defer func() { require.NoError(t, h.Close()) }()
		require.NoError(t, h.Dial(context.Background(), hub.Addrs()[0]))
	}
	seen := make(map[transport.PeerID]bool)
	for len(seen) < count {
		select {
		case l := <-hub.Links():
			seen[l.Peer()] = true
			require.NoError(t, l.Send(context.Background(), transport.Message{Payload: []byte("welcome")}))
		case <-time.After(conformance.Patience):
			require.FailNow(t, "peers are missing", "%d of %d", len(seen), count)
		}
	}
}

// TestOversizedFrameOnWire: a frame cut for another provider is larger than this one's slices and still passes.
func TestOversizedFrame(t *testing.T) {
	n := newBench()
	b := n.newHost(t, 0, conformance.Config())
	defer func() { require.NoError(t, b.Close()) }()
	id, pr := n.raw(t, 1, b)
	hello := transport.Hello{Local: transport.SessionID{1}}
	write := func(f transport.Frame) { require.NoError(t, pr.WriteFrames([]transport.Frame{f})) }
	say := func() {
		write(transport.Frame{Header: transport.Header{Flags: transport.FlagControl, Type: transport.ControlHello, Length: uint32(transport.HelloBytes)}, Payload: hello.Encode()})
	}
	if id < b.ID() {
		say()
	} else {
		h, err := pr.ReadHeader()
		require.NoError(t, err)
		require.NoError(t, pr.ReadPayload(make([]byte, h.Length)))
		say()
	}
	l := <-b.Links()
	payload := make([]byte, transport.MaxSliceBytes)
	for i := range payload {
		payload[i] = byte(i * 7)
	}
	write(transport.Frame{Header: transport.Header{Flags: transport.FlagFirst | transport.FlagLast, Length: uint32(len(payload)), Total: uint32(len(payload))}, Payload: payload})
	m, err := l.Recv(context.Background())
	require.NoError(t, err)
	require.Equal(t, payload, m.Payload)
}
