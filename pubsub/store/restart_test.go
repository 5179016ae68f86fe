package store

import (
	"bytes"
	"math"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/bornode/bornode/internal/vfs"
	"github.com/bornode/bornode/internal/vfs/faultfs"
	"github.com/bornode/bornode/pubsub/batch"
)

// badReads is a disk whose reads fail when fail says so; off is -1 where a file is opened or its size asked for.
type badReads struct {
	disk
	fail func(name string, off int64) bool
}

type badFile struct {
	vfs.File
	name string
	fail func(name string, off int64) bool
}

func (d badReads) Open(name string, flag int) (vfs.File, error) {
	if d.fail(name, -1) {
		return nil, errIO
	}
	f, err := d.disk.Open(name, flag)
	if err != nil {
		return nil, err
	}
	return badFile{f, name, d.fail}, nil
}

func (f badFile) ReadAt(p []byte, off int64) (int, error) {
	if f.fail(f.name, off) {
		return 0, errIO
	}
	return f.File.ReadAt(p, off)
}

func (f badFile) Size() (int64, error) {
	if f.fail(f.name, -1) {
		return 0, errIO
	}
	return f.File.Size()
}

// unsealed is what the kill of a process leaves that had written a full segment and not yet synced it.
func unsealed(t *testing.T) (left disk, want [][]byte) {
	fs := newDisk()
	s := open(t, fs, testConfig())
	p := create(t, s, 0)
	synced(t, s)
	fs.SetPlan(func(c faultfs.Change) faultfs.Verdict {
		if c.Kind == faultfs.Sync && c.Name == logName(1) {
			return faultfs.Verdict{Err: errIO}
		}
		return faultfs.Verdict{}
	}, 0)
	for i := range 20 {
		if _, err := p.Append(0, plain(i, 1, 500), 1000); err != nil {
			require.ErrorIs(t, err, ErrFailed, "the flusher was quick")
			break
		}
	}
	s.wal.mu.Lock()
	s.wal.next()
	full := int64(s.wal.jobs[0].size)
	s.wal.mu.Unlock()
	f, err := fs.Open(logName(1), os.O_RDONLY)
	require.NoError(t, err)
	limit := time.After(time.Minute)
	for size := int64(0); size < full; {
		s.wal.mu.Lock()
		ch := s.wal.flushed
		s.wal.mu.Unlock()
		size, err = f.Size()
		require.NoError(t, err)
		select {
		case <-ch: // it is tried again and again
		case <-limit:
			require.FailNow(t, "the segment is not written")
		}
	}
	want = all(t, p)
	left = disk{fs.Killed()}
	_ = s.Close()
	return left, want
}

// same compares logs, without a word of what is in them.
func same(t *testing.T, want, got [][]byte) {
	t.Helper()
	require.Len(t, got, len(want))
	for i := range want {
		require.True(t, bytes.Equal(want[i], got[i]), "batch %d", i)
	}
}

// A full segment may have been written and not synced when its process died, as the newest one may.
func TestAStartSyncsAFullSegmentThatNothingFollows(t *testing.T) {
	left, want := unsealed(t)
	s := open(t, left, testConfig())
	p := s.Partition(id(0))
	same(t, want, all(t, p))
	require.NoError(t, s.Durable(t.Context(), add(t, p, 0, plain(1000, 1, 100)).Mark))
	want = all(t, p)
	left = disk{left.Crash(0)}
	require.NoError(t, s.Close())
	s = open(t, left, testConfig())
	same(t, want, all(t, s.Partition(id(0))))
}

// What a start must write has the room of the reserve, or a full disk could never be opened to be freed.
func TestAStoreOnAFullDiskOpens(t *testing.T) {
	left, want := unsealed(t)
	opensFull(t, left, want)
	left, want = filled(t)
	snaps := snapsOf(t, left)
	left.Lose(snapName(snaps[len(snaps)-1]))
	opensFull(t, left, want)
}

func opensFull(t *testing.T, left disk, want [][]byte) {
	t.Helper()
	var full, removed atomic.Bool
	full.Store(true)
	left.SetPlan(func(c faultfs.Change) faultfs.Verdict {
		if c.Kind == faultfs.Remove && c.Name == reserveName {
			removed.Store(true)
		}
		if full.Load() && c.Kind == faultfs.Write && (!removed.Load() || c.Name == reserveName) {
			return faultfs.Verdict{Err: syscall.ENOSPC}
		}
		return faultfs.Verdict{}
	}, 0)
	s := open(t, left, testConfig())
	p := s.Partition(id(0))
	same(t, want, all(t, p))
	require.ErrorIs(t, s.Writable(), ErrFull)
	p.SetCommitted(p.End())
	require.NoError(t, p.DeleteBefore(3))
	synced(t, s)
	full.Store(false)
	writable(t, s)
}

func TestAStoreThatBeganOnAFullDiskWritesWhenThereIsRoom(t *testing.T) {
	fs := newDisk()
	var full atomic.Bool
	full.Store(true)
	fs.SetPlan(func(c faultfs.Change) faultfs.Verdict {
		if full.Load() && c.Kind == faultfs.Write {
			return faultfs.Verdict{Err: syscall.ENOSPC}
		}
		return faultfs.Verdict{}
	}, 0)
	s := open(t, fs, testConfig())
	require.ErrorIs(t, s.Writable(), ErrFull)
	full.Store(false)
	writable(t, s)
	create(t, s, 0)
}

// A read that fails says nothing of what is there: nothing may be cut for it.
func TestAReadThatFailsAtAStartCutsNothing(t *testing.T) {
	fs, cfg := newDisk(), testConfig()
	cfg.FsyncInterval = time.Minute // so that all is synced at once, and no record says so of another
	s := open(t, fs, cfg)
	p := create(t, s, 0)
	for i := range 10 {
		add(t, p, 0, plain(i, 1, 100))
	}
	synced(t, s)
	want := all(t, p)
	left := disk{fs.Crash(0)}
	require.NoError(t, s.Close())
	failed := false
	s, err := Open(testConfig(), badReads{left, func(name string, off int64) bool {
		if failed || name != logName(1) || off <= 0 {
			return false
		}
		failed = true
		return true
	}}, nil, nil)
	require.NoError(t, err, "it is read again")
	require.True(t, failed)
	same(t, want, all(t, s.Partition(id(0))))
	require.NoError(t, s.Close())
	s = open(t, left, testConfig())
	same(t, want, all(t, s.Partition(id(0))))
}

// Whichever read of a start fails, the start fails too or has everything, and so has the next one.
func TestAnyReadThatFailsAtAStartLosesNothing(t *testing.T) {
	for seed := range 4 {
		m := newModel(t, 900+seed)
		for range 250 {
			m.operate()
		}
		m.quiet()
		synced(t, m.s)
		want, killed := view(t, m.s), disk{m.d.Killed()}
		require.NoError(t, m.s.Close())
		for at, all := int64(1), false; !all; at++ {
			left := disk{killed.Killed()}
			var reads, failing atomic.Int64
			failing.Store(at)
			s, err := Open(m.cfg, badReads{left, func(string, int64) bool { return reads.Add(1) == failing.Load() }}, nil, nil)
			failing.Store(0)
			if all = reads.Load() < at; err == nil {
				require.True(t, view(t, s).equal(want), "seed %d, read %d", seed, at)
				require.NoError(t, s.Close())
			} else {
				require.ErrorIs(t, err, errIO)
				left = disk{left.Killed()}
			}
			m.compare("after a read that failed", left, want)
		}
	}
}

func TestASnapshotThatCannotBeReadIsPassedOver(t *testing.T) {
	fs, want := filled(t)
	f := snapsOf(t, fs)
	s := open(t, badReads{fs, func(name string, _ int64) bool { return name == snapName(f[len(f)-1]) }}, testConfig())
	same(t, want, all(t, s.Partition(id(0))))
}

// Where no snapshot can be read and the log alone does not serve, the store is a new one, and all files are kept.
func TestAStoreWithoutASnapshotIsSetAside(t *testing.T) {
	for _, first := range []bool{true, false} { // the first segment is needed still
		fs := newDisk()
		s := open(t, fs, testConfig())
		p := create(t, s, 0)
		if first {
			add(t, p, 0, plain(1, 1, 500))
		}
		busy := create(t, s, 1)
		for i := range 100 {
			add(t, busy, 0, plain(i, 1, 900))
		}
		sealed(t, s)
		busy.SetCommitted(busy.End())
		require.NoError(t, busy.DeleteBefore(busy.End()))
		synced(t, s)
		s.removeDead()
		require.Equal(t, first, logs(t, fs)[0] == 1)
		require.NotContains(t, logs(t, fs), uint32(2))
		require.NoError(t, s.Close())
		before := logs(t, fs)
		core, told := observer.New(zap.WarnLevel)
		s, err := Open(testConfig(), badReads{fs, func(name string, _ int64) bool { return strings.HasSuffix(name, snapSuffix) }}, zap.New(core), nil)
		require.NoError(t, err)
		require.Empty(t, s.List())
		require.NotEmpty(t, told.FilterMessageSnippet("set aside").All())
		names, err := fs.List(".")
		require.NoError(t, err)
		for _, seg := range before {
			require.True(t, slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, logName(seg)+".damaged-") }), "segment %d", seg)
		}
		create(t, s, 0)
		require.NoError(t, s.Close())
		require.Len(t, open(t, fs, testConfig()).List(), 1)
	}
}

func snapsOf(t *testing.T, fs vfs.FS) []uint32 { return numbers(t, fs, snapSuffix) }

// Whatever a partition was given to keep, snapshots hold it: they are all that a start has once segments were removed.
func TestSnapshotsHoldWhatPartitionsTake(t *testing.T) {
	for what, prepare := range map[string]func(s *Store, p *Partition){
		"longest retention": func(s *Store, _ *Partition) {
			_, err := s.Create(id(0), Retention{Bytes: math.MaxInt64, Age: math.MaxInt64})
			require.NoError(t, err)
		},
		"producer with a negative epoch, as a replica takes it": func(_ *Store, p *Partition) {
			raw := made(1, 1, 10, 0, 5, -1, 0)
			batch.Assign(raw, p.End(), 0)
			_, err := p.Accept(raw)
			require.NoError(t, err)
		},
	} {
		fs := newDisk()
		s := open(t, fs, testConfig())
		p := create(t, s, 0)
		prepare(s, p)
		for i := range 200 {
			add(t, p, 0, plain(i, 1, 900))
		}
		sealed(t, s)
		p.SetCommitted(p.End())
		require.NoError(t, p.DeleteBefore(p.End()))
		tick(t, s, time.UnixMilli(0))
		require.NotContains(t, logs(t, fs), uint32(1))
		require.NoError(t, s.Close())
		again, err := Open(testConfig(), fs, nil, nil)
		require.NoError(t, err, what)
		require.NoError(t, again.Close())
	}
}

// A batch of which a start in its middle had left only the end is gone after a truncation: its producer has not sent it.
func TestATruncatedBatchThatBeganBelowTheStartWasNotSent(t *testing.T) {
	fs := newDisk()
	s := open(t, fs, testConfig())
	p := create(t, s, 0)
	send := func(p *Partition) Appended { return add(t, p, 0, made(1, 10, 100, 0, 7, 0, 0)) }
	send(p)
	p.SetCommitted(5)
	require.NoError(t, p.DeleteBefore(5))
	_, err := p.Truncate(7)
	require.NoError(t, err)
	require.Equal(t, int64(5), p.End())
	synced(t, s)
	left := disk{fs.Copy()}
	require.False(t, send(p).Duplicate)
	require.False(t, send(open(t, left, testConfig()).Partition(id(0))).Duplicate)
}

// One damaged batch must not keep all other segments from being emptied.
func TestDamageDoesNotStopMoving(t *testing.T) {
	fs := newDisk()
	s := open(t, fs, testConfig())
	busy := create(t, s, 9)
	var kept []*Partition
	for n := range int32(4) {
		p, beside := create(t, s, n), create(t, s, 10)
		kept = append(kept, p)
		add(t, p, 0, plain(int(n), 1, 400))
		add(t, beside, 0, plain(int(n), 1, 400))
		for i := range 40 {
			add(t, busy, 0, plain(i, 1, 900))
		}
	}
	sealed(t, s)
	busy.SetCommitted(busy.End())
	require.NoError(t, busy.DeleteBefore(busy.End()))
	require.NoError(t, fs.Corrupt(logName(1), func(b []byte) []byte {
		b[int(kept[0].runs[0].bytes)+200] ^= 1
		return b
	}))
	s.wal.mu.Lock()
	w := s.wal
	for _, c := range w.chunks { // what is in memory is not damaged
		require.NotEqual(t, uint32(1), c.seg)
	}
	s.wal.mu.Unlock()
	tick(t, s, time.UnixMilli(0))
	require.Equal(t, uint32(1), kept[0].runs[0].seg, "it is not damaged")
	for _, p := range []*Partition{kept[1], kept[2], s.Partition(id(10))} {
		require.Greater(t, p.runs[0].seg, uint32(9), "partition %v was not copied forward", p.id)
	}
}

// misplaced has 60 batches of 10 records, and an index that says of the nth one that it begins at base. cached: the
// batches themselves are in memory.
func misplaced(t *testing.T, n int, base int64, cached bool) *Partition {
	fs, cfg := newDisk(), testConfig()
	if cached {
		cfg.CacheBytes = 1 << 20
	}
	s := open(t, fs, cfg)
	p := create(t, s, 0)
	for i := range 60 {
		add(t, p, 0, made(i, 10, 500, 0, 7, 0, int32(10*i)))
	}
	sealed(t, s)
	damage := func() {
		require.NoError(t, fs.Corrupt(indexName(1), func(b []byte) []byte {
			copy(b[indexHeaderBytes+indexRunBytes+n*indexEntryBytes:], i64(base))
			return b
		}))
	}
	if cached {
		damage()
		return p
	}
	require.NoError(t, s.Close())
	damage()
	return open(t, fs, testConfig()).Partition(id(0))
}

func damagedFile(t *testing.T, err error) string {
	t.Helper()
	var d *DamageError
	require.ErrorAs(t, err, &d)
	return d.File
}

// An index file that lies about where a batch begins must not move the cut, nor hide what a producer had sent.
func TestATruncationBelievesNoDamagedIndex(t *testing.T) {
	for _, x := range []struct {
		n        int
		base, to int64
	}{{3, 35, 37}, {3, 38, 35}, {20, 1000, 300}} {
		for _, cached := range []bool{false, true} {
			p := misplaced(t, x.n, x.base, cached)
			_, err := p.Truncate(x.to)
			require.Equal(t, indexName(1), damagedFile(t, err), "cached: %v", cached)
			require.Equal(t, int64(600), p.End())
		}
	}
}

// Who asks for an offset gets the batch that holds it, or is told: the one before would be asked for again for ever.
func TestAReadBelievesNoDamagedIndex(t *testing.T) {
	p := misplaced(t, 3, 38, false)
	_, err := p.Read(35, 1, everything)
	require.Equal(t, indexName(1), damagedFile(t, err))
	p = misplaced(t, 3, 28, false) // whoever asks for 28 would get 30 and what follows
	_, err = p.Read(28, 1, everything)
	require.Equal(t, indexName(1), damagedFile(t, err))
}

func TestABeginningAnewIsDurableWhenItsRecordIs(t *testing.T) {
	cfg := testConfig()
	cfg.FsyncInterval = time.Minute
	fs := newDisk()
	s := open(t, fs, cfg)
	p := create(t, s, 0)
	require.NoError(t, s.Durable(t.Context(), add(t, p, 0, plain(1, 5, 10)).Mark))
	m, err := p.Reset(100)
	require.NoError(t, err)
	require.Equal(t, int64(5), p.DurableEnd())
	require.NoError(t, s.Durable(t.Context(), m))
	require.Equal(t, int64(100), p.DurableEnd())
}
