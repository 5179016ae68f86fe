package blockstore

import (
	"errors"
	"fmt"
	"os"

	"github.com/ethereum/go-ethereum/common"
	"github.com/syndtr/goleveldb/leveldb"
	"go.uber.org/zap"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/internal/failpoint"
	"github.com/bornode/bornode/internal/vfs"
)

// Replace restores the damaged record of an irreversible block from a copy that came from elsewhere. The block must be
// the one that the index, the LIB or its child names by hash, and its record and body must match its header; whether
// the seal is right is for the caller to check. All encodings of one block have the same length, so the record is
// written where it was. Of a run of blocks whose index entries are lost too only the highest is named by what can be read:
// the error is ErrNeighbourFirst then, which says where to begin; from there on replace them in falling order.
func (s *Store) Replace(height uint64, b *block.Block) error {
	rec, err := encodeRecord(b)
	if err != nil {
		return err
	}
	if err := checkBlock(b, height); err != nil {
		return err
	}
	err = s.submit(&op{bytes: len(rec), alone: func() error { return s.replace(height, b.Hash(), rec) }})()
	var order ErrNeighbourFirst
	if errors.As(err, &order) && order.First > height {
		order.First = s.firstKnownFrom(order.First)
		return order
	}
	return err
}

// firstKnownFrom is the lowest height from one on whose hash something says, so that it can be replaced: its own index
// entry, its child's header, or that it is the LIB. Not for the writer's goroutine: a run of damage may be long.
func (s *Store) firstKnownFrom(height uint64) uint64 {
	last, _ := s.LIB()
	for ; height < last; height++ {
		if _, err := s.readEntry(height); err == nil {
			return height
		}
		if _, err := s.readEntry(height + 1); err != nil { // a header without an entry cannot be found behind a damaged record
			continue
		}
		if _, err := s.HeaderByHeight(height + 1); err == nil {
			return height
		}
	}
	return last
}

// checkBlock checks that header, record and body belong together.
func checkBlock(b *block.Block, height uint64) error {
	record := b.Record.Hash()
	switch {
	case b.Number() != height:
		return fmt.Errorf("%v is not of height %d", b, height)
	case common.BytesToHash(b.SealedHeader.Header.Extra) != record || len(b.SealedHeader.Header.Extra) != common.HashLength:
		return fmt.Errorf("%v: the header does not name its consensus record", b)
	case height > 0 && block.BodyDigest(b.Transactions, b.Senders) != b.Record.BodyDigest: // block 0 holds the digest of the parameters
		return fmt.Errorf("%v: the body does not match the record's digest", b)
	}
	return nil
}

func (s *Store) replace(height uint64, hash common.Hash, rec []byte) error {
	if !s.has || height > s.lib.Height || height < s.lib.First {
		return fmt.Errorf("replace block %d: %w", height, ErrNotFound)
	}
	seg, ok := s.segmentOf(height)
	if !ok {
		return fmt.Errorf("replace block %d: no segment holds it", height)
	}
	want, err := s.knownHash(height)
	if err != nil {
		return err
	}
	if want != hash {
		return fmt.Errorf("%w: the irreversible block %d is %s, not %s", ErrUnlinked, height, want, hash)
	}
	e := IndexEntry{Height: height, Hash: hash, Segment: seg.Number, Length: uint32(len(rec) - recordHeaderBytes)} //nolint:gosec // bounded
	if e.Offset, err = s.placeOf(seg, height, len(rec)); err != nil {
		return err
	}
	if e.Offset < segmentHeaderBytes || e.Offset > uint64(seg.Size) || e.End() > seg.Size { //nolint:gosec // not negative
		return fmt.Errorf("replace block %d: its record would reach beyond the bounds of %s", height, seg.Name)
	}
	failpoint.Hit("blockstore.replace.write.before")
	if err := s.rewrite(seg, int64(e.Offset), rec); err != nil { //nolint:gosec // bounded
		return s.gate.fail("replace block in "+seg.Name, err)
	}
	failpoint.Hit("blockstore.replace.write.after")
	if err := s.writeEntry(e); err != nil {
		return err
	}
	_ = s.useDerived(func(db *leveldb.DB) error { // a start had nothing to index it from
		return db.Put(hashKey(hash, height), nil, nil) // the record is whole whatever that database says
	})
	s.blocks.remove(hash)
	s.headers.Remove(hash)
	s.damaged.forget(height)
	s.log.Info("restored a damaged block", zap.Uint64("height", height))
	return nil
}

// rewrite writes into a segment and syncs it. A missing file of a sealed segment is made again; that of the active one
// is open, and gets its name back.
func (s *Store) rewrite(seg Segment, off int64, rec []byte) (err error) {
	flag := os.O_RDWR | os.O_CREATE
	if s.w.seg != nil && seg.Number == s.w.segNumber {
		if err := s.keepActiveName(); err != nil {
			return err
		}
		flag = os.O_RDWR
	}
	f, err := s.fs.Open(seg.Name, flag)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := vfs.WriteAll(f, encodeSegmentHeader(seg.Number, seg.First), 0); err != nil {
		return err
	}
	if err := vfs.WriteAll(f, rec, off); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	s.files.Forget(seg.Name)
	return s.fs.SyncDir(segmentDir)
}

// rewriteHeader writes the header of a segment file again, which the primary database describes: records stay as they are.
func (s *Store) rewriteHeader(seg Segment) error {
	return s.submit(&op{bytes: segmentHeaderBytes, alone: func() error {
		if seg.Last < s.lib.First {
			return nil // pruned meanwhile
		}
		if err := s.rewrite(seg, segmentHeaderBytes, nil); err != nil {
			return s.gate.fail("write the header of "+seg.Name, err)
		}
		s.page.renew(s.directory())
		return nil
	}})()
}

// writeEntry puts an index entry in its place, durably.
func (s *Store) writeEntry(e IndexEntry) error {
	err := s.w.writeIndex(s.fs, []IndexEntry{e})
	if err == nil {
		err = s.w.flushIndex()
	}
	if err != nil {
		return s.gate.fail("write the height index", err)
	}
	s.page.renew(s.directory())
	return nil
}

// reindex asks the writer to put right a damaged index entry; if it is busy the next reader asks again.
func (s *Store) reindex(e IndexEntry) {
	o := &op{done: make(chan struct{}), alone: func() error {
		if e.Height < s.lib.First {
			return nil
		}
		return s.writeEntry(e)
	}}
	select {
	case s.ops <- o:
	default:
	}
}

// knownHash is what an irreversible block must hash to although its record is damaged.
func (s *Store) knownHash(height uint64) (common.Hash, error) {
	if height == s.lib.Height {
		return s.lib.Hash, nil
	}
	if e, err := s.readEntry(height); err == nil {
		return e.Hash, nil
	}
	h, err := s.HeaderByHeight(height + 1)
	if err != nil {
		return common.Hash{}, ErrNeighbourFirst{Height: height, First: height + 1, Cause: fmt.Errorf("neither its index entry nor its child can be read: %w", err)}
	}
	return h.Parent(), nil
}

// placeOf is where the record of a height lies or lay: as its index entry says, else before the block behind it, else behind
// the block before it. The one behind is asked first: in a run of lost entries, which is mended from its end, the one
// before it is lost too and would be looked for through the whole run.
func (s *Store) placeOf(seg Segment, height uint64, size int) (uint64, error) {
	if e, err := s.readEntry(height); err == nil && e.Segment == seg.Number {
		if e.End()-int64(e.Offset) != int64(size) { //nolint:gosec // bounded
			return 0, fmt.Errorf("replace block %d: the record has %d bytes, its index entry says %d", height, size, e.End()-int64(e.Offset)) //nolint:gosec // bounded
		}
		return e.Offset, nil
	}
	switch {
	case height == seg.First:
		return segmentHeaderBytes, nil
	case height == seg.Last:
		return uint64(seg.Size - int64(size)), nil //nolint:gosec // not negative: the caller checks the end
	}
	if e, err := s.entry(height + 1); err == nil && e.Segment == seg.Number && e.Offset >= uint64(size)+segmentHeaderBytes { //nolint:gosec // small
		return e.Offset - uint64(size), nil //nolint:gosec // small
	}
	if e, err := s.entry(height - 1); err == nil && e.Segment == seg.Number { // if it is lost too, this notes it
		return uint64(e.End()), nil //nolint:gosec // not negative
	}
	return 0, ErrNeighbourFirst{Height: height, First: height - 1, Cause: errors.New("the index says neither where it lies nor where its neighbours do")}
}
