package store

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/internal/vfs"
)

func logs(t *testing.T, fs vfs.FS) []uint32 { return numbers(t, fs, logSuffix) }

// tick ticks until nothing changes.
func tick(t *testing.T, s *Store, now time.Time) {
	for range 6 {
		s.Tick(now)
		synced(t, s)
		sealed(t, s)
	}
}

func TestRetentionBySizeFreesSegments(t *testing.T) {
	fs := newDisk()
	s := open(t, fs, testConfig())
	p, err := s.Create(id(0), Retention{Bytes: 20 << 10})
	require.NoError(t, err)
	for i := range 500 {
		add(t, p, 0, plain(i, 1, 1000-61))
	}
	sealed(t, s)
	tick(t, s, time.UnixMilli(0))
	require.Zero(t, p.Start(), "nothing is committed")
	p.SetCommitted(300)
	tick(t, s, time.UnixMilli(0))
	require.LessOrEqual(t, p.Start(), int64(300))
	p.SetCommitted(500)
	tick(t, s, time.UnixMilli(0))
	kept := (p.End() - p.Start()) * 1000
	require.GreaterOrEqual(t, kept, int64(20<<10))
	require.LessOrEqual(t, kept, int64(20<<10+16<<10))
	require.LessOrEqual(t, len(logs(t, fs)), 6)
	want := all(t, p)
	require.NoError(t, s.Close())
	s = open(t, fs, testConfig())
	require.Equal(t, want, all(t, s.Partition(id(0))))
}

func TestRetentionByTime(t *testing.T) {
	fs := newDisk()
	cfg, clock := clockedConfig()
	s := open(t, fs, cfg)
	p, err := s.Create(id(0), Retention{Age: 10 * time.Second})
	require.NoError(t, err)
	q := create(t, s, 1)
	for i := range 100 {
		add(t, p, 0, made(i, 1, 500, 0, -1, 0, 0))
		clock.pass(100 * time.Millisecond)
	}
	add(t, q, 0, plain(1, 1, 10))
	p.SetCommitted(100)
	sealed(t, s)
	clock.pass(4 * time.Second)
	tick(t, s, testTime)
	require.LessOrEqual(t, p.Start(), int64(40))
	require.Greater(t, p.Start(), int64(40-32), "a segment has fewer batches than that")
	clock.pass(6*time.Second - 200*time.Millisecond)
	tick(t, s, testTime)
	require.Equal(t, int64(98), p.Start(), "what is still in memory goes batch by batch")
	clock.pass(200 * time.Millisecond)
	tick(t, s, testTime)
	require.Equal(t, int64(100), p.Start())
	clock.pass(2 * time.Hour) // the open segment is sealed for its age, and the next
	for range 3 {
		tick(t, s, testTime)
		add(t, p, 0, made(1, 1, 10, 1<<60, -1, 0, 0))
		clock.pass(2 * time.Hour)
	}
	tick(t, s, testTime)
	require.LessOrEqual(t, len(logs(t, fs)), 5)
	require.Len(t, all(t, q), 1)
}

func TestWhatLivesInDeadSegmentsMovesForward(t *testing.T) {
	fs := newDisk()
	s := open(t, fs, testConfig())
	busy, err := s.Create(id(0), Retention{Bytes: 1000})
	require.NoError(t, err)
	quiet := create(t, s, 1)
	for i := range 400 {
		add(t, busy, 0, plain(i, 1, 900))
		if i%10 == 0 {
			add(t, quiet, int32(i/200), made(i, 2, 100, int64(i), 3, 0, int32(2*(i/10))))
		}
	}
	busy.SetCommitted(400)
	sealed(t, s)
	want := all(t, quiet)
	require.Greater(t, len(logs(t, fs)), 20)
	tick(t, s, time.UnixMilli(0))
	require.LessOrEqual(t, len(logs(t, fs)), 8)
	check := func() {
		require.Equal(t, want, all(t, quiet))
		require.Equal(t, []EpochStart{{0, 0}, {1, 40}}, quiet.Epochs())
		off, _, err := quiet.OffsetAt(195)
		require.NoError(t, err)
		require.Equal(t, int64(40), off)
		require.True(t, add(t, quiet, 1, made(390, 2, 100, 390, 3, 0, 78)).Duplicate)
	}
	check()
	require.NoError(t, s.Close())
	fs = disk{fs.Crash(0)}
	s = open(t, fs, testConfig())
	quiet = s.Partition(id(1))
	check()
	_, err = quiet.Truncate(11)
	require.NoError(t, err)
	add(t, quiet, 1, plain(1, 1, 10))
	want = all(t, quiet)
	require.Equal(t, int64(11), quiet.End())
	require.NoError(t, s.Close())
	s = open(t, fs, testConfig())
	require.Equal(t, want, all(t, s.Partition(id(1))))
}

func TestDeletedPartitionsFreeTheirSegments(t *testing.T) {
	fs := newDisk()
	s := open(t, fs, testConfig())
	for n := range int32(20) {
		p := create(t, s, n)
		for i := range 20 {
			add(t, p, 0, plain(i, 1, 1000))
		}
	}
	sealed(t, s)
	before := len(logs(t, fs))
	for n := range int32(20) {
		require.NoError(t, s.Delete(id(n)))
	}
	require.NoError(t, s.Delete(id(99)))
	p := create(t, s, 3)
	require.Zero(t, p.End())
	add(t, p, 0, plain(1, 1, 10))
	tick(t, s, time.Now())
	require.Less(t, len(logs(t, fs)), before/2)
	require.NoError(t, s.Close())
	s = open(t, fs, testConfig())
	require.Equal(t, []ID{id(3)}, s.List())
	require.Len(t, all(t, s.Partition(id(3))), 1)
}

func TestManyPartitionsShareSegments(t *testing.T) {
	fs := newDisk()
	cfg := testConfig()
	cfg.SegmentBytes = 1 << 20
	s := open(t, fs, cfg)
	const n = 10000
	for i := range int32(n) {
		add(t, create(t, s, i), 0, plain(int(i), 1, 60))
	}
	sealed(t, s)
	names, err := fs.List(".")
	require.NoError(t, err)
	require.Less(t, len(names), 12)
	require.NoError(t, s.Close())
	s = open(t, fs, cfg)
	require.Len(t, s.List(), n)
	for i := int32(0); i < n; i += 997 {
		require.Len(t, all(t, s.Partition(id(i))), 1)
	}
}

func TestACopyOfWhatWasTruncatedMeanwhileIsNotTaken(t *testing.T) {
	s := open(t, newDisk(), testConfig())
	p := create(t, s, 0)
	for i := range 40 {
		add(t, p, 0, plain(i, 1, 500))
	}
	sealed(t, s)
	old, err := p.Read(10, 2000, everything)
	require.NoError(t, err)
	_, err = p.Truncate(5)
	require.NoError(t, err)
	for i := range 40 {
		add(t, p, 1, plain(100+i, 1, 500))
	}
	want := all(t, p)
	require.NoError(t, p.putMoved(1, old))
	require.Equal(t, want, all(t, p))
}

// A batch that begins below the start of the log is dropped whole by a truncation, also if it was copied forward before.
func TestACopyThatBeginsBelowTheStartIsTruncated(t *testing.T) {
	fs := newDisk()
	s := open(t, fs, testConfig())
	p := create(t, s, 0)
	add(t, p, 0, plain(1, 10, 500))
	for i := range 100 { // of another partition: full segments
		add(t, create(t, s, 1), 0, plain(i, 1, 900))
	}
	sealed(t, s)
	p.SetCommitted(5)
	require.NoError(t, p.DeleteBefore(5))
	old, err := p.Read(5, 4000, everything)
	require.NoError(t, err)
	require.NoError(t, p.putMoved(1, old))
	moved := p.runs[0].seg
	require.Greater(t, moved, uint32(1))
	_, err = p.Truncate(7)
	require.NoError(t, err)
	require.Equal(t, int64(5), p.End())
	require.NoError(t, p.putMoved(moved, old), "it may have been read before")
	want := [][]byte{plain(2, 3, 500)}
	add(t, p, 0, want[0])
	check := func() { require.Equal(t, want, all(t, p)) }
	check()
	require.NoError(t, s.Close())
	s = open(t, fs, testConfig())
	p = s.Partition(id(0))
	check()
}

// What a producer had sent before a truncation is known after a start, though the segment that held it was removed since.
func TestATruncationKnowsWhatWasSentAfterAStart(t *testing.T) {
	fs := newDisk()
	s := open(t, fs, testConfig())
	p, busy := create(t, s, 0), create(t, s, 1)
	fill := func(n int) {
		for i := range n {
			add(t, busy, 0, plain(i, 1, 900))
		}
		sealed(t, s)
	}
	send := func(seq int) Appended { return add(t, p, 0, made(seq, 1, 100, 0, 7, 0, int32(seq))) }
	for i := range 6 {
		send(i)
	}
	fill(60)
	for i := range producerBatches {
		send(6 + i)
	}
	fill(60)
	_, err := p.Truncate(6)
	require.NoError(t, err)
	s.Tick(time.UnixMilli(999).Add(producerExpiry)) // its producer was seen at 1000, and then is no older
	require.Len(t, p.producers, 1)
	busy.SetCommitted(busy.End())
	require.NoError(t, busy.DeleteBefore(busy.End()))
	synced(t, s)
	snaps := slices.Clone(s.snaps)
	tick(t, s, time.UnixMilli(0))
	require.NotContains(t, logs(t, fs), uint32(1))
	require.Equal(t, snaps, s.snaps, "a snapshot would know")
	left := disk{fs.Copy()}
	require.NoError(t, s.Close())
	s = open(t, left, testConfig())
	p = s.Partition(id(0))
	require.Len(t, all(t, p), 6)
	require.True(t, send(5).Duplicate)
	require.False(t, send(6).Duplicate)
}

// The record of a truncation has no more than it may, however many producers lose all that is remembered of them.
func TestATruncationOfManyProducersIsReadAgain(t *testing.T) {
	fs := newDisk()
	s := open(t, fs, testConfig())
	p := create(t, s, 0)
	const most = maxRebuildHeads + 100
	for epoch := range int16(2) {
		for i := range int64(most) {
			add(t, p, 0, made(1, 1, 1, 0, i, epoch, 0))
		}
	}
	_, err := p.Truncate(most)
	require.NoError(t, err)
	require.Len(t, p.producers, maxRebuildHeads)
	synced(t, s)
	want := view(t, s)
	got := view(t, open(t, disk{fs.Copy()}, testConfig()))
	require.True(t, got.equal(want))
}

// What somebody still has to read stays, whoever wants it dropped.
func TestWhatIsHeldStays(t *testing.T) {
	s := open(t, newDisk(), testConfig())
	p, err := s.Create(id(0), Retention{Bytes: 1})
	require.NoError(t, err)
	for i := range 20 {
		add(t, p, 0, plain(i, 1, 100))
	}
	p.SetCommitted(20)
	held := int64(7)
	s.Hold(func(of ID, start int64) int64 {
		require.Equal(t, id(0), of)
		require.LessOrEqual(t, start, held)
		return held
	})
	require.NoError(t, p.DeleteBefore(5))
	require.Equal(t, int64(5), p.Start())
	require.NoError(t, p.DeleteBefore(15))
	require.Equal(t, int64(7), p.Start())
	tick(t, s, time.UnixMilli(0))
	require.Equal(t, int64(7), p.Start())
	held = 20
	tick(t, s, time.UnixMilli(0))
	require.Greater(t, p.Start(), int64(15))
}

// What is not committed stops neither DeleteRecords' check nor the retention of what is: it goes as far as it may.
func TestOnlyCommittedRecordsAreDropped(t *testing.T) {
	s := open(t, newDisk(), testConfig())
	p, err := s.Create(id(0), Retention{Bytes: 1})
	require.NoError(t, err)
	for i := range 100 {
		add(t, p, 0, plain(i, 1, 1000-61))
	}
	sealed(t, s)
	p.SetCommitted(50)
	require.ErrorIs(t, p.DeleteBefore(51), ErrOutOfRange)
	require.Zero(t, p.Start())
	tick(t, s, time.UnixMilli(0))
	require.LessOrEqual(t, p.Start(), int64(50))
	require.Greater(t, p.Start(), int64(50-16), "of a full segment with the newest batch that is there")
}
