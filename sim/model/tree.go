package model

import "bytes"

// mask is a set of blocks: bit i-1 is block i.
type mask = uint16

func bit(i int) mask { return 1 << (i - 1) }

// vertex is a block. Blocks are numbered from 1 by rising slot; 0 is the root, or no certificate.
type vertex struct {
	parent, slot int
	qc, fc       int // targets of the certificates in its record

	height, source, final int  // rule 2; final: newest ancestor the chain proves final
	above                 mask // itself and its ancestors
	conflicts             mask
	own, next             regime // of its own votes, of its children's
}

// tree is the root and n blocks.
type tree struct {
	n int
	v [maxBlocks + 1]vertex
}

func (t *tree) clone() *tree { c := *t; return &c }

// regime is whose votes count (rule 9). Both while it is a change under way; the mark is the height that must be proven
// final for the next step.
type regime struct {
	stage stage
	mark  int
}

type stage uint8

const (
	before    stage = iota // the old schedule
	announced              // the old one; the new one is in a record
	both
	after // the new one
)

// follow is the regime of a block's children: every block ends an epoch.
func (r regime) follow(height, finalHeight int) regime {
	proven := finalHeight >= r.mark
	switch {
	case r.stage == before:
		return regime{announced, height}
	case r.stage == announced && proven:
		return regime{both, height + 1}
	case r.stage == both && proven:
		return regime{stage: after}
	}
	return r
}

func (r regime) counts() (old, new bool) { return r.stage <= both, r.stage >= both }

func (t *tree) reset(c Change) {
	*t = tree{}
	if c == Changing {
		t.v[0].next = regime{both, 1}
	}
}

func (t *tree) slot(i int) int { return t.v[i].slot }

// valid reports whether a child of the block may carry these certificates (rule 2).
func (t *tree) valid(parent, qc, fc int) bool {
	p := &t.v[parent]
	if qc != 0 && (p.above&bit(qc) == 0 || t.slot(qc) <= t.slot(p.source)) {
		return false
	}
	return fc == 0 || p.above&bit(fc) != 0 && t.slot(fc) > t.slot(p.final)
}

// put makes block t.n+1. Its record must be valid.
func (t *tree) put(c Change, parent, slot, qc, fc int) {
	t.n++
	p := &t.v[parent]
	x := vertex{parent: parent, slot: slot, qc: qc, fc: fc, height: p.height + 1, source: p.source, final: p.final, above: p.above | bit(t.n), own: p.next}
	if qc != 0 {
		x.source = qc
	}
	if fc != 0 {
		x.final = fc
		if t.slot(fc) > t.slot(x.source) {
			x.source = fc
		}
	}
	x.next = x.own
	if c != NoChange {
		x.next = x.own.follow(x.height, t.v[x.final].height)
	}
	t.v[t.n] = x
}

// relate finds the conflicts once all blocks are there.
func (t *tree) relate() {
	for i := 1; i <= t.n; i++ {
		t.v[i].conflicts = 0
		for j := 1; j <= t.n; j++ {
			if t.v[i].above&bit(j) == 0 && t.v[j].above&bit(i) == 0 {
				t.v[i].conflicts |= bit(j)
			}
		}
	}
}

// trees calls f with every tree of n blocks and every valid content of records, but for those that the package comment
// leaves out, until f gives false. The tree is f's only during the call.
func (o Options) trees(n int, f func(*tree) bool) {
	var t tree
	t.reset(o.Change)
	o.grow(&t, n, f)
}

func (o Options) grow(t *tree, n int, f func(*tree) bool) bool {
	if t.n == n {
		t.relate()
		return !t.canonical() || f(t)
	}
	last := t.slot(t.n)
	for slot := max(last, 1); slot <= last+1; slot++ {
		for parent := 0; parent <= t.n; parent++ {
			if t.slot(parent) >= slot {
				continue
			}
			for qc := 0; qc <= t.n; qc++ {
				for fc := 0; fc <= t.n; fc++ {
					if o.idle(t, qc, fc) || !t.valid(parent, qc, fc) {
						continue
					}
					old := *t
					t.put(o.Change, parent, slot, qc, fc)
					if !o.grow(t, n, f) {
						return false
					}
					*t = old
				}
			}
		}
	}
	return true
}

// idle reports whether another record proves as much on less.
func (o Options) idle(t *tree, qc, fc int) bool {
	return !o.AllRecords && fc != 0 && (o.Change == NoChange || qc != 0 && t.slot(qc) <= t.slot(fc))
}

// canonical reports whether no renaming of blocks of one slot gives a tree that comes before this one.
func (t *tree) canonical() bool {
	var names [maxBlocks + 1]int
	self := t.code(&[maxBlocks + 1]int{0, 1, 2, 3, 4, 5})
	var try func(i int, used mask) bool
	try = func(i int, used mask) bool {
		if i > t.n {
			c := t.code(&names)
			return bytes.Compare(self[:], c[:]) <= 0
		}
		for j := 1; j <= t.n; j++ {
			if used&bit(j) != 0 || t.slot(j) != t.slot(i) {
				continue
			}
			names[i] = j
			if !try(i+1, used|bit(j)) {
				return false
			}
		}
		return true
	}
	return try(1, 0)
}

func (t *tree) code(names *[maxBlocks + 1]int) (out [3 * maxBlocks]byte) {
	for i := 1; i <= t.n; i++ {
		x := &t.v[i]
		at := out[3*(names[i]-1):]
		at[0], at[1], at[2] = byte(names[x.parent]), byte(names[x.qc]), byte(names[x.fc])
	}
	return out
}

// matters reports whether the tree can show a disagreement that the trees left out cannot.
func (t *tree) matters(c Change) bool {
	var conflicts mask
	newest := before
	for i := 1; i <= t.n; i++ {
		conflicts |= t.v[i].conflicts
		newest = max(newest, t.v[i].own.stage)
	}
	return conflicts != 0 && (c == NoChange || c == Announcing && newest >= both || c == Changing && newest == after)
}
