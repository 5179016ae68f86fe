package dpos

import (
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/block"
)

// trunk is genesis <- a(1) <- b(2) <- c(3, proves QC(a)), with the clock in slot 10.
func trunk(t *testing.T, change func(*Config)) (l *lab, a, b, c common.Hash) {
	l = newLab(t, change)
	l.slotBegins(10)
	a = l.grow(genesisHash, 1)
	b = l.grow(a, 2)
	c = l.grow(b, 3, withQC(l.qc(a)))
	return l, a, b, c
}

func TestHeaderRules(t *testing.T) {
	l, a, b, c := trunk(t, nil)
	side := l.add(a, 4)
	edit := func(k *block.Certificate, f func(*block.Certificate)) *block.Certificate {
		x := *k
		x.Bitmaps = [][]byte{append([]byte(nil), k.Bitmaps[0]...)}
		f(&x)
		return &x
	}
	for _, tc := range []struct {
		name string
		h    Header
		want error
	}{
		{"plain", l.child(c, 5), nil},
		{"slots may be empty", l.child(c, 9), nil},
		{"the present slot", l.child(c, 10), nil},
		{"one slot ahead", l.child(c, 11), ErrFuture},
		{"far ahead", l.child(c, 1<<63), ErrFuture},
		{"parent's slot", l.child(c, 3), ErrInvalid},
		{"slot below the parent's", l.child(c, 2), ErrInvalid},
		{"another's slot", l.child(c, 5, by(2)), ErrInvalid},
		{"stranger", l.child(c, 5, by(9)), ErrInvalid},
		{"wrong height", l.child(c, 5, func(h *Header) { h.Height++ }), ErrInvalid},
		{"unknown parent", l.child(c, 5, func(h *Header) { h.Parent[0]++ }), ErrUnknownParent},
		{"known", func() Header { h, _ := l.Get(c); return h }(), ErrKnown},
		{"genesis again", func() Header { h, _ := l.Get(genesisHash); h.Hash[0]++; return h }(), ErrBelowLIB},
		{"another block 1 on nothing", makeHeader(Header{Hash: common.Hash{1}}, firstN(4), 5), ErrBelowLIB},
		{"QC of the parent", l.child(c, 5, withQC(l.qc(c))), nil},
		{"QC of an ancestor", l.child(c, 5, withQC(l.qc(b))), nil},
		{"QC and FC", l.child(c, 5, withQC(l.qc(b)), withFC(l.fc(b))), nil},
		{"FC older than the QC proven", l.child(c, 5, withFC(l.fc(a))), nil},
		{"QC proven already", l.child(c, 5, withQC(l.qc(a))), ErrInvalid},
		{"QC of genesis", l.child(c, 5, withQC(l.qc(genesisHash))), ErrInvalid},
		{"QC of another branch", l.child(c, 5, withQC(l.qc(side))), ErrInvalid},
		{"QC of itself", func() Header {
			h := l.child(c, 5)
			h.QC = certFor(block.Link{Kind: block.Prevote, Source: block.Point{Slot: 1, Hash: a}, Target: h.Point()}, []block.Schedule{firstN(4)})
			return h
		}(), ErrInvalid},
		{"FC where QC belongs", l.child(c, 5, withQC(l.fc(b))), ErrInvalid},
		{"QC where FC belongs", l.child(c, 5, withFC(l.qc(b))), ErrInvalid},
		{"two votes", l.child(c, 5, withQC(l.qc(b, 0, 1))), ErrInvalid},
		{"two votes for FC", l.child(c, 5, withFC(l.fc(b, 2, 3))), ErrInvalid},
		{"wrong source", l.child(c, 5, withQC(edit(l.qc(c), func(k *block.Certificate) { k.Source = block.Point{Hash: genesisHash} }))), ErrInvalid},
		{"precommit from another source", l.child(c, 5, withFC(edit(l.fc(b), func(k *block.Certificate) { k.Source.Slot-- }))), ErrInvalid},
		{"target's slot wrong", l.child(c, 5, withQC(edit(l.qc(c), func(k *block.Certificate) { k.Target.Slot-- }))), ErrInvalid},
		{"seat that does not exist", l.child(c, 5, withQC(edit(l.qc(c), func(k *block.Certificate) { k.Bitmaps[0][0] |= 0x80 }))), ErrInvalid},
		{"bitmap too long", l.child(c, 5, withQC(edit(l.qc(c), func(k *block.Certificate) { k.Bitmaps[0] = append(k.Bitmaps[0], 0) }))), ErrInvalid},
		{"bitmap empty", l.child(c, 5, withQC(edit(l.qc(c), func(k *block.Certificate) { k.Bitmaps[0] = nil }))), ErrInvalid},
		{"two bitmaps", l.child(c, 5, withQC(edit(l.qc(c), func(k *block.Certificate) { k.Bitmaps = append(k.Bitmaps, k.Bitmaps[0]) }))), ErrInvalid},
		{"schedule within an epoch", l.child(c, 5, withNext(firstN(4))), ErrInvalid},
	} {
		checks, err := l.Check(tc.h)
		require.ErrorIs(t, err, tc.want, tc.name)
		before := len(l.tree.nodes)
		if tc.want != nil {
			require.ErrorIs(t, l.Step(HeaderEvent{tc.h}), tc.want, tc.name)
			require.Len(t, l.tree.nodes, before, tc.name)
			continue
		}
		require.Equal(t, tc.h.Producer, checks.Producer.Account, tc.name)
		n := 0
		for _, k := range []*block.Certificate{tc.h.QC, tc.h.FC} {
			if k != nil {
				require.Equal(t, CertCheck{Certificate: k, Schedules: []block.Schedule{firstN(4)}}, checks.Certificates[n], tc.name)
				n++
			}
		}
		require.Len(t, checks.Certificates, n, tc.name)
	}
}

// Before the first Tick no block is ahead of the clock: stored blocks enter before it is known.
func TestNoFutureBeforeFirstTick(t *testing.T) {
	l := newLab(t, nil)
	l.add(genesisHash, 1000)
	require.NoError(t, func() error { _, err := l.Check(l.child(genesisHash, 999)); return err }())
}

func TestLastBlockOfEpochAnnounces(t *testing.T) {
	l := newLab(t, func(c *Config) { c.Params.EpochBlocks = 2 })
	l.slotBegins(10)
	a := l.grow(genesisHash, 1)
	next := scheduleOf(3, 2, 1)
	for _, tc := range []struct {
		name string
		next block.Schedule
		want error
	}{
		{"none", nil, ErrInvalid},
		{"one", next, nil},
		{"the same", firstN(4), nil},
		{"a producer twice", scheduleOf(1, 2, 1), ErrInvalid},
		{"too many", make(block.Schedule, block.MaxProducers+1), ErrInvalid},
	} {
		_, err := l.Check(l.child(a, 2, withNext(tc.next)))
		require.ErrorIs(t, err, tc.want, tc.name)
	}
	must, err := l.Announces(a)
	require.NoError(t, err)
	require.True(t, must)
	b := l.grow(a, 2, withNext(next))
	c := l.grow(b, 3)
	must, err = l.Announces(c)
	require.NoError(t, err)
	require.False(t, must, "a change is under way")
	_, err = l.Check(l.child(c, 4, withNext(next)))
	require.ErrorIs(t, err, ErrInvalid)
	l.grow(c, 4)
}

// A block of its own carries no certificate that its parent's chain proves already.
func TestOwnBlockProvesNothingTwice(t *testing.T) {
	l := newLab(t, nil)
	l.slotBegins(10)
	a := l.grow(genesisHash, 1)
	l.step(CertificateEvent{l.qc(a)})
	l.step(CertificateEvent{l.fc(a)})
	p := l.slotBegins(12).Produce
	require.Equal(t, a, p.FC.Target.Hash)
	require.Nil(t, p.QC, "the FC proves that")
	l.slotBegins(13)
	b := l.grow(a, 13, withFC(p.FC))
	p = l.slotBegins(16).Produce
	require.Equal(t, b, p.Parent)
	require.Nil(t, p.FC)
	require.Nil(t, p.QC)
}

// Rule 10: far above the proven final block only empty blocks with long gaps; full speed once a record proves more.
func TestStallSlowsDown(t *testing.T) {
	l := newLab(t, func(c *Config) {
		c.Params.MaxReversible = 3
		c.Params.TurnSlots = 2
		c.Self = account(2)
		c.Signed = nil
	})
	owner := func(s uint64) option { return by(int(s / 2 % 4)) }
	l.slotBegins(19)
	a := l.grow(genesisHash, 1, owner(1))
	b := l.grow(a, 2, owner(2))
	c := l.grow(b, 3, owner(3))
	check := func(want error, slot uint64, opts ...option) {
		t.Helper()
		_, err := l.Check(l.child(c, slot, append(opts, owner(slot))...))
		require.ErrorIs(t, err, want)
	}
	check(ErrInvalid, 6)
	check(ErrInvalid, 5, empty)
	check(nil, 6, empty)
	check(nil, 4, withFC(l.fc(a, 0, 1, 3)))
	rd := l.slotBegins(20)
	require.True(t, rd.Produce.EmptyOnly)
	l.step(CertificateEvent{l.fc(a, 0, 1, 3)})
	rd = l.slotBegins(21)
	require.False(t, rd.Produce.EmptyOnly)
	require.Equal(t, a, rd.Produce.FC.Target.Hash)
	h := makeHeader(Header{Hash: c, Height: 3}, firstN(4), 4, owner(4), withFC(rd.Produce.FC))
	_, err := l.Check(h)
	require.NoError(t, err)
}

func TestStallWaitsForGap(t *testing.T) {
	l := newLab(t, func(c *Config) { c.Params.MaxReversible = 2; c.Params.TurnSlots = 4; c.Signed = nil })
	owner := func(s uint64) option { return by(int(s / 4 % 4)) }
	l.slotBegins(13)
	a := l.grow(genesisHash, 5, owner(5))
	l.grow(a, 13, owner(13))
	require.Nil(t, l.slotBegins(16).Produce)
	require.Nil(t, l.slotBegins(17).Produce)
	require.EqualValues(t, 18, l.slotBegins(18).Produce.Slot)
}
