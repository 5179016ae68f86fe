package sim

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/bornode/bornode/transport/rdma/fabric"
)

// request is a work request that was taken and not carried yet.
type request struct {
	wr     fabric.SendWR   // Local is what the NIC reads when it carries the request, except with Inline
	inline [MaxInline]byte // here, so that it is aligned and its words land whole (copyWords)
	at     time.Duration   // when it is carried, unless what is before it is later
	region *Region         // of Local
	bad    bool            // Local is not what Key names
	rolled bool            // whether a planted break strikes was decided
}

// ack is the news of a request's end on its way to the sender.
type ack struct {
	completion fabric.Completion
	at         time.Duration
	seq        uint64
	signaled   bool
	region     *Region
	local      []byte // of a READ: where the bytes go
	data       []byte // and what they are
}

// arrival is the news of something that landed on its way to the receiver.
type arrival struct {
	completion fabric.Completion
	at         time.Duration
}

// breakNow as the status of a failure: no request failed by itself.
const breakNow = fabric.StatusOK

// Post implements fabric.QP.
func (q *QP) Post(wrs []fabric.SendWR) (int, error) {
	n := q.net
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := q.ready(); err != nil {
		return 0, err
	}
	for i := range wrs {
		if err := q.takes(&wrs[i]); err != nil {
			if errors.Is(err, fabric.ErrFull) {
				n.counters.Full++
			}
			return i, err
		}
		q.take(&wrs[i])
	}
	return len(wrs), nil
}

// takes tells whether a request can be taken.
func (q *QP) takes(wr *fabric.SendWR) error {
	f := &q.net.faults
	switch wr.Op {
	case fabric.OpWrite, fabric.OpWriteImm:
		if f.MapsRemote && len(wr.Local) > 0 {
			return fmt.Errorf("%w: a WRITE with bytes where memory is mapped", fabric.ErrUnsupported)
		}
	case fabric.OpSend:
	case fabric.OpRead:
		if f.MapsRemote || f.NoReads || wr.Inline {
			return fmt.Errorf("%w: READ", fabric.ErrUnsupported)
		}
	default:
		return fmt.Errorf("%w: opcode %d", fabric.ErrUnsupported, wr.Op)
	}
	if wr.Inline && (f.NoInline || len(wr.Local) > MaxInline) {
		return fmt.Errorf("%w: %d bytes inline", fabric.ErrUnsupported, len(wr.Local))
	}
	if q.posted-q.freed >= uint64(q.depth) {
		return fabric.ErrFull
	}
	return nil
}

func (q *QP) take(wr *fabric.SendWR) {
	n := q.net
	at := n.later()
	r := q.sends.push()
	r.wr, r.at, r.region, r.bad, r.rolled = *wr, at, nil, false, false
	switch {
	case wr.Inline:
		copy(r.inline[:], wr.Local)
	case len(wr.Local) > 0:
		if region := q.dev.byKey[wr.Key]; region != nil && region.holds(wr.Local) {
			r.region = region
			region.requests++
		} else {
			r.bad = true
		}
	}
	q.posted++
	if q.sends.len() == 1 {
		n.add(q.out, at)
	}
}

// local is what a request sends, read now.
func (r *request) local() []byte {
	if r.wr.Inline {
		return r.inline[:len(r.wr.Local)]
	}
	return r.wr.Local
}

// resume tries again to carry the first request, after it waited for something of the peer.
func (q *QP) resume() {
	if !q.broken && q.sends.len() > 0 {
		q.net.add(q.out, max(q.sends.at(0).at, q.net.later()))
	}
}

// carry carries the first request.
func (q *QP) carry() {
	if q.broken || q.sends.len() == 0 {
		return
	}
	n, r := q.net, q.sends.at(0)
	if r.bad {
		q.fail(fabric.StatusLocal, false)
		return
	}
	if !r.rolled {
		r.rolled = true
		if n.chance(n.faults.Breaks) || n.faults.BreakAfter > 0 && q.carried+1 == n.faults.BreakAfter {
			if q.strike(r) {
				return
			}
		}
	}
	p := q.peer
	if p == nil || p.broken || p.connected && p.peer != q {
		q.unanswered()
		return
	}
	if !p.connected {
		return // its Connect resumes
	}
	if needsEntry(r.wr.Op) && !q.entryFound() {
		return
	}
	if status := q.land(r, len(r.wr.Local)); status != fabric.StatusOK {
		q.fail(status, false)
		return
	}
	q.told(fabric.StatusOK)
	if q.sends.len() > 0 {
		n.add(q.out, q.sends.at(0).at)
	}
}

func needsEntry(op fabric.Opcode) bool { return op == fabric.OpWriteImm || op == fabric.OpSend }

// unanswered gives the peer up, after a while.
func (q *QP) unanswered() {
	n := q.net
	if n.faults.RetryTime > 0 && q.giveUp == 0 {
		n.clock()
		q.giveUp = n.now + n.faults.RetryTime
		n.add(q.out, q.giveUp)
		return
	}
	q.fail(fabric.StatusRetryExceeded, true)
}

// entryFound tells whether the peer has a receive entry. If not the queue pair fails, or waits for one.
func (q *QP) entryFound() bool {
	n, srq := q.net, q.peer.srq
	missed := srq.entries.len() > 0 && n.chance(n.faults.MissedEntries)
	if srq.entries.len() > 0 && !missed {
		return true
	}
	n.counters.RNR++
	switch {
	case missed:
		n.counters.MissedEntries++
		if q.rnrRetry {
			n.add(q.out, n.later())
			return false
		}
	case q.rnrRetry:
		srq.waiting = append(srq.waiting, q)
		return false
	}
	q.fail(fabric.StatusRNR, false)
	return false
}

// land does the first request at the peer, or the first size bytes of it. A failure is the sender's status; the peer
// may have failed too.
func (q *QP) land(r *request, size int) fabric.Status {
	n, p := q.net, q.peer
	whole := size == len(r.wr.Local)
	var e *exposure
	if size > 0 && r.wr.Op != fabric.OpSend {
		if e = p.reach(&r.wr); e == nil {
			p.violated(r.wr.Op, fabric.StatusRemoteAccess)
			return fabric.StatusRemoteAccess
		}
	}
	switch r.wr.Op {
	case fabric.OpSend:
		if !whole {
			return fabric.StatusOK // a part of a SEND shows nowhere
		}
		return q.landSend(r)
	case fabric.OpRead:
		n.counters.Reads++ // told reads the bytes; they come to the local memory with the completion
	default:
		if e != nil {
			at := r.wr.Remote - e.Addr
			copyWords(e.bytes[at:at+uint64(size)], r.local()[:size])
		}
		if !whole {
			return fabric.StatusOK
		}
		n.counters.Writes++
		if r.wr.Op == fabric.OpWriteImm {
			n.counters.Immediates++
			taken := p.srq.take()
			p.landed(fabric.Completion{ID: taken.wr.ID, QP: p.num, Op: fabric.OpRecvImm, Bytes: uint32(size), Imm: r.wr.Imm})
		}
	}
	n.counters.Bytes += uint64(size)
	return fabric.StatusOK
}

func (q *QP) landSend(r *request) fabric.Status {
	n, p, data := q.net, q.peer, r.local()
	if len(data) == 0 {
		data = nil
	}
	taken := p.srq.take()
	c := fabric.Completion{ID: taken.wr.ID, QP: p.num, Op: fabric.OpRecv, Bytes: uint32(len(data))}
	if taken.bad || len(data) > len(taken.wr.Local) {
		p.landed(fabric.Completion{ID: taken.wr.ID, QP: p.num, Status: fabric.StatusLocal})
		p.violated(0, fabric.StatusLocal)
		return fabric.StatusOther
	}
	copyWords(taken.wr.Local[:len(data)], data)
	n.counters.Sends++
	n.counters.Bytes += uint64(len(data))
	p.landed(c)
	return fabric.StatusOK
}

// reach gives the exposure that a request of the peer may use.
func (q *QP) reach(wr *fabric.SendWR) *exposure {
	e := q.exposure(wr.RKey)
	need := fabric.RemoteWrite
	if wr.Op == fabric.OpRead {
		need = fabric.RemoteRead
	}
	size := uint64(len(wr.Local))
	// An address before the start is far past the end, too: the difference wraps.
	if e == nil || e.access&need == 0 || size > uint64(e.Len) || wr.Remote-e.Addr > uint64(e.Len)-size {
		return nil
	}
	return e
}

// read takes what a READ that was found right asks for.
func (q *QP) read(wr *fabric.SendWR) []byte {
	if len(wr.Local) == 0 {
		return nil
	}
	e := q.reach(wr)
	return append([]byte(nil), e.bytes[wr.Remote-e.Addr:][:len(wr.Local)]...)
}

// violated breaks the receiving side of a request that broke the rules. Some hardware has used a receive entry by then.
func (q *QP) violated(op fabric.Opcode, status fabric.Status) {
	n := q.net
	if needsEntry(op) && n.rng.IntN(2) == 0 {
		q.landed(fabric.Completion{ID: q.srq.take().wr.ID, QP: q.num, Status: status})
	}
	q.dev.event(fabric.Event{Kind: fabric.EventQPFatal, QP: q.num, Text: "a request of the peer: " + status.String()})
	q.fail(breakNow, true)
}

// landed puts a completion on its way to this side, the receiver.
func (q *QP) landed(c fabric.Completion) {
	n := q.net
	*q.arrivals.push() = arrival{completion: c, at: n.later()}
	n.add(q.in, q.arrivals.at(0).at)
}

// arrive shows the receiver the first thing that landed.
func (q *QP) arrive() {
	if q.dead || q.arrivals.len() == 0 {
		return
	}
	c := q.arrivals.at(0).completion
	q.arrivals.pop()
	q.cq.show(entry{completion: c, qp: q})
	if q.arrivals.len() > 0 {
		q.net.add(q.in, q.arrivals.at(0).at)
	}
}

// told takes the first request off the send queue and puts the news of its end on its way.
func (q *QP) told(status fabric.Status) {
	n, r := q.net, q.sends.at(0)
	a := q.acks.push()
	*a = ack{
		completion: fabric.Completion{ID: r.wr.ID, QP: q.num, Op: r.wr.Op, Status: status},
		at:         n.later(), seq: q.posted - uint64(q.sends.len()), signaled: r.wr.Signaled, region: r.region,
	}
	if status == fabric.StatusOK {
		q.carried++
		n.counters.Requests++
		if r.wr.Op == fabric.OpRead {
			a.local, a.data = r.wr.Local, q.peer.read(&r.wr)
		}
	}
	q.sends.pop()
	if !q.dead {
		n.add(q.back, q.acks.at(0).at)
	}
}

// acknowledge tells the sender of the end of its first request that it does not know of.
func (q *QP) acknowledge() {
	if q.dead || q.acks.len() == 0 {
		return
	}
	a := *q.acks.at(0)
	q.release(q.acks.at(0))
	q.acks.pop()
	if a.completion.Status == fabric.StatusOK {
		copy(a.local, a.data)
	}
	if a.signaled || a.completion.Status != fabric.StatusOK {
		q.cq.show(entry{completion: a.completion, qp: q, seq: a.seq, send: true})
	}
	if q.acks.len() > 0 {
		q.net.add(q.back, q.acks.at(0).at)
	}
}

func (q *QP) release(a *ack) {
	if a.region != nil {
		a.region.requests--
	}
	*a = ack{}
}

// fail puts the queue pair into the error state: the first request ends with status (with breakNow none fails by
// itself), what is behind it is flushed. With lost, the sender does not learn of some requests that landed before:
// they are flushed too, or take the status.
func (q *QP) fail(status fabric.Status, lost bool) {
	if q.broken {
		return
	}
	n := q.net
	q.broken = true
	if status == breakNow {
		status = fabric.StatusFlushed
	}
	if k := q.acks.len(); lost && k > 0 {
		for i := n.rng.IntN(k + 1); i < k; i++ {
			q.acks.at(i).completion.Status = status
			status = fabric.StatusFlushed
			n.counters.Unseen++
		}
	}
	for q.sends.len() > 0 {
		q.told(status)
		status = fabric.StatusFlushed
	}
	q.rouse()
}

// copyWords copies as a NIC does: short pieces of aligned words in whole words, so that a word that others read or
// write at the same time is never torn.
func copyWords(dst, src []byte) {
	size := len(src)
	to, from := unsafe.Pointer(unsafe.SliceData(dst)), unsafe.Pointer(unsafe.SliceData(src))
	if size == 0 || size > wordWise || size%8 != 0 || uintptr(to)%8 != 0 || uintptr(from)%8 != 0 {
		copy(dst, src)
		return
	}
	for i := 0; i < size; i += 8 {
		atomic.StoreUint64((*uint64)(unsafe.Add(to, i)), atomic.LoadUint64((*uint64)(unsafe.Add(from, i))))
	}
}
