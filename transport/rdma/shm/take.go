//go:build linux

package shm

import (
	"fmt"
	"slices"

	"github.com/bornode/bornode/transport/rdma/fabric"
)

// take gives out completions that the peer published, each with a receive entry. The caller holds the mutex of cq.
func (q *QP) take(out []fabric.Completion, e *rxEnd) int {
	r, s := &q.rx, q.srq
	if len(out) > takeBurst {
		out = out[:takeBurst]
	}
	var bad error
	var flags uint64
	n, before := 0, r.pos
	s.mu.Lock()
	for n < len(out) && bad == nil && r.pos < r.end {
		word := r.slots[r.pos&r.mask].Load()
		if uint16(word) != r.lap(r.pos) {
			break
		}
		if s.free == 0 {
			if !r.retry || s.closed {
				bad = fmt.Errorf("%w: no receive entry for the peer", fabric.ErrBroken)
				r.accuse(fabric.StatusRNR)
			} else if !slices.Contains(s.starved, q.cq) {
				s.starved = append(s.starved, q.cq)
			}
			break
		}
		flags |= word >> 24
		var given bool
		if given, bad = q.open(word, &out[n]); bad != nil {
			r.accuse(fabric.StatusOther)
		}
		if given {
			n++
			r.pos++
		}
	}
	if r.pos != before {
		r.head.Store(r.pos)
		s.publish()
	}
	s.mu.Unlock()
	if bad != nil {
		r.end = r.pos
		q.cq.broken = append(q.cq.broken, breakage{q, bad, fabric.StatusFlushed})
	}
	e.follow(r)
	if flags&flagAck != 0 && q.asleep() {
		q.cq.wakes = append(q.cq.wakes, q)
	}
	return n
}

// open turns the slot at hand, whose word was read once since the peer may change it at any time, into a completion and
// takes a receive entry for it; there must be one. It reports whether it did, and what is wrong with the slot. The
// caller holds the mutex of srq.
func (q *QP) open(word uint64, out *fabric.Completion) (bool, error) {
	op, flags, size := fabric.Opcode(word>>16), uint8(word>>24), uint32(0)
	if flags&flagSized != 0 {
		size = q.rx.sizes[q.rx.pos&q.rx.mask].Load()
	}
	switch {
	case flags&^flagsAll != 0:
	case op == fabric.OpWriteImm && size <= q.exposed.Load():
		*out = fabric.Completion{ID: q.srq.pop().ID, QP: q.num, Op: fabric.OpRecvImm, Bytes: size, Imm: uint32(word >> 32)}
		return true, nil
	case op == fabric.OpSend && size <= fabric.MaxSendBytes:
		wr := q.srq.pop()
		if int(size) > len(wr.Local) {
			*out = fabric.Completion{ID: wr.ID, QP: q.num, Status: fabric.StatusLocal}
			return true, fmt.Errorf("%w: send of %d bytes into an entry of %d", fabric.ErrBroken, size, len(wr.Local))
		}
		copy(wr.Local, q.rx.send[(q.rx.pos&q.rx.mask)*fabric.MaxSendBytes:][:size])
		*out = fabric.Completion{ID: wr.ID, QP: q.num, Op: fabric.OpRecv, Bytes: size}
		return true, nil
	}
	return false, fmt.Errorf("%w: completion of kind %d with flags %#x and %d bytes", fabric.ErrPeer, op, flags, size)
}
