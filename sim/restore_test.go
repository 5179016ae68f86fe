package sim

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/consensus/dpos"
)

// restored plays what DESIGN §7 rule 11 is for: nodes come back from copies of their disks that are some seconds older than
// their last signature, while the network splits now and then.
type restored struct {
	name     string
	seats    int
	nodes    int  // that are restored, at the same time
	all      bool // the others restart with their own disks at that time
	liar     *Adversary
	cutOff   bool // one honest node cannot hear the first restored one for 12 slots
	isForked bool // restored nodes may undo what only they knew as final
	isStuck  bool // more than f faults: finality may stand
}

func (r restored) scenario(seed uint64) *Scenario {
	rng := rand.New(rand.NewPCG(seed, 0xc0))
	s := four(seed, 215*time.Second)
	if r.seats > 0 {
		s.Seats, s.Nodes = r.seats, r.seats
	}
	s.Params.TurnSlots = []uint64{1, 2, 3}[rng.IntN(3)]
	s.Latency.Jitter = time.Duration(100+rng.IntN(700)) * time.Millisecond
	if !r.isStuck {
		s.Calm = 125 * time.Second
	}
	at := 70 * time.Second
	for from := 10 * time.Second; from < at-10*time.Second; from += 9 * time.Second {
		a, b := []int{}, []int{}
		for i := range s.Nodes {
			if rng.IntN(2) == 0 {
				a = append(a, i)
			} else {
				b = append(b, i)
			}
		}
		s.Cuts = append(s.Cuts, Cut{From: from, To: from + 4*time.Second, Groups: [][]int{a, b}})
	}
	if r.liar != nil {
		s.Byzantine[s.Nodes-1] = *r.liar
	}
	for i := range r.nodes {
		// The last signatures have arrived: what is in flight when a copy is made nobody can tell.
		s.Crashes = append(s.Crashes, Crash{Node: i, Copied: at - time.Duration(2+rng.IntN(40))*time.Second, From: at, To: at + time.Duration(1+rng.IntN(8))*time.Second})
	}
	if r.all {
		for i := r.nodes; i < s.Nodes; i++ {
			if s.Byzantine[i] == (Adversary{}) {
				s.Crashes = append(s.Crashes, Crash{Node: i, From: at, To: at + time.Duration(1+rng.IntN(8))*time.Second})
			}
		}
	}
	if r.cutOff {
		s.Cuts = append(s.Cuts, Cut{From: at, To: at + 12*time.Second, Groups: [][]int{{0}, {1}}})
	}
	return s
}

var restores11 = []restored{
	{name: "one restored", nodes: 1},
	{name: "one restored, of seven", seats: 7, nodes: 1},
	{name: "one restored, of two", seats: 2, nodes: 1},
	{name: "one restored, of three", seats: 3, nodes: 1},
	{name: "one restored, one Byzantine that answers with lies", nodes: 1, liar: &Adversary{VoteAll: true, Equivocate: true, Lies: true}},
	{name: "the same, and one honest cut off", nodes: 1, liar: &Adversary{VoteAll: true, Lies: true}, cutOff: true},
	{name: "one restored, one Byzantine that answers nothing", nodes: 1, liar: &Adversary{VoteAll: true, Mute: true}, isStuck: true},
	{name: "one restored, of seven, one silent", seats: 7, nodes: 1, liar: &Adversary{VoteAll: true, Mute: true}},
	{name: "two restored", nodes: 2},
	{name: "all but one restored", nodes: 3, isForked: true},
	{name: "all restarted", all: true},
	{name: "all restarted, one silent", all: true, liar: &Adversary{Silent: true, Mute: true}},
	{name: "all restarted, one that lies", all: true, liar: &Adversary{VoteAll: true, Lies: true}},
}

// No producer that comes back from an older copy signs against what it signed and others hold, and finality goes on.
func TestRestoredProducers(t *testing.T) {
	seeds := seedsOf(6, 400)
	for _, r := range restores11 {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			for seed := uint64(1); seed <= seeds; seed++ {
				v := Run(r.scenario(seed)).Violation
				var x *Violation
				if errors.As(v, &x) && r.isForked && x.Checker == "agreement" {
					continue // what only restored nodes knew is lost
				}
				require.NoError(t, v, "seed %d", seed)
			}
		})
	}
}

// stormyRestore puts back older copies of one disk after the other in a network that loses messages before and after, with a
// Byzantine producer that shows each vote to some only, and one honest node that the restored one cannot hear.
func stormyRestore(seed uint64) *Scenario {
	r := rand.New(rand.NewPCG(seed, 0x571))
	s := four(seed, 5*time.Minute)
	s.Calm = 120 * time.Second
	until := s.Length - s.Calm - 20*time.Second
	s.Loss, s.LossUntil = 40, until
	s.Params.TurnSlots = 1
	s.Latency = Latency{Base: 50 * time.Millisecond, Jitter: 900 * time.Millisecond}
	s.Byzantine[3] = Adversary{VoteAll: true, Selective: true, Lies: true}
	for at := 20 * time.Second; at < until; at += 12 * time.Second {
		node := r.IntN(3)
		s.Crashes = append(s.Crashes, Crash{Node: node, Copied: at - time.Duration(500+r.IntN(6000))*time.Millisecond, From: at, To: at + 200*time.Millisecond})
		s.Cuts = append(s.Cuts, Cut{From: at - 4*time.Second, To: at + 6*time.Second, Groups: [][]int{{node}, {(node + 1 + r.IntN(2)) % 3}}})
	}
	return s
}

// Each part of rule 11 is missed by a checker.
func TestRestoredProducersWithoutARule(t *testing.T) {
	for _, c := range []struct {
		name    string
		bugs    dpos.Bugs
		in      []string
		checker string
		from    uint64 // first of 60 seeds; 0 is 1
	}{
		{"no wait at all", dpos.Bugs{SkipFirstSync: true}, []string{"one restored"}, "double sign", 0},
		{"no line", dpos.Bugs{SkipLine: true}, nil, "double sign", 900},
		// The line leaves told votes next to nothing to do: without it they are missed at once.
		{"no told votes", dpos.Bugs{SkipLine: true, IgnoreTold: true}, nil, "double sign", 0},
		{"no second way back", dpos.Bugs{FloorOnly: true}, []string{"all but one restored", "one restored, of two"}, "liveness", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			scenarios := []func(uint64) *Scenario{stormyRestore}
			if c.in != nil {
				scenarios = nil
				for _, x := range restores11 {
					if slices.Contains(c.in, x.name) {
						scenarios = append(scenarios, x.scenario)
					}
				}
			}
			seen := map[string]int{}
			for _, scenario := range scenarios {
				for seed := max(c.from, 1); seed < c.from+60; seed++ {
					require.NoError(t, Run(scenario(seed)).Violation, "without the bug, seed %d", seed)
					s := scenario(seed)
					s.Bugs = c.bugs
					var v *Violation
					if errors.As(Run(s).Violation, &v) {
						if seen[v.Checker]++; v.Checker == c.checker {
							t.Logf("seed %d: %v", seed, v)
							return
						}
					}
				}
			}
			t.Fatalf("the checker %q found nothing; others: %v", c.checker, seen)
		})
	}
}
