package blockstore

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
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
	b, err := block.EncodeReceipts(receipts)
	if err != nil {
		return fmt.Errorf("encode receipts of block %d %s: %w", height, hash, err)
	}
	batch := new(leveldb.Batch)
	for i, r := range receipts {
		batch.Put(txKey(r.TxHash, height, i), nil)
	}
	batch.Put(blockKey(prefixReceipts, height, hash), b)
	if err := s.writeDerived(batch); err != nil {
		return err
	}
	s.receiptless.forget(height) // if another block's of this height are missing, a reader notes it again
	return nil
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
	b, err := s.storedReceipts(height, hash)
	if err != nil {
		return nil, err
	}
	rs, err := block.DecodeReceipts(b)
	if err != nil {
		return nil, fmt.Errorf("receipts of block %d %s are damaged: %w", height, hash, err)
	}
	return rs, nil
}

// storedReceipts are the bytes of ReceiptsAt.
func (s *Store) storedReceipts(height uint64, hash common.Hash) ([]byte, error) {
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
	return b, nil
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
	var places []txPlace
	err = s.useDerived(func(db *leveldb.DB) error {
		missing = s.filling.Load() // before the read: what is written behind it may be what was not found
		places = places[:0]
		it := db.NewIterator(util.BytesPrefix(txPrefix(tx)), nil)
		defer it.Release()
		for it.Next() {
			if p, ok := splitTxKey(it.Key()); ok {
				places = append(places, p)
			}
		}
		return it.Error()
	})
	if err == nil {
		locs, err = s.locationsAt(tx, places)
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

// locationsAt asks the blocks at the places whether they have the transaction. If none has it, an error says that one of
// them cannot be read.
func (s *Store) locationsAt(tx common.Hash, places []txPlace) (locs []TxLocation, err error) {
	slices.SortFunc(places, func(a, b txPlace) int { return cmp.Compare(b.height, a.height) })
	for _, p := range places {
		for _, hash := range s.reversibleAt(p.height) { // before the irreversible one, which it may be by now
			b, readErr := s.Block(hash)
			if readErr == nil && hasAt(b, p.index, tx) {
				locs = append(locs, TxLocation{Block: hash, Height: p.height, Index: uint64(p.index)}) //nolint:gosec // not negative
			} else if readErr != nil && !block.IsAbsent(readErr) {
				err = errors.Join(err, readErr)
			}
		}
	}
	for _, p := range places {
		if last, _ := s.LIB(); p.height > last {
			continue
		}
		b, readErr := s.BlockByHeight(p.height)
		if readErr == nil && hasAt(b, p.index, tx) {
			return []TxLocation{{Block: b.Hash(), Height: p.height, Index: uint64(p.index)}}, nil //nolint:gosec // not negative
		}
		if readErr != nil && !block.IsAbsent(readErr) { // it may be the block that has the transaction
			err = errors.Join(err, readErr)
		}
	}
	if err != nil {
		return nil, err
	}
	return locs, nil
}

func hasAt(b *block.Block, index int, tx common.Hash) bool {
	return index < len(b.Transactions) && b.Transactions[index].Hash() == tx
}

// reversibleAt are the reversible blocks of a height.
func (s *Store) reversibleAt(height uint64) (hashes []common.Hash) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.has && height <= s.lib.Height {
		return nil
	}
	for hash, r := range s.rev {
		if r.height == height {
			hashes = append(hashes, hash)
		}
	}
	return hashes
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
		deleteDerived(batch, b, s.others(b))
		s.blocks.remove(b.Hash())
		s.headers.Remove(b.Hash())
		if err := s.writeDerived(batch); err != nil {
			return err
		}
	}
	return nil
}

// others are the blocks of the same height that stay: a transaction may be at the same place in them, and has one entry.
// nil: one cannot be read, so no entry may go.
func (s *Store) others(b *block.Block) []*block.Block {
	out := []*block.Block{}
	for _, hash := range s.reversibleAt(b.Number()) {
		if hash == b.Hash() {
			continue
		}
		o, err := s.Block(hash)
		if err != nil && !block.IsAbsent(err) {
			return nil
		} else if err == nil {
			out = append(out, o)
		}
	}
	o, err := s.BlockByHeight(b.Number())
	if err != nil && !block.IsAbsent(err) {
		return nil
	} else if err == nil && o.Hash() != b.Hash() {
		out = append(out, o)
	}
	return out
}

// deleteDerived deletes the receipts of a block, and the places of its transactions that no other one has at the same place. nil others
// leave the places, which no lookup believes.
func deleteDerived(batch *leveldb.Batch, b *block.Block, others []*block.Block) {
	batch.Delete(blockKey(prefixReceipts, b.Number(), b.Hash()))
	if others == nil {
		return
	}
	for i, tx := range b.Transactions {
		hash := tx.Hash()
		if !slices.ContainsFunc(others, func(o *block.Block) bool {
			if i >= len(o.Transactions) {
				return false
			}
			other := o.Transactions[i].Hash()
			return bytes.Equal(other[:prefixBytes], hash[:prefixBytes])
		}) {
			batch.Delete(txKey(hash, b.Number(), i))
		}
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
