//go:build linux

package shm

import (
	"fmt"

	"github.com/bornode/bornode/transport/rdma/fabric"
)

// pendingSend is a request that is not known to be done: the peer has yet to take slots before until, or it failed.
type pendingSend struct {
	id       uint64
	seq      uint64
	until    uint64 // done when the receiver's position is here
	op       fabric.Opcode
	failed   fabric.Status
	signaled bool
}

// Post implements fabric.QP. OpRead is fabric.ErrUnsupported.
func (q *QP) Post(wrs []fabric.SendWR) (int, error) {
	q.send.Lock()
	before := q.tx.pos
	n, cause, err := q.post(wrs)
	signal := q.tx.pos != before && q.asleep()
	q.send.Unlock()
	if signal {
		q.wake()
	}
	if cause != nil {
		q.fail(cause, fabric.StatusFlushed)
	}
	return n, err
}

// post does the requests in order. With a cause one of them failed, which breaks the queue pair; those after it are
// taken to be flushed.
func (q *QP) post(wrs []fabric.SendWR) (n int, cause, err error) {
	for i := range wrs {
		wr := &wrs[i]
		if q.state.Load() != stateReady {
			return i, cause, q.notReady()
		}
		if q.posted-q.freedSeen >= uint64(q.depth) {
			if q.freedSeen = q.freed.Load(); q.posted-q.freedSeen >= uint64(q.depth) {
				return i, cause, fabric.ErrFull
			}
		}
		seq := q.posted
		if cause != nil {
			q.posted++
			q.pending.put(pendingSend{id: wr.ID, seq: seq, failed: fabric.StatusFlushed})
			continue
		}
		if wr.Op == fabric.OpRead {
			return i, nil, fmt.Errorf("%w: remote reads", fabric.ErrUnsupported)
		}
		wait, st, failed := q.do(wr)
		q.posted++
		switch {
		case st != fabric.StatusOK:
			q.pending.put(pendingSend{id: wr.ID, seq: seq, failed: st})
			cause = failed
		case wait || q.pending.n != 0:
			q.await(pendingSend{id: wr.ID, op: wr.Op, seq: seq, until: q.tx.pos, signaled: wr.Signaled})
		case wr.Signaled:
			q.cq.push(localCompletion{fabric.Completion{ID: wr.ID, QP: q.num, Op: wr.Op}, q, seq})
		}
	}
	return len(wrs), cause, nil
}

// do performs one request. It reports whether its completion must wait for the receiver, or how it failed.
func (q *QP) do(wr *fabric.SendWR) (wait bool, st fabric.Status, cause error) {
	if wr.Op != fabric.OpWriteImm && wr.Op != fabric.OpWrite && wr.Op != fabric.OpSend {
		return false, fabric.StatusLocal, fmt.Errorf("%w: request of kind %d", fabric.ErrBroken, wr.Op)
	}
	var payload []byte
	if len(wr.Local) != 0 || wr.Op == fabric.OpSend {
		if payload, st, cause = q.move(wr); st != fabric.StatusOK {
			return false, st, cause
		}
	}
	if wr.Op == fabric.OpWrite {
		return false, fabric.StatusOK, nil
	}
	free := q.peerFree.Load() // before the head: see SRQ.publish
	flying := q.tx.pos - q.tx.seen
	if flying >= uint64(free) || flying >= q.room {
		if err := q.tx.reload(); err != nil {
			return false, fabric.StatusOther, err
		}
		flying = q.tx.pos - q.tx.seen
		short := free < scarceEntries && flying >= uint64(free)
		if short && !q.rnrRetry {
			return false, fabric.StatusRNR, fmt.Errorf("%w: the peer had no receive entry", fabric.ErrBroken)
		}
		wait = short || flying >= q.room
	}
	q.tx.put(wr.Op, wr.Imm, uint32(len(wr.Local)), payload, wait || q.pending.n != 0)
	return wait, fabric.StatusOK, nil
}

// move checks a request with bytes and copies them into the peer's memory; those of a SEND it returns for the slot.
func (q *QP) move(wr *fabric.SendWR) ([]byte, fabric.Status, error) {
	switch {
	case wr.Inline && len(wr.Local) > MaxInlineBytes:
		return nil, fabric.StatusLocal, fmt.Errorf("%w: inline request of %d bytes", fabric.ErrBroken, len(wr.Local))
	case wr.Op == fabric.OpSend && len(wr.Local) > fabric.MaxSendBytes:
		return nil, fabric.StatusLocal, fmt.Errorf("%w: send of %d bytes", fabric.ErrBroken, len(wr.Local))
	case !wr.Inline && len(wr.Local) != 0 && !q.dev.holds(wr.Key, wr.Local):
		return nil, fabric.StatusLocal, fmt.Errorf("%w: %d bytes outside the region of their key", fabric.ErrBroken, len(wr.Local))
	case wr.Op == fabric.OpSend:
		return wr.Local, fabric.StatusOK, nil
	}
	r := q.theirs[wr.RKey%fabric.MaxExposed].Load()
	if r == nil || r.key != wr.RKey {
		return nil, fabric.StatusRemoteAccess, fmt.Errorf("%w: the peer exposes nothing under key %#x", fabric.ErrBroken, wr.RKey)
	}
	off := wr.Remote - regionAddr(r.key)
	if size := uint64(len(r.mem.data)); off > size || uint64(len(wr.Local)) > size-off {
		return nil, fabric.StatusRemoteAccess, fmt.Errorf("%w: write of %d bytes at %d of %d", fabric.ErrBroken, len(wr.Local), off, size)
	}
	copy(r.mem.data[off:], wr.Local)
	return nil, fabric.StatusOK, nil
}

// await queues a completion until the receiver is far enough. The last slot before it was put with a flag that asks the
// receiver to say so: that of a request which waits, and of each after it while something waits, is.
func (q *QP) await(p pendingSend) {
	if q.pending.n == 0 {
		q.deferred.Store(true)
		q.cq.waiting.Add(1)
	}
	q.pending.put(p)
}

// settled is called when nothing is pending any more.
func (q *QP) settled() {
	if q.deferred.Swap(false) {
		q.cq.waiting.Add(-1)
	}
}

// resolve gives out the completions whose slots the receiver took.
func (q *QP) resolve() error {
	q.send.Lock()
	defer q.send.Unlock()
	if q.flushed || q.pending.n == 0 {
		return nil
	}
	if err := q.tx.reload(); err != nil {
		return err
	}
	for q.pending.n != 0 {
		p := q.pending.front()
		if p.failed != fabric.StatusOK || p.until > q.tx.seen {
			return nil
		}
		q.complete(p, fabric.StatusOK)
		q.pending.drop()
	}
	q.settled()
	return nil
}

// flush completes what is pending when the queue pair breaks: what came before the request that failed is done, and
// what came after it is flushed. st is the status of the first request that is not known to be done, unless one is
// known to have failed. The caller holds send.
func (q *QP) flush(st fabric.Status) {
	if q.flushed {
		return
	}
	q.flushed = true
	if q.pending.n == 0 {
		return
	}
	_ = q.tx.reload() // a peer that lies here has broken the queue pair already
	blamed, at, known := q.tx.blame()
	bad := false
	for q.pending.n != 0 {
		p := q.pending.front()
		switch {
		case bad:
			q.complete(p, fabric.StatusFlushed)
		case p.failed != fabric.StatusOK:
			q.complete(p, p.failed)
			bad = true
		case known && p.until == at+1:
			q.complete(p, blamed)
			bad = true
		case p.until <= q.tx.seen || q.willFail() || known && p.until <= at:
			q.complete(p, fabric.StatusOK)
		default:
			q.complete(p, st)
			bad = true
		}
		q.pending.drop()
	}
	q.settled()
}

// willFail reports whether a pending request is known to have failed: those before it are with the peer.
func (q *QP) willFail() bool { return q.pending.back().failed != fabric.StatusOK }

func (q *QP) complete(p *pendingSend, st fabric.Status) {
	if p.signaled || st != fabric.StatusOK {
		q.cq.push(localCompletion{fabric.Completion{ID: p.id, QP: q.num, Op: p.op, Status: st}, q, p.seq})
	}
}

// asleep reports whether the peer's queue is armed and was not signalled by this side since it was.
func (q *QP) asleep() bool {
	e := q.peerArmed.Load()
	return e != 0 && q.signalled.Swap(e) != e
}

// sendQueue is a ring of pending requests, as deep as the send queue.
type sendQueue struct {
	ring  []pendingSend
	first int
	n     int
}

func (s *sendQueue) put(p pendingSend) {
	s.n++
	*s.back() = p
}

func (s *sendQueue) front() *pendingSend { return &s.ring[s.first] }

func (s *sendQueue) back() *pendingSend { return &s.ring[(s.first+s.n-1)%len(s.ring)] }

func (s *sendQueue) drop() {
	s.first = (s.first + 1) % len(s.ring)
	s.n--
}
