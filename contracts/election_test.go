package contracts

import (
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"
)

func TestQuietEpochKeepsTheSchedule(t *testing.T) {
	w := newWorld(t, 4, 0, nil)
	before := w.schedule()
	require.Equal(t, before, w.endEpoch())
	require.Equal(t, before, w.schedule())
	require.Equal(t, before, w.endEpoch(Missed{0, 100}, Missed{1, 100}), "nobody takes the seats")
	require.Equal(t, uint64(100), w.candidate(w.ops[0]).Missed)
	require.Equal(t, before, w.endEpoch(Missed{4, 9}, Missed{65535, 9}), "seats that do not exist are passed over")
}

func TestOnlyTheSystemEndsAnEpochAndOnce(t *testing.T) {
	w := newWorld(t, 4, 0, nil)
	w.refused(w.ops[0], EndEpochCall(0, nil), "only the system")
	w.endEpoch()
	_, err := w.call(SystemAddress, ProducersAddress, nil, EndEpochCall(0, nil))
	require.ErrorContains(t, err, "has ended")
	_, err = w.call(SystemAddress, ProducersAddress, nil, EndEpochCall(5, nil)) // calls may be left out
	require.NoError(t, err)
	w.refused(w.ops[0], prods.PackRevoke(w.ops[1].account), "only the Members contract")
}

func TestGenesisHashIsKept(t *testing.T) {
	w := newWorld(t, 4, 0, nil)
	genesisHash := func() common.Hash {
		h, err := prods.UnpackGenesisHash(w.view(prods.PackGenesisHash()))
		require.NoError(t, err)
		return h
	}
	w.height = 7000
	require.Equal(t, w.genesis, genesisHash(), "from the history contract")
	w.height = 9000
	require.Zero(t, genesisHash(), "out of reach")
	w.height = 100
	w.endEpoch()
	w.height = 9000
	require.Equal(t, w.genesis, genesisHash(), "stored at the end of the first epoch")
}

// A standby takes a seat only if it reported in the epoch that ends.
func TestStandbyNeedsAReport(t *testing.T) {
	w := newWorld(t, 4, 2, nil)
	s := w.ops[4]
	w.refused(s, prods.PackReportStandby(), "only a candidate")
	w.standFor(s, stake(500)) // more votes than anybody
	require.Equal(t, []int{0, 1, 2, 3}, w.who(w.endEpoch()), "no report")
	w.refused(w.ops[0], prods.PackReportStandby(), "has a seat")
	w.do(s, prods.PackReportStandby())
	w.height += w.set.EpochBlocks // that epoch's end brought no call: a change was under way
	require.Equal(t, []int{0, 1, 2, 3}, w.who(w.endEpoch()), "an old report")
	w.do(s, prods.PackReportStandby())
	e, err := prods.UnpackReportedEvent(w.logs[0])
	require.NoError(t, err)
	require.Equal(t, (w.height-1)/w.set.EpochBlocks, e.Epoch)
	require.Equal(t, []int{0, 1, 2, 4}, w.who(w.endEpoch()), "the least voted leaves, the others keep their seats")
	require.Equal(t, []int{0, 1, 2, 4}, w.who(w.endEpoch()), "an incumbent needs no report")
	require.Equal(t, uint8(3), w.candidate(s).Seated)
}

func TestElectionByVotes(t *testing.T) {
	w := newWorld(t, 3, 3, func(p *ProducersGenesis, _ *MembersGenesis) { p.Seats, p.MinProducers = 5, 1 })
	for i, n := range []int64{60, 50, 70} {
		w.standFor(w.ops[3+i], stake(n))
		w.do(w.ops[3+i], prods.PackReportStandby())
	}
	require.Equal(t, []int{0, 1, 2, 5, 3}, w.who(w.endEpoch()), "free seats go to the most voted that reported")
	w.do(w.ops[4], prods.PackReportStandby())
	w.do(w.ops[1], prods.PackUnvote(w.ops[1].account, stake(98))) // one wei-ether of votes left, fewer than any
	require.Equal(t, []int{0, 4, 2, 5, 3}, w.who(w.endEpoch()))
	w.do(w.ops[0], prods.PackUnvote(w.ops[0].account, stake(100)))
	require.Equal(t, []int{4, 2, 5, 3}, w.who(w.endEpoch()), "who has no votes leaves; seats close up")
}

// Of equal votes the earlier registered wins, and nothing depends on order of calls.
func TestTiesGoToTheEarlier(t *testing.T) {
	w := newWorld(t, 1, 3, func(p *ProducersGenesis, _ *MembersGenesis) { p.Seats, p.MinProducers = 3, 1 })
	for i := range 3 {
		w.standFor(w.ops[1+i], stake(40))
	}
	for i := 2; i >= 0; i-- {
		w.do(w.ops[1+i], prods.PackReportStandby())
	}
	require.Equal(t, []int{0, 1, 2}, w.who(w.endEpoch()))
}

func TestJail(t *testing.T) {
	w := newWorld(t, 7, 3, nil) // f = 2
	for i := range 3 {
		w.standFor(w.ops[7+i], stake(int64(50-i)))
	}
	report := func(n int) {
		for i := range n {
			w.do(w.ops[7+i], prods.PackReportStandby())
		}
	}
	report(3)
	require.Equal(t, []int{0, 1, 2, 3, 4, 5, 6}, w.who(w.endEpoch(Missed{0, 2})), "below the limit nobody is jailed")

	report(1)
	require.Equal(t, []int{0, 1, 7, 3, 4, 5, 6}, w.who(w.endEpoch(Missed{1, 3}, Missed{2, 9}, Missed{3, 4})), "the worst goes; one standby, one seat")
	o := w.ops[2]
	require.Equal(t, w.seconds+w.set.UnjailSeconds, w.candidate(o).JailedUntil)
	require.Equal(t, stake(98), w.account(o).Stake, "jail costs no stake")
	w.refused(o, prods.PackReportStandby(), "not in jail")
	w.refused(o, prods.PackUnjail(), "delay is not over")
	w.refused(w.ops[1], prods.PackUnjail(), "not in jail")

	w.do(w.ops[8], prods.PackReportStandby())
	w.do(w.ops[9], prods.PackReportStandby())
	w.seconds += w.set.UnjailSeconds
	w.do(o, prods.PackUnjail())
	w.do(o, prods.PackReportStandby())
	got := w.who(w.endEpoch(Missed{0, 5}, Missed{1, 5}, Missed{3, 8}, Missed{4, 6}))
	require.Equal(t, []int{0, 1, 7, 2, 8, 5, 6}, got, "at most f go, the two worst; their seats go by votes")
	require.Zero(t, w.candidate(w.ops[0]).JailedUntil)
}

// A schedule never shrinks below the minimum, whoever resigns.
func TestMinimum(t *testing.T) {
	w := newWorld(t, 5, 0, nil)
	for _, i := range []int{0, 2, 3} {
		w.do(w.ops[i], prods.PackResign())
	}
	got := w.who(w.endEpoch())
	require.Len(t, got, 4)
	require.Equal(t, []int{0, 1, 2, 4}, got, "the first to resign by seat are kept")
	require.Equal(t, []int{0, 1, 2, 4}, w.who(w.endEpoch()))
}

// Guilty producers count against f too, and go first.
func TestGuiltyGoAtMostF(t *testing.T) {
	w := newWorld(t, 7, 4, func(p *ProducersGenesis, _ *MembersGenesis) { p.MinProducers = 4 })
	p := common.Hash{1}
	for _, i := range []int{1, 3, 5} {
		o := w.ops[i]
		w.do(w.ops[0], sealEvidence(t, header(t, o, 2, p, "a"), header(t, o, 2, p, "b")))
	}
	require.Equal(t, []int{0, 2, 4, 5, 6}, w.who(w.endEpoch(Missed{0, 50})), "two leave without anybody for their seats, the third later")
	require.Equal(t, []int{0, 2, 4, 6}, w.who(w.endEpoch()))
	o := w.ops[2]
	w.do(w.ops[0], sealEvidence(t, header(t, o, 2, p, "a"), header(t, o, 2, p, "b")))
	require.Equal(t, []int{0, 2, 4, 6}, w.who(w.endEpoch()), "never below the minimum")
}

// The largest schedule and the most candidates fit the gas of a system call many times over.
func TestLargestElection(t *testing.T) {
	w := newWorld(t, MaxCandidates, 0, func(p *ProducersGenesis, _ *MembersGenesis) { p.Seats, p.MinProducers = MaxSeats, 4 })
	for i := MaxSeats; i < MaxCandidates; i++ {
		w.do(w.ops[i], prods.PackReportStandby())
		if i%2 == 0 { // so that half of them win seats
			w.deposit(w.ops[i], stake(500))
			w.do(w.ops[i], prods.PackVote(w.ops[i].account, stake(400)))
		}
	}
	var missed []Missed
	for i := range MaxSeats {
		missed = append(missed, Missed{uint16(i), uint32(i)})
	}
	seats := w.endEpoch(missed...)
	t.Logf("gas of the largest election: %d", w.gas)
	require.Less(t, w.gas, uint64(SystemCallGas/4))
	require.Len(t, seats, MaxSeats)
	seen := make(map[common.Address]bool)
	for _, s := range seats {
		require.False(t, seen[s.Account])
		seen[s.Account] = true
	}
}
