package dpos

import (
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/block"
)

// play is a counter-example step by step: honest machines, and an author who is producer 3, owns the network and makes
// all blocks. A certificate exists only if its honest voters really cast the votes.
type play struct {
	t      *testing.T
	actors map[int]*lab
	known  map[common.Hash]Header
	extent map[common.Hash]*node
	rules  rules
}

func newPlay(t *testing.T, bugs Bugs, epoch uint64, honest ...int) *play {
	p := &play{t: t, actors: map[int]*lab{}, known: map[common.Hash]Header{}, extent: map[common.Hash]*node{}}
	bugs.SkipFirstSync = true // the tests of rule 11 are in firstsync_test.go
	for _, i := range honest {
		l := newLab(t, func(c *Config) {
			c.Self, c.Bugs, c.Params.EpochBlocks, c.Signed = account(i), bugs, epoch, nil
		})
		l.slotBegins(100)
		p.actors[i] = l
		p.rules = l.rules
	}
	p.extent[genesisHash] = GenesisRoot(genesisHash, firstN(4)).node()
	return p
}

// block makes a block of the author's.
func (p *play) block(parent common.Hash, slot uint64, opts ...option) common.Hash {
	p.t.Helper()
	x := p.extent[parent]
	h := makeHeader(x.Header, x.next.cur, slot, opts...)
	require.Equal(p.t, account(evil), h.Producer)
	n, err := p.rules.extend(x, &h)
	require.NoError(p.t, err)
	p.extent[h.Hash], p.known[h.Hash] = n, h
	return h.Hash
}

// show gives blocks to an actor, who executes them.
func (p *play) show(actor int, blocks ...common.Hash) {
	p.t.Helper()
	l := p.actors[actor]
	for _, b := range blocks {
		if !l.Has(b) {
			l.step(HeaderEvent{p.known[b]})
		}
		l.step(Executed{b})
		l.drain()
	}
}

// cert is a certificate by these voters, nil if one who is honest did not vote so.
func (p *play) cert(k block.VoteKind, b common.Hash, voters ...int) *block.Certificate {
	p.t.Helper()
	n := p.extent[b]
	l := block.Link{Kind: k, Source: n.Point(), Target: n.Point()}
	if k == block.Prevote {
		l.Source = n.source
	}
	for _, v := range voters {
		if a := p.actors[v]; a != nil && !contains(a.all.Votes, l) {
			return nil
		}
	}
	c := certFor(l, p.rules.counting(n.own), voters...)
	if p.rules.quorate(c, p.rules.counting(n.own)) != nil {
		return nil
	}
	return c
}

func contains(vs []block.Vote, l block.Link) bool {
	for i := range vs {
		if vs[i].Link == l {
			return true
		}
	}
	return false
}

func (p *play) certify(actor int, c *block.Certificate) {
	p.t.Helper()
	require.NotNil(p.t, c)
	p.actors[actor].step(CertificateEvent{c})
	p.actors[actor].drain()
}

func (p *play) qc(b common.Hash, voters ...int) *block.Certificate {
	return p.cert(block.Prevote, b, voters...)
}

func (p *play) fc(b common.Hash, voters ...int) *block.Certificate {
	return p.cert(block.Precommit, b, voters...)
}

// Without the first of rule 6 producer 1 prevotes two blocks of one slot, and two branches become final.
func TestPlaySlotRule(t *testing.T) {
	for _, bug := range []bool{false, true} {
		p := newPlay(t, Bugs{SkipSlotRule: bug}, 1<<40, 0, 1, 2)
		a, b := p.block(genesisHash, 3), p.block(genesisHash, 3, salt(1))
		if a.Cmp(b) < 0 {
			a, b = b, a // b is preferred
		}
		p.show(0, a)
		p.show(1, a, b)
		p.show(2, b)
		d := p.block(a, 7)
		p.certify(0, p.qc(a, 0, 1, evil))
		p.certify(1, p.qc(a, 0, 1, evil))
		p.show(1, d)
		p.certify(0, p.fc(a, 0, 1, evil))
		require.Equal(t, a, p.actors[0].LIB().Hash)
		qc := p.qc(b, 1, 2, evil)
		require.Equal(t, bug, qc != nil)
		if qc == nil {
			continue
		}
		c := p.block(b, 11, withQC(qc))
		for _, x := range []int{1, 2} {
			p.certify(x, qc)
			p.show(x, c)
		}
		p.certify(1, p.qc(c, 1, 2, evil))
		p.certify(2, p.qc(c, 1, 2, evil))
		p.certify(2, p.fc(c, 1, 2, evil))
		require.Equal(t, c, p.actors[2].LIB().Hash, "two conflicting blocks are final")
	}
}

// Without the second of rule 6 producer 1 precommits a block below its prevote on another branch.
func TestPlayLinkRule(t *testing.T) {
	for _, bug := range []bool{false, true} {
		p := newPlay(t, Bugs{SkipLinkRule: bug}, 1<<40, 0, 1, 2)
		a := p.block(genesisHash, 3)
		c0 := p.block(genesisHash, 7)
		c := p.block(c0, 11)
		p.show(0, a)
		p.show(1, a, c0, c)
		p.show(2, c0, c)
		e := p.block(a, 15)
		qa, qc := p.qc(a, 0, 1, evil), p.qc(c, 1, 2, evil)
		p.certify(0, qa)
		p.certify(1, qa)
		p.show(1, e)
		fa := p.fc(a, 0, 1, evil)
		require.Equal(t, bug, fa != nil)
		if fa == nil {
			continue
		}
		p.certify(0, fa)
		f := p.block(c, 19, withQC(qc))
		p.show(1, f)
		p.show(2, f)
		for _, x := range []int{1, 2} {
			p.certify(x, p.qc(f, 1, 2, evil))
		}
		p.certify(2, p.fc(f, 1, 2, evil))
		require.Equal(t, a, p.actors[0].LIB().Hash)
		require.Equal(t, f, p.actors[2].LIB().Hash, "two conflicting blocks are final")
	}
}

// With one quorum during a change of schedule two branches that disagree on the proof each finalise, no one guilty.
func TestPlaySingleQuorum(t *testing.T) {
	for _, bug := range []bool{false, true} {
		p := newPlay(t, Bugs{SingleQuorum: bug}, 2, 0, 1, 2, 4, 5)
		next := scheduleOf(evil, 4, 5, 2)
		b1 := p.block(genesisHash, 3)
		b2 := p.block(b1, 7, withNext(next))
		for i := range p.actors {
			p.show(i, b1, b2)
		}
		q2 := p.qc(b2, 0, 1, evil)
		p.certify(0, q2)
		p.certify(1, q2)
		f2 := p.fc(b2, 0, 1, evil)
		require.NotNil(t, f2)
		// One branch proves b2 final, so the next schedule takes over and counts from b5 on.
		b3 := p.block(b2, 11, withFC(f2))
		b4 := p.block(b3, 15)
		b5 := p.block(b4, 16)
		for _, i := range []int{4, 5} {
			p.show(i, b3, b4, b5)
		}
		// The other proves nothing and goes on under the old one.
		c3 := p.block(b2, 19)
		for _, i := range []int{0, 1} {
			p.show(i, c3)
		}
		for _, i := range []int{0, 1} {
			p.certify(i, p.qc(c3, 0, 1, evil))
		}
		p.certify(0, p.fc(c3, 0, 1, evil))
		require.Equal(t, c3, p.actors[0].LIB().Hash)
		q5 := p.qc(b5, evil, 4, 5)
		require.Equal(t, bug, q5 != nil)
		if q5 == nil {
			continue
		}
		p.certify(4, q5)
		p.certify(5, q5)
		p.certify(4, p.fc(b5, evil, 4, 5))
		require.Equal(t, b5, p.actors[4].LIB().Hash, "two conflicting blocks are final")
	}
}
