package blockstore

import (
	"github.com/ethereum/go-ethereum/common"
	"github.com/syndtr/goleveldb/leveldb"
)

// LoseDerived removes what was derived from a block, as lost tables of the database would.
func (s *Store) LoseDerived(hash common.Hash, height uint64, txs []common.Hash) error {
	batch := new(leveldb.Batch)
	batch.Delete(hashKey(hash, height))
	batch.Delete(blockKey(prefixReceipts, height, hash))
	for i, tx := range txs {
		batch.Delete(txKey(tx, height, i))
	}
	return s.derived.db.Write(batch, nil)
}
