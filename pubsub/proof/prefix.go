package proof

import "math/bits"

// Prefix is the root that the partition's tree had when it held only its first size leaves. A proof of leaves shows it for
// every size from its first leaf to behind its last one: the nodes left of the leaves are the right edge of the tree before
// them. So whoever saw a head of that size compares it with this one, and needs no proof of consistency besides. ok is false
// for other sizes. The bundle must be a good one (Verify, or Head.CheckLeaves).
func (b *Bundle) Prefix(size int64) (root Hash, ok bool) {
	left := bits.OnesCount64(uint64(b.First)) //nolint:gosec // checked by CheckLeaves
	if size < b.First || size > b.First+int64(len(b.Leaves)) || left > len(b.Path) {
		return root, false
	}
	f := Frontier{size: b.First, roots: append([]Hash(nil), b.Path[:left]...)}
	for i := range b.Leaves[:size-b.First] {
		f.Append(b.Leaves[i].Hash(b.Head.Topic, b.Head.Partition))
	}
	return f.Root(), true
}

// Continues checks that the tree of an older head of the same partition is the beginning of the bundle's. shown is false
// where the bundle does not tell: its leaves are elsewhere. One whose first leaf holds old.Next always tells. A failure is
// ErrForked.
func (b *Bundle) Continues(old *Head) (shown bool, err error) {
	for i := range b.Leaves { // what the older tree ended with lies before old.Next, all else behind it
		l, after := &b.Leaves[i], b.First+int64(i) >= old.Leaves
		if after && l.Base < old.Next || !after && l.Next() > old.Next {
			return true, tamper(ErrForked, old.Topic, old.Partition, l.Base, "the first %d batches ended at offset %d, and batch %d is that of offsets %d to %d",
				old.Leaves, old.Next, b.First+int64(i), l.Base, l.Next()-1)
		}
	}
	if old.Leaves == 0 || old.Leaves >= b.Head.Leaves {
		return true, b.Head.CheckConsistent(old, nil)
	}
	root, shown := b.Prefix(old.Leaves)
	if shown && root != old.Root {
		err = tamper(ErrForked, old.Topic, old.Partition, old.Next, "the first %d batches had root %s, and have %s under the head of %d", old.Leaves, old.Root, root, b.Head.Leaves)
	}
	return shown, err
}
