package chain

import (
	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/genesis"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/params"
)

// Store holds blocks and what is derived from them. Every method may be called from any goroutine. Blocks passed in
// or handed out are shared: nobody changes them. A missing thing is an error wrapping block.ErrNotFound or
// block.ErrPruned; every other error means that the thing may be there: block.ErrCorrupt if it is and cannot be read.
type Store interface {
	// PutReversible makes the blocks durable (one group sync) before it returns.
	PutReversible(blocks []*block.Block) error
	// Block finds a block by hash, reversible or irreversible.
	Block(hash common.Hash) (*block.Block, error)
	// BlockByHeight and HeaderByHeight know irreversible blocks only.
	BlockByHeight(height uint64) (*block.Block, error)
	HeaderByHeight(height uint64) (*block.SealedHeader, error)
	Header(hash common.Hash) (*block.SealedHeader, error)
	// Reversible lists all reversible blocks, parents before children.
	Reversible() ([]*block.Block, error)
	// Finalize appends the reversible blocks f.Hashes to the segments, moves LIB and deletes f.Drop: one commit.
	Finalize(f block.FinalUpdate) error
	// AppendFinal appends blocks that continue LIB, reversible here or not, and moves LIB to the last: one commit.
	AppendFinal(blocks []*block.Block, f block.FinalUpdate) error
	// LIB is the last irreversible block; a zero hash means that the store is empty.
	LIB() (height uint64, hash common.Hash)
	// PutReceipts keeps receipts and the places of their transactions. Derived data: not synced.
	PutReceipts(hash common.Hash, height uint64, receipts types.Receipts) error
	// SyncDerived makes receipts put before durable.
	SyncDerived() error
	Receipts(hash common.Hash) (types.Receipts, error)
	// ReceiptsLost notes that the receipts of an irreversible block must come from a peer, and gives block.ErrNoReceipts.
	// For a block that is not irreversible it gives cause.
	ReceiptsLost(height uint64, hash common.Hash, cause error) error
	Transaction(txHash common.Hash) (blockHash common.Hash, height uint64, index uint64, err error)
	// FirstHeight is the lowest irreversible block kept.
	FirstHeight() uint64
}

// Genesis is what the chain needs of genesis.Genesis.
type Genesis interface {
	Parameters() block.Parameters
	Schedule() block.Schedule
	ChainConfig() *params.ChainConfig
	Alloc() types.GenesisAlloc
	Block() (*block.Block, error)
	Upgrades() []genesis.Upgrade // those that this node can follow, if they are voted for, and those to take as withdrawn
}

// TxSource yields transactions for a block, best first, each account's in nonce order. It belongs to one Build and
// is called from its goroutine only.
type TxSource interface {
	// Next is the best transaction left, or nil. It is the same until Shift or Pop.
	Next() *types.Transaction
	// Shift replaces the best by the next transaction of its account.
	Shift()
	// Pop drops the best and everything else of its account.
	Pop()
}
