package detect

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"sync"

	"github.com/bornode/bornode/transport"
)

var errPulled = errors.New("the cable was pulled")

// fakeFabric joins the channels of fake devices.
type fakeFabric struct {
	mu       sync.Mutex
	changed  *sync.Cond
	next     uint32
	channels map[uint32]*fakeChannel
}

func newFabric() *fakeFabric {
	f := &fakeFabric{channels: make(map[uint32]*fakeChannel)}
	f.changed = sync.NewCond(&f.mu)
	return f
}

// fakeDevice makes channels in memory, and fails as it is told.
type fakeDevice struct {
	fabric     *fakeFabric
	provider   string
	failed     chan struct{}
	mu         sync.Mutex
	made       int
	open       map[*fakeChannel]struct{}
	noChannel  error  // of NewChannel
	noConnect  error  // of Connect
	hang       bool   // Connect never succeeds
	oneSided   bool   // a break is seen on this side only
	rendezvous string // of the host
	closed     bool
}

func (f *fakeFabric) device(provider string) *fakeDevice {
	return &fakeDevice{fabric: f, provider: provider, failed: make(chan struct{}), open: make(map[*fakeChannel]struct{})}
}

func (d *fakeDevice) set(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f()
}

func (d *fakeDevice) channels() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.made
}

func (d *fakeDevice) live() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.open)
}

// endpoint gives the device as shared memory of a host, or as a NIC with an address.
func (d *fakeDevice) endpoint(host string, addr netip.Addr) *Endpoint {
	e := &Endpoint{Device: d, Provider: d.provider, Name: d.provider + " port 1", Port: 1, MTU: 4096, Addr: addr}
	if host != "" {
		d.rendezvous = host
		e.Host = d
	}
	return e
}

func (d *fakeDevice) Rendezvous() []byte { return []byte(d.rendezvous) }

func (d *fakeDevice) Reach(_ context.Context, rendezvous []byte) error {
	if string(rendezvous) != d.rendezvous {
		return errors.New("connection refused")
	}
	return nil
}

func (d *fakeDevice) NewChannel(ctx context.Context, peer transport.PeerID) (Channel, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.made++
	if d.noChannel != nil {
		return nil, d.noChannel
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	f := d.fabric
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next++
	c := &fakeChannel{device: d, id: f.next, peer: peer, done: make(chan struct{})}
	f.channels[c.id] = c
	d.open[c] = struct{}{}
	return c, nil
}

func (d *fakeDevice) Failed() <-chan struct{} { return d.failed }

// lose makes the device fail with all its channels.
func (d *fakeDevice) lose() {
	d.breakAll("")
	close(d.failed)
}

func (d *fakeDevice) Close() error {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	return nil
}

// breakAll breaks the channels with a peer, "" for all, and counts them.
func (d *fakeDevice) breakAll(peer transport.PeerID) int {
	d.mu.Lock()
	var list []*fakeChannel
	for c := range d.open {
		if peer == "" || c.peer == peer {
			list = append(list, c)
		}
	}
	alone := d.oneSided
	d.mu.Unlock()
	n := 0
	for _, c := range list {
		if c.fail(errPulled, !alone) {
			n++
		}
	}
	return n
}

// fakeChannel is one end of a channel.
type fakeChannel struct {
	device *fakeDevice
	id     uint32
	peer   transport.PeerID
	done   chan struct{}

	// Guarded by the fabric's mutex.
	other   *fakeChannel
	wants   uint32 // whom Connect names
	queue   []transport.Frame
	bytes   int
	payload []byte
	err     error
}

const fakePipeBytes = 512 << 10

var _ Channel = (*fakeChannel)(nil)

func (c *fakeChannel) Local() []byte { return binary.BigEndian.AppendUint32(nil, c.id) }

func (c *fakeChannel) Connect(ctx context.Context, remote []byte, lead bool) error {
	f := c.device.fabric
	defer context.AfterFunc(ctx, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.changed.Broadcast()
	})()
	c.device.mu.Lock()
	err, hang := c.device.noConnect, c.device.hang
	c.device.mu.Unlock()
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(remote) == 4 {
		c.wants = binary.BigEndian.Uint32(remote)
	}
	f.changed.Broadcast()
	for {
		o := f.channels[c.wants]
		switch {
		case c.err != nil:
			return c.err
		case ctx.Err() != nil:
			return ctx.Err()
		case o != nil && o != c && o.wants == c.id && !hang && o.err == nil:
			c.other = o
			return nil
		}
		f.changed.Wait()
	}
}

func (c *fakeChannel) Name() string { return c.device.provider }

func (c *fakeChannel) Limits() transport.ProviderLimits {
	return transport.ProviderLimits{SliceBytes: 32 << 10, UnacknowledgedBytes: 256 << 10}
}

func (c *fakeChannel) WriteFrames(frames []transport.Frame) error {
	f := c.device.fabric
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, x := range frames {
		o := c.other
		for c.err == nil && o.err == nil && o.bytes > fakePipeBytes {
			f.changed.Wait()
		}
		if c.err != nil {
			return c.err
		}
		x.Payload = append([]byte(nil), x.Payload...)
		if o.err == nil {
			o.queue = append(o.queue, x)
			o.bytes += len(x.Payload) + transport.HeaderBytes
		}
	}
	f.changed.Broadcast()
	return nil
}

func (c *fakeChannel) ReadHeader() (transport.Header, error) {
	f := c.device.fabric
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(c.queue) == 0 && c.err == nil {
		f.changed.Wait()
	}
	if len(c.queue) == 0 {
		return transport.Header{}, c.err
	}
	x := c.queue[0]
	c.queue = c.queue[1:]
	c.bytes -= len(x.Payload) + transport.HeaderBytes
	c.payload = x.Payload
	f.changed.Broadcast()
	return x.Header, nil
}

func (c *fakeChannel) ReadPayload(dst []byte) error {
	if copy(dst, c.payload) != len(dst) {
		return fmt.Errorf("payload of %d bytes, wanted %d", len(c.payload), len(dst))
	}
	return nil
}

func (c *fakeChannel) Counters() map[string]uint64 { return map[string]uint64{"fake": uint64(c.id)} }

func (c *fakeChannel) Done() <-chan struct{} { return c.done }

func (c *fakeChannel) Err() error {
	c.device.fabric.mu.Lock()
	defer c.device.fabric.mu.Unlock()
	return c.err
}

func (c *fakeChannel) Close() error {
	c.fail(transport.ErrClosed, true)
	return nil
}

// fail ends the channel, and the other end unless it is not to notice.
func (c *fakeChannel) fail(err error, both bool) bool {
	f := c.device.fabric
	f.mu.Lock()
	defer f.mu.Unlock()
	if c.err != nil {
		return false
	}
	ends := []*fakeChannel{c}
	if both && c.other != nil && c.other.err == nil {
		ends = append(ends, c.other)
	}
	for _, e := range ends {
		e.err = err
		if errors.Is(err, transport.ErrClosed) && e != c {
			e.err = errors.New("the peer closed its end")
		}
		close(e.done)
		delete(f.channels, e.id)
		go e.forget() // its device's mutex may be held
	}
	f.changed.Broadcast()
	return true
}

func (c *fakeChannel) forget() {
	c.device.mu.Lock()
	defer c.device.mu.Unlock()
	delete(c.device.open, c)
}
