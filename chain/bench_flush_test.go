package chain

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/bornode/bornode/block"
	"github.com/stretchr/testify/require"
)

// BenchmarkFlush imports blocks of 200 transfers and writes the state after every so many of them, as flush_interval does
// at slots of 500 ms: 0 never, 20 every 10 s, 240 every two minutes. worst-ms is the longest block: the executor waits
// while the layers in memory are merged and written.
func BenchmarkFlush(b *testing.B) {
	x := makeBenchChain(b, 480, 200, 2000, 0)
	for _, every := range []int{0, 20, 120, 240} {
		b.Run(fmt.Sprint(every), func(b *testing.B) {
			var cpu, worst time.Duration
			for b.Loop() {
				cpu -= cpuTime(b)
				worst = max(worst, x.importFlushing(b, every))
				cpu += cpuTime(b)
			}
			b.ReportMetric(float64(worst.Milliseconds()), "worst-ms")
			b.ReportMetric(float64(cpu.Microseconds())/float64(b.N*x.txs), "cpu-us/tx")
		})
	}
}

// importFlushing imports block by block and returns the longest time that one took.
func (x *benchChain) importFlushing(b *testing.B, every int) (worst time.Duration) {
	b.Helper()
	n, err := openCrashNode(b.TempDir(), x.gen, DefaultConfig())
	require.NoError(b, err)
	for i, enc := range x.blocks {
		y, err := block.DecodeBlock(enc, 0)
		require.NoError(b, err)
		require.NoError(b, n.CheckBody(y, true))
		if every > 0 && (i+1)%every == 0 {
			n.sinceFlush.at = time.Time{}
		}
		began, run := time.Now(), []*block.Block{y}
		require.NoError(b, n.ImportFinal(context.Background(), run, finalOf(run)))
		worst = max(worst, time.Since(began))
	}
	require.NoError(b, n.close())
	return worst
}
