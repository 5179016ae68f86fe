package proof

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A proof of leaves shows all older heads from its first leaf to behind its last one, and finds each that another history had.
func TestAProofContinuesOlderHeads(t *testing.T) {
	_, leaves := someBatches(21)
	_, forked := someBatches(21)
	forked[0].Digest[0] ^= 1
	for n := 1; n <= len(leaves); n++ {
		head, r := treeOf(leaves[:n])
		for a := range n {
			for b := a + 1; b <= n; b++ {
				p := &Bundle{Head: head, First: int64(a), Leaves: leaves[a:b]}
				var err error
				p.Path, err = ProveRange(int64(a), int64(b), int64(n), r)
				require.NoError(t, err)
				for old := 1; old <= n; old++ {
					was, _ := treeOf(leaves[:old])
					shown, err := p.Continues(&was)
					require.NoError(t, err)
					require.Equal(t, a <= old && old <= b || old == n, shown, "%d of leaves %d to %d of %d", old, a, b, n)
					other, _ := treeOf(forked[:old])
					shown, err = p.Continues(&other)
					if shown {
						require.ErrorIs(t, err, ErrForked, "%d of leaves %d to %d of %d", old, a, b, n)
					}
				}
			}
		}
	}
}

func TestAnOlderHeadIsNotLonger(t *testing.T) {
	_, leaves := someBatches(5)
	head, _ := treeOf(leaves[:3])
	p := &Bundle{Head: head, First: 2, Leaves: leaves[2:3]}
	longer, _ := treeOf(leaves)
	_, err := p.Continues(&longer)
	require.ErrorIs(t, err, ErrForked)
	moved, _ := treeOf(leaves[:2]) // a head that lies about where it ends
	moved.Next++
	p.Path = nil
	full, r := treeOf(leaves[:3])
	p.Head = full
	p.Path, err = ProveRange(2, 3, 3, r)
	require.NoError(t, err)
	_, err = p.Continues(&moved)
	require.ErrorIs(t, err, ErrForked)
	moved.Leaves, moved.Next = 0, 0
	shown, err := p.Continues(&moved)
	require.True(t, shown)
	require.NoError(t, err)
}
