package mem

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/bornode/bornode/transport"
	"github.com/bornode/bornode/transport/link"
)

// Faults is what is wrong between two hosts, in both directions. The zero value is a perfect network.
type Faults struct {
	Latency        time.Duration // one way, of each frame
	Silent         bool          // a black hole: frames are taken and not delivered; they arrive if it is lifted in time
	Refuse         bool          // no new connections
	DuplicateEvery int           // every n-th frame is delivered twice; 0: none
	ResetAfter     int           // each connection breaks after delivering this many frames, both directions together; 0: never
}

// Network connects hosts. All methods may be called concurrently.
type Network struct {
	mu      sync.Mutex
	hosts   map[transport.PeerID]*Host
	faults  map[pair]Faults
	windows map[route]*windowState
	conns   map[*connection]struct{}
}

type pair struct{ low, high transport.PeerID }

func pairOf(a, b transport.PeerID) pair {
	if b < a {
		a, b = b, a
	}
	return pair{a, b}
}

// connection is both ends of one connection.
type connection struct {
	pair   pair
	ends   [2]*conn
	frames int // carried, for ResetAfter; guarded by Network.mu
	once   sync.Once
	done   chan struct{} // closed with the connection
}

// NewNetwork makes an empty, perfect network.
func NewNetwork() *Network {
	return &Network{
		hosts:   make(map[transport.PeerID]*Host),
		faults:  make(map[pair]Faults),
		windows: make(map[route]*windowState),
		conns:   make(map[*connection]struct{}),
	}
}

const (
	addrPrefix = "/memory/1/p2p/"
	// MaxAccepting bounds the connections a host sets up at once.
	MaxAccepting = 64
)

// Addr is the address of the host called id.
func Addr(id transport.PeerID) string { return addrPrefix + string(id) }

// SetFaults replaces the faults between two hosts, for existing connections too.
func (n *Network) SetFaults(a, b transport.PeerID, f Faults) {
	n.mu.Lock()
	n.faults[pairOf(a, b)] = f
	var ends []*conn
	for c := range n.conns {
		if c.pair == pairOf(a, b) {
			ends = append(ends, c.ends[0])
		}
	}
	n.mu.Unlock()
	for _, e := range ends {
		e.in.look()
		e.out.look()
	}
}

// Reset breaks the connections between two hosts; what is under way is lost. It returns how many there were.
func (n *Network) Reset(a, b transport.PeerID) int {
	n.mu.Lock()
	var ends []*conn
	for c := range n.conns {
		if c.pair == pairOf(a, b) {
			ends = append(ends, c.ends[0])
		}
	}
	n.mu.Unlock()
	for _, e := range ends {
		_ = e.Close() // never fails
	}
	return len(ends)
}

// Connections counts the connections between two hosts.
func (n *Network) Connections(a, b transport.PeerID) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	count := 0
	for c := range n.conns {
		if c.pair == pairOf(a, b) {
			count++
		}
	}
	return count
}

// open makes a connection and returns its ends.
func (n *Network) open(from, to transport.PeerID) (*conn, *conn, *Host, error) {
	key := pairOf(from, to)
	n.mu.Lock()
	defer n.mu.Unlock()
	target := n.hosts[to]
	if target == nil || n.faults[key].Refuse {
		return nil, nil, nil, fmt.Errorf("mem: %s cannot be reached", to)
	}
	faults := func() Faults {
		n.mu.Lock()
		defer n.mu.Unlock()
		return n.faults[key]
	}
	c := &connection{pair: key, done: make(chan struct{})}
	carry := func(k int) bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		c.frames += k
		limit := n.faults[key].ResetAfter
		return limit == 0 || c.frames <= limit
	}
	forget := func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.conns, c)
		c.once.Do(func() { close(c.done) })
	}
	there, back := newHalf(faults), newHalf(faults)
	c.ends[0] = &conn{in: back, out: there, onClose: forget, frames: carry, window: n.window(c, route{from, to})}
	c.ends[1] = &conn{in: there, out: back, onClose: forget, frames: carry, window: n.window(c, route{to, from})}
	n.conns[c] = struct{}{}
	return c.ends[0], c.ends[1], target, nil
}

// Host is a node of a Network; see transport.Host.
type Host struct {
	id      transport.PeerID
	network *Network
	*link.Peers
	wg sync.WaitGroup

	mu        sync.Mutex
	accepting int
	closed    bool
	source    transport.Source
}

var _ transport.Host = (*Host)(nil)

// NewHost adds a host called id. log and reg may be nil.
func (n *Network) NewHost(id transport.PeerID, cfg link.Config, log *zap.Logger, reg prometheus.Registerer) (*Host, error) {
	h := &Host{id: id, network: n}
	peers, err := link.NewPeers(cfg, id, h.connect, log, reg)
	if err != nil {
		return nil, err
	}
	h.Peers = peers
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.hosts[id] != nil {
		return nil, fmt.Errorf("mem: a host called %q exists", id)
	}
	n.hosts[id] = h
	return h, nil
}

// ID implements transport.Host.
func (h *Host) ID() transport.PeerID { return h.id }

// Addrs implements transport.Host.
func (h *Host) Addrs() []string { return []string{Addr(h.id)} }

// Dial implements transport.Host.
func (h *Host) Dial(ctx context.Context, addr string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	id, ok := strings.CutPrefix(addr, addrPrefix)
	if !ok || id == "" {
		return fmt.Errorf("mem: address %q: want %s and a host's name", addr, addrPrefix)
	}
	return h.Peers.Dial(transport.PeerID(id), addr)
}

func (h *Host) connect(ctx context.Context, addr string) error {
	to := transport.PeerID(strings.TrimPrefix(addr, addrPrefix))
	mine, theirs, target, err := h.network.open(h.id, to)
	if err != nil {
		return err
	}
	if err := target.accept(h.id, theirs); err != nil {
		_ = mine.Close() // never fails
		return err
	}
	return h.Attach(ctx, to, false, mine)
}

// accept sets up a connection that another host opened.
func (h *Host) accept(from transport.PeerID, c *conn) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed || h.accepting >= MaxAccepting {
		return errors.New("mem: the host takes no connection now")
	}
	h.accepting++
	h.wg.Go(func() {
		_ = h.Attach(context.Background(), from, true, c) // logged by whoever dialled
		h.mu.Lock()
		defer h.mu.Unlock()
		h.accepting--
	})
	return nil
}

// Close implements transport.Host.
func (h *Host) Close() error {
	h.network.mu.Lock()
	if h.network.hosts[h.id] == h {
		delete(h.network.hosts, h.id)
	}
	h.network.mu.Unlock()
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	err := h.Peers.Close()
	h.wg.Wait()
	return err
}

// Raw opens a connection to a host as a peer that speaks frames by itself; nothing is sent on it yet.
func (n *Network) Raw(from, to transport.PeerID) (transport.Provider, error) {
	mine, theirs, target, err := n.open(from, to)
	if err != nil {
		return nil, err
	}
	if err := target.accept(from, theirs); err != nil {
		return nil, err
	}
	return mine, nil
}
