package sim

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Finality lags by a bounded number of message delays and slots, whatever the delay below rule 1's bound, also with a
// silent producer.
func TestFinalityLag(t *testing.T) {
	for _, delay := range []float64{0.1, 1, 3} {
		for _, silent := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v slots, silent %t", delay, silent), func(t *testing.T) {
				t.Parallel()
				s := four(uint64(10*delay)+1, 20*time.Minute)
				s.Params.TurnSlots = 12
				d := time.Duration(delay * float64(s.Params.Slot()))
				s.Latency = Latency{Base: d / 2, Jitter: d} // the delay with 50 % jitter
				if silent {
					s.Byzantine[1] = Adversary{Silent: true}
				}
				s.Calm = calmSlots * s.Params.Slot()
				r := Run(s)
				require.NoError(t, r.Violation)
				slices.Sort(r.Lags)
				p50, p99 := r.Lags[len(r.Lags)/2], r.Lags[len(r.Lags)*99/100]
				t.Logf("delay %.1f slots, silent %t: %d blocks final, lag p50 %s, p99 %s, max %s", delay, silent, len(r.Lags), p50, p99, r.Lags[len(r.Lags)-1])
				// Three delays of at most 1.5 d, execution, and where a turn changes hands while votes are under way,
				// the branch that loses: a few slots. A silent producer's turn is 12 empty slots.
				bound := 3*(3*d/2) + 4*s.Params.Slot()
				if silent {
					bound += 12 * s.Params.Slot()
				}
				require.Less(t, p50, bound)
				require.Less(t, p99, 4*bound)
			})
		}
	}
}

// A 2/2 split held past maxReversible finalises after the heal.
func TestSplitPastMaxReversible(t *testing.T) {
	for seed := uint64(1); seed <= 10; seed++ {
		s := four(seed, 20*time.Minute)
		s.Params.MaxReversible = 60
		s.Cuts = []Cut{{From: time.Minute, To: 8 * time.Minute, Groups: [][]int{{0, 1}, {2, 3}}}}
		s.Calm = calmSlots * s.Params.Slot()
		r := Run(s)
		require.NoError(t, r.Violation, "seed %d", seed)
		require.Greater(t, r.Final, uint64(200), "seed %d", seed)
	}
}
