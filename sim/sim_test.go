package sim

import (
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func long() bool { return os.Getenv("BORNODE_LONG") != "" }

// sweep runs seeds side by side and stops at the first violation.
func sweep(t *testing.T, from, to uint64, scenario func(seed uint64) *Scenario) []*Result {
	t.Helper()
	results := make([]*Result, to-from)
	var next atomic.Uint64
	next.Store(from)
	var bad atomic.Bool
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for !bad.Load() {
				seed := next.Add(1) - 1
				if seed >= to {
					return
				}
				r := Run(scenario(seed))
				results[seed-from] = r
				if r.Violation != nil {
					bad.Store(true)
				}
			}
		})
	}
	wg.Wait()
	for _, r := range results {
		if r != nil && r.Violation != nil {
			t.Fatalf("%v\n%v\nreplay: make sim SEED=%d", r.Scenario, r.Violation, r.Scenario.Seed)
		}
	}
	return results
}

// Seeds of ten simulated minutes each, none violates anything; a third of them change schedules.
func TestSeeds(t *testing.T) {
	seeds := uint64(40)
	if long() {
		seeds = 1000
	}
	var blocks uint64
	changed, takeovers, evidence := 0, 0, 0
	for _, r := range sweep(t, 1, 1+seeds, func(seed uint64) *Scenario { return Random(seed, 10*time.Minute) }) {
		blocks += r.Blocks
		evidence += r.Evidence
		if r.Scenario.Changes != NoChange {
			changed++
			takeovers += r.Changes
		}
	}
	t.Logf("%d seeds of 10 minutes: %d blocks, %d with changes of schedule, %d take-overs, %d proofs of guilt", seeds, blocks, changed, takeovers, evidence)
	require.GreaterOrEqual(t, changed, int(seeds)/3-1)
	require.NotZero(t, takeovers)
	require.NotZero(t, evidence)
}

// The same seed gives the same run, event by event.
func TestReplay(t *testing.T) {
	for _, seed := range []uint64{3, 7, 12, 30} {
		a, b := Run(Random(seed, 8*time.Minute)), Run(Random(seed, 8*time.Minute))
		require.Equal(t, a.Trace, b.Trace, "seed %d", seed)
		require.Equal(t, a.Blocks, b.Blocks)
	}
}
