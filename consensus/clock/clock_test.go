package clock

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/block"
)

func account(i int) common.Address { return common.Address{0: 0xaa, 19: byte(i + 1)} }

func schedule(ids ...int) (s block.Schedule) {
	for _, i := range ids {
		s = append(s, block.Producer{Account: account(i), Key: block.BLSKey{byte(i + 1)}})
	}
	return s
}

func firstN(n int) (s block.Schedule) {
	for i := range n {
		s = append(s, schedule(i)...)
	}
	return s
}

const second = time.Second

func TestCombine(t *testing.T) {
	at := func(pairs ...int) map[common.Address]time.Duration {
		m := make(map[common.Address]time.Duration)
		for i := 0; i < len(pairs); i += 2 {
			m[account(pairs[i])] = time.Duration(pairs[i+1]) * second
		}
		return m
	}
	for _, c := range []struct {
		name      string
		schedules []block.Schedule
		self      int
		own       int
		clocks    map[common.Address]time.Duration
		want      Consensus
	}{
		{"alone", []block.Schedule{firstN(1)}, 0, 7, nil, Consensus{1, 1, true, 7 * second}},
		{"own clock counts", []block.Schedule{firstN(4)}, 0, 3, at(1, 0, 2, 0), Consensus{3, 3, true, 0}},
		{"half of four is no majority", []block.Schedule{firstN(4)}, 0, 180, at(1, 180, 2, 0, 3, 0), Consensus{4, 3, true, 0}},
		{"more than half is", []block.Schedule{firstN(4)}, 0, 180, at(1, 180, 2, 180, 3, 0), Consensus{4, 3, true, 180 * second}},
		{"too few", []block.Schedule{firstN(4)}, 0, 3, at(1, 0), Consensus{2, 3, false, 0}},
		{"strangers do not count", []block.Schedule{firstN(4)}, 0, 3, at(1, 0, 8, 0, 9, 0), Consensus{2, 3, false, 0}},
		{"an observer's clock does not count", []block.Schedule{firstN(3)}, 9, 50, at(0, 1, 1, 2, 2, 3), Consensus{3, 3, true, 2 * second}},
		{"one account, one clock", []block.Schedule{schedule(0, 1, 1, 1)}, 0, 0, at(1, 9), Consensus{2, 3, false, 0}},
		{"the earlier of two schedules", []block.Schedule{firstN(3), schedule(0, 5, 6)}, 0, 4, at(1, 9, 2, 9, 5, 1, 6, 1), Consensus{3, 3, true, 1 * second}},
		{"both schedules need a quorum", []block.Schedule{firstN(3), schedule(0, 5, 6)}, 0, 4, at(1, 9, 2, 9, 5, 1), Consensus{2, 3, false, 0}},
		{"no schedule", nil, 0, 4, nil, Consensus{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := Combine(c.schedules, account(c.self), time.Duration(c.own)*second, c.clocks)
			if !c.want.Enough {
				got.Offset = 0
			}
			require.Equal(t, c.want, got)
		})
	}
}

// Whatever up to f clocks say, the time of a quorum's clocks is never beyond the fastest honest one and never behind the
// slowest honest one.
func TestLiarsNeitherSpeedUpNorHoldBack(t *testing.T) {
	rng := rand.New(rand.NewPCG(12, 1))
	for n := 1; n <= 10; n++ {
		s := firstN(n)
		q, f := s.Quorum(), s.Faulty()
		for c := q; c <= n; c++ {
			for liars := 0; liars <= f; liars++ {
				for range 200 {
					var honest []time.Duration
					clocks, own := make(map[common.Address]time.Duration), time.Duration(0)
					for i := range c {
						offset := time.Duration(rng.Int64N(2000)-1000) * time.Millisecond
						if i < c-liars {
							honest = append(honest, offset)
						} else {
							offset = time.Duration(rng.Int64() - 1<<62)
						}
						if i == 0 {
							own = offset
						} else {
							clocks[account(i)] = offset
						}
					}
					got := Combine([]block.Schedule{s}, account(0), own, clocks)
					require.True(t, got.Enough)
					require.LessOrEqual(t, got.Offset, slices.Max(honest), "n %d, %d clocks, %d liars", n, c, liars)
					require.GreaterOrEqual(t, got.Offset, slices.Min(honest), "n %d, %d clocks, %d liars", n, c, liars)
				}
			}
		}
	}
}

func enough(offset time.Duration) Consensus {
	return Consensus{Known: 4, Needed: 3, Enough: true, Offset: offset}
}

func TestTimeIsSetOnceAndThenFollows(t *testing.T) {
	var x Time
	require.Equal(t, 900*second, x.Advance(Input{Mono: second, Wall: 900 * second}), "unset: the own clock")
	require.Equal(t, 800*second, x.Advance(Input{Mono: 2 * second, Wall: 800 * second}), "which may go back")
	require.Equal(t, Unset, x.State())
	require.Equal(t, 103*second, x.Advance(Input{Mono: 3 * second, Wall: 801 * second, Clocks: enough(100 * second)}))
	require.Equal(t, Set, x.State())
	sets := x.Sets()

	require.Equal(t, 113*second+10*time.Millisecond, x.Advance(Input{Mono: 13 * second, Clocks: enough(86400 * second)}), "a jump of a day moves it by 1 ms per second")
	require.Equal(t, 123*second, x.Advance(Input{Mono: 23 * second, Clocks: enough(-86400 * second)}), "and back")
	require.Equal(t, 133*second, x.Advance(Input{Mono: 33 * second, Clocks: enough(100 * second)}))
	require.Equal(t, 143*second, x.Advance(Input{Mono: 43 * second, Wall: 7 * second, Waited: true, Alone: true}), "the others are gone: it runs on")
	require.Equal(t, sets, x.Sets())
}

func TestTimeAlone(t *testing.T) {
	var x Time
	require.Equal(t, 500*second, x.Advance(Input{Mono: second, Wall: 500 * second, Waited: true, Alone: true}))
	require.Equal(t, Alone, x.State())
	require.Equal(t, 510*second+10*time.Millisecond, x.Advance(Input{Mono: 11 * second, Wall: 9999 * second, Waited: true, Alone: true}), "a jump of the own clock is followed slowly")
	require.Equal(t, 112*second, x.Advance(Input{Mono: 12 * second, Wall: 512 * second, Waited: true, Alone: true, Clocks: enough(100 * second)}), "the others' clocks set it, also back")
	require.Equal(t, Set, x.State())
	require.Equal(t, 2, x.Sets())
}

// A machine that stood still follows at once what a quorum signed for, but not beyond the median: neither clocks alone
// nor certificates alone move it.
func TestTimeCatchesUpWithCertificates(t *testing.T) {
	var x Time
	x.Advance(Input{Mono: 0, Clocks: enough(100 * second)})
	hour := 3600 * second
	require.Equal(t, 101*second+time.Millisecond, x.Advance(Input{Mono: second, Clocks: enough(100*second + hour)}))
	require.Equal(t, 101*second+time.Millisecond, x.Advance(Input{Mono: second, Clocks: enough(100*second + hour), Certified: 90 * second}))
	require.Equal(t, 101*second+hour-2*second, x.Advance(Input{Mono: second, Clocks: enough(100*second + hour), Certified: 99*second + hour}))
	require.Equal(t, 101*second+hour, x.Advance(Input{Mono: second, Clocks: enough(100*second + hour), Certified: 99*second + 24*hour}), "not beyond the median")
}

// A reading that comes late, of an earlier instant, moves the time not at all, in no state.
func TestLateReadingMovesNoTime(t *testing.T) {
	for _, in := range []Input{{Clocks: enough(100 * second)}, {Wall: 111 * second, Waited: true, Alone: true}} {
		var x Time
		in.Mono = 10 * second
		now := x.Advance(in)
		x.Advance(Input{Mono: 11 * second, Wall: 112 * second, Clocks: in.Clocks, Waited: in.Waited, Alone: in.Alone})
		require.Equal(t, now+second, x.Advance(Input{Mono: 4 * second, Wall: 112 * second, Clocks: in.Clocks, Waited: in.Waited, Alone: in.Alone}))
		require.Equal(t, now+2*second, x.Advance(Input{Mono: 12 * second, Wall: 113 * second, Clocks: in.Clocks, Waited: in.Waited, Alone: in.Alone}))
	}
}

// Once set the time never goes back and is never more than 1 ms per second faster or slower than the monotonic clock,
// whatever the clocks say, as long as no certificate proves more.
func TestSetTimeIsSteady(t *testing.T) {
	rng := rand.New(rand.NewPCG(12, 2))
	for range 200 {
		var x Time
		mono := time.Duration(rng.Int64N(int64(second)))
		last := x.Advance(Input{Mono: mono, Clocks: enough(100 * second)})
		for range 500 {
			passed := time.Duration(rng.Int64N(int64(3 * second)))
			mono += passed
			in := Input{Mono: mono, Wall: time.Duration(rng.Int64N(1 << 60)), Clocks: enough(time.Duration(rng.Int64N(1 << 50))), Waited: rng.IntN(2) == 0, Alone: true}
			in.Clocks.Enough = rng.IntN(4) > 0
			now := x.Advance(in)
			require.LessOrEqual(t, now-last, passed+passed/1000)
			require.GreaterOrEqual(t, now-last, passed-passed/1000)
			last = now
		}
	}
}
