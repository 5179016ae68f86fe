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

func secondsOf(pairs ...int) map[common.Address]time.Duration {
	m := make(map[common.Address]time.Duration)
	for i := 0; i < len(pairs); i += 2 {
		m[account(pairs[i])] = time.Duration(pairs[i+1]) * second
	}
	return m
}

func TestCombineTold(t *testing.T) {
	one := func(s block.Schedule) []block.Schedule { return []block.Schedule{s} }
	joint := []block.Schedule{firstN(4), schedule(0, 1, 8, 9)}
	for _, c := range []struct {
		name      string
		schedules []block.Schedule
		told      map[common.Address]time.Duration
		silent    map[common.Address]time.Duration // heard, and tell none
		want      Told
	}{
		{"no schedule", nil, secondsOf(1, 5), nil, Told{}},
		{"a network of one has nobody to hear", one(firstN(1)), nil, nil, Told{}},
		{"nothing heard of two", one(firstN(2)), nil, nil, Told{Needed: 1, Awaited: true}},
		{"of two the other one", one(firstN(2)), secondsOf(1, 5), nil, Told{Known: 1, Needed: 1, Enough: true, Sure: true, Offset: 5 * second}},
		{"of two the other one starts too", one(firstN(2)), nil, secondsOf(1, 5), Told{Needed: 1}},
		{"of three both others", one(firstN(3)), secondsOf(1, 5, 2, 6), nil, Told{Known: 2, Needed: 2, Enough: true, Sure: true, Offset: 5 * second}},
		{"one of three others, one more may", one(firstN(4)), secondsOf(1, 5), secondsOf(2, 0), Told{Known: 1, Needed: 2, Awaited: true}},
		{"one of three others, no more may", one(firstN(4)), secondsOf(1, 5), secondsOf(2, 0, 3, 0), Told{Known: 1, Needed: 2}},
		{"two of three others: one that lies holds back", one(firstN(4)), secondsOf(1, 5, 2, -99), nil, Told{Known: 2, Needed: 2, Enough: true, Offset: -99 * second}},
		{"two of three others: none carries ahead", one(firstN(4)), secondsOf(1, 5, 2, 99), nil, Told{Known: 2, Needed: 2, Enough: true, Offset: 5 * second}},
		{"three of three others", one(firstN(4)), secondsOf(1, 5, 2, -99, 3, 6), nil, Told{Known: 3, Needed: 2, Enough: true, Sure: true, Offset: 5 * second}},
		{"own and strangers' times have no part", one(firstN(4)), secondsOf(0, 7, 8, 7, 1, 5), nil, Told{Known: 1, Needed: 2, Awaited: true}},
		{"four of five are enough and sure", one(firstN(5)), secondsOf(1, 5, 2, 5, 3, 5), nil, Told{Known: 3, Needed: 3, Enough: true, Sure: true, Offset: 5 * second}},
		{"the earlier of two schedules", joint, secondsOf(1, 5, 2, 5, 3, 5, 8, 3, 9, 3), nil, Told{Known: 3, Needed: 2, Enough: true, Sure: true, Offset: 3 * second}},
		{"one schedule lacks times", joint, secondsOf(1, 5, 2, 5, 3, 5), nil, Told{Known: 1, Needed: 2, Awaited: true}},
		{"one schedule cannot have them", joint, secondsOf(1, 5, 2, 5, 3, 5), secondsOf(8, 0, 9, 0), Told{Known: 1, Needed: 2}},
		{"a seat that an account has twice", one(schedule(0, 1, 1, 2)), secondsOf(1, 5), nil, Told{Known: 1, Needed: 2, Awaited: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			heard := make(map[common.Address]time.Duration)
			for _, m := range []map[common.Address]time.Duration{c.told, c.silent} {
				for a := range m {
					heard[a] = 77 * second
				}
			}
			got := CombineTold(c.schedules, account(0), c.told, heard)
			if !c.want.Enough {
				got.Offset = 0
			}
			require.Equal(t, c.want, got)
		})
	}
}

// Whatever up to f tell, a start is never ahead of the fastest honest producer, and not behind the slowest where the median is sure
// or all honest ones that run were heard.
func TestLiarsDoNotMoveAStart(t *testing.T) {
	rng := rand.New(rand.NewPCG(12, 3))
	for n := 2; n <= 10; n++ {
		s := firstN(n)
		q, f := s.Quorum(), s.Faulty()
		for told := q - 1; told < n; told++ {
			for liars := 0; liars <= f; liars++ {
				for range 200 {
					var honest []time.Duration
					times := make(map[common.Address]time.Duration)
					for i := range told {
						offset := time.Duration(rng.Int64N(2000)-1000) * time.Millisecond
						if i < told-liars {
							honest = append(honest, offset)
						} else {
							offset = time.Duration(rng.Int64() - 1<<62)
						}
						times[account(i+1)] = offset
					}
					got := CombineTold([]block.Schedule{s}, account(0), times, times)
					require.True(t, got.Enough)
					require.Equal(t, told > 2*f, got.Sure)
					require.LessOrEqual(t, got.Offset, slices.Max(honest), "n %d, %d times, %d liars", n, told, liars)
					if got.Sure || n-1-told+liars <= f {
						require.GreaterOrEqual(t, got.Offset, slices.Min(honest), "n %d, %d times, %d liars", n, told, liars)
					}
				}
			}
		}
	}
}

func tells(offset time.Duration) Told {
	return Told{Known: 3, Needed: 2, Enough: true, Sure: true, Offset: offset}
}

const hour = 3600 * second

// A start takes the time of running producers, whatever the clocks show, and then follows the clocks slowly as all do.
func TestAStartTakesTheToldTime(t *testing.T) {
	for _, jump := range []time.Duration{hour, -hour, 2 * second} {
		var x Time
		clocks := enough(100*second + jump)
		require.Equal(t, 101*second, x.Advance(Input{Mono: second, Wall: second + 100*second + jump, Clocks: clocks, Told: tells(100 * second)}))
		require.Equal(t, Set, x.State())
		require.InDelta(t, 111*second, x.Advance(Input{Mono: 11 * second, Clocks: clocks, Told: tells(100 * second)}), float64(10*time.Millisecond))
		require.Equal(t, 1, x.Sets())
	}
}

// Exactly 2f times may be held back by those that lie: they count at once only if the clocks agree, else once others were waited for.
func TestAStartWaitsForASureTime(t *testing.T) {
	few := tells(100 * second)
	few.Sure = false
	in := Input{Mono: second, Wall: 5 * second, MaxError: 100 * time.Millisecond, Clocks: enough(100*second + hour), Told: few}
	var x Time
	require.Equal(t, 5*second, x.Advance(in))
	require.Equal(t, Unset, x.State())
	in.Waited = true
	require.Equal(t, 101*second, x.Advance(in))

	in.Waited, in.Clocks = false, enough(100*second+100*time.Millisecond)
	x = Time{}
	require.Equal(t, 101*second, x.Advance(in), "clocks and times agree")
}

// The clocks set the time where too few producers run, and not before that is known or was waited for.
func TestAStartTakesTheClocksIfTooFewRun(t *testing.T) {
	in := Input{Mono: second, Wall: 5 * second, Clocks: enough(100 * second), Told: Told{Known: 1, Needed: 2, Awaited: true}}
	var x Time
	require.Equal(t, 5*second, x.Advance(in))
	require.Equal(t, Unset, x.State())
	in.Told.Awaited = false
	require.Equal(t, 101*second, x.Advance(in))
	x = Time{}
	in.Told.Awaited, in.Waited = true, true
	require.Equal(t, 101*second, x.Advance(in))
	require.Equal(t, Set, x.State())
}

// A time that was set by clocks is set right once by running producers, also back, and not for a difference that clocks may have.
func TestToldTimeSetsOneOfClocksRight(t *testing.T) {
	for _, off := range []time.Duration{hour, -hour} {
		var x Time
		x.Advance(Input{Mono: second, Clocks: enough(100*second + off)})
		few := tells(100 * second)
		few.Sure = false
		require.InDelta(t, 102*second+off, x.Advance(Input{Mono: 2 * second, Clocks: enough(100*second + off), Told: few}), float64(time.Millisecond))
		in := Input{Mono: 3 * second, MaxError: second, Clocks: enough(100*second + off), Told: tells(100 * second)}
		require.Equal(t, 103*second, x.Advance(in))
		require.Equal(t, 2, x.Sets())
		in.Mono, in.Told = 4*second, tells(50*second)
		require.InDelta(t, 104*second, x.Advance(in), float64(time.Millisecond), "once: it does not walk with them")
	}
	var x Time
	x.Advance(Input{Mono: second, Clocks: enough(100 * second)})
	for i, told := range []time.Duration{101 * second, 50 * second} {
		in := Input{Mono: time.Duration(i+2) * second, MaxError: second, Clocks: enough(100 * second), Told: tells(told)}
		require.Equal(t, in.Mono+100*second, x.Advance(in))
	}
	require.Equal(t, 1, x.Sets())
}

// A node that ran by its own clock takes the time of running producers as at its start.
func TestAloneTakesTheToldTime(t *testing.T) {
	var x Time
	x.Advance(Input{Mono: second, Wall: 500 * second, Waited: true, Alone: true})
	require.Equal(t, Alone, x.State())
	require.Equal(t, 102*second, x.Advance(Input{Mono: 2 * second, Wall: 501 * second, Waited: true, Alone: true, Clocks: enough(500 * second), Told: tells(100 * second)}))
	require.Equal(t, Set, x.State())
}

// A machine that stood still while the clocks are behind follows a certificate up to what running producers tell, and one whose start
// was held back by those that lie is not behind what a quorum has certified.
func TestCertifiedTimeUpToTheToldOne(t *testing.T) {
	var x Time
	behind := enough(100*second - hour)
	x.Advance(Input{Mono: 0, Clocks: enough(100 * second)})
	in := Input{Mono: second, Clocks: behind, Told: tells(700 * second), Certified: 650 * second}
	in.Told.Sure = false
	require.Equal(t, 650*second, x.Advance(in))
	in.Certified = 24 * hour
	require.Equal(t, 701*second, x.Advance(in), "not beyond it")

	x = Time{}
	low := tells(-90 * second)
	require.Equal(t, 95*second, x.Advance(Input{Mono: second, Clocks: enough(100*second + hour), Told: low, Certified: 95 * second}))
}

// A node tells its time once a quorum has certified a block of a time since its start, and not while it is behind a certificate.
func TestWhoTellsATime(t *testing.T) {
	var x Time
	require.Zero(t, x.Told())
	x.Advance(Input{Mono: second, Wall: 100 * second, Waited: true, Alone: true, Certified: 200 * second})
	require.Zero(t, x.Told(), "its own clock is no network's time")
	in := Input{Mono: 2 * second, MaxError: second, Clocks: enough(100 * second), Certified: 101 * second}
	x.Advance(in)
	require.Zero(t, x.Told(), "the network may go by another time")
	in.Mono, in.Certified = 3*second, 102*second
	x.Advance(in)
	require.Equal(t, 103*second, x.Told())
	in.Mono = 60 * second
	x.Advance(in)
	require.Equal(t, 160*second, x.Told(), "also while nothing is certified")
	in.Certified = 162 * second
	x.Advance(in)
	require.Zero(t, x.Told(), "it is behind what a quorum has certified")
	in.Mono = 61 * second
	x.Advance(in)
	require.Equal(t, 161*second, x.Told())

	x = Time{}
	in = Input{Mono: 2 * second, MaxError: second, Clocks: enough(hour), Certified: 101 * second}
	x.Advance(in)
	in.Mono, in.Certified = hour, hour+2*second
	x.Advance(in)
	require.Zero(t, x.Told(), "the network has come to where its start was: it is an hour ahead")
}

// Neither far values nor any order of what is told moves a time that running producers set, beyond 1 ms per second and certificates.
func TestToldTimesMoveNoSetTime(t *testing.T) {
	rng := rand.New(rand.NewPCG(12, 4))
	for range 100 {
		var x Time
		mono := time.Duration(rng.Int64N(int64(second)))
		last := x.Advance(Input{Mono: mono, Clocks: enough(100 * second), Told: tells(100 * second)})
		for range 300 {
			passed := time.Duration(rng.Int64N(int64(3 * second)))
			mono += passed
			in := Input{Mono: mono, MaxError: second, Wall: time.Duration(rng.Int64N(1 << 60)), Clocks: enough(time.Duration(rng.Int64N(1 << 50))), Waited: true, Alone: true}
			in.Told = Told{Enough: rng.IntN(2) == 0, Awaited: rng.IntN(2) == 0, Offset: time.Duration(rng.Int64() - 1<<62)}
			in.Told.Sure = in.Told.Enough
			in.Clocks.Enough = rng.IntN(4) > 0
			now := x.Advance(in)
			require.LessOrEqual(t, now-last, passed+passed/1000)
			require.GreaterOrEqual(t, now-last, passed-passed/1000)
			last = now
		}
	}
}
