//go:build linux

package shm

import (
	"crypto/rand"
	"fmt"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/bornode/bornode/transport/rdma/fabric"
)

// Device is a process's end of the shared memory of its host.
type Device struct {
	cfg      Config
	log      *zap.Logger
	place    rendezvous
	listener *listener
	status   *statusPages
	events   *events
	source   atomic.Pointer[Source]
	huge     bool
	counters counters

	regions [MaxRegions]atomic.Pointer[Region]

	mu         sync.Mutex
	qps        map[uint32]*QP
	queues     map[any]struct{} // completion and receive queues
	tokens     map[token]*QP    // each works once
	nextQP     uint32
	nextRegion uint32
	closed     bool
	workers    sync.WaitGroup
}

type counters struct {
	registrations, wakes, refused atomic.Uint64
}

// Stats counts what a device did since it was opened.
type Stats struct {
	Registrations uint64 // regions made
	Wakes         uint64 // wake-ups received from peers
	Refused       uint64 // handshakes without a good token, or in excess
}

var _ fabric.Device = (*Device)(nil)

// Open makes a device and listens for peers. log may be nil. The error is fabric.ErrUnavailable with what is missing where the kernel
// cannot do it.
func Open(cfg Config, log *zap.Logger) (*Device, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("shm: %w", err)
	}
	if log == nil {
		log = zap.NewNop()
	}
	d := &Device{
		cfg: cfg, log: log, events: newEvents(),
		qps: make(map[uint32]*QP), queues: make(map[any]struct{}), tokens: make(map[token]*QP),
	}
	var err error
	if d.status, err = newStatusPages(); err != nil {
		return nil, fmt.Errorf("%w: %w", fabric.ErrUnavailable, err)
	}
	if err := d.listen(); err != nil {
		d.status.close()
		return nil, fmt.Errorf("%w: %w", fabric.ErrUnavailable, err)
	}
	if cfg.HugePages {
		d.huge = hugeWorks(d)
	}
	d.workers.Go(d.events.run)
	d.workers.Go(d.acceptLoop)
	return d, nil
}

// hugeWorks tries whether the kernel grants huge pages for shared memory.
func hugeWorks(d *Device) bool {
	f, err := newMemfd(hugePage)
	if err != nil {
		return false
	}
	defer f.Close()
	m, err := mapFile(f, hugePage, true, true)
	if err != nil {
		return false
	}
	defer m.close()
	return m.collapse()
}

// Caps implements fabric.Device.
func (d *Device) Caps() fabric.Caps {
	return fabric.Caps{
		Provider: "shm", Device: "shared memory, " + d.listener.String(),
		MapsRemote: true, SharesFiles: true,
		MaxSend: MaxSendDepth, MaxRecv: MaxRecvDepth, MaxCQ: MaxCQDepth, MaxInline: MaxInlineBytes,
		HugePages: d.huge,
	}
}

// Serve sets what peers may read by OpenArea; nil: nothing.
func (d *Device) Serve(src Source) {
	if src == nil {
		d.source.Store(nil)
		return
	}
	d.source.Store(&src)
}

// Stats is a snapshot of the counters.
func (d *Device) Stats() Stats {
	return Stats{
		Registrations: d.counters.registrations.Load(),
		Wakes:         d.counters.wakes.Load(),
		Refused:       d.counters.refused.Load(),
	}
}

// NewRegion implements fabric.Device.
func (d *Device) NewRegion(size int) (fabric.Region, error) {
	if size < 1 || size > MaxRegionBytes {
		return nil, fmt.Errorf("shm: region of %d bytes, 1 to %d are possible", size, MaxRegionBytes)
	}
	r, err := newRegion(d, size)
	if err != nil {
		return nil, fmt.Errorf("shm: %w", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	err = fmt.Errorf("%w: a device has %d regions at most", fabric.ErrFull, MaxRegions)
	if d.closed {
		err = fabric.ErrClosed
	}
	for range MaxRegions {
		if d.closed {
			break
		}
		d.nextRegion++ // the place is its low bits, so a key comes back after 2^32 regions at the earliest
		if at := &d.regions[d.nextRegion%MaxRegions]; at.Load() == nil {
			r.key = d.nextRegion
			at.Store(r)
			d.counters.registrations.Add(1)
			return r, nil
		}
	}
	_ = r.mem.close()
	_ = r.file.Close()
	return nil, err
}

func (d *Device) dropRegion(r *Region) { d.regions[r.key%MaxRegions].CompareAndSwap(r, nil) }

// NewCQ implements fabric.Device.
func (d *Device) NewCQ(depth int) (fabric.CQ, error) {
	if depth < 1 || depth > MaxCQDepth {
		return nil, fmt.Errorf("shm: completion queue of %d, 1 to %d are possible", depth, MaxCQDepth)
	}
	c, err := newCQ(d, depth)
	if err != nil {
		return nil, err
	}
	return c, d.keep(c)
}

// NewSRQ implements fabric.Device.
func (d *Device) NewSRQ(depth int) (fabric.SRQ, error) {
	if depth < 1 || depth > MaxRecvDepth {
		return nil, fmt.Errorf("shm: receive queue of %d, 1 to %d are possible", depth, MaxRecvDepth)
	}
	s, err := newSRQ(d, depth)
	if err != nil {
		return nil, err
	}
	return s, d.keep(s)
}

// NewQP implements fabric.Device.
func (d *Device) NewQP(cfg fabric.QPConfig) (fabric.QP, error) {
	cq, ok := cfg.CQ.(*CQ)
	srq, ok2 := cfg.SRQ.(*SRQ)
	if !ok || !ok2 || cq.dev != d || srq.dev != d {
		return nil, fmt.Errorf("%w: a queue pair needs a completion queue and a receive queue of its device", fabric.ErrUnsupported)
	}
	if cfg.SendDepth < 1 || cfg.SendDepth > MaxSendDepth {
		return nil, fmt.Errorf("shm: send queue of %d, 1 to %d are possible", cfg.SendDepth, MaxSendDepth)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, fabric.ErrClosed
	}
	if len(d.qps) >= d.cfg.MaxQPs {
		return nil, fmt.Errorf("%w: %d queue pairs are open", fabric.ErrFull, len(d.qps))
	}
	for d.nextQP++; d.nextQP == 0 || d.qps[d.nextQP] != nil; d.nextQP++ {
	}
	q := newQP(d, d.nextQP, cfg, cq, srq)
	d.qps[q.num] = q
	d.tokens[q.info.token] = q
	return q, nil
}

// Events implements fabric.Device.
func (d *Device) Events() <-chan fabric.Event { return d.events.out }

// Close implements fabric.Device. Queue pairs and queues that are still open are closed; regions stay until their own
// Close.
func (d *Device) Close() error {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return nil
	}
	d.closed = true
	d.mu.Unlock()
	d.listener.close()
	for _, q := range d.queuePairs(nil) {
		q.Close()
	}
	d.mu.Lock()
	queues := d.queues
	d.queues = nil
	d.mu.Unlock()
	for c := range queues {
		c.(interface{ Close() error }).Close()
	}
	close(d.events.done)
	d.workers.Wait()
	d.status.close()
	return nil
}

// keep remembers a queue until its Close.
func (d *Device) keep(c any) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return fabric.ErrClosed
	}
	d.queues[c] = struct{}{}
	return nil
}

// forget drops a queue or queue pair that was closed.
func (d *Device) forget(c any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if q, ok := c.(*QP); ok {
		delete(d.qps, q.num)
		return
	}
	delete(d.queues, c)
}

// queuePairs gives the queue pairs that complete on c; all for nil.
func (d *Device) queuePairs(c *CQ) []*QP {
	d.mu.Lock()
	defer d.mu.Unlock()
	var list []*QP
	for _, q := range d.qps {
		if c == nil || q.cq == c {
			list = append(list, q)
		}
	}
	return list
}

// background runs fn in a goroutine that Close waits for.
func (d *Device) background(fn func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.closed {
		d.workers.Go(fn)
	}
}

// forgetToken makes a token useless.
func (d *Device) forgetToken(t token) {
	d.mu.Lock()
	delete(d.tokens, t)
	d.mu.Unlock()
}

func newToken() (t token) {
	rand.Read(t[:]) // never fails
	return t
}
