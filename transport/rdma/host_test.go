package rdma

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/transport"
	"github.com/bornode/bornode/transport/conformance"
	"github.com/bornode/bornode/transport/link"
	"github.com/bornode/bornode/transport/rdma/fabric"
)

// directNet is hosts whose links run on channels alone: what DETECT tells over its control stream is handed over in
// memory.
type directNet struct {
	open func(t testing.TB, name string) fabric.Device
	cfg  Config
	beat time.Duration // instead of the suite's heartbeat; 0: the suite's

	mu    sync.Mutex
	hosts map[transport.PeerID]*directHost
}

// directHost is a transport.Host.
type directHost struct {
	*link.Peers
	net *directNet
	id  transport.PeerID
	dev *Device
	wg  sync.WaitGroup

	mu     sync.Mutex
	closed bool
}

var _ transport.Host = (*directHost)(nil)

const directPrefix = "/direct/p2p/"

func hostName(i int) transport.PeerID { return transport.PeerID(fmt.Sprintf("host-%d", i)) }

func (n *directNet) newHost(t testing.TB, id transport.PeerID, cfg link.Config) *directHost {
	t.Helper()
	if n.beat > 0 {
		cfg.Heartbeat = n.beat
	}
	h := &directHost{net: n, id: id}
	var err error
	h.dev, err = Open(n.open(t, string(id)), n.cfg, testLog(t), nil)
	require.NoError(t, err)
	h.Peers, err = link.NewPeers(cfg, id, h.connect, testLog(t), nil)
	require.NoError(t, err)
	n.mu.Lock()
	defer n.mu.Unlock()
	require.Nil(t, n.hosts[id])
	n.hosts[id] = h
	return h
}

func (h *directHost) ID() transport.PeerID { return h.id }

func (h *directHost) Addrs() []string { return []string{directPrefix + string(h.id)} }

func (h *directHost) Dial(ctx context.Context, addr string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	id, ok := strings.CutPrefix(addr, directPrefix)
	if !ok || id == "" {
		return errors.New("direct: bad address")
	}
	return h.Peers.Dial(transport.PeerID(id), addr)
}

func (n *directNet) find(id transport.PeerID) (*directHost, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if h := n.hosts[id]; h != nil {
		return h, nil
	}
	return nil, fmt.Errorf("direct: no host %s", id)
}

// open connects a channel of each host and lets the target take its end.
func (h *directHost) channel(ctx context.Context, to transport.PeerID) (*Channel, error) {
	target, err := h.net.find(to)
	if err != nil {
		return nil, err
	}
	x, err := h.dev.NewChannel(ctx, to)
	if err != nil {
		return nil, err
	}
	y, err := target.dev.NewChannel(ctx, h.id)
	if err == nil {
		err = join(ctx, x, y)
	}
	if err == nil {
		err = target.accept(h.id, y)
	}
	if err != nil {
		_ = x.Close()
		if y != nil {
			_ = y.Close()
		}
		return nil, err
	}
	return x, nil
}

func (h *directHost) connect(ctx context.Context, addr string) error {
	to := transport.PeerID(strings.TrimPrefix(addr, directPrefix))
	x, err := h.channel(ctx, to)
	if err != nil {
		return err
	}
	return h.Attach(ctx, to, false, x)
}

func (h *directHost) accept(from transport.PeerID, c *Channel) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return errors.New("direct: closed")
	}
	h.wg.Go(func() { _ = h.Attach(context.Background(), from, true, c) })
	return nil
}

func (h *directHost) Close() error {
	h.net.mu.Lock()
	if h.net.hosts[h.id] == h {
		delete(h.net.hosts, h.id)
	}
	h.net.mu.Unlock()
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	err := h.Peers.Close()
	h.wg.Wait()
	return errors.Join(err, h.dev.Close())
}

// live counts the channels with a peer that work.
func (h *directHost) live(peer transport.PeerID) (n int) {
	for _, c := range h.dev.all() {
		if c.peer == peer && c.Err() == nil {
			n++
		}
	}
	return n
}

// rawChannel is a Channel as a peer without a link uses it. A frame that is shorter than its header says is one that
// the end of the connection cut off: then it lies in the ring and was never published.
type rawChannel struct{ *Channel }

func (r rawChannel) WriteFrames(frames []transport.Frame) error {
	for i := range frames {
		if n := frames[i].Header.Length; n <= transport.MaxSliceBytes && int(n) > len(frames[i].Payload) {
			return r.Channel.WriteFrames(frames[:i])
		}
	}
	return r.Channel.WriteFrames(frames)
}

// harness makes a directNet for each test of the suite.
func harness(cfg Config, beat time.Duration, network func(t testing.TB) func(t testing.TB, name string) fabric.Device) conformance.Harness {
	var mu sync.Mutex
	nets := make(map[testing.TB]*directNet)
	of := func(t testing.TB) *directNet {
		mu.Lock()
		defer mu.Unlock()
		if nets[t] == nil {
			nets[t] = &directNet{open: network(t), cfg: cfg, beat: beat, hosts: make(map[transport.PeerID]*directHost)}
		}
		return nets[t]
	}
	return conformance.Harness{
		NewHost: func(t testing.TB, i int, cfg link.Config) transport.Host { return of(t).newHost(t, hostName(i), cfg) },
		Addr:    func(_ testing.TB, h transport.Host) string { return h.Addrs()[0] },
		Break: func(a, b transport.Host) int {
			x, y := a.(*directHost), b.(*directHost)
			y.dev.Break(x.id)
			return x.dev.Break(y.id)
		},
		Connections: func(a, b transport.Host) int { return a.(*directHost).live(b.ID()) },
		Raw: func(t testing.TB, i int, target transport.Host) (transport.PeerID, transport.Provider) {
			victim := target.(*directHost)
			h := &directHost{net: victim.net, id: hostName(i)}
			var err error
			h.dev, err = Open(h.net.open(t, string(h.id)), h.net.cfg, testLog(t), nil)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, h.dev.Close()) })
			c, err := h.channel(patient(t), victim.id)
			require.NoError(t, err)
			return h.id, rawChannel{c}
		},
		Long: long,
	}
}
