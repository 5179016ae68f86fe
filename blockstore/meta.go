package blockstore

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"

	"github.com/syndtr/goleveldb/leveldb"
	lerrors "github.com/syndtr/goleveldb/leveldb/errors"
	"github.com/syndtr/goleveldb/leveldb/opt"

	"github.com/bornode/bornode/internal/exit"
	"github.com/bornode/bornode/internal/vfs"
)

// openMeta opens the primary database and reads the state from it. A damaged one is rebuilt beside it from every entry
// that can be read, and set aside: entries that are lost then show as missing reversible blocks or a lower LIB, both
// of which come again from peers, or as unlisted segments, which completeSegments lists again.
func (s *Store) openMeta() error {
	if err := s.finishMeta(); err != nil {
		return err
	}
	c, err := examineLevel(s.fs, metaDir)
	if err != nil {
		return fmt.Errorf("examine database %s: %w", metaDir, err)
	}
	if c.damage == "" {
		if err := s.keepTails(c.tails); err != nil {
			return err
		}
		if s.meta, err = s.openMetaAt(metaDir); err == nil {
			err = s.load(false)
		}
		if !lerrors.IsCorrupted(err) {
			return metaError(err)
		}
		c.damage = err.Error()
		if s.meta != nil {
			_ = s.meta.Close() // says again that it is damaged
			s.meta = nil
		}
	}
	if err := s.rebuildMeta(c.damage); err != nil {
		return s.lostMeta("it is damaged (%s) and cannot be rebuilt: %w", c.damage, err)
	}
	if s.meta, err = s.openMetaAt(metaDir); err == nil {
		err = s.load(!c.torn)
	}
	return metaError(err)
}

// lostMeta is the end of a start that the primary database does not allow: it does not say, or says wrongly, which blocks
// are irreversible. Nothing was moved.
func (s *Store) lostMeta(format string, args ...any) error {
	return &exit.Fault{
		What: "the database of the last irreversible block is damaged", File: filepath.Join(s.cfg.Dir, metaDir), Cause: fmt.Errorf(format, args...),
		Remedy: "restore it from a backup, or move the folder " + s.cfg.Dir + " away and start the node, which synchronises again",
	}
}

func metaError(err error) error {
	if err != nil {
		return fmt.Errorf("open database %s: %w", metaDir, err)
	}
	return nil
}

// openMetaAt is strict about manifests: a record of one that is passed over would let goleveldb remove the tables that
// it lists.
func (s *Store) openMetaAt(dir string) (*leveldb.DB, error) {
	stor, err := newLevelStorage(s.fs, dir, s.gate)
	if err != nil {
		return nil, err
	}
	o := &opt.Options{
		WriteBuffer: s.cfg.MetaBuffer, BlockCacheCapacity: 4 << 20, OpenFilesCacheCapacity: 64,
		DisableLargeBatchTransaction: true, DisableSeeksCompaction: true, Strict: opt.DefaultStrict | opt.StrictManifest,
	}
	s.deferCompaction(o)
	return leveldb.Open(stor, o)
}

// deferCompaction keeps a database that is only looked at from being compacted in memory.
func (s *Store) deferCompaction(o *opt.Options) {
	if s.looking {
		o.CompactionL0Trigger, o.WriteL0SlowdownTrigger, o.WriteL0PauseTrigger = math.MaxInt32, math.MaxInt32, math.MaxInt32
		o.CompactionTotalSize = math.MaxInt32
	}
}

// finishMeta ends a rebuilding that a crash interrupted. While the old database is there the new one may be a part; it
// is complete from the moment when the old one is set aside.
func (s *Store) finishMeta() error {
	fresh, err := s.fs.List(newMetaDir)
	if err != nil || len(fresh) == 0 {
		return err
	}
	old, err := s.fs.List(metaDir)
	if err != nil {
		return err
	}
	if len(old) == 0 {
		return errors.Join(s.fs.Rename(newMetaDir, metaDir), s.fs.SyncDir("."))
	}
	for _, name := range fresh {
		if err := s.fs.Remove(newMetaDir + "/" + name); err != nil {
			return err
		}
	}
	return nil
}

// rebuildMeta replaces the primary database by a new one with every entry that can be read.
func (s *Store) rebuildMeta(damage string) error {
	s.finding(ProblemMeta, 0, fmt.Sprintf("the database %s of the last irreversible block and of reversible blocks is rebuilt from what can be read of it: %s", metaDir, damage))
	db, err := s.openMetaAt(newMetaDir)
	if err != nil {
		return err
	}
	if err := errors.Join(salvageLevel(s.fs, metaDir, db), db.Close()); err != nil {
		return err
	}
	if err := s.setAside(asideMeta, metaDir, "a damaged database, which was rebuilt from what can be read of it"); err != nil {
		return err
	}
	return errors.Join(s.fs.Rename(newMetaDir, metaDir), s.fs.SyncDir("."))
}

// keepTails keeps copies of journals whose end cannot be read: a power cut leaves such ends of writes that nobody
// waited for, but damage to the newest write looks the same, and goleveldb removes the journals.
func (s *Store) keepTails(names []string) error {
	for _, name := range names {
		data, err := vfs.ReadFile(s.fs, name, maxDatabaseFileBytes)
		if err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}
		if err := s.keepAside(asideJournal, name, data, "a journal whose last bytes cannot be read: a write that a power cut ended, or damage"); err != nil {
			return err
		}
	}
	return nil
}
