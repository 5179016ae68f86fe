package store

import (
	"errors"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/bornode/bornode/internal/vfs"
	"github.com/bornode/bornode/internal/vfs/faultfs"
	"github.com/bornode/bornode/pubsub/batch"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// disk is a faultfs.Disk whose files are younger than any record.
type disk struct{ *faultfs.Disk }

func newDisk() disk { return disk{faultfs.New()} }

// Modified is later than anything: a record that had to ask would be as young as can be.
func (d disk) Modified(string) (time.Time, error) { return testTime.AddDate(100, 0, 0), nil }

// testTime is when a fakeClock begins.
var testTime = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// fakeClock is a machine's clock that goes on by hand.
type fakeClock struct{ wall, passed atomic.Int64 }

func (c *fakeClock) machine() *machineClock {
	return &machineClock{wall: func() time.Time { return testTime.Add(time.Duration(c.wall.Load())) },
		passed: func() time.Duration { return time.Duration(c.passed.Load()) }}
}

// pass lets time pass.
func (c *fakeClock) pass(d time.Duration) {
	c.wall.Add(int64(d))
	c.passed.Add(int64(d))
}

// clockedConfig is a test's configuration with a clock of its own.
func clockedConfig() (Config, *fakeClock) {
	cfg, c := testConfig(), new(fakeClock)
	cfg.clock = c.machine()
	return cfg, c
}

// set changes what the clock shows; no time passes.
func (c *fakeClock) set(by time.Duration) { c.wall.Add(int64(by)) }

var errIO = errors.New("input/output error")

func id(n int32) ID { return ID{Topic: [32]byte{1}, Partition: n} }

func testConfig() Config {
	c := DefaultConfig()
	c.SegmentBytes, c.CacheBytes, c.ReserveBytes, c.retry = 16<<10, 8<<10, 4<<10, time.Millisecond
	return c
}

func open(t testing.TB, fs vfs.FS, cfg Config) *Store {
	t.Helper()
	s, err := Open(cfg, fs, nil, prometheus.NewRegistry())
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() }) // closed by the test already, if its result counts
	return s
}

func create(t testing.TB, s *Store, n int32) *Partition {
	t.Helper()
	p, err := s.Create(id(n), Retention{})
	require.NoError(t, err)
	return p
}

// made is a batch of count records with a body of size bytes that tells its seed; pid < 0: not idempotent.
func made(seed, count, size int, ts, pid int64, epoch int16, seq int32) []byte {
	rng := rand.New(rand.NewPCG(uint64(seed), 7)) //nolint:gosec // a test
	body := make([]byte, size)
	for i := range body {
		body[i] = byte(rng.Uint32())
	}
	if pid < 0 {
		epoch, seq = -1, -1
	}
	return batch.Encode(batch.Header{LastOffsetDelta: int32(count - 1), Count: int32(count), FirstTimestamp: ts, MaxTimestamp: ts,
		ProducerID: pid, ProducerEpoch: epoch, FirstSequence: seq}, body)
}

func plain(seed, count, size int) []byte { return made(seed, count, size, int64(seed), -1, 0, 0) }

func add(t testing.TB, p *Partition, epoch int32, raw []byte) Appended {
	t.Helper()
	a, err := p.Append(epoch, raw, 1000)
	require.NoError(t, err)
	return a
}

func synced(t testing.TB, s *Store) {
	t.Helper()
	require.NoError(t, s.Sync(t.Context()))
}

// all are the checked batches of the partition's log.
func all(t testing.TB, p *Partition) [][]byte {
	t.Helper()
	var out [][]byte
	next := p.Start()
	require.NoError(t, p.Batches(next, everything, func(h batch.Header, raw []byte) error {
		_, _, err := batch.Parse(raw)
		require.NoError(t, err)
		require.LessOrEqual(t, h.BaseOffset, next)
		next = h.NextOffset()
		out = append(out, append([]byte(nil), raw...))
		return nil
	}))
	require.Equal(t, p.End(), next)
	n := 0
	require.NoError(t, p.Scan(p.Start(), everything, func(h batch.Header, raw []byte) error {
		require.Equal(t, out[n], raw, "batch %d at offset %d, without a copy", n, h.BaseOffset)
		n++
		return nil
	}))
	require.Len(t, out, n)
	sameInPieces(t, p, out)
	return out
}

// sameInPieces reads the log again, without copies and little at once.
func sameInPieces(t testing.TB, p *Partition, want [][]byte) {
	t.Helper()
	var got [][]byte
	const most = 4 << 10
	for at := p.Start(); at < p.End(); {
		pieces, err := p.Pieces(at, most, p.End())
		require.NoError(t, err)
		require.NotEmpty(t, pieces)
		sum, count := 0, 0
		for _, b := range pieces {
			sum += len(b)
			at, err = eachOf(b, func(_ batch.Header, raw []byte) error {
				got = append(got, raw)
				count++
				return nil
			})
			require.NoError(t, err)
		}
		require.True(t, sum <= most || count == 1, "%d bytes in %d batches", sum, count)
	}
	require.Equal(t, want, got)
	pieces, err := p.Pieces(p.End(), most, everything)
	require.NoError(t, err)
	require.Empty(t, pieces)
}

// numbers are the segments that have a file with the suffix, ascending.
func numbers(t testing.TB, fs vfs.FS, suffix string) (out []uint32) {
	t.Helper()
	names, err := fs.List(".")
	require.NoError(t, err)
	for _, n := range names {
		if seg, ok := numberOf(n, suffix); ok {
			out = append(out, seg)
		}
	}
	slices.Sort(out)
	return out
}

// sealed waits until the full segments have their index files.
func sealed(t testing.TB, s *Store) {
	t.Helper()
	synced(t, s)
	limit := time.After(time.Minute)
	for {
		s.wal.mu.Lock()
		n, ch := len(s.wal.jobs), s.wal.flushed
		s.wal.mu.Unlock()
		if n == 0 {
			return
		}
		select {
		case <-ch:
		case <-limit:
			require.FailNow(t, "segments are not sealed")
		}
	}
}
