package dpos

import (
	"slices"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/block"
)

// dice reads choices from fuzz input; when it runs out all choices are 0.
type dice struct{ b []byte }

func (d *dice) n(n int) int {
	if len(d.b) == 0 {
		return 0
	}
	x := int(d.b[0])
	d.b = d.b[1:]
	return x % n
}

// FuzzEvents feeds a machine any sequence of events, sensible and senseless. It never panics, a refused event changes
// nothing that a query shows, its tree is what its blocks make it, and its signatures obey rule 6.
func FuzzEvents(f *testing.F) {
	f.Add([]byte{})
	for i := range 12 {
		var b []byte
		for j := range 400 {
			b = append(b, byte((i+1)*j*j+j*7+i))
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 4096 {
			b = b[:4096]
		}
		fz := newFuzz(t, &dice{b})
		for range 400 {
			if len(fz.d.b) == 0 {
				break
			}
			fz.event()
		}
		fz.finish()
	})
}

type fuzz struct {
	*lab
	d       *dice
	headers []Header
	tallies []Tally
	signed  []SignRecord
	told    map[block.Link]bool // votes in our name that we had not cast when they were shown: rule 11 logs them as they come
	slot    uint64
}

func newFuzz(t *testing.T, d *dice) *fuzz {
	l := newLab(t, func(c *Config) {
		c.Params.EpochBlocks, c.Params.MaxReversible = 4, 6
		c.Params.Patience = d.n(2) == 0
		c.Signed, c.SilentUntilProven = nil, d.n(8) == 0
	})
	return &fuzz{lab: l, d: d, headers: []Header{l.LIB()}, told: make(map[block.Link]bool), slot: 30 * uint64(d.n(3))}
}

func (z *fuzz) pick() Header { return z.headers[len(z.headers)-1-z.d.n(min(len(z.headers), 12))] }

func (z *fuzz) event() {
	switch z.d.n(12) {
	case 0, 1, 2:
		z.block()
	case 3:
		z.slot += uint64(z.d.n(3))
		now := time.Duration(z.slot)*z.cfg.Params.Slot() + time.Duration(z.d.n(400)-200)*time.Millisecond
		switch z.d.n(8) {
		case 0:
			z.try(TimeSet{now - time.Duration(z.d.n(20))*z.cfg.Params.Slot()})
		case 1:
			z.try(Clocks{z.d.n(3) > 0})
		default:
			z.try(Tick{now})
		}
	case 4, 5:
		z.try(Executed{z.pick().Hash})
	case 6:
		if z.d.n(8) == 0 {
			z.try(Failed{z.pick().Hash})
		}
	case 7, 8:
		var vs []block.Vote
		for range z.d.n(6) {
			v := block.Vote{Link: z.linkOn(z.pick()), Voter: account(z.d.n(8))}
			if z.d.n(5) > 0 {
				v = signed(v)
			}
			if v.Voter == z.cfg.Self && !z.own.cast(v.Link) {
				z.told[v.Link] = true
			}
			vs = append(vs, v)
		}
		z.try(VotesEvent{vs})
	case 9:
		if len(z.tallies) > 0 {
			t := z.tallies[0]
			z.tallies = z.tallies[1:]
			z.try(answer(t, z.cfg.Self))
		}
		z.try(Tallied{ID: uint64(z.d.n(9)), Bad: []common.Address{account(z.d.n(4))}})
	case 10:
		z.try(CertificateEvent{z.certificate(z.pick())})
	case 11:
		k := z.d.n(len(z.headers))
		z.try(RangeEvent{z.headers[k:], z.certificate(z.pick())})
	}
	if z.d.n(3) > 0 {
		z.take()
	}
}

func (z *fuzz) block() {
	p := z.pick()
	s := oldSchedule
	if x, err := z.ScheduleFor(p.Hash); err == nil {
		s = x
	}
	h := Header{Parent: p.Hash, Height: p.Height + 1, Slot: p.Slot + 1 + uint64(z.d.n(6)), Empty: z.d.n(2) == 0}
	if h.Slot > 1<<62 {
		return
	}
	h.Producer = s.Owner(h.Slot, 1).Account
	if z.d.n(3) == 0 {
		h.QC = z.certificate(z.pick())
	}
	if z.d.n(4) == 0 {
		h.FC = z.certificate(z.pick())
	}
	if must, err := z.Announces(p.Hash); err == nil && must != (z.d.n(16) == 0) {
		h.Next = scheduleOf(z.d.n(3), 3, 4, 5)
	}
	if z.d.n(24) == 0 {
		h.Slot = ^uint64(0) - uint64(z.d.n(2))
	}
	if z.d.n(24) == 0 {
		h.Height += uint64(z.d.n(3))
	}
	h.Hash = hashOf(&h, uint64(z.d.n(3)))
	if z.try(HeaderEvent{h}) {
		z.headers = append(z.headers, h)
	}
}

func (z *fuzz) linkOn(h Header) block.Link {
	k := block.Link{Kind: block.VoteKind(1 + z.d.n(2)), Source: h.Point(), Target: h.Point()}
	if k.Kind == block.Prevote {
		if s, err := z.Source(h.Hash); err == nil {
			k.Source = s
		}
	}
	if z.d.n(12) == 0 {
		k.Source = z.pick().Point()
	}
	if z.d.n(12) == 0 {
		k.Target.Hash[3] ^= 1
	}
	if z.d.n(20) == 0 {
		k.Kind = block.VoteKind(z.d.n(4))
	}
	return k
}

func (z *fuzz) certificate(h Header) *block.Certificate {
	if z.d.n(20) == 0 {
		return nil
	}
	s := []block.Schedule{oldSchedule}
	if x, err := z.VoteSchedules(h.Hash); err == nil {
		s = x
	}
	c := certFor(z.linkOn(h), s, 0, 1, 2, 3, 4, 5)
	if z.d.n(8) == 0 {
		c.Bitmaps = c.Bitmaps[z.d.n(2):]
	}
	if len(c.Bitmaps) > 0 && z.d.n(8) == 0 {
		c.Bitmaps[0] = append(c.Bitmaps[0][:z.d.n(2)], byte(z.d.n(256)))
	}
	return c
}

// try steps; a refusal must change nothing.
func (z *fuzz) try(ev Event) bool {
	head, lib, just, n, out := z.Head().Hash, z.LIB().Hash, z.Justified(), len(z.tree.nodes), len(z.out.Tallies)+len(z.out.Records)+len(z.out.Dropped)
	err := z.Step(ev)
	if err != nil {
		require.Equal(z.t, head, z.Head().Hash)
		require.Equal(z.t, lib, z.LIB().Hash)
		require.Equal(z.t, just, z.Justified())
		require.Equal(z.t, n, len(z.tree.nodes))
		require.Equal(z.t, out, len(z.out.Tallies)+len(z.out.Records)+len(z.out.Dropped))
	}
	return err == nil
}

func (z *fuzz) take() {
	rd, ok := z.Ready()
	if !ok {
		return
	}
	z.signed = append(z.signed, rd.Records...)
	z.tallies = append(z.tallies, rd.Tallies...)
	if rd.Final != nil {
		r, err := DecodeRoot(rd.Final.Root.Encode())
		require.NoError(z.t, err)
		require.Equal(z.t, rd.Final.Root.Encode(), r.Encode())
		_, err = New(z.cfg, r)
		require.NoError(z.t, err)
	}
	z.Advance()
}

func (z *fuzz) finish() {
	z.take()
	checkTree(z.t, z.tree)
	checkSigned(z.t, slices.DeleteFunc(slices.Clone(z.signed), func(r SignRecord) bool { return z.told[r.Link] }))
	require.LessOrEqual(z.t, len(z.pool.suspects), maxSuspects)
	count := 0
	for _, w := range z.pool.voters {
		require.LessOrEqual(z.t, len(w.unknown), maxUnknownPerVoter)
		count += len(w.unknown)
		for _, x := range w.known {
			require.False(z.t, x.node.gone)
			require.Contains(z.t, x.node.tallyOf(x.Kind).votes, x)
		}
	}
	require.Equal(z.t, count, z.pool.unknown)
}

// checkSigned is rule 6's first and rule 11 on a log: prevotes in strictly rising slots, no block of a slot twice.
func checkSigned(t *testing.T, rs []SignRecord) {
	var prevote uint64
	produced := make(map[uint64]bool)
	for _, r := range rs {
		switch r.Kind {
		case RecordPrevote:
			require.Greater(t, r.Slot, prevote)
			prevote = r.Slot
		case RecordProduced:
			require.False(t, produced[r.Slot])
			produced[r.Slot] = true
		}
	}
}

// FuzzDecodeRoot: any bytes; what decodes can start a machine or is refused, and encodes to an equal root.
func FuzzDecodeRoot(f *testing.F) {
	f.Add([]byte{})
	f.Add(GenesisRoot(genesisHash, firstN(4)).Encode())
	long := GenesisRoot(genesisHash, firstN(4))
	joined := newRegime(joint, newSchedule, oldSchedule, 9)
	long.header = Header{Hash: common.Hash{1}, Height: 12, Slot: 14}
	long.source, long.final = block.Point{Slot: 3, Hash: common.Hash{3}}, proven{Height: 2, Point: block.Point{Slot: 2}}
	long.tail = []tailBlock{{block.Point{Slot: 3, Hash: common.Hash{3}}, block.Point{}, long.own}, {block.Point{Slot: 7}, block.Point{Slot: 3}, joined}}
	long.fc = certFor(block.Link{Kind: block.Precommit}, []block.Schedule{oldSchedule})
	f.Add(long.Encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := DecodeRoot(b)
		if err != nil {
			return
		}
		again, err := DecodeRoot(r.Encode())
		require.NoError(t, err)
		require.Equal(t, r.Encode(), again.Encode())
		m, err := New(DefaultConfig(testParams(), account(0)), r)
		require.NoError(t, err)
		_ = m.Step(Tick{time.Hour})
		h := Header{Parent: r.header.Hash, Height: r.header.Height + 1, Slot: r.header.Slot + 1, QC: r.qc, FC: r.fc}
		_ = m.Step(HeaderEvent{h})
		_, _ = m.Ready()
	})
}

func TestDecodeRootRefuses(t *testing.T) {
	good := GenesisRoot(genesisHash, firstN(4)).Encode()
	_, err := DecodeRoot(good)
	require.NoError(t, err)
	_, err = DecodeRoot(append(good, 0))
	require.ErrorIs(t, err, errRoot)
	for i := range good {
		_, err = DecodeRoot(good[:i])
		require.ErrorIs(t, err, errRoot)
	}
}
