package blockstore

import (
	"fmt"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/rlp"
	"github.com/syndtr/goleveldb/leveldb"
	"github.com/syndtr/goleveldb/leveldb/opt"
	"github.com/syndtr/goleveldb/leveldb/util"

	"github.com/bornode/bornode/block"
)

// TxLocation says in which block a transaction is.
type TxLocation struct {
	Block  common.Hash
	Height uint64
	Index  uint64
}

// PutReceipts stores the receipts of an executed block and indexes its transactions by receipts[i].TxHash. It is
// derived data: not synced, so a power cut may lose the newest (a kill of the process does not).
func (s *Store) PutReceipts(hash common.Hash, height uint64, receipts types.Receipts) error {
	stored := make([]*types.ReceiptForStorage, len(receipts))
	batch := new(leveldb.Batch)
	for i, r := range receipts {
		stored[i] = (*types.ReceiptForStorage)(r)
		batch.Put(txKey(r.TxHash, hash), txValue(height, uint32(i), hash)) //nolint:gosec // bounded by the block size
	}
	b, err := rlp.EncodeToBytes(stored)
	if err != nil {
		return fmt.Errorf("encode receipts of block %d %s: %w", height, hash, err)
	}
	batch.Put(blockKey(prefixReceipts, height, hash), b)
	return s.writeDerived(batch)
}

func (s *Store) writeDerived(batch *leveldb.Batch) error {
	if err := s.gate.check(); err != nil {
		return err
	}
	if err := s.useDerived(func(db *leveldb.DB) error { return db.Write(batch, nil) }); err != nil {
		if closed := s.closedError(err); closed != nil {
			return closed
		}
		return s.gate.fail("write to "+derivedDir, err)
	}
	return nil
}

// SyncDerived makes all receipts and index entries put before it durable.
func (s *Store) SyncDerived() error {
	return s.submit(&op{alone: func() error { return s.markHashed(s.lib.Height) }})()
}

// Receipts are the receipts of a reversible or irreversible block as go-ethereum stores them: status, cumulative gas
// and logs; the caller derives the rest with the block (types.Receipts.DeriveFields). Errors wrap ErrNotFound.
func (s *Store) Receipts(hash common.Hash) (types.Receipts, error) {
	s.mu.RLock()
	r := s.rev[hash]
	s.mu.RUnlock()
	if r != nil {
		return s.ReceiptsAt(r.height, hash)
	}
	height, known, err := s.finalHeight(hash)
	if err != nil {
		return nil, err
	}
	if !known {
		return nil, fmt.Errorf("receipts of block %s: %w", hash, ErrNotFound)
	}
	return s.ReceiptsAt(height, hash)
}

// ReceiptsAt are the receipts of a block whose height the caller knows; the block itself need not be stored yet.
func (s *Store) ReceiptsAt(height uint64, hash common.Hash) (types.Receipts, error) {
	b, err := s.getDerived(blockKey(prefixReceipts, height, hash))
	if err != nil {
		if closed := s.closedError(err); closed != nil {
			return nil, closed
		}
		return nil, fmt.Errorf("read receipts of block %d %s: %w", height, hash, err)
	}
	if b == nil {
		return nil, fmt.Errorf("receipts of block %d %s: %w", height, hash, ErrNotFound)
	}
	var stored []*types.ReceiptForStorage
	if err := rlp.DecodeBytes(b, &stored); err != nil {
		return nil, fmt.Errorf("receipts of block %d %s are damaged: %w", height, hash, err)
	}
	out := make(types.Receipts, len(stored))
	for i, r := range stored {
		out[i] = (*types.Receipt)(r)
	}
	return out, nil
}

// Transaction says where a transaction is: in an irreversible block if it is in one, else in the highest reversible
// block that has it. Whether that block is on the preferred branch is for the caller to decide; with several branches
// use TransactionLocations. Errors wrap ErrNotFound; ErrCorrupt and ErrIndexing say that it may exist all the same.
func (s *Store) Transaction(tx common.Hash) (blockHash common.Hash, height, index uint64, err error) {
	locs, err := s.TransactionLocations(tx)
	if err != nil {
		return common.Hash{}, 0, 0, err
	}
	if len(locs) == 0 {
		return common.Hash{}, 0, 0, fmt.Errorf("transaction %s: %w", tx, ErrNotFound)
	}
	return locs[0].Block, locs[0].Height, locs[0].Index, nil
}

// TransactionLocations are all blocks of the store that have a transaction: the irreversible one alone, else the
// reversible ones, highest first.
func (s *Store) TransactionLocations(tx common.Hash) (locs []TxLocation, err error) {
	var missing *txFilling
	var unreadable error // of a block, which says nothing about the database
	err = s.useDerived(func(db *leveldb.DB) (err error) {
		missing = s.filling.Load() // before the read: what is written behind it may be what was not found
		locs, unreadable, err = s.locationsIn(db, tx)
		return err
	})
	if err == nil && unreadable != nil {
		return nil, unreadable
	}
	if err == nil && len(locs) == 0 {
		err = s.notIndexed(missing)
	}
	if err != nil {
		if closed := s.closedError(err); closed != nil {
			return nil, closed
		}
		return nil, fmt.Errorf("look up transaction %s: %w", tx, err)
	}
	return locs, nil
}

// locationsIn reads them from the database; unreadable is the error of a block that may be the one that has the transaction.
func (s *Store) locationsIn(db *leveldb.DB, tx common.Hash) (locs []TxLocation, unreadable, err error) {
	it := db.NewIterator(util.BytesPrefix(txPrefix(tx)), nil)
	defer it.Release()
	for it.Next() {
		loc, ok := splitTx(it.Key(), it.Value())
		if !ok {
			continue
		}
		s.mu.RLock()
		reversible := s.rev[loc.Block] != nil
		s.mu.RUnlock()
		if reversible {
			at := 0
			for at < len(locs) && locs[at].Height > loc.Height {
				at++
			}
			locs = append(locs[:at], append([]TxLocation{loc}, locs[at:]...)...)
			continue
		}
		e, err := s.entry(loc.Height)
		if err == nil && e.Hash == loc.Block {
			return []TxLocation{loc}, nil, nil
		}
		if err != nil && !block.IsAbsent(err) {
			return nil, err, nil
		}
	}
	return locs, nil, it.Error()
}

// transactionsOf reads the reversible ones of the named blocks before they are deleted, to delete what was derived
// from them too.
func (s *Store) transactionsOf(hashes []common.Hash) []*block.Block {
	var out []*block.Block
	for _, hash := range hashes {
		s.mu.RLock()
		known := s.rev[hash] != nil
		s.mu.RUnlock()
		if !known {
			continue
		}
		if b, err := s.Block(hash); err == nil { // a damaged one leaves entries that no lookup believes
			out = append(out, b)
		}
	}
	return out
}

func (s *Store) forgetTransactions(blocks []*block.Block) error {
	for _, b := range blocks {
		batch := new(leveldb.Batch)
		deleteDerived(batch, b)
		s.blocks.remove(b.Hash())
		s.headers.Remove(b.Hash())
		if err := s.writeDerived(batch); err != nil {
			return err
		}
	}
	return nil
}

func deleteDerived(batch *leveldb.Batch, b *block.Block) {
	hash := b.Hash()
	batch.Delete(blockKey(prefixReceipts, b.Number(), hash))
	for _, tx := range b.Transactions {
		batch.Delete(txKey(tx.Hash(), hash))
	}
}

// Meta is a value that another part of the node keeps here, nil if there is none. Errors wrap ErrClosed.
func (s *Store) Meta(key string) ([]byte, error) {
	v, err := get(s.meta, userKey(key))
	if err != nil {
		if closed := s.closedError(err); closed != nil {
			return nil, closed
		}
		return nil, fmt.Errorf("read %q: %w", key, err)
	}
	return v, nil
}

// PutMeta keeps a value. With sync it is durable when the call returns, sharing the sync with others; without, a
// power cut may lose it, but never it alone while a later one is kept.
func (s *Store) PutMeta(key string, v []byte, sync bool) error {
	if len(key) == 0 || len(key) > maxKeyBytes {
		return fmt.Errorf("name of %d bytes for a stored value, 1 to %d allowed", len(key), maxKeyBytes)
	}
	if sync {
		return s.submit(&op{bytes: len(v), stage: func(st *stage) error {
			st.batch.Put(userKey(key), v)
			return nil
		}})()
	}
	if err := s.gate.check(); err != nil {
		return err
	}
	if err := s.meta.Put(userKey(key), v, &opt.WriteOptions{}); err != nil {
		if closed := s.closedError(err); closed != nil {
			return closed
		}
		return s.gate.fail("write to "+metaDir, err)
	}
	return nil
}
