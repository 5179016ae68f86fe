package main

import (
	"math/big"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/contracts"
	"github.com/bornode/bornode/genesis"
)

// A candidate's life by commands alone: refused without a member node and without stake, registered, voted for, on
// standby, resigned, and paid after the delay.
func TestProducerLife(t *testing.T) {
	s := simulate(t)
	four, five := s.ops[4], s.ops[5]

	s.refused(5, exitRefused, "borcli member add PEER --roles producer --account "+five.account.Hex(), "producer", "register", "--stake", "100ether")
	s.refused(4, exitRefused, "add --stake 100ether", "producer", "register")
	s.refused(4, exitUsage, "too little", "producer", "register", "--stake", "99.5ether")
	s.refused(4, exitUsage, "no unit", "producer", "register", "--stake", "100")
	s.refused(0, exitRefused, "registered already", "producer", "register")
	other := filepath.Join(s.dir, "other.json")
	require.NoError(t, os.WriteFile(other, []byte(s.ops[0].withNewVoteKey(t).public(simChainID)), 0o600))
	s.refused(0, exitRefused, "cannot be changed yet: make a new account with bornode init --producer in a new folder", "producer", "register", "--keys", other)

	keys := filepath.Join(s.dir, "public.json")
	require.NoError(t, os.WriteFile(keys, []byte(four.public(simChainID+1)), 0o600))
	s.refused(4, exitUsage, "does not hold", "producer", "register", "--keys", keys)
	require.NoError(t, os.WriteFile(keys, []byte(four.public(simChainID)), 0o600))
	s.refused(5, exitUsage, "you sign as "+five.account.Hex(), "producer", "register", "--keys", keys)
	require.Contains(t, s.do(4, "producer", "register", "--keys", keys, "--stake", "150ether"), "it needs votes")
	p := s.info(4)
	require.Equal(t, "no votes", p.State)
	require.Equal(t, ethers(150).String(), p.Stake)
	key := four.signer.VoteKey()
	require.Equal(t, key[:], []byte(p.Key))

	who := four.account.Hex()
	s.refused(4, exitNotFound, "is no candidate", "producer", "vote", five.account.Hex(), "1ether")
	s.refused(4, exitRefused, "deposit 10 ether more (borcli producer stake 10ether)", "producer", "vote", who, "160ether")
	s.do(4, "producer", "stake", "10ether")
	s.do(4, "producer", "vote", who, "120ether")
	require.Equal(t, "standby", s.info(4).State)
	require.False(t, s.info(4).Reported)
	s.refused(0, exitRefused, "has a seat", "producer", "report")
	s.do(4, "producer", "report")
	require.True(t, s.info(4).Reported)
	s.refused(4, exitRefused, "already", "producer", "report")

	var list []producerInfo
	s.json(4, &list, "producer", "list")
	require.Len(t, list, 5)
	require.Equal(t, 3, *list[3].Seat)
	require.Equal(t, "active", list[3].State)
	require.Nil(t, list[4].Seat)
	require.Equal(t, "standby", list[4].State)
	require.Contains(t, s.do(4, "producer", "list"), "standby  120 ether  160 ether  yes")

	s.refused(4, exitUsage, "AMOUNT, or --all", "producer", "unvote", who)
	s.refused(4, exitRefused, "no more can be taken back", "producer", "unvote", who, "121ether")
	s.do(4, "producer", "unvote", who, "20ether")
	s.refused(4, exitUsage, "say what to withdraw", "producer", "withdraw")
	s.refused(4, exitRefused, "asked for nothing", "producer", "withdraw", "--pay")
	s.refused(4, exitRefused, "has 60 ether of free stake", "producer", "withdraw", "70ether")
	s.do(4, "producer", "unvote", who, "--all")
	s.refused(4, exitRefused, "minimum of 100 ether", "producer", "withdraw", "70ether")
	require.Contains(t, s.do(4, "producer", "withdraw", "60ether"), "60 ether is leaving: can be paid from")

	s.refused(4, exitRefused, "has not resigned", "producer", "rejoin")
	require.Contains(t, s.do(4, "producer", "resign"), "change of schedule")
	s.refused(4, exitRefused, "is no candidate", "producer", "resign")
	require.Equal(t, "resigned", s.info(4).State)
	s.do(4, "producer", "rejoin")
	require.Equal(t, "no votes", s.info(4).State)
	s.do(4, "producer", "resign")
	s.do(4, "producer", "withdraw", "--all")
	s.refused(4, exitRefused, "the delay is not over: 160 ether of "+who, "producer", "withdraw", "--pay")
	s.refused(4, exitRefused, "is not in jail", "producer", "unjail")
	s.pass(200_001 * time.Second)
	require.Contains(t, s.do(4, "producer", "withdraw", "--pay"), "paid 160 ether to "+who)
	require.Equal(t, "0", s.info(4).Stake)
	s.do(0, "producer", "prune", who)
	s.json(0, &list, "producer", "list")
	require.Len(t, list, 4)
	s.refused(0, exitReverted, "borcli producer list shows who resigned or is guilty", "producer", "prune", who)
}

// decide proposes as the first operator and has two others approve.
func (s *simulatedChain) decide(args ...string) *proposalInfo {
	s.t.Helper()
	var made struct {
		Proposal proposalInfo `json:"proposal"`
	}
	s.json(0, &made, args...)
	require.Equal(s.t, "open", made.Proposal.State)
	require.EqualValues(s.t, 1, made.Proposal.Approvals)
	require.EqualValues(s.t, 3, made.Proposal.Quorum)
	id := itoa(made.Proposal.ID)
	s.do(1, "proposal", "approve", id)
	require.Regexp(s.t, "(has taken effect|is decided): "+regexp.QuoteMeta(made.Proposal.What), s.do(2, "proposal", "approve", id))
	return &made.Proposal
}

// squeeze makes one space of each run of them.
func squeeze(s string) string { return strings.Join(strings.Fields(s), " ") }

func TestProposals(t *testing.T) {
	s := simulate(t)
	peer, account := peerID(77), s.ops[5].account.Hex()

	s.refused(5, exitRefused, "has no seat in the schedule, so it cannot propose; sign as one of: "+s.ops[0].account.Hex(), "member", "add", peer)
	s.refused(0, exitUsage, "is no peer id", "member", "add", "nobody")
	s.refused(0, exitUsage, "did you mean \"producer\"", "member", "add", peer, "--roles", "produzer")
	s.refused(0, exitUsage, "--account", "member", "add", peer, "--roles", "producer")
	out := s.do(0, "member", "add", peer, "--roles", "observer,broker")
	require.Contains(t, out, "proposal 0 (admit node "+peer+" as observer,broker) is approved by 1 of 3; others run: borcli proposal approve 0")
	s.refused(0, exitRefused, "approved proposal 0 before", "proposal", "approve", "0")
	s.refused(5, exitRefused, "cannot approve; sign as one of: "+s.ops[1].account.Hex(), "proposal", "approve", "0")
	s.refused(1, exitNotFound, "numbered from 0 to 0", "proposal", "approve", "1")
	s.refused(1, exitUsage, "no proposal's number", "proposal", "approve", "one")
	other := common.Hash{1}.Hex()
	s.refused(1, exitRefused, "not "+other+": admit node "+peer, "proposal", "approve", "0", "--content", other)
	s.refused(1, exitUsage, "is no hash", "proposal", "approve", "0", "--content", "0x12")
	var shown proposalInfo
	s.json(5, &shown, "proposal", "show", "0")
	require.Contains(t, s.do(1, "proposal", "approve", "#0", "--content", shown.Content.Hex()), "approved by 2 of 3")
	show := s.do(5, "proposal", "show", "0")
	require.Contains(t, show, "does not yet  "+s.ops[3].account.Hex())
	require.NotContains(t, show, "does not yet  "+s.ops[1].account.Hex())
	require.NotContains(t, s.do(5, "member", "list"), peer)
	s.do(3, "proposal", "approve", "0")
	require.Contains(t, s.do(5, "member", "list"), peer)
	s.refused(2, exitRefused, "has taken effect", "proposal", "approve", "0")
	s.refused(0, exitRefused, "already", "member", "add", peer, "--roles", "broker,observer")

	s.decide("member", "roles", peer, "observer")
	require.Contains(t, s.do(5, "member", "roles", peer), "observer")
	s.refused(0, exitRefused, "already", "member", "roles", peer, "observer")
	s.decide("member", "remove", peer)
	s.refused(0, exitNotFound, "is no member", "member", "remove", peer)

	s.decide("access", "senders", "allow", account)
	s.refused(0, exitRefused, "already", "access", "senders", "allow", account)
	s.decide("access", "senders", "on")
	require.Contains(t, s.do(5, "access", "senders", "list"), "on: only listed accounts may")
	require.Contains(t, s.do(5, "access", "senders", "list"), account)
	s.decide("access", "senders", "deny", account)
	s.decide("access", "senders", "off")
	s.decide("access", "deployers", "on")
	s.refused(0, exitRefused, "the list of deployers is on already", "access", "deployers", "on")

	p := s.decide("parameter", "set", "gas_limit", "200000000", "--height", "5000")
	require.Equal(t, map[string]string{"height": "5000", "name": "gas_limit", "value": "200000000"}, p.Arguments)
	s.decide("parameter", "set", "min_stake", "500ether")
	s.refused(0, exitUsage, "did you mean \"gas_limit\"", "parameter", "set", "gas-limit", "1")
	s.refused(0, exitUsage, "is too near", "parameter", "set", "gas_limit", "200000000", "--height", "20")
	s.refused(0, exitUsage, "outside", "parameter", "set", "slash_percent", "101")
	list := squeeze(s.do(5, "parameter", "list"))
	require.Contains(t, list, "min_stake 100 ether")
	require.Contains(t, list, "5000 pending parameter gas_limit 200000000")
	require.Contains(t, list, "9 no effect: unknown parameter x")

	list = squeeze(s.do(5, "upgrade", "list"))
	require.Contains(t, list, "in force upgrade next 0x01")
	require.Contains(t, list, "10000 later 0x02")
	require.NotContains(t, list, "gas_limit")

	s.decide("admin", "set", account)
	require.Contains(t, s.do(0, "admin", "show"), account)
	require.Contains(t, s.do(5, "admin", "set", "none"), "has taken effect: no admin any more", "the admin decides alone")

	s.do(0, "member", "add", peer)
	s.pass(7201 * time.Second)
	s.refused(1, exitRefused, "has expired", "proposal", "approve", "12")
	var all []proposalInfo
	s.json(5, &all, "proposal", "list")
	require.Len(t, all, 13)
	require.Equal(t, "expired", all[0].State)
	s.json(5, &all, "proposal", "list", "--open")
	require.Empty(t, all)
	s.json(5, &all, "proposal", "list", "--last", "3")
	require.Len(t, all, 3)
}

// Without waiting there is no receipt, and no claim about what became of the transaction.
func TestProposeWithoutWaiting(t *testing.T) {
	s := simulate(t)
	out := s.do(0, "member", "add", peerID(9), "--wait", "none")
	require.Contains(t, out, "pending")
	require.Contains(t, out, "borcli proposal list")
	require.Contains(t, s.do(4, "producer", "stake", "1ether", "--wait", "none"), "pending")
}

func TestRemedies(t *testing.T) {
	s := simulate(t)
	// What is not seen beforehand is explained afterwards.
	s.refused(5, exitReverted, "borcli producer list shows who resigned", "producer", "prune", s.ops[0].account.Hex())
	sources, err := filepath.Glob(filepath.Join("..", "..", "contracts", "src", "*.sol"))
	require.NoError(t, err)
	for _, r := range remedies {
		found := false
		for _, sol := range sources {
			b, err := os.ReadFile(sol)
			require.NoError(t, err)
			found = found || strings.Contains(string(b), r.text)
		}
		require.True(t, found, "no contract says %q", r.text)
	}
	plain := fail(exitReverted, "another contract's words")
	require.Equal(t, plain, advise(plain))
}

func TestNotBornode(t *testing.T) {
	s := simulate(t)
	o := borcli(t, "http://127.0.0.1:1", s.dir, "producer", "list")
	require.Equal(t, exitUnreachable, o.code)
	require.Contains(t, o.err, "cannot be reached")
}

// Who resigned is paid a delay after its last seat, however early it asked.
func TestPayableAfterTheLastSeat(t *testing.T) {
	r := &registry{at: &place{Time: 5000}, settings: contracts.BaseSettings{WithdrawSeconds: 1000, MinStake: ethers(1)}}
	p := &producerInfo{settings: &r.settings, now: 5000}
	zero := new(big.Int)
	p.account = contracts.BaseAccount{Stake: zero, Voted: zero, Leaving: ethers(2), ReadyAt: 4900}
	p.candidate = contracts.BaseCandidate{Key: 1, Resigned: true, Votes: zero, LeftAt: 4500}
	p.finish(r)
	require.EqualValues(t, 5500, p.PayableAt)
	require.Contains(t, p.payText(), "in 8 min 20 s")
	p.candidate.Seated = 2
	p.finish(r)
	require.Contains(t, p.payText(), "16 min 40 s after the account is out of every schedule")
	p.candidate.Resigned = false
	p.finish(r)
	require.Contains(t, p.payText(), "can be paid now")
	p.candidate.JailedUntil = 5001
	p.finish(r)
	require.Contains(t, p.stateText(), "jailed until")
	require.ErrorContains(t, canUnjail(p), "the delay is not over")
	p.now = 5001
	require.NoError(t, canUnjail(p))
	require.Contains(t, p.advice(), "borcli producer unjail")
}

func TestSpan(t *testing.T) {
	for seconds, want := range map[uint64]string{0: "0 s", 59: "59 s", 60: "1 min", 3661: "1 h 1 min", 90_061: "1 d 1 h", 14 * 86400: "14 d"} {
		require.Equal(t, want, span(seconds))
	}
}

// What is printed as an amount to type is read as the same amount.
func TestAmountTextIsAnAmount(t *testing.T) {
	for _, text := range []string{"1wei", "999999wei", "1gwei", "1.5ether", "100ether", "0.000000000000000001ether"} {
		v, err := parseAmount(text)
		require.NoError(t, err)
		again, err := parseAmount(amountText(v))
		require.NoError(t, err)
		require.Equal(t, v, again)
	}
}

// A market's base fee is a floor that must not be too low; a fixed one may be anything.
func TestBaseFeeOfAMarket(t *testing.T) {
	v, err := parameterValue(genesis.BaseFee, "0wei", false)
	require.NoError(t, err)
	require.Zero(t, new(big.Int).SetBytes(v).Sign())
	_, err = parameterValue(genesis.BaseFee, "6wei", true)
	require.ErrorContains(t, err, "outside")
	v, err = parameterValue(genesis.BaseFee, "7wei", true)
	require.NoError(t, err)
	require.EqualValues(t, 7, new(big.Int).SetBytes(v).Uint64())
}

func TestExplainProposal(t *testing.T) {
	kind, what, args := explainProposal(99, []byte{1, 2})
	require.Equal(t, "kind 99", kind)
	require.Contains(t, what, "nothing")
	require.Equal(t, map[string]string{"data": "0x0102"}, args)
	_, what, _ = explainProposal(2, []byte{1})
	require.Contains(t, what, "cannot be decoded")
	for text, p := range map[string]struct{ name, value string }{
		"set min_stake to 500 ether from block 1224 on": {"min_stake", "500ether"}, "set base_fee to 3 gwei from block 1224 on": {"base_fee", "3gwei"},
		"set base_fee to 0.000000003 gwei from block 1224 on": {"base_fee", "3wei"}, "set seats to 5 from block 1224 on": {"seats", "5"},
	} {
		value, err := parameterValue(p.name, p.value, false)
		require.NoError(t, err)
		call, err := contracts.ParameterCall(1224, p.name, value)
		require.NoError(t, err)
		in, err := contracts.MembersABI().Methods["propose"].Inputs.Unpack(call[4:])
		require.NoError(t, err)
		_, what, args = explainProposal(in[0].(uint8), in[1].([]byte))
		require.Equal(t, text, what)
		require.Equal(t, new(big.Int).SetBytes(value).String(), args["value"], "in JSON amounts are wei")
		info := &proposalInfo{ID: 3, Kind: "parameter", State: "done", What: what}
		require.Equal(t, "proposal 3 is decided: "+text, info.next(), "it takes effect at that block")
	}
	require.Equal(t, "0x0102", parameterText("min_stake", []byte{1, 2}), "it would have no effect")
	require.Equal(t, "producer,broker", rolesText(5))
	require.Equal(t, "unknown roles 8", rolesText(8))
	require.Equal(t, `"\x1b[31m"`, quoteOdd("\x1b[31m"), "what a producer wrote cannot steer the terminal")
	require.Equal(t, "-", accountText(common.Address{}))
}

func FuzzExplainProposal(f *testing.F) {
	for kind := range uint8(10) {
		f.Add(kind, make([]byte, 96))
	}
	f.Fuzz(func(t *testing.T, kind uint8, data []byte) {
		name, what, args := explainProposal(kind, data)
		require.NotEmpty(t, name)
		require.NotEmpty(t, what)
		require.NotEmpty(t, args)
		for _, text := range append([]string{what}, mapValues(args)...) {
			require.Equal(t, clean(text), text, "nothing steers the terminal")
		}
	})
}
