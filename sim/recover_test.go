package sim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// lostQuorum is a network of 21 of which 8 are lost at 60 s; at 120 s the 13 others and 8 newcomers are recovered, and at 170 s the
// lost ones come back with their old disks.
func lostQuorum(seed uint64) *Scenario {
	s := four(seed, 320*time.Second)
	s.Seats, s.Nodes, s.Calm = 21, 29, 100*time.Second
	s.Params.TurnSlots = 2
	s.Recovery = &Recovery{At: 120 * time.Second, Back: 170 * time.Second}
	for i := range 8 {
		lost := int(seed+uint64(3*i)) % 21 //nolint:gosec // small; 3i mod 21 repeats after 7
		if i == 7 {
			lost = int(seed+1) % 21 //nolint:gosec // small
		}
		s.Recovery.Lost, s.Recovery.New = append(s.Recovery.Lost, lost), append(s.Recovery.New, 21+i)
		s.Crashes = append(s.Crashes, Crash{From: 60 * time.Second, To: s.Length, Node: lost})
	}
	return s
}

// Rule 13 in the simulator: nothing final is undone, nobody signs twice, and finality is back for all who go by the recovery.
func TestRecoverEightOfTwentyOne(t *testing.T) {
	runs := uint64(12)
	if testing.Short() {
		runs = 2
	}
	for seed := range runs {
		r := Run(lostQuorum(seed))
		require.NoError(t, r.Violation, "seed %d", seed)
		require.Greater(t, r.Final, uint64(150), "seed %d", seed)
	}
}

// Without the recovery the same network stays without finality.
func TestRecoveryIsNeeded(t *testing.T) {
	s := lostQuorum(1)
	s.Recovery = nil
	var v *Violation
	require.ErrorAs(t, Run(s).Violation, &v)
	require.Equal(t, "liveness", v.Checker)
}
