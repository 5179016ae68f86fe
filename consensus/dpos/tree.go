package dpos

import (
	"bytes"

	"github.com/ethereum/go-ethereum/common"

	"github.com/bornode/bornode/block"
)

// proven is a final block as a chain's own records prove it.
type proven struct {
	Height uint64
	block.Point
}

// node is a block: of the tree, or of the tail (the LIB's ancestors that certificates may still name).
type node struct {
	Header
	parent   *node // nil for the oldest of the tail
	jump     *node // an ancestor further down, of no use once gone (see jumpOf); nil for the root and the tail
	children []*node
	sibling  *node // next block of the same slot

	source    block.Point // rule 2: newest ancestor the chain proves justified
	final     proven      // newest ancestor the chain proves final
	own, next *regime     // of this block, of its children

	executed  bool
	justified bool // by a certificate we know, or as the LIB
	gone      bool // left the tree
	qc, fc    *block.Certificate
	pre, com  *tally
	leaf      int    // index in tree.leaves, -1 if it has children
	seq       uint64 // order of entry
}

// ancestor is the ancestor or self at this point, nil if there is none (or it is older than the tail).
func (n *node) ancestor(p block.Point) *node {
	a, _ := n.climb(p.Slot)
	if a == nil || a.Point() != p {
		return nil
	}
	return a
}

// climb goes down the chain to its first block at or below the slot (nil if that is older than the tail), in a number
// of steps logarithmic in the blocks passed above the LIB, plus those of the tail.
func (n *node) climb(slot uint64) (a *node, steps int) {
	for n != nil && n.Slot > slot {
		if j := n.jump; j != nil && !j.gone && j.Slot >= slot {
			n = j
		} else {
			n = n.parent
		}
		steps++
	}
	return n, steps
}

// jumpOf is where a child of p jumps to: two jumps of one length make one twice as long, else the parent (Myers' skew
// binary list). Jumps end at the LIB: its ancestors are the tail.
func jumpOf(p *node) *node {
	if j := p.jump; j != nil && !j.gone {
		if k := j.jump; k != nil && !k.gone && p.Height-j.Height == j.Height-k.Height {
			return k
		}
	}
	return p
}

// descends reports whether n is the block at p or descends from it.
func (n *node) descends(p block.Point) bool { return n.ancestor(p) != nil }

// better orders leaves below one justified block (rule 8).
func (n *node) better(o *node) bool {
	if n.Height != o.Height {
		return n.Height > o.Height
	}
	if n.Slot != o.Slot {
		return n.Slot < o.Slot
	}
	return bytes.Compare(n.Hash[:], o.Hash[:]) < 0
}

// outranks orders justified blocks: highest slot; two of one slot exist only with more than f guilty.
func (n *node) outranks(o *node) bool {
	return n.Slot > o.Slot || n.Slot == o.Slot && n != o && bytes.Compare(n.Hash[:], o.Hash[:]) < 0
}

// tree holds the LIB (root) and all that descends from it. path is the preferred branch, path[i] having height
// root.Height+i; so that a question about a preferred block costs O(1) and a step to the next head too.
type tree struct {
	root   *node
	nodes  map[common.Hash]*node
	slots  map[uint64]*node // first of a slot, then by sibling
	leaves []*node
	path   []*node
	tip    *node // newest executed block of path
	just   *node // justified block that outranks all others known
	seq    uint64
	limit  uint64 // slots above it are ahead of the time (rule 12): their blocks take no part in the fork choice
	hides  bool   // such blocks are here
}

func newTree(root *node) *tree {
	root.leaf, root.justified, root.executed = 0, true, true
	return &tree{
		root: root, nodes: map[common.Hash]*node{root.Hash: root}, slots: map[uint64]*node{root.Slot: root},
		leaves: []*node{root}, path: []*node{root}, tip: root, just: root, limit: ^uint64(0),
	}
}

func (t *tree) head() *node { return t.path[len(t.path)-1] }

func (t *tree) preferred(n *node) bool {
	i := n.Height - t.root.Height
	return n.Height >= t.root.Height && i < uint64(len(t.path)) && t.path[i] == n
}

// below reports whether n descends from, or is, the tree's block a.
func (t *tree) below(n, a *node) bool {
	for n.Height > a.Height {
		if t.preferred(n) {
			return t.preferred(a)
		}
		n = n.parent
	}
	return n == a
}

// insert attaches a node whose parent is in the tree, and follows the fork choice.
func (t *tree) insert(n *node) {
	t.seq++
	n.seq = t.seq
	t.nodes[n.Hash] = n
	n.sibling = t.slots[n.Slot]
	t.slots[n.Slot] = n
	p := n.parent
	if len(p.children) == 0 && p.leaf >= 0 {
		n.leaf, p.leaf = p.leaf, -1
		t.leaves[n.leaf] = n
	} else {
		n.leaf = len(t.leaves)
		t.leaves = append(t.leaves, n)
	}
	p.children = append(p.children, n)
	if n.Slot > t.limit {
		t.hides = true
		return
	}
	if h := t.head(); p == h || n.better(h) && t.below(n, t.just) {
		t.choose(n)
	}
}

// justify marks a block as justified and follows the fork choice.
func (t *tree) justify(n *node) {
	n.justified = true
	if !n.outranks(t.just) {
		return
	}
	t.just = n
	if !t.preferred(n) {
		t.choose(t.best(n))
	}
}

// best is the preferred leaf below a.
func (t *tree) best(a *node) *node {
	var b *node
	for _, l := range t.leaves {
		if t.hides && l.Slot > t.limit {
			if l = t.newestReached(l); l == nil || l.Height < a.Height {
				continue
			}
		}
		if (b == nil || l.better(b)) && t.below(l, a) {
			b = l
		}
	}
	if b == nil {
		return a // all that descends from it is ahead of the time, or it is itself
	}
	return b
}

// newestReached is the newest block of l's chain that the time has reached; nil if that is below the LIB.
func (t *tree) newestReached(l *node) *node {
	if l, _ = l.climb(t.limit); l == nil || l.Height < t.root.Height {
		return nil
	}
	return l
}

// limitTo says up to which slot the time has come; it reports whether the head changed.
func (t *tree) limitTo(limit uint64) bool {
	if limit == t.limit {
		return false
	}
	lower := limit < t.limit
	t.limit = limit
	if !lower && !t.hides {
		return false
	}
	t.hides = false
	for _, l := range t.leaves {
		t.hides = t.hides || l.Slot > limit
	}
	old := t.head()
	if !lower || t.hides {
		t.choose(t.best(t.just))
	}
	return t.head() != old
}

// beaten reports whether a leaf other than l that descends from a is better than l, or l does not descend from a.
func (t *tree) beaten(l, a *node) bool {
	for _, o := range t.leaves {
		if o != l && o.Slot <= t.limit && o.better(l) && t.below(o, a) {
			return true
		}
	}
	return !t.below(l, a)
}

// choose makes n the head.
func (t *tree) choose(n *node) {
	var up []*node
	for ; n.Height >= t.root.Height+uint64(len(t.path)) || !t.preferred(n); n = n.parent {
		up = append(up, n)
	}
	t.path = t.path[:n.Height-t.root.Height+1]
	if t.tip.Height > n.Height {
		for t.tip = n; !t.tip.executed; {
			t.tip = t.tip.parent
		}
	}
	for i := len(up) - 1; i >= 0; i-- {
		t.path = append(t.path, up[i])
		if up[i].executed {
			t.tip = up[i]
		}
	}
}

func (t *tree) setExecuted(n *node) {
	n.executed = true
	if n.Height > t.tip.Height && t.preferred(n) {
		t.tip = n
	}
}

// detach takes the subtree of n out of the tree and appends its hashes, parents first. The caller calls refresh when
// done.
func (t *tree) detach(n *node, out []common.Hash) []common.Hash {
	if p := n.parent; p != nil && !p.gone {
		for i, c := range p.children {
			if c == n {
				p.children = append(p.children[:i:i], p.children[i+1:]...)
				break
			}
		}
		if len(p.children) == 0 {
			p.leaf = len(t.leaves)
			t.leaves = append(t.leaves, p)
		}
	}
	stack := []*node{n}
	for len(stack) > 0 {
		x := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		out = append(out, x.Hash)
		t.forget(x)
		for i := len(x.children) - 1; i >= 0; i-- {
			stack = append(stack, x.children[i])
		}
		x.children = nil
	}
	return out
}

// forget takes one node out of all indexes but path.
func (t *tree) forget(x *node) {
	x.gone = true
	delete(t.nodes, x.Hash)
	if x.leaf >= 0 {
		last := t.leaves[len(t.leaves)-1]
		t.leaves[x.leaf] = last
		last.leaf = x.leaf
		t.leaves = t.leaves[:len(t.leaves)-1]
		x.leaf = -1
	}
	if first := t.slots[x.Slot]; first == x {
		if x.sibling == nil {
			delete(t.slots, x.Slot)
		} else {
			t.slots[x.Slot] = x.sibling
		}
	} else {
		for ; first != nil; first = first.sibling {
			if first.sibling == x {
				first.sibling = x.sibling
				break
			}
		}
	}
	x.sibling = nil
}

// refresh makes the fork choice anew after blocks left the tree.
func (t *tree) refresh() {
	if t.just.gone {
		t.just = t.root
		for _, l := range t.leaves {
			for n := l; n != t.root; n = n.parent {
				if n.justified && n.outranks(t.just) {
					t.just = n
				}
			}
		}
	}
	for i, n := range t.path {
		if n.gone {
			t.path = t.path[:i]
			break
		}
	}
	for t.tip.gone || t.tip.Height > t.head().Height {
		t.tip = t.tip.parent
	}
	for !t.tip.executed {
		t.tip = t.tip.parent
	}
	t.choose(t.best(t.just))
}

// reroot makes n the LIB: its ancestors leave (and become tail), other branches are detached. It gives the path to n,
// oldest first, and the hashes of the branches that lost.
func (t *tree) reroot(n *node) (path []*node, dropped []common.Hash) {
	for x := n; x != t.root; x = x.parent {
		path = append(path, x)
	}
	for i, j := 0, len(path)-1; i < j; i, j = i+1, j-1 {
		path[i], path[j] = path[j], path[i]
	}
	keep, x := t.preferred(n), t.root
	for _, next := range path {
		for _, c := range append([]*node(nil), x.children...) {
			if c != next {
				dropped = t.detach(c, dropped)
			}
		}
		t.forget(x)
		x.children, x.pre, x.com, x.jump = nil, nil, nil, nil
		x = next
	}
	n.jump = nil
	if keep {
		t.path = append([]*node(nil), t.path[n.Height-t.root.Height:]...)
	} else {
		t.path = []*node{n}
	}
	t.root, n.justified, n.executed = n, true, true
	if t.tip.Height < n.Height || !keep {
		t.tip = n
	}
	if n.outranks(t.just) {
		t.just = n
	}
	if len(dropped) > 0 || !keep || t.just.gone {
		t.refresh()
	}
	return path, dropped
}
