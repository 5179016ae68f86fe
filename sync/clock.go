package blocksync

import "time"

// clockSample is what one exchange of time messages tells: the peer's clock minus ours, and the round trip.
type clockSample struct {
	offset time.Duration
	rtt    time.Duration
}

// sampleClock evaluates an answered time message (NTP): org is when the question left here, rec when the peer got it,
// xmt when its answer left, dst when it arrived here; Unix nanoseconds. It fails if the four times contradict each other.
func sampleClock(org, rec, xmt, dst uint64) (clockSample, bool) {
	const limit = uint64(1) << 62
	if org >= limit || rec >= limit || xmt >= limit || dst >= limit || dst < org || xmt < rec || xmt-rec > dst-org {
		return clockSample{}, false
	}
	o, r, x, d := int64(org), int64(rec), int64(xmt), int64(dst)
	return clockSample{
		offset: time.Duration((r-o)/2 + (x-d)/2),
		rtt:    time.Duration((d - o) - (x - r)),
	}, true
}

// clockFilter keeps the offset of the sample with the shortest round trip among the last few, as NTP does, and a
// smoothed round trip.
type clockFilter struct {
	samples [8]clockSample
	n       int
	rtt     time.Duration
}

func (f *clockFilter) Add(s clockSample) {
	f.samples[f.n%len(f.samples)] = s
	f.n++
	if f.n == 1 {
		f.rtt = s.rtt
		return
	}
	f.rtt += (s.rtt - f.rtt) / 4
}

func (f *clockFilter) Offset() time.Duration {
	if f.n == 0 {
		return 0
	}
	best := f.samples[0]
	for _, s := range f.samples[1:min(f.n, len(f.samples))] {
		if s.rtt < best.rtt {
			best = s
		}
	}
	return best.offset
}

func (f *clockFilter) RTT() time.Duration { return f.rtt }
