package detect

import (
	"context"
	"net/netip"

	"github.com/bornode/bornode/transport"
	"github.com/bornode/bornode/transport/rdma"
)

// Channel is one end of a fast path, as an rdma.Channel is.
type Channel interface {
	transport.Provider
	Local() []byte
	Connect(ctx context.Context, remote []byte, lead bool) error
	Done() <-chan struct{}
	Err() error
}

// Device makes channels. It is closed by the Upgrader that it was given to.
type Device interface {
	NewChannel(ctx context.Context, peer transport.PeerID) (Channel, error)
	// Failed is closed when the device is lost.
	Failed() <-chan struct{}
	Close() error
}

// Wrap gives an rdma.Device as a Device.
func Wrap(d *rdma.Device) Device { return wrapped{d} }

type wrapped struct{ *rdma.Device }

func (w wrapped) NewChannel(ctx context.Context, peer transport.PeerID) (Channel, error) {
	c, err := w.Device.NewChannel(ctx, peer)
	if err != nil {
		return nil, err // not a nil *Channel in an interface
	}
	return c, nil
}

// Host tells whether a peer is on this host.
type Host interface {
	// Rendezvous is what the peer's Reach needs, at most 64 bytes.
	Rendezvous() []byte
	// Reach tries the peer's rendezvous; nil says that the peer is on this host.
	Reach(ctx context.Context, rendezvous []byte) error
}

// Endpoint is an opened device with what a peer must know to judge whether it can be reached.
type Endpoint struct {
	Device Device
	// Provider is the name for links over it: "shm", "rdma", "rdma-rxe".
	Provider string
	// Name is as in logs: device, port, GID.
	Name string
	// Host is set for shared memory; the fields below are for network devices.
	Host Host
	// InfiniBand tells that the port is no Ethernet port.
	InfiniBand bool
	Port       int
	MTU        int // bytes, of the path
	GID        [16]byte
	Addr       netip.Addr // of the GID, or of the port's network interface
	// Named tells that the operator chose it: it is used whatever address a connection has.
	Named bool
}

// Backend opens an endpoint. It is asked again after the endpoint's device failed.
type Backend interface {
	Open() (*Endpoint, error)
}

// BackendFunc is a function as a Backend.
type BackendFunc func() (*Endpoint, error)

// Open implements Backend.
func (f BackendFunc) Open() (*Endpoint, error) { return f() }

// offer is the endpoint as told over a connection with the given local address.
func (e *Endpoint) offer(id uint8, local netip.Addr) offer {
	o := offer{id: id, kind: offerRoCE, name: clean(e.Name, maxNameBytes)}
	switch {
	case e.Host != nil:
		return offer{id: id, kind: offerHost, rendezvous: e.Host.Rendezvous()}
	case e.InfiniBand:
		o.kind = offerInfiniBand
	}
	o.matches = e.Named || e.Addr.IsValid() && e.Addr == local
	o.port, o.mtu, o.gid = uint8(e.Port), uint16(min(e.MTU, 1<<16-1)), e.GID
	return o
}
