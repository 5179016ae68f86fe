package bench

import (
	"bytes"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/bench/figures"
	"github.com/bornode/bornode/bench/forge"
	"github.com/bornode/bornode/chain"
	"github.com/bornode/bornode/testnet/load"
)

// A small run of the real thing: every history can be made and imported in both modes and by go-ethereum, and certified
// mode recovers no sender.
func TestImports(t *testing.T) {
	results, err := Imports(t.Context(), 0.01, 1, func(string) {})
	require.NoError(t, err)
	require.Len(t, results, 9)
	for _, r := range results {
		require.Positive(t, r.BlocksPerSec.Median, r.History)
		require.Positive(t, r.AgainstGeth.Median, r.History)
		switch r.Mode {
		case "certified":
			require.Zero(t, r.Recovered, r.History)
		case "full":
			require.EqualValues(t, r.Transactions, r.Recovered, r.History)
		default:
			require.InDelta(t, 1, r.AgainstGeth.Median, 0)
		}
	}
	report := &Report{Machine: figures.Machine(), Imports: results, Network: []NetworkResult{summarizeNetworks(networkPlan{slot: 50 * time.Millisecond, rate: 10}, []networkRun{{provider: "tcp", load: &load.Result{Missing: 2, FinalTPS: 9}}, {load: &load.Result{Missing: 1, FinalTPS: 8}}, {load: &load.Result{FinalTPS: 7}}})}}
	var b bytes.Buffer
	require.NoError(t, report.Print(&b))
	require.Contains(t, b.String(), forge.Payloads)
	require.Contains(t, b.String(), "provider")
	require.Equal(t, 3, report.Network[0].Missing)
	require.InDelta(t, 8, report.Network[0].Final.Median, 0)
}

// At full size the state is written to disk within every import.
func TestHistoriesAreLongEnoughToFlush(t *testing.T) {
	c := chain.DefaultConfig()
	for _, p := range plans(1) {
		gas := uint64(p.Txs) * (21_000 + 40*uint64(p.Payload)) //nolint:gosec // not negative
		blocks := uint64(p.Blocks)                             //nolint:gosec // not negative
		require.True(t, blocks >= c.FlushBlocks || blocks*gas >= c.FlushGas, p.Kind)
	}
}

func TestQuantile(t *testing.T) {
	n := func(x uint64) *uint64 { return &x }
	f := func(x float64) *float64 { return &x }
	h := &dto.Histogram{SampleCount: n(10), Bucket: []*dto.Bucket{{UpperBound: f(1), CumulativeCount: n(5)}, {UpperBound: f(2), CumulativeCount: n(9)}, {UpperBound: f(4), CumulativeCount: n(10)}}}
	require.InDelta(t, 1, quantile(h, 0.5), 0)
	require.InDelta(t, 2, quantile(h, 0.9), 0)
	require.InDelta(t, 4, quantile(h, 0.99), 0)
}

// What a histogram held before the load does not count.
func TestSubtractHistogram(t *testing.T) {
	make := func(counts ...uint64) *dto.Histogram {
		h := &dto.Histogram{SampleCount: &counts[len(counts)-1]}
		for i := range counts {
			bound := float64(i + 1)
			h.Bucket = append(h.Bucket, &dto.Bucket{UpperBound: &bound, CumulativeCount: &counts[i]})
		}
		return h
	}
	gained := subtractHistogram(make(5, 6, 16), make(5, 5, 5))
	require.EqualValues(t, 11, gained.GetSampleCount())
	require.InDelta(t, 3, quantile(gained, 0.5), 0)
	require.InDelta(t, 2, quantile(gained, 0.01), 0)
}
