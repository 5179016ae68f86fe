package bench

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/bench/figures"
)

// A small run of the real thing: both indexes are built, both answer every query, and with the same logs.
func TestLogs(t *testing.T) {
	results, err := Logs(t.Context(), 0.02, 1, func(string) {})
	require.NoError(t, err)
	require.Len(t, results, 2)
	for _, r := range results {
		require.Positive(t, r.Bytes, r.Program)
		require.True(t, r.Build.Measured(), r.Program)
		require.Greater(t, r.Logs, 1000, r.Program)
		require.Len(t, r.Queries, 5)
		for i, q := range r.Queries {
			require.Equal(t, results[0].Queries[i].Matches, q.Matches)
			require.Equal(t, i == 4, q.Matches == 0, q.Name)
		}
	}
	require.Greater(t, results[0].Queries[0].Matches, results[0].Queries[1].Matches)
	var b bytes.Buffer
	require.NoError(t, (&Report{Machine: figures.Machine(), Logs: results}).Print(&b))
	require.Contains(t, b.String(), "bytes per log")
	require.Contains(t, b.String(), results[1].Program)
}
