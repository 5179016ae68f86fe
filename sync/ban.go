package blocksync

import (
	"fmt"
	"sync"
	"time"

	"github.com/bornode/bornode/transport"
)

// banTable keeps who is refused and until when. It is bounded: the ban that ends first makes room. Safe for concurrent
// use: the host's gate asks it.
type banTable struct {
	mu    sync.Mutex
	until map[transport.PeerID]time.Time
	why   map[transport.PeerID]Reason
}

func newBanTable() *banTable {
	return &banTable{until: make(map[transport.PeerID]time.Time), why: make(map[transport.PeerID]Reason)}
}

func (b *banTable) Add(p transport.PeerID, why Reason, until time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, ok := b.until[p]; !ok && len(b.until) >= maxBans {
		var first transport.PeerID
		for q, t := range b.until {
			if first == "" || t.Before(b.until[first]) {
				first = q
			}
		}
		delete(b.until, first)
		delete(b.why, first)
	}
	b.until[p], b.why[p] = until, why
}

// Check is nil if the peer is not banned at now.
func (b *banTable) Check(p transport.PeerID, now time.Time) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	t, ok := b.until[p]
	if !ok {
		return nil
	}
	if !now.Before(t) {
		delete(b.until, p)
		delete(b.why, p)
		return nil
	}
	return fmt.Errorf("peer %s is refused until %s (%s)", p, t.Format(time.TimeOnly), b.why[p])
}

func (b *banTable) Len() int { b.mu.Lock(); defer b.mu.Unlock(); return len(b.until) }

// rateLimit spaces what is served so that, from the first byte on, never more than rate bytes per second leave, to all
// peers together. 0 is no limit. Safe for concurrent use.
type rateLimit struct {
	rate int64
	mu   sync.Mutex
	next time.Time
}

// Reserve books n bytes and returns how long to wait before they may be sent.
func (r *rateLimit) Reserve(n int, now time.Time) time.Duration {
	if r.rate <= 0 {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.next.Before(now) {
		r.next = now
	}
	wait := r.next.Sub(now)
	r.next = r.next.Add(time.Duration(float64(n) / float64(r.rate) * float64(time.Second)))
	return wait
}
