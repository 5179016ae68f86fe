package keyvalue

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
)

// killedStore is a folder as a kill leaves it after a number of writes of 4 KiB, each to a key of its own; several files of
// the write-ahead log and several tables are in it.
func killedStore(t *testing.T, writes uint64) string {
	t.Helper()
	dir, copied := t.TempDir(), filepath.Join(t.TempDir(), "killed")
	disk := &heldTables{FS: vfs.Default}
	s, err := Open(dir, Options{CacheMiB: 1, Handles: 32, fs: disk})
	require.NoError(t, err)
	for i := range writes {
		if i == writes*2/3 {
			require.NoError(t, s.db.Flush()) // else writes could wait for tables
			disk.held.Lock()
		}
		require.NoError(t, s.Put(binary.BigEndian.AppendUint64([]byte("key"), i), make([]byte, 4096)))
	}
	require.NoError(t, s.SyncKeyValue())
	copyStill(t, dir, copied)
	disk.held.Unlock()
	require.NoError(t, s.Close())
	return copied
}

// heldTables is a disk that makes new tables wait.
type heldTables struct {
	vfs.FS
	held sync.RWMutex // held for writing: no table is created
}

func (d *heldTables) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if filepath.Ext(name) == ".sst" {
		d.held.RLock()
		defer d.held.RUnlock()
	}
	return d.FS.Create(name, category)
}

// copyStill copies the folder of a store that creates no file any more, once it has removed what it does not need.
func copyStill(t *testing.T, from, to string) {
	t.Helper()
	names := func() (out []string) {
		entries, err := os.ReadDir(from)
		require.NoError(t, err)
		for _, e := range entries {
			out = append(out, e.Name())
		}
		return out
	}
	for {
		before := names()
		err := os.CopyFS(to, os.DirFS(from))
		if err == nil && slices.Equal(before, names()) {
			return
		}
		if err != nil {
			require.ErrorIs(t, err, os.ErrNotExist)
		}
		require.NoError(t, os.RemoveAll(to))
	}
}

// prefixOf is how many of the writes are there, if they are the first ones.
func prefixOf(t *testing.T, s *Store, writes uint64) (n uint64, isPrefix bool) {
	t.Helper()
	isPrefix = true
	for i := range writes {
		there, err := s.Has(binary.BigEndian.AppendUint64([]byte("key"), i))
		require.NoError(t, err)
		if there && n < i {
			isPrefix = false
		}
		if there {
			n++
		}
	}
	return n, isPrefix
}

// Whatever file of the log, of the list of tables or of the pointer to it is lost or cut, anywhere: the store does not open,
// or it says that writes are missing, or what it has is what was written first.
func TestLostWritesAreNoticed(t *testing.T) {
	const writes = 400
	noticed := 0
	killed := killedStore(t, writes)
	for round := range uint64(42) {
		dir := filepath.Join(t.TempDir(), "store")
		require.NoError(t, os.CopyFS(dir, os.DirFS(killed)))
		names, err := os.ReadDir(dir)
		require.NoError(t, err)
		var files []string
		for _, e := range names {
			switch ext := filepath.Ext(e.Name()); {
			case ext == ".log", len(e.Name()) > 8 && e.Name()[:8] == "MANIFEST":
				files = append(files, e.Name())
			}
		}
		name := files[round%uint64(len(files))]
		path := filepath.Join(dir, name)
		info, err := os.Stat(path)
		require.NoError(t, err)
		note := fmt.Sprintf("round %d: %s of %v", round, name, files)
		if round%2 == 0 && filepath.Ext(name) == ".log" {
			require.NoError(t, os.Remove(path))
		} else {
			require.NoError(t, os.Truncate(path, info.Size()*int64(round%7)/7)) //nolint:gosec // small
		}
		s, err := Open(dir, Options{CacheMiB: 1, Handles: 32})
		if err != nil {
			continue
		}
		if n, isPrefix := prefixOf(t, s, writes); !isPrefix {
			require.ErrorAs(t, s.LostWrites(), new(ErrLostWrites), "%s: %d writes are there, and not the first ones", note, n)
			noticed++
		}
		require.NoError(t, s.Close())
	}
	require.NotZero(t, noticed, "no round made a gap")
	t.Logf("%d gaps", noticed)
}

// A kill is no loss, and numbers go round.
func TestAKillLosesNoWrites(t *testing.T) {
	const writes = 300
	dir := killedStore(t, writes)
	s, err := Open(dir, Options{CacheMiB: 1, Handles: 32})
	require.NoError(t, err)
	n, isPrefix := prefixOf(t, s, writes)
	require.EqualValues(t, writes, n)
	require.True(t, isPrefix)
	require.NoError(t, s.LostWrites())
	for range writeSlots + 10 {
		require.NoError(t, s.Put([]byte("again"), nil))
	}
	require.Less(t, s.order.last-s.order.flushed, uint64(writeSlots/2)+1)
	it := s.NewIterator(nil, nil)
	seen := 0
	for it.Next() {
		seen++
	}
	it.Release()
	require.Equal(t, writes+1, seen, "numbers are not shown")
	require.NoError(t, s.SyncKeyValue())
	require.NoError(t, s.Close())
	s, err = Open(dir, Options{CacheMiB: 1, Handles: 32})
	require.NoError(t, err)
	require.NoError(t, s.LostWrites())
	require.EqualValues(t, writes+writeSlots+10, s.order.last)
	require.NoError(t, s.Close())
}

// Whichever of the newest numbers is missing, the oldest of them included, a start says so.
func TestAMissingNumberIsNoticed(t *testing.T) {
	for _, writes := range []uint64{3, writeSlots + 3} {
		dir := t.TempDir()
		s, err := Open(dir, Options{CacheMiB: 1, Handles: 32})
		require.NoError(t, err)
		numbers := s.db.NewBatch()
		for n := uint64(1); n <= writes; n++ {
			require.NoError(t, numbers.Set(slotKey(n), binary.BigEndian.AppendUint64(nil, n), nil))
		}
		require.NoError(t, numbers.Commit(pebble.Sync))
		require.NoError(t, s.Close())
		oldest := writes - min(writes, writeSlots) + 1
		for _, missing := range []uint64{oldest, oldest + 1, writes - 1} {
			s, err = Open(dir, Options{CacheMiB: 1, Handles: 32})
			require.NoError(t, err)
			require.NoError(t, s.LostWrites())
			require.NoError(t, s.db.Delete(slotKey(missing), pebble.Sync))
			require.NoError(t, s.Close())
			s, err = Open(dir, Options{CacheMiB: 1, Handles: 32})
			require.NoError(t, err)
			require.Equal(t, ErrLostWrites{First: missing, Newest: writes}, s.LostWrites())
			require.NoError(t, s.db.Set(slotKey(missing), binary.BigEndian.AppendUint64(nil, missing), pebble.Sync))
			require.NoError(t, s.Close())
		}
	}
}

// Half of the slots may be outside of tables, and no write more: the next one waits for the tables.
func TestWritesWaitForTables(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tables, done := make(chan struct{}), make(chan error, 1)
		o := &writeOrder{last: writeSlots/2 - 1, flushing: tables, flushingTo: writeSlots / 4}
		require.NoError(t, o.boundUnflushed(nil), "one less than half")
		o.last++
		go func() { done <- o.boundUnflushed(nil) }()
		synctest.Wait()
		require.Empty(t, done)
		require.Zero(t, o.flushed)
		close(tables)
		require.NoError(t, <-done)
		require.EqualValues(t, writeSlots/4, o.flushed)
	})
}

// The number of a write is this store's: who repeats a batch elsewhere gets the caller's keys alone.
func TestAReplayedBatchCarriesNoNumber(t *testing.T) {
	s := open(t, t.TempDir(), failNever(t))
	b := s.NewBatch()
	require.NoError(t, b.Put([]byte("key"), []byte("1")))
	require.NoError(t, b.Delete([]byte("old")))
	require.NoError(t, b.Write())
	other := open(t, t.TempDir(), failNever(t))
	require.NoError(t, b.Replay(other))
	require.NoError(t, other.LostWrites())
	require.EqualValues(t, 2, other.order.last, "one number for each of the two writes")
	numbers := make(writtenKeys)
	require.NoError(t, b.Replay(numbers))
	require.Equal(t, writtenKeys{"key": true, "old": true}, numbers)
}

// writtenKeys are the keys that were put or deleted.
type writtenKeys map[string]bool

func (w writtenKeys) Put(key, _ []byte) error { w[string(key)] = true; return nil }
func (w writtenKeys) Delete(key []byte) error { w[string(key)] = true; return nil }
