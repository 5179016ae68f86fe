package nodes

import (
	"math/big"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"

	"github.com/bornode/bornode/block"
)

// ledger is the final chain as the checkers reckon it from what was heard on the wire. All transactions of a simulation are
// transfers without fees, so that balances follow from the blocks alone.
type ledger struct {
	height   uint64
	hashes   []common.Hash // by height
	blocks   []*block.Block
	balances []map[common.Address]*big.Int // by height, of the accounts of the load
	places   map[common.Hash]place         // of transactions
	sent     map[common.Address]uint64     // next nonce
}

type place struct {
	height, index uint64
}

func newLedger(genesis *block.Block, balances map[common.Address]*big.Int) *ledger {
	return &ledger{
		hashes: []common.Hash{genesis.Hash()}, blocks: []*block.Block{genesis}, balances: []map[common.Address]*big.Int{balances},
		places: make(map[common.Hash]place), sent: make(map[common.Address]uint64),
	}
}

func (l *ledger) add(b *block.Block) {
	l.height = b.Number()
	l.hashes, l.blocks = append(l.hashes, b.Hash()), append(l.blocks, b)
	next := l.balances[len(l.balances)-1]
	if len(b.Transactions) > 0 {
		was := next
		next = make(map[common.Address]*big.Int, len(was))
		for a, v := range was {
			next[a] = v
		}
	}
	for i, tx := range b.Transactions {
		l.places[tx.Hash()] = place{b.Number(), uint64(i)} //nolint:gosec // an index
		from, err := types.Sender(types.LatestSignerForChainID(tx.ChainId()), tx)
		if err != nil {
			continue // no load of ours; balances will differ
		}
		l.sent[from] = tx.Nonce() + 1
		next[from] = new(big.Int).Sub(next[from], tx.Value())
		next[*tx.To()] = new(big.Int).Add(next[*tx.To()], tx.Value())
	}
	l.balances = append(l.balances, next)
}
