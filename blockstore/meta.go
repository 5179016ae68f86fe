package blockstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"path/filepath"

	"github.com/ethereum/go-ethereum/rlp"
	"github.com/syndtr/goleveldb/leveldb"
	"github.com/syndtr/goleveldb/leveldb/opt"
	"github.com/syndtr/goleveldb/leveldb/util"

	"github.com/bornode/bornode/internal/exit"
	"github.com/bornode/bornode/internal/vfs"
)

// openMeta opens the primary database and reads the state from it. A damaged one, and one that has lost its newest
// entries, is rebuilt beside it from every entry that can be read and from the superblock, and set aside: other entries
// that are lost then show as missing reversible blocks, which come again from peers, or as unlisted segments, which
// completeSegments lists again.
func (s *Store) openMeta() error {
	if err := s.finishMeta(); err != nil {
		return err
	}
	super, err := s.readSuperblock()
	if err != nil {
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
			err = s.load(super, false)
		}
		if !isCorrupted(err) && !errors.As(err, new(setBackError)) {
			return metaError(err)
		}
		c.damage = err.Error()
		if s.meta != nil {
			_ = s.meta.Close() // says again that it is damaged
			s.meta = nil
		}
	}
	if err := s.rebuildMeta(c.damage, super); err != nil {
		return s.lostMeta("it is damaged (%s) and cannot be rebuilt: %w", c.damage, err)
	}
	if s.meta, err = s.openMetaAt(metaDir); err == nil {
		err = s.load(super, !c.torn)
	}
	switch {
	case errors.As(err, new(setBackError)):
		return s.lostMeta("%w", err)
	case err == nil && super != nil:
		return s.checkSegmentEnd(super)
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
func (s *Store) rebuildMeta(damage string, super *superblock) error {
	s.finding(ProblemMeta, 0, fmt.Sprintf("the database %s of the last irreversible block and of reversible blocks is rebuilt from what can be read of it, and from the superblock: %s", metaDir, damage))
	db, err := s.openMetaAt(newMetaDir)
	if err != nil {
		return err
	}
	err = salvageLevel(s.fs, metaDir, db)
	if err == nil && super != nil {
		err = restoreFrom(super, db)
	}
	if err := errors.Join(err, db.Close()); err != nil {
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

// restoreFrom puts what the superblock says into a rebuilt database that has an older last irreversible block, or none, or
// one that its list of segments contradicts.
func restoreFrom(super *superblock, db *leveldb.DB) error {
	var lib libMeta
	has, err := getRLP(db, keyLIB, &lib)
	sealed, listErr := readSealed(db)
	if err == nil && listErr == nil && has && lib.Height >= super.LIB.Height && contradiction(lib, sealed) == nil {
		return nil
	}
	batch := new(leveldb.Batch)
	batch.Put([]byte(keyFormat), []byte(format))
	batch.Put([]byte(keyLIB), mustRLP(&super.LIB))
	for key, value := range map[string][]byte{keyQC: super.QC, keyFC: super.FC, keyRoot: super.Root} {
		if len(value) == 0 {
			batch.Delete([]byte(key))
		} else {
			batch.Put([]byte(key), value)
		}
	}
	it := db.NewIterator(util.BytesPrefix([]byte{prefixSegment}), nil)
	defer it.Release()
	for it.Next() { // completeSegments lists what belongs there again
		batch.Delete(it.Key())
	}
	if err := it.Error(); err != nil {
		return err
	}
	return db.Write(batch, &opt.WriteOptions{Sync: true})
}

// readSealed reads the list of sealed segments.
func readSealed(db *leveldb.DB) (sealed []Segment, err error) {
	it := db.NewIterator(util.BytesPrefix([]byte{prefixSegment}), nil)
	defer it.Release()
	for it.Next() {
		var m segmentMeta
		if len(it.Key()) != 5 {
			return nil, fmt.Errorf("entry %x is none of a segment", it.Key())
		}
		n := binary.BigEndian.Uint32(it.Key()[1:])
		if err := rlp.DecodeBytes(it.Value(), &m); err != nil {
			return nil, fmt.Errorf("entry of segment %d: %w", n, err)
		}
		sealed = append(sealed, sealedSegment(n, m))
	}
	return sealed, it.Error()
}

// contradiction is a list of sealed segments that contradicts the last irreversible block: both are written in one batch,
// so one of them is an old version that damage has brought back.
func contradiction(lib libMeta, sealed []Segment) error {
	for _, seg := range sealed {
		if seg.Number >= lib.Segment || seg.Last >= lib.SegmentFirst {
			return setBackError{fmt.Sprintf("it says that block %d is the last irreversible one, and lists %s with blocks up to %d", lib.Height, seg.Name, seg.Last)}
		}
	}
	return nil
}
