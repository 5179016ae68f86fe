package proof

import (
	"crypto/sha256"

	"github.com/bornode/bornode/pubsub/batch"
)

// Compare checks batches, as they came from a broker, against the proved leaves of the same place: leaves[0] is that of
// the first batch expected. Batches may be fewer than leaves, never others. The error names the first place that is wrong
// and in which way.
func Compare(topic [32]byte, partition int32, leaves []Leaf, batches []byte) error {
	_, err := compare(topic, partition, leaves, batches)
	return err
}

// CompareAll is Compare where there must be a batch for every leaf.
func CompareAll(topic [32]byte, partition int32, leaves []Leaf, batches []byte) error {
	n, err := compare(topic, partition, leaves, batches)
	if err == nil && n < len(leaves) {
		return tamper(ErrDropped, topic, partition, leaves[n].Base, "%d batches of %d are there", n, len(leaves))
	}
	return err
}

func compare(topic [32]byte, partition int32, leaves []Leaf, batches []byte) (int, error) {
	byBase := make(map[int64]int, len(leaves))
	for i := range leaves {
		byBase[leaves[i].Base] = i
	}
	want := 0
	for len(batches) > 0 {
		if want == len(leaves) {
			return want, tamper(ErrForged, topic, partition, after(leaves), "a batch more than the %d that were proved", len(leaves))
		}
		l := &leaves[want]
		size, err := batch.Size(batches)
		if err != nil || size > len(batches) {
			return want, tamper(ErrFlipped, topic, partition, l.Base, "what is there is no batch")
		}
		raw := batches[:size]
		batches = batches[size:]
		h, _, err := batch.Parse(raw)
		if err != nil {
			return want, tamper(ErrFlipped, topic, partition, l.Base, "%v", err)
		}
		c := comparison{topic, partition, leaves, byBase}
		if err := c.one(want, &h, batch.Covered(raw), batches); err != nil {
			return want, err
		}
		want++
	}
	return want, nil
}

func after(leaves []Leaf) int64 {
	if len(leaves) == 0 {
		return 0
	}
	return leaves[len(leaves)-1].Next()
}

type comparison struct {
	topic     [32]byte
	partition int32
	leaves    []Leaf
	byBase    map[int64]int
}

func (c *comparison) tamper(kind error, offset int64, format string, args ...any) *Tamper {
	return tamper(kind, c.topic, c.partition, offset, format, args...)
}

// one tells in which way a batch is not the one of leaves[want]; rest is what follows it.
func (c *comparison) one(want int, h *batch.Header, covered, rest []byte) error {
	l := &c.leaves[want]
	digest := Hash(sha256.Sum256(covered))
	if h.BaseOffset != l.Base {
		return c.misplaced(want, h, digest, rest)
	}
	switch {
	case digest == l.Digest && h.LeaderEpoch == l.Epoch:
		return nil
	case h.LeaderEpoch < l.Epoch:
		return c.tamper(ErrOldEpoch, l.Base, "it is of epoch %d, the committed one is of epoch %d", h.LeaderEpoch, l.Epoch)
	case digest == l.Digest:
		return c.tamper(ErrForged, l.Base, "it is of epoch %d, the committed one is of epoch %d", h.LeaderEpoch, l.Epoch)
	}
	for i := range c.leaves {
		if c.leaves[i].Digest == digest {
			return c.tamper(ErrReordered, l.Base, "the batch of offset %d is in its place", c.leaves[i].Base)
		}
	}
	return c.tamper(ErrForged, l.Base, "its digest is %s, the committed one has %s", digest, l.Digest)
}

// misplaced tells what a batch with another offset than expected means: a later committed one is there because the
// expected one is missing, or because they changed places: then the expected one still comes.
func (c *comparison) misplaced(want int, h *batch.Header, digest Hash, rest []byte) error {
	l := &c.leaves[want]
	i, known := c.byBase[h.BaseOffset]
	switch {
	case !known || c.leaves[i].Digest != digest:
		return c.tamper(ErrForged, l.Base, "a batch of offset %d is there, which was never committed", h.BaseOffset)
	case i < want:
		return c.tamper(ErrReordered, l.Base, "the batch of offset %d came again", h.BaseOffset)
	}
	for len(rest) > 0 {
		later, size, err := batch.Parse(rest)
		if err != nil {
			break
		}
		if later.BaseOffset == l.Base {
			return c.tamper(ErrReordered, l.Base, "the batch of offset %d came before it", h.BaseOffset)
		}
		rest = rest[size:]
	}
	return c.tamper(ErrDropped, l.Base, "the batch of offset %d follows at once", h.BaseOffset)
}
