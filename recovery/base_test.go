package recovery

import (
	"encoding/json"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/block"
)

// reportOf is producer i's, with LIB and newest justified block in these slots, of branch 1.
func reportOf(t testing.TB, ps []person, s block.Schedule, i int, lib, justified uint64) *Report {
	d := block.Domain{Genesis: genesisHash}
	q := s.Quorum()
	l, j := blockAt(lib, 1), blockAt(justified, 1)
	r := &Report{
		Genesis: genesisHash, Producer: ps[i].account, Time: 1000, LIB: l, FC: certificate(t, d, block.Precommit, l.Point(), l.Point(), s, ps[:q]),
		Justified: j, Schedules: []block.Schedule{s}, Precommit: j.Point(), NewestSlot: justified + 1, Proof: ps[i].seat().Proof,
	}
	if justified > lib {
		r.QC = certificate(t, d, block.Prevote, l.Point(), j.Point(), s, ps[:q])
	}
	return r.signedBy(t, ps[i])
}

func (r *Report) signedBy(t testing.TB, p person) *Report {
	r.Seal = p.signs(t, r.Digest())
	return r
}

func TestBaseIsTheHighestJustifiedBlock(t *testing.T) {
	ps, s := people(t, 4)
	a, b := reportOf(t, ps, s, 0, 18, 22), reportOf(t, ps, s, 1, 20, 20)
	for _, order := range [][]*Report{{a, b}, {b, a}} {
		c, err := ChooseBase(order)
		require.NoError(t, err)
		require.Equal(t, blockAt(22, 1), c.Base.Block)
		require.Equal(t, b.FC, c.Base.FC, "the newest proof of a final block")
		require.Equal(t, ps[0].account, c.From)
		require.Equal(t, uint64(23), c.NewestSlot)
		require.ElementsMatch(t, []Seat{ps[0].seat(), ps[1].seat()}, c.Survivors)
		require.ElementsMatch(t, []common.Address{ps[2].account, ps[3].account}, c.Lost)
		require.False(t, c.MayUndo)
		require.False(t, c.Needless)
	}
}

// What the number of reports means, for n = 4 (f = 1, q = 3) and n = 7 (f = 2, q = 5).
func TestHowManyAreLost(t *testing.T) {
	for _, x := range []struct {
		n, reports        int
		mayUndo, needless bool
		bears             int
		needsTrust        bool
	}{
		{4, 4, false, true, 2, false}, {4, 3, false, true, 1, false}, {4, 2, false, false, 0, true}, {4, 1, true, false, 0, true},
		{7, 5, false, true, 2, false}, {7, 4, false, false, 1, true}, {7, 3, false, false, 0, true}, {7, 2, true, false, 0, true},
		{6, 4, false, false, 2, false},
	} {
		ps, s := people(t, x.n)
		var reports []*Report
		for i := range x.reports {
			reports = append(reports, reportOf(t, ps, s, i, 18, 20))
		}
		c, err := ChooseBase(reports)
		require.NoError(t, err)
		require.Equal(t, x.mayUndo, c.MayUndo, "%+v", x)
		require.Equal(t, x.needless, c.Needless, "%+v", x)
		require.Equal(t, x.bears, c.Bears, "%+v", x)
		require.Equal(t, x.needsTrust, c.NeedsTrust, "%+v", x)
		require.Len(t, c.Lost, x.n-x.reports)
	}
}

// A survivor that may have forgotten what it precommitted proves no more than a lost one, and keeps its seat.
func TestForgetfulSurvivorsProveNothing(t *testing.T) {
	ps, s := people(t, 4)
	a, b := reportOf(t, ps, s, 0, 18, 20), reportOf(t, ps, s, 1, 18, 20)
	b.Incomplete = true
	c, err := ChooseBase([]*Report{a, b.signedBy(t, ps[1])})
	require.NoError(t, err)
	require.True(t, c.MayUndo, "the final block may have been precommitted by the two lost ones and the forgetful one")
	require.Len(t, c.Survivors, 2)
	require.Len(t, c.Lost, 2)
}

// While two schedules count, losing a quorum of one of them is enough to lose what was final.
func TestLostOfTwoSchedules(t *testing.T) {
	ps, s := people(t, 8)
	old, next := s[:4], s[1:8]
	r := reportOf(t, ps, s, 3, 18, 18)
	r.Schedules = []block.Schedule{old, next}
	c, err := ChooseBase([]*Report{r.signedBy(t, ps[3])})
	require.NoError(t, err)
	require.True(t, c.MayUndo)
	require.Len(t, c.Lost, 7)
	var reports []*Report
	for _, i := range []int{1, 2, 3, 4} {
		r := reportOf(t, ps, s, i, 18, 18)
		r.Schedules = []block.Schedule{old, next}
		reports = append(reports, r.signedBy(t, ps[i]))
	}
	c, err = ChooseBase(reports)
	require.NoError(t, err)
	require.False(t, c.MayUndo)
	require.False(t, c.Needless, "three of seven lost are more than f of the second")

	// The worse of both counts, whichever stands first.
	for _, order := range [][]block.Schedule{{s[:4], s[4:8]}, {s[4:8], s[:4]}} {
		var reports []*Report
		for _, i := range []int{0, 1, 2, 3, 4} {
			r := reportOf(t, ps, s, i, 18, 18)
			r.Schedules = order
			reports = append(reports, r.signedBy(t, ps[i]))
		}
		c, err = ChooseBase(reports)
		require.NoError(t, err)
		require.True(t, c.MayUndo)
		require.False(t, c.Needless)
	}
}

func TestNewestReportOfAProducerCounts(t *testing.T) {
	ps, s := people(t, 4)
	before, after := reportOf(t, ps, s, 0, 18, 18), reportOf(t, ps, s, 0, 18, 22)
	after.Time++
	after.signedBy(t, ps[0])
	for _, order := range [][]*Report{{before, after}, {after, before}} {
		c, err := ChooseBase(order)
		require.NoError(t, err)
		require.Equal(t, uint64(22), c.Base.Slot)
		require.Len(t, c.Survivors, 1)
	}
}

func TestForksAreRefused(t *testing.T) {
	ps, s := people(t, 4)
	a := reportOf(t, ps, s, 0, 18, 22)

	other := reportOf(t, ps, s, 1, 18, 22)
	other.Justified.Hash[0] = 2
	other.QC = certificate(t, other.Domain(), block.Prevote, other.LIB.Point(), other.Justified.Point(), s, ps[:3])
	_, err := ChooseBase([]*Report{a, other.signedBy(t, ps[1])})
	require.ErrorContains(t, err, "two blocks of slot 22 justified")

	final := reportOf(t, ps, s, 1, 18, 18)
	final.LIB.Hash[0] = 2
	final.Justified = final.LIB
	final.FC = certificate(t, final.Domain(), block.Precommit, final.LIB.Point(), final.LIB.Point(), s, ps[:3])
	_, err = ChooseBase([]*Report{a, final.signedBy(t, ps[1])})
	require.ErrorContains(t, err, "different final blocks of height 9")

	higher := reportOf(t, ps, s, 1, 20, 20)
	higher.LIB.Height = 40
	higher.Justified = higher.LIB
	_, err = ChooseBase([]*Report{a, higher.signedBy(t, ps[1])})
	require.ErrorContains(t, err, "does not descend from")

	root := reportOf(t, ps, s, 1, 18, 22)
	root.Justified.StateRoot[0]++
	_, err = ChooseBase([]*Report{a, root.signedBy(t, ps[1])})
	require.ErrorContains(t, err, "different heights or state roots")

	foreign := reportOf(t, ps, s, 1, 18, 18)
	foreign.Number, foreign.Recovery = 1, common.Hash{1}
	_, err = ChooseBase([]*Report{a, foreign.signedBy(t, ps[1])})
	require.ErrorContains(t, err, "in domain 1")
	_, err = ChooseBase(nil)
	require.ErrorIs(t, err, ErrInvalid)
}

func TestReportsAreSignedWholeAndProven(t *testing.T) {
	ps, s := people(t, 4)
	good := reportOf(t, ps, s, 0, 18, 22)
	require.NoError(t, good.Check())
	y, err := DecodeReport(good.Encode())
	require.NoError(t, err)
	require.Equal(t, good.Encode(), y.Encode())
	text, err := json.Marshal(good)
	require.NoError(t, err)
	var z Report
	require.NoError(t, json.Unmarshal(text, &z))
	require.Equal(t, good.Encode(), z.Encode())

	for name, change := range map[string]func(*Report){
		"genesis": func(r *Report) { r.Genesis[0]++ }, "time": func(r *Report) { r.Time++ }, "LIB": func(r *Report) { r.LIB.StateRoot[0]++ },
		"precommit": func(r *Report) { r.Precommit.Slot++ }, "newest slot": func(r *Report) { r.NewestSlot++ }, "incomplete": func(r *Report) { r.Incomplete = true }, "proof": func(r *Report) { r.Proof[0]++ }, "justified": func(r *Report) { r.Justified.StateRoot[0]++ },
		"producer": func(r *Report) { r.Producer = ps[1].account },
	} {
		r := reportOf(t, ps, s, 0, 18, 22)
		change(r)
		require.ErrorIs(t, r.Check(), ErrInvalid, name)
	}
	for name, change := range map[string]func(*Report){
		"an outsider": func(r *Report) { r.Schedules = []block.Schedule{s[1:]} },
		"a QC below the quorum": func(r *Report) {
			r.QC = certificate(t, r.Domain(), block.Prevote, r.LIB.Point(), r.Justified.Point(), s, ps[:2])
		},
		"a QC of another domain": func(r *Report) {
			r.QC = certificate(t, block.Domain{Genesis: common.Hash{1}}, block.Prevote, r.LIB.Point(), r.Justified.Point(), s, ps[:3])
		},
		"a QC of another block":       func(r *Report) { r.Justified = blockAt(24, 1) },
		"no QC":                       func(r *Report) { r.QC = nil },
		"no FC":                       func(r *Report) { r.FC = nil },
		"an FC of another block":      func(r *Report) { r.LIB = blockAt(16, 1) },
		"a justified block below LIB": func(r *Report) { r.LIB = blockAt(26, 1) },
		"no schedule":                 func(r *Report) { r.Schedules = nil },
		"a recovery of domain 0":      func(r *Report) { r.Recovery[0]++ },
	} {
		r := reportOf(t, ps, s, 0, 18, 22)
		change(r)
		require.ErrorIs(t, r.signedBy(t, ps[0]).Check(), ErrInvalid, name)
	}
}

// A survivor that waits for the base of the recovery in force holds certificates of the domain before: they are checked in it.
func TestReportOfOneThatWaitsForABase(t *testing.T) {
	ps, s := people(t, 4)
	r := reportOf(t, ps, s, 0, 18, 22)
	r.Number, r.Recovery = 1, common.Hash{1}
	require.NoError(t, r.signedBy(t, ps[0]).Check())
	r.Under = r.Recovery
	require.ErrorIs(t, r.signedBy(t, ps[0]).Check(), ErrInvalid, "its QC is of the domain before")
	r.QC = certificate(t, block.Domain{Genesis: genesisHash, Recovery: r.Recovery}, block.Prevote, r.LIB.Point(), r.Justified.Point(), s, ps[:3])
	require.NoError(t, r.signedBy(t, ps[0]).Check())
	text, err := json.Marshal(r)
	require.NoError(t, err)
	var y Report
	require.NoError(t, json.Unmarshal(text, &y))
	require.Equal(t, r.Encode(), y.Encode())
	r.Number, r.Recovery = 0, common.Hash{}
	require.ErrorIs(t, r.signedBy(t, ps[0]).Check(), ErrInvalid, "a chain that was never recovered")
}

// A recovery goes on from the base of the one before, or from a block above it.
func TestBaseIsNotBelowThatOfTheRecoveryBefore(t *testing.T) {
	before := &Signed{Statement: Statement{Base: Base{Block: blockAt(20, 1)}}}
	require.NoError(t, CheckBaseBehind(blockAt(20, 1), before))
	require.NoError(t, CheckBaseBehind(blockAt(22, 1), before))
	for _, base := range []Block{blockAt(18, 1), blockAt(20, 2), {Height: 99, Slot: 20, Hash: common.Hash{5}}} {
		require.ErrorIs(t, CheckBaseBehind(base, before), ErrInvalid)
	}
}
