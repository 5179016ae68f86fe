package rdma

import (
	"context"
	"errors"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/bornode/bornode/transport"
	"github.com/bornode/bornode/transport/rdma/fabric"
)

// Errors of devices and channels; test with errors.Is. A peer that breaks the channel protocol gives
// transport.ErrProtocol, a channel or device that was closed here transport.ErrClosed.
var (
	// ErrBusy: the device has Config.MaxChannels channels.
	ErrBusy = errors.New("rdma: the device has as many channels as it may")
	// ErrBroken: the queue pair failed, or the peer closed its end. The text names provider and status.
	ErrBroken = errors.New("rdma: channel is broken")
	// ErrDeviceLost: the device itself has failed (see Device.Failed).
	ErrDeviceLost = errors.New("rdma: device is lost")
)

// Device is an opened fabric device with its completion queue, shared receive queue, poller and memory. All methods
// may be called concurrently.
type Device struct {
	fd  fabric.Device
	cfg Config
}

// Open starts a device on fd and owns fd from then on: also when it fails it closes fd. The effective number of
// channels and entries follows from cfg and what fd can do; cfg's are upper bounds. log and reg may be nil. The metrics
// carry the label provider; who opens several devices of one provider wraps reg with another label. They leave reg
// with Close.
func Open(fd fabric.Device, cfg Config, log *zap.Logger, reg prometheus.Registerer) (*Device, error) {
	return nil, errors.ErrUnsupported
}

// Caps are those of the fabric device.
func (d *Device) Caps() fabric.Caps { return d.fd.Caps() }

// NewChannel makes one end of a channel with the peer; the peer's device makes the other. It waits for pool memory
// until ctx ends. ErrBusy when there are as many channels as there may be, ErrDeviceLost or transport.ErrClosed when
// the device is gone. The caller closes the channel.
func (d *Device) NewChannel(ctx context.Context, peer transport.PeerID) (*Channel, error) {
	return nil, errors.ErrUnsupported
}

// Serve offers src to the peers of all channels, present and future; nil ends the offer.
func (d *Device) Serve(src transport.Source) {}

// Stats is a snapshot of the counters.
func (d *Device) Stats() DeviceStats { return DeviceStats{} }

// Break breaks the queue pairs of the channels with the peer, "" means all peers, as a fault of the network would. It
// returns how many there were.
func (d *Device) Break(peer transport.PeerID) int { return 0 }

// Failed is closed when the device is lost: its completion queue overran, its port or the device itself has gone. All
// its channels have failed then. It stays open after a Close.
func (d *Device) Failed() <-chan struct{} { return nil }

// Close closes all channels, waits for the device's goroutines, frees everything and closes the fabric device. It may
// be called more than once.
func (d *Device) Close() error { return nil }
