package dpos

import (
	"math/big"
	"math/rand"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/block"
)

// Rule 8: highest justified slot, then greatest height, then lowest slot, then lowest hash.
func TestForkChoiceOrder(t *testing.T) {
	l := newLab(t, nil)
	l.slotBegins(30)
	a := l.add(genesisHash, 5)
	require.Equal(t, a, l.Head().Hash)
	b := l.add(genesisHash, 3)
	require.Equal(t, b, l.Head().Hash, "lower slot")
	b2 := l.add(genesisHash, 3, salt(9))
	low := b
	if b2.Cmp(b) < 0 {
		low = b2
	}
	require.Equal(t, low, l.Head().Hash, "lower hash")
	c := l.add(a, 20)
	require.Equal(t, c, l.Head().Hash, "greater height")
	l.step(CertificateEvent{l.qc(b)})
	require.Equal(t, b, l.Head().Hash, "justified")
	l.step(CertificateEvent{l.qc(a)})
	require.Equal(t, c, l.Head().Hash, "justified in a higher slot")
	l.add(l.add(l.add(b, 6), 7), 9)
	require.Equal(t, c, l.Head().Hash, "height counts only above the justified block")
	d := l.add(genesisHash, 10)
	l.step(CertificateEvent{l.qc(d)})
	require.Equal(t, d, l.Head().Hash)
	undo, redo, err := l.Path(c, d)
	require.NoError(t, err)
	require.Equal(t, []common.Hash{c, a}, undo)
	require.Equal(t, []common.Hash{d}, redo)
}

// The incremental fork choice equals the definition, whatever happens in whatever order.
func TestForkChoiceEqualsDefinition(t *testing.T) {
	for seed := range int64(30) {
		rnd := rand.New(rand.NewSource(seed))
		l := newLab(t, func(c *Config) { c.Self = common.Address{} })
		l.slotBegins(1 << 20)
		hashes := []common.Hash{genesisHash}
		for range 150 {
			h := hashes[rnd.Intn(len(hashes))]
			switch p, ok := l.Get(h); {
			case !ok:
			case rnd.Intn(12) == 0:
				l.step(CertificateEvent{l.cert(block.Prevote, h)}.unless(l.tree.nodes[h].qc != nil || h == genesisHash))
			case rnd.Intn(60) == 0 && h != l.LIB().Hash:
				l.step(CertificateEvent{l.fc(h)})
			case rnd.Intn(40) == 0 && h != l.LIB().Hash:
				l.step(Failed{h})
			case rnd.Intn(3) == 0:
				l.step(Executed{h})
			default:
				c := l.child(h, p.Slot+1+uint64(rnd.Intn(8)), salt(byte(rnd.Intn(256))))
				if !l.Has(c.Hash) && !l.failed.has(c.Hash) {
					l.step(HeaderEvent{c})
					hashes = append(hashes, c.Hash)
				}
			}
			checkTree(t, l.tree)
			l.drain()
		}
	}
}

func (c CertificateEvent) unless(skip bool) Event {
	if skip {
		return Tick{}
	}
	return c
}

// checkClimb compares jumps with steps to the parent, down to the LIB and its tail.
func checkClimb(t *testing.T, n, root *node) {
	t.Helper()
	for a := n; a != nil; a = a.parent {
		got, _ := n.climb(a.Slot)
		require.Same(t, a, got)
		if a.Slot > 0 && (a.parent == nil || a.Slot > a.parent.Slot+1) {
			got, _ = n.climb(a.Slot - 1)
			require.True(t, got == a.parent)
		}
		if j := a.jump; a == root || a.gone {
			require.Nil(t, j, "what left the tree leads nowhere")
		} else if !j.gone {
			require.Same(t, j, a.ancestor(j.Point()))
		}
	}
}

// checkTree compares all that the tree keeps incrementally with what follows from its blocks.
func checkTree(t *testing.T, x *tree) {
	t.Helper()
	var just, best, tip *node
	leaves := 0
	for hash, n := range x.nodes {
		require.Equal(t, hash, n.Hash)
		require.False(t, n.gone)
		require.NotNil(t, n.ancestor(x.root.Point()))
		if len(n.children) == 0 {
			checkClimb(t, n, x.root)
			leaves++
			require.Equal(t, n, x.leaves[n.leaf])
		} else {
			require.Equal(t, -1, n.leaf)
		}
		if n.justified && (just == nil || n.Slot > just.Slot || n.Slot == just.Slot && n.Hash.Cmp(just.Hash) < 0) {
			just = n
		}
		found := false
		for o := x.slots[n.Slot]; o != nil; o = o.sibling {
			found = found || o == n
		}
		require.True(t, found)
	}
	require.Len(t, x.leaves, leaves)
	require.Equal(t, just.Hash, x.just.Hash)
	for _, n := range x.nodes {
		if n.ancestor(just.Point()) != nil && (n == just || n.Slot <= x.limit) && (best == nil || n.better(best)) {
			best = n
		}
	}
	require.Equal(t, best.Hash, x.head().Hash)
	for i, n := len(x.path)-1, best; i >= 0; i, n = i-1, n.parent {
		require.Equal(t, n.Hash, x.path[i].Hash)
		if n.executed && tip == nil {
			tip = n
		}
	}
	require.Equal(t, x.root, x.path[0])
	require.Equal(t, tip.Hash, x.tip.Hash)
}

// Finality prunes the tree; the root it gives round-trips and a machine that starts from it goes on alike.
func TestFinalPrunesAndRootRestores(t *testing.T) {
	l, a, b, c := trunk(t, nil)
	side := l.add(a, 4)
	side2 := l.add(side, 6)
	stray := l.add(genesisHash, 8)
	rd := l.drain()
	require.Empty(t, rd.Final)
	d := l.grow(c, 5)
	l.step(CertificateEvent{l.qc(c)})
	l.step(CertificateEvent{l.fc(c)})
	rd = l.drain()
	require.Equal(t, []common.Hash{a, b, c}, rd.Final.Hashes)
	require.Equal(t, block.Point{Slot: 3, Hash: c}, rd.Final.Point)
	require.EqualValues(t, 3, rd.Final.Height)
	require.NotNil(t, rd.Final.QC)
	require.NotNil(t, rd.Final.FC)
	require.ElementsMatch(t, []common.Hash{side, side2, stray}, rd.Dropped)
	require.Equal(t, c, l.LIB().Hash)
	require.Len(t, l.tree.nodes, 2)
	require.Equal(t, d, l.Head().Hash)

	again, err := DecodeRoot(rd.Final.Root.Encode())
	require.NoError(t, err)
	require.Equal(t, rd.Final.Root, again)
	require.Equal(t, rd.Final.Root.Encode(), again.Encode())
	l2 := labOf(t, again, nil)
	l2.slotBegins(10)
	h, _ := l.Get(d)
	l2.step(HeaderEvent{h})
	for _, x := range []*lab{l, l2} {
		require.Equal(t, c, x.BestFC().Target.Hash)
		// Blocks below the LIB that the chain itself does not prove final may still be named.
		kb := certFor(block.Link{Kind: block.Precommit, Source: block.Point{Slot: 2, Hash: b}, Target: block.Point{Slot: 2, Hash: b}}, []block.Schedule{firstN(4)})
		checks, err := x.Check(x.child(d, 6, withFC(kb)))
		require.NoError(t, err)
		require.Len(t, checks.Certificates, 1)
		s, err := x.CertificateSchedules(kb)
		require.NoError(t, err)
		require.Equal(t, []block.Schedule{firstN(4)}, s)
		_, err = x.Check(x.child(d, 6, withQC(x.qc(c)), withFC(x.fc(c))))
		require.NoError(t, err)
		// Below it nothing enters.
		for _, y := range []Header{makeHeader(Header{Hash: b, Height: 2, Slot: 2}, firstN(4), 9), makeHeader(Header{Hash: side2, Height: 3, Slot: 6}, firstN(4), 9), makeHeader(Header{Hash: a, Height: 1}, firstN(4), 3)} {
			_, err = x.Check(y)
			if y.Parent == side2 {
				require.ErrorIs(t, err, ErrBelowLIB)
				continue
			}
			require.ErrorIs(t, err, ErrBelowLIB)
		}
		require.ErrorIs(t, x.Step(CertificateEvent{kb}), ErrBelowLIB)
	}
	// The next LIB's chain proves c: the tail ends there.
	e := l.grow(d, 6, withFC(l.fc(c)))
	l.step(CertificateEvent{l.fc(e)})
	f := l.drain().Final
	require.Len(t, f.Root.tail, 1)
	require.Equal(t, d, f.Root.tail[0].Hash)
	require.Nil(t, f.QC)
}

// A certificate inside a header counts like one that came alone.
func TestCertificatesInHeadersCount(t *testing.T) {
	l, a, _, c := trunk(t, nil)
	require.Equal(t, a, l.Justified().Hash)
	l.grow(c, 5, withFC(l.fc(a)))
	rd := l.drain()
	require.Equal(t, a, rd.Final.Point.Hash)
	require.Equal(t, a, rd.Final.QC.Target.Hash)
}

func TestFailedBlockLeaves(t *testing.T) {
	l, a, b, c := trunk(t, nil)
	x := l.add(a, 6)
	hb, _ := l.Get(b)
	hc, _ := l.Get(c)
	l.drain()
	l.step(Failed{b})
	rd := l.drain()
	require.Equal(t, []common.Hash{b, c}, rd.Dropped)
	require.Equal(t, x, rd.Head)
	require.ErrorIs(t, l.Step(HeaderEvent{hb}), ErrInvalid)
	require.ErrorIs(t, l.Step(HeaderEvent{hc}), ErrInvalid, "on a failed parent")
	require.ErrorIs(t, l.Step(Failed{genesisHash}), ErrInvalid, "the LIB never leaves")
	require.NoError(t, l.Step(Failed{common.Hash{77}}))
	require.NoError(t, l.Step(Executed{b}))
}

// One who seals a slot many times makes us hold few of them, and none of the later ones is refused.
func TestVersionsOfASlotAreBounded(t *testing.T) {
	l := newLab(t, nil)
	l.slotBegins(10)
	dropped := 0
	var last common.Hash
	for i := range 100 {
		last = l.add(genesisHash, 3, salt(byte(i)))
		rd := l.drain()
		dropped += len(rd.Dropped)
		require.Equal(t, i == 1, len(rd.Evidence) == 1, "told once")
		require.LessOrEqual(t, len(l.tree.nodes), maxVersions+2)
	}
	require.GreaterOrEqual(t, dropped, 95)
	child := l.add(last, 5)
	for i := range 100 {
		l.add(genesisHash, 3, salt(byte(i+100)))
	}
	require.True(t, l.Has(child), "what others build on stays")
	checkTree(t, l.tree)
}

// A block that left and came back before the driver heard of it is not dropped.
func TestReturnedBlockIsNotDropped(t *testing.T) {
	l := newLab(t, nil)
	l.slotBegins(10)
	var hs []Header
	for i := range 6 {
		h := l.child(genesisHash, 3, salt(byte(i)))
		hs = append(hs, h)
		l.step(HeaderEvent{h})
	}
	for _, h := range hs {
		if !l.Has(h.Hash) {
			l.step(HeaderEvent{h})
		}
	}
	rd := l.drain()
	for _, h := range rd.Dropped {
		require.False(t, l.Has(h))
	}
}

func TestDoubleSealIsEvidence(t *testing.T) {
	l := newLab(t, nil)
	l.slotBegins(10)
	a := l.add(genesisHash, 1)
	x := l.add(genesisHash, 3)
	y := l.add(a, 3)
	rd := l.drain()
	require.Len(t, rd.Evidence, 1)
	e := rd.Evidence[0]
	require.Equal(t, DoubleSeal, e.Kind)
	require.Equal(t, account(3), e.Guilty)
	require.EqualValues(t, 3, e.Slot)
	require.Equal(t, [2]common.Hash{x, y}, [2]common.Hash{e.Headers[0].Hash, e.Headers[1].Hash})
}

func TestHeaderOf(t *testing.T) {
	h := &block.SealedHeader{
		Header: &types.Header{ParentHash: common.Hash{1}, Number: big.NewInt(7), Coinbase: account(2), TxHash: types.EmptyTxsHash, Difficulty: new(big.Int)},
		Record: &block.Record{Slot: 9, Next: firstN(2), FC: &block.Certificate{}},
	}
	x := HeaderOf(h)
	require.Equal(t, Header{Hash: h.Hash(), Parent: common.Hash{1}, Height: 7, Slot: 9, Producer: account(2), FC: h.Record.FC, Next: firstN(2), Empty: true}, x)
	h.Header.TxHash[0]++
	require.False(t, HeaderOf(h).Empty)
}

func TestMemoryIsBounded(t *testing.T) {
	m := newMemory[int](3)
	for i := range 10 {
		m.add(i)
		m.add(i)
		require.True(t, m.has(i))
		require.LessOrEqual(t, len(m.set), 3)
	}
	require.False(t, m.has(6))
	require.True(t, m.has(7))
}
