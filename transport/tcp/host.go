package tcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/connmgr"
	"github.com/libp2p/go-libp2p/core/control"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/sec"
	libp2p "github.com/libp2p/go-libp2p/core/transport"
	"github.com/libp2p/go-libp2p/p2p/muxer/yamux"
	"github.com/libp2p/go-libp2p/p2p/net/upgrader"
	"github.com/libp2p/go-libp2p/p2p/security/noise"
	"github.com/libp2p/go-libp2p/p2p/transport/tcp"
	goyamux "github.com/libp2p/go-yamux/v5"
	ma "github.com/multiformats/go-multiaddr"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/bornode/bornode/transport"
	"github.com/bornode/bornode/transport/link"
)

// Config sets a Host.
type Config struct {
	Listen []string    `mapstructure:"listen" comment:"Addresses to listen on, as /ip4/0.0.0.0/tcp/9876. Empty: this node only dials."`
	Link   link.Config `mapstructure:"link" comment:"Heartbeats, time-outs and the pace of dialling."`

	// Upgrader moves links to faster pipes; nil: all stay here.
	Upgrader link.Upgrader `mapstructure:"-"`
}

// DefaultConfig listens on every IPv4 address.
func DefaultConfig() Config {
	return Config{Listen: []string{"/ip4/0.0.0.0/tcp/9876"}, Link: link.DefaultConfig()}
}

// Validate reports the first setting that cannot work.
func (c *Config) Validate() error {
	for _, s := range c.Listen {
		if _, err := listenAddr(s); err != nil {
			return err
		}
	}
	return c.Link.Validate()
}

func listenAddr(s string) (ma.Multiaddr, error) {
	a, err := ma.NewMultiaddr(s)
	if err != nil {
		return nil, fmt.Errorf("tcp: listen address %q: want /ip4/ADDRESS/tcp/PORT: %w", s, err)
	}
	if _, err := a.ValueForProtocol(ma.P_TCP); err != nil {
		return nil, fmt.Errorf("tcp: listen address %q has no /tcp/PORT", s)
	}
	return a, nil
}

// Host is a node on a TCP network; see transport.Host.
type Host struct {
	*link.Peers
	identity  *Identity
	upgrader  link.Upgrader
	timeout   time.Duration
	log       *zap.Logger
	strangers *strangers
	resources network.ResourceManager
	transport *tcp.TcpTransport
	listeners []libp2p.Listener
	ctx       context.Context
	cancel    context.CancelFunc
	wg        sync.WaitGroup // accepting and setting up
}

var _ transport.Host = (*Host)(nil)

// New starts a host. log and reg may be nil.
func New(cfg Config, identity *Identity, log *zap.Logger, reg prometheus.Registerer) (*Host, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if log == nil {
		log = zap.NewNop()
	}
	h := &Host{identity: identity, upgrader: cfg.Upgrader, timeout: cfg.Link.HelloTimeout, log: log, strangers: &strangers{limit: maxTransientConns}}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	var err error
	if h.Peers, err = link.NewPeers(cfg.Link, identity.ID(), h.connect, log, reg); err != nil {
		return nil, err
	}
	if err := h.build(&cfg); err != nil {
		return nil, errors.Join(err, h.Close())
	}
	for _, l := range h.listeners {
		h.wg.Go(func() { h.acceptLoop(l) })
	}
	return h, nil
}

// build puts libp2p's parts together and listens.
func (h *Host) build(cfg *Config) error {
	var err error
	if h.resources, err = newResourceManager(cfg.Link.MaxPeers); err != nil {
		return fmt.Errorf("tcp: resource limits: %w", err)
	}
	muxers := []upgrader.StreamMuxer{{ID: yamux.ID, Muxer: (*yamux.Transport)(yamuxConfig())}}
	security, err := noise.New(noise.ID, h.identity.key, muxers)
	if err != nil {
		return fmt.Errorf("tcp: noise: %w", err)
	}
	up, err := upgrader.New([]sec.SecureTransport{security}, muxers, nil, h.resources, gater{h.Peers, h.strangers}, upgrader.WithAcceptTimeout(h.timeout))
	if err != nil {
		return fmt.Errorf("tcp: %w", err)
	}
	h.transport, err = tcp.NewTCPTransport(strangersUpgrader{up, h.strangers}, h.resources, nil, tcp.DisableReuseport(), tcp.WithConnectionTimeout(h.timeout))
	if err != nil {
		return fmt.Errorf("tcp: %w", err)
	}
	for _, s := range cfg.Listen {
		a, err := listenAddr(s)
		if err != nil {
			return err
		}
		l, err := h.transport.Listen(a)
		if err != nil {
			return fmt.Errorf("tcp: cannot listen on %s: %w", s, err)
		}
		h.listeners = append(h.listeners, l)
	}
	return nil
}

// yamuxConfig leaves liveness to the link's heartbeats and admits the few streams a connection has.
func yamuxConfig() *goyamux.Config {
	c := goyamux.DefaultConfig()
	c.EnableKeepAlive = false
	c.MeasureRTTInterval = 24 * time.Hour // only tunes a window that is fixed here
	c.AcceptBacklog = maxStreams
	c.MaxIncomingStreams = maxStreams
	c.InitialStreamWindowSize = windowBytes
	c.MaxStreamWindowSize = windowBytes
	c.MaxMessageSize = maxYamuxMessage
	c.ReadBufSize = 0 // Noise buffers
	c.LogOutput = io.Discard
	return c
}

// ID implements transport.Host.
func (h *Host) ID() transport.PeerID { return h.identity.ID() }

// Addrs implements transport.Host.
func (h *Host) Addrs() []string {
	addrs := make([]string, 0, len(h.listeners))
	for _, l := range h.listeners {
		addrs = append(addrs, l.Multiaddr().String()+"/p2p/"+h.identity.id.String())
	}
	return addrs
}

// Dial implements transport.Host. Addresses may name the host by /dns, /dns4 or /dns6 instead of /ip4 or /ip6; the
// name is resolved anew at each attempt.
func (h *Host) Dial(ctx context.Context, addr string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	info, err := parse(addr)
	if err != nil {
		return err
	}
	return h.Peers.Dial(transport.PeerID(info.ID.String()), addr)
}

func parse(addr string) (*peer.AddrInfo, error) {
	info, err := peer.AddrInfoFromString(addr)
	if err != nil {
		return nil, fmt.Errorf("tcp: address %q: want /ip4/ADDRESS/tcp/PORT/p2p/PEER: %w", addr, err)
	}
	if len(info.Addrs) != 1 {
		return nil, fmt.Errorf("tcp: address %q: nothing before /p2p/", addr)
	}
	if _, err := info.Addrs[0].ValueForProtocol(ma.P_TCP); err != nil {
		return nil, fmt.Errorf("tcp: address %q has no /tcp/PORT", addr)
	}
	return info, nil
}

// connect makes one connection and puts the peer's link on it.
func (h *Host) connect(ctx context.Context, addr string) error {
	info, err := parse(addr)
	if err != nil {
		return err
	}
	targets, err := resolve(ctx, info.Addrs[0])
	if err != nil {
		return err
	}
	for _, target := range targets {
		var conn libp2p.CapableConn
		if conn, err = h.transport.Dial(ctx, target, info.ID); err == nil {
			return h.serve(ctx, conn, false)
		}
	}
	return err
}

// resolve turns a DNS name at the front of an address into IP addresses.
func resolve(ctx context.Context, a ma.Multiaddr) ([]ma.Multiaddr, error) {
	first, rest := ma.SplitFirst(a)
	if first == nil {
		return nil, errors.New("tcp: empty address")
	}
	var family string
	switch first.Protocol().Code {
	case ma.P_DNS:
		family = "ip"
	case ma.P_DNS4:
		family = "ip4"
	case ma.P_DNS6:
		family = "ip6"
	default:
		return []ma.Multiaddr{a}, nil
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, family, first.Value())
	if err != nil {
		return nil, fmt.Errorf("tcp: %s: %w", a, err)
	}
	var out []ma.Multiaddr
	for _, ip := range ips {
		ip = ip.Unmap()
		kind := "/ip4/"
		if ip.Is6() {
			kind = "/ip6/"
		}
		m, err := ma.NewMultiaddr(kind + ip.String())
		if err != nil {
			return nil, fmt.Errorf("tcp: %s: %w", a, err)
		}
		out = append(out, m.Encapsulate(rest))
	}
	return out, nil
}

// serve hands a connection to the table of links.
func (h *Host) serve(ctx context.Context, raw libp2p.CapableConn, incoming bool) error {
	id := transport.PeerID(raw.RemotePeer().String())
	c, err := newConn(raw, h.Leads(id), h.upgrader == nil, h.timeout)
	if err != nil {
		_ = raw.Close() // err is what matters
		return err
	}
	h.wg.Go(func() { c.accept(h.log) })
	return h.Serve(ctx, id, incoming, c, h.upgrader)
}

func (h *Host) acceptLoop(l libp2p.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			if h.ctx.Err() == nil {
				h.log.Error("no longer listening", zap.String("address", l.Multiaddr().String()), zap.Error(err))
			}
			return
		}
		h.wg.Go(func() {
			ctx, cancel := context.WithTimeout(h.ctx, h.timeout)
			defer cancel()
			if err := h.serve(ctx, conn, true); err != nil {
				h.log.Debug("incoming connection failed", zap.String("peer", conn.RemotePeer().String()), zap.Error(err))
			}
		})
	}
}

// Close implements transport.Host.
func (h *Host) Close() error {
	h.cancel()
	var errs []error
	for _, l := range h.listeners {
		if err := l.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	errs = append(errs, h.Peers.Close())
	h.wg.Wait()
	if h.resources != nil {
		errs = append(errs, h.resources.Close())
	}
	return errors.Join(errs...)
}

// gater asks the gate as soon as Noise has proved who the peer is; both sides of a connection ask.
type gater struct {
	peers     *link.Peers
	strangers *strangers
}

var _ connmgr.ConnectionGater = gater{}

func (g gater) allowed(id peer.ID) bool {
	return g.peers.Allowed(transport.PeerID(id.String())) == nil
}

func (g gater) InterceptPeerDial(id peer.ID) bool                               { return g.allowed(id) }
func (g gater) InterceptAddrDial(id peer.ID, _ ma.Multiaddr) bool               { return g.allowed(id) }
func (g gater) InterceptAccept(network.ConnMultiaddrs) bool                     { return true }
func (g gater) InterceptUpgraded(network.Conn) (bool, control.DisconnectReason) { return true, 0 }

func (g gater) InterceptSecured(_ network.Direction, id peer.ID, c network.ConnMultiaddrs) bool {
	g.strangers.release(c) // a stranger or not: who it is has been proved
	return g.allowed(id)
}
