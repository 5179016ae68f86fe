package chain

import (
	"fmt"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/vm"
)

// allowLists are Members' optional lists as they stand at a block's start; nil lists allow everyone.
type allowLists struct {
	send, deploy map[common.Address]bool
}

func (c *Chain) readAllowLists(*vm.EVM) (*allowLists, error) { return &allowLists{}, nil }

func (a *allowLists) check(from common.Address, deploys bool) error {
	if a.send != nil && !a.send[from] {
		return fmt.Errorf("account %s is not on the list of accounts that may send transactions", from)
	}
	if deploys && a.deploy != nil && !a.deploy[from] {
		return fmt.Errorf("account %s is not on the list of accounts that may deploy contracts", from)
	}
	return nil
}
