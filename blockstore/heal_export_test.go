package blockstore

import (
	"github.com/ethereum/go-ethereum/common"
	"github.com/syndtr/goleveldb/leveldb"
	"github.com/syndtr/goleveldb/leveldb/util"
)

// PutHash plants a candidate in the index by hash.
func (s *Store) PutHash(hash common.Hash, height uint64) error {
	return s.useDerived(func(db *leveldb.DB) error { return db.Put(hashKey(hash, height), nil, nil) })
}

// ForgetDerivedForm makes the database of derived data one of a program from before it had a form.
func (s *Store) ForgetDerivedForm() error {
	return s.useDerived(func(db *leveldb.DB) error { return db.Delete([]byte(keyForm), nil) })
}

// AwaitCompletion waits until the goroutines that complete the database of derived data have ended.
func (s *Store) AwaitCompletion() { s.wg.Wait() }

// PutHashesAtOnce sets how many hashes of blocks a new database of derived data gets at a time. Before anything is damaged.
func (s *Store) PutHashesAtOnce(n uint64) { s.derived.atOnce = n }

// ReplacedDerived is how often a damaged database of derived data was replaced since the store was opened.
func (s *Store) ReplacedDerived() int {
	s.derived.mu.RLock()
	defer s.derived.mu.RUnlock()
	return s.derived.replaced
}

// MeetDerivedDamageTwice is what two readers of one database do that find it damaged, and says what each is told.
func (s *Store) MeetDerivedDamageTwice(cause error) (mended []bool) {
	for range 2 {
		mended = append(mended, s.replaceDerived(0, cause))
	}
	return mended
}

// CopiedBlocks are the blocks that the primary database holds beside the reversible ones.
func (s *Store) CopiedBlocks() (hashes []common.Hash, err error) {
	it := s.meta.NewIterator(util.BytesPrefix([]byte{prefixReversible}), nil)
	defer it.Release()
	for it.Next() {
		_, hash, _ := splitBlockKey(it.Key())
		if s.rev[hash] == nil {
			hashes = append(hashes, hash)
		}
	}
	return hashes, it.Error()
}
