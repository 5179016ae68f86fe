package sim

import (
	"fmt"
	"unsafe"

	"github.com/bornode/bornode/transport/rdma/fabric"
)

// Device is a simulated RDMA device.
type Device struct {
	net   *Network
	index int
	name  string

	// Guarded by net.mu.
	events   chan fabric.Event
	lost     bool // failed or killed: nothing works on it
	closed   bool
	cqs      int
	srqs     int
	qps      []*QP // open ones
	byKey    map[uint32]*Region
	used     int    // registered bytes
	nextBase uint64 // the address that peers see of the next region
	numbers  uint32
	freed    []uint32 // numbers of closed queue pairs, for Faults.PurgeOnClose
}

var _ fabric.Device = (*Device)(nil)

// NewDevice adds a device to the network.
func (n *Network) NewDevice(name string) *Device {
	n.mu.Lock()
	defer n.mu.Unlock()
	d := &Device{
		net: n, index: len(n.devices), name: name, events: make(chan fabric.Event, eventBuffer),
		byKey: make(map[uint32]*Region), numbers: firstNumber, nextBase: firstBase,
	}
	n.devices = append(n.devices, d)
	return d
}

// Caps implements fabric.Device.
func (d *Device) Caps() fabric.Caps {
	f := &d.net.faults
	c := fabric.Caps{
		Provider: "sim", Device: "sim " + d.name, MapsRemote: f.MapsRemote, Reads: !f.MapsRemote && !f.NoReads,
		MaxSend: MaxSend, MaxRecv: MaxRecv, MaxCQ: MaxCQ,
	}
	if !f.NoInline {
		c.MaxInline = MaxInline
	}
	if c.Reads {
		c.MaxReads = MaxReads
	}
	return c
}

// making begins a control call: it fails on a closed or lost device, and as planted.
func (d *Device) making() error {
	switch {
	case d.closed:
		return fabric.ErrClosed
	case d.lost:
		return fmt.Errorf("%w: device %s is lost", fabric.ErrUnavailable, d.name)
	case d.net.chance(d.net.faults.ControlErrors):
		return errPlanted
	}
	return nil
}

// Events implements fabric.Device. The channel is never closed.
func (d *Device) Events() <-chan fabric.Event { return d.events }

// event queues an event. When the buffer is full, what is not an EventSRQLimit makes room.
func (d *Device) event(e fabric.Event) {
	for {
		select {
		case d.events <- e:
			return
		default:
		}
		if e.Kind != fabric.EventSRQLimit {
			return
		}
		d.makeRoom()
	}
}

// makeRoom drops the oldest event that may be dropped, or, when all are limits, the oldest: one like it stays.
func (d *Device) makeRoom() {
	var keep []fabric.Event
	dropped := false
	for range eventBuffer {
		select {
		case e := <-d.events:
			if !dropped && e.Kind != fabric.EventSRQLimit {
				dropped = true
				continue
			}
			keep = append(keep, e)
		default:
		}
	}
	if !dropped && len(keep) == eventBuffer {
		keep = keep[1:]
	}
	for _, e := range keep {
		d.events <- e // only the network's mutex lets anyone add
	}
}

// Fail loses the device, as when it is pulled out: its queue pairs flush, nothing can be made on it, and an event of
// the kind tells so (EventPortDown, EventDeviceFatal).
func (d *Device) Fail(kind fabric.EventKind) {
	d.net.mu.Lock()
	defer d.net.mu.Unlock()
	d.lost = true
	d.event(fabric.Event{Kind: kind, Text: "planted by the simulator"})
	for _, q := range d.qps {
		q.fail(breakNow, true)
	}
}

// Kill stops the device without a word, as when its process dies: no completion and no event comes any more. Peers
// notice when they send, or never.
func (d *Device) Kill() {
	d.net.mu.Lock()
	defer d.net.mu.Unlock()
	d.lost = true
	for _, q := range d.qps {
		q.kill()
	}
}

// Close implements fabric.Device. What is still open is an error: the user forgot it.
func (d *Device) Close() error {
	d.net.mu.Lock()
	defer d.net.mu.Unlock()
	if d.closed {
		return nil
	}
	d.closed = true
	if len(d.qps)+d.cqs+d.srqs+len(d.byKey) > 0 {
		return d.net.misuse("device %s is closed before %d queue pairs, %d completion queues, %d receive queues, %d regions",
			d.name, len(d.qps), d.cqs, d.srqs, len(d.byKey))
	}
	return nil
}

// Region is registered memory: see fabric.Region.
type Region struct {
	dev   *Device
	bytes []byte
	key   uint32
	base  uint64 // the address that peers see

	// Guarded by the network's mutex.
	requests int  // under way in send queues
	entries  int  // in receive queues
	exposed  int  // by open queue pairs
	mapped   bool // a peer has it, or may have it, with MapsRemote
	closed   bool
}

// NewRegion implements fabric.Device.
func (d *Device) NewRegion(size int) (fabric.Region, error) {
	if size < 1 || size > MaxRegion {
		return nil, fmt.Errorf("sim: a region of %d bytes: want 1 to %d", size, MaxRegion)
	}
	d.net.mu.Lock()
	if err := d.making(); err != nil {
		d.net.mu.Unlock()
		return nil, err
	}
	if limit := d.net.faults.RegionBytes; limit > 0 && d.used+size > limit {
		d.net.mu.Unlock()
		return nil, fmt.Errorf("%w: %d bytes are registered, %d more pass the limit of %d", fabric.ErrUnavailable, d.used, size, limit)
	}
	defer d.net.mu.Unlock()
	r := &Region{dev: d, bytes: pages(size), key: d.net.rng.Uint32()}
	for r.key == 0 || d.byKey[r.key] != nil {
		r.key = d.net.rng.Uint32()
	}
	r.base = d.nextBase
	d.nextBase += uint64(size+2*pageBytes-1) &^ (pageBytes - 1) // a page between regions belongs to nobody
	d.byKey[r.key] = r
	d.used += size
	d.net.counters.Registrations++
	return r, nil
}

// pages makes zeroed bytes that start at a page.
func pages(size int) []byte {
	b := make([]byte, size+pageBytes)
	skip := int(-uintptr(unsafe.Pointer(&b[0])) & (pageBytes - 1))
	return b[skip : skip+size : skip+size]
}

// Bytes implements fabric.Region.
func (r *Region) Bytes() []byte { return r.bytes }

// LocalKey implements fabric.Region.
func (r *Region) LocalKey() uint32 { return r.key }

// holds tells whether b lies in the region. What starts before it is far behind it, too: the difference wraps.
func (r *Region) holds(b []byte) bool {
	start, at := uintptr(unsafe.Pointer(unsafe.SliceData(r.bytes))), uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	return at-start <= uintptr(len(r.bytes)) && uintptr(len(b)) <= uintptr(len(r.bytes))-(at-start)
}

// Close implements fabric.Region. It fails while the memory is in use.
func (r *Region) Close() error {
	n := r.dev.net
	n.mu.Lock()
	defer n.mu.Unlock()
	if r.closed {
		return nil
	}
	if r.requests+r.entries+r.exposed > 0 {
		return n.misuse("a region is closed that %d requests and %d receive entries use and that is exposed %d times", r.requests, r.entries, r.exposed)
	}
	r.closed = true
	delete(r.dev.byKey, r.key)
	r.dev.used -= len(r.bytes)
	return nil
}

// ownRegion tells whether a region was made here.
func (d *Device) ownRegion(r fabric.Region) (*Region, error) {
	own, ok := r.(*Region)
	if !ok || own == nil || own.dev != d {
		return nil, d.net.misuse("a region of another device")
	}
	if own.closed {
		return nil, d.net.misuse("a closed region")
	}
	return own, nil
}
