package model

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func long() bool { return os.Getenv("BORNODE_LONG") != "" }

// With all rules kept no two conflicting blocks become final. The counts are part of the test: a search that became
// blind to something would explore fewer states.
func TestAgreement(t *testing.T) {
	type row struct {
		name          string
		o             Options
		trees, states int
	}
	rows := []row{
		{"3 blocks", Options{Blocks: 3}, 23, 15309},
		{"3 blocks, every record", Options{Blocks: 3, AllRecords: true}, 52, 26651},
	}
	if long() {
		rows = append(rows,
			row{"4 blocks, every record", Options{AllRecords: true}, 1420, 9087381},
			row{"change is announced, 1 seat", Options{Change: Announcing}, 81, 3516332},
			row{"change is announced, 3 seats", Options{Change: Announcing, Replaced: 3}, 81, 5379483},
			row{"change is under way, 1 seat", Options{Change: Changing}, 81, 9522441},
		)
	} else {
		rows = append(rows, row{"4 blocks", Options{}, 268, 2799678})
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			res, err := Search(r.o)
			require.NoError(t, err)
			t.Logf("%d trees, %d states", res.Trees, res.States)
			require.Empty(t, res.Violation)
			require.Equal(t, r.trees, res.Trees)
			require.Equal(t, r.states, res.States)
		})
	}
}

// Each rule is needed: without it a run ends in disagreement.
func TestCounterexamples(t *testing.T) {
	for name, tc := range map[string]struct {
		o      Options
		blocks int // of the smallest tree that shows it
	}{
		"one prevote per slot":                  {Options{Drop: Drop{SlotRule: true}}, 2},
		"link rule":                             {Options{Drop: Drop{LinkPrevote: true, LinkPrecommit: true}}, 2},
		"link rule, precommit bars prevote":     {Options{Drop: Drop{LinkPrevote: true}}, 2},
		"link rule, prevote bars precommit":     {Options{Drop: Drop{LinkPrecommit: true}}, 4},
		"joint quorum, new one alone":           {Options{Change: Announcing, Drop: Drop{OldQuorum: true}}, 4},
		"joint quorum, old one alone":           {Options{Change: Changing, Drop: Drop{NewQuorum: true}}, 4},
		"joint quorum, new one alone, 3 seats":  {Options{Change: Announcing, Replaced: 3, Drop: Drop{OldQuorum: true}}, 4},
		"quorum":                                {Options{Drop: Drop{OneVote: true}}, 2},
		"no more than f Byzantine":              {Options{Byzantine: 2}, 2},
		"slot rule, precommits in rising slots": {Options{Drop: Drop{SlotRule: true}, RisingPrecommits: true}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			res, err := Search(tc.o)
			require.NoError(t, err)
			require.NotEmpty(t, res.Violation)
			t.Logf("%d states\n%s", res.States, strings.Join(res.Violation, "\n"))
			require.Equal(t, tc.blocks, res.tree.n)
			require.Contains(t, res.Violation[len(res.Violation)-1], "conflict and are both final")
			judge(t, tc.o.filled(), res)
		})
	}
}

// judge verifies a counter-example by a count of its own.
func judge(t *testing.T, o Options, res Result) {
	prevotes, precommits := make(map[int][]int), make(map[int][]int)
	for _, p := range res.steps {
		list := prevotes
		if p.precommit {
			list = precommits
		}
		require.NotContains(t, list[p.block], p.by)
		list[p.block] = append(list[p.block], p.by)
	}
	old, new := o.schedules()
	quorate := func(b int, honest []int) bool {
		needOld, needNew := o.counting(res.tree, b)
		for need, seats := range map[*bool][producers]int{&needOld: old, &needNew: new} {
			count := 0
			for i, id := range seats {
				if i >= producers-o.Byzantine || slices.Contains(honest, id) {
					count++
				}
			}
			if *need && count < o.need()+o.Byzantine {
				return false
			}
		}
		return true
	}
	var final []int
	for b := 1; b <= res.tree.n; b++ {
		if quorate(b, prevotes[b]) && quorate(b, precommits[b]) {
			final = append(final, b)
		}
	}
	for _, b := range final {
		for _, d := range final {
			if res.tree.v[b].conflicts&bit(d) != 0 {
				return
			}
		}
	}
	t.Fatalf("no two of %v conflict", final)
}

// Taking producers as interchangeable loses nothing: a search that keeps their names sees as many states up to renaming.
func TestSymmetry(t *testing.T) {
	for _, o := range []Options{{Blocks: 3}, {Blocks: 3, Drop: Drop{LinkPrecommit: true}}} {
		o = o.filled()
		s := newSearcher(o)
		o.trees(3, func(tr *tree) bool {
			if !tr.matters(o.Change) {
				return true
			}
			s.run(tr)
			require.Equal(t, plain(s), len(s.queue), "%v", o.describe(tr))
			return true
		})
	}
}

// plain walks the states of the searcher's tree with names kept, and counts them without.
func plain(s *searcher) int {
	seen, orbits := make(map[[maxHonest]mask]bool), make(map[[maxHonest]mask]bool)
	var walk func(v [maxHonest]mask)
	walk = func(v [maxHonest]mask) {
		if seen[v] {
			return
		}
		seen[v] = true
		sorted := v
		slices.Sort(sorted[:len(s.parties)])
		orbits[sorted] = true
		certs := s.certified(&v)
		n := s.t.n
		can := s.t.existing(certs&(1<<n-1), certs>>n)
		for i := range s.parties {
			c := ballot{v[i] & (1<<n - 1), v[i] >> n}
			for b := 1; b <= n; b++ {
				w := v
				if can&bit(b) != 0 && s.o.mayPrevote(s.t, c, b) {
					w[i] |= bit(b)
					walk(w)
				}
				w = v
				if certs&bit(b) != 0 && s.o.mayPrecommit(s.t, c, b) {
					w[i] |= bit(b) << n
					walk(w)
				}
			}
		}
	}
	walk([maxHonest]mask{})
	return len(orbits)
}

// Counted by hand. Two blocks: twins of one slot; the second on the root, on the first, or on the first with its QC.
func TestTrees(t *testing.T) {
	for _, tc := range []struct{ n, want int }{{1, 1}, {2, 4}} {
		got := 0
		var list []string
		o := Options{}.filled()
		o.trees(tc.n, func(tr *tree) bool {
			got++
			list = append(list, strings.Join(o.describe(tr), "; "))
			return true
		})
		require.Equal(t, tc.want, got, "%v", list)
	}
}

func TestOptions(t *testing.T) {
	for _, o := range []Options{{Blocks: 6}, {Blocks: -1}, {Byzantine: 3}, {Byzantine: -1}, {Change: 3}, {Replaced: 4}, {Replaced: 3, Byzantine: 2}} {
		_, err := Search(o)
		require.Error(t, err, "%+v", o)
	}
}
