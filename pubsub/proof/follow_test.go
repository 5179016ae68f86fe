package proof

import (
	"context"
	"testing"

	"github.com/ethereum/go-ethereum/rlp"
	"github.com/stretchr/testify/require"
)

func sizeOf(t *testing.T, runs []Run) int {
	b, err := rlp.EncodeToBytes(runs)
	require.NoError(t, err)
	return len(b)
}

// One who follows the chain from checkpoint to checkpoint gets what is new alone, through changes of schedule, whether the
// node remembers where he is or not.
func TestFollowersGetWhatIsNew(t *testing.T) {
	w := newWorld(t)
	w.grow(5)
	f := NewFollower(w.trust)
	forgetful := func() *Follower { return NewFollower(w.trust) }
	steady, late := NewChain(w.trust), NewChain(w.trust)
	most := 0
	for i := range 40 {
		if i == 10 {
			w.next = seats(4, 5, 6, 7)
		}
		w.grow(3 + i%4)
		height := w.head() - 4
		if height <= steady.Height() {
			continue
		}
		runs, err := f.Collect(context.Background(), w, steady.Height(), height, w.head())
		require.NoError(t, err)
		for j := range runs {
			require.NoError(t, steady.Extend(&runs[j]), "block %d after %d", height, late.Height())
		}
		require.GreaterOrEqual(t, steady.Height(), height)
		if i > 12 && i < 20 {
			continue
		}
		other, err := forgetful().Collect(context.Background(), w, late.Height(), height, w.head())
		require.NoError(t, err)
		c := late
		if other[0].Headers[0].Number() <= late.Height() { // he asked from within a run
			c = NewChain(w.trust)
		}
		for j := range other {
			require.NoError(t, c.Extend(&other[j]))
		}
		late = c
		most = max(most, sizeOf(t, runs))
	}
	whole := sizeOf(t, w.collect(w.head()-4))
	t.Logf("%d epochs: %d bytes of headers from genesis, at most %d for one who follows", w.head()/epochBlocks, whole, most)
	require.Less(t, most*4, whole)
	again, err := f.Collect(context.Background(), w, steady.Height(), 5, w.head())
	require.NoError(t, err)
	_, err = follow(w.trust, again)
	require.NoError(t, err, "of a block behind him he gets the whole way")
}

func TestAFollowerRemembersWithinItsBound(t *testing.T) {
	f := NewFollower(&Trust{})
	for i := range uint64(3 * RememberedEpochs) {
		f.keep(chainState{height: i + 1})
		f.keep(chainState{height: i}) // an older one that another asker made it walk
	}
	require.LessOrEqual(t, len(f.ends), RememberedEpochs)
	s, ok := f.newest(3*RememberedEpochs - 5)
	require.True(t, ok)
	require.EqualValues(t, 3*RememberedEpochs-5, s.height)
	_, ok = f.newest(1)
	require.False(t, ok)
}
