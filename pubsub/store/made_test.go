package store

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The store knows since when it is there, over restarts and crashes; one whose log was lost does not.
func TestAStoreKnowsWhenItWasMade(t *testing.T) {
	fs := newDisk()
	s := open(t, fs, testConfig())
	_, ok := s.Made()
	require.False(t, ok)
	require.Error(t, s.RaiseFloor(7))
	p := create(t, s, 1)
	add(t, p, 1, plain(1, 1, 50))
	require.NoError(t, s.Sync(t.Context()))
	require.NoError(t, s.SetMade(40))
	require.NoError(t, s.SetMade(90), "the first word counts")
	require.NoError(t, s.RaiseFloor(50))
	require.NoError(t, s.RaiseFloor(45))

	s = open(t, disk{fs.Crash(1)}, testConfig())
	made, ok := s.Made()
	require.True(t, ok)
	require.Equal(t, uint64(40), made)
	require.Equal(t, uint64(50), s.Floor())
	require.NoError(t, s.Close())

	lost := disk{fs.Copy()}
	names, err := lost.List(".")
	require.NoError(t, err)
	for _, name := range names {
		if name != madeName && name != lockName {
			require.NoError(t, lost.Remove(name))
		}
	}
	for range 2 { // also when it has a log again
		s = open(t, lost, testConfig())
		_, ok = s.Made()
		require.False(t, ok, "what the file says is of the store before")
		add(t, create(t, s, 1), 1, plain(1, 1, 50))
		require.NoError(t, s.Close())
	}
}

// A store that has nothing yet is not taken for a lost one at the next start.
func TestAnEmptyStoreKnowsWhenItWasMade(t *testing.T) {
	fs := newDisk()
	s := open(t, fs, testConfig())
	require.NoError(t, s.SetMade(40))
	s = open(t, disk{fs.Crash(1)}, testConfig())
	made, ok := s.Made()
	require.True(t, ok)
	require.Equal(t, uint64(40), made)
}

// A later height is as safe as the one that is lost.
func TestADamagedMadeIsSaidAnew(t *testing.T) {
	fs := newDisk()
	s := open(t, fs, testConfig())
	add(t, create(t, s, 1), 1, plain(1, 1, 50))
	require.NoError(t, s.SetMade(40))
	require.NoError(t, s.Close())
	require.NoError(t, fs.Corrupt(madeName, func(b []byte) []byte { b[12] ^= 1; return b }))
	for range 2 {
		s = open(t, fs, testConfig())
		_, ok := s.Made()
		require.False(t, ok)
		require.Len(t, all(t, s.Partition(id(1))), 1)
		require.NoError(t, s.Close())
	}
	s = open(t, fs, testConfig())
	require.NoError(t, s.SetMade(90))
	require.Equal(t, uint64(90), s.Floor())
	names, err := fs.List(".")
	require.NoError(t, err)
	require.True(t, slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, madeName+".damaged-") }))
}
