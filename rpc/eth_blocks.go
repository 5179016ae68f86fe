package rpc

import (
	"context"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	gethrpc "github.com/ethereum/go-ethereum/rpc"

	"github.com/bornode/bornode/block"
)

// ethAPI is the namespace eth. Its exported methods are JSON-RPC methods; their doc is docs/rpc.md.
type ethAPI struct{ *service }

func (a *ethAPI) ChainId() *hexutil.Big { //nolint:revive // the JSON-RPC name is eth_chainId
	return (*hexutil.Big)(a.back.Chain.Config().ChainID)
}

func (a *ethAPI) BlockNumber() hexutil.Uint64 {
	return hexutil.Uint64(a.back.Chain.CurrentHeader().Number.Uint64())
}

// Syncing is false, or how far the node is.
func (a *ethAPI) Syncing() any {
	if a.back.Sync == nil {
		return false
	}
	return syncingJSON(a.back.Sync.SyncStatus())
}

func syncingJSON(s SyncStatus) any {
	if !s.Syncing {
		return false
	}
	return map[string]any{
		"startingBlock": hexutil.Uint64(s.Start), "currentBlock": hexutil.Uint64(s.Current), "highestBlock": hexutil.Uint64(s.Target),
		"mode": s.Mode, "state": s.State,
	}
}

func (a *ethAPI) Accounts() []common.Address { return []common.Address{} }

func (a *ethAPI) GetBlockByNumber(n gethrpc.BlockNumber, full bool) (*blockJSON, error) {
	return a.getBlock(byNumber(n), full)
}

func (a *ethAPI) GetBlockByHash(h common.Hash, full bool) (*blockJSON, error) {
	return a.getBlock(byHash(h), full)
}

func (a *ethAPI) getBlock(ref gethrpc.BlockNumberOrHash, full bool) (*blockJSON, error) {
	b, err := a.back.block(ref)
	if b == nil || err != nil {
		return nil, err
	}
	return blockOf(b, full), nil
}

func (a *ethAPI) GetHeaderByNumber(n gethrpc.BlockNumber) (*headerJSON, error) {
	return a.getHeader(byNumber(n))
}

func (a *ethAPI) GetHeaderByHash(h common.Hash) (*headerJSON, error) { return a.getHeader(byHash(h)) }

func (a *ethAPI) getHeader(ref gethrpc.BlockNumberOrHash) (*headerJSON, error) {
	h, err := a.back.header(ref)
	if h == nil || err != nil {
		return nil, err
	}
	return headerOf(h, h.Hash()), nil
}

func (a *ethAPI) GetBlockTransactionCountByNumber(n gethrpc.BlockNumber) (*hexutil.Uint, error) {
	return a.count(byNumber(n))
}

func (a *ethAPI) GetBlockTransactionCountByHash(h common.Hash) (*hexutil.Uint, error) {
	return a.count(byHash(h))
}

func (a *ethAPI) count(ref gethrpc.BlockNumberOrHash) (*hexutil.Uint, error) {
	b, err := a.back.block(ref)
	if b == nil || err != nil {
		return nil, err
	}
	n := hexutil.Uint(len(b.Transactions))
	return &n, nil
}

// There are no uncles: counts are 0 for known blocks, uncles are null.

func (a *ethAPI) GetUncleCountByBlockNumber(n gethrpc.BlockNumber) (*hexutil.Uint, error) {
	return a.uncles(byNumber(n))
}

func (a *ethAPI) GetUncleCountByBlockHash(h common.Hash) (*hexutil.Uint, error) {
	return a.uncles(byHash(h))
}

func (a *ethAPI) uncles(ref gethrpc.BlockNumberOrHash) (*hexutil.Uint, error) {
	h, err := a.back.header(ref)
	if h == nil || err != nil {
		return nil, err
	}
	return new(hexutil.Uint), nil
}

func (a *ethAPI) GetUncleByBlockNumberAndIndex(gethrpc.BlockNumber, hexutil.Uint) *blockJSON {
	return nil
}
func (a *ethAPI) GetUncleByBlockHashAndIndex(common.Hash, hexutil.Uint) *blockJSON { return nil }

// Transactions.

func (a *ethAPI) GetTransactionByHash(h common.Hash) (*transactionJSON, error) {
	b, i, err := a.find(h)
	if b != nil {
		return transactionIn(b, i), nil
	}
	tx, poolErr := a.pooled(h)
	if tx != nil || err == nil {
		return tx, poolErr
	}
	return nil, err // as it is: it has a code
}

// find is the block of the executed chain that holds the transaction, and its index there; nil if there is none.
func (a *ethAPI) find(h common.Hash) (*block.Block, uint64, error) {
	what := "transaction " + h.Hex()
	x, err := a.back.transaction(h)
	if x == nil || err != nil {
		return nil, 0, err
	}
	b, err := a.back.Chain.BlockByHash(x.Block)
	if err != nil {
		return nil, 0, unreadable(what, err)
	}
	if b == nil || x.Index >= uint64(len(b.Transactions)) { // its branch lost meanwhile
		return nil, 0, nil
	}
	return b, x.Index, nil
}

func (a *ethAPI) pooled(h common.Hash) (*transactionJSON, error) {
	tx := a.back.Pool.Get(h)
	if tx == nil {
		return nil, nil
	}
	from, err := types.Sender(a.signer, tx)
	if err != nil {
		return nil, err
	}
	return transactionOf(tx, from), nil
}

func (a *ethAPI) GetTransactionByBlockNumberAndIndex(n gethrpc.BlockNumber, i hexutil.Uint64) (*transactionJSON, error) {
	return a.at(byNumber(n), uint64(i))
}

func (a *ethAPI) GetTransactionByBlockHashAndIndex(h common.Hash, i hexutil.Uint64) (*transactionJSON, error) {
	return a.at(byHash(h), uint64(i))
}

func (a *ethAPI) at(ref gethrpc.BlockNumberOrHash, i uint64) (*transactionJSON, error) {
	b, err := a.back.block(ref)
	if b == nil || err != nil || i >= uint64(len(b.Transactions)) {
		return nil, err
	}
	return transactionIn(b, i), nil
}

func (a *ethAPI) GetRawTransactionByHash(h common.Hash) (hexutil.Bytes, error) {
	b, i, err := a.find(h)
	if b != nil {
		return b.Transactions[i].MarshalBinary()
	}
	if tx := a.back.Pool.Get(h); tx != nil {
		return tx.MarshalBinary()
	}
	return nil, err
}

func (a *ethAPI) GetRawTransactionByBlockNumberAndIndex(n gethrpc.BlockNumber, i hexutil.Uint64) (hexutil.Bytes, error) {
	return a.rawAt(byNumber(n), uint64(i))
}

func (a *ethAPI) GetRawTransactionByBlockHashAndIndex(h common.Hash, i hexutil.Uint64) (hexutil.Bytes, error) {
	return a.rawAt(byHash(h), uint64(i))
}

func (a *ethAPI) rawAt(ref gethrpc.BlockNumberOrHash, i uint64) (hexutil.Bytes, error) {
	b, err := a.back.block(ref)
	if b == nil || err != nil || i >= uint64(len(b.Transactions)) {
		return nil, err
	}
	return b.Transactions[i].MarshalBinary()
}

// Receipts.

func (a *ethAPI) GetTransactionReceipt(h common.Hash) (*receiptJSON, error) {
	b, i, err := a.find(h)
	if b == nil {
		if err != nil && a.back.Pool.Get(h) != nil { // it waits: no block has it
			err = nil
		}
		return nil, err
	}
	rs, err := a.receipts(b)
	if err != nil {
		return nil, err
	}
	return receiptOf(b, rs[i], int(i)), nil //nolint:gosec // an index of a slice
}

func (a *ethAPI) GetBlockReceipts(_ context.Context, ref gethrpc.BlockNumberOrHash) ([]*receiptJSON, error) {
	b, err := a.back.block(ref)
	if b == nil || err != nil {
		return nil, err
	}
	rs, err := a.receipts(b)
	if err != nil {
		return nil, err
	}
	out := make([]*receiptJSON, len(rs))
	for i, r := range rs {
		out[i] = receiptOf(b, r, i)
	}
	return out, nil
}

func (s *service) receipts(b *block.Block) (types.Receipts, error) {
	if len(b.Transactions) == 0 {
		return nil, nil
	}
	rs, err := s.back.Chain.Receipts(b.Hash())
	if err != nil {
		return nil, unreadable("receipts of "+b.String(), err)
	}
	if len(rs) != len(b.Transactions) {
		return nil, &Error{Code: codeServer, Message: "receipts of " + b.String() + " are incomplete; run bornode fsck"}
	}
	return rs, nil
}
