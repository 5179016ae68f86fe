package store

import (
	"hash/crc32"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/internal/vfs"
)

// createHourly makes a partition that keeps its records for an hour.
func createHourly(t *testing.T, s *Store, n int32) *Partition {
	t.Helper()
	p, err := s.Create(id(n), Retention{Age: time.Hour})
	require.NoError(t, err)
	return p
}

// appendSegments appends batches with a timestamp, for some full segments, all committed.
func appendSegments(t *testing.T, p *Partition, timestamp int64) {
	t.Helper()
	for i := range 100 {
		add(t, p, 0, made(i, 1, 500, timestamp, -1, 0, 0))
	}
	p.SetCommitted(p.End())
	sealed(t, p.s)
}

// What producers say of the time neither shortens nor lengthens the life of a record.
func TestRetentionCountsFromTheAppend(t *testing.T) {
	for name, timestamp := range map[string]int64{"ancient": 1, "none": -1, "far in the future": 1 << 60} {
		t.Run(name, func(t *testing.T) {
			cfg, clock := clockedConfig()
			s := open(t, newDisk(), cfg)
			led, followed := createHourly(t, s, 0), createHourly(t, s, 1)
			appendSegments(t, led, timestamp)
			for _, raw := range all(t, led) {
				_, err := followed.Accept(raw)
				require.NoError(t, err)
			}
			followed.SetCommitted(followed.End())
			sealed(t, s)
			clock.pass(time.Hour)
			tick(t, s, testTime)
			require.Zero(t, led.Start(), "a record was deleted that is not an hour old")
			require.Zero(t, followed.Start(), "a record was deleted that is not an hour old")
			clock.pass(time.Millisecond)
			tick(t, s, testTime)
			require.Equal(t, int64(100), led.Start(), "a record was kept for longer than an hour")
			require.Equal(t, int64(100), followed.Start(), "a record was kept for longer than an hour")
		})
	}
}

// A start knows how old records are, in full segments and in the open one, also without index files and after a kill.
func TestAStartKnowsTheAgeOfRecords(t *testing.T) {
	for _, name := range []string{"closed", "killed", "index files are lost"} {
		t.Run(name, func(t *testing.T) {
			fs := newDisk()
			cfg, clock := clockedConfig()
			s := open(t, fs, cfg)
			appendSegments(t, createHourly(t, s, 0), 1)
			clock.pass(30 * time.Minute)
			fs = diskAfter(t, s, fs, name)
			cfg.clock = clock.machine()
			s = open(t, fs, cfg)
			p := s.Partition(id(0))
			p.SetCommitted(p.End())
			clock.pass(30 * time.Minute)
			tick(t, s, testTime)
			require.Zero(t, p.Start(), "a record was deleted that is not an hour old")
			clock.pass(appendStep)
			tick(t, s, testTime)
			require.Equal(t, int64(100), p.Start(), "the start forgot how old records are")
		})
	}
}

// diskAfter is the disk that a store leaves in one of some ways.
func diskAfter(t *testing.T, s *Store, fs disk, how string) disk {
	t.Helper()
	synced(t, s)
	left := disk{fs.Copy()}
	require.NoError(t, s.Close())
	if how == "killed" {
		return left
	}
	if how != "closed" {
		for _, seg := range numbers(t, fs, indexSuffix) {
			fs.Lose(indexName(seg))
		}
	}
	return fs
}

// Copying forward makes nothing younger, over any number of copies and starts.
func TestACopiedRecordKeepsItsAge(t *testing.T) {
	fs := newDisk()
	cfg, clock := clockedConfig()
	s := open(t, fs, cfg)
	appendSegments(t, createHourly(t, s, 0), 1<<60)
	for range 4 {
		clock.pass(14 * time.Minute)
		p := s.Partition(id(0))
		p.SetCommitted(p.End())
		first, last := p.runs[0].seg, p.runs[len(p.runs)-1].seg
		busy := create(t, s, 1)
		for i := range 60 {
			add(t, busy, 0, plain(i, 1, 900))
		}
		sealed(t, s)
		for seg := first; seg <= last; seg++ {
			_, err := s.moveSegment(seg, moveBytesPerTick)
			require.NoError(t, err)
		}
		require.Greater(t, p.runs[0].seg, last, "nothing was copied")
		require.Zero(t, p.Start())
		require.NoError(t, s.Close())
		cfg.clock = clock.machine()
		s = open(t, fs, cfg)
	}
	p := s.Partition(id(0))
	p.SetCommitted(p.End())
	clock.pass(4 * time.Minute)
	tick(t, s, testTime)
	require.Zero(t, p.Start(), "a record was deleted that is not an hour old")
	clock.pass(appendStep)
	tick(t, s, testTime)
	require.Equal(t, int64(100), p.Start(), "copying made records younger")
}

// Only what passes makes records older: a clock that is set while the broker runs does not.
func TestAClockThatIsSetMakesNothingOlder(t *testing.T) {
	cfg, clock := clockedConfig()
	s := open(t, newDisk(), cfg)
	p := createHourly(t, s, 0)
	appendSegments(t, p, 1)
	clock.set(1000 * time.Hour)
	s.Tick(testTime.Add(1000 * time.Hour))
	require.Zero(t, p.Start(), "a record was deleted that is not an hour old")
	clock.set(-2000 * time.Hour)
	clock.pass(time.Hour + time.Millisecond)
	s.Tick(testTime.Add(-1000 * time.Hour))
	require.Equal(t, int64(100), p.Start())
}

// A clock that was ahead at an earlier start keeps records no longer than from this start on.
func TestAppendTimesInTheFutureEndNow(t *testing.T) {
	fs := newDisk()
	cfg, clock := clockedConfig()
	clock.set(1000 * time.Hour)
	s := open(t, fs, cfg)
	appendSegments(t, createHourly(t, s, 0), 1)
	require.NoError(t, s.Close())
	clock.set(-1000 * time.Hour)
	cfg.clock = clock.machine()
	s = open(t, fs, cfg)
	p := s.Partition(id(0))
	p.SetCommitted(p.End())
	clock.pass(time.Hour)
	tick(t, s, testTime)
	require.Zero(t, p.Start())
	clock.pass(time.Millisecond)
	tick(t, s, testTime)
	require.Equal(t, int64(100), p.Start())
}

// The open segment is sealed for its age, however often the broker starts.
func TestAStartKnowsTheAgeOfTheOpenSegment(t *testing.T) {
	fs := newDisk()
	cfg, clock := clockedConfig()
	cfg.SegmentAge = time.Hour
	s := open(t, fs, cfg)
	add(t, createHourly(t, s, 0), 0, plain(1, 1, 10))
	for range 3 {
		clock.pass(25 * time.Minute)
		require.NoError(t, s.Close())
		cfg.clock = clock.machine()
		s = open(t, fs, cfg)
	}
	s.Tick(testTime)
	require.Equal(t, uint32(2), s.wal.end().segment(), "the first segment is still open")
}

// Segments from before records carried a time are as old as their files.
func TestOldSegmentsAreAsOldAsTheirFiles(t *testing.T) {
	dir := t.TempDir()
	cfg, clock := clockedConfig()
	s := open(t, vfs.OS(dir, vfs.Public), cfg)
	appendSegments(t, createHourly(t, s, 0), 1)
	require.NoError(t, s.Close())
	eraseAppendTimes(t, dir, testTime)
	clock.pass(30 * time.Minute)
	for range 2 {
		cfg.clock = clock.machine()
		s = open(t, vfs.OS(dir, vfs.Public), cfg)
		want := s.Partition(id(0))
		require.Equal(t, int64(100), want.End())
		require.Len(t, all(t, want), 100, "a record of the older form was not read")
		require.NoError(t, s.Close())
		eraseAppendTimes(t, dir, testTime) // the start has written what nothing says was synced
	}
	s = open(t, vfs.OS(dir, vfs.Public), cfg)
	p := s.Partition(id(0))
	p.SetCommitted(p.End())
	clock.pass(30 * time.Minute)
	tick(t, s, testTime)
	require.Zero(t, p.Start(), "a record was deleted that is not an hour old")
	clock.pass(time.Millisecond)
	tick(t, s, testTime)
	require.Equal(t, int64(100), p.Start())
}

// eraseAppendTimes makes segments and index files what they were before there was a time in them.
func eraseAppendTimes(t *testing.T, dir string, changed time.Time) {
	t.Helper()
	s := &Store{fs: vfs.OS(dir, vfs.Public)}
	for _, seg := range numbers(t, s.fs, logSuffix) {
		name := filepath.Join(dir, logName(seg))
		b, err := os.ReadFile(name)
		require.NoError(t, err)
		salt, err := decodeSegmentHeader(b, seg)
		require.NoError(t, err)
		for at := uint32(segmentHeaderBytes); int(at) < len(b); {
			r, err := decodeRecord(b[at:], salt, at)
			require.NoError(t, err)
			copy(b[at:], putRecord(nil, salt, at, r.durable, r.number, r.kind, 0, r.payload))
			at += uint32(r.recordLen) //nolint:gosec // small
		}
		require.NoError(t, os.WriteFile(name, b, 0o600))
		require.NoError(t, os.Chtimes(name, changed, changed))
	}
	for _, seg := range numbers(t, s.fs, indexSuffix) {
		name := filepath.Join(dir, indexName(seg))
		b, err := os.ReadFile(name)
		require.NoError(t, err)
		end := indexHeaderBytes + int(be.Uint32(b[16:]))*indexRunBytes
		for at := indexHeaderBytes; at < end; at += indexRunBytes {
			be.PutUint32(b[at+12:], be.Uint32(b[at+12:])&0xff)
		}
		be.PutUint32(b[24:], crc32.Checksum(b[indexHeaderBytes:end], castagnoli))
		be.PutUint32(b[28:], crc32.Checksum(b[:28], castagnoli))
		require.NoError(t, os.WriteFile(name, b, 0o600))
	}
}
