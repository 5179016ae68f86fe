package rpc

import (
	"math/big"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/tracing"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/core/vm"
	"github.com/ethereum/go-ethereum/crypto"
)

// A transfer of ether shows as this event of this address (ERC-7528).
var (
	transferEvent   = crypto.Keccak256Hash([]byte("Transfer(address,address,uint256)"))
	transferAddress = common.HexToAddress("0xEeeeeEeeeEeEeeEeEeEeeEEEeeeeEeeeeeeeEEeE")
)

// transferTracer collects the logs of one simulated transaction after another, and transfers of ether as if they were
// logs. Those of a call that fails go with it.
type transferTracer struct {
	header    *types.Header
	transfers bool
	tx        common.Hash
	txIndex   uint
	first     int // logs of the block's transactions before this one
	taken     []*types.Log
	bytes     int   // of what taken holds, or held before a revert
	open      []int // per open call frame: how many logs there were when it began
}

func (t *transferTracer) hooks() *tracing.Hooks {
	return &tracing.Hooks{OnEnter: t.enter, OnExit: t.exit, OnLog: func(l *types.Log) { t.add(l.Address, l.Topics, l.Data) }}
}

// begin starts the next transaction.
func (t *transferTracer) begin(tx common.Hash, index uint) {
	t.first += len(t.taken)
	t.tx, t.txIndex, t.taken, t.open, t.bytes = tx, index, nil, nil, 0
}

func (t *transferTracer) enter(_ int, typ byte, from, to common.Address, _ []byte, _ uint64, value *big.Int) {
	t.open = append(t.open, len(t.taken))
	moves := vm.OpCode(typ) != vm.DELEGATECALL && vm.OpCode(typ) != vm.CALLCODE // these two keep the value where it is
	if t.transfers && moves && value != nil && value.Sign() > 0 {
		t.add(transferAddress, []common.Hash{transferEvent, common.BytesToHash(from[:]), common.BytesToHash(to[:])}, common.BigToHash(value).Bytes())
	}
}

func (t *transferTracer) exit(_ int, _ []byte, _ uint64, _ error, reverted bool) {
	last := len(t.open) - 1
	if last < 0 {
		return
	}
	if reverted {
		t.taken = t.taken[:t.open[last]]
	}
	t.open = t.open[:last]
}

func (t *transferTracer) add(addr common.Address, topics []common.Hash, data []byte) {
	l := &types.Log{
		Address: addr, Topics: topics, Data: data, BlockNumber: t.header.Number.Uint64(), BlockTimestamp: t.header.Time,
		TxHash: t.tx, TxIndex: t.txIndex, Index: uint(t.first + len(t.taken)), //nolint:gosec // a count
	}
	t.bytes += int(logBytes(l))
	t.taken = append(t.taken, l)
}
