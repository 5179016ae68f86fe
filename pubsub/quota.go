package pubsub

import (
	"sync"
	"time"
)

// bucket is a token bucket that may go into debt: what is taken is always granted, and who is in debt waits.
type bucket struct {
	level float64 // bytes; negative: a debt
	at    time.Time
}

// take charges n bytes at a rate (bytes/s; 0: no limit) and returns how long the debt takes to be paid.
func (b *bucket) take(now time.Time, rate uint64, n int) time.Duration {
	if rate == 0 {
		*b = bucket{}
		return 0
	}
	r, most := float64(rate), float64(rate)*quotaBurst.Seconds()
	if b.at.IsZero() {
		b.level = most
	} else if d := now.Sub(b.at); d > 0 {
		b.level = min(most, b.level+r*d.Seconds())
	}
	b.at = now
	b.level -= float64(n)
	if b.level >= 0 {
		return 0
	}
	return time.Duration(-b.level / r * float64(time.Second))
}

// use is what a tenant uses of this broker.
type use struct {
	in, out bucket
	conns   int
}

// quotas holds tenants to their bytes per second, in each direction, and to their connections. Every broker holds a
// tenant to its share of the whole by itself.
type quotas struct {
	mu      sync.Mutex
	tenants map[string]*use // those with connections, or with a debt
}

func newQuotas() *quotas { return &quotas{tenants: make(map[string]*use)} }

func (q *quotas) use(tenant string) *use {
	u := q.tenants[tenant]
	if u == nil {
		u = new(use)
		q.tenants[tenant] = u
	}
	return u
}

// takeIn charges bytes that came in; takeOut those that go out. n may be 0: it asks for the debt.
func (q *quotas) takeIn(now time.Time, tenant string, rate uint64, n int) time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.use(tenant).in.take(now, rate, n)
}

func (q *quotas) takeOut(now time.Time, tenant string, rate uint64, n int) time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.use(tenant).out.take(now, rate, n)
}

// join counts a connection to a tenant; false: it has as many as it may (most; 0: no limit).
func (q *quotas) join(tenant string, most uint32) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	u := q.use(tenant)
	if most > 0 && u.conns >= int(most) {
		return false
	}
	u.conns++
	return true
}

func (q *quotas) leave(tenant string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if u := q.tenants[tenant]; u != nil && u.conns > 0 {
		u.conns--
	}
}

// sweep forgets tenants that use nothing and owe nothing.
func (q *quotas) sweep(now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	old := func(b *bucket) bool { return b.at.IsZero() || b.level >= 0 && now.Sub(b.at) > quotaBurst }
	for name, u := range q.tenants {
		if u.conns == 0 && old(&u.in) && old(&u.out) {
			delete(q.tenants, name)
		}
	}
}
