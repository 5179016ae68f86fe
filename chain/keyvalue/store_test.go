package keyvalue

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/ethereum/go-ethereum/ethdb"
	"github.com/ethereum/go-ethereum/ethdb/dbtest"
	gethpebble "github.com/ethereum/go-ethereum/ethdb/pebble"
	"github.com/stretchr/testify/require"
)

func open(t *testing.T, dir string, fail func(string, error)) *Store {
	t.Helper()
	s, err := Open(dir, Options{CacheMiB: 16, Handles: 32, Fail: fail})
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func failNever(t *testing.T) func(string, error) {
	return func(file string, err error) { t.Errorf("a sound disk failed: %s: %v", file, err) }
}

// go-ethereum's own suite for its stores.
func TestStoreBehavesAsGoEthereumsDo(t *testing.T) {
	dbtest.TestDatabaseSuite(t, func() ethdb.KeyValueStore { return open(t, t.TempDir(), failNever(t)) })
}

// A folder that go-ethereum's wrapper wrote is read and written here, and the other way round.
func TestFilesAreThoseOfGoEthereum(t *testing.T) {
	dir := t.TempDir()
	theirs, err := gethpebble.New(dir, 16, 32, "", false)
	require.NoError(t, err)
	require.NoError(t, theirs.Put([]byte("theirs"), []byte("1")))
	require.NoError(t, theirs.Close())
	ours := open(t, dir, failNever(t))
	v, err := ours.Get([]byte("theirs"))
	require.NoError(t, err)
	require.Equal(t, "1", string(v))
	require.NoError(t, ours.Put([]byte("ours"), []byte("2")))
	require.NoError(t, ours.SyncKeyValue())
	require.NoError(t, ours.Close())
	require.NoError(t, ours.Close(), "twice is no harm")
	_, err = ours.Get([]byte("ours"))
	require.ErrorIs(t, err, pebble.ErrClosed)
	theirs, err = gethpebble.New(dir, 16, 32, "", false)
	require.NoError(t, err)
	defer theirs.Close()
	v, err = theirs.Get([]byte("ours"))
	require.NoError(t, err)
	require.Equal(t, "2", string(v))
}

// A damaged table is told with its file, by reading a key, by walking and by rewriting; it is never a missing key alone.
func TestDamageIsTold(t *testing.T) {
	made := t.TempDir()
	s := open(t, made, failNever(t))
	for i := range 5000 {
		require.NoError(t, s.Put(fmt.Appendf(nil, "key %05d", i), bytes.Repeat([]byte{byte(i), byte(i >> 8)}, 50)))
	}
	require.NoError(t, s.Compact(nil, nil))
	require.NoError(t, s.Close())
	tables, err := filepath.Glob(filepath.Join(made, "*.sst"))
	require.NoError(t, err)
	require.NotEmpty(t, tables)
	table := slices.MaxFunc(tables, func(a, b string) int { return int(size(t, a) - size(t, b)) })
	for name, work := range map[string]func(s *Store) error{
		"get": func(s *Store) (err error) {
			for i := 0; i < 5000 && err == nil; i++ {
				_, err = s.Get(fmt.Appendf(nil, "key %05d", i))
			}
			return err
		},
		"has": func(s *Store) (err error) {
			for i := 0; i < 5000 && err == nil; i++ {
				_, err = s.Has(fmt.Appendf(nil, "key %05d", i))
			}
			return err
		},
		"walk": func(s *Store) error {
			it := s.NewIterator([]byte("key"), nil)
			defer it.Release()
			for it.Next() { //nolint:revive // to the end
			}
			return it.Error()
		},
		"rewrite": func(s *Store) error {
			if err := s.Put([]byte("key 02000"), []byte("new")); err != nil {
				return err
			}
			return s.Compact(nil, nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, os.CopyFS(dir, os.DirFS(made)))
			damaged := filepath.Join(dir, filepath.Base(table))
			raw, err := os.ReadFile(damaged)
			require.NoError(t, err)
			raw[len(raw)/3] ^= 0x10
			require.NoError(t, os.WriteFile(damaged, raw, 0o600))
			told := make(chan string, 10)
			s := open(t, dir, func(file string, err error) { told <- fmt.Sprint(file, ": ", err) })
			require.Error(t, work(s))
			require.Contains(t, <-told, filepath.Base(table))
			require.Empty(t, told, "it is told once")
		})
	}
}

func size(t *testing.T, path string) int64 {
	info, err := os.Stat(path)
	require.NoError(t, err)
	return info.Size()
}

// A write survives a power cut once SyncKeyValue has returned, whatever came before it without a sync.
func TestSyncedWritesSurviveAPowerCut(t *testing.T) {
	disk := vfs.NewCrashableMem()
	openOn := func(disk vfs.FS) *Store {
		s := &Store{fail: failNever(t)}
		o := s.options(Options{CacheMiB: 16, Handles: 32})
		o.FS = disk
		db, err := openPebble("kv", o)
		require.NoError(t, err)
		s.db = db
		return s
	}
	s := openOn(disk)
	require.NoError(t, s.Put([]byte("one"), []byte("1")))
	b := s.NewBatch()
	require.NoError(t, b.Put([]byte("two"), []byte("2")))
	require.NoError(t, b.Write())
	require.NoError(t, s.SyncKeyValue())
	left := openOn(disk.CrashClone(vfs.CrashCloneCfg{}))
	for key, value := range map[string]string{"one": "1", "two": "2"} {
		v, err := left.Get([]byte(key))
		require.NoError(t, err, key)
		require.Equal(t, value, string(v))
	}
	require.NoError(t, left.Close())
	require.NoError(t, s.Close())
}
