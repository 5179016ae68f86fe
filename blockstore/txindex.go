package blockstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/ethereum/go-ethereum/core/types"
	"github.com/syndtr/goleveldb/leveldb"
	"github.com/syndtr/goleveldb/leveldb/opt"
	"go.uber.org/zap"

	"github.com/bornode/bornode/block"
)

// txIndexWhole is what older programs kept as keyTxs once the index of transactions was whole.
const txIndexWhole = ^uint64(0)

// openTransactionIndex finds out which irreversible blocks the index of transactions may lack: those from keyTxs on, for
// which no receipts are stored either. They are what a power cut took, or all if the derived database was begun again in
// a store that holds blocks. The index is completed from the segments behind Open, and until that has ended a transaction
// that is not found is an error, never absent.
func (s *Store) openTransactionIndex() error {
	next, err := s.indexedBefore(s.derived.db)
	if err != nil {
		return err
	}
	s.indexed.Store(max(next, s.lib.First))
	if !s.has {
		return nil
	}
	if next = s.advanceIndexed(s.derived.db); next <= s.lib.Height {
		s.filling.Store(&txFilling{next: next, last: s.lib.Height})
	}
	return nil
}

// indexedBefore reads keyTxs.
func (s *Store) indexedBefore(db *leveldb.DB) (next uint64, err error) {
	v, err := get(db, []byte(keyTxs))
	if err != nil || len(v) != 8 {
		return 0, err
	}
	if next = binary.BigEndian.Uint64(v); next != txIndexWhole {
		return next, nil
	}
	if v, err = get(db, []byte(keyHashed)); err != nil || len(v) != 8 {
		return 0, err
	}
	return binary.BigEndian.Uint64(v) + 1, nil
}

// advanceIndexed moves indexed over the irreversible blocks whose receipts are stored, which one batch wrote with the
// places of their transactions, and over those without transactions. It gives the first height that is neither, as far
// as it has come.
func (s *Store) advanceIndexed(db *leveldb.DB) uint64 {
	next := max(s.indexed.Load(), s.lib.First)
	for end := next + maxIndexedAtOnce; next <= s.lib.Height && next < end; next++ {
		e, err := s.entry(next)
		if err != nil {
			break
		}
		there, err := db.Has(blockKey(prefixReceipts, next, e.Hash), nil)
		if err != nil {
			break
		}
		if there {
			continue
		}
		h, err := s.HeaderByHeight(next)
		if err != nil || h.Header.TxHash != types.EmptyTxsHash {
			break
		}
	}
	s.indexed.Store(next)
	return next
}

// refillIndexes has both indexes of the derived database completed from the blocks: it was opened without damaged parts
// that its marks cover, so any entries may be lost. Receipts that are lost come back by executing again.
func (s *Store) refillIndexes(db *leveldb.DB) error {
	s.finding(ProblemDerived, 0, fmt.Sprintf("parts of the journal of the database %s, or of its list of tables, are damaged; its indexes are completed from the blocks", derivedDir))
	marks := new(leveldb.Batch)
	marks.Delete([]byte(keyHashed))
	marks.Delete([]byte(keyTxs))
	return db.Write(marks, &opt.WriteOptions{Sync: true})
}

// txFilling is how far the index of transactions is: the blocks from next to last are not in it.
type txFilling struct{ next, last uint64 }

// resumeDerived starts the goroutine that goes on with what an earlier one has left of the database of derived data.
func (s *Store) resumeDerived() {
	old, err := s.getDerived([]byte(keyOld))
	if s.filling.Load() != nil || old != nil || err != nil {
		s.derived.mu.Lock()
		round := s.derived.round
		s.derived.mu.Unlock()
		s.wg.Go(func() { s.completeDerived(round) })
	}
}

// fillTransactions completes the index of transactions of one database. A damaged block stops it until it is replaced or
// pruned: the transaction that is asked for may be in it.
func (s *Store) fillTransactions(round int) error {
	f := s.filling.Load()
	if f == nil {
		return nil
	}
	s.log.Info("the index of transactions is completed from the blocks", zap.Uint64("from", f.next), zap.Uint64("to", f.last))
	batch, size := new(leveldb.Batch), 0
	for next := f.next; next <= f.last; {
		if s.isClosing() {
			return ErrClosed
		}
		next = max(next, s.FirstHeight())
		n, err := s.addTransactions(batch, next)
		var damage ErrCorrupt
		if errors.As(err, &damage) {
			if err := s.flushTransactions(round, batch, next, f.last); err != nil {
				return err
			}
			if err := s.awaitReadable(round, damage.Height); err != nil {
				return err
			}
			batch, size = new(leveldb.Batch), 0
			continue
		}
		if err != nil && !errors.Is(err, ErrPruned) {
			return fmt.Errorf("index the transactions of block %d: %w", next, err)
		}
		next++
		if size += n; size >= writeChunkBytes || next > f.last {
			if err := s.flushTransactions(round, batch, next, f.last); err != nil {
				return err
			}
			batch, size = new(leveldb.Batch), 0
		}
	}
	err := s.useDerivedOf(round, func(*leveldb.DB) error {
		s.indexed.Store(f.last + 1)
		s.filling.Store(nil) // from here on the writer moves the mark
		return nil
	})
	if err == nil {
		s.log.Info("the index of transactions is complete", zap.Uint64("height", f.last))
	}
	return err
}

// addTransactions puts the places of an irreversible block's transactions into a batch and returns how many bytes.
func (s *Store) addTransactions(batch *leveldb.Batch, height uint64) (size int, err error) {
	e, err := s.entry(height)
	if err != nil {
		return 0, err
	}
	payload, err := s.record(e)
	if err != nil {
		return 0, err
	}
	b, err := block.DecodeBlock(payload, maxPayloadBytes)
	if err != nil {
		return 0, s.corrupt(height, err)
	}
	for i, tx := range b.Transactions {
		k := txKey(tx.Hash(), height, i)
		batch.Put(k, nil)
		size += len(k)
	}
	return size, nil
}

// flushTransactions writes a batch and notes that all blocks below next are in the index.
func (s *Store) flushTransactions(round int, batch *leveldb.Batch, next, last uint64) error {
	batch.Put([]byte(keyTxs), binary.BigEndian.AppendUint64(nil, next))
	if err := s.gate.check(); err != nil {
		return err
	}
	err := s.useDerivedOf(round, func(db *leveldb.DB) error {
		if err := db.Write(batch, nil); err != nil {
			return err
		}
		s.filling.Store(&txFilling{next: next, last: last})
		return nil
	})
	if closed := s.closedError(err); closed != nil {
		return closed
	}
	return err
}

// awaitReadable waits for a damaged block that the completion of a database of derived data needs. nil: the block was
// replaced or pruned, or was not damaged any more. errReplaced: the database was replaced, and the goroutine of the new
// one waits instead.
func (s *Store) awaitReadable(round int, height uint64) error {
	d := &s.derived
	d.mu.RLock()
	isCurrent, roundEnded := d.round == round, d.roundEnded
	d.mu.RUnlock()
	if !isCurrent {
		return errReplaced
	}
	repaired := s.Repaired(height)
	if repaired == nil || height < s.FirstHeight() { // pruned before it was listed
		return nil
	}
	select {
	case <-repaired:
		return nil
	case <-roundEnded:
		return errReplaced
	case <-s.closing:
		return ErrClosed
	}
}

// notIndexed is why a transaction that was not found may exist all the same; nil if it does not.
func (s *Store) notIndexed(f *txFilling) error {
	if f == nil {
		return nil
	}
	if slices.Contains(s.Damaged(), f.next) {
		return ErrCorrupt{Height: f.next, Cause: errors.New("its transactions are not in the index")}
	}
	return fmt.Errorf("%w: blocks %d to %d are not in it yet; ask again", ErrIndexing, f.next, f.last)
}
