package chain

import (
	"fmt"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/contracts"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/core/vm"
	"github.com/ethereum/go-ethereum/params"
	"github.com/holiman/uint256"
)

// systemCall calls a contract as the system address, outside any transaction and without fees, as EIP-4788 does.
func systemCall(evm *vm.EVM, to common.Address, data []byte, gas uint64) ([]byte, error) {
	zero := new(uint256.Int)
	evm.SetTxContext(core.NewEVMTxContext(&core.Message{From: params.SystemAddress, To: &to, GasLimit: gas, GasPrice: zero, GasFeeCap: zero, GasTipCap: zero, Data: data}))
	evm.StateDB.Prepare(evm.GetRules(), common.Address{}, common.Address{}, nil, nil, nil)
	evm.StateDB.SetTxContext(common.Hash{}, 0, 0)
	evm.StateDB.AddAddressToAccessList(to)
	ret, _, err := evm.Call(params.SystemAddress, to, data, vm.NewGasBudget(gas, 0), zero)
	evm.StateDB.Finalise(evm.GetRules())
	if err != nil {
		return nil, err
	}
	if len(ret) > maxSystemRet {
		return nil, fmt.Errorf("%d bytes returned, %d allowed", len(ret), maxSystemRet)
	}
	return append([]byte(nil), ret...), nil
}

// blockStart makes the calls every block begins with: EIP-4788 (the beacon root is zero) and EIP-2935.
func blockStart(evm *vm.EVM, h *types.Header) {
	core.ProcessBeaconBlockRoot(*h.ParentBeaconRoot, evm, nil)
	core.ProcessParentBlockHash(h.ParentHash, evm, nil)
}

// blockRequests makes the calls every block ends with and returns their requests: EIP-6110 logs, EIP-7002, EIP-7251.
// They have no effect here but their hash is in the header.
func (c *Chain) blockRequests(evm *vm.EVM, logs []*types.Log) ([][]byte, error) {
	requests := [][]byte{}
	rules := evm.GetRules()
	if err := core.ParseDepositLogs(&requests, logs, c.config); err != nil {
		return nil, err
	}
	if err := core.ProcessWithdrawalQueue(&requests, rules, evm, 0, nil); err != nil {
		return nil, err
	}
	if err := core.ProcessConsolidationQueue(&requests, rules, evm, 0, nil); err != nil {
		return nil, err
	}
	return requests, nil
}

// recoverElection changes the state of the election by a recovery: the first block behind its base begins with it.
func (c *Chain) recoverElection(db contracts.StateWriter, recovery common.Hash, seconds uint64) {
	x, known := c.cfg.Recoveries[recovery]
	if !known {
		return // none is named, or the block is refused for it (trackBehind)
	}
	r := contracts.RecoveredSchedule{Recovery: recovery, Lost: x.Lost, Seconds: seconds, Seats: make([]contracts.Seat, len(x.Schedule))}
	for i, p := range x.Schedule {
		r.Seats[i] = contracts.Seat{Account: p.Account, Key: p.Key}
	}
	contracts.Recover(db, r)
}

// endEpoch makes the end-of-epoch call to Producers and returns the next schedule. A call that fails or returns
// nothing usable keeps the schedule: the chain goes on. The result depends on state and headers alone, so all nodes
// agree on it.
func (c *Chain) endEpoch(evm *vm.EVM, height uint64, t *track) block.Schedule {
	epoch := (height - 1) / c.params.EpochBlocks
	if t.Recovery != (common.Hash{}) && (t.RecoveredAt-1)/c.params.EpochBlocks == epoch {
		return t.Producers // newcomers have a whole epoch to deposit stake and take votes
	}
	data := contracts.EndEpochCall(epoch, t.missed())
	ret, err := systemCall(evm, contracts.ProducersAddress, data, contracts.SystemCallGas)
	if err == nil {
		var s block.Schedule
		if s, err = decodeSchedule(ret); err == nil {
			return s
		}
	}
	c.log.Warn("end-of-epoch call failed, the schedule stays", zapHeight(height), zapError(err))
	return t.Producers
}
