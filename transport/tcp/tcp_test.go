package tcp

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"

	ma "github.com/multiformats/go-multiaddr"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/transport"
	"github.com/bornode/bornode/transport/conformance"
	"github.com/bornode/bornode/transport/link"
)

// bench holds identities and proxies of the hosts of one test.
type bench struct {
	mu         sync.Mutex
	identities map[int]*Identity
	proxies    map[transport.PeerID]*conformance.Proxy
}

func newBench() *bench {
	return &bench{identities: make(map[int]*Identity), proxies: make(map[transport.PeerID]*conformance.Proxy)}
}

func (b *bench) identity(t testing.TB, i int) *Identity {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.identities[i] == nil {
		id, err := GenerateIdentity()
		require.NoError(t, err)
		b.identities[i] = id
	}
	return b.identities[i]
}

func testConfig(cfg link.Config) Config {
	return Config{Listen: []string{"/ip4/127.0.0.1/tcp/0"}, Link: cfg}
}

func (b *bench) newHost(t testing.TB, i int, cfg link.Config) transport.Host {
	h, err := New(testConfig(cfg), b.identity(t, i), nil, nil)
	require.NoError(t, err)
	return h
}

func port(h transport.Host) string { return strings.Split(h.Addrs()[0], "/")[4] }

// proxied gives the host's address through a new proxy.
func (b *bench) proxied(t testing.TB, h transport.Host) string {
	p := conformance.NewProxy(t, "127.0.0.1:"+port(h))
	b.mu.Lock()
	defer b.mu.Unlock()
	b.proxies[h.ID()] = p
	return fmt.Sprintf("/ip4/127.0.0.1/tcp/%d/p2p/%s", p.Port(), h.ID())
}

// each sums what f gives for the proxies of the hosts.
func (b *bench) each(f func(*conformance.Proxy) int, hosts ...transport.Host) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for _, h := range hosts {
		if p := b.proxies[h.ID()]; p != nil {
			n += f(p)
		}
	}
	return n
}

// raw opens an authenticated connection and its stream, and nothing more.
func (b *bench) raw(t testing.TB, i int, target transport.Host) (transport.PeerID, transport.Provider) {
	id := b.identity(t, i)
	ctx, cancel := context.WithTimeout(context.Background(), conformance.Patience)
	defer cancel()
	pr, err := Raw(ctx, id, target.Addrs()[0])
	require.NoError(t, err)
	t.Cleanup(func() { _ = pr.Close() })
	return id.ID(), pr
}

func TestConformance(t *testing.T) {
	b := newBench()
	conformance.Run(t, conformance.Harness{
		NewHost:     b.newHost,
		Addr:        b.proxied,
		Break:       func(x, y transport.Host) int { return b.each((*conformance.Proxy).Cut, x, y) },
		Connections: func(x, y transport.Host) int { return b.each((*conformance.Proxy).Count, x, y) },
		Raw:         b.raw,
		Long:        os.Getenv("BORNODE_LONG") != "",
	})
}

func TestMessagesHoldTheLargestBlock(t *testing.T) {
	for _, lane := range []transport.Lane{transport.LaneConsensus, transport.LaneCatchUp} {
		require.Greater(t, transport.MaxMessageBytes(lane), block.MaxBlockBytes+block.MaxHeaderBytes)
	}
}

func BenchmarkLink(b *testing.B) {
	n := newBench()
	conformance.Benchmark(b, conformance.Harness{NewHost: n.newHost})
}

// BenchmarkStream is the floor under BenchmarkLink: the same connection without frames.
func BenchmarkStream(b *testing.B) {
	n := newBench()
	y := n.newHost(b, 1, conformance.Config()).(*Host)
	defer func() { require.NoError(b, y.Close()) }()
	l, err := y.transport.Listen(listenAny(b))
	require.NoError(b, err)
	defer l.Close()
	x := n.newHost(b, 0, conformance.Config()).(*Host)
	defer func() { require.NoError(b, x.Close()) }()
	conn, err := x.transport.Dial(context.Background(), l.Multiaddr(), y.identity.id)
	require.NoError(b, err)
	in, err := l.Accept()
	require.NoError(b, err)
	out, err := conn.OpenStream(context.Background())
	require.NoError(b, err)
	buf := make([]byte, gatherBytes)
	b.SetBytes(int64(len(buf)))
	go func() {
		for range b.N {
			_, _ = out.Write(buf) // a failure shows at the reader
		}
	}()
	s, err := in.AcceptStream()
	require.NoError(b, err)
	got := make([]byte, gatherBytes)
	b.ResetTimer()
	for range b.N {
		_, err := io.ReadFull(s, got)
		require.NoError(b, err)
	}
}

func listenAny(b *testing.B) ma.Multiaddr {
	a, err := listenAddr("/ip4/127.0.0.1/tcp/0")
	require.NoError(b, err)
	return a
}
