package node

import (
	"bytes"
	"context"
	"math/big"
	"slices"
	"sync"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/params"
	"go.uber.org/zap"
)

// This file takes one transaction of an account of this node from the call to a block; which ones, duties.go and
// submitter.go decide.

const (
	// offerBlocks is when a transaction of ours that is in no block yet is told to the peers again.
	offerBlocks = 5
	// gasSlack is added to what a transaction needed on the state at hand: it may meet another one.
	gasSlack = 100_000
	// patienceBlocks is how long a transaction of ours waits before its tip rises: others pay more for the room.
	patienceBlocks = 10
	// maxTip ends that: who keeps us out then pays it for every unit of gas of every block.
	minTip, maxTip = params.GWei, 128 * params.GWei // wei for each unit of gas
	// maxRecent bounds what an account remembers of the transactions it sent.
	maxRecent = 1024
)

// flight is a transaction of ours that is in no block yet.
type flight struct {
	tx    *types.Transaction
	sent  uint64 // height
	since uint64 // height at which the peers heard of it last
}

// obstacle is a transaction of the account before ours that this process did not send.
type obstacle struct {
	tx    common.Hash
	since uint64 // height at which it was seen first
	told  bool
}

type landing uint8

const (
	flying landing = iota
	landed         // in a block, with success
	failed         // in a block, reverted
	lost           // neither in a block nor in the pool, or behind a nonce that is missing
	outbid         // in the pool, and it is to pay more
)

// refusal is the contract's reason why a call would revert.
type refusal string

func (r refusal) Error() string { return "the contract would refuse it: " + string(r) }

// Refusal is the contract's reason alone, for package pubsub.
func (r refusal) Refusal() string { return string(r) }

// account is an account that this process sends for: its senders share it, so that no two take one nonce.
type account struct {
	self    common.Address
	chainID uint64
	signer  txSigner // nil: it cannot sign transactions

	mu     sync.Mutex
	recent map[common.Hash]struct{} // sent by this process, lately
}

func newAccount(self common.Address, chainID uint64, s txSigner) *account {
	return &account{self: self, chainID: chainID, signer: s, recent: make(map[common.Hash]struct{})}
}

// sentBy reports whether this process sent a transaction.
func (a *account) sentBy(tx common.Hash) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, ok := a.recent[tx]
	return ok
}

// remember is called with mu held.
func (a *account) remember(tx common.Hash) {
	if len(a.recent) >= maxRecent {
		clear(a.recent) // costs a needless warning at most
	}
	a.recent[tx] = struct{}{}
}

// senderChain is what a sender needs of the chain.
type senderChain interface {
	// Try runs a transaction to a contract on the state after a block: the gas it needs, or why the contract refuses it.
	Try(ctx context.Context, h *types.Header, from, to common.Address, data []byte) (gas uint64, refusal string, err error)
	// Outcome tells whether a transaction is in a block of the executed branch, and whether it succeeded there.
	// An error says that this cannot be read now.
	Outcome(tx common.Hash) (included, ok bool, err error)
	// BaseFee is that of the next block.
	BaseFee(h *types.Header) *big.Int
}

// sender takes calls of one account to one contract into blocks. One goroutine uses it.
type sender struct {
	*account
	chain senderChain
	pool  dutyPool
	to    common.Address
	offer func(types.Transactions) // tells peers
	bump  uint64                   // percent by which the pool wants fees raised
	log   *zap.Logger
	// held reports whether its owner follows a transaction already.
	held  func(common.Hash) bool
	ahead obstacle
}

// follow says where a transaction of ours is, and tells the peers again of one that waits for long.
func (s *sender) follow(f *flight, h *types.Header) landing {
	included, ok, err := s.chain.Outcome(f.tx.Hash())
	switch {
	case err != nil && !s.pool.Has(f.tx.Hash()): // it is or may be in a block: sent again it might act twice
		s.log.Warn("where a transaction of this node is cannot be read; it is looked for again with the next block", zap.Stringer("transaction", f.tx.Hash()), zap.Error(err))
		return flying
	case included && ok:
		return landed
	case included:
		return failed
	case !s.pool.Has(f.tx.Hash()):
		return lost
	case s.chain.BaseFee(h).Cmp(f.tx.GasFeeCap()) > 0:
		return outbid
	}
	height := h.Number.Uint64()
	if height >= f.since+offerBlocks {
		f.since = height
		s.offer(types.Transactions{f.tx})
	}
	if height >= f.sent+patienceBlocks && h.TxHash != types.EmptyTxsHash { // no fee would get it into an empty block
		return s.delayed(f, height)
	}
	return flying
}

// delayed says why a transaction that could be in a block is in none: it pays too little, or another one of the account
// is before it.
func (s *sender) delayed(f *flight, height uint64) landing {
	is := func(tx *types.Transaction) bool { return tx.Hash() == f.tx.Hash() }
	pending, queued := s.pool.ContentFrom(s.self)
	switch at := slices.IndexFunc(pending, is); {
	case at < 0 && slices.ContainsFunc(queued, is):
		return lost
	case at == 0 && f.tx.GasTipCapIntCmp(big.NewInt(maxTip)) < 0:
		return outbid
	case at > 0 && !s.held(pending[0].Hash()) && !s.sentBy(pending[0].Hash()):
		s.blocked(pending[0], height)
	}
	return flying
}

// blocked tells once of a transaction that is not ours to replace, when it has waited for long.
func (s *sender) blocked(tx *types.Transaction, height uint64) {
	switch o := &s.ahead; {
	case o.tx != tx.Hash():
		*o = obstacle{tx: tx.Hash(), since: height}
	case !o.told && height >= o.since+patienceBlocks:
		o.told = true
		s.log.Warn("what this node has to send waits behind another transaction of its account that no block takes; send one with the same nonce and higher fees",
			zap.Stringer("account", s.self), zap.Stringer("transaction", o.tx), zap.Uint64("nonce", tx.Nonce()))
	}
}

// try is the gas that a call needs on the state at hand. The error is a refusal if the contract would revert.
func (s *sender) try(ctx context.Context, h *types.Header, data []byte) (gas uint64, err error) {
	gas, reason, err := s.chain.Try(ctx, h, s.self, s.to, data)
	if err == nil && reason != "" {
		err = refusal(reason)
	}
	return gas, err
}

// send signs a call and puts it into the own pool, in place of one that pays too little now, if any; one that the pool
// kept over a restart is taken up (fresh is false then). On an error old stays in flight.
func (s *sender) send(h *types.Header, data []byte, gas uint64, old *flight) (f *flight, fresh bool, err error) {
	if f := s.kept(h, data); old == nil && f != nil {
		return f, false, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	x := &types.DynamicFeeTx{ChainID: new(big.Int).SetUint64(s.chainID), Gas: gas + gasSlack, To: &s.to, Data: data}
	x.GasTipCap, x.GasFeeCap = s.fees(h, old)
	if old != nil {
		x.Nonce = old.tx.Nonce()
	} else {
		x.Nonce = s.pool.Nonce(s.self)
	}
	tx, err := s.signer.SignTx(x, s.chainID)
	if err == nil {
		err = s.pool.Add([]*types.Transaction{tx}, true)[0]
	}
	if err != nil {
		return nil, false, err
	}
	s.remember(tx.Hash())
	return &flight{tx: tx, sent: h.Number.Uint64(), since: h.Number.Uint64()}, true, nil
}

// kept is a transaction with this call that the pool holds though its owner does not follow it; nil: there is none.
func (s *sender) kept(h *types.Header, data []byte) *flight {
	pending, _ := s.pool.ContentFrom(s.self)
	for _, tx := range pending {
		to := tx.To()
		if to == nil || *to != s.to || tx.Value().Sign() != 0 || !bytes.Equal(tx.Data(), data) || s.held(tx.Hash()) {
			continue
		}
		if included, _, _ := s.chain.Outcome(tx.Hash()); !included { // else the pool is about to forget it
			height := h.Number.Uint64()
			return &flight{tx: tx, sent: height, since: height}
		}
	}
	return nil
}

// fees are what a transaction offers: no tip and twice the base fee, which may rise; in place of an old one at least
// twice its tip, and as much more as the pool wants.
func (s *sender) fees(h *types.Header, old *flight) (tip, most *big.Int) {
	tip, most = new(big.Int), new(big.Int).Lsh(s.chain.BaseFee(h), 1)
	if old == nil {
		return tip, most
	}
	raised := func(fee *big.Int, percent uint64) *big.Int {
		x := new(big.Int).Mul(fee, new(big.Int).SetUint64(100+percent))
		return x.Add(x.Div(x, big.NewInt(100)), common.Big1)
	}
	larger := func(a, b *big.Int) *big.Int { return slices.MaxFunc([]*big.Int{a, b}, (*big.Int).Cmp) }
	tip = larger(big.NewInt(minTip), raised(old.tx.GasTipCap(), max(100, s.bump)))
	return tip, larger(most.Add(most, tip), raised(old.tx.GasFeeCap(), s.bump))
}
