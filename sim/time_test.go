package sim

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/block"
)

// jumpedClocks is a run in which the clocks of all machines jump at once and stay so, and all nodes are restarted, one after the
// other. Of three seeds in a row the second has a producer that lies about its clock and its time, where there may be one, and
// the third has changes of the schedule.
func jumpedClocks(seats int, jump time.Duration, seed uint64) *Scenario {
	s := &Scenario{Seed: seed, Seats: seats, Nodes: seats, Execution: 20 * time.Millisecond, Skew: 20 * time.Millisecond, Byzantine: make(map[int]Adversary)}
	s.Params = block.Parameters{ChainID: 1, SlotMillis: 500, TurnSlots: 1 + seed%6, EpochBlocks: 1 << 40, MaxReversible: 3600, MinProducers: 1}
	s.Latency = Latency{Base: 5 * time.Millisecond, Jitter: 20 * time.Millisecond}
	s.Handshakes = 10 * s.Params.Slot()
	s.Calm = calmSlots * s.Params.Slot()
	switch {
	case seed%3 == 1 && s.faulty() > 0:
		s.Byzantine[seats-1], s.LyingClocks = Adversary{}, true
	case seed%3 == 2:
		s.Changes, s.Nodes, s.Params.EpochBlocks = SeveralSeats, 2*seats, 40
	}
	at := 30 * time.Second
	s.Clocks = []ClockFault{{From: at, To: 24 * time.Hour, Jump: jump}}
	for i := range s.Nodes {
		s.Clocks[0].Nodes = append(s.Clocks[0].Nodes, i)
		if _, lies := s.Byzantine[i]; !lies {
			at += 40 * time.Second
			s.Crashes = append(s.Crashes, Crash{From: at, To: at + 3*time.Second, Node: i})
		}
	}
	s.Length = at + s.Calm + 30*time.Second
	return s
}

// Restarts while the clocks of all machines are off leave the network's time as it is: nothing is signed of a far slot, and
// finality goes on.
func TestRestartsWhileClocksAreOff(t *testing.T) {
	for _, seats := range []int{2, 3, 4, 7} {
		for _, jump := range []time.Duration{time.Hour, -time.Hour} {
			for seed := range seedsOf(3, 60) {
				t.Run(fmt.Sprintf("%d producers, %v, seed %d", seats, jump, seed), func(t *testing.T) {
					t.Parallel()
					r := Run(jumpedClocks(seats, jump, seed))
					require.NoError(t, r.Violation)
					if r.Scenario.Changes != NoChange {
						require.NotZero(t, r.Changes)
					}
				})
			}
		}
	}
}
