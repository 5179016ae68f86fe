package chain

import (
	"fmt"

	"github.com/bornode/bornode/block"
	"github.com/ethereum/go-ethereum/common"
)

type nodeStatus uint8

const (
	stored   nodeStatus = iota // durable, not executed (or executed and forgotten)
	executed                   // its state was committed
	failed                     // it or an ancestor is invalid
)

// node is a block at or above the last irreversible one.
type node struct {
	sealed *block.SealedHeader
	hash   common.Hash
	parent common.Hash
	height uint64
	status nodeStatus
	reason error  // why it failed
	track  *track // schedule bookkeeping after this block; set when executed
	// durable is closed when the store has the block; nil: it has it already.
	durable <-chan struct{}
}

func newNode(h *block.SealedHeader) *node {
	return &node{sealed: h, hash: h.Hash(), parent: h.Parent(), height: h.Number()}
}

// tree holds the last irreversible block and everything above it. canon[i] is the executed block at height
// lib.height+i; canon[0] is lib. Chain.mu guards all of it.
type tree struct {
	nodes map[common.Hash]*node
	canon []*node
	lib   *node
	safe  *node
}

func newTree(lib *node) *tree {
	lib.status = executed
	return &tree{nodes: map[common.Hash]*node{lib.hash: lib}, canon: []*node{lib}, lib: lib, safe: lib}
}

func (t *tree) head() *node { return t.canon[len(t.canon)-1] }

// at is the executed block of a height at or above lib, or nil.
func (t *tree) at(height uint64) *node {
	if height < t.lib.height || height-t.lib.height >= uint64(len(t.canon)) {
		return nil
	}
	return t.canon[height-t.lib.height]
}

func (t *tree) onCanon(n *node) bool { return t.at(n.height) == n }

// add enters a block whose parent must be known. A known block is left alone.
func (t *tree) add(h *block.SealedHeader) (*node, error) {
	hash := h.Hash()
	if n := t.nodes[hash]; n != nil {
		return n, nil
	}
	p := t.nodes[h.Parent()]
	if p == nil {
		return nil, fmt.Errorf("parent of block %d %s: %w", h.Number(), hash, unknownBlock(h.Parent()))
	}
	if h.Number() != p.height+1 {
		return nil, fmt.Errorf("%w: block %s has height %d above a parent of height %d", ErrInvalidBlock, hash, h.Number(), p.height)
	}
	n := newNode(h)
	if p.status == failed {
		n.status, n.reason = failed, p.reason
	}
	t.nodes[hash] = n
	return n, nil
}

// path lists the blocks from the one above the executed branch up to n, oldest first, and the block of the executed
// branch they stand on.
func (t *tree) path(n *node) (fork *node, up []*node, err error) {
	for x := n; ; {
		if t.onCanon(x) {
			fork = x
			break
		}
		up = append(up, x)
		p := t.nodes[x.parent]
		if p == nil {
			return nil, nil, fmt.Errorf("block %d %s: %w", n.height, n.hash, ErrNotOnLIB)
		}
		x = p
	}
	for i, j := 0, len(up)-1; i < j; i, j = i+1, j-1 {
		up[i], up[j] = up[j], up[i]
	}
	return fork, up, nil
}

// fail marks n and every descendant.
func (t *tree) fail(n *node, reason error) {
	for h := range t.branches([]common.Hash{n.hash}, func(*node) bool { return false }) {
		t.nodes[h].status, t.nodes[h].reason = failed, reason
	}
}

// branches is what is in the tree of these blocks and of all that descend from them, but for those that keep names.
func (t *tree) branches(roots []common.Hash, keep func(*node) bool) map[common.Hash]bool {
	in := make(map[common.Hash]bool, len(roots))
	for _, h := range roots {
		if n := t.nodes[h]; n != nil && !keep(n) {
			in[h] = true
		}
	}
	for changed := len(in) > 0; changed; { // children may be visited before parents
		changed = false
		for h, n := range t.nodes {
			if !in[h] && in[n.parent] && !keep(n) {
				in[h], changed = true, true
			}
		}
	}
	return in
}

// finalize makes lib the root: what does not descend from it leaves. lib must be on the executed branch.
func (t *tree) finalize(lib *node) {
	t.canon = append([]*node(nil), t.canon[lib.height-t.lib.height:]...)
	t.lib = lib
	keep := map[common.Hash]bool{lib.hash: true}
	for _, n := range t.canon {
		keep[n.hash] = true
	}
	var descends func(n *node) bool
	descends = func(n *node) bool {
		if k, ok := keep[n.hash]; ok {
			return k
		}
		p := t.nodes[n.parent]
		keep[n.hash] = p != nil && n.height > lib.height && descends(p)
		return keep[n.hash]
	}
	for h, n := range t.nodes {
		if !descends(n) {
			delete(t.nodes, h)
		}
	}
	if t.nodes[t.safe.hash] == nil || t.safe.height < lib.height {
		t.safe = lib
	}
}
