//go:build linux && cgo

package verbs

// #include "shim.h"
import "C"

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync/atomic"
	"time"
	"unsafe"

	"go.uber.org/zap"

	"github.com/bornode/bornode/transport/rdma/fabric"
)

// result is the completion of a request of this package's own.
type result struct {
	position uint32
	status   fabric.Status
	vendor   uint32
}

// deliver hands a result to the operation that waits. There is room for every one that can be under way.
func (q *qp) deliver(r result) {
	select {
	case q.results <- r:
	default:
	}
}

// reserve takes the next position of the send queue for a request of this package's own; the caller holds mu.
func (q *qp) reserve() uint32 {
	position := q.posted.Load()
	q.slots[position&uint32(len(q.slots)-1)] = slot{}
	q.own, q.owned = position, true
	q.posted.Store(position + 1)
	return position
}

// unreserve gives it back when the driver refused the request; the caller has held mu since.
func (q *qp) unreserve(position uint32) {
	q.owned = false
	q.posted.Store(position)
}

// pacer makes a waiting control operation look again, ever more slowly.
type pacer struct {
	timer *time.Timer
	pause time.Duration
}

func newPacer() *pacer { return &pacer{timer: time.NewTimer(pollPause), pause: pollPause} }

func (p *pacer) again() {
	p.pause = min(2*p.pause, maxPollPause)
	p.timer.Reset(p.pause)
}

// await waits for the completion of a request of this package's own. down may be nil.
func (q *qp) await(ctx context.Context, position uint32, down <-chan struct{}) (result, error) {
	p := newPacer()
	defer p.timer.Stop()
	for {
		q.cq.sweep()
		select {
		case r := <-q.results: // first: a result that is there counts, whatever ends meanwhile
			if r.position == position {
				return r, nil
			}
			continue
		default:
		}
		select {
		case r := <-q.results:
			if r.position == position {
				return r, nil
			}
		case <-down:
			return result{}, fabric.ErrBroken
		case <-ctx.Done():
			return result{}, ctx.Err()
		case <-p.timer.C:
			p.again()
		}
	}
}

// Connect meets the peer: see doc.go.
func (q *qp) Connect(ctx context.Context, remote []byte, lead bool) (err error) {
	peer, err := decodeInfo(remote)
	if err != nil {
		return err
	}
	if peer.link != q.dev.at.Link {
		return fmt.Errorf("verbs: %w: its port is %s, this one %s", fabric.ErrPeer, peer.link, q.dev.at.Link)
	}
	q.control.Lock()
	defer q.control.Unlock()
	if q.c == nil || q.started {
		return fmt.Errorf("verbs: connect: %w or connected before", fabric.ErrClosed)
	}
	defer func() {
		if err != nil {
			q.fail()
			C.bv_break_qp(q.c)
		}
	}()
	if q.broken() {
		return fabric.ErrBroken
	}
	if lead {
		err = q.lead(ctx, peer)
	} else {
		err = q.follow(ctx, peer)
	}
	if err != nil {
		return err
	}
	if err := q.endMeeting(); err != nil {
		return err
	}
	q.mu.Lock()
	q.ready = true
	q.mu.Unlock()
	return nil
}

// route brings the queue pair from INIT to RTS towards the peer.
func (q *qp) route(peer info) error {
	d := q.dev
	q.reads = min(d.reads.out, peer.reads)
	r := C.struct_bv_route{
		qp: C.uint32_t(peer.qp), rq_psn: C.uint32_t(peer.psn), sq_psn: C.uint32_t(q.local.psn), lid: C.uint16_t(peer.lid),
		gid_index: C.uint8_t(d.at.GIDIndex), hop_limit: C.uint8_t(d.cfg.HopLimit),
		traffic_class: C.uint8_t(d.cfg.TrafficClass), service_level: C.uint8_t(d.cfg.ServiceLevel),
		port: C.uint8_t(d.at.Port), mtu: C.uint8_t(min(q.local.mtu, peer.mtu)),
		reads_out: C.uint8_t(q.reads), reads_in: C.uint8_t(d.reads.in), min_rnr_timer: minRNRTimer,
		timeout: C.uint8_t(d.cfg.Timeout), retry: C.uint8_t(d.cfg.Retry),
	}
	*(*[16]byte)(unsafe.Pointer(&r.gid)) = peer.gid
	// InfiniBand needs the GID only between subnets.
	if d.routed || d.at.LID == 0 || peer.lid == 0 || [8]byte(peer.gid[:8]) != [8]byte(d.at.GID[:8]) {
		r.global = 1
	}
	if q.rnrRetry {
		r.rnr_retry = endlessRNR
	}
	q.started = true
	var step C.int
	if n := C.bv_connect_qp(q.c, &r, &step); n != 0 {
		what := map[C.int]string{C.BV_QPS_RTR: "receive", C.BV_QPS_RTS: "send"}[step]
		return fmt.Errorf("verbs: make a queue pair ready to %s: %w (no route to the peer's address?)", what, errno(n))
	}
	return nil
}

// retrying is what a leader logs when its peer was not ready.
const retrying = "the peer's queue pair does not answer yet"

// lead writes the peer's secret to its meeting place. As long as the peer's queue pair is not ready its device drops
// what comes, and this queue pair fails after its retries: it is reset then, which loses nothing, for a peer that has
// not heard the leader has sent nothing.
func (q *qp) lead(ctx context.Context, peer info) error {
	for {
		if err := q.route(peer); err != nil {
			return err
		}
		r, err := q.writeSecret(ctx, peer)
		if err != nil {
			return err
		}
		switch r.status {
		case fabric.StatusOK:
			return nil
		case fabric.StatusRetryExceeded:
		default:
			return failure(r.status, r.vendor)
		}
		q.dev.log.Debug(retrying, zap.Uint32("qp", q.num), zap.Uint32("peer's qp", peer.qp))
		if n := C.bv_reset_qp(q.c); n != 0 {
			return fmt.Errorf("verbs: reset a queue pair: %w", errno(n))
		}
		if err := q.init(); err != nil {
			return err
		}
	}
}

func (q *qp) writeSecret(ctx context.Context, peer info) (result, error) {
	source := q.meet[8:meetBytes]
	binary.LittleEndian.PutUint64(source, peer.secret)
	q.mu.Lock()
	position := q.reserve()
	q.wrs[0] = C.struct_bv_wr{
		id: C.uint64_t(sendID(kindControl, q.index, q.generation, position)), opcode: C.BV_WR_RDMA_WRITE,
		local: C.uint64_t(address(source)), bytes: C.uint32_t(len(source)), lkey: C.uint32_t(q.meetMR.lkey),
		remote: C.uint64_t(peer.meet), rkey: C.uint32_t(peer.key), flags: C.BV_SEND_SIGNALED,
	}
	var taken C.int
	n := C.bv_post(q.c, &q.wrs[0], 1, &taken)
	if n != 0 {
		q.unreserve(position)
	}
	q.mu.Unlock()
	if n != 0 {
		return result{}, fullOr(n)
	}
	return q.await(ctx, position, q.down)
}

// follow waits until the leader has written this side's secret.
func (q *qp) follow(ctx context.Context, peer info) error {
	if err := q.route(peer); err != nil {
		return err
	}
	var secret [8]byte
	binary.LittleEndian.PutUint64(secret[:], q.local.secret)
	want := binary.NativeEndian.Uint64(secret[:])
	p := newPacer()
	defer p.timer.Stop()
	for atomic.LoadUint64((*uint64)(unsafe.Pointer(&q.meet[0]))) != want {
		select {
		case <-q.down:
			return fabric.ErrBroken
		case <-ctx.Done():
			return ctx.Err()
		case <-p.timer.C:
			p.again()
		}
	}
	return nil
}

// drain posts a mark behind the last request of the broken queue pair and waits for it, so that all before it are
// polled; then for the hardware to let go of receive entries.
func (q *qp) drain() {
	ctx, cancel := context.WithTimeout(context.Background(), drainPatience)
	defer cancel()
	q.mu.Lock()
	position := q.reserve()
	q.wrs[0] = C.struct_bv_wr{
		id: C.uint64_t(sendID(kindControl, q.index, q.generation, position)), opcode: C.BV_WR_RDMA_WRITE,
		flags: C.BV_SEND_SIGNALED,
	}
	var taken C.int
	n := C.bv_post(q.c, &q.wrs[0], 1, &taken)
	if n != 0 {
		q.unreserve(position)
	}
	q.mu.Unlock()
	if n == 0 {
		if _, err := q.await(ctx, position, nil); err != nil {
			q.dev.log.Debug("the end of a closing queue pair's requests was not seen")
		}
	}
	if q.dev.at.Provider == ProviderNIC {
		timer := time.NewTimer(lastEntryPatience)
		defer timer.Stop()
		select {
		case <-q.last:
		case <-timer.C:
		}
	}
	q.cq.sweep() // destroying may remove completions that were not polled
}
