package chain

import (
	"fmt"

	"github.com/ethereum/go-ethereum/core/state"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/core/vm"
)

// NextHeaders are the headers that a child of parent may have, as far as they are known before it is built: parent
// hash, number, time, gas limit, base fee and what is constant; the coinbase is the parent's. Slots are shorter than
// the seconds that headers count, so a child in the next slot may bear the second of its parent, and one in a later
// slot the second after: then there are two, the earlier second first; else one. The caller owns them.
func (c *Chain) NextHeaders(parent *types.Header) ([]*types.Header, error) {
	hash := parent.Hash()
	sealed, err := c.mustSealed(hash)
	if err != nil {
		return nil, fmt.Errorf("the block after %s: %w", parent.Number, err)
	}
	p, err := c.ParamsAt(parent)
	if err != nil {
		return nil, err
	}
	h := c.newHeader(&p, parent, hash, sealed.Slot()+1, parent.Coinbase, nil, nil)
	out := []*types.Header{h}
	if h.Time == parent.Time {
		later := types.CopyHeader(h)
		later.Time++
		out = append(out, later)
	}
	return out, nil
}

// NextBlock makes a state what the first transaction of the block after parent finds: db is the state after parent,
// h one of NextHeaders.
func (c *Chain) NextBlock(db *state.StateDB, parent, h *types.Header) error {
	if err := c.PrepareState(db, parent, h.Number.Uint64()); err != nil {
		return err
	}
	evm := vm.NewEVM(c.blockContext(h, c.Context()), db, c.config, vm.Config{})
	defer evm.Release()
	blockStart(evm, h)
	return db.Error()
}
