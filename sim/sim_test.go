package sim

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// seedsOf chooses how many seeds run: short, a third of the storms' with BORNODE_LONG=1, or all with BORNODE_STORMS=1.
func seedsOf(short, storm uint64) uint64 {
	switch {
	case os.Getenv("BORNODE_STORMS") != "":
		return storm
	case os.Getenv("BORNODE_LONG") != "":
		return storm / 3
	}
	return short
}

// Seeds of ten simulated minutes each, none violates anything; a third of them change schedules.
func TestSeeds(t *testing.T) {
	seeds := seedsOf(40, 1000)
	var blocks uint64
	changed, takeovers, evidence := 0, 0, 0
	results, bad := Sweep(t.Context(), 1, seeds, func(seed uint64) *Scenario { return Random(seed, 10*time.Minute) })
	if bad != nil {
		t.Fatalf("%v\n%v\nreplay: make sim SEED=%d", bad.Scenario, bad.Violation, bad.Scenario.Seed)
	}
	for _, r := range results {
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
