package wire

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/bornode/bornode/transport"
	"github.com/bornode/bornode/transport/link"
	"github.com/bornode/bornode/transport/rdma"
	"github.com/bornode/bornode/transport/rdma/fabric"
	"github.com/bornode/bornode/transport/rdma/shm"
	"github.com/bornode/bornode/transport/rdma/verbs"
)

// spinOf is rdma.Config.Spin for a way of waiting.
func spinOf(wait string) (time.Duration, error) {
	switch wait {
	case Polled:
		return time.Second, nil // the longest there is
	case Slept:
		return 0, nil
	case Spin:
		return rdma.DefaultConfig().Spin, nil
	}
	return 0, fmt.Errorf("there is no way of waiting %q", wait)
}

// opener opens a fabric device.
type opener func() (fabric.Device, error)

// channels are RDMA channels, one per peer, on one device in each process, with links on them or without.
type channels struct {
	owned
	open     opener
	provider string
	spin     time.Duration
	links    bool
	near     bool
	offered  [][]byte // by the far side, if this is the near one
	device   *rdma.Device
	mine     []*rdma.Channel
}

const nearID = transport.PeerID("near")

func farID(i int) transport.PeerID { return transport.PeerID(fmt.Sprintf("far-%02d", i)) }

// start opens the device and one channel per peer.
func (c *channels) start(ctx context.Context, peers int) ([][]byte, error) {
	fd, err := c.open()
	if err != nil {
		return nil, err
	}
	cfg := rdma.DefaultConfig()
	cfg.Spin = c.spin
	if c.device, err = rdma.Open(fd, cfg, nil, nil); err != nil {
		return nil, err
	}
	c.own(c.device.Close)
	if p := c.device.Caps().Provider; p != c.provider {
		return nil, fmt.Errorf("the device is %s, not %s", p, c.provider)
	}
	out := make([][]byte, peers)
	for i := range out {
		peer := nearID
		if c.near {
			peer = farID(i)
		}
		x, err := c.device.NewChannel(ctx, peer)
		if err != nil {
			return nil, err
		}
		c.own(x.Close)
		c.mine = append(c.mine, x)
		out[i] = x.Local()
	}
	return out, nil
}

func (c *channels) offer(ctx context.Context, peers int) ([][]byte, error) {
	return c.start(ctx, peers)
}

func (c *channels) answer(ctx context.Context, offer [][]byte) ([][]byte, error) {
	c.near, c.offered = true, offer
	return c.start(ctx, len(offer))
}

func (c *channels) join(ctx context.Context, remote [][]byte) ([]end, error) {
	if c.near {
		remote = c.offered
	}
	if len(remote) != len(c.mine) {
		return nil, fmt.Errorf("%d peers, expected %d", len(remote), len(c.mine))
	}
	out := make([]end, len(remote))
	for i, x := range c.mine { // in the same order on both sides
		if err := x.Connect(ctx, remote[i], c.near); err != nil {
			return nil, err
		}
		out[i] = newFrames(x)
	}
	if !c.links {
		return out, nil
	}
	return c.attach(ctx)
}

// attach puts a link on every channel.
func (c *channels) attach(ctx context.Context) ([]end, error) {
	var peers *link.Peers
	out := make([]end, len(c.mine))
	for i, x := range c.mine {
		self, peer := farID(i), nearID
		if c.near {
			self, peer = nearID, farID(i)
		}
		if peers == nil || !c.near {
			var err error
			if peers, err = link.NewPeers(link.DefaultConfig(), self, nil, nil, nil); err != nil {
				return nil, err
			}
			c.own(peers.Close)
		}
		if err := peers.Attach(ctx, peer, !c.near, x); err != nil {
			return nil, err
		}
		select {
		case l, ok := <-peers.Links():
			if !ok {
				return nil, transport.ErrClosed
			}
			out[i] = &messages{l}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return out, nil
}

// memory is the registered memory in use.
func (c *channels) memory() int64 { return c.device.Stats().PoolUsed }

// backend is what devices come from.
type backend struct {
	name      string
	providers []string // names that its devices may give themselves
	open      opener
}

var backends = []backend{
	{"shm", []string{"shm"}, func() (fabric.Device, error) { return shm.Open(shm.DefaultConfig(), zap.NewNop()) }},
	{"verbs", []string{"rdma", "rdma-rxe"}, func() (fabric.Device, error) { return verbs.Open(verbs.DefaultConfig(), zap.NewNop()) }},
}

// look opens a device of the backend and closes it again.
func (b *backend) look() (fabric.Caps, error) {
	fd, err := b.open()
	if err != nil {
		return fabric.Caps{}, err
	}
	d, err := rdma.Open(fd, rdma.DefaultConfig(), nil, nil)
	if err != nil {
		return fabric.Caps{}, err
	}
	return d.Caps(), d.Close()
}

// fastPaths lists what works here of package rdma, by the name that the device gives itself.
func fastPaths() (paths []Path, missing []string) {
	for _, b := range backends {
		caps, err := b.look()
		if err != nil {
			missing = append(missing, fmt.Sprintf("%s: %v", b.name, err))
			continue
		}
		for _, level := range []string{Channel, LinkUp} {
			for _, wait := range []string{Polled, Slept, Spin} {
				paths = append(paths, Path{caps.Provider, level, wait})
			}
		}
	}
	return paths, missing
}

// newChannels makes the carrier of a path over package rdma.
func newChannels(p Path) (carrier, error) {
	spin, err := spinOf(p.Wait)
	if err != nil {
		return nil, err
	}
	for _, b := range backends {
		if slices.Contains(b.providers, p.Provider) && (p.Level == Channel || p.Level == LinkUp) {
			return &channels{open: b.open, provider: p.Provider, spin: spin, links: p.Level == LinkUp}, nil
		}
	}
	return nil, errors.New("no backend offers it")
}
