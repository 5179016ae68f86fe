package bench

import (
	"bytes"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/bench/figures"
	"github.com/bornode/bornode/bench/forge"
	"github.com/bornode/bornode/testnet/load"
)

// A small run of the real thing: every history can be made and imported in both modes, and certified mode recovers no
// sender.
func TestImports(t *testing.T) {
	results, err := Imports(t.Context(), 0.01, 1, func(string) {})
	require.NoError(t, err)
	require.Len(t, results, 6)
	for _, r := range results {
		require.Positive(t, r.BlocksPerSec.Median, r.History)
		if r.Mode == "certified" {
			require.Zero(t, r.Recovered, r.History)
		} else {
			require.EqualValues(t, r.Transactions, r.Recovered, r.History)
		}
	}
	report := &Report{Machine: figures.Machine(), Imports: results, Network: []NetworkResult{{Provider: "tcp", SlotMillis: 50, Rate: 10, Load: &load.Result{}}}}
	var b bytes.Buffer
	require.NoError(t, report.Print(&b))
	require.Contains(t, b.String(), forge.Payloads)
	require.Contains(t, b.String(), "provider")
}

func TestQuantile(t *testing.T) {
	n := func(x uint64) *uint64 { return &x }
	f := func(x float64) *float64 { return &x }
	h := &dto.Histogram{SampleCount: n(10), Bucket: []*dto.Bucket{{UpperBound: f(1), CumulativeCount: n(5)}, {UpperBound: f(2), CumulativeCount: n(9)}, {UpperBound: f(4), CumulativeCount: n(10)}}}
	require.InDelta(t, 1, quantile(h, 0.5), 0)
	require.InDelta(t, 2, quantile(h, 0.9), 0)
	require.InDelta(t, 4, quantile(h, 0.99), 0)
}
