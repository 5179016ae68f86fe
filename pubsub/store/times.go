package store

import (
	"cmp"
	"slices"
)

// OffsetAt finds the first batch that has a record at or after ts (ms), by what its producer says of it: the offset
// where reading must begin, and a timestamp in it; -1, -1: none.
func (p *Partition) OffsetAt(ts int64) (offset, timestamp int64, err error) {
	for try := 0; ; try++ {
		offset, timestamp, err = p.offsetAt(ts)
		if err == nil || !gone(err) || try == planAgain {
			return offset, timestamp, p.damage(err)
		}
	}
}

func (p *Partition) offsetAt(ts int64) (offset, timestamp int64, err error) {
	runs, start := p.runsSince(ts)
	for i := range runs {
		r := &runs[i]
		for at := max(r.base, start); at < r.next; {
			es, next, err := p.s.entriesFrom(r, at)
			if err != nil {
				return -1, -1, err
			}
			for j, e := range es {
				if e.maxTs >= ts {
					return p.firstAt(r.at(es, j, next), e.maxTs, ts, start)
				}
			}
			at = next
		}
	}
	return -1, -1, nil
}

func (p *Partition) firstAt(at located, maxTs, ts, start int64) (offset, timestamp int64, err error) {
	h, err := p.s.readHead(p.number, at)
	if err != nil {
		return -1, -1, err
	}
	if timestamp = maxTs; h.FirstTimestamp >= ts {
		timestamp = h.FirstTimestamp
	}
	return max(at.base, start), timestamp, nil
}

// Newest finds the batch below upTo with the largest timestamp, of equals the first: its last offset and that timestamp;
// -1, -1: none. The index has the times, so no batch is read, and no run that cannot have a larger one.
func (p *Partition) Newest(upTo int64) (offset, timestamp int64, err error) {
	for try := 0; ; try++ {
		offset, timestamp, err = p.newest(upTo)
		if err == nil || !gone(err) || try == planAgain {
			return offset, timestamp, p.damage(err)
		}
	}
}

func (p *Partition) newest(upTo int64) (offset, timestamp int64, err error) {
	runs, start := p.runsSince(-1)
	slices.SortStableFunc(runs, func(a, b run) int { return cmp.Compare(b.maxTs, a.maxTs) })
	offset, timestamp = -1, -1
	for i := range runs {
		r := &runs[i]
		if r.maxTs < timestamp { // and so have all that follow; one that was cut may say more than it has
			break
		}
		for at := max(r.base, start); at < min(r.next, upTo); {
			es, next, err := p.s.entriesFrom(r, at)
			if err != nil {
				return -1, -1, err
			}
			for j, e := range es {
				end := r.at(es, j, next).next
				if end <= upTo && (e.maxTs > timestamp || e.maxTs == timestamp && end-1 < offset) {
					offset, timestamp = end-1, e.maxTs
				}
			}
			at = next
		}
	}
	return offset, timestamp, nil
}

// runsSince copies the runs that may have records at or after ts, and the offset where the log starts.
func (p *Partition) runsSince(ts int64) (runs []run, start int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.runs {
		if r.maxTs >= ts {
			runs = append(runs, *r)
		}
	}
	return runs, p.start
}
