//go:build linux && cgo

package verbs

// #cgo noescape bv_post
// #cgo nocallback bv_post
// #include "shim.h"
import "C"

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/bornode/bornode/transport/rdma/fabric"
)

var (
	errNotConnected = errors.New("verbs: the queue pair is not connected")
	errRequest      = errors.New("verbs: not a request: SEND and inline data are bounded (Caps), completions' opcodes are none")
	errNoReads      = fmt.Errorf("verbs: READ: %w by this device or the peer's", fabric.ErrUnsupported)
)

// fullOr is the error of a post that the driver refused.
func fullOr(result C.int) error {
	if result == -C.int(syscall.ENOMEM) {
		return fabric.ErrFull
	}
	return fmt.Errorf("verbs: post: %w", errno(result))
}

// Post hands over requests in calls of up to 64. On software RoCE the driver makes a system call under the post lock,
// which only control operations contend for.
func (q *qp) Post(wrs []fabric.SendWR) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.ready {
		return 0, q.unready()
	}
	if q.broken() {
		return 0, fabric.ErrBroken
	}
	for taken := 0; taken < len(wrs); {
		n := min(len(wrs)-taken, len(q.wrs), q.room())
		if n <= 0 {
			return taken, fabric.ErrFull
		}
		first := q.posted.Load()
		var bad error
		for i := range n {
			if bad = q.fill(i, first+uint32(i), &wrs[taken+i]); bad != nil {
				n = i
				break
			}
		}
		if n > 0 {
			q.posted.Store(first + uint32(n)) // publishes the slots to whoever polls
			var got C.int
			result := C.bv_post(q.c, &q.wrs[0], C.int(n), &got)
			taken += int(got)
			if result != 0 {
				q.posted.Store(first + uint32(got))
				return taken, q.refused(result)
			}
		}
		if bad != nil {
			return taken, bad
		}
	}
	return len(wrs), nil
}

// unready says why nothing may be posted.
func (q *qp) unready() error {
	switch {
	case q.closed:
		return fabric.ErrClosed
	case q.broken():
		return fabric.ErrBroken
	}
	return errNotConnected
}

// refused is the error for requests the driver did not take; anything but a full queue is the end.
func (q *qp) refused(result C.int) error {
	err := fullOr(result)
	if errors.Is(err, fabric.ErrFull) {
		return err
	}
	q.fail()
	return fmt.Errorf("%w: %w", fabric.ErrBroken, err)
}

// room is how many requests of the caller fit: the places for this package's own do not count.
func (q *qp) room() int {
	done := q.done.Load()
	used := q.posted.Load() - done
	if q.owned {
		if q.own-done < used {
			used--
		} else {
			q.owned = false
		}
	}
	return int(q.depth) - int(used)
}

// fill writes request i of the next call.
func (q *qp) fill(i int, position uint32, wr *fabric.SendWR) error {
	var opcode C.int32_t
	switch wr.Op {
	case fabric.OpWrite:
		opcode = C.BV_WR_RDMA_WRITE
	case fabric.OpWriteImm:
		opcode = C.BV_WR_RDMA_WRITE_WITH_IMM
	case fabric.OpSend:
		opcode = C.BV_WR_SEND
		if len(wr.Local) > fabric.MaxSendBytes {
			return errRequest
		}
	case fabric.OpRead:
		opcode = C.BV_WR_RDMA_READ
		if q.reads == 0 || wr.Inline {
			return errNoReads // a device that asks for a READ nobody answers waits for ever
		}
	default:
		return errRequest
	}
	out := &q.wrs[i]
	*out = C.struct_bv_wr{
		id: C.uint64_t(sendID(kindSend, q.index, q.generation, position)), opcode: opcode,
		local: C.uint64_t(address(wr.Local)), bytes: C.uint32_t(len(wr.Local)), lkey: C.uint32_t(wr.Key),
		remote: C.uint64_t(wr.Remote), rkey: C.uint32_t(wr.RKey), imm: C.uint32_t(wr.Imm),
	}
	if wr.Signaled {
		out.flags |= C.BV_SEND_SIGNALED
	}
	if wr.Inline {
		if len(wr.Local) > q.dev.caps.MaxInline {
			return errRequest
		}
		if n := len(wr.Local); n > 0 { // no pointer into the caller's memory crosses
			at := q.inline[i*q.dev.caps.MaxInline:][:n]
			copy(at, wr.Local)
			out.local = C.uint64_t(address(at))
			out.flags |= C.BV_SEND_INLINE
		}
	}
	q.slots[position&uint32(len(q.slots)-1)] = slot{id: wr.ID, op: wr.Op}
	return nil
}

// completed frees the places up to position, whose request it names. Called by whoever polls.
func (q *qp) completed(position uint32) (id uint64, op fabric.Opcode) {
	_ = q.posted.Load() // the slot was written before this was stored
	s := q.slots[position&uint32(len(q.slots)-1)]
	q.done.Store(position + 1)
	return s.id, s.op
}
