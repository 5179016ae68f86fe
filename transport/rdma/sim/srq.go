package sim

import (
	"fmt"

	"github.com/bornode/bornode/transport/rdma/fabric"
)

// SRQ is a shared receive queue: see fabric.SRQ.
type SRQ struct {
	dev   *Device
	depth int

	// Guarded by the network's mutex.
	entries fifo[recvEntry]
	limit   int   // armed; 0: not
	waiting []*QP // senders, on any device, that wait for an entry here
	users   int   // open queue pairs
	closed  bool
}

type recvEntry struct {
	wr     fabric.RecvWR
	region *Region // nil: no buffer, or not what the key names
	bad    bool
}

// NewSRQ implements fabric.Device.
func (d *Device) NewSRQ(depth int) (fabric.SRQ, error) {
	if depth < 1 || depth > MaxRecv {
		return nil, fmt.Errorf("sim: a receive queue of %d: want 1 to %d", depth, MaxRecv)
	}
	d.net.mu.Lock()
	defer d.net.mu.Unlock()
	if err := d.making(); err != nil {
		return nil, err
	}
	d.srqs++
	return &SRQ{dev: d, depth: depth}, nil
}

// Post implements fabric.SRQ.
func (s *SRQ) Post(wrs []fabric.RecvWR) (int, error) {
	n := s.dev.net
	n.mu.Lock()
	defer n.mu.Unlock()
	if s.closed {
		return 0, fabric.ErrClosed
	}
	if s.dev.lost {
		return 0, fabric.ErrBroken
	}
	took := 0
	for i := range wrs {
		if s.entries.len() == s.depth {
			break
		}
		e := recvEntry{wr: wrs[i]}
		if len(e.wr.Local) > 0 {
			if r := s.dev.byKey[e.wr.Key]; r != nil && r.holds(e.wr.Local) {
				e.region = r
				r.entries++
			} else {
				e.bad = true
			}
		}
		*s.entries.push() = e
		took++
	}
	if took > 0 && len(s.waiting) > 0 {
		waiting := s.waiting
		s.waiting = nil
		for _, q := range waiting {
			q.resume()
		}
	}
	if took < len(wrs) {
		return took, fabric.ErrFull
	}
	return took, nil
}

// take uses an entry: one of the oldest, not always the oldest.
func (s *SRQ) take() recvEntry {
	n := s.dev.net
	e := s.entries.at(n.rng.IntN(min(shuffled, s.entries.len())))
	*e, *s.entries.at(0) = *s.entries.at(0), *e
	taken := *s.entries.at(0)
	*s.entries.at(0) = recvEntry{}
	s.entries.pop()
	if taken.region != nil {
		taken.region.entries--
	}
	if s.limit > 0 && s.entries.len() < s.limit {
		s.limit = 0
		n.counters.LimitEvents++
		s.dev.event(fabric.Event{Kind: fabric.EventSRQLimit, Text: fmt.Sprintf("%d entries are left", s.entries.len())})
	}
	return taken
}

// ArmLimit implements fabric.SRQ.
func (s *SRQ) ArmLimit(limit int) error {
	s.dev.net.mu.Lock()
	defer s.dev.net.mu.Unlock()
	if s.closed {
		return fabric.ErrClosed
	}
	if limit < 0 || limit > s.depth {
		return fmt.Errorf("sim: a limit of %d on a receive queue of %d", limit, s.depth)
	}
	s.limit = limit
	return nil
}

// Close implements fabric.SRQ. It fails while queue pairs use the queue.
func (s *SRQ) Close() error {
	n := s.dev.net
	n.mu.Lock()
	defer n.mu.Unlock()
	if s.closed {
		return nil
	}
	if s.users > 0 {
		return n.misuse("a receive queue is closed before its %d queue pairs", s.users)
	}
	s.closed = true
	s.dev.srqs--
	for i := range s.entries.len() {
		if r := s.entries.at(i).region; r != nil {
			r.entries--
		}
	}
	s.entries = fifo[recvEntry]{}
	return nil
}
