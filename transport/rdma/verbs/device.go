//go:build linux && cgo

package verbs

// #include "shim.h"
import "C"

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/bornode/bornode/transport/rdma/fabric"
)

// device is fabric.Device.
type device struct {
	at    Endpoint
	cfg   Config
	caps  fabric.Caps
	log   *zap.Logger
	ctx   verbsContext
	pd    *C.struct_bv_pd
	reads struct{ out, in uint8 } // READs under way on a queue pair, as requester and as responder

	routed  bool    // packets carry GIDs within a subnet too
	windows windows // what Expose uses

	qps  [maxQPs]atomic.Pointer[qp] // by the index in wrIDs; polled without the lock
	srqs [maxSRQs]atomic.Pointer[srq]

	mu          sync.Mutex
	byNumber    map[uint32]*qp
	generations [maxQPs]uint16
	nextIndex   int // where the search for a free index begins, so that one is reused late
	closed      bool

	openQPs, openCQs, openSRQs, regions int

	events chan fabric.Event
	async  *os.File // duplicate of the context's descriptor, in Go's poller
	ended  chan struct{}
}

var _ fabric.Device = (*device)(nil)

// Open opens the best port that Find gives. The error wraps fabric.ErrUnavailable if there is none. log may be nil.
func Open(cfg Config, log *zap.Logger) (fabric.Device, error) {
	if log == nil {
		log = zap.NewNop()
	}
	list, err := Find(cfg)
	if err != nil {
		return nil, err
	}
	d, err := openAt(list[0], cfg, log)
	if err != nil {
		return nil, err
	}
	return d, nil
}

func openAt(e Endpoint, cfg Config, log *zap.Logger) (_ *device, err error) {
	ctx, err := openContext(e.Device)
	if err != nil {
		return nil, unavailable("%v", err)
	}
	d := &device{
		at: e, cfg: cfg, log: log, ctx: ctx, byNumber: make(map[uint32]*qp),
		events: make(chan fabric.Event, eventBuffer), ended: make(chan struct{}),
	}
	defer func() {
		if err != nil {
			d.release()
		}
	}()
	said, why := ctx.query(&d.at, cfg)
	if why != "" {
		return nil, unavailable("%s", why)
	}
	attr := &said.device
	d.routed = said.routed
	var code C.int
	if d.pd = C.bv_alloc_pd(ctx.c, &code); d.pd == nil {
		return nil, unavailable("%s gives no protection domain: %v", e.Device, errno(code))
	}
	d.reads.out = uint8(min(attr.max_qp_init_rd_atom, maxReads))
	d.reads.in = uint8(min(attr.max_qp_rd_atom, maxReads))
	d.caps = fabric.Caps{
		Provider:  d.at.Provider,
		Device:    d.at.String(),
		Reads:     d.reads.out > 0 && d.reads.in > 0,
		MaxSend:   min(int(attr.max_qp_wr)-reservedSends, maxQueue),
		MaxRecv:   min(int(attr.max_srq_wr), maxQueue),
		MaxCQ:     min(int(attr.max_cqe)-reservedCompletions, 8*maxQueue),
		MaxReads:  int(min(d.reads.out, d.reads.in)),
		HugePages: cfg.HugePages,
	}
	if d.async, err = pollable(int(ctx.c.async_fd)); err != nil {
		return nil, unavailable("the events of %s cannot be waited for: %v", e.Device, err)
	}
	go d.watch()
	if d.caps.MaxInline, err = d.probeInline(); err != nil {
		return nil, err
	}
	if cfg.Windows && attr.device_cap_flags&C.BV_DEVICE_MEM_WINDOW_TYPE_2B != 0 && attr.max_mw > 0 {
		found, err := d.probeWindows()
		if errors.Is(err, fabric.ErrUnavailable) {
			return nil, err // memory cannot be locked: nothing would work
		}
		if err != nil {
			log.Info("memory windows do not work on this device", zap.String("device", e.Device), zap.Error(err))
			found = windowsNone
		}
		d.windows = found
	}
	d.caps.Device += ", " + d.windows.String()
	if d.windows == windowsNone {
		log.Info("buffers are exposed by registrations: a peer that learned the key of another peer's buffer could use it",
			zap.String("device", e.Device))
	}
	return d, nil
}

func (d *device) Caps() fabric.Caps { return d.caps }

func (d *device) Events() <-chan fabric.Event { return d.events }

// Close frees the device. Everything made from it must be closed before.
func (d *device) Close() error {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return nil
	}
	if d.openQPs+d.openCQs+d.openSRQs+d.regions > 0 {
		defer d.mu.Unlock()
		return fmt.Errorf("verbs: %s is in use: %d queue pairs, %d completion queues, %d receive queues, %d regions are open",
			d.at.Device, d.openQPs, d.openCQs, d.openSRQs, d.regions)
	}
	d.closed = true
	d.mu.Unlock()
	return d.release()
}

// release frees whatever was made.
func (d *device) release() error {
	var errs []error
	if d.async != nil {
		_ = d.async.Close() // wakes watch
		<-d.ended
	}
	if d.pd != nil {
		if n := C.bv_dealloc_pd(d.pd); n != 0 {
			errs = append(errs, fmt.Errorf("verbs: free protection domain: %w", errno(n)))
		}
	}
	if n := C.bv_close(d.ctx.c); n != 0 {
		errs = append(errs, fmt.Errorf("verbs: close %s: %w", d.at.Device, errno(n)))
	}
	return errors.Join(errs...)
}

// hold counts something that is about to be made, so that the device stays open meanwhile.
func (d *device) hold(count *int) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return fmt.Errorf("verbs: %s: %w", d.at.Device, fabric.ErrClosed)
	}
	*count++
	return nil
}

// drop takes back hold.
func (d *device) drop(count *int) {
	d.mu.Lock()
	*count--
	d.mu.Unlock()
}

// probeInline finds how many inline bytes a queue pair may have: no attribute tells.
func (d *device) probeInline() (int, error) {
	var code C.int
	c := C.bv_create_cq(d.ctx.c, 16, nil, &code)
	if c == nil {
		return 0, unavailable("%s gives no completion queue: %v", d.at.Device, errno(code))
	}
	defer C.bv_destroy_cq(c)
	for ask := maxInline; ; ask /= 2 {
		if ask < 32 {
			ask = 0
		}
		got := C.int(ask)
		q := C.bv_create_qp(d.pd, c, nil, 16, &got, &code)
		if q != nil {
			C.bv_destroy_qp(q)
			return min(ask, int(got)), nil
		}
		if ask == 0 {
			return 0, unavailable("%s gives no queue pair: %v", d.at.Device, explain(errno(code)))
		}
	}
}
