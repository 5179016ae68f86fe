package proof

import (
	"crypto/sha256"
	"fmt"
	"math/bits"

	"golang.org/x/mod/sumdb/tlog"
)

// Frontier is the right edge of a growing tree: the roots of its full subtrees, largest first. It is all that appending
// and the root need. The zero Frontier is the empty tree.
type Frontier struct {
	size  int64
	roots []Hash
}

// Size is the count of leaves.
func (f *Frontier) Size() int64 { return f.size }

// Clone is a copy that shares nothing.
func (f *Frontier) Clone() Frontier { return Frontier{f.size, append([]Hash(nil), f.roots...)} }

// Append adds a leaf by its hash and gives the hashes that it completed, by level: the leaf's own first.
func (f *Frontier) Append(h Hash) []Hash {
	done := []Hash{h}
	for n := f.size; n&1 == 1; n >>= 1 {
		last := len(f.roots) - 1
		h = tlog.NodeHash(f.roots[last], h)
		f.roots = f.roots[:last]
		done = append(done, h)
	}
	f.roots = append(f.roots, h)
	f.size++
	return done
}

// Root is the root of the tree; of the empty one the hash of nothing.
func (f *Frontier) Root() Hash {
	if len(f.roots) == 0 {
		return sha256.Sum256(nil)
	}
	h := f.roots[len(f.roots)-1]
	for i := len(f.roots) - 2; i >= 0; i-- {
		h = tlog.NodeHash(f.roots[i], h)
	}
	return h
}

// LoadFrontier reads the right edge of a tree of this size.
func LoadFrontier(size int64, r tlog.HashReader) (Frontier, error) {
	if size < 0 || size > MaxLeaves {
		return Frontier{}, fmt.Errorf("%w: tree of %d leaves", ErrDecode, size)
	}
	var at []int64
	for lo, n := int64(0), size; n > 0; {
		k := bits.Len64(uint64(n)) - 1
		at = append(at, tlog.StoredHashIndex(k, lo>>k))
		lo, n = lo+1<<k, n-1<<k
	}
	if len(at) == 0 {
		return Frontier{}, nil
	}
	hashes, err := r.ReadHashes(at)
	if err != nil {
		return Frontier{}, err
	}
	return Frontier{size, hashes}, nil
}

// split is RFC 6962's k for a node over n > 1 leaves: the largest power of two below n.
func split(n int64) int64 { return 1 << (bits.Len64(uint64(n-1)) - 1) }

func checkRange(a, b, n int64) error {
	if a < 0 || a >= b || b > n || n > MaxLeaves || b-a > MaxRangeLeaves {
		return fmt.Errorf("%w: leaves %d to %d of %d", ErrDecode, a, b, n)
	}
	return nil
}

// outside lists the nodes that cover all leaves of [lo,hi) but those of [a,b), left to right, each as [lo,hi).
func outside(lo, hi, a, b int64, out [][2]int64) [][2]int64 {
	switch {
	case hi <= a || lo >= b:
		return append(out, [2]int64{lo, hi})
	case a <= lo && hi <= b:
		return out
	}
	k := split(hi - lo)
	return outside(lo+k, hi, a, b, outside(lo, lo+k, a, b, out))
}

// ProveRange is the proof that the leaves [a,b) are in the tree of n leaves: the hashes of the nodes beside them, left to
// right. For one leaf it holds the hashes of RFC 6962's audit path, in tree order.
func ProveRange(a, b, n int64, r tlog.HashReader) ([]Hash, error) {
	if err := checkRange(a, b, n); err != nil {
		return nil, err
	}
	var path []Hash
	for _, x := range outside(0, n, a, b, nil) {
		h, err := nodeHash(x[0], x[1], r)
		if err != nil {
			return nil, err
		}
		path = append(path, h)
	}
	return path, nil
}

// nodeHash is the hash of the node over [lo,hi); only nodes on the right edge are not full.
func nodeHash(lo, hi int64, r tlog.HashReader) (Hash, error) {
	var at []int64
	for x := lo; x < hi; {
		k := bits.Len64(uint64(hi-x)) - 1
		at = append(at, tlog.StoredHashIndex(k, x>>k))
		x += 1 << k
	}
	hashes, err := r.ReadHashes(at)
	if err != nil {
		return Hash{}, err
	}
	h := hashes[len(hashes)-1]
	for i := len(hashes) - 2; i >= 0; i-- {
		h = tlog.NodeHash(hashes[i], h)
	}
	return h, nil
}

// RangeRoot is the root that the leaf hashes of [a, a+len(leaves)) and a proof by ProveRange lead to.
func RangeRoot(a, n int64, leaves, path []Hash) (Hash, error) {
	b := a + int64(len(leaves))
	if err := checkRange(a, b, n); err != nil {
		return Hash{}, err
	}
	if want := len(outside(0, n, a, b, nil)); len(path) != want {
		return Hash{}, fmt.Errorf("%w: proof of leaves %d to %d of %d has %d hashes, %d expected", ErrDecode, a, b, n, len(path), want)
	}
	var walk func(lo, hi int64) Hash
	walk = func(lo, hi int64) (h Hash) {
		switch {
		case hi <= a || lo >= b:
			h, path = path[0], path[1:]
			return h
		case hi-lo == 1:
			return leaves[lo-a]
		}
		k := split(hi - lo)
		h = walk(lo, lo+k)
		return tlog.NodeHash(h, walk(lo+k, hi))
	}
	return walk(0, n), nil
}

// memoryHashes reads the hashes of a small tree that is made of its leaves.
func memoryHashes(leaves []Hash) tlog.HashReaderFunc {
	stored := make([]Hash, 0, 2*len(leaves))
	var f Frontier
	for _, h := range leaves {
		stored = append(stored, f.Append(h)...)
	}
	return func(at []int64) ([]Hash, error) {
		out := make([]Hash, len(at))
		for i, x := range at {
			out[i] = stored[x]
		}
		return out, nil
	}
}
