package blockstore

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"

	"github.com/syndtr/goleveldb/leveldb"
	lerrors "github.com/syndtr/goleveldb/leveldb/errors"
	"github.com/syndtr/goleveldb/leveldb/opt"
	"github.com/syndtr/goleveldb/leveldb/storage"
	"go.uber.org/zap"
)

// derivedDatabase is the open database of derived data. It is replaced by a new one while the store runs when it turns out
// to be damaged, whoever finds that: a reader, a writer, or a compaction, whose error the next write gets.
type derivedDatabase struct {
	mu       sync.RWMutex  // held for reading while db is used, for writing while it is replaced
	db       *leveldb.DB   // nil: closed, or it could not be replaced
	files    *levelStorage // of db
	round    int           // counts the databases of this process
	replaced int           // because they were damaged
	atOnce   uint64        // hashes of blocks that a new one gets before anybody uses it, and then at a time
	open     bool          // the store is open: damage is mended at once. Open itself has its own way

	roundEnded chan struct{} // closed when db is replaced; each round has its own
}

// errReplaced ends the work of a goroutine on a database that was replaced meanwhile.
var errReplaced = errors.New("the database of derived data was replaced meanwhile")

// useDerived calls use with the database of derived data, again after it was found damaged and replaced. use must be safe
// to repeat, must not call useDerived, and must not keep what it gets of the database.
func (s *Store) useDerived(use func(*leveldb.DB) error) error {
	d := &s.derived
	for {
		d.mu.RLock()
		db, round := d.db, d.round
		err := error(leveldb.ErrClosed)
		if db != nil {
			err = use(db)
		} else if failed := s.gate.check(); failed != nil {
			err = failed
		}
		d.mu.RUnlock()
		if !isDamage(err) || s.gate.check() != nil || !s.replaceDerived(round, err) {
			return err
		}
	}
}

// useDerivedOf is useDerived for a goroutine that works on one database alone.
func (s *Store) useDerivedOf(round int, use func(*leveldb.DB) error) error {
	return s.useDerived(func(db *leveldb.DB) error {
		if s.derived.round != round {
			return errReplaced
		}
		return use(db)
	})
}

// isCorrupted is goleveldb's IsCorrupted for an error that is wrapped too.
func isCorrupted(err error) bool {
	return errors.As(err, new(*lerrors.ErrCorrupted)) || errors.As(err, new(*storage.ErrCorrupted))
}

// isDamage reports whether an error of a database says that its files cannot be read: damaged, lost, or not given by the
// disk.
func isDamage(err error) bool {
	return isCorrupted(err) || errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.EIO)
}

// replaceDerived sets a damaged database aside and begins a new one, which a goroutine of its own completes: from the blocks,
// and with the receipts that can still be read of the old one. Blocks of the newest heights are in it at once, so that execution and peers find
// them; what is not found while it is completed is an error, never absent. It reports whether there is a new one, which may
// be another caller's work. After maxDerivedReplacements the disk is not to be trusted: the next start begins a new one.
func (s *Store) replaceDerived(round int, cause error) bool {
	d := &s.derived
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.round != round {
		return d.db != nil
	}
	if s.looking || !d.open || d.db == nil {
		return false
	}
	if d.replaced >= maxDerivedReplacements {
		s.markDerived("the database of derived data is damaged again, so the disk is not to be trusted; replace the disk, or restart the node, which rebuilds it", cause)
		return false
	}
	s.log.Error("the database of derived data is damaged; it is set aside and rebuilt while the node runs", zap.String("file", s.cfg.Dir+"/"+derivedDir), zap.Error(cause))
	_ = d.db.Close() // says again that it is damaged
	d.db = nil
	d.files.retired.Store(true)
	db, err := s.beginDerived()
	if err == nil {
		d.db = db
		d.round, d.replaced = d.round+1, d.replaced+1
		close(d.roundEnded)
		d.roundEnded = make(chan struct{})
		s.metrics.derivedReplaced.Inc()
		err = s.prepareDerived(db, d.round)
	}
	if err != nil {
		_ = s.gate.fail("replace the damaged database "+derivedDir, err)
		return false
	}
	return true
}

// beginDerived sets the files of a closed database aside and opens a new one, which remembers where the old one is until its
// receipts are copied.
func (s *Store) beginDerived() (*leveldb.DB, error) {
	s.told.Lock()
	delete(s.asides, asideDerived) // a folder of its own for each
	s.told.Unlock()
	if err := s.setAside(asideDerived, derivedDir, "a damaged database of derived data, which is rebuilt"); err != nil {
		return nil, err
	}
	s.told.Lock()
	old := s.asides[asideDerived] + "/" + derivedDir
	s.told.Unlock()
	stor, err := newLevelStorage(s.fs, derivedDir, s.gate)
	if err != nil {
		return nil, err
	}
	s.derived.files = stor
	db, err := leveldb.Open(stor, s.derivedOptions())
	if err != nil {
		return nil, err
	}
	first := new(leveldb.Batch)
	first.Put([]byte(keyForm), []byte(derivedForm))
	first.Put([]byte(keyOld), []byte(old))
	return closedIf(db.Write(first, &opt.WriteOptions{Sync: true}), db)
}

// prepareDerived puts the hashes of the newest blocks into a new database, says from where on the rest is missing, and starts
// the goroutine that completes it. The caller holds the lock of the database.
func (s *Store) prepareDerived(db *leveldb.DB, round int) error {
	s.mu.RLock()
	has, first, last := s.has, s.lib.First, s.lib.Height
	s.mu.RUnlock()
	if !has {
		return nil
	}
	s.indexed.Store(first)
	s.filling.Store(&txFilling{next: first, last: last})
	low := first
	if last-first >= s.derived.atOnce {
		low = last - s.derived.atOnce + 1
	}
	if err := s.putHashes(db, low, last); err != nil {
		return err
	}
	s.hashing.Store(nil)
	if low > first {
		s.hashing.Store(&hashFilling{below: low})
	}
	s.wg.Go(func() { s.completeDerived(round) })
	return nil
}

// hashFilling says that hash -> height is missing for the blocks below a height.
type hashFilling struct{ below uint64 }

// notHashed is why a block that was not found by its hash may exist all the same; nil if it does not.
func (f *hashFilling) notHashed() error {
	if f == nil {
		return nil
	}
	return fmt.Errorf("%w: blocks below %d are not in it yet; ask again", ErrIndexing, f.below)
}

// putHashes writes hash -> height for a range of irreversible blocks. Damaged ones are left out: Replace writes them.
func (s *Store) putHashes(db *leveldb.DB, from, to uint64) error {
	batch := new(leveldb.Batch)
	for h := from; h <= to; h++ {
		e, err := s.entry(h)
		if err != nil {
			continue
		}
		batch.Put(hashKey(e.Hash, h), nil)
	}
	return db.Write(batch, nil)
}

// completeDerived is the goroutine that completes a new database of derived data: hashes from the newest blocks down, the
// transactions of reversible blocks, those of irreversible ones, then receipts from the old database.
func (s *Store) completeDerived(round int) {
	err := s.completeHashes(round)
	if err == nil {
		err = s.completeReversible(round)
	}
	if err == nil {
		err = s.fillTransactions(round)
	}
	if err == nil {
		err = s.copyReceipts(round)
	}
	switch {
	case errors.Is(err, errReplaced), errors.Is(err, ErrClosed):
	case err != nil:
		s.log.Error("the database of derived data is not completed further; it goes on with the next start", zap.Error(err))
	default:
		s.log.Info("the database of derived data is complete")
	}
}

func (s *Store) isClosing() bool {
	select {
	case <-s.closing:
		return true
	default:
		return false
	}
}

func (s *Store) completeHashes(round int) error {
	for f := s.hashing.Load(); f != nil; f = s.hashing.Load() {
		if s.isClosing() {
			return ErrClosed
		}
		first := s.FirstHeight()
		low := first
		if f.below > first+s.derived.atOnce {
			low = f.below - s.derived.atOnce
		}
		err := s.useDerivedOf(round, func(db *leveldb.DB) error {
			if low < f.below {
				if err := s.putHashes(db, low, f.below-1); err != nil {
					return err
				}
			}
			next := &hashFilling{below: low}
			if low <= first {
				next = nil
			}
			s.hashing.Store(next)
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// completeReversible puts the places of the transactions of reversible blocks into a new database. Blocks that come
// meanwhile bring theirs.
func (s *Store) completeReversible(round int) error {
	blocks, err := s.Reversible()
	if err != nil && !errors.As(err, new(ErrCorrupt)) { // of a damaged one no lookup is believed anyway
		return err
	}
	for _, b := range blocks {
		batch := new(leveldb.Batch)
		for i, tx := range b.Transactions {
			batch.Put(txKey(tx.Hash(), b.Number(), i), nil)
		}
		if err := s.useDerivedOf(round, func(db *leveldb.DB) error { return db.Write(batch, nil) }); err != nil {
			return err
		}
	}
	return nil
}

// copyReceipts copies what can be read of the receipts in the database that was set aside, if one is remembered: blocks whose state is gone cannot
// be executed again. Receipts that are there already are left, those of blocks that are not kept are passed over.
func (s *Store) copyReceipts(round int) error {
	old, err := s.getDerived([]byte(keyOld))
	if err != nil || old == nil {
		return err
	}
	copied := 0
	err = eachLevelEntry(s.fs, string(old), func(_ uint64, key, value []byte, deleted bool) error {
		if s.isClosing() {
			return ErrClosed
		}
		if deleted || len(key) != 41 || key[0] != prefixReceipts || !s.keepsBlockOf(key) {
			return nil
		}
		return s.useDerivedOf(round, func(db *leveldb.DB) error {
			there, err := db.Has(key, nil)
			if err != nil || there {
				return err
			}
			copied++
			return db.Put(key, value, nil)
		})
	})
	if err != nil && !errors.Is(err, os.ErrNotExist) { // an operator may remove the folder
		return err
	}
	if copied > 0 {
		s.log.Info("copied receipts from the database that was set aside", zap.Int("blocks", copied))
	}
	return s.useDerivedOf(round, func(db *leveldb.DB) error {
		return db.Delete([]byte(keyOld), &opt.WriteOptions{Sync: true})
	})
}

// keepsBlockOf reports whether the block that a key of receipts names is one of the store's.
func (s *Store) keepsBlockOf(key []byte) bool {
	height, hash, _ := splitBlockKey(key)
	s.mu.RLock()
	reversible := s.rev[hash] != nil
	s.mu.RUnlock()
	if reversible {
		return true
	}
	e, err := s.entry(height)
	return err == nil && e.Hash == hash
}

// getDerived reads a value of the database of derived data; nil: it is not there.
func (s *Store) getDerived(key []byte) (v []byte, err error) {
	err = s.useDerived(func(db *leveldb.DB) (err error) {
		v, err = get(db, key)
		return err
	})
	return v, err
}

// hasDerived reports whether the database of derived data has a key.
func (s *Store) hasDerived(key []byte) (there bool, err error) {
	err = s.useDerived(func(db *leveldb.DB) (err error) {
		there, err = db.Has(key, nil)
		return err
	})
	return there, err
}

const damagedForNextStart = "the database of derived data is damaged; the next start rebuilds it"

// markDerived has the next start begin a new database.
func (s *Store) markDerived(told string, cause error) {
	if s.derivedMarked.Swap(true) { // every reader meets it again
		return
	}
	s.log.Error(told, zap.String("file", s.cfg.Dir+"/"+derivedDir), zap.Error(cause))
	if f, err := s.fs.Open(derivedDir+"/"+rebuildMark, os.O_RDWR|os.O_CREATE); err == nil {
		_ = errors.Join(f.Close(), s.fs.SyncDir(derivedDir)) // without the mark the damage is met again
	}
}
