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
		r := &run{o: o, all: all, variant: v.name}
		for _, x := range []float64{1, 3, 2} {
			r.note(100, "all", "produce", x*float64(10*(i+1)))
			r.note(0, "", "p99", x+float64(i))
		}
	}
	got := report(o, all)
	require.Len(t, got.Loads, 2*len(variants))
	require.False(t, got.Loads[0].Produce.Measured(), "acks 1 was not run")
	require.InDelta(t, 40, got.Loads[len(variants)+1].Produce.Median, 0)
	require.InDelta(t, 4, got.Delays[2].P99.Median, 0)
	var b bytes.Buffer
	require.NoError(t, got.Print(&b))
	require.Contains(t, b.String(), "quiet, tcp")
}

func TestOptionsThatCannotWorkAreNamed(t *testing.T) {
	good := Options{Rounds: 1, Seconds: 1, Sizes: []int{100}, Rate: 1}
	for _, change := range []func(*Options){func(o *Options) { o.Rounds = 0 }, func(o *Options) { o.Seconds = maxSeconds + 1 }, func(o *Options) { o.Sizes = nil },
		func(o *Options) { o.Sizes = []int{7} }, func(o *Options) { o.Rate = 0 }} {
		o := good
		change(&o)
		require.Error(t, o.Validate())
	}
}
