package join

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func readings(steps ...reading) *sampled {
	s := &sampled{readings: []reading{{}}}
	for _, r := range steps {
		t := s.total()
		s.readings = append(s.readings, reading{t.at + r.at, t.joiner + r.joiner, t.server + r.server})
	}
	return s
}

func TestPeak(t *testing.T) {
	const ms = time.Millisecond
	j, v := readings(reading{100 * ms, 50 * ms, 10 * ms}, reading{100 * ms, 100 * ms, 0}).peak()
	require.InDelta(t, 75, j, 0.001, "a short run counts as a whole")
	require.InDelta(t, 5, v, 0.001)

	var steps []reading
	for i := range 30 { // idle, then two cores for a second, then one
		steps = append(steps, reading{100 * ms, []time.Duration{0, 200 * ms, 100 * ms}[i/10], 10 * ms})
	}
	j, v = readings(steps...).peak()
	require.InDelta(t, 200, j, 0.001)
	require.InDelta(t, 10, v, 0.001)

	x := readings(steps...).series()
	require.Len(t, x.Seconds, 30)
	require.InDelta(t, 3, x.Seconds[29], 0.001)
	require.InDelta(t, 200, x.Joiner[10], 0.001)
	at, joiner, server := x.coarse()
	require.Equal(t, x.Seconds, at)
	require.InDeltaSlice(t, x.Server, server, 0.001)
	for i := range 3 {
		require.InDelta(t, []float64{0, 200, 100}[i], joiner[10*i], 0.001)
	}
	for range 5 {
		steps = append(steps, steps...)
	}
	x = readings(steps...).series()
	at, joiner, server = x.coarse()
	require.Len(t, at, chartSamples)
	require.InDelta(t, x.Seconds[len(x.Seconds)-1], at[chartSamples-1], 0.001)
	require.InDelta(t, 10, server[7], 0.001)
	require.InDelta(t, 100, joiner[7], 30, "24 samples hold about as much of each kind")
}

func TestParseHistory(t *testing.T) {
	p, err := parseHistory("transfers:32")
	require.NoError(t, err)
	require.EqualValues(t, 32<<20, p.Bytes)
	for _, bad := range []string{"", "transfers", "transfers:", "transfers:0", "transfers:x", "songs:3"} {
		_, err := parseHistory(bad)
		require.Error(t, err, bad)
	}
}
