package pubsub

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReportKeepsVariantsApart(t *testing.T) {
	o := &Options{Rounds: 3, Seconds: 1, Sizes: []int{100}, Rate: 5}
	require.NoError(t, o.Validate())
	all := make(sums)
	for i, v := range variants {
		r := &run{o: o, all: all, variant: v}
		for _, x := range []float64{1, 3, 2} {
			r.note(100, kafkaLoads[1], whatProduce, x*float64(10*(i+1)))
			r.note(100, kafkaLoads[1], whatProduceCPU, x*float64(3-i))
			r.note(0, through{}, whatTail, x+float64(i))
		}
	}
	got := report(o, all)
	require.Len(t, got.Loads, 2*len(variants))
	require.False(t, got.Loads[0].Produce.Measured(), "acks 1 was not run")
	require.InDelta(t, 40, got.Loads[len(variants)+1].Produce.Median, 0)
	require.InDelta(t, 4, got.Delays[2].P99.Median, 0)
	require.InDelta(t, 50, got.Costs[1].Produce.Min, 1e-9, "3x against 2x in every round")
	require.InDelta(t, 50, got.Costs[1].Produce.Max, 1e-9)
	require.False(t, got.Costs[1].Fetch.Measured())
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
	good := Options{Rounds: 1, Seconds: 1, Sizes: []int{100}, Rate: 1}
	for _, change := range []func(*Options){func(o *Options) { o.Rounds = 0 }, func(o *Options) { o.Seconds = maxSeconds + 1 }, func(o *Options) { o.Sizes = nil },
		func(o *Options) { o.Sizes = []int{7} }, func(o *Options) { o.Rate = 0 }, func(o *Options) { o.Takeovers = -1 }} {
		o := good
		change(&o)
		require.Error(t, o.Validate())
	}
}
