package testnet

import (
	"context"
	"encoding/json"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/ethclient"
	"github.com/ethereum/go-ethereum/rpc"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/consensus/signer"
	"github.com/bornode/bornode/contracts"
	"github.com/bornode/bornode/genesis"
	blocksync "github.com/bornode/bornode/sync"
)

var producersABI = contracts.NewProducers()

// shortEpochs makes what governance waits for short.
func shortEpochs(s *Spec) {
	s.Slot, s.Turn, s.EpochBlocks = 250*time.Millisecond, 1, 24
	s.Settings = genesis.ProducerSettings{Seats: 5, JailTurns: 5, EvidenceWindow: 10 * time.Minute, WithdrawDelay: 11 * time.Minute, UnjailDelay: 2 * time.Second}
}

// add brings a producer's node in that is a candidate then, or not.
func add(t *testing.T, n *Network, register bool) *Node {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	j, err := n.Add(ctx, AddOptions{Producer: true, Register: register})
	require.NoError(t, err)
	x := n.Nodes[j.Node]
	require.Equal(t, x.Account.Hex(), j.Account)
	return x
}

// candidate is how an account stands at a node's head.
func candidate(t *testing.T, c *ethclient.Client, a common.Address) contracts.Candidate {
	t.Helper()
	ret, err := read(t.Context(), c, contracts.ProducersAddress, contracts.CandidateCall(a))
	require.NoError(t, err)
	info, _, err := contracts.DecodeCandidate(ret)
	require.NoError(t, err)
	return info
}

// soon waits until something is so at a node.
func soon(t *testing.T, what string, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	require.NoError(t, poll(ctx, func() (bool, error) { return ok(), nil }), "waiting: %s", what)
}

// produces waits until an account has made a block that is final.
func produces(t *testing.T, c *ethclient.Client, a common.Address) {
	t.Helper()
	from, err := c.HeaderByNumber(t.Context(), nil)
	require.NoError(t, err)
	next := from.Number.Uint64() + 1
	soon(t, a.Hex()+" makes a block", func() bool {
		h, err := c.HeaderByNumber(t.Context(), new(big.Int).SetUint64(next))
		if err != nil {
			return false
		}
		next++
		return h.Coinbase == a
	})
}

// schedule is who produces now.
func schedule(t *testing.T, c *ethclient.Client) (accounts []common.Address) {
	t.Helper()
	ret, err := read(t.Context(), c, contracts.ProducersAddress, contracts.ScheduleCall())
	require.NoError(t, err)
	seats, err := contracts.DecodeSchedule(ret)
	require.NoError(t, err)
	for _, s := range seats {
		accounts = append(accounts, s.Account)
	}
	return accounts
}

// A fifth producer registers, is elected and takes its slots; it fails, is jailed and replaced by a standby that
// reports by itself, leaves jail and returns with more votes. Evidence against a producer slashes once.
func TestGovernanceOfSeats(t *testing.T) {
	n := governed(t, func(s *Spec) {
		shortEpochs(s)
		// Without the fifth, only rounds in which all others make their block count against it: on a busy machine one of two.
		s.EpochBlocks, s.Settings.JailTurns = 48, 6
	})
	c := client(t, n, 0)
	fifth := add(t, n, false)
	rich, own := holder(t, n.Accounts[1], n.Nodes[0]), operatorOf(t, fifth, n.Nodes[0])
	rich.does(nil, "send", fifth.Account.Hex(), "1500ether")
	own.does(nil, "producer", "register", "--stake", "1000ether")
	require.NotContains(t, schedule(t, c), fifth.Account, "nobody votes for it")
	own.does(nil, "producer", "vote", fifth.Account.Hex(), "1000ether")
	soon(t, "the fifth has a seat", func() bool { return slices.Contains(schedule(t, c), fifth.Account) })
	produces(t, c, fifth.Account)
	logged(t, fifth, "this producer has a seat", fifth.Account.Hex())

	sixth := add(t, n, true)
	soon(t, "the sixth reports by itself", func() bool { return candidate(t, c, sixth.Account).Reported > 0 })
	require.NotContains(t, schedule(t, c), sixth.Account, "all seats are taken")

	require.NoError(t, n.Kill(t.Context(), fifth.Index))
	soon(t, "the fifth is in jail", func() bool { return candidate(t, c, fifth.Account).JailedUntil > 0 })
	soon(t, "the sixth has a seat", func() bool { return slices.Contains(schedule(t, c), sixth.Account) })
	require.NotContains(t, schedule(t, c), fifth.Account)
	produces(t, c, sixth.Account)

	require.NoError(t, n.Restart(t.Context(), fifth.Index))
	until(t, n, fifth.Index, "in sync", func(s Status) bool { return s.Synced })
	logged(t, fifth, "this producer is in jail", fifth.Account.Hex())
	logged(t, fifth, "may leave jail now", fifth.Account.Hex())
	own.does(nil, "producer", "unjail")
	require.Zero(t, candidate(t, c, fifth.Account).JailedUntil)
	rich.does(nil, "producer", "stake", "1ether")
	rich.does(nil, "producer", "vote", fifth.Account.Hex(), "1ether")
	soon(t, "the fifth is back", func() bool { return slices.Contains(schedule(t, c), fifth.Account) })
	produces(t, c, fifth.Account)
	require.Zero(t, metric(t, n.Nodes[0], "bornode_duties_transactions_total"), "who has a seat sends nothing")

	slashedOnce(t, n, c, sixth)
	s := until(t, n, 0, "an answer", func(Status) bool { return true })
	finalAbove(t, n, s.Head, 0, 1, 2, 3, 4, 5)
	sameChain(t, n, 0, 1, 2, 3, 4, 5)
}

// twinHeaders are two headers of one slot on a parent.
func twinHeaders(t *testing.T, domain block.Domain, by *signer.Local, parent *block.SealedHeader, slot uint64, p block.Parameters, salt byte) (out [2]*block.SealedHeader) {
	t.Helper()
	for i := range out {
		r := &block.Record{Version: block.RecordVersion, Slot: slot, BodyDigest: block.BodyDigest(nil, nil)}
		h := types.CopyHeader(parent.Header)
		h.ParentHash, h.Number, h.Time = parent.Hash(), new(big.Int).SetUint64(parent.Number()+1), p.HeaderTime(slot)
		h.Coinbase, h.Root, h.Extra = by.Account(), common.Hash{salt, byte(i)}, r.Hash().Bytes()
		h.TxHash, h.ReceiptHash, h.GasUsed, h.Bloom = types.EmptyTxsHash, types.EmptyReceiptsHash, 0, types.Bloom{}
		out[i] = &block.SealedHeader{Header: h, Record: r}
		seal, err := by.SignSeal(domain.SealDigest(out[i].Hash()))
		require.NoError(t, err)
		out[i].Seal = seal
	}
	return out
}

// evidenceOf is the file that proves a double seal.
func evidenceOf(t *testing.T, pair [2]*block.SealedHeader) string {
	t.Helper()
	b, err := json.Marshal(map[string]any{"kind": "seals", "blocks": []hexutil.Bytes{pair[0].Encode(), pair[1].Encode()}})
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "evidence.json")
	require.NoError(t, os.WriteFile(file, b, 0o600))
	return file
}

func parameters(t *testing.T, n *Network) block.Parameters {
	t.Helper()
	g, err := genesis.Load(n.genesisFile())
	require.NoError(t, err)
	return g.Parameters()
}

// slashedOnce proves a double seal of a producer, made on purpose, and another one, which no longer counts.
func slashedOnce(t *testing.T, n *Network, c *ethclient.Client, guilty *Node) {
	t.Helper()
	by, err := n.producer(guilty)
	require.NoError(t, err)
	parent, err := sealedHead(t.Context(), c)
	require.NoError(t, err)
	p := parameters(t, n)
	stake := stakeOf(t, c, guilty.Account).Stake
	anybody := holder(t, n.Accounts[2], n.Nodes[0])
	anybody.does(nil, "producer", "evidence", "submit", evidenceOf(t, twinHeaders(t, block.Domain{Genesis: sealedZero(t, n)}, by, parent, parent.Slot()+1, p, 1)))
	half := new(big.Int).Rsh(stake, 1)
	require.Equal(t, half, stakeOf(t, c, guilty.Account).Stake, "half of the stake")
	require.True(t, candidate(t, c, guilty.Account).Guilty)
	anybody.fails(exitRefused, "guilty", "producer", "evidence", "submit", evidenceOf(t, twinHeaders(t, block.Domain{Genesis: sealedZero(t, n)}, by, parent, parent.Slot()+2, p, 2)))
	require.Equal(t, half, stakeOf(t, c, guilty.Account).Stake)
}

func stakeOf(t *testing.T, c *ethclient.Client, a common.Address) contracts.BaseAccount {
	t.Helper()
	ret, err := read(t.Context(), c, contracts.ProducersAddress, producersABI.PackStakeOf(a))
	require.NoError(t, err)
	s, err := producersABI.UnpackStakeOf(ret)
	require.NoError(t, err)
	return s
}

// Blocks of one slot that a producer sealed twice are found by the nodes that meet them, which have the contract slash
// it by themselves; it never produces again, and its node goes on as an observer that sends nothing.
func TestGovernanceOfGuilt(t *testing.T) {
	t.Parallel() // with one other network: it mostly waits
	peer := newBadPeer(t)
	n := governed(t, func(s *Spec) {
		shortEpochs(s)
		s.MinProducers = 3
		s.Members = []genesis.Member{{PeerID: string(peer.key.ID()), Roles: genesis.RoleObserver}}
	})
	c := client(t, n, 0)
	guilty := n.Nodes[3]
	by, err := n.producer(guilty)
	require.NoError(t, err)
	p := parameters(t, n)
	// Without a quorum blocks stay reversible, so that there is a slot beside the head to show two blocks of.
	require.NoError(t, n.Kill(t.Context(), 2))
	require.NoError(t, n.Kill(t.Context(), guilty.Index))
	l := peer.dial(t, n.Nodes[0])
	peer.greet(t, l, sealedZero(t, n), nil)
	shown := uint64(0)
	soon(t, "two blocks of one slot are found", func() bool {
		if metric(t, n.Nodes[1], "bornode_consensus_evidence_total") > 0 {
			return true
		}
		head, err := sealedHead(t.Context(), c)
		require.NoError(t, err)
		final, err := c.HeaderByNumber(t.Context(), big.NewInt(int64(rpc.FinalizedBlockNumber)))
		require.NoError(t, err)
		if head.Number() < final.Number.Uint64()+3 {
			return false
		}
		parent, err := sealedAt(t.Context(), c, head.Number()-1)
		require.NoError(t, err)
		slot, ok := p.SlotAt(time.Now())
		seats := schedule(t, c)
		if !ok || slot == shown || parent.Hash() != head.Parent() || head.Slot() >= slot || seats[slot%uint64(len(seats))] != guilty.Account {
			return false
		}
		shown = slot // what comes too late on a busy machine is dropped, and two blocks of a later slot are shown
		for _, h := range twinHeaders(t, block.Domain{Genesis: sealedZero(t, n)}, by, parent, slot, p, 3) {
			b := &block.Block{SealedHeader: h}
			peer.say(t, l, blocksync.TypeSignedBlock, (&blocksync.SignedBlock{Height: b.Number(), Raw: b.Encode()}).Encode())
		}
		return false
	})
	logged(t, n.Nodes[1], "broke a rule provably", guilty.Account.Hex())
	require.NoError(t, n.Restart(t.Context(), 2))
	soon(t, "the guilty is slashed", func() bool { return candidate(t, c, guilty.Account).Guilty })
	require.NoError(t, n.Restart(t.Context(), guilty.Index))
	soon(t, "the guilty has no seat", func() bool { return !slices.Contains(schedule(t, c), guilty.Account) })
	producesNoMore(t, n, guilty, 0, 1, 2, guilty.Index)
	logged(t, guilty, "proven guilty", guilty.Account.Hex())
	require.Zero(t, metric(t, guilty, "bornode_duties_transactions_total"), "it sends nothing")
	submitted := 0
	for _, x := range n.Nodes[:3] { // a transaction that got lost is sent once more
		if metric(t, x, "bornode_duties_transactions_total") > 0 {
			submitted++
		}
	}
	require.Contains(t, []int{1, 2}, submitted, "one producer, or two, submitted it")
	sameChain(t, n, 0, 1, 2, 3)
}

// producesNoMore waits until the schedule without a node's account is the one that counts at these nodes, and finds none of
// its blocks among the next ten.
func producesNoMore(t *testing.T, n *Network, x *Node, nodes ...int) {
	t.Helper()
	c := client(t, n, 0)
	final := func() uint64 {
		h, err := c.HeaderByNumber(t.Context(), big.NewInt(int64(rpc.FinalizedBlockNumber)))
		require.NoError(t, err)
		return h.Number.Uint64()
	}
	var from uint64
	soon(t, "others produce alone", func() bool {
		var seats []struct {
			Account common.Address `json:"account"`
		}
		require.NoError(t, c.Client().CallContext(t.Context(), &seats, "bor_producers"))
		if len(seats) == 0 || slices.ContainsFunc(seats, func(s struct {
			Account common.Address `json:"account"`
		}) bool {
			return s.Account == x.Account
		}) {
			from = 0 // or again: on a branch that lost
			return false
		}
		if from == 0 {
			head, err := c.HeaderByNumber(t.Context(), nil)
			require.NoError(t, err)
			from = head.Number.Uint64() + 1
		}
		return final() >= from
	})
	finalAbove(t, n, from+10, nodes...)
	for h := from; h < from+10; h++ {
		b, err := c.HeaderByNumber(t.Context(), new(big.Int).SetUint64(h))
		require.NoError(t, err)
		require.NotEqual(t, x.Account, b.Coinbase, "block %d", h)
	}
}

// sealedAt is the sealed header of a height.
func sealedAt(ctx context.Context, c *ethclient.Client, height uint64) (*block.SealedHeader, error) {
	var r struct {
		Raw hexutil.Bytes `json:"raw"`
	}
	if err := c.Client().CallContext(ctx, &r, "bor_getRecord", hexutil.Uint64(height)); err != nil {
		return nil, err
	}
	return block.DecodeSealedHeader(r.Raw)
}

// Once the admin has given up its power the producers decide by votes: a node comes in, a member is removed and its
// links drop at once. A producer that resigns follows as an observer and sends nothing. Stake is paid back after the
// delay, not before.
func TestGovernanceOfMembers(t *testing.T) {
	t.Parallel() // with one other network: it mostly waits
	n := governed(t, func(s *Spec) {
		shortEpochs(s)
		s.Observers, s.MinProducers = 1, 3
		s.Settings.EvidenceWindow, s.Settings.WithdrawDelay = 5*time.Second, 8*time.Second
	})
	c := client(t, n, 0)
	ctx := t.Context()
	admin := holder(t, n.Admin, n.Nodes[0])
	admin.does(nil, "admin", "set", "none")
	admin.fails(exitRefused, "cannot propose", "admin", "set", "none")

	t.Run("stake", func(t *testing.T) { withdrawal(t, n, c) })

	resigned := n.Nodes[3]
	operatorOf(t, resigned, n.Nodes[0]).does(nil, "producer", "resign")

	j, err := n.Add(ctx, AddOptions{})
	require.NoError(t, err, "admitted by votes")
	removed, newcomer := n.Nodes[4], n.Nodes[j.Node]
	until(t, n, newcomer.Index, "connected with all", func(s Status) bool { return s.Peers >= 5 })
	council := []person{operatorOf(t, n.Nodes[2], n.Nodes[0]), operatorOf(t, n.Nodes[1], n.Nodes[0]), operatorOf(t, n.Nodes[0], n.Nodes[0])}
	decided(t, council, "member", "remove", removed.PeerID)
	until(t, n, removed.Index, "no links", func(s Status) bool { return s.Peers == 0 })
	logged(t, removed, "this node is not a member", removed.PeerID)
	for _, x := range []*Node{n.Nodes[0], newcomer} {
		until(t, n, x.Index, "without the one removed", func(s Status) bool { return s.Peers == 4 })
	}

	soon(t, "who resigned has no seat", func() bool { return !slices.Contains(schedule(t, c), resigned.Account) })
	logged(t, resigned, "no candidate any more", resigned.Account.Hex())
	producesNoMore(t, n, resigned, 0, 1, 2, resigned.Index, newcomer.Index)
	require.Zero(t, metric(t, resigned, "bornode_duties_transactions_total"), "it sends nothing")
	sameChain(t, n, 0, 1, 2, resigned.Index, newcomer.Index)
	require.True(t, removed.Process.Alive())
}

// withdrawal takes stake back.
func withdrawal(t *testing.T, n *Network, c *ethclient.Client) {
	owner := holder(t, n.Accounts[3], n.Nodes[0])
	account := n.Accounts[3].Address
	ether := big.NewInt(1e18)
	var ready uint64
	for early := false; !early; { // on a busy machine the delay may be over when it is asked for
		owner.does(nil, "producer", "stake", "1ether")
		owner.does(nil, "producer", "withdraw", "1ether")
		ready = stakeOf(t, c, account).ReadyAt
		require.Positive(t, ready)
		_, problem, code := owner.run("producer", "withdraw", "--pay")
		if early = code != 0; !early {
			h, err := c.HeaderByNumber(t.Context(), nil)
			require.NoError(t, err)
			require.GreaterOrEqual(t, h.Time, ready, "it was paid before the delay was over")
			continue
		}
		require.Equal(t, exitRefused, code, problem)
		require.Contains(t, problem, "the delay is not over")
	}
	soon(t, "the delay is over", func() bool {
		h, err := c.HeaderByNumber(t.Context(), nil)
		return err == nil && h.Time >= ready
	})
	before, err := c.BalanceAt(t.Context(), account, nil)
	require.NoError(t, err)
	owner.does(nil, "producer", "withdraw", "--pay")
	after, err := c.BalanceAt(t.Context(), account, nil)
	require.NoError(t, err)
	require.Equal(t, ether, new(big.Int).Sub(after, before), "nothing else was paid: fees are 0")
	require.Zero(t, stakeOf(t, c, account).Leaving.Sign())
}
