package scrub

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/bornode/bornode/internal/telemetry"
)

// memory keeps the progress, as a store does.
type memory struct {
	b   []byte
	err error
}

func (m *memory) Load() ([]byte, error) { return m.b, m.err }

func (m *memory) Store(b []byte) error {
	if m.err == nil {
		m.b = b
	}
	return m.err
}

// shelf is an area of records of one size, some of them damaged.
type shelf struct {
	name    string
	records int
	size    int64
	damaged map[int]bool
	fails   error
	read    []int
}

func (f *shelf) area() Area {
	return Area{Name: f.name, Read: func(_ context.Context, from string, most int64) (s Step, err error) {
		if f.fails != nil {
			return s, f.fails
		}
		at, _ := strconv.Atoi(from)
		for ; at < f.records && s.Bytes < most; at++ {
			f.read = append(f.read, at)
			s.Bytes += f.size
			if f.damaged[at] {
				s.Problems = append(s.Problems, "record")
			}
		}
		if at < f.records {
			s.Next = strconv.Itoa(at)
		}
		return s, nil
	}}
}

func newTest(t *testing.T, rate int, saved Saved, shelves ...*shelf) *Scrubber {
	t.Helper()
	var areas []Area
	for _, f := range shelves {
		areas = append(areas, f.area())
	}
	return New(Config{MegabytesPerSecond: rate}, areas, saved, zap.NewNop(), telemetry.NewRegistry())
}

// A round takes as long as its bytes take at the rate, counts what it found, and the next one begins no sooner than
// leastRound after it.
func TestARoundIsReadAtTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &shelf{name: "blocks", records: 24_000, size: 100_000, damaged: map[int]bool{7: true, 23_999: true}} // 2.4 GB
		b := &shelf{name: "topics", records: 1200, size: 1_000_000}                                               // 1.2 GB
		s := newTest(t, 2, &memory{}, a, b)
		ctx, stop := context.WithCancel(t.Context())
		start := time.Now()
		done := make(chan struct{})
		go func() { s.Run(ctx); close(done) }()
		time.Sleep(29*time.Minute + 50*time.Second)
		synctest.Wait()
		require.Zero(t, s.Progress().Last.Ended, "3.6 GB at 2 MB/s are half an hour")
		time.Sleep(20 * time.Second)
		synctest.Wait()
		last := s.Progress().Last
		require.InDelta(t, start.Add(30*time.Minute).UnixMilli(), last.Ended, 2000)
		require.Equal(t, int64(3_600_000_000), last.Bytes)
		require.EqualValues(t, 2, last.Problems)
		stop()
		<-done
		for i, n := range a.read[:24_000] {
			require.Equal(t, i, n, "each record once a round, in order")
		}
	})
}

// A small folder is not read all the time, an empty one neither.
func TestSmallFoldersAreReadSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := &shelf{name: "blocks", records: 3, size: 10}, &shelf{name: "topics"}
		s := newTest(t, 2, &memory{}, a, b)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { s.Run(ctx); close(done) }()
		time.Sleep(10*leastRound - time.Second)
		stop()
		<-done
		require.Len(t, a.read, 10*3)
	})
}

// A node that is restarted again and again ends its rounds: it goes on where it was.
func TestRoundsEndThoughTheNodeRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		saved := &memory{}
		var read []int
		for range 100 {
			a := &shelf{name: "blocks", records: 6000, size: 100_000, damaged: map[int]bool{100: true}} // 5 minutes
			s := newTest(t, 2, saved, a)
			ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
			s.Run(ctx)
			stop()
			read = append(read, a.read...)
			if last := s.Progress().Last; last.Ended > 0 {
				require.Equal(t, int64(600_000_000), last.Bytes)
				require.EqualValues(t, 1, last.Problems, "found before a restart")
				break
			}
		}
		require.Equal(t, 6000, len(read), "nothing is read twice, nothing passed over")
		for i, n := range read {
			require.Equal(t, i, n)
		}
	})
}

// A restart between two rounds does not begin the next one sooner.
func TestARestartBetweenRoundsWaitsForTheNext(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000)
	r := NewRounds([]string{"blocks"}, 1_000_000, nil, now)
	require.True(t, r.Done(Step{Bytes: 1000}, now))
	r = NewRounds([]string{"blocks"}, 1_000_000, r.Encode(), now.Add(time.Second))
	_, from, wait := r.Next(now.Add(time.Second))
	require.Empty(t, from)
	require.Equal(t, leastRound-time.Second, wait)
}

// What cannot be read at all is passed over with a pause and told; the others are read, and nothing spins.
func TestAnAreaThatCannotBeReadIsPassedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := &shelf{name: "blocks", fails: errors.New("input/output error")}, &shelf{name: "topics", records: 5, size: 1000}
		s := newTest(t, 2, &memory{}, a, b)
		ctx, stop := context.WithTimeout(t.Context(), leastRound-time.Second)
		defer stop()
		s.Run(ctx)
		require.Len(t, b.read, 5)
		last := s.Progress().Last
		require.NotZero(t, last.Ended)
		require.EqualValues(t, 1, last.Failures)
	})
}

// A progress that is damaged, from another version, ahead of the clock or not to be kept costs a round, nothing else.
func TestAProgressThatIsOfNoUseBeginsARound(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000)
	for _, saved := range []string{"", "{", `{"area":"gone","from":"7","now":{"began":1}}`, fmt.Sprintf(`{"area":"blocks","from":"7","now":{"began":%d}}`, now.Add(leastRound).UnixMilli()+1)} {
		r := NewRounds([]string{"blocks", "topics"}, 1, []byte(saved), now)
		area, from, wait := r.Next(now)
		require.Equal(t, "blocks", area, saved)
		require.Empty(t, from, saved)
		require.Zero(t, wait, saved)
	}
	synctest.Test(t, func(t *testing.T) {
		a := &shelf{name: "blocks", records: 3, size: 10}
		s := newTest(t, 2, &memory{err: errors.New("disk full")}, a)
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		s.Run(ctx)
		require.Len(t, a.read, 3)
	})
}

// With the rate 0 nothing is read.
func TestNoRateNoReading(t *testing.T) {
	a := &shelf{name: "blocks", records: 3, size: 10}
	s := newTest(t, 0, &memory{}, a)
	s.Run(t.Context())
	require.False(t, s.On())
	require.Empty(t, a.read)
	require.Zero(t, s.Progress())
	for _, bad := range []int{-1, maxRate + 1} {
		require.Error(t, (&Config{MegabytesPerSecond: bad}).Validate())
	}
}

// A step that read nothing and goes on elsewhere costs time all the same: an area of absent things spins not.
func TestAStepWithoutBytesIsPaced(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000)
	r := NewRounds([]string{"blocks"}, 1_000_000, nil, now)
	require.False(t, r.Done(Step{Next: "1"}, now))
	_, from, wait := r.Next(now)
	require.Equal(t, "1", from)
	require.Positive(t, wait)
}

// A step that the node's end interrupts is read again by the next start.
func TestAnInterruptedStepIsReadAgain(t *testing.T) {
	saved := &memory{}
	ctx, stop := context.WithCancel(t.Context())
	area := Area{Name: "blocks", Read: func(_ context.Context, _ string, _ int64) (Step, error) {
		stop()
		return Step{Next: "7", Bytes: 1}, nil
	}}
	New(Config{MegabytesPerSecond: 2}, []Area{area}, saved, zap.NewNop(), telemetry.NewRegistry()).Run(ctx)
	r := NewRounds([]string{"blocks"}, 1, saved.b, time.Now())
	_, from, _ := r.Next(time.Now())
	require.Empty(t, from)
}

// A saved progress of any size costs no more than its bound: beyond that a round begins.
func TestAProgressBeyondItsBoundBeginsARound(t *testing.T) {
	now := time.Now().Add(-time.Hour)
	r := NewRounds([]string{"blocks"}, 1, nil, now)
	r.Done(Step{Next: "7", Bytes: 1}, now)
	for _, padding := range []int{0, maxSavedBytes} {
		a := &shelf{name: "blocks", records: 10, size: 10}
		s := newTest(t, 2, &memory{b: append(r.Encode(), bytes.Repeat([]byte{' '}, padding)...)}, a)
		require.Equal(t, padding == 0, s.Progress().From == "7", "padding %d", padding)
	}
}

// An area whose rest cannot be read is left where it is, and the next one begins at its own start.
func TestAFailureDoesNotMoveTheNextArea(t *testing.T) {
	now := time.Unix(1000, 0)
	r := NewRounds([]string{"blocks", "topics"}, 1<<20, nil, now)
	require.False(t, r.Done(Step{Next: "700", Bytes: 1}, now))
	require.False(t, r.Failed(now))
	area, from, _ := r.Next(now)
	require.Equal(t, "topics", area)
	require.Empty(t, from)
}
