package sim

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/consensus/dpos"
)

// four is a quiet network of four producers.
func four(seed uint64, length time.Duration) *Scenario {
	return &Scenario{Seed: seed, Seats: 4, Nodes: 4, Length: length, Byzantine: map[int]Adversary{},
		Params:  block.Parameters{ChainID: 1, SlotMillis: 1000, TurnSlots: 2, EpochBlocks: 1 << 40, MaxReversible: 3600, MinProducers: 1},
		Latency: Latency{Base: 30 * time.Millisecond, Jitter: 60 * time.Millisecond}, Execution: 20 * time.Millisecond, Handshakes: 10 * time.Second}
}

// splits cuts the network in changing halves, again and again.
func splits(s *Scenario, every, held time.Duration) {
	halves := [][][]int{{{0, 1}, {2, 3}}, {{0, 2}, {1, 3}}, {{0, 3}, {1, 2}}, {{0}, {1, 2, 3}}}
	i := int(s.Seed) //nolint:gosec // small
	for at := every; at < s.Length-held; at += every {
		s.Cuts = append(s.Cuts, Cut{From: at, To: at + held, Groups: halves[i%len(halves)]})
		i++
	}
}

// blinks crashes every node in turn for a moment, so short that it comes back in the same slot.
func blinks(s *Scenario, every, held time.Duration) {
	node := 0
	for at := every; at < s.Length; at += every {
		s.Crashes = append(s.Crashes, Crash{From: at, To: at + held, Node: node % s.Nodes})
		node++
	}
}

// restores puts back old copies of one node's disk, again and again, while the network splits now and then.
func restores(s *Scenario) {
	splits(s, 17*time.Second, 4*time.Second)
	s.Latency.Jitter = 500 * time.Millisecond
	for at := 20 * time.Second; at < s.Length-30*time.Second; at += 20 * time.Second {
		s.Crashes = append(s.Crashes, Crash{Copied: at, From: at + 5*time.Second, To: at + 5300*time.Millisecond, Node: 1})
	}
}

// storm loses messages, and restarts honest nodes with their whole disks, until a moment; one Byzantine producer shows each
// vote to some nodes only, and nothing to anybody after the storm. A precommit that rests on such a vote bars its voter from
// all other branches: somebody must still hold the certificate.
func storm(s *Scenario) {
	r := rand.New(rand.NewPCG(s.Seed, 0x570))
	s.Calm = 150 * time.Second
	until := s.Length - s.Calm - 30*time.Second
	s.Loss, s.LossUntil = 40, until
	s.Latency = Latency{Base: 50 * time.Millisecond, Jitter: 900 * time.Millisecond}
	s.Byzantine[3] = Adversary{VoteAll: true, Selective: true, SilentFrom: until}
	crash := func(node int, at time.Duration) {
		s.Crashes = append(s.Crashes, Crash{From: at, To: at + 100*time.Millisecond, Node: node})
	}
	for node := range 3 {
		for at := time.Duration(5+r.IntN(20)) * time.Second; at < until; at += time.Duration(14+r.IntN(16)) * time.Second {
			crash(node, at)
		}
		crash(node, until+time.Duration(r.IntN(10_000))*time.Millisecond)
	}
}

// Each planted bug is found by a checker.
func TestPlantedBugs(t *testing.T) {
	for _, c := range []struct {
		name    string
		bugs    dpos.Bugs
		checker string
		change  func(*Scenario)
	}{
		{"two prevotes in a slot", dpos.Bugs{SkipSlotRule: true}, "double sign", func(s *Scenario) {
			s.Byzantine[0] = Adversary{Equivocate: true, VoteAll: true}
			splits(s, 20*time.Second, 5*time.Second)
		}},
		{"link rule ignored", dpos.Bugs{SkipLinkRule: true}, "double sign", func(s *Scenario) {
			s.Byzantine[0] = Adversary{VoteAll: true, Withhold: 6 * time.Second, Equivocate: true}
			s.Latency.Jitter = 900 * time.Millisecond
			splits(s, 9*time.Second, 4*time.Second)
		}},
		{"precommit off the newest prevote", dpos.Bugs{SkipNewestPrevote: true}, "votes", func(s *Scenario) {
			s.Byzantine[0] = Adversary{VoteAll: true, Withhold: 6 * time.Second, Equivocate: true}
			splits(s, 9*time.Second, 4*time.Second)
		}},
		{"precommit without a QC", dpos.Bugs{PrecommitWithoutQC: true}, "votes", func(*Scenario) {}},
		{"new schedule alone counts", dpos.Bugs{SingleQuorum: true}, "votes", func(s *Scenario) {
			s.Changes, s.Nodes, s.Params.EpochBlocks = AllSeats, 8, 30
			s.Crashes = []Crash{{From: 45 * time.Second, To: s.Length + 1, Node: 0}, {From: 46 * time.Second, To: s.Length + 1, Node: 1}}
			s.Latency.Jitter = 400 * time.Millisecond
		}},
		{"q-1 is a quorum", dpos.Bugs{QuorumMinusOne: true, SkipFirstSync: true}, "certificates", func(s *Scenario) { splits(s, 20*time.Second, 10*time.Second) }},
		// The line and the others' answers alone cover what a lost log forgets in so short a time.
		{"vote log forgotten", dpos.Bugs{ForgetWAL: true, SkipFirstSync: true}, "double sign", func(s *Scenario) {
			s.Byzantine[0] = Adversary{Equivocate: true, VoteAll: true}
			splits(s, 20*time.Second, 5*time.Second)
			blinks(s, 1300*time.Millisecond, 50*time.Millisecond)
		}},
		{"prevote before execution", dpos.Bugs{VoteBeforeExecute: true}, "validity", func(*Scenario) {}},
		{"a slot produced twice", dpos.Bugs{ProduceTwice: true, SkipFirstSync: true}, "double sign", func(s *Scenario) { s.Fragile = 10 }},
		{"signing before it heard anybody", dpos.Bugs{SkipFirstSync: true}, "double sign", func(s *Scenario) { restores(s) }},
		{"the QC of a precommit in memory only", dpos.Bugs{VolatileQC: true}, "liveness", storm},
		{"stall ignored", dpos.Bugs{IgnoreStall: true}, "production", func(s *Scenario) {
			s.Params.MaxReversible = 20
			s.Cuts = []Cut{{From: 10 * time.Second, To: s.Length, Groups: [][]int{{0, 1}, {2, 3}}}}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			seen := map[string]int{}
			for seed := uint64(1); seed <= 60; seed++ {
				s := four(seed, 6*time.Minute)
				c.change(s)
				require.NoError(t, Run(s).Violation, "without the bug, seed %d", seed)
				s.Bugs = c.bugs
				var v *Violation
				if err := Run(s).Violation; errors.As(err, &v) {
					seen[v.Checker]++
					if v.Checker == c.checker {
						t.Logf("seed %d: %v", seed, v)
						return
					}
				}
			}
			t.Fatalf("the checker %q found nothing; others: %v", c.checker, seen)
		})
	}
}

// Above f nothing protects: the checker of agreement must be able to fail.
func TestAgreementFailsAboveF(t *testing.T) {
	for seed := uint64(1); seed <= 40; seed++ {
		s := four(seed, 3*time.Minute)
		s.Bugs.SkipFirstSync = true // the mute answer no start
		s.Byzantine[2] = Adversary{VoteAll: true, Mute: true}
		s.Byzantine[3] = Adversary{VoteAll: true, Mute: true}
		s.Cuts = []Cut{{From: 10 * time.Second, To: 2 * time.Minute, Groups: [][]int{{0}, {1}}}} // the traitors see both
		var v *Violation
		if errors.As(Run(s).Violation, &v) && v.Checker == "agreement" {
			t.Logf("seed %d: %v", seed, v)
			return
		}
	}
	t.Fatal("two of four traitors never split the chain: the checker is blind")
}

// Without the calm at the end the checker of liveness must be able to fail.
func TestLivenessFailsWithoutQuorum(t *testing.T) {
	s := four(1, 4*time.Minute)
	s.Calm = time.Minute
	s.Crashes = []Crash{{From: 20 * time.Second, To: s.Length + 1, Node: 0}, {From: 20 * time.Second, To: s.Length + 1, Node: 1}}
	var v *Violation
	require.ErrorAs(t, Run(s).Violation, &v)
	require.Equal(t, "liveness", v.Checker)
}
