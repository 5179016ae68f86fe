package blocksync

import (
	"slices"
	"time"

	"github.com/bornode/bornode/consensus/clock"
	"github.com/ethereum/go-ethereum/common"
)

// clockSample is what one exchange of time messages tells: what the peer's own clock showed, since 1970, at an instant
// here, and the round trip. The instant and the round trip are of the monotonic clock, so a jump of this machine's own
// clock spoils no sample.
type clockSample struct {
	wall time.Duration
	at   time.Time
	rtt  time.Duration
}

// maxUnixNanos is above every instant that is taken from a peer, so that sums of two do not overflow.
const maxUnixNanos = uint64(1) << 62

// sampleClock evaluates an answered time message (NTP): asked is when the question left here, rec when the peer got it and
// xmt when its answer left, by its clock in Unix nanoseconds, arrived when that arrived here. It fails if the times
// contradict each other.
func sampleClock(asked, arrived time.Time, rec, xmt uint64) (clockSample, bool) {
	passed := arrived.Sub(asked)
	if rec >= maxUnixNanos || xmt >= maxUnixNanos || xmt < rec || passed < 0 || xmt-rec > uint64(passed) {
		return clockSample{}, false
	}
	held := time.Duration(xmt - rec) //nolint:gosec // below the limit
	return clockSample{
		wall: time.Duration(rec) + held/2, //nolint:gosec // as above
		at:   asked.Add(passed / 2),
		rtt:  passed - held,
	}, true
}

// ahead is how much more s shows than o would, had the peer's clock gone on from o at the pace of this machine's.
func (s clockSample) ahead(o clockSample) time.Duration { return s.wall - o.wall - s.at.Sub(o.at) }

// clockDrift is the pace by which two clocks may differ: one part in so many.
const clockDrift = 1000

// clockFilter keeps the sample with the shortest round trip among the last few, as NTP does, and a smoothed round trip.
// A sample is wrong by half its round trip at most: one that differs from the best one by more shows that the peer's
// clock was set, and those before it are forgotten.
type clockFilter struct {
	samples [8]clockSample
	n       int
	rtt     time.Duration
	smooth  bool // rtt holds a value
}

func (f *clockFilter) Add(s clockSample) {
	if best, ok := f.Best(); ok && s.ahead(best).Abs() > (s.rtt+best.rtt)/2+s.at.Sub(best.at)/clockDrift {
		f.n = 0
	}
	f.samples[f.n%len(f.samples)] = s
	f.n++
	if !f.smooth {
		f.rtt, f.smooth = s.rtt, true
		return
	}
	f.rtt += (s.rtt - f.rtt) / 4
}

// Best is the sample to go by; false before the first.
func (f *clockFilter) Best() (best clockSample, ok bool) {
	for i, s := range f.samples[:min(f.n, len(f.samples))] {
		if i == 0 || s.rtt < best.rtt {
			best = s
		}
	}
	return best, f.n > 0
}

// Offset is the peer's clock minus this machine's own, which shows own now; 0 before the first sample.
func (f *clockFilter) Offset(own time.Duration, now time.Time) time.Duration {
	best, ok := f.Best()
	if !ok {
		return 0
	}
	return best.wall + now.Sub(best.at) - own
}

func (f *clockFilter) RTT() time.Duration { return f.rtt }

// toldFilter keeps the time that a peer tells, as clockFilter does its clock. It is empty while the peer tells none.
type toldFilter struct{ clockFilter }

// addTold takes what an answered time message told: s is its sample, xmt when it left by the peer's clock, told the time at that instant.
func (f *toldFilter) addTold(s clockSample, xmt, told uint64) {
	if told == 0 || told >= maxUnixNanos {
		*f = toldFilter{}
		return
	}
	s.wall = time.Duration(told) - (time.Duration(xmt) - s.wall) //nolint:gosec // below the limit
	f.Add(s)
}

// ownClock is what this machine's own clock shows, since 1970.
func (m *Manager) ownClock() time.Duration { return time.Duration(m.deps.Now().UnixNano()) }

// noteClock keeps a reading of a producer's clock for as long as it counts, also when its link is down.
func (m *Manager) noteClock(p *peer, now time.Time) {
	best, ok := p.clock.Best()
	if !ok || !p.handshaken || p.hello.Key == (common.Address{}) || p.hello.Key == m.deps.Identity.Account {
		return
	}
	old := *m.clocks.Load()
	kept := make([]clock.Reading, 0, len(old)+1)
	for _, r := range old {
		if r.Account != p.hello.Key && now.Sub(r.At) <= clock.MaxAge {
			kept = append(kept, r)
		}
	}
	if n := len(kept) - (maxClocks - 1); n > 0 { // whoever is a member may name accounts without end: the oldest leave
		slices.SortFunc(kept, func(a, b clock.Reading) int { return a.At.Compare(b.At) })
		kept = kept[n:]
	}
	// The best sample stands for the newest instant: the peer was heard just now, and its clock has gone on.
	r := clock.Reading{Account: p.hello.Key, Wall: best.wall + now.Sub(best.at), At: now}
	if told, ok := p.told.Best(); ok {
		r.Told = max(0, told.wall+now.Sub(told.at))
	}
	kept = append(kept, r)
	m.clocks.Store(&kept)
}

// toldTo is what an answer tells a peer of the time that this node goes by; 0: nothing.
func (m *Manager) toldTo(p *peer) uint64 {
	if m.deps.ToldTime == nil || !p.takesTime {
		return 0
	}
	return uint64(max(0, m.deps.ToldTime())) //nolint:gosec // as above
}

// Clocks are the newest readings of other producers' clocks, as their handshakes name the producers. It never waits, and
// may be called at any time.
func (m *Manager) Clocks() []clock.Reading { return *m.clocks.Load() }
