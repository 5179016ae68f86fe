package sim

import (
	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/consensus/dpos"
)

// plot is what a Byzantine producer does besides when it hears of a block.
func (n *node) plot(b *sealed) {
	a := n.adversary
	if n.silent() || n.plotted[b.Hash] {
		return
	}
	n.plotted[b.Hash] = true
	var vs []block.Vote
	source := b.source // its own machine may be on another branch: it votes for all
	if a.VoteAll {
		vs = append(vs,
			block.Vote{Link: block.Link{Kind: block.Prevote, Source: source, Target: b.Point()}, Voter: n.self()},
			block.Vote{Link: block.Link{Kind: block.Precommit, Source: b.Point(), Target: b.Point()}, Voter: n.self()})
		vs = signed(vs)
		for i := range vs {
			n.w.check.voted(n, &vs[i])
		}
	}
	if a.Forge {
		other := accountOf(n.w.rand.IntN(n.w.s.Nodes))
		var junk block.BLSSignature // genuine ones begin with 1
		junk[1] = 1
		vs = append(vs,
			block.Vote{Link: block.Link{Kind: block.Prevote, Source: source, Target: b.Point()}, Voter: other, Signature: junk},
			block.Vote{Link: block.Link{Kind: block.Precommit, Source: b.Point(), Target: b.Point()}, Voter: other, Signature: junk})
		wrong := block.Vote{Link: block.Link{Kind: block.Prevote, Source: b.Point(), Target: b.Point()}, Voter: n.self()}
		wrong.Signature[0] = 1
		n.w.check.voted(n, &wrong)
		vs = append(vs, wrong)
	}
	if len(vs) > 0 {
		n.sendVotes(vs)
	}
	if a.Stale && !n.shadow[b.Slot+1] {
		n.shadow[b.Slot+1] = true
		n.trespass(b)
	}
}

// trespass makes a block in a slot that need not be ours; honest nodes must refuse it unless it is.
func (n *node) trespass(parent *sealed) {
	h := dpos.Header{Parent: parent.Hash, Height: parent.Height + 1, Slot: parent.Slot + 1, Producer: n.self(), Empty: true}
	if yes, err := n.m.Announces(parent.Hash); err != nil || yes {
		return
	}
	b := n.w.seal(h, n.id, false)
	if b == nil {
		return
	}
	n.store[b.Hash] = b
	n.broadcast(func(to *node) { to.receive(n, b) })
}
