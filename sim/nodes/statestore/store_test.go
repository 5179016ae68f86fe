package statestore

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"

	"github.com/ethereum/go-ethereum/ethdb"
	"github.com/ethereum/go-ethereum/ethdb/dbtest"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/internal/vfs/faultfs"
)

// TestSuite is go-ethereum's own test of a key-value store.
func TestSuite(t *testing.T) {
	dbtest.TestDatabaseSuite(t, func() ethdb.KeyValueStore {
		s, err := Open(faultfs.New(), Options{})
		require.NoError(t, err)
		return s
	})
}

func contents(s *Store) map[string]string {
	m := make(map[string]string)
	it := s.NewIterator(nil, nil)
	for it.Next() {
		m[string(it.Key())] = string(it.Value())
	}
	return m
}

// TestPowerCuts: after a power cut at any operation the store holds a prefix of the writes that were made, at least those
// before the last sync.
func TestPowerCuts(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		disk := faultfs.New()
		s, err := Open(disk, Options{})
		require.NoError(t, err)
		states, synced, at := []map[string]string{{}}, 0, 1+rng.IntN(60)
		disk.SetPlan(func(c faultfs.Change) faultfs.Verdict {
			at--
			return faultfs.Verdict{Crash: at < 0}
		}, seed)
		for step := 0; disk.Crashed() == nil; step++ {
			if rng.IntN(4) == 0 {
				if require.NoError(t, s.SyncKeyValue()); disk.Crashed() == nil {
					synced = len(states) - 1
				}
				continue
			}
			next := maps.Clone(states[len(states)-1])
			b := s.NewBatch()
			for range 1 + rng.IntN(3) {
				key := fmt.Sprint(rng.IntN(8))
				switch rng.IntN(5) {
				case 0:
					delete(next, key)
					require.NoError(t, b.Delete([]byte(key)))
				case 1:
					end := fmt.Sprint(rng.IntN(8))
					maps.DeleteFunc(next, func(k, _ string) bool { return k >= key && k < end })
					require.NoError(t, b.(ethdb.KeyValueRangeDeleter).DeleteRange([]byte(key), []byte(end)))
				default:
					next[key] = fmt.Sprint(step)
					require.NoError(t, b.Put([]byte(key), []byte(next[key])))
				}
			}
			require.NoError(t, b.Write())
			states = append(states, next)
		}
		after, err := Open(disk.Crashed(), Options{})
		require.NoError(t, err, "seed %d", seed)
		got := contents(after)
		require.True(t, slices.ContainsFunc(states[synced:], func(m map[string]string) bool { return maps.Equal(m, got) }), "seed %d: %v is none of %v", seed, got, states[synced:])
		again, err := Open(disk.Crashed().Crash(0), Options{})
		require.NoError(t, err)
		require.Equal(t, got, contents(again), "what a start has read is durable")
	}
}

// TestDamage: a value that rots under an open store is told, and is never missing; a start meets damage of what was synced.
func TestDamage(t *testing.T) {
	disk := faultfs.New()
	var told []error
	s, err := Open(disk, Options{Fail: func(_ string, err error) { told = append(told, err) }})
	require.NoError(t, err)
	for i := range 4 {
		require.NoError(t, s.Put([]byte{byte(i)}, []byte("a value that is long enough")))
		require.NoError(t, s.SyncKeyValue())
	}
	flip := func(at int) {
		require.NoError(t, disk.Corrupt(FileName, func(b []byte) []byte { b[at] ^= 4; return b }))
	}
	flip(len(magic) + headerBytes + 20)
	v, err := s.Get([]byte{0})
	require.NoError(t, err)
	require.Equal(t, "a value that is long enough", string(v))
	require.Len(t, told, 1)
	require.ErrorIs(t, told[0], ErrDamaged)
	_, err = s.Get([]byte{1})
	require.NoError(t, err)
	require.NoError(t, s.Put([]byte{9}, []byte{9}), "the process goes on in memory until it has ended")
	require.Len(t, told, 1)
	_, err = Open(disk.Copy(), Options{})
	require.ErrorIs(t, err, ErrDamaged)
	flip(len(magic) + headerBytes + 20)
	after, err := Open(disk.Copy(), Options{})
	require.NoError(t, err)
	require.Len(t, contents(after), 4, "nothing was written behind the failure")
}

func TestFailuresAreTold(t *testing.T) {
	for _, kind := range []faultfs.Kind{faultfs.Write, faultfs.Sync} {
		disk := faultfs.New()
		var told []error
		s, err := Open(disk, Options{Fail: func(_ string, err error) { told = append(told, err) }})
		require.NoError(t, err)
		disk.SetPlan(func(c faultfs.Change) faultfs.Verdict {
			if c.Kind == kind {
				return faultfs.Verdict{Err: syscall.EIO}
			}
			return faultfs.Verdict{}
		}, 0)
		require.NoError(t, s.Put([]byte{1}, []byte{2}))
		require.NoError(t, s.SyncKeyValue())
		require.Len(t, told, 1)
		require.ErrorIs(t, told[0], syscall.EIO)
	}
}

// TestCompaction: a start rewrites a log that is mostly of the past, and keeps what counts.
func TestCompaction(t *testing.T) {
	disk := faultfs.New()
	s, err := Open(disk, Options{})
	require.NoError(t, err)
	big := make([]byte, compactBytes/4)
	for i := range 6 {
		big[0] = byte(i)
		require.NoError(t, s.Put([]byte("k"), big))
	}
	want := contents(s)
	require.NoError(t, s.Close())
	s, err = Open(disk.Copy(), Options{})
	require.NoError(t, err)
	require.Equal(t, want, contents(s))
	require.Less(t, s.size, int64(compactBytes))
	require.NoError(t, s.Put([]byte("l"), []byte("m")))
	v, err := s.Get([]byte("l"))
	require.NoError(t, err)
	require.Equal(t, "m", string(v))
}
