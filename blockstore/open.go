package blockstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/lru"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/syndtr/goleveldb/leveldb"
	lerrors "github.com/syndtr/goleveldb/leveldb/errors"
	"github.com/syndtr/goleveldb/leveldb/filter"
	"github.com/syndtr/goleveldb/leveldb/iterator"
	"github.com/syndtr/goleveldb/leveldb/opt"
	"github.com/syndtr/goleveldb/leveldb/storage"
	"github.com/syndtr/goleveldb/leveldb/util"
	"go.uber.org/zap"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/internal/vfs"
)

// Open opens the store in cfg.Dir, creating it if the directory is empty, and repairs what a crash left: bytes beyond
// the LIB are cut, reversible blocks that do not descend from the LIB are dropped, the index of the active segment and
// the derived hash index are completed. Whole records and databases are never removed on the way but set aside
// (docs/storage.md, "Set aside"). Damaged records are not looked for (Fsck does that). The caller must Close.
func Open(cfg Config, log *zap.Logger, reg prometheus.Registerer) (*Store, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return openStore(cfg, false, log, reg)
}

// Inspect opens the store in cfg.Dir as it is and changes nothing of it: what a start would repair is repaired in
// memory only, told at WARN, and part of the report of Fsck. A process that uses the store keeps it locked.
func Inspect(cfg Config, log *zap.Logger) (*Store, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	base := cfg.FS
	if base == nil {
		info, err := os.Stat(cfg.Dir)
		switch {
		case errors.Is(err, os.ErrNotExist): // a node that never ran has no blocks, and is sound
		case err != nil:
			return nil, fmt.Errorf("open block store: %w", err)
		case !info.IsDir():
			return nil, fmt.Errorf("open block store: %s is no directory", cfg.Dir)
		}
		base = vfs.OS(cfg.Dir, vfs.Public)
	}
	cfg.FS = vfs.NewOverlay(base)
	return openStore(cfg, true, log, nil)
}

func openStore(cfg Config, looking bool, log *zap.Logger, reg prometheus.Registerer) (*Store, error) {
	if log == nil {
		log = zap.NewNop()
	}
	wanted := make(chan struct{}, 1)
	s := &Store{
		cfg: cfg, fs: cfg.FS, looking: looking, log: log, gate: newGate(),
		blocks:  newBlockCache(cfg.CacheBytes),
		headers: lru.NewCache[common.Hash, *block.SealedHeader](maxHeaderCache),
		ops:     make(chan *op, maxQueuedOps),
		closing: make(chan struct{}),
		stopped: make(chan struct{}),
		damaged: damagedHeights{wanted: wanted}, receiptless: damagedHeights{wanted: wanted},
		derived: derivedDatabase{atOnce: recentHashes, roundEnded: make(chan struct{})},
	}
	if err := s.open(); err != nil {
		return nil, errors.Join(fmt.Errorf("open block store %s: %w", cfg.Dir, err), s.release())
	}
	s.hashed = true
	if err := s.writeSuperblock(&s.state, true); err != nil {
		return nil, errors.Join(fmt.Errorf("open block store %s: %w", cfg.Dir, err), s.release())
	}
	s.openPage()
	s.metrics = newMetrics(reg, s)
	if err := s.readRemembered(); err != nil {
		return nil, errors.Join(fmt.Errorf("open block store %s: %w", cfg.Dir, err), s.release())
	}
	s.derived.open = true
	go s.run()
	if err := s.restoreLIB(); err != nil {
		log.Error("the last irreversible block is damaged, and so is its copy in the database; a peer or an export of a sound node has it", zap.Uint64("height", s.lib.Height), zap.Error(err))
	}
	if !looking {
		s.resumeDerived()
	}
	return s, nil
}

func (s *Store) open() (err error) {
	if s.fs == nil {
		if err := os.MkdirAll(s.cfg.Dir, 0o750); err != nil {
			return err
		}
		s.fs = vfs.OS(s.cfg.Dir, vfs.Public)
	}
	if err := s.lockFolder(); err != nil {
		return err
	}
	s.files = vfs.NewOpenFiles(s.fs, maxOpenFiles)
	for _, dir := range []string{segmentDir, indexDir} {
		if err := s.fs.Mkdir(dir); err != nil {
			return err
		}
	}
	if err := s.openMeta(); err != nil {
		return err
	}
	if s.derived.db, err = s.openDerived(); err != nil {
		return err
	}
	for _, step := range []func() error{s.completeSegments, s.trim, s.openActive, s.checkActiveIndex} {
		if err := step(); err != nil {
			return err
		}
	}
	err = s.completeIndexes()
	if isDamage(err) && s.gate.check() == nil {
		s.damagedDerived(err)
		_ = s.derived.db.Close() // says again that it is damaged
		s.derived.db = nil
		s.derived.files.retired.Store(true)
		if s.derived.db, err = s.beginDerived(); err == nil {
			err = s.completeIndexes()
		}
	}
	return err
}

// completeIndexes completes what the database of derived data lacks, or finds out what a goroutine has to.
func (s *Store) completeIndexes() error {
	if err := s.fillHashIndex(); err != nil {
		return err
	}
	return s.openTransactionIndex()
}

// damagedDerived tells of a database of derived data that Open cannot use.
func (s *Store) damagedDerived(cause error) {
	s.finding(ProblemDerived, 0, fmt.Sprintf("the database %s of derived data cannot be read and is rebuilt; receipts that cannot be read of it come back by executing again: %v", derivedDir, cause))
}

// load reads the state and holds it against the superblock, nil if there is none; recovered says that the database may
// have lost entries.
func (s *Store) load(super *superblock, recovered bool) error {
	s.state = state{rev: make(map[common.Hash]*reversible)}
	if err := s.checkFormat(); err != nil {
		return err
	}
	if err := s.loadLIB(super, recovered); err != nil {
		return err
	}
	return s.loadReversible()
}

// openDerived begins a new derived database if the one there is damaged, which is set aside: all it holds can be rebuilt.
func (s *Store) openDerived() (*leveldb.DB, error) {
	stor, err := newLevelStorage(s.fs, derivedDir, s.gate)
	if err != nil {
		return nil, err
	}
	s.derived.files = stor
	o := s.derivedOptions()
	names, err := s.fs.List(derivedDir)
	if err != nil {
		return nil, err
	}
	if len(names) == 0 && s.has && s.lib.Height > s.lib.First {
		s.finding(ProblemDerived, 0, fmt.Sprintf("the database %s of derived data is missing: opening the store for use rebuilds its indexes; %s", derivedDir, ReceiptsRemedy))
	}
	doubtful, err := marksDoubtful(s.fs, derivedDir, names)
	if err != nil {
		return nil, err
	}
	var db *leveldb.DB
	if slices.Contains(names, rebuildMark) {
		err = lerrors.NewErrCorrupted(storage.FileDesc{}, errors.New("a table was found damaged"))
	} else {
		db, err = leveldb.Open(stor, o)
	}
	if err == nil {
		db, err = s.checkDerivedForm(db)
	}
	if s.derivedMarked.Store(false); isCorrupted(err) {
		s.damagedDerived(err)
		doubtful = false
		db, err = s.beginDerived()
	}
	if err != nil {
		return nil, fmt.Errorf("open database %s: %w", derivedDir, err)
	}
	if doubtful || s.derived.files.unlisted.Load() {
		return closedIf(s.refillIndexes(db), db)
	}
	return db, nil
}

// closedIf passes a database on, or closes it because of an error.
func closedIf(err error, db *leveldb.DB) (*leveldb.DB, error) {
	if err != nil {
		_ = db.Close() // says the same again
		return nil, err
	}
	return db, nil
}

// checkDerivedForm marks a new database with the form of its entries, and begins one anew whose entries have another form.
// Of an error the given database is closed.
func (s *Store) checkDerivedForm(db *leveldb.DB) (*leveldb.DB, error) {
	form, err := get(db, []byte(keyForm))
	if err != nil || string(form) == derivedForm {
		return closedIf(err, db)
	}
	marked, err := db.Has([]byte(keyHashed), nil)
	if err != nil {
		return closedIf(err, db)
	}
	if form == nil && !marked {
		return closedIf(db.Put([]byte(keyForm), []byte(derivedForm), &opt.WriteOptions{Sync: true}), db)
	}
	s.log.Info("the derived data have the form of another program and are rebuilt", zap.String("file", s.cfg.Dir+"/"+derivedDir))
	if err := db.Close(); err != nil {
		return nil, err
	}
	s.derived.files.retired.Store(true)
	return s.beginDerived()
}

func (s *Store) derivedOptions() *opt.Options {
	o := &opt.Options{
		WriteBuffer: s.cfg.IndexBuffer, BlockCacheCapacity: s.cfg.IndexCache, OpenFilesCacheCapacity: 256,
		CompactionTableSize: 8 << 20, CompactionTotalSize: 64 << 20, Filter: filter.NewBloomFilter(10),
		DisableLargeBatchTransaction: true, DisableSeeksCompaction: true,
	}
	s.deferCompaction(o)
	return o
}

func (s *Store) loadLIB(super *superblock, recovered bool) (err error) {
	if s.has, err = getRLP(s.meta, keyLIB, &s.lib); err != nil {
		return err
	}
	if s.has {
		if s.root, err = get(s.meta, []byte(keyRoot)); err != nil {
			return err
		}
		if s.qc, err = getCertificate(s.meta, keyQC); err != nil {
			return err
		}
		if s.fc, err = getCertificate(s.meta, keyFC); err != nil {
			return err
		}
		if s.sealed, err = readSealed(s.meta); err != nil {
			return err
		}
	}
	if err := s.checkAgainst(super); err != nil || s.has {
		return err
	}
	return s.checkNew(recovered)
}

func sealedSegment(n uint32, m segmentMeta) Segment {
	return Segment{Number: n, First: m.First, Last: m.Last, Size: int64(m.Size), Sealed: true, Name: segmentName(n)} //nolint:gosec // our own
}

// checkFormat refuses the store of another program. An absent format is one of a new store, or lost with other entries.
func (s *Store) checkFormat() error {
	v, err := get(s.meta, []byte(keyFormat))
	if err != nil || v == nil || string(v) == format {
		return err
	}
	return formatError(string(v))
}

func formatError(found string) error {
	return fmt.Errorf("the store has format %q, this program knows %q; use the program that wrote it", found, format)
}

// checkNew tells a store that never had a LIB from one whose database was lost: segments of the latter are history
// that must not be removed.
func (s *Store) checkNew(recovered bool) error {
	v, err := get(s.meta, []byte(keyFormat))
	if err != nil {
		return err
	}
	names, err := s.fs.List(segmentDir)
	if err != nil {
		return err
	}
	if len(names) > 0 && (recovered || v == nil) {
		return s.lostMeta("there are %d segment files, and it is empty or cannot be read, and so is the superblock", len(names))
	}
	if v != nil {
		return nil
	}
	return s.meta.Put([]byte(keyFormat), []byte(format), &opt.WriteOptions{Sync: true})
}

// loadReversible lists the reversible blocks and drops those that do not descend from the LIB. Losing branches whose
// deletion a crash undid are known by their height, or by their ancestors'; other blocks have lost an ancestor to
// damage, or are damaged, and are kept aside.
func (s *Store) loadReversible() error {
	it := s.meta.NewIterator(util.BytesPrefix([]byte{prefixReversible}), nil)
	defer it.Release()
	drop, lost := new(leveldb.Batch), make(map[common.Hash]bool)
	var unlinked unlinkedBlocks
	for it.Next() { // ascending heights: parents before children
		r, err := readReversible(it)
		if s.has && r.hash == s.lib.Hash && r.height == s.lib.Height {
			continue // the copy of the LIB, for restoreLIB
		}
		if err != nil {
			s.finding(ProblemReversible, r.height, fmt.Sprintf("a reversible block is damaged and dropped, it comes again from peers: %v", err))
		}
		parent := s.rev[r.parent]
		linked := parent != nil && parent.height+1 == r.height || s.has && r.parent == s.lib.Hash && r.height == s.lib.Height+1
		if err == nil && (linked || !s.has) {
			s.rev[r.hash] = &r
			continue
		}
		drop.Delete(it.Key())
		if lost[r.hash] = err == nil && (s.has && r.height <= s.lib.Height || lost[r.parent]); lost[r.hash] {
			continue
		}
		if err := s.keepUnlinked(&unlinked, recordOf(r.height, r.hash, it.Value())); err != nil {
			return err
		}
	}
	if err := it.Error(); err != nil {
		return err
	}
	if err := s.keepUnlinked(&unlinked, nil); err != nil || drop.Len() == 0 {
		return err
	}
	s.log.Info("dropped reversible blocks that do not descend from the last irreversible block", zap.Int("blocks", drop.Len()), zap.Uint64("height", s.lib.Height))
	return s.meta.Write(drop, nil) // not synced: what comes back is dropped again
}

// unlinkedBlocks gathers records for files in the aside folder.
type unlinkedBlocks struct {
	records []byte
	files   int
}

// keepUnlinked adds a record, nil after the last one, and writes a file when there is enough for one.
func (s *Store) keepUnlinked(u *unlinkedBlocks, record []byte) error {
	u.records = append(u.records, record...)
	if len(u.records) == 0 || record != nil && len(u.records) < maxGroupBytes {
		return nil
	}
	u.files++
	data := u.records
	u.records = nil
	return s.keepAside(asideReversible, fmt.Sprintf("reversible-%d.records", u.files), data, "reversible blocks that are damaged or have lost an ancestor; they come again from peers")
}

func readReversible(it iterator.Iterator) (reversible, error) {
	height, hash, ok := splitBlockKey(it.Key())
	if !ok {
		return reversible{}, fmt.Errorf("key %x", it.Key())
	}
	h, err := block.DecodeBlockHeader(it.Value())
	if err != nil {
		return reversible{height: height, hash: hash}, fmt.Errorf("block %d %s: %w", height, hash, err)
	}
	if h.Hash() != hash || h.Number() != height {
		return reversible{height: height, hash: hash}, fmt.Errorf("block %d %s is stored as %d %s", h.Number(), h.Hash(), height, hash)
	}
	return reversible{height: height, hash: hash, parent: h.Parent()}, nil
}

// openActive opens the active segment for appending. If the file is gone its blocks are damaged, not the store.
func (s *Store) openActive() error {
	if !s.has {
		return nil
	}
	f, err := s.fs.Open(segmentName(s.lib.Segment), os.O_RDWR)
	if errors.Is(err, os.ErrNotExist) {
		s.log.Error("the active segment is missing; its blocks must be fetched again", zap.Uint32("segment", s.lib.Segment), zap.Uint64("height", s.lib.SegmentFirst))
		return s.w.create(s.fs, s.lib.Segment, s.lib.SegmentFirst)
	}
	if err != nil {
		return err
	}
	s.w.seg, s.w.segNumber = f, s.lib.Segment
	return nil
}

// checkActiveIndex makes the index of the active segment whole: it is not synced with every commit, since the segment
// says the same.
func (s *Store) checkActiveIndex() error {
	if !s.has {
		return nil
	}
	seg := s.activeSegment()
	made := 0
	off := int64(segmentHeaderBytes) // of the next record, 0 if unknown
	for h := seg.First; h <= seg.Last; h++ {
		e, err := s.readEntry(h)
		if err != nil || e.Segment != seg.Number || off != 0 && int64(e.Offset) != off { //nolint:gosec // bounded
			if e, err = s.entryFromSegment(seg, h, off); err != nil {
				s.log.Error("no index entry for a damaged block", zap.Uint64("height", h), zap.Error(err))
				off = 0
				continue
			}
			if err := s.w.writeIndex(s.fs, []IndexEntry{e}); err != nil {
				return err
			}
			made++
		}
		off = e.End()
	}
	if made > 0 {
		s.log.Info("completed the height index from the active segment", zap.Int("entries", made), zap.Uint64("height", seg.Last))
	}
	return s.w.flushIndex()
}

// entryFromSegment makes the index entry of a height from the record that lies at off, if that record is sound: a
// damaged one could name a wrong hash.
func (s *Store) entryFromSegment(seg Segment, height uint64, off int64) (IndexEntry, error) {
	if off == 0 {
		return IndexEntry{}, errors.New("neither the index nor the block before it says where it lies")
	}
	r, err := s.soundRecordAt(seg, height, off)
	if err != nil {
		return IndexEntry{}, err
	}
	return IndexEntry{Height: height, Hash: r.Hash, Segment: seg.Number, Length: r.Length, Offset: uint64(off)}, nil //nolint:gosec // not negative
}

// soundRecordAt reads the record of a height, whose hash the caller may not know, and checks it.
func (s *Store) soundRecordAt(seg Segment, height uint64, off int64) (r block.RecordOf, err error) {
	length, err := s.recordLengthAt(seg, off)
	if err != nil {
		return r, err
	}
	rec := make([]byte, recordHeaderBytes+int(length))
	if err := s.readAt(seg.Name, rec, off); err != nil {
		return r, err
	}
	r, _, err = block.DecodeRecord(rec)
	if err == nil && r.Height != height {
		err = fmt.Errorf("the record at %d of %s is that of block %d", off, seg.Name, r.Height)
	}
	return r, err
}

// recordLengthAt is the length of the encoded block in the record at an offset, as its head says it twice; the checksum is
// not looked at.
func (s *Store) recordLengthAt(seg Segment, off int64) (uint32, error) {
	var b [recordHeadBytes]byte
	if err := s.readAt(seg.Name, b[:], off); err != nil {
		return 0, err
	}
	length, err := block.DecodeRecordHead(b[:])
	if err == nil && off+recordHeaderBytes+int64(length) > seg.Size {
		err = fmt.Errorf("the record at %d reaches beyond the end of %s", off, seg.Name)
	}
	return length, err
}

// fillHashIndex completes hash -> height from the height index, from where the last sync of the derived database is
// known to have reached.
func (s *Store) fillHashIndex() error {
	if !s.has {
		return nil
	}
	from := s.lib.First
	v, err := get(s.derived.db, []byte(keyHashed))
	if err != nil {
		return err
	}
	if len(v) == 8 && binary.BigEndian.Uint64(v) >= from {
		from = binary.BigEndian.Uint64(v) + 1
	}
	return s.indexHashes(from, s.lib.Height)
}
