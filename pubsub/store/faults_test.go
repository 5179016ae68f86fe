package store

import (
	"errors"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/bornode/bornode/internal/vfs"
	"github.com/bornode/bornode/internal/vfs/faultfs"
)

// filled is a disk with several full segments and an open one, closed well, and the batches of its one partition.
func filled(t *testing.T) (disk, [][]byte) {
	fs := newDisk()
	s := open(t, fs, testConfig())
	p := create(t, s, 0)
	for i := range 100 {
		add(t, p, 0, plain(i, 1, 500))
	}
	sealed(t, s)
	want := all(t, p)
	require.NoError(t, s.Close())
	return fs, want
}

// writable waits until the store takes appends again.
func writable(t *testing.T, s *Store) {
	t.Helper()
	limit := time.After(time.Minute)
	for s.Writable() != nil {
		s.wal.mu.Lock()
		ch := s.wal.flushed
		s.wal.mu.Unlock()
		if s.Writable() == nil {
			return
		}
		select {
		case <-ch:
		case <-limit:
			require.FailNow(t, "the store did not recover")
		}
	}
}

func TestAFailedSyncAcknowledgesNothing(t *testing.T) {
	fs := newDisk()
	s := open(t, fs, testConfig())
	p := create(t, s, 0)
	add(t, p, 0, plain(1, 1, 100))
	synced(t, s)
	var broken atomic.Bool
	broken.Store(true)
	fs.SetPlan(func(c faultfs.Change) faultfs.Verdict {
		if broken.Load() && c.Kind == faultfs.Sync {
			return faultfs.Verdict{Err: errIO}
		}
		return faultfs.Verdict{}
	}, 0)
	raw := made(2, 1, 100, 1, 9, 0, 0)
	a := add(t, p, 0, raw)
	require.ErrorIs(t, s.Durable(t.Context(), a.Mark), ErrFailed)
	require.Equal(t, int64(1), p.DurableEnd())
	_, err := p.Append(0, plain(3, 1, 100), 1)
	require.ErrorIs(t, err, ErrFailed)
	seg := s.wal.end().segment()
	broken.Store(false)
	writable(t, s)
	again := add(t, p, 0, append([]byte(nil), raw...))
	require.True(t, again.Duplicate)
	require.NoError(t, s.Durable(t.Context(), again.Mark))
	a = add(t, p, 0, plain(4, 1, 100))
	require.NoError(t, s.Durable(t.Context(), a.Mark))
	require.Greater(t, a.Mark.segment(), seg, "the segment whose sync failed is left")
	want := all(t, p)
	left := disk{fs.Crash(0)}
	require.NoError(t, s.Close())
	s = open(t, left, testConfig())
	require.Equal(t, want, all(t, s.Partition(id(0))))
}

func TestAFullDiskStopsAppendsAndRetentionMakesRoom(t *testing.T) {
	fs := newDisk()
	s := open(t, fs, testConfig())
	p := create(t, s, 0)
	for i := range 100 {
		add(t, p, 0, plain(i, 1, 500))
	}
	p.SetCommitted(100)
	sealed(t, s)
	var full, unnamed, removed atomic.Bool // room comes only from removing the reserve, when that is durable
	full.Store(true)
	fs.SetPlan(func(c faultfs.Change) faultfs.Verdict {
		switch {
		case c.Kind == faultfs.Remove && c.Name == reserveName:
			unnamed.Store(true)
		case c.Kind == faultfs.SyncDir:
			removed.Store(unnamed.Load())
		}
		if full.Load() && c.Kind == faultfs.Write && (!removed.Load() || c.Name == reserveName) {
			return faultfs.Verdict{Err: syscall.ENOSPC, Short: 7}
		}
		return faultfs.Verdict{}
	}, 0)
	a := add(t, p, 0, plain(100, 1, 500))
	require.NoError(t, s.Durable(t.Context(), a.Mark), "the reserve has room for it")
	_, err := p.Append(0, plain(101, 1, 500), 1)
	require.ErrorIs(t, err, ErrFull)
	require.NoError(t, p.DeleteBefore(90))
	synced(t, s)
	s.Tick(time.Now())
	_, err = fs.Open(logName(1), os.O_RDONLY)
	require.ErrorIs(t, err, os.ErrNotExist, "the dead segment is removed")
	full.Store(false)
	writable(t, s)
	add(t, p, 0, plain(101, 1, 500))
	want := all(t, p)
	require.NoError(t, s.Close())
	s = open(t, fs, testConfig())
	require.Equal(t, want, all(t, s.Partition(id(0))))
}

func sizeOf(t *testing.T, fs vfs.FS, name string) int64 {
	t.Helper()
	f, err := fs.Open(name, os.O_RDONLY)
	require.NoError(t, err)
	size, err := f.Size()
	require.NoError(t, err)
	require.NoError(t, f.Close())
	return size
}

func TestATornTailIsCut(t *testing.T) {
	fs := newDisk()
	s := open(t, fs, testConfig())
	p := create(t, s, 0)
	add(t, p, 0, plain(1, 1, 100))
	synced(t, s)
	want := all(t, p)
	end := s.wal.end().end()
	add(t, p, 0, plain(2, 1, 100))
	add(t, p, 0, plain(3, 1, 100))
	synced(t, s)
	left := disk{fs.Copy()}
	require.NoError(t, s.Close())
	require.NoError(t, left.Corrupt(logName(1), func(b []byte) []byte { b[end+50] ^= 1; return b }))
	s = open(t, left, testConfig())
	p = s.Partition(id(0))
	require.Equal(t, want, all(t, p), "nothing says that what follows was synced")
	require.Equal(t, int64(end), sizeOf(t, left, logName(1)), "nothing of the tail is left")
	add(t, p, 0, plain(4, 1, 100)) // ends where the third began
	synced(t, s)
	want = all(t, p)
	left = disk{left.Copy()}
	require.NoError(t, s.Close())
	require.Equal(t, want, all(t, open(t, left, testConfig()).Partition(id(0))), "the third has not come back")
}

// What the kernel holds of a dead process need not be on the disk, and a new sync would not write it.
func TestAStartWritesAgainWhatNothingSaysWasSynced(t *testing.T) {
	fs := newDisk()
	s := open(t, fs, testConfig())
	p := create(t, s, 0)
	add(t, p, 0, plain(1, 1, 100))
	synced(t, s)
	killed := disk{fs.Copy()}
	require.NoError(t, s.Close())
	var wrote, again atomic.Bool
	killed.SetPlan(func(c faultfs.Change) faultfs.Verdict {
		if c.Name == logName(1) {
			wrote.Store(wrote.Load() || c.Kind == faultfs.Write)
			again.Store(again.Load() || wrote.Load() && c.Kind == faultfs.Sync)
		}
		return faultfs.Verdict{}
	}, 0)
	open(t, killed, testConfig())
	require.True(t, again.Load())
}

func TestAnOlderSnapshotServesAfterSegmentsWereRemoved(t *testing.T) {
	fs := newDisk()
	s := open(t, fs, testConfig())
	p := create(t, s, 0)
	for i := range 200 {
		add(t, p, 0, plain(i, 1, 500))
	}
	p.SetCommitted(200)
	sealed(t, s)
	require.NoError(t, p.DeleteBefore(200))
	tick(t, s, time.Now())
	newest := s.snaps[keptSnapshots-1]
	require.NoError(t, s.Close())
	require.NoError(t, fs.Corrupt(snapName(newest), func(b []byte) []byte { b[60] ^= 1; return b }))
	s = open(t, fs, testConfig())
	require.Equal(t, int64(200), s.Partition(id(0)).Start())
	require.Equal(t, int64(200), s.Partition(id(0)).End())
}

func TestDamageOfSyncedBytesIsNamed(t *testing.T) {
	fs := newDisk()
	s := open(t, fs, testConfig())
	p := create(t, s, 0)
	add(t, p, 0, plain(1, 1, 100))
	synced(t, s)
	at := s.wal.end().end()
	add(t, p, 0, plain(2, 1, 100))
	synced(t, s)
	add(t, p, 0, plain(3, 1, 100))
	require.NoError(t, s.Close())
	for _, pos := range []uint32{at, at + 8, at + 30, at + recordHeaderBytes + 90} {
		left := disk{fs.Copy()}
		require.NoError(t, left.Corrupt(logName(1), func(b []byte) []byte { b[pos] ^= 1; return b }))
		core, told := observer.New(zap.WarnLevel)
		s, err := Open(testConfig(), left, zap.New(core), nil)
		require.NoError(t, err)
		p := s.Partition(id(0))
		require.Equal(t, int64(1), p.End(), "what is before it stays")
		epoch, _ := p.Position()
		require.Equal(t, int32(-1), epoch, "its log is not whole")
		found := told.FilterField(zap.String("file", logName(1))).All()
		require.Len(t, found, 1)
		require.Equal(t, int64(at), found[0].ContextMap()["position"])
		require.Equal(t, logName(1)+".damaged-", found[0].ContextMap()["set_aside_as"].(string)[:len(logName(1)+".damaged-")])
		require.Len(t, told.FilterField(zap.Strings("first", []string{id(0).String()})).All(), 1)
		require.NoError(t, s.Close())
	}
}

func TestDamageOfAFullSegmentIsFoundWhenRead(t *testing.T) {
	fs, _ := filled(t)
	require.NoError(t, fs.Corrupt(logName(1), func(b []byte) []byte { b[2000] ^= 1; return b }))
	s := open(t, fs, testConfig())
	_, err := s.Partition(id(0)).Read(0, 1<<20, everything)
	var d *DamageError
	require.ErrorAs(t, err, &d)
	require.Equal(t, logName(1), d.File)
	require.Less(t, d.Pos, int64(2000))
	b, err := s.Partition(id(0)).Read(50, 1<<20, everything)
	require.NoError(t, err)
	require.NotEmpty(t, b)
}

func TestALostSegmentIsNamed(t *testing.T) {
	for _, seg := range []uint32{1, 2, 3} {
		fs, _ := filled(t)
		fs.Lose(logName(seg))
		core, told := observer.New(zap.WarnLevel)
		s, err := Open(testConfig(), fs, zap.New(core), nil)
		require.NoError(t, err, "segment %d", seg)
		if seg > 1 {
			require.NotEmpty(t, told.FilterField(zap.String("file", logName(seg))).All())
		}
		epoch, _ := s.Partition(id(0)).Position()
		require.Equal(t, int32(-1), epoch)
		want := all(t, s.Partition(id(0)))
		require.NoError(t, s.Close())
		require.Equal(t, want, all(t, open(t, fs, testConfig()).Partition(id(0))))
	}
}

func TestDerivedFilesAreMadeAnew(t *testing.T) {
	fs, want := filled(t)
	var snaps []string
	for _, seg := range snapsOf(t, fs) {
		snaps = append(snaps, snapName(seg))
	}
	require.Len(t, snaps, keptSnapshots)
	for what, damage := range map[string]func(disk){
		"lost index":      func(d disk) { d.Lose(indexName(1)) },
		"all indexes":     func(d disk) { d.Lose(indexName(1)); d.Lose(indexName(2)); d.Lose(indexName(3)) },
		"damaged index":   func(d disk) { _ = d.Corrupt(indexName(2), func(b []byte) []byte { b[40] ^= 1; return b }) },
		"short index":     func(d disk) { _ = d.Corrupt(indexName(2), func(b []byte) []byte { return b[:len(b)-3] }) },
		"newest snapshot": func(d disk) { _ = d.Corrupt(snaps[1], func(b []byte) []byte { b[len(b)-1] ^= 1; return b }) },
		"all snapshots":   func(d disk) { d.Lose(snaps[0]); d.Lose(snaps[1]) },
	} {
		left := disk{fs.Copy()}
		damage(left)
		s, err := Open(testConfig(), left, nil, nil)
		require.NoError(t, err, what)
		require.Equal(t, want, all(t, s.Partition(id(0))), what)
		require.NoError(t, s.Close())
	}
}

func TestAnIndexThatDoesNotFitIsFound(t *testing.T) {
	fs, _ := filled(t)
	require.NoError(t, fs.Corrupt(indexName(1), func(b []byte) []byte { b[len(b)-indexEntryBytes+17] ^= 1; return b }))
	s := open(t, fs, testConfig())
	var d *DamageError
	_, err := s.Partition(id(0)).Read(0, 1<<20, everything)
	require.True(t, errors.As(err, &d), "%v", err)
}

func TestOneProcessAtATime(t *testing.T) {
	dir := t.TempDir()
	cfg := testConfig()
	cfg.Dir = dir
	s := open(t, nil, cfg)
	_, err := Open(cfg, nil, nil, nil)
	require.ErrorContains(t, err, "another process")
	p := create(t, s, 0)
	add(t, p, 0, plain(1, 1, 100))
	want := all(t, p)
	require.NoError(t, s.Close())
	_, err = p.Append(0, plain(1, 1, 100), 1)
	require.ErrorIs(t, err, ErrClosed)
	s = open(t, nil, cfg)
	require.Equal(t, want, all(t, s.Partition(id(0))))
}

// A store that is closed while its disk fails says nothing of an end that was never durable: the next start would take
// what was never acknowledged for lost.
func TestACloseThatCannotSyncIsNoDamage(t *testing.T) {
	fs := newDisk()
	s := open(t, fs, testConfig())
	p := create(t, s, 0)
	add(t, p, 0, plain(1, 1, 100))
	synced(t, s)
	want := all(t, p)
	fs.SetPlan(func(c faultfs.Change) faultfs.Verdict {
		if c.Kind == faultfs.Sync && c.Name == logName(1) || c.Kind == faultfs.Write && c.Name == logName(1) {
			return faultfs.Verdict{Err: errIO}
		}
		return faultfs.Verdict{}
	}, 0)
	a := add(t, p, 0, plain(2, 1, 100))
	require.ErrorIs(t, s.Durable(t.Context(), a.Mark), ErrFailed)
	require.Error(t, s.Close())
	fs.SetPlan(nil, 0)
	core, told := observer.New(zap.WarnLevel)
	again, err := Open(testConfig(), fs, zap.New(core), prometheus.NewRegistry())
	require.NoError(t, err)
	require.Equal(t, want, all(t, again.Partition(id(0))))
	require.Empty(t, told.All())
	require.NoError(t, again.Close())
}
