package gate

import (
	"encoding/binary"
	"sync"

	"github.com/bornode/bornode/pubsub/batch"
	"github.com/bornode/bornode/pubsub/seal"
)

// verdict is what a sealed batch is among those that were read before.
type verdict uint8

const (
	fresh    verdict = iota
	repeated         // the very batch that stands at a lower offset
	late             // older than what was read of its session at a lower offset, and not remembered
)

// replays remembers the places of sealed batches, so that one that stands in a partition twice is shown once. Each place
// belongs to the lowest offset at which it was read, so that whoever reads a partition again, or from elsewhere, sees the
// same. Two generations of a bounded size: the elder one is forgotten when the younger one is full.
type replays struct {
	mu          sync.Mutex
	size        int // of a generation
	seen, older map[seenPlace]int64
	tops, past  map[seenSession]top
}

type seenSession struct {
	at      place
	session [16]byte
}

type seenPlace struct {
	seenSession
	counter uint64
}

// top is the highest counter that was read of a session, and its offset.
type top struct {
	counter uint64
	offset  int64
}

func newReplays(size int) *replays {
	return &replays{size: size, seen: map[seenPlace]int64{}, tops: map[seenSession]top{}}
}

// judge takes the place of a batch that opened, at its base offset; first is where it was read before, if it was.
func (r *replays) judge(at place, p seal.Place, offset int64) (v verdict, first int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := seenSession{at, p.Session}
	x := seenPlace{s, p.Counter}
	first, known := r.seen[x]
	if !known {
		first, known = r.older[x]
	}
	highest, any := r.tops[s]
	if !any {
		highest, any = r.past[s]
	}
	switch {
	case known && offset > first:
		v = repeated
	case !known && any && p.Counter <= highest.counter && offset > highest.offset:
		return late, highest.offset // remembering it would make its original the repeated one
	default:
		first = offset
	}
	if !any || p.Counter > highest.counter && v == fresh {
		highest = top{p.Counter, offset}
	}
	if len(r.seen) >= r.size {
		r.seen, r.older = make(map[seenPlace]int64, r.size/4), r.seen
	}
	if len(r.tops) >= r.size {
		r.tops, r.past = make(map[seenSession]top, r.size/4), r.tops
	}
	r.seen[x], r.tops[s] = first, highest
	return v, first
}

// countAt is where a batch's header has the number of its records.
const countAt = batch.HeaderBytes - 4

// emptied is a batch without its records, as the cleaner of a compacted topic leaves them: clients go on behind it.
func emptied(dst, raw []byte) []byte {
	var head [batch.HeaderBytes]byte
	copy(head[:], raw)
	binary.BigEndian.PutUint32(head[countAt:], 0)
	return append(dst, batch.WithRecords(head[:], nil, 0)...)
}
