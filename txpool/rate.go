package txpool

import "time"

// rate counts events of the running second.
type rate struct {
	begin time.Time
	used  int
}

// take counts an event unless the second had its limit already.
func (r *rate) take(now time.Time, limit int) bool {
	if now.Sub(r.begin) >= time.Second {
		r.begin, r.used = now, 0
	}
	if r.used >= limit {
		return false
	}
	r.used++
	return true
}
