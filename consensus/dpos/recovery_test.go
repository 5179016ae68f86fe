package dpos

import (
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/block"
)

func withRecovery(r *Recovery) option { return func(h *Header) { h.Recovery = r.Hash } }

// recoverAt is a recovery that goes on from a block under a schedule.
func recoverAt(base Header, first uint64, s block.Schedule) Recovery {
	return Recovery{Hash: crypto.Keccak256Hash([]byte("recovery"), base.Hash[:]), Base: base.Point(), Height: base.Height, FirstSlot: first, Schedule: s}
}

// lostQuorum is a chain of four producers, of which 2 and 3 are lost: a is final, b justified, c and d neither. The recovery
// goes on from b under producers 0, 1, 4 and 5. The log is producer 0's.
func lostQuorum(t *testing.T) (headers []Header, r Recovery, signed []SignRecord) {
	l := newLab(t, nil)
	l.slotBegins(2)
	a := l.grow(genesisHash, 1)
	b := l.grow(a, 2, withQC(l.qc(a)))
	l.step(CertificateEvent{l.fc(a)})
	l.slotBegins(20)
	l.drain()
	c := l.grow(b, 3, withFC(l.fc(a)), withQC(l.qc(b)))
	d := l.grow(c, 7)
	l.drain()
	for _, h := range []common.Hash{b, c, d} {
		x, ok := l.Get(h)
		require.True(t, ok)
		headers = append(headers, x)
	}
	ha := Header{Hash: a, Parent: genesisHash, Height: 1, Slot: 1, Producer: account(1)}
	r = recoverAt(headers[0], 30, scheduleOf(0, 1, 4, 5))
	return append([]Header{ha}, headers...), r, l.Signed()
}

// recovered is producer 0 after the recovery, with all blocks that it had.
func recovered(t *testing.T, change func(*Config)) (l *lab, headers []Header, r Recovery) {
	headers, r, signed := lostQuorum(t)
	l = newLab(t, func(c *Config) {
		c.Signed, c.Recoveries = signed, []Recovery{r}
		if change != nil {
			change(c)
		}
	})
	for _, h := range headers {
		if err := l.Step(HeaderEvent{h}); err != nil {
			require.Greater(t, h.Height, r.Height, "%v", err)
			continue
		}
		l.step(Executed{h.Hash})
	}
	return l, headers, r
}

// Rule 13: the base is final by the recovery, what lay behind it is out, and the log says so before anything is signed.
func TestRecoveryMakesItsBaseFinal(t *testing.T) {
	l, hs, r := recovered(t, nil)
	rd := l.drain()
	require.Equal(t, SignRecord{Kind: RecordRecovery, Recovery: r.Hash}, rd.Records[0])
	require.NotNil(t, rd.Final)
	require.Equal(t, r.Base, rd.Final.Point)
	require.Equal(t, r.Hash, rd.Final.Recovery)
	require.Equal(t, hs[1].Hash, l.Head().Hash)
	require.Equal(t, []block.Schedule{r.Schedule}, l.ChildSchedules())
	require.ErrorIs(t, l.Step(HeaderEvent{hs[2]}), ErrBelowLIB, "the old branch")

	l.slotBegins(100)
	rd = l.slotBegins(104) // of producer 0
	require.NotNil(t, rd.Produce)
	require.Equal(t, r.Hash, rd.Produce.Recovery)
	require.Nil(t, rd.Produce.QC, "of a domain that is over")
	require.Nil(t, rd.Produce.FC)
	require.Contains(t, rd.Records, SignRecord{Kind: RecordProduced, Slot: 104, Recovery: r.Hash})

	root, err := DecodeRoot(l.all.Final.Root.Encode())
	require.NoError(t, err)
	require.Equal(t, r.Hash, root.Recovery())
	_, err = New(DefaultConfig(testParams(), account(0)), root)
	require.ErrorContains(t, err, "apply it again")
	cfg := DefaultConfig(testParams(), account(0))
	cfg.Recoveries = []Recovery{r}
	_, err = New(cfg, root)
	require.NoError(t, err)
}

// The first block behind the base names the recovery, waits for its slot and is counted by its schedule, in its domain.
func TestFirstBlockAfterRecovery(t *testing.T) {
	l, hs, r := recovered(t, nil)
	l.slotBegins(40)
	base := hs[1].Hash
	require.ErrorIs(t, l.Step(HeaderEvent{l.child(base, 33)}), ErrBelowLIB, "without the recovery")
	require.ErrorIs(t, l.Step(HeaderEvent{l.child(base, 29, withRecovery(&r))}), ErrInvalid, "before the first slot")
	other := r
	other.Hash[0]++
	require.ErrorIs(t, l.Step(HeaderEvent{l.child(base, 33, withRecovery(&other))}), ErrRecovered)
	require.ErrorIs(t, l.Step(HeaderEvent{l.child(base, 30, withRecovery(&r), by(2))}), ErrInvalid, "by one who was lost")

	first := l.child(base, 33, withRecovery(&r))
	require.Equal(t, r.Hash, DomainAt([]Recovery{r}, first.Slot))
	require.Zero(t, DomainAt([]Recovery{r}, r.Base.Slot))
	l.step(HeaderEvent{first})
	l.step(Executed{first.Hash})
	rd := l.drain()
	require.Equal(t, []common.Hash{first.Hash}, prevotes(rd), "nothing signed before bars it")
	require.Equal(t, r.Hash, last(rd.Records).Recovery)
	require.Equal(t, r.Base, rd.Votes[0].Source, "the base is justified")
	require.ErrorIs(t, l.Step(HeaderEvent{l.child(first.Hash, 34, withRecovery(&r))}), ErrRecovered, "only the first block names it")
	require.Equal(t, VoteStranger, l.verdictOf(signed(block.Vote{Link: l.link(block.Prevote, first.Hash), Voter: account(2)})), "a lost producer counts no more")

	qc := certFor(l.link(block.Prevote, first.Hash), []block.Schedule{r.Schedule}, 1, 4, 5)
	l.step(CertificateEvent{qc})
	rd = l.drain()
	require.Equal(t, []common.Hash{first.Hash}, precommits(rd))
	l.step(CertificateEvent{certFor(l.link(block.Precommit, first.Hash), []block.Schedule{r.Schedule}, 1, 4, 5)})
	rd = l.drain()
	require.Equal(t, first.Point(), rd.Final.Point)
	require.Zero(t, rd.Final.Recovery, "a certificate proves it")
	root, err := DecodeRoot(rd.Final.Root.Encode())
	require.NoError(t, err)
	require.Equal(t, r.Hash, root.Recovery())
	l2 := labOf(t, root, func(c *Config) { c.Signed, c.Recoveries = l.Signed(), []Recovery{r} })
	require.Equal(t, first.Hash, l2.LIB().Hash)
	require.NotContains(t, l2.drain().Records, SignRecord{Kind: RecordRecovery, Recovery: r.Hash}, "it is in the log")
}

// What was signed in a domain that is over does not bind: neither votes, nor far slots, nor a floor. The sessions stay.
func TestOldDomainDoesNotBind(t *testing.T) {
	session := block.Session{Number: 9}
	far := block.Point{Slot: 5000, Hash: common.Hash{5}}
	old := []SignRecord{
		{Kind: RecordFloor, Slot: 4000}, {Kind: RecordProduced, Slot: 33}, {Kind: RecordSession, Slot: 9, Session: &session},
		{Kind: RecordPrevote, Slot: 5000, Link: block.Link{Kind: block.Prevote, Target: far}},
		{Kind: RecordPrecommit, Slot: 3, Link: block.Link{Kind: block.Precommit, Source: block.Point{Slot: 3}, Target: block.Point{Slot: 3}}},
	}
	for _, keep := range []bool{false, true} {
		l, hs, r := recovered(t, func(c *Config) { c.Signed = append(c.Signed, old...); c.Bugs.KeepOldDomain = keep })
		l.slotBegins(40)
		first := l.child(hs[1].Hash, 33, withRecovery(&r))
		l.step(HeaderEvent{first})
		l.step(Executed{first.Hash})
		if keep {
			require.Empty(t, l.drain().Votes, "the planted bug")
			continue
		}
		require.Equal(t, []common.Hash{first.Hash}, prevotes(l.drain()))
		require.Equal(t, uint64(9), l.NewestSession())
		require.False(t, l.Silent())
		for _, x := range l.Signed() {
			require.Equal(t, r.Hash, x.Recovery, "kind %d", x.Kind)
		}
	}
}

// What others remember of us from a domain that is over is genuine, and does not bind: it silences nobody and enters no log, whether
// the base is here or not.
func TestOldDomainToldDoesNotBind(t *testing.T) {
	hs, r, _ := lostQuorum(t)
	old := func(kind block.VoteKind, target block.Point) block.ToldVote {
		return block.ToldVote{Vote: block.Vote{Link: block.Link{Kind: kind, Source: block.Point{Hash: genesisHash}, Target: target}, Voter: account(0)}}
	}
	told := []block.ToldVote{old(block.Prevote, hs[0].Point()), old(block.Prevote, hs[1].Point()), old(block.Precommit, block.Point{Slot: 1, Hash: common.Hash{9}})}
	for _, here := range []bool{false, true} {
		l := newLab(t, func(c *Config) { c.Recoveries = []Recovery{r} })
		if here {
			l, _, _ = recovered(t, func(c *Config) { c.Signed = nil })
		}
		l.slotBegins(40)
		l.drain()
		l.step(Heard{Producer: account(1), Told: told, Sealed: hs[1].Slot})
		rd := l.drain()
		require.Empty(t, rd.Records, "base here: %t", here)
		require.Empty(t, l.OwnVotes(10), "nothing of a domain that is over is sent again")
		l.step(Heard{Producer: account(1), Sealed: 41})
		require.Contains(t, kinds(l.drain().Records), RecordFloor, "what was sealed behind the base binds")
	}
}

// A log that tells of a recovery that is not applied is refused: under an older domain nothing is ever signed again.
func TestNoWayBackToAnOlderDomain(t *testing.T) {
	hs, r, _ := lostQuorum(t)
	cfg := DefaultConfig(testParams(), account(0))
	cfg.Signed = []SignRecord{{Kind: RecordRecovery, Recovery: r.Hash}}
	_, err := New(cfg, GenesisRoot(genesisHash, firstN(4)))
	require.ErrorContains(t, err, "apply it again")

	// Behind its base a producer signs nothing, whatever the old schedule does.
	l := newLab(t, func(c *Config) { c.Recoveries = []Recovery{r} })
	l.step(HeaderEvent{hs[0]})
	l.step(Executed{hs[0].Hash})
	for s := uint64(40); s < 60; s++ {
		rd := l.slotBegins(s)
		require.Empty(t, rd.Votes)
		require.Nil(t, rd.Produce, "slot %d", s)
	}
	require.True(t, l.Silent())
	require.Equal(t, r.Height, l.Waiting().Base)
	rival := l.child(hs[0].Hash, 2, salt(1))
	require.ErrorIs(t, l.Step(HeaderEvent{rival}), ErrBelowLIB, "not the base")
	l.step(CertificateEvent{certFor(block.Link{Kind: block.Prevote, Source: block.Point{Hash: genesisHash}, Target: hs[0].Point()}, []block.Schedule{firstN(4)}, 0, 1, 2)})
	require.NotContains(t, kinds(l.drain().Records), RecordFloor, "our vote of a domain that is over does not silence us")
	onNew := onUnknown(59, 1, 4)
	require.Equal(t, VoteAccepted, l.verdictOf(onNew), "producers of the recovery are known before its base is")
	require.Equal(t, VoteIrrelevant, l.verdictOf(onUnknown(59, 1, 9)))
	l.step(HeaderEvent{hs[1]})
	l.drain()
	require.Equal(t, r.Base, l.LIB().Point())
	require.Zero(t, l.Waiting().Base)
}

func kinds(rs []SignRecord) (out []RecordKind) {
	for _, r := range rs {
		out = append(out, r.Kind)
	}
	return out
}

// A history without the base is refused, whether it ends below, at or behind the base's height.
func TestRecoveryOfAnotherHistory(t *testing.T) {
	hs, r, _ := lostQuorum(t)
	for _, tc := range []struct {
		name   string
		change func(*Recovery)
		root   int // height of the last irreversible block
		ok     bool
	}{
		{"final below the base", func(*Recovery) {}, 1, true},
		{"final at the base", func(*Recovery) {}, 2, true},
		{"final behind the base", func(*Recovery) {}, 3, false},
		{"final at another block", func(r *Recovery) { r.Base.Hash[0]++ }, 2, false},
	} {
		x := r
		tc.change(&x)
		root := GenesisRoot(genesisHash, firstN(4))
		h := hs[tc.root-1]
		root.header = Header{Hash: h.Hash, Height: h.Height, Slot: h.Slot}
		cfg := DefaultConfig(testParams(), common.Address{})
		cfg.Recoveries = []Recovery{x}
		_, err := New(cfg, root)
		require.Equal(t, tc.ok, err == nil, "%s: %v", tc.name, err)
	}
	for _, bad := range []func(*Recovery){
		func(r *Recovery) { r.Hash = common.Hash{} },
		func(r *Recovery) { r.FirstSlot = r.Base.Slot },
		func(r *Recovery) { r.Schedule = scheduleOf(1, 1) },
	} {
		x := r
		bad(&x)
		cfg := DefaultConfig(testParams(), common.Address{})
		cfg.Recoveries = []Recovery{x}
		_, err := New(cfg, GenesisRoot(genesisHash, firstN(4)))
		require.Error(t, err)
	}
}

// One who joins from block 0 with the recovery takes a range over its base: what lies below it is proven by hash links from
// a certificate of the new schedule.
func TestRangeOverABase(t *testing.T) {
	l, hs, r := recovered(t, nil)
	l.slotBegins(60)
	first := l.child(hs[1].Hash, 33, withRecovery(&r))
	l.step(HeaderEvent{first})
	fc := certFor(l.link(block.Precommit, first.Hash), []block.Schedule{r.Schedule}, 1, 4, 5)
	span := []Header{hs[0], hs[1], first}

	join := newLab(t, func(c *Config) { c.Self, c.Signed, c.Recoveries = common.Address{}, nil, []Recovery{r} })
	checks, err := join.RangeChecks(span, fc)
	require.NoError(t, err)
	require.Equal(t, []CertCheck{{Certificate: fc, Schedules: []block.Schedule{r.Schedule}}}, checks)
	join.step(RangeEvent{span, fc})
	require.Equal(t, first.Hash, join.LIB().Hash)

	without := newLab(t, func(c *Config) { c.Self, c.Signed = common.Address{}, nil })
	_, err = without.RangeChecks(span, fc)
	require.ErrorIs(t, err, ErrRecovered, "one without the recovery does not follow")
}

// A second recovery may go on from the base of the first, which came to nothing, or from a block of its domain.
func TestSecondRecovery(t *testing.T) {
	l, hs, r := recovered(t, nil)
	l.slotBegins(40)
	first := l.child(hs[1].Hash, 33, withRecovery(&r))
	l.step(HeaderEvent{first})
	root := l.all.Final.Root
	for _, base := range []Header{hs[1], first} {
		r2 := recoverAt(base, 50, scheduleOf(4, 5, 6, 7))
		r2.Hash[0]++
		l2 := labOf(t, root, func(c *Config) { c.Signed, c.Recoveries = l.Signed(), []Recovery{r, r2} })
		if err := l2.Step(HeaderEvent{first}); base.Hash != first.Hash {
			require.ErrorIs(t, err, ErrRecovered)
		} else {
			require.NoError(t, err)
		}
		require.Equal(t, base.Hash, l2.LIB().Hash)
		require.Equal(t, []block.Schedule{r2.Schedule}, l2.ChildSchedules())
		require.Equal(t, SignRecord{Kind: RecordRecovery, Recovery: r2.Hash}, l2.drain().Records[0])
		l2.slotBegins(60)
		l2.step(HeaderEvent{l2.child(base.Hash, 52, withRecovery(&r2))})
	}
}

// A base that ends an epoch, with a change under way, settles on the recovery's schedule; epochs go on from it.
func TestRecoveryAtTheEndOfAnEpoch(t *testing.T) {
	c := newChainLab(t, func(c *Config) { c.Params.EpochBlocks = 4 })
	c.more(3)
	base, ok := c.Get(c.Head().Hash)
	require.True(t, ok)
	for base.Height%4 != 0 {
		c.more(1)
		base, _ = c.Get(c.Head().Hash)
	}
	r := recoverAt(base, base.Slot+10, scheduleOf(0, 1, 4, 5))
	u := &c.rules
	u.recoveries = []Recovery{r}
	n := c.tree.nodes[base.Hash]
	n.next = u.regimeBehind(n.Point(), n.next)
	require.Equal(t, settled, n.next.stage)
	require.Equal(t, r.Hash, n.next.domain)
	changed := n.next.after(&c.p, &Header{Height: base.Height + 4, Next: firstN(4)}, 0)
	require.Equal(t, announced, changed.stage)
	require.Equal(t, r.Hash, changed.domain, "a change of schedule stays in the domain")
}

// The drill in the small: 8 of 21 producers are lost, the chain is final no more; survivors and new producers go on from the
// highest justified block. Nothing final is lost, and those that come back with their old folders reach nothing.
func TestRecoverEightOfTwentyOne(t *testing.T) {
	const all, lost = 21, 8
	p := testParams()
	p.TurnSlots = 2
	net := newNetwork(t, all+lost, p, firstN(all))
	net.run(20 * time.Second)
	survivors := []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}
	for i := all - lost; i < all; i++ {
		net.peers[i].down = true
	}
	net.run(60 * time.Second)
	_, stuck := net.lib()
	net.run(80 * time.Second)
	_, high := net.lib()
	require.Equal(t, stuck, high, "too few vote")

	var base Header
	for _, i := range survivors {
		if h, _ := net.peers[i].Get(net.peers[i].Justified().Hash); h.Slot >= base.Slot {
			base = h
		}
	}
	require.GreaterOrEqual(t, base.Height, high)
	ids := append([]int{}, survivors...)
	for i := range lost {
		ids = append(ids, all+i)
	}
	r := recoverAt(base, uint64(net.at/p.Slot())+20, scheduleOf(ids...))
	apply := func(i int) {
		net.peers[i].cfg.Recoveries = []Recovery{r}
		net.peers[i].restart(true)
	}
	for _, i := range ids {
		apply(i)
	}
	for i := all - lost; i < all; i++ {
		net.peers[i].restart(true) // they come back, and know nothing
	}
	net.run(140 * time.Second)
	for _, i := range ids {
		require.Greater(t, net.peers[i].LIB().Height, base.Height+20, "producer %d", i)
		require.Empty(t, net.peers[i].evid)
	}
	for i := all - lost; i < all; i++ {
		require.LessOrEqual(t, net.peers[i].LIB().Height, base.Height)
		net.peers[i].store = nil // set aside
		apply(i)
	}
	net.run(200 * time.Second)
	low, high := net.lib()
	require.Less(t, high-low, uint64(10), "all follow")
}

// Answers of the schedule before a recovery, while its base is not here, end no first sync: it is the recovery's producers that
// must have answered.
func TestFirstSyncIsOfTheNewSchedule(t *testing.T) {
	hs, r, _ := lostQuorum(t)
	l := newLab(t, func(c *Config) { c.Bugs.SkipFirstSync, c.Signed, c.Recoveries = false, nil, []Recovery{r} })
	s := block.Session{Number: 1}
	l.step(Begin{s})
	l.slotBegins(40)
	for _, i := range []int{1, 2, 3} {
		l.step(Heard{Producer: account(i), Session: s})
	}
	require.False(t, l.synced())
	l.step(HeaderEvent{hs[0]})
	l.step(HeaderEvent{hs[1]})
	l.drain()
	require.Equal(t, r.Base, l.LIB().Point())
	require.False(t, l.synced(), "producers 4 and 5 have not answered")
	l.step(Heard{Producer: account(4), Session: s})
	l.step(Heard{Producer: account(5), Session: s})
	require.True(t, l.synced())
}
