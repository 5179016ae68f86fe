package model

import (
	"fmt"
	"strings"
)

func named(i int) string {
	if i == 0 {
		return "root"
	}
	return fmt.Sprintf("block %d", i)
}

// describe tells the tree, one block a line.
func (o *Options) describe(t *tree) (out []string) {
	for i := 1; i <= t.n; i++ {
		x := &t.v[i]
		line := fmt.Sprintf("block %d: slot %d, on %s", i, x.slot, named(x.parent))
		var certs []string
		if x.qc != 0 {
			certs = append(certs, fmt.Sprintf("QC(%d)", x.qc))
		}
		if x.fc != 0 {
			certs = append(certs, fmt.Sprintf("FC(%d)", x.fc))
		}
		if certs != nil {
			line += ", carries " + strings.Join(certs, " and ")
		}
		line += ", source " + named(x.source)
		if o.Change != NoChange {
			switch old, new := o.counting(t, i); {
			case old && new:
				line += ", counted under both schedules"
			case old:
				line += ", counted under the old schedule"
			default:
				line += ", counted under the new schedule"
			}
		}
		out = append(out, line)
	}
	return out
}

// explain tells a run: the tree, the schedules, then votes and the certificates they complete.
func (s *searcher) explain(steps []step) []string {
	out := s.o.describe(s.t)
	old, new := s.o.schedules()
	if s.o.Change != NoChange {
		out = append(out, fmt.Sprintf("old schedule %v, new schedule %v", old, new))
	}
	out = append(out, fmt.Sprintf("producers %v are Byzantine and have signed everything", old[producers-s.o.Byzantine:]))
	var votes [maxHonest]mask
	n := s.t.n
	had := s.certified(&votes)
	for _, p := range steps {
		what, shift := "prevotes", 0
		if p.precommit {
			what, shift = "precommits", n
		}
		line := fmt.Sprintf("producer %d %s block %d", p.by, what, p.block)
		for i := range s.parties {
			if s.parties[i].id == p.by {
				votes[i] |= bit(p.block) << shift
			}
		}
		certs := s.certified(&votes)
		for b := 1; b <= n; b++ {
			if fresh := certs &^ had; fresh&bit(b) != 0 {
				line += fmt.Sprintf(": QC(%d) exists", b)
			} else if fresh>>n&bit(b) != 0 {
				line += fmt.Sprintf(": FC(%d) exists, block %d is final", b, b)
			}
		}
		had = certs
		out = append(out, line)
	}
	b, d := s.disagree(had)
	return append(out, fmt.Sprintf("blocks %d and %d conflict and are both final", b, d))
}
