package txpool

import (
	"fmt"
	"math/big"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/holiman/uint256"
)

// entry is a transaction of the pool with what admission, order and examination need of it, computed once. Its exported
// transaction and all fields but the last two stay as they are: a Source reads them outside the pool's lock.
type entry struct {
	tx             *types.Transaction
	hash           common.Hash
	from           common.Address
	nonce          uint64
	gas            uint64
	slots          uint64
	cost           uint256.Int // the most that its sender may pay: value and gas at the fee cap
	tipCap, feeCap uint256.Int
	authorities    []common.Address // accounts that its authorisations delegate (EIP-7702)
	entered        time.Time        // when the pool took it

	// Owned by the pool's owner goroutine.
	waitsSince time.Time // when it began to wait for a missing nonce; meaningless while it is executable
	promised   bool      // it was executable: no limit drops it any more
}

// newEntry computes an entry of a transaction that passed the checks without state. It fails where the cost exceeds 256
// bits, which no account can pay.
func newEntry(tx *types.Transaction, from common.Address, now time.Time) (*entry, error) {
	e := &entry{tx: tx, hash: tx.Hash(), from: from, nonce: tx.Nonce(), gas: tx.Gas(), slots: slotsOf(tx), entered: now}
	cost := tx.Cost()
	for _, x := range []struct {
		to *uint256.Int
		of *big.Int
	}{{&e.cost, cost}, {&e.tipCap, tx.GasTipCap()}, {&e.feeCap, tx.GasFeeCap()}} {
		if x.to.SetFromBig(x.of) {
			return nil, fmt.Errorf("%w: tx cost %v exceeds 256 bits", ErrInsufficient, cost)
		}
	}
	if tx.Type() == types.SetCodeTxType {
		e.authorities = tx.SetCodeAuthorities()
	}
	return e, nil
}

// isBumped reports whether next offers so much more than e, in tip and fee, that it may replace it: more at all, and at
// least percent more, rounded down.
func (e *entry) isBumped(next *entry, percent uint64) bool {
	share, hundred := uint256.NewInt(100+percent), uint256.NewInt(100)
	for _, x := range [][2]*uint256.Int{{&e.feeCap, &next.feeCap}, {&e.tipCap, &next.tipCap}} {
		if x[0].Cmp(x[1]) >= 0 {
			return false
		}
		least, overflow := new(uint256.Int).MulDivOverflow(x[0], share, hundred)
		if overflow || x[1].Lt(least) {
			return false
		}
	}
	return true
}

// effectiveTip is what the block's producer gets per gas; false if the entry cannot pay the base fee.
func (e *entry) effectiveTip(baseFee *uint256.Int) (tip uint256.Int, payable bool) {
	if e.feeCap.Lt(baseFee) {
		return tip, false
	}
	tip.Sub(&e.feeCap, baseFee)
	if e.tipCap.Lt(&tip) {
		tip = e.tipCap
	}
	return tip, true
}

func slotsOf(tx *types.Transaction) uint64 { return (tx.Size() + slotBytes - 1) / slotBytes }
