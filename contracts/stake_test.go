package contracts

import (
	"math/big"
	"testing"

	"github.com/ethereum/go-ethereum/crypto"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/block"
)

func TestRegister(t *testing.T) {
	w := newWorld(t, 4, 2, nil)
	o, thief := w.ops[4], w.ops[5]
	w.refused(o, registration(t, o, o.bls), "deposit at least the minimum stake")
	w.deposit(o, stake(10))
	w.deposit(thief, stake(10))

	pk := o.bls.PublicKey()
	k128 := g1(t, pk)
	digest := block.PossessionDigest(testChainID, o.account, pk)
	proof := g2(t, o.bls.Sign(digest[:]))
	w.refused(thief, prods.PackRegister(pk[:], k128, proof), "proof of possession")
	other := newOperator(t, 50).bls.PublicKey()
	w.refused(o, prods.PackRegister(other[:], k128, proof), "two different points")
	negative := pk
	negative[0] ^= 0x20
	w.refused(o, prods.PackRegister(negative[:], k128, proof), "two different points")
	w.refused(o, prods.PackRegister(negative[:], g1(t, negative), proof), "proof of possession")
	w.refused(o, prods.PackRegister(pk[:47], k128, proof), "48 bytes")
	w.refused(o, prods.PackRegister(pk[:], k128, proof[:255]), "256 bytes")
	wrongChain := block.PossessionDigest(testChainID+1, o.account, pk)
	w.refused(o, prods.PackRegister(pk[:], k128, g2(t, o.bls.Sign(wrongChain[:]))), "proof of possession")
	stranger := newOperator(t, 60)
	w.refused(stranger, registration(t, stranger, stranger.bls), "no node of the caller has the producer role")

	w.do(o, prods.PackRegister(pk[:], k128, proof))
	e, err := prods.UnpackRegisteredEvent(w.logs[0])
	require.NoError(t, err)
	require.Equal(t, o.account, e.Account)
	require.Equal(t, pk[:], e.Key)
	t.Logf("gas of a registration: %d", w.gas)
	w.refused(o, prods.PackRegister(pk[:], k128, proof), "registered before")
	digest = block.PossessionDigest(testChainID, thief.account, pk) // even its true holder cannot give it to another account
	w.refused(thief, prods.PackRegister(pk[:], k128, g2(t, o.bls.Sign(digest[:]))), "registered before")
	genesisKey := w.ops[0].bls
	w.refused(thief, registration(t, thief, genesisKey), "registered before")
}

// A seated producer's new key takes effect with the next schedule; the old one still convicts him.
func TestKeyChange(t *testing.T) {
	w := newWorld(t, 4, 1, nil)
	o, next := w.ops[1], newOperator(t, 77).bls
	w.do(o, registration(t, o, next))
	require.Equal(t, o.bls.PublicKey(), w.schedule()[1].Key)
	require.Equal(t, next.PublicKey(), w.endEpoch()[1].Key)

	s := point(1, "s")
	a, b := w.vote(o, prevote(s, point(2, "a"))), w.vote(o, prevote(s, point(2, "b")))
	w.do(w.ops[4], prods.PackEvidenceVotes(g1(t, o.bls.PublicKey()), a, b, nil, nil))
	require.True(t, w.candidate(o).Guilty)
}

func TestVotes(t *testing.T) {
	w := newWorld(t, 4, 1, nil)
	voter := w.ops[4]
	w.deposit(voter, stake(30))
	vote := func(o operator, n int64) []byte { return prods.PackVote(o.account, stake(n)) }
	w.refused(voter, vote(w.ops[0], 31), "free stake is smaller")
	w.refused(voter, vote(w.ops[0], 0), "nothing to vote with")
	w.refused(voter, vote(voter, 1), "no such candidate")
	w.do(voter, vote(w.ops[0], 10))
	w.do(voter, vote(w.ops[0], 5))
	w.do(voter, vote(w.ops[3], 15))
	w.refused(voter, vote(w.ops[3], 1), "free stake is smaller")
	require.Equal(t, stake(115), w.candidate(w.ops[0]).Votes)
	require.Equal(t, stake(112), w.candidate(w.ops[3]).Votes)
	bs, err := prods.UnpackBallots(w.view(prods.PackBallots(voter.account)))
	require.NoError(t, err)
	require.Equal(t, []BaseBallot{{w.ops[0].account, stake(15)}, {w.ops[3].account, stake(15)}}, bs)

	w.refused(voter, prods.PackUnvote(w.ops[0].account, stake(16)), "fewer votes")
	w.refused(voter, prods.PackUnvote(w.ops[1].account, stake(1)), "does not vote for")
	w.do(voter, prods.PackUnvote(w.ops[0].account, stake(15)))
	require.Equal(t, stake(100), w.candidate(w.ops[0]).Votes)
	require.Equal(t, stake(15), w.account(voter).Voted)
	_, err = w.call(voter.account, ProducersAddress, nil, prods.PackDeposit())
	require.ErrorContains(t, err, "no value")
}

func TestSlashTakesVotesFromOthersToo(t *testing.T) {
	w := newWorld(t, 4, 1, nil)
	w.seconds = testGenesis + 30
	o := w.ops[1] // stake 99
	w.do(o, prods.PackUnvote(o.account, stake(80)))
	w.do(o, prods.PackVote(w.ops[0].account, stake(70)))
	w.do(w.ops[4], sealEvidence(t, header(t, o, 20, point(1, "p").Hash, "a"), header(t, o, 20, point(1, "p").Hash, "b")))
	a := w.account(o)
	half := new(big.Int).Div(stake(99), big.NewInt(2))
	require.Equal(t, half, a.Stake)
	require.Equal(t, half, a.Voted)
	given := new(big.Int).Add(w.candidate(o).Votes, new(big.Int).Sub(w.candidate(w.ops[0]).Votes, stake(100)))
	require.Equal(t, half, given)
}

func TestWithdrawal(t *testing.T) {
	w := newWorld(t, 4, 1, nil)
	voter := w.ops[4]
	w.deposit(voter, stake(30))
	w.do(voter, prods.PackVote(w.ops[0].account, stake(20)))
	ask := func(n int64) []byte { return prods.PackRequestWithdrawal(stake(n)) }
	w.refused(voter, ask(11), "unvote first")
	w.refused(voter, prods.PackWithdraw(), "nothing was requested")
	w.do(voter, ask(10))
	w.refused(voter, prods.PackWithdraw(), "delay is not over")
	w.seconds += w.set.WithdrawSeconds - 1
	w.refused(voter, prods.PackWithdraw(), "delay is not over")
	w.seconds++
	before := w.state.GetBalance(voter.account).ToBig()
	w.do(voter, prods.PackWithdraw())
	require.Equal(t, new(big.Int).Add(before, stake(10)), w.state.GetBalance(voter.account).ToBig())
	w.refused(voter, prods.PackWithdraw(), "nothing was requested")
	require.Equal(t, stake(100+99+98+97+20), w.state.GetBalance(ProducersAddress).ToBig())
	totals, err := prods.UnpackTotals(w.view(prods.PackTotals()))
	require.NoError(t, err)
	require.Equal(t, stake(100+99+98+97+20), totals.Staked)
}

// A producer's stake is locked until the change of schedule that removes him is complete, and the delay after it.
func TestLeavingProducerIsLocked(t *testing.T) {
	w := newWorld(t, 4, 1, nil)
	o := w.ops[0] // stake 100, minimum 10
	w.do(o, prods.PackUnvote(o.account, stake(95)))
	w.refused(o, prods.PackRequestWithdrawal(stake(91)), "resign first")
	w.do(o, prods.PackRequestWithdrawal(stake(90)))
	w.do(o, prods.PackResign())
	w.refused(o, prods.PackResign(), "no candidate")
	w.seconds += w.set.WithdrawSeconds
	w.refused(o, prods.PackWithdraw(), "still in a schedule")

	require.Equal(t, []int{0, 1, 2, 3}, w.who(w.endEpoch()), "without him the schedule would be too small")
	w.standFor(w.ops[4], stake(20))
	w.do(w.ops[4], prods.PackReportStandby())
	require.Equal(t, []int{4, 1, 2, 3}, w.who(w.endEpoch()))
	w.seconds += w.set.WithdrawSeconds
	w.refused(o, prods.PackWithdraw(), "still in a schedule") // the change may be under way
	w.endEpoch()
	w.refused(o, prods.PackWithdraw(), "delay is not over")
	w.seconds += w.set.WithdrawSeconds - 1
	w.refused(o, prods.PackWithdraw(), "delay is not over")
	w.seconds++
	w.do(o, prods.PackWithdraw())
	require.Equal(t, stake(10), w.account(o).Stake)

	w.do(w.ops[1], prods.PackPrune(o.account))
	w.refused(w.ops[1], prods.PackPrune(o.account), "can be pruned")
	w.refused(w.ops[1], prods.PackPrune(w.ops[2].account), "can be pruned")
	list, err := prods.UnpackCandidates(w.view(prods.PackCandidates()))
	require.NoError(t, err)
	require.Len(t, list, 4)
	for i, a := range list {
		c, err := prods.UnpackCandidate(w.view(prods.PackCandidate(a)))
		require.NoError(t, err)
		require.Equal(t, uint32(i+1), c.Info.Place)
	}
	w.do(o, prods.PackRejoin())
	w.refused(o, prods.PackRejoin(), "has not resigned")
	require.Equal(t, uint32(5), w.candidate(o).Place)
}

// What was requested back is slashed as well while it is here.
func TestRequestedStakeIsSlashed(t *testing.T) {
	w := newWorld(t, 4, 0, nil)
	o := w.ops[0]
	w.do(o, prods.PackUnvote(o.account, stake(60)))
	w.do(o, prods.PackRequestWithdrawal(stake(60)))
	p := crypto.Keccak256Hash([]byte("p"))
	w.do(w.ops[1], sealEvidence(t, header(t, o, 2, p, "a"), header(t, o, 2, p, "b")))
	require.Equal(t, stake(20), w.account(o).Stake)
	require.Equal(t, stake(30), w.account(o).Leaving)
}
