package store

import (
	"os"
	"slices"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/pubsub/batch"
)

func TestProducersAreHeardOnceAndInOrder(t *testing.T) {
	fs := newDisk()
	s := open(t, fs, testConfig())
	p := create(t, s, 0)
	send := func(epoch int16, seq int32) (Appended, error) {
		return p.Append(0, made(int(seq), 2, 300, 1, 7, epoch, seq), 1000)
	}
	for i := range int32(10) {
		a, err := send(0, 2*i)
		require.NoError(t, err)
		require.Equal(t, int64(2*i), a.Base)
	}
	check := func() {
		for i := int32(5); i < 10; i++ {
			a, err := send(0, 2*i)
			require.NoError(t, err)
			require.True(t, a.Duplicate)
			require.Equal(t, int64(2*i), a.Base)
			require.Equal(t, int64(2*i+2), a.Next)
		}
		_, err := send(0, 8) // forgotten: six batches ago
		require.ErrorIs(t, err, ErrOutOfOrder)
		_, err = send(0, 22)
		require.ErrorIs(t, err, ErrOutOfOrder)
		_, err = send(1, 5)
		require.ErrorIs(t, err, ErrOutOfOrder)
		require.Equal(t, int64(20), p.End())
	}
	check()
	sealed(t, s)
	require.NoError(t, s.Close())
	s = open(t, fs, testConfig())
	p = s.Partition(id(0))
	check()
	_, err := send(1, 0)
	require.NoError(t, err)
	_, err = send(0, 20)
	require.ErrorIs(t, err, ErrProducerFenced)
}

func TestSequencesGoOnAfterTheLargest(t *testing.T) {
	s := open(t, newDisk(), testConfig())
	p := create(t, s, 0)
	add(t, p, 0, made(1, 2, 10, 1, 7, 0, 0x7ffffffe))
	a := add(t, p, 0, made(1, 2, 10, 1, 7, 0, 0))
	require.False(t, a.Duplicate)
}

func TestATruncationFindsWhatProducersHadSentBefore(t *testing.T) {
	fs := newDisk()
	s := open(t, fs, testConfig())
	p := create(t, s, 0)
	for i := range int32(40) {
		add(t, p, 0, made(int(i), 1, 700, 1, 7, 0, i))
	}
	sealed(t, s)
	_, err := p.Truncate(12)
	require.NoError(t, err)
	check := func() {
		for i := int32(7); i < 12; i++ {
			a, err := p.Append(0, made(int(i), 1, 700, 1, 7, 0, i), 1)
			require.NoError(t, err)
			require.True(t, a.Duplicate, "sequence %d", i)
			require.Equal(t, int64(i), a.Base)
		}
	}
	check()
	require.NoError(t, s.Close())
	s = open(t, fs, testConfig())
	p = s.Partition(id(0))
	check()
	require.False(t, add(t, p, 0, made(12, 1, 700, 1, 7, 0, 12)).Duplicate)
}

func TestProducersAreForgottenOldestFirst(t *testing.T) {
	s := open(t, newDisk(), testConfig())
	p := create(t, s, 0)
	for i := range int64(maxProducers) {
		_, err := p.Append(0, made(int(i), 1, 1, 1, i, 0, 0), 1000+i)
		require.NoError(t, err)
	}
	idle := 1000 + producerIdle.Milliseconds()
	_, err := p.Append(0, made(1, 1, 1, 1, maxProducers, 0, 0), idle-1)
	require.ErrorIs(t, err, ErrProducers, "the oldest may still repeat a batch")
	again, err := p.Append(0, made(0, 1, 1, 1, 0, 0, 0), idle-1)
	require.NoError(t, err)
	require.True(t, again.Duplicate)
	_, err = p.Append(0, made(1, 1, 1, 1, maxProducers, 0, 0), idle)
	require.NoError(t, err)
	require.Equal(t, int64(maxProducers), s.producers.Load())
	require.NotContains(t, p.producers, int64(0))
	require.Contains(t, p.producers, int64(1))
	s.Tick(time.UnixMilli(1500).Add(producerExpiry))
	require.NotContains(t, p.producers, int64(499))
	require.Contains(t, p.producers, int64(500))
}

// A store with many producers takes new ones where there are few, and makes room by forgetting those that are idle.
func TestAStoreFullOfProducersMakesRoom(t *testing.T) {
	s := open(t, newDisk(), testConfig())
	p, q := create(t, s, 0), create(t, s, 1)
	for i := range int64(fewProducers) {
		_, err := p.Append(0, made(int(i), 1, 1, 1, i, 0, 0), 1000)
		require.NoError(t, err)
	}
	s.producers.Add(maxAllProducers) // in other partitions
	_, err := p.Append(0, made(1, 1, 1, 1, 99, 0, 0), 1000)
	require.ErrorIs(t, err, ErrProducers)
	_, err = q.Append(0, made(1, 1, 1, 1, 99, 0, 0), 1000)
	require.NoError(t, err)
	raw := made(1, 1, 1, 1, 99, 0, 0)
	batch.Assign(raw, p.End(), 0)
	_, err = p.Accept(raw)
	require.NoError(t, err, "what a leader took its replicas take")
	require.Len(t, p.producers, fewProducers, "an idle one made room")
	s.Tick(time.UnixMilli(1001).Add(producerIdle))
	require.NotContains(t, p.producers, int64(1))
	s.producers.Add(-maxAllProducers)
}

func TestOldLeadersAreFenced(t *testing.T) {
	fs := newDisk()
	s := open(t, fs, testConfig())
	p := create(t, s, 0)
	add(t, p, 3, plain(1, 1, 10))
	_, err := p.Append(2, plain(2, 1, 10), 1)
	require.ErrorIs(t, err, ErrFenced)
	m, err := p.Promise(5)
	require.NoError(t, err)
	require.NoError(t, s.Durable(t.Context(), m))
	require.NoError(t, s.Close())
	s = open(t, disk{fs.Crash(0)}, testConfig())
	p = s.Partition(id(0))
	require.Equal(t, int32(5), p.Promised())
	_, err = p.Append(4, plain(2, 1, 10), 1)
	require.ErrorIs(t, err, ErrFenced)
	_, err = p.Enter(4)
	require.ErrorIs(t, err, ErrFenced)
	_, err = p.Promise(4)
	require.ErrorIs(t, err, ErrFenced)
	_, err = p.Enter(6)
	require.NoError(t, err)
	e, end := p.Position()
	require.Equal(t, int32(6), e)
	require.Equal(t, int64(1), end)
	require.Equal(t, int32(6), p.Promised())
}

func TestEpochsAndTheirEnds(t *testing.T) {
	s := open(t, newDisk(), testConfig())
	p := create(t, s, 0)
	for i, e := range []int32{1, 1, 4, 4, 6} {
		add(t, p, e, plain(i, 2, 10))
	}
	require.Equal(t, []EpochStart{{1, 0}, {4, 4}, {6, 8}}, p.Epochs())
	for _, c := range []struct {
		ask, epoch int32
		end        int64
	}{{-1, -1, -1}, {0, 0, 0}, {1, 1, 4}, {3, 1, 4}, {4, 4, 8}, {5, 4, 8}, {6, 6, 10}, {9, 6, 10}} {
		e, end := p.EndOf(c.ask)
		require.Equal(t, c.epoch, e, c.ask)
		require.Equal(t, c.end, end, c.ask)
	}
	_, err := p.Enter(9)
	require.NoError(t, err)
	e, end := p.EndOf(9)
	require.Equal(t, int32(9), e)
	require.Equal(t, int64(10), end)
	_, err = p.Truncate(7)
	require.NoError(t, err)
	require.Equal(t, []EpochStart{{1, 0}, {4, 4}}, p.Epochs())
	require.Equal(t, int64(6), p.End(), "the batch that holds 7 begins at 6")
}

// A consumer that read an epoch to its end goes on behind it when that epoch's records are deleted: it would begin anew, and
// miss records or read them again, if the broker said that it does not know the epoch.
func TestAnEpochWhoseRecordsAreGoneEndsWhereTheLogBegins(t *testing.T) {
	s := open(t, newDisk(), testConfig())
	p := create(t, s, 0)
	for i, e := range []int32{1, 1, 4, 4} {
		add(t, p, e, plain(i, 2, 10))
	}
	p.SetCommitted(8)
	require.NoError(t, p.DeleteBefore(4))
	require.Equal(t, []EpochStart{{4, 4}}, p.Epochs())
	for ask, end := range map[int32]int64{0: 4, 1: 4, 3: 4, 4: 8} {
		e, at := p.EndOf(ask)
		require.Equal(t, ask, e)
		require.Equal(t, end, at, ask)
	}
	_, err := p.Reset(20)
	require.NoError(t, err)
	e, at := p.EndOf(1)
	require.Equal(t, int32(1), e)
	require.Equal(t, int64(20), at, "an empty log")
}

func TestFollowersTakeOnlyWhatContinues(t *testing.T) {
	s := open(t, newDisk(), testConfig())
	p := create(t, s, 0)
	at := func(base int64, epoch int32) []byte {
		raw := plain(int(base), 2, 50)
		batch.Assign(raw, base, epoch)
		return raw
	}
	_, err := p.Accept(at(1, 1))
	require.ErrorIs(t, err, ErrGap)
	_, err = p.Accept(at(0, 3))
	require.NoError(t, err)
	_, err = p.Accept(at(0, 3))
	require.ErrorIs(t, err, ErrGap)
	_, err = p.Accept(at(2, 2))
	require.ErrorIs(t, err, ErrGap)
	bad := at(2, 3)
	bad[len(bad)-1] ^= 1
	_, err = p.Accept(bad)
	require.ErrorIs(t, err, batch.ErrCorrupt)
	_, err = p.Accept(append(at(2, 3), 0))
	require.ErrorIs(t, err, batch.ErrCorrupt)
	require.Equal(t, int64(2), p.End())
}

func TestCommittedRecordsStay(t *testing.T) {
	fs := newDisk()
	s := open(t, fs, testConfig())
	p := create(t, s, 0)
	for i := range 10 {
		add(t, p, 0, plain(i, 1, 10))
	}
	p.SetCommitted(1000)
	require.Equal(t, int64(10), p.Committed())
	_, err := p.Truncate(9)
	require.ErrorIs(t, err, ErrCommitted)
	_, err = p.Reset(9)
	require.ErrorIs(t, err, ErrCommitted)
	require.ErrorIs(t, p.DeleteBefore(11), ErrOutOfRange)
	require.NoError(t, s.Close())
	s = open(t, fs, testConfig())
	require.Equal(t, int64(10), s.Partition(id(0)).Committed())
}

func TestDurableEndIsWhatWasSynced(t *testing.T) {
	cfg := testConfig()
	cfg.FsyncInterval = time.Minute
	s := open(t, newDisk(), cfg)
	p := create(t, s, 0)
	a := add(t, p, 0, plain(1, 1, 10))
	require.NoError(t, s.Durable(t.Context(), a.Mark))
	add(t, p, 0, plain(2, 1, 10))
	require.Equal(t, int64(1), p.DurableEnd())
	require.Equal(t, int64(2), p.End())
	_, err := p.Truncate(0)
	require.NoError(t, err)
	require.Equal(t, int64(0), p.DurableEnd())
}

func TestWaitersHearOfChanges(t *testing.T) {
	s := open(t, newDisk(), testConfig())
	p := create(t, s, 0)
	closed := func(c <-chan struct{}) bool {
		select {
		case <-c:
			return true
		default:
			return false
		}
	}
	c := p.Changed()
	require.False(t, closed(c))
	add(t, p, 0, plain(1, 1, 10))
	require.True(t, closed(c))
	c = p.Changed()
	p.SetCommitted(0)
	require.False(t, closed(c))
	p.SetCommitted(1)
	require.True(t, closed(c))
	c = p.Changed()
	require.NoError(t, s.Delete(id(0)))
	require.True(t, closed(c))
	require.True(t, closed(p.Changed()))
	_, err := p.Append(0, plain(1, 1, 10), 1)
	require.ErrorIs(t, err, ErrDeleted)
}

func TestOffsetsAreFoundByTime(t *testing.T) {
	cfg := testConfig()
	cfg.SegmentBytes = 128 << 10 // several blocks of index entries in a segment
	s := open(t, newDisk(), cfg)
	p := create(t, s, 0)
	for i := range 3000 {
		add(t, p, 0, made(i, 2, 1, int64(100+10*i), -1, 0, 0))
	}
	sealed(t, s)
	require.True(t, slices.ContainsFunc(p.runs, func(r *run) bool { return r.count > 3*indexBlockEntries }))
	for _, i := range []int64{0, 1, 169, 170, 171, 172, 340, 341, 342, 343, 1000, 2500, 2999} {
		off, ts, err := p.OffsetAt(100 + 10*i - 3)
		require.NoError(t, err)
		require.Equal(t, 2*i, off)
		require.Equal(t, 100+10*i, ts)
		b, err := p.Read(2*i+1, 1, everything)
		require.NoError(t, err)
		h, _, err := batch.Parse(b)
		require.NoError(t, err)
		require.Equal(t, 2*i, h.BaseOffset)
		upTo, err := p.Read(2*i, 1<<20, 2*i+3)
		require.NoError(t, err)
		require.Len(t, upTo, len(b), "only one batch ends at or below")
	}
	off, ts, err := p.OffsetAt(100 + 10*3000)
	require.NoError(t, err)
	require.Equal(t, []int64{-1, -1}, []int64{off, ts})
	require.Len(t, all(t, p), 3000)
}

// The batch with the newest time is found by the index alone, wherever it is: producers give the times.
func TestTheNewestTimeIsFoundWithoutReading(t *testing.T) {
	cfg := testConfig()
	cfg.SegmentBytes = 128 << 10
	s := open(t, newDisk(), cfg)
	p := create(t, s, 0)
	newest := func(upTo int64) []int64 {
		off, ts, err := p.Newest(upTo)
		require.NoError(t, err)
		return []int64{off, ts}
	}
	require.Equal(t, []int64{-1, -1}, newest(0))
	for i := range 3000 {
		ts := int64(1000 + i%7)
		switch i {
		case 1500:
			ts = 9000
		case 700, 2900:
			ts = 8000
		}
		add(t, p, 1, made(i, 2, 50, ts, -1, 0, 0))
	}
	sealed(t, s)
	read := func() float64 {
		var a, b dto.Metric
		require.NoError(t, s.m.readBytes.Write(&a))
		require.NoError(t, s.m.cachedBytes.Write(&b))
		return a.Counter.GetValue() + b.Counter.GetValue()
	}
	before := read()
	require.Equal(t, []int64{3001, 9000}, newest(p.End()))
	require.Equal(t, []int64{1401, 8000}, newest(3001), "below the batch with the newest")
	require.Equal(t, []int64{1401, 8000}, newest(3000))
	require.Equal(t, []int64{13, 1006}, newest(1400), "the first of equals")
	p.SetCommitted(6000)
	require.NoError(t, p.DeleteBefore(3002))
	require.Equal(t, []int64{5801, 8000}, newest(6000), "what a cut run had before counts no more")
	require.Equal(t, []int64{-1, -1}, newest(3002))
	require.Equal(t, before, read(), "no batch was read")
}

// An offset that cannot be found since the disk fails is an error: "none" would send a consumer to the end of the log.
func TestATimeThatCannotBeReadIsNotAbsent(t *testing.T) {
	fs := newDisk()
	cfg := testConfig()
	s := open(t, fs, cfg)
	p := create(t, s, 0)
	for i := range 500 {
		add(t, p, 1, made(i, 2, 50, int64(i), -1, 0, 0))
	}
	sealed(t, s)
	p.mu.Lock()
	name := indexName(p.runs[0].seg)
	p.mu.Unlock()
	f, err := fs.Open(name, os.O_RDWR)
	require.NoError(t, err)
	size, err := f.Size()
	require.NoError(t, err)
	_, err = f.WriteAt(make([]byte, size-indexHeaderBytes-indexRunBytes), indexHeaderBytes+indexRunBytes)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	_, _, err = p.OffsetAt(0)
	require.ErrorAs(t, err, new(*DamageError))
	_, _, err = p.Newest(10)
	require.ErrorAs(t, err, new(*DamageError))
}
