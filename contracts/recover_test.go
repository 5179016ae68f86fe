package contracts

import (
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"
)

func seatOf(o operator) Seat { return Seat{o.account, o.bls.PublicKey()} }

// After a recovery the contract elects from its schedule: newcomers stand with their keys, the lost are no candidates, and who was
// in the schedule before stays bound until the next change.
func TestRecoverChangesTheSchedule(t *testing.T) {
	w := newWorld(t, 4, 3, nil)
	fresh := w.ops[4:6]
	before := w.schedule()
	r := RecoveredSchedule{
		Recovery: common.Hash{7}, Seats: []Seat{seatOf(w.ops[0]), seatOf(fresh[0]), seatOf(w.ops[1]), seatOf(fresh[1])},
		Lost: []common.Address{w.ops[2].account, w.ops[3].account}, Seconds: 5000,
	}
	Recover(w.state, r)
	require.Equal(t, []int{0, 4, 1, 5}, w.who(w.schedule()))
	for i, s := range w.schedule() {
		require.Equal(t, r.Seats[i].Key, s.Key)
	}
	require.NotEqual(t, before, w.schedule())
	require.Equal(t, []common.Hash{{7}}, Recoveries(w.state))
	for _, o := range fresh {
		c := w.candidate(o)
		require.NotZero(t, c.Key)
		require.NotZero(t, c.Place)
		require.Equal(t, uint8(1), c.Seated)
		pk := o.bls.PublicKey()
		owner, err := prods.UnpackKeyOwner(w.view(prods.PackKeyOwner(pk[:])))
		require.NoError(t, err)
		require.Equal(t, o.account, owner)
	}
	list, err := prods.UnpackCandidates(w.view(prods.PackCandidates()))
	require.NoError(t, err)
	require.Len(t, list, 6)
	require.Equal(t, uint8(3), w.candidate(w.ops[0]).Seated)
	require.Equal(t, stake(100), w.candidate(w.ops[0]).Votes, "votes stay")
	for _, o := range w.ops[2:4] {
		require.True(t, w.candidate(o).Resigned)
		require.Equal(t, uint8(2), w.candidate(o).Seated)
	}

	require.Equal(t, []int{0, 4, 1, 5}, w.who(w.endEpoch(Missed{1, 100})), "no fewer than the least number, whoever has no stake yet")
	require.Equal(t, uint64(100), w.candidate(fresh[0]).Missed, "turns are counted by the new seats")
	require.Zero(t, w.candidate(w.ops[2]).Seated)
	require.NotZero(t, w.candidate(w.ops[2]).LeftAt)

	// The newcomers take stake and votes, and a lost one comes back by itself.
	for _, o := range fresh {
		w.deposit(o, stake(500))
		w.do(o, prods.PackVote(o.account, stake(500)))
	}
	w.do(w.ops[2], prods.PackRejoin())
	w.do(w.ops[2], prods.PackReportStandby())
	require.Equal(t, []int{0, 4, 1, 5}, w.who(w.endEpoch()), "they have most votes")
	require.False(t, w.candidate(w.ops[2]).Resigned)
	w.height += w.set.EpochBlocks
	w.do(w.ops[1], prods.PackResign())
	w.do(w.ops[2], prods.PackReportStandby())
	require.Equal(t, []int{0, 4, 2, 5}, w.who(w.endEpoch()))
}

// A second recovery, a longer and a shorter schedule, an account with another key, one that was jailed, and one without a change.
func TestRecoverAgain(t *testing.T) {
	w := newWorld(t, 4, 4, nil)
	Recover(w.state, RecoveredSchedule{Recovery: common.Hash{1}, Seats: []Seat{seatOf(w.ops[0]), seatOf(w.ops[1]), seatOf(w.ops[4]), seatOf(w.ops[5]), seatOf(w.ops[6])}, Seconds: 10})
	require.Equal(t, []int{0, 1, 4, 5, 6}, w.who(w.schedule()))
	other := seatOf(w.ops[1])
	other.Key = w.ops[7].bls.PublicKey()
	Recover(w.state, RecoveredSchedule{Recovery: common.Hash{2}, Seats: []Seat{other, seatOf(w.ops[0])}, Lost: []common.Address{w.ops[4].account, w.ops[7].account}, Seconds: 20})
	require.Equal(t, []common.Hash{{1}, {2}}, Recoveries(w.state))
	s := w.schedule()
	require.Len(t, s, 2)
	require.Equal(t, other, s[0])
	require.Equal(t, seatOf(w.ops[0]), s[1])
	require.Equal(t, uint8(2), w.candidate(w.ops[4]).Seated)
	require.Zero(t, w.candidate(w.ops[2]).Seated)
	require.Equal(t, uint64(20), w.candidate(w.ops[2]).LeftAt)
	require.Zero(t, w.candidate(w.ops[7]).Key, "who never was a candidate does not become one by being lost")
	require.Equal(t, uint32(1), w.candidate(w.ops[0]).Key, "its key is the one that it had")
}

// Who gets a seat by a recovery stands again, whether it had resigned or was in jail; a key that belongs to another account stays
// with it.
func TestRecoverSeatsWhoDidNotStand(t *testing.T) {
	w := newWorld(t, 7, 1, nil)
	w.standFor(w.ops[7], stake(50))
	w.do(w.ops[7], prods.PackReportStandby())
	require.Equal(t, []int{0, 1, 7, 3, 4, 5, 6}, w.who(w.endEpoch(Missed{2, 9})))
	require.NotZero(t, w.candidate(w.ops[2]).JailedUntil)
	w.do(w.ops[3], prods.PackResign())
	require.True(t, w.candidate(w.ops[3]).Resigned)

	borrowed := Seat{w.ops[5].account, w.ops[0].bls.PublicKey()}
	Recover(w.state, RecoveredSchedule{Recovery: common.Hash{1}, Seats: []Seat{seatOf(w.ops[2]), seatOf(w.ops[3]), seatOf(w.ops[4]), borrowed}, Seconds: 10})
	require.Equal(t, []int{2, 3, 4, 5}, w.who(w.schedule()))
	require.Zero(t, w.candidate(w.ops[2]).JailedUntil)
	require.False(t, w.candidate(w.ops[3]).Resigned)
	require.Equal(t, borrowed, w.schedule()[3])
	pk := w.ops[0].bls.PublicKey()
	owner, err := prods.UnpackKeyOwner(w.view(prods.PackKeyOwner(pk[:])))
	require.NoError(t, err)
	require.Equal(t, w.ops[0].account, owner)
	w.refused(w.ops[2], prods.PackUnjail(), "not in jail")
}

// The schedule before a recovery is bound until the next election, and leaves then, as after any change of schedule; so a seat
// that both have does not count as left.
func TestWhoLeavesByARecovery(t *testing.T) {
	w := newWorld(t, 4, 4, nil)
	Recover(w.state, RecoveredSchedule{Recovery: common.Hash{1}, Seats: []Seat{seatOf(w.ops[0]), seatOf(w.ops[4]), seatOf(w.ops[5]), seatOf(w.ops[6])}, Seconds: 10})
	Recover(w.state, RecoveredSchedule{Recovery: common.Hash{2}, Seats: []Seat{seatOf(w.ops[0]), seatOf(w.ops[1]), seatOf(w.ops[4]), seatOf(w.ops[7])}, Seconds: 20})
	for i, want := range []struct {
		seated uint8
		left   uint64
	}{{3, 0}, {1, 0}, {0, 20}, {0, 20}, {3, 0}, {2, 0}, {2, 0}, {1, 0}} {
		c := w.candidate(w.ops[i])
		require.Equal(t, want.seated, c.Seated, "account %d", i)
		require.Equal(t, want.left, c.LeftAt, "account %d", i)
	}
	require.Equal(t, []int{0, 1, 4, 7}, w.who(w.endEpoch()))
	require.Zero(t, w.candidate(w.ops[5]).Seated)
	require.NotZero(t, w.candidate(w.ops[5]).LeftAt)
}

// With a full list of candidates newcomers have their seats and stand for none.
func TestRecoverWithAFullList(t *testing.T) {
	w := newWorld(t, MaxCandidates, 1, func(p *ProducersGenesis, _ *MembersGenesis) { p.Seats, p.MinProducers = MaxSeats, 4 })
	fresh := w.ops[MaxCandidates]
	Recover(w.state, RecoveredSchedule{Recovery: common.Hash{1}, Seats: []Seat{seatOf(w.ops[0]), seatOf(w.ops[1]), seatOf(w.ops[2]), seatOf(fresh)}, Seconds: 10})
	require.Equal(t, []int{0, 1, 2, MaxCandidates}, w.who(w.schedule()))
	require.Zero(t, w.candidate(fresh).Place)
	list, err := prods.UnpackCandidates(w.view(prods.PackCandidates()))
	require.NoError(t, err)
	require.Len(t, list, MaxCandidates)
	require.GreaterOrEqual(t, len(w.endEpoch()), 4, "elections go on")
}
