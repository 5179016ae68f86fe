package pubsub

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReportKeepsVariantsApart(t *testing.T) {
	o := &Options{Rounds: 3, Seconds: 1, Sizes: []int{1 << 10}, Rates: []int{20_000}}
	require.NoError(t, o.Validate())
	all := make(sums)
	for i, v := range variants {
		r := &run{o: o, all: all, variant: v}
		for _, x := range []float64{1, 3, 2} {
			r.note(1<<10, allLoad, whatProduce, x*float64(10*(i+1)))
			r.note(1<<10, allLoad, whatProduceCPU, x*float64(3-i))
			r.note(20_000, through{}, whatTail, x+float64(i))
			r.note(20_000, through{}, whatRateCPU, x*float64(4-i))
		}
	}
	got := report(o, all)
	require.Len(t, got.Loads, 2*len(variants)+2)
	require.False(t, got.Loads[0].Produce.Measured(), "acks 1 was not run")
	require.InDelta(t, 40, got.Loads[2+len(variants)+1].Produce.Median, 0)
	require.InDelta(t, 4, got.Delays[2].P99.Median, 0)
	require.InDelta(t, 50, got.Costs[2].Produce.Min, 1e-9, "3x against 2x in every round")
	require.InDelta(t, 50, got.Costs[2].Produce.Max, 1e-9)
	require.False(t, got.Costs[2].Fetch.Measured())
	require.InDelta(t, 100*(4.0/3-1), got.Delays[0].More.Min, 1e-9, "at one rate, round by round")
	of := func(part string) Aim {
		for _, x := range got.Aims {
			if strings.Contains(x.What, part) {
				return x
			}
		}
		require.FailNow(t, "no aim has "+part)
		return Aim{}
	}
	require.InDelta(t, 50, of("produced").Got.Median, 1e-9)
	require.InDelta(t, 100*3*1024/got.Hash.Median/4, of("SHA-256").Got.Median, 1e-6, "3 replicas, 4 us without evidence")
	require.InDelta(t, -1, of("less p99").Got.Median, 1e-9)
	require.InDelta(t, 3, of("20000 records/s, ms").Got.Max, 1e-9)
	require.InDelta(t, 60*1024/1e6, of("over shm").Got.Median, 1e-9)
	for _, x := range got.Aims {
		require.NotContains(t, x.What, "fetched", "it was not measured")
	}
	var b bytes.Buffer
	require.NoError(t, got.Print(&b))
	require.Contains(t, b.String(), "off, tcp")
}

func TestRoundsAreComparedOneByOne(t *testing.T) {
	require.Equal(t, []float64{11, 22}, plus(plus(nil, []float64{1, 2}), []float64{10, 20}))
	require.InDelta(t, 10, more([]float64{11, 220}, []float64{10, 200}).Median, 1e-9)
	require.InDelta(t, 10, more([]float64{5, 11}, []float64{0, 10}).Max, 1e-9)
	require.False(t, more(nil, []float64{1}).Measured())
}

func TestDecisionsAreThoseOfTheList(t *testing.T) {
	for _, n := range listSizes {
		cached, first, err := decide(n)
		require.NoError(t, err)
		require.Positive(t, cached)
		require.Positive(t, first)
	}
}

func TestOptionsThatCannotWorkAreNamed(t *testing.T) {
	good := Options{Rounds: 1, Seconds: 1, Sizes: []int{100}, Rates: []int{1}}
	for _, change := range []func(*Options){func(o *Options) { o.Rounds = 0 }, func(o *Options) { o.Seconds = maxSeconds + 1 }, func(o *Options) { o.Sizes = nil },
		func(o *Options) { o.Sizes = []int{7} }, func(o *Options) { o.Rates = nil }, func(o *Options) { o.Rates = []int{0} }, func(o *Options) { o.Within = -1 }, func(o *Options) { o.Takeovers = -1 }} {
		o := good
		change(&o)
		require.Error(t, o.Validate())
	}
}
