//go:build linux && cgo

package verbs

// #include <stdlib.h>
// #include "shim.h"
import "C"

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/bornode/bornode/transport/rdma/fabric"
)

// slot remembers a request of the send queue.
type slot struct {
	id uint64
	op fabric.Opcode
}

// qp is fabric.QP. mu guards posting, control the changes of state; control comes first where both are held.
type qp struct {
	dev        *device
	cq         *cq
	srq        *srq
	num        uint32
	index      int
	generation uint16
	local      info
	rnrRetry   bool

	down    chan struct{} // closed by fail
	once    sync.Once
	last    chan struct{} // closed when the hardware says it holds no receive entry
	lastOne sync.Once
	results chan result // of this package's own requests

	mu     sync.Mutex
	ready  bool // requests may be posted
	closed bool
	wrs    []C.struct_bv_wr
	inline []byte // memory of inline requests
	depth  uint32
	slots  []slot // by position, a power of two of them
	posted atomic.Uint32
	done   atomic.Uint32 // everything before this position is completed
	own    uint32        // position of the last request of this package's own
	owned  bool          // it may be under way

	control sync.Mutex
	c       *C.struct_bv_qp // nil after Close; used by Post under mu
	started bool            // was in RTR or RTS
	reads   uint8           // READs the peer answers at once
	meet    []byte          // the meeting place, until connected
	meetMR  *C.struct_bv_mr
	exposed []exposure
}

var _ fabric.QP = (*qp)(nil)

// NewQP makes a queue pair that may be connected.
func (d *device) NewQP(cfg fabric.QPConfig) (_ fabric.QP, err error) {
	c, ok := cfg.CQ.(*cq)
	s, sok := cfg.SRQ.(*srq)
	if !ok || !sok || c.dev != d || s.dev != d {
		return nil, errors.New("verbs: the queues of a queue pair come from its device")
	}
	if cfg.SendDepth < 1 || cfg.SendDepth > d.caps.MaxSend {
		return nil, fmt.Errorf("verbs: a send queue of %s has 1 to %d entries, not %d", d.at.Device, d.caps.MaxSend, cfg.SendDepth)
	}
	if err := d.hold(&d.openQPs); err != nil {
		return nil, err
	}
	q := &qp{
		dev: d, cq: c, srq: s, index: -1, rnrRetry: cfg.RNRRetry, depth: uint32(cfg.SendDepth),
		down: make(chan struct{}), last: make(chan struct{}), results: make(chan result, 2*reservedSends),
	}
	if err := q.use(1); err != nil {
		d.drop(&d.openQPs)
		return nil, err
	}
	if err := q.create(); err != nil {
		return nil, errors.Join(err, q.Close())
	}
	return q, nil
}

// use counts the queue pair in its queues, which then stay open.
func (q *qp) use(n int) error {
	q.cq.mu.Lock()
	gone := q.cq.closed.Load() && n > 0
	if !gone {
		q.cq.qps += n
	}
	q.cq.mu.Unlock()
	if gone {
		return fmt.Errorf("verbs: the completion queue: %w", fabric.ErrClosed)
	}
	q.srq.mu.Lock()
	if gone = q.srq.c == nil && n > 0; !gone {
		q.srq.qps += n
	}
	q.srq.mu.Unlock()
	if gone {
		q.cq.mu.Lock()
		q.cq.qps -= n
		q.cq.mu.Unlock()
		return fmt.Errorf("verbs: the receive queue: %w", fabric.ErrClosed)
	}
	return nil
}

// create makes the parts; Close frees them again whatever is missing.
func (q *qp) create() error {
	d := q.dev
	inline, code := C.int(d.caps.MaxInline), C.int(0)
	q.c = C.bv_create_qp(d.pd, q.cq.c, q.srq.c, C.int(q.depth+reservedSends), &inline, &code)
	if q.c == nil {
		return fmt.Errorf("verbs: make a queue pair of %d requests: %w", q.depth, explain(errno(code)))
	}
	q.num = uint32(q.c.qp_num)
	q.slots = make([]slot, 1<<bits.Len32(q.depth+reservedSends))
	q.wrs = unsafe.Slice((*C.struct_bv_wr)(C.calloc(C.BV_BATCH, C.sizeof_struct_bv_wr)), C.BV_BATCH)
	if n := d.caps.MaxInline * C.BV_BATCH; n > 0 {
		q.inline = unsafe.Slice((*byte)(C.calloc(C.size_t(n), 1)), n)
	}
	if err := d.enter(q); err != nil {
		return err
	}
	if err := q.prepareMeeting(); err != nil {
		return err
	}
	return q.init()
}

// init takes the queue pair from RESET to INIT.
func (q *qp) init() error {
	access := C.int(C.BV_ACCESS_REMOTE_WRITE)
	if q.dev.caps.Reads {
		access |= C.BV_ACCESS_REMOTE_READ
	}
	if n := C.bv_init_qp(q.c, C.int(q.dev.at.Port), access); n != 0 {
		return fmt.Errorf("verbs: prepare a queue pair: %w", errno(n))
	}
	return nil
}

// enter gives the queue pair its place in the device's tables.
func (d *device) enter(q *qp) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range maxQPs {
		index := (d.nextIndex + i) % maxQPs
		if d.qps[index].Load() != nil {
			continue
		}
		d.nextIndex = index + 1
		d.generations[index]++
		q.index, q.generation = index, d.generations[index]
		d.qps[index].Store(q)
		d.byNumber[q.num] = q
		return nil
	}
	return fmt.Errorf("verbs: %d queue pairs are open", maxQPs)
}

func (d *device) leave(q *qp) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if q.index >= 0 {
		d.qps[q.index].Store(nil)
		delete(d.byNumber, q.num)
	}
}

// prepareMeeting registers the meeting place and makes what the peer is told.
func (q *qp) prepareMeeting() error {
	d := q.dev
	mem, err := unix.Mmap(-1, 0, unix.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return fmt.Errorf("verbs: map a page: %w", err)
	}
	q.meet = mem
	if q.meetMR, err = d.register(mem[:meetBytes], C.BV_ACCESS_LOCAL_WRITE|C.BV_ACCESS_REMOTE_WRITE); err != nil {
		return err
	}
	var random [12]byte
	if _, err := rand.Read(random[:]); err != nil {
		return err
	}
	q.local = info{
		link: d.at.Link, mtu: mtuCode(d.at.MTU), reads: d.reads.in, qp: q.num, lid: d.at.LID, gid: d.at.GID,
		psn:  binary.LittleEndian.Uint32(random[8:]) & numberMask,
		meet: address(mem), key: uint32(q.meetMR.rkey),
		secret: binary.LittleEndian.Uint64(random[:]) | 1,
	}
	return nil
}

// endMeeting takes the peer's right to write to the meeting place away.
func (q *qp) endMeeting() error {
	if q.meetMR != nil {
		if n := C.bv_dereg_mr(q.meetMR); n != 0 {
			return fmt.Errorf("verbs: unregister a page: %w", errno(n))
		}
		q.meetMR = nil
	}
	if q.meet == nil {
		return nil
	}
	mem := q.meet
	q.meet = nil
	return unix.Munmap(mem)
}

func (q *qp) Num() uint32  { return q.num }
func (q *qp) Info() []byte { return q.local.encode() }

// Map is not there: see Caps.MapsRemote.
func (q *qp) Map(context.Context, fabric.Remote) ([]byte, error) {
	return nil, fmt.Errorf("verbs: map: %w", fabric.ErrUnsupported)
}

// fail marks the queue pair broken and wakes what waits for it.
func (q *qp) fail() { q.once.Do(func() { close(q.down) }) }

func (q *qp) broken() bool {
	select {
	case <-q.down:
		return true
	default:
		return false
	}
}

// lastEntry notes that the hardware holds no receive entry for the broken queue pair.
func (q *qp) lastEntry() { q.lastOne.Do(func() { close(q.last) }) }

// Break puts the queue pair into the error state.
func (q *qp) Break() {
	q.fail() // first, so that Connect and Expose let go of the lock
	q.control.Lock()
	defer q.control.Unlock()
	if q.c != nil {
		C.bv_break_qp(q.c) // a queue pair that cannot be broken is broken
	}
}

// Close breaks the queue pair, waits a moment for the end of its requests, so that their completions are in the
// completion queue or its stash, and frees it. Exposed memory is out of the peer's reach when it returns.
func (q *qp) Close() error {
	q.fail()
	q.control.Lock()
	defer q.control.Unlock()
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		return nil
	}
	q.closed, q.ready = true, false
	q.mu.Unlock()
	if q.c != nil {
		C.bv_break_qp(q.c)
	}
	errs := []error{q.unexpose(), q.endMeeting()}
	if q.started {
		q.drain()
	}
	if q.c != nil {
		if n := C.bv_destroy_qp(q.c); n != 0 {
			return errors.Join(append(errs, fmt.Errorf("verbs: free a queue pair: %w", errno(n)))...)
		}
		q.c = nil
	}
	q.dev.leave(q)
	if q.wrs != nil {
		C.free(unsafe.Pointer(&q.wrs[0]))
		q.wrs = nil
	}
	if q.inline != nil {
		C.free(unsafe.Pointer(&q.inline[0]))
		q.inline = nil
	}
	errs = append(errs, q.use(-1))
	q.dev.drop(&q.dev.openQPs)
	return errors.Join(errs...)
}
