package tcp

import (
	"net/netip"

	"github.com/libp2p/go-libp2p/core/network"
	rcmgr "github.com/libp2p/go-libp2p/p2p/host/resource-manager"
	"github.com/libp2p/go-libp2p/x/rate"

	"github.com/bornode/bornode/transport"
)

// Bounds on what a peer, or a stranger, can make libp2p hold.
const (
	// maxYamuxMessage is the largest yamux message: with its header it fills one Noise message (65,519 bytes), so
	// that a slice leaves in one system call.
	maxYamuxMessage = 65519
	yamuxHeader     = 12
	// gatherBytes is what one write hands to yamux at most.
	gatherBytes = maxYamuxMessage - yamuxHeader
	// sliceBytes makes header and payload of a slice fill exactly one write.
	sliceBytes = gatherBytes - transport.HeaderBytes
	// maxStreams bounds a connection's streams: frames, control, and frames that follow others not yet gone.
	maxStreams = 4
	// maxUnknownStreams bounds the streams that have not said what they are.
	maxUnknownStreams = 2
	// windowBytes is the yamux receive window of a stream: lane 0's whole credit fits.
	windowBytes = 4 << 20
	// readBytes is the read buffer: many small frames in one read, while most of a slice goes straight to its place.
	readBytes = 8 << 10

	maxConnsPerPeer   = 8  // dials of both sides at once, and their retries
	maxTransientConns = 64 // not yet authenticated, per direction; incoming ones that are above it make room (strangers)
	memoryPerPeer     = maxStreams * windowBytes
	dialsPerSecond    = 50 // new connections from one address, after the burst
)

// newResourceManager bounds connections so that every configured peer fits several times and strangers cannot take
// the node's descriptors or memory. Loopback is not bounded by address: a test network lives there.
func newResourceManager(maxPeers int) (network.ResourceManager, error) {
	const transientIn = 2 * maxTransientConns // those that made room count until their handshakes have ended
	conns := rcmgr.LimitVal(4*maxPeers + transientIn + maxTransientConns)
	perAddress := 2*maxPeers + maxTransientConns
	limits := rcmgr.PartialLimitConfig{
		System: rcmgr.ResourceLimits{
			Conns: conns, ConnsInbound: conns, ConnsOutbound: conns, FD: conns,
			Memory: rcmgr.LimitVal64(int64(maxPeers+maxTransientConns) * memoryPerPeer),
		},
		Transient: rcmgr.ResourceLimits{
			Conns: transientIn + maxTransientConns, ConnsInbound: transientIn, ConnsOutbound: maxTransientConns,
			FD: transientIn + maxTransientConns, Memory: transientIn << 20,
		},
		PeerDefault: rcmgr.ResourceLimits{
			Conns: maxConnsPerPeer, ConnsInbound: maxConnsPerPeer, ConnsOutbound: maxConnsPerPeer, FD: maxConnsPerPeer,
			Memory: memoryPerPeer,
		},
		Conn: rcmgr.ResourceLimits{Conns: 1, ConnsInbound: 1, ConnsOutbound: 1, FD: 1, Memory: memoryPerPeer},
	}.Build(rcmgr.DefaultLimits.AutoScale())
	burst := rate.Limit{RPS: dialsPerSecond, Burst: perAddress}
	return rcmgr.NewResourceManager(rcmgr.NewFixedLimiter(limits),
		rcmgr.WithLimitPerSubnet(
			[]rcmgr.ConnLimitPerSubnet{{PrefixLength: 32, ConnCount: perAddress}},
			[]rcmgr.ConnLimitPerSubnet{{PrefixLength: 64, ConnCount: perAddress}}),
		rcmgr.WithConnRateLimiters(&rate.Limiter{
			NetworkPrefixLimits: []rate.PrefixLimit{
				{Prefix: netip.MustParsePrefix("127.0.0.0/8")},
				{Prefix: netip.MustParsePrefix("::1/128")},
			},
			SubnetRateLimiter: rate.SubnetLimiter{
				IPv4SubnetLimits: []rate.SubnetLimit{{PrefixLength: 32, Limit: burst}},
				IPv6SubnetLimits: []rate.SubnetLimit{{PrefixLength: 64, Limit: burst}},
			},
		}))
}
