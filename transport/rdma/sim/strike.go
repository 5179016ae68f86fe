package sim

import "github.com/bornode/bornode/transport/rdma/fabric"

// strike breaks the connection while it carries a request, in one of the ways that a sender cannot tell apart. It
// returns false if the request is to be tried all the same, for the sender to find out.
func (q *QP) strike(r *request) bool {
	n, p := q.net, q.peer
	n.counters.Breaks++
	reached := p != nil && p.connected && p.peer == q && !p.broken
	status := fabric.StatusRetryExceeded
	if n.rng.IntN(2) == 0 {
		status = fabric.StatusOther
	}
	switch n.rng.IntN(4) {
	case 0: // nothing of it lands
	case 1: // the first bytes of it land
		if size := len(r.wr.Local); reached && size > 1 && r.wr.Op != fabric.OpRead && r.wr.Op != fabric.OpSend && p.reach(&r.wr) != nil {
			part := 1 + n.rng.IntN(size-1)
			if size <= wordWise {
				part &^= 7 // whole words, as promised
			}
			_ = q.land(r, part) // reached, so it cannot fail
			n.counters.Torn++
		}
	case 2: // all of it lands, and the sender does not learn so
		if reached && (!needsEntry(r.wr.Op) || p.srq.entries.len() > 0) && q.land(r, len(r.wr.Local)) == fabric.StatusOK {
			n.counters.Unseen++
		}
	default: // the other side breaks
		if reached {
			p.strikes()
			return false
		}
	}
	q.tell()
	q.fail(status, true)
	return true
}

// strikes breaks the queue pair by a planted fault.
func (q *QP) strikes() {
	q.tell()
	q.fail(breakNow, true)
}

// tell tells the device's user, unless breaks are quiet.
func (q *QP) tell() {
	if !q.net.faults.QuietBreaks {
		q.dev.event(fabric.Event{Kind: fabric.EventQPFatal, QP: q.num, Text: "planted by the simulator"})
	}
}
