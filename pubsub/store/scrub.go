package store

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/bornode/bornode/pubsub/batch"
)

// ScrubPosition is where the background reading is.
type ScrubPosition struct {
	Partition uint32 // number in this store; partitions are read in rising order
	Offset    int64
}

// Scrubbed is what one step of the background reading did.
type Scrubbed struct {
	Next     ScrubPosition
	End      bool  // all partitions were read
	Bytes    int64 // of batches
	Problems int   // partitions in which damage was met
}

// Scrub reads durable batches from a position on, about most bytes of them, with the checksums of records and batches and
// the entries of the index files that lead there. Damage is told to OnDamage as that of any read; the rest of the damaged
// partition is read in the next round, when it was mended. Snapshots, which only a start reads, are not read. The error
// says why nothing can be read.
func (s *Store) Scrub(ctx context.Context, from ScrubPosition, most int) (r Scrubbed, err error) {
	s.mu.RLock()
	numbers := slices.Sorted(maps.Keys(s.byNumber))
	s.mu.RUnlock()
	for _, n := range numbers {
		if n < from.Partition {
			continue
		}
		s.mu.RLock()
		p := s.byNumber[n]
		s.mu.RUnlock()
		if p == nil {
			continue
		}
		offset := p.Start()
		if n == from.Partition {
			offset = max(offset, from.Offset)
		}
		for {
			r.Next = ScrubPosition{n, offset}
			if r.Bytes >= int64(most) || ctx.Err() != nil {
				return r, nil
			}
			b, err := p.Read(offset, most, p.DurableEnd())
			switch {
			case isDamage(err):
				r.Problems++
			case errors.Is(err, ErrDeleted), errors.Is(err, ErrOutOfRange), gone(err): // changed meanwhile: the next round sees it
			case err != nil:
				return r, err
			}
			if err != nil || len(b) == 0 {
				break
			}
			r.Bytes += int64(len(b))
			if offset, err = eachOf(b, noBatch); err != nil {
				return r, err
			}
		}
	}
	r.End = true
	return r, nil
}

func noBatch(batch.Header, []byte) error { return nil }
