package node

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"sync/atomic"

	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core"
	gethpool "github.com/ethereum/go-ethereum/core/txpool"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/core/vm"
	"github.com/ethereum/go-ethereum/eth/gasestimator"
	"github.com/holiman/uint256"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/blockstore"
	"github.com/bornode/bornode/chain"
	"github.com/bornode/bornode/consensus"
	"github.com/bornode/bornode/consensus/clock"
	"github.com/bornode/bornode/consensus/dpos"
	blocksync "github.com/bornode/bornode/sync"
	"github.com/bornode/bornode/txpool"
)

// syncDriver is the consensus driver as package blocksync sees it. It refuses a history that contradicts the
// configured checkpoint.
type syncDriver struct {
	*consensus.Driver
	checkpoint *checkpoint
}

func (d syncDriver) AddBlock(ctx context.Context, b *block.Block) error {
	if err := d.checkpoint.check(b); err != nil {
		return err
	}
	return d.Driver.AddBlock(ctx, b)
}

func (d syncDriver) AddRange(ctx context.Context, blocks []*block.Block, mode blocksync.Mode) (blocksync.RangeResult, error) {
	for _, b := range blocks {
		if err := d.checkpoint.check(b); err != nil {
			return blocksync.RangeResult{}, err
		}
	}
	m := consensus.Full
	if mode == blocksync.Certified {
		m = consensus.Certified
	}
	r, err := d.Driver.AddRange(ctx, blocks, m)
	return blocksync.RangeResult{Applied: r.Applied, Rest: r.Rest}, err
}

func (d syncDriver) Status() blocksync.DriverStatus {
	s := d.Driver.Status()
	return blocksync.DriverStatus{
		Head: ref(s.Head), LIB: ref(s.LIB), Justified: s.Justified, QC: s.QC, FC: s.FC, OwnVotes: s.OwnVotes,
		Seats: s.Seats,
	}
}

// AdaptConsensus fills in what block synchronisation asks of the consensus driver and how it judges errors: for whoever
// wires a node's parts by itself, as sim/nodes does.
func AdaptConsensus(deps *blocksync.Deps, d *consensus.Driver) { adaptConsensus(deps, d, nil) }

func adaptConsensus(deps *blocksync.Deps, d *consensus.Driver, c *checkpoint) {
	deps.Driver, deps.FirstSync = syncDriver{d, c}, firstSync{d}
	deps.Classify, deps.Corrupt = classify, corrupt
	deps.ToldTime = d.ToldTime
}

// voteVerdicts is the one table from what consensus finds a vote to be worth to what sync does about it.
var voteVerdicts = [...]blocksync.VoteVerdict{
	dpos.VoteAccepted: blocksync.VoteAccepted, dpos.VoteKnown: blocksync.VoteKnown, dpos.VoteIrrelevant: blocksync.VoteIrrelevant,
	dpos.VoteFuture: blocksync.VoteFuture, dpos.VoteOverShare: blocksync.VoteOverShare, dpos.VoteRefuted: blocksync.VoteRefuted,
	dpos.VoteStranger: blocksync.VoteStranger, dpos.VoteMalformed: blocksync.VoteMalformed, dpos.VoteForged: blocksync.VoteForged,
}

// AddVotes implements blocksync.Driver.
func (d syncDriver) AddVotes(vs []block.Vote) ([]blocksync.VoteVerdict, error) {
	judged, err := d.Driver.AddVotes(vs)
	if err != nil {
		return nil, err
	}
	out := make([]blocksync.VoteVerdict, len(judged))
	for i, v := range judged {
		out[i] = voteVerdicts[v]
	}
	return out, nil
}

// firstSync is the driver's wait after a start as package blocksync sees it.
type firstSync struct{ *consensus.Driver }

func (d firstSync) Session() *block.SignedSession { return d.Driver.Status().Session }

func (d firstSync) Asks() bool { return d.Driver.Status().Asks }

func (d firstSync) Sits(account common.Address) bool {
	for _, s := range d.Driver.Status().Schedules {
		if s.Index(account) >= 0 {
			return true
		}
	}
	return false
}

func (d firstSync) HearProducer(ctx context.Context, a blocksync.ProducerAnswer) error {
	return d.Driver.HearProducer(ctx, consensus.ProducerAnswer{
		Session: a.Session, Producer: a.Producer, LIB: consensus.Place{Height: a.LIB.Height, Slot: a.LIB.Slot, Hash: a.LIB.Hash}, FC: a.FC, QC: a.QC, Votes: a.Votes,
	})
}

func ref(p consensus.Place) blocksync.Ref {
	return blocksync.Ref{Height: p.Height, Slot: p.Slot, Hash: p.Hash}
}

// classify is the one table from errors to what they mean for the peer whose data caused them.
func classify(err error) blocksync.Verdict {
	switch {
	case errors.Is(err, consensus.ErrNotReady), errors.As(err, new(chain.ErrReplaying)):
		return blocksync.VerdictOverloaded
	case errors.As(err, new(chain.ErrUnknownUpgrade)):
		return blocksync.VerdictOverloaded // this node ends; nobody is to blame
	case errors.Is(err, consensus.ErrKnown):
		return blocksync.VerdictKnown
	case errors.Is(err, consensus.ErrUnknownParent):
		return blocksync.VerdictUnknownParent
	case errors.Is(err, consensus.ErrFuture):
		return blocksync.VerdictFuture
	case errors.Is(err, consensus.ErrBelowLIB):
		return blocksync.VerdictIrrelevant
	case errors.Is(err, consensus.ErrInvalid), errors.Is(err, chain.ErrInvalidBody), errors.Is(err, block.ErrDecode),
		errors.Is(err, consensus.ErrRecovered): // the handshake showed that peer and node go by the same recoveries
		return blocksync.VerdictInvalid
	case errors.Is(err, txpool.ErrBlob), errors.Is(err, gethpool.ErrInvalidSender), errors.Is(err, gethpool.ErrOversizedData):
		return blocksync.VerdictInvalid // a transaction that no state could make right
	}
	return blocksync.VerdictOverloaded
}

// corrupt tells blocksync which height to fetch again.
func corrupt(err error) (uint64, bool) {
	var c blockstore.ErrCorrupt
	if errors.As(err, &c) {
		return c.Height, true
	}
	return 0, false
}

// dutyExecutor is the chain as duties see it.
type dutyExecutor struct{ *chain.Chain }

// Try implements dutyChain: the gas suffices in whichever second the block after h bears.
func (l dutyExecutor) Try(ctx context.Context, h *types.Header, from, to common.Address, data []byte) (gas uint64, refusal string, err error) {
	s, err := l.StateAt(h)
	if err != nil {
		return 0, "", err
	}
	headers, err := l.NextHeaders(h)
	if err != nil {
		return 0, "", err
	}
	if err := l.NextBlock(s, h, headers[0]); err != nil {
		return 0, "", err
	}
	m := &core.Message{From: from, To: &to, Nonce: s.GetNonce(from), Data: data,
		Value: new(uint256.Int), GasPrice: new(uint256.Int), GasFeeCap: new(uint256.Int), GasTipCap: new(uint256.Int)}
	for _, next := range headers {
		g, ret, err := gasestimator.Estimate(ctx, m, &gasestimator.Options{
			Config: l.Config(), Chain: l.Context(), Header: next, State: s, ErrorRatio: 0.05,
		}, l.Params().GasLimit)
		if errors.Is(err, vm.ErrExecutionReverted) {
			reason, e := abi.UnpackRevert(ret)
			if e != nil {
				reason = err.Error()
			}
			return 0, reason, nil
		}
		if err != nil {
			return 0, "", err
		}
		gas = max(gas, g)
	}
	return gas, "", nil
}

// Outcome implements dutyChain.
func (l dutyExecutor) Outcome(tx common.Hash) (included, ok bool, err error) {
	x, err := l.Transaction(tx)
	if x == nil || err != nil {
		return false, false, err
	}
	rs, err := l.Receipts(x.Block)
	if err != nil || x.Index >= uint64(len(rs)) {
		return true, false, fmt.Errorf("outcome of transaction %s in block %d is not readable: %w", tx, x.Height, err)
	}
	return true, rs[x.Index].Status == types.ReceiptStatusSuccessful, nil
}

// BaseFee implements dutyChain.
func (l dutyExecutor) BaseFee(h *types.Header) *big.Int {
	p := l.Params()
	return chain.BaseFee(&p, l.Config(), h)
}

// network is the driver's way to the peers; the sync manager, which needs the driver, is put in later.
type network struct {
	m atomic.Pointer[blocksync.Manager]
}

func (n *network) BroadcastBlock(b *block.Block, from string) {
	if m := n.m.Load(); m != nil {
		m.BroadcastBlock(b, from)
	}
}

func (n *network) BroadcastVotes(vs []block.Vote) {
	if m := n.m.Load(); m != nil {
		m.BroadcastVotes(vs)
	}
}

// Clocks are the readings of other producers' clocks; none before the sync manager is there.
func (n *network) Clocks() []clock.Reading {
	if m := n.m.Load(); m != nil {
		return m.Clocks()
	}
	return nil
}

// Height implements submitterChain.
func (l dutyExecutor) Height(tx common.Hash) (uint64, bool) {
	x, err := l.Transaction(tx)
	if x == nil || err != nil { // in a block that cannot be read now: asked again with the next head
		return 0, false
	}
	return x.Height, true
}
