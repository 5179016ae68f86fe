package blockstore

import "sort"

// HeightRange is the heights from First to Last, both included.
type HeightRange struct{ First, Last uint64 }

// HeightRanges are ranges of rising heights that do not touch each other.
type HeightRanges []HeightRange

// add puts in a height above all others. Of more than maxDamagedRanges the lowest goes.
func (r *HeightRanges) add(height uint64) {
	last := len(*r) - 1
	if last >= 0 && (*r)[last].Last+1 == height {
		(*r)[last].Last = height
		return
	}
	*r = append(*r, HeightRange{height, height})
	if len(*r) > maxDamagedRanges {
		*r = (*r)[1:]
	}
}

// Contain reports whether a height is in one of the ranges.
func (r HeightRanges) Contain(height uint64) bool {
	i := sort.Search(len(r), func(i int) bool { return r[i].Last >= height })
	return i < len(r) && r[i].First <= height
}

// Count is how many heights the ranges have.
func (r HeightRanges) Count() (n uint64) {
	for _, x := range r {
		n += x.Last - x.First + 1
	}
	return n
}

// newest are the highest heights, at most a number of them, rising.
func (r HeightRanges) newest(most uint64) (heights []uint64) {
	left := r.Count()
	for _, x := range r {
		for h := x.First; h <= x.Last; h++ {
			if left <= most {
				heights = append(heights, h)
			}
			left--
		}
	}
	return heights
}
