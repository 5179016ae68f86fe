//go:build linux

package shm

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/bornode/bornode/transport/rdma/fabric"
)

// SRQ is a shared receive queue: a ring of entries that arriving completions take, and a status word that tells peers
// when few are left.
type SRQ struct {
	dev  *Device
	line int
	told *atomic.Uint32 // status word

	mu      sync.Mutex
	entries []fabric.RecvWR // ring
	first   int
	free    int    // entries posted and not taken
	last    uint32 // what told says
	limit   int    // 0: not armed
	starved []*CQ  // a queue pair of these waits for an entry
	closed  bool
}

var _ fabric.SRQ = (*SRQ)(nil)

func newSRQ(d *Device, depth int) (*SRQ, error) {
	line, told, err := d.status.line()
	if err != nil {
		return nil, err
	}
	return &SRQ{dev: d, line: line, told: told, entries: make([]fabric.RecvWR, depth)}, nil
}

// Post implements fabric.SRQ. An entry with memory outside its region is an error.
func (s *SRQ) Post(wrs []fabric.RecvWR) (int, error) {
	s.mu.Lock()
	n, err := s.post(wrs)
	s.publish()
	var woken []*CQ
	if n > 0 {
		woken, s.starved = s.starved, nil
	}
	s.mu.Unlock()
	for _, c := range woken {
		c.kick()
	}
	return n, err
}

func (s *SRQ) post(wrs []fabric.RecvWR) (int, error) {
	if s.closed {
		return 0, fabric.ErrClosed
	}
	for i := range wrs {
		if s.free == len(s.entries) {
			return i, fabric.ErrFull
		}
		if wr := &wrs[i]; len(wr.Local) != 0 && !s.dev.holds(wr.Key, wr.Local) {
			return i, fmt.Errorf("shm: receive entry of %d bytes is not in the region of its key", len(wr.Local))
		}
		at := s.first + s.free
		if at >= len(s.entries) {
			at -= len(s.entries)
		}
		s.entries[at] = wrs[i]
		s.free++
	}
	return len(wrs), nil
}

// pop takes the oldest entry; there must be one. The caller holds mu and calls publish later.
func (s *SRQ) pop() *fabric.RecvWR {
	wr := &s.entries[s.first]
	if s.first++; s.first == len(s.entries) {
		s.first = 0
	}
	s.free--
	return wr
}

// publish tells peers how many entries are left and raises the limit event. It comes after the ring's head moved past
// the slots that took entries: a sender that reads this first and the head second never counts an entry twice.
func (s *SRQ) publish() {
	if left := uint32(min(s.free, scarceEntries)); left != s.last {
		s.last = left
		s.told.Store(left)
	}
	if s.limit > 0 && s.free < s.limit {
		s.dev.events.put(fabric.Event{Kind: fabric.EventSRQLimit, Text: fmt.Sprintf("%d receive entries left", s.free)})
		s.limit = 0
	}
}

// ArmLimit implements fabric.SRQ. If fewer are left already the event comes at once.
func (s *SRQ) ArmLimit(n int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return fabric.ErrClosed
	}
	if n < 0 || n > len(s.entries) {
		return fmt.Errorf("shm: limit of %d in a receive queue of %d", n, len(s.entries))
	}
	s.limit = n
	s.publish()
	return nil
}

// Close implements fabric.SRQ. Queue pairs that use it find no entry any more.
func (s *SRQ) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	s.free, s.limit, s.starved = 0, 0, nil
	s.publish()
	s.entries = nil
	s.dev.status.free(s.line)
	s.dev.forget(s)
	return nil
}
