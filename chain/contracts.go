package chain

import (
	"context"
	"errors"
	"fmt"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/contracts"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/core/vm"
)

// decodeSchedule reads what the end-of-epoch call returned.
func decodeSchedule(ret []byte) (block.Schedule, error) {
	seats, err := contracts.DecodeSchedule(ret)
	if err != nil {
		return nil, err
	}
	seen := make(map[common.Address]bool, len(seats))
	s := make(block.Schedule, len(seats))
	for i, x := range seats {
		if seen[x.Account] {
			return nil, fmt.Errorf("account %s has two seats", x.Account)
		}
		seen[x.Account] = true
		s[i] = block.Producer{Account: x.Account, Key: x.Key}
	}
	return s, nil
}

// checkAllowed holds Members' optional lists, as they stand before the transaction, against its sender. While the
// lists are off that is one read of a slot that the state keeps in memory.
func checkAllowed(s contracts.State, from common.Address, deploys bool) error {
	if !contracts.MaySend(s, from) {
		return fmt.Errorf("account %s is not on the list of accounts that may send transactions", from)
	}
	if deploys && !contracts.MayDeploy(s, from) {
		return fmt.Errorf("account %s is not on the list of accounts that may deploy contracts", from)
	}
	return nil
}

// Members are the nodes that may connect, as the contract lists them at the last irreversible block.
func (c *Chain) Members() ([]contracts.MemberEntry, error) {
	h := c.FinalHeader()
	if m := c.members.Load(); m != nil && m.root == h.Root {
		return m.entries, nil
	}
	ret, err := c.read(h, contracts.MembersAddress, contracts.MembersCallData())
	if err != nil {
		return nil, fmt.Errorf("read the members at block %s: %w", h.Number, err)
	}
	entries, err := contracts.DecodeMembers(ret)
	if err != nil {
		return nil, fmt.Errorf("read the members at block %s: %w", h.Number, err)
	}
	c.members.Store(&memberList{h.Root, entries})
	return entries, nil
}

type memberList struct {
	root    common.Hash
	entries []contracts.MemberEntry
}

// Call reads a system contract on the state after a block. It costs no more than a system call may.
func (c *Chain) Call(_ context.Context, h *types.Header, to common.Address, data []byte) ([]byte, error) {
	return c.read(h, to, data)
}

// read calls a system contract on the state after a block and keeps nothing.
func (c *Chain) read(h *types.Header, to common.Address, data []byte) ([]byte, error) {
	db, err := c.StateAt(h)
	if err != nil {
		return nil, err
	}
	seen := c.Context()
	evm := vm.NewEVM(c.blockContext(h, seen), db, c.config, vm.Config{})
	defer evm.Release()
	ret, err := systemCall(evm, to, data, contracts.SystemCallGas)
	if readErr := errors.Join(db.Error(), seen.Err()); readErr != nil {
		return nil, fmt.Errorf("call of %s at block %s: %w", to, h.Number, readErr)
	}
	return ret, err
}
