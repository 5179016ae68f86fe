package blockstore

import (
	"errors"
	"fmt"
	"os"
	"sort"

	"github.com/ethereum/go-ethereum/common"
	"github.com/syndtr/goleveldb/leveldb"
	"github.com/syndtr/goleveldb/leveldb/util"

	"github.com/bornode/bornode/block"
)

// Block is the block of this hash, reversible or irreversible. Errors wrap ErrNotFound, ErrCorrupt or ErrClosed. The
// block is shared: the caller must not change it.
func (s *Store) Block(hash common.Hash) (*block.Block, error) {
	if b := s.blocks.get(hash); b != nil {
		s.metrics.cacheHits.Inc()
		return b, nil
	}
	payload, height, err := s.payload(hash)
	if err != nil {
		return nil, err
	}
	return s.decode(payload, height, hash)
}

// Header is the sealed header of this hash, reversible or irreversible.
func (s *Store) Header(hash common.Hash) (*block.SealedHeader, error) {
	if h := s.cachedHeader(hash); h != nil {
		return h, nil
	}
	payload, height, err := s.payload(hash)
	if err != nil {
		return nil, err
	}
	return s.decodeHeader(payload, height, hash)
}

// BlockByHeight is the irreversible block of this height. Errors wrap ErrNotFound (above the LIB), ErrPruned,
// ErrCorrupt or ErrClosed.
func (s *Store) BlockByHeight(height uint64) (*block.Block, error) {
	e, err := s.entry(height)
	if err != nil {
		return nil, err
	}
	if b := s.blocks.get(e.Hash); b != nil {
		s.metrics.cacheHits.Inc()
		return b, nil
	}
	payload, err := s.record(e)
	if err != nil {
		return nil, err
	}
	return s.decode(payload, height, e.Hash)
}

// HeaderByHeight is the sealed header of the irreversible block of this height.
func (s *Store) HeaderByHeight(height uint64) (*block.SealedHeader, error) {
	e, err := s.entry(height)
	if err != nil {
		return nil, err
	}
	if h := s.cachedHeader(e.Hash); h != nil {
		return h, nil
	}
	payload, err := s.record(e)
	if err != nil {
		return nil, err
	}
	return s.decodeHeader(payload, height, e.Hash)
}

// HashByHeight is the hash of the irreversible block of this height.
func (s *Store) HashByHeight(height uint64) (common.Hash, error) {
	e, err := s.entry(height)
	return e.Hash, err
}

// Reversible lists all reversible blocks, parents before children.
func (s *Store) Reversible() ([]*block.Block, error) {
	s.mu.RLock()
	list := make([]reversible, 0, len(s.rev))
	for _, r := range s.rev {
		list = append(list, *r)
	}
	s.mu.RUnlock()
	sort.Slice(list, func(i, j int) bool {
		if list[i].height != list[j].height {
			return list[i].height < list[j].height
		}
		return list[i].hash.Cmp(list[j].hash) < 0
	})
	out := make([]*block.Block, 0, len(list))
	for _, r := range list {
		b, err := s.Block(r.hash)
		if errors.Is(err, ErrNotFound) {
			continue // dropped meanwhile
		}
		if err != nil {
			return nil, err
		}
		out = append(out, b)
	}
	return out, nil
}

func (s *Store) cachedHeader(hash common.Hash) *block.SealedHeader {
	if b := s.blocks.get(hash); b != nil {
		return b.SealedHeader
	}
	h, _ := s.headers.Get(hash)
	return h
}

func (s *Store) decode(payload []byte, height uint64, hash common.Hash) (*block.Block, error) {
	s.metrics.cacheMiss.Inc()
	b, err := block.DecodeBlock(payload, maxPayloadBytes)
	if err == nil && (b.Hash() != hash || b.Number() != height) {
		err = fmt.Errorf("the record holds block %d %s", b.Number(), b.Hash())
	}
	if err != nil {
		return nil, s.corrupt(height, err)
	}
	s.blocks.put(b, len(payload))
	return b, nil
}

func (s *Store) decodeHeader(payload []byte, height uint64, hash common.Hash) (*block.SealedHeader, error) {
	h, err := block.DecodeBlockHeader(payload)
	if err == nil && (h.Hash() != hash || h.Number() != height) {
		err = fmt.Errorf("the record holds block %d %s", h.Number(), h.Hash())
	}
	if err != nil {
		return nil, s.corrupt(height, err)
	}
	s.headers.Add(hash, h)
	return h, nil
}

// closedError is ErrClosed if that is why a read failed.
func (s *Store) closedError(cause error) error {
	if errors.Is(cause, ErrClosed) || errors.Is(cause, leveldb.ErrClosed) || errors.Is(cause, os.ErrClosed) {
		return ErrClosed
	}
	return nil
}

// payload finds the encoding of a block by hash. A block on its way from the reversible ones to a segment is found at
// every moment: in the database, else in finalising, else in the segment.
func (s *Store) payload(hash common.Hash) (payload []byte, height uint64, err error) {
	s.mu.RLock()
	r := s.rev[hash]
	s.mu.RUnlock()
	if r != nil {
		b, err := get(s.meta, blockKey(prefixReversible, r.height, hash))
		if err != nil {
			return nil, 0, s.corrupt(r.height, err)
		}
		if b != nil {
			return b, r.height, nil
		}
		s.mu.RLock()
		b = s.finalising[hash]
		s.mu.RUnlock()
		if b != nil {
			return b, r.height, nil
		}
	}
	height, known, err := s.finalHeight(hash)
	if err != nil {
		return nil, 0, err
	}
	if !known {
		return nil, 0, fmt.Errorf("block %s: %w", hash, ErrNotFound)
	}
	e, err := s.entry(height)
	if err != nil {
		return nil, 0, err
	}
	payload, err = s.record(e)
	return payload, height, err
}

// finalHeight finds an irreversible block by hash.
func (s *Store) finalHeight(hash common.Hash) (height uint64, known bool, err error) {
	var missing *hashFilling
	var heights []uint64
	err = s.useDerived(func(db *leveldb.DB) error {
		missing = s.hashing.Load() // before the read: what is written behind it may be what was not found
		heights = heights[:0]
		it := db.NewIterator(util.BytesPrefix(hashPrefix(hash)), nil)
		defer it.Release()
		for it.Next() {
			if h, ok := splitHashKey(it.Key()); ok {
				heights = append(heights, h)
			}
		}
		return it.Error()
	})
	if err != nil {
		if closed := s.closedError(err); closed != nil {
			return 0, false, closed
		}
		return 0, false, fmt.Errorf("look up block %s: %w", hash, err)
	}
	for _, h := range heights {
		e, entryErr := s.entry(h)
		switch {
		case entryErr == nil && e.Hash == hash:
			return h, true, nil
		case entryErr != nil && !block.IsAbsent(entryErr): // it may be this one. Absent: left over from an append that did not become durable, or from before a pruning
			err = entryErr
		}
	}
	if err == nil {
		if err = missing.notHashed(); err != nil {
			err = fmt.Errorf("look up block %s: %w", hash, err)
		}
	}
	return 0, false, err
}

// Entry is the index entry of an irreversible block.
func (s *Store) Entry(height uint64) (IndexEntry, error) { return s.entry(height) }

func (s *Store) entry(height uint64) (IndexEntry, error) {
	s.mu.RLock()
	has, first, last := s.has, s.lib.First, s.lib.Height
	s.mu.RUnlock()
	switch {
	case !has || height > last:
		return IndexEntry{}, fmt.Errorf("irreversible block %d: %w", height, ErrNotFound)
	case height < first:
		return IndexEntry{}, fmt.Errorf("block %d: %w (the first is %d)", height, ErrPruned, first)
	}
	e, err := s.readEntry(height)
	if err == nil {
		return e, nil
	}
	if closed := s.closedError(err); closed != nil {
		return IndexEntry{}, closed
	}
	if e, err = s.locate(height); err != nil {
		if height < s.FirstHeight() {
			return IndexEntry{}, fmt.Errorf("block %d: %w", height, ErrPruned) // while we looked
		}
		return IndexEntry{}, s.corrupt(height, err)
	}
	s.reindex(e)
	return e, nil
}

// readEntry reads an entry from the index file.
func (s *Store) readEntry(height uint64) (IndexEntry, error) {
	var b [block.IndexEntryBytes]byte
	if err := s.readAt(indexName(height), b[:], indexOffset(height)); err != nil {
		return IndexEntry{}, err
	}
	return block.DecodeIndexEntry(height, b[:])
}

// locate finds a record whose index entry is damaged by walking its segment from the nearest good entry before it.
func (s *Store) locate(height uint64) (IndexEntry, error) {
	seg, ok := s.segmentOf(height)
	if !ok {
		return IndexEntry{}, fmt.Errorf("no segment holds block %d", height)
	}
	at, off := seg.First, int64(segmentHeaderBytes)
	for h := height; h > seg.First; h-- {
		if e, err := s.readEntry(h - 1); err == nil && e.Segment == seg.Number {
			at, off = h, e.End()
			break
		}
	}
	for ; at < height; at++ {
		length, err := s.recordLengthAt(seg, off)
		if err != nil {
			return IndexEntry{}, err
		}
		off += recordHeaderBytes + int64(length)
	}
	return s.entryFromSegment(seg, height, off)
}

// record reads and checks a record and returns its payload.
func (s *Store) record(e IndexEntry) ([]byte, error) {
	rec := make([]byte, recordHeaderBytes+int(e.Length))
	if err := s.readAt(segmentName(e.Segment), rec, int64(e.Offset)); err != nil { //nolint:gosec // bounded
		if e.Height < s.FirstHeight() {
			return nil, fmt.Errorf("block %d: %w", e.Height, ErrPruned) // while we read
		}
		s.missActive(e.Segment, err)
		return nil, s.corrupt(e.Height, err)
	}
	return s.checkRecord(e, rec)
}

func (s *Store) checkRecord(e IndexEntry, rec []byte) ([]byte, error) {
	payload, err := block.CheckRecord(rec, e.Height, e.Hash)
	if err != nil {
		return nil, s.corrupt(e.Height, fmt.Errorf("%s at %d: %w", segmentName(e.Segment), e.Offset, err))
	}
	return payload, nil
}

// Range gives the irreversible blocks from..to (inclusive, cut at the LIB) as stored, oldest first, until fn returns
// an error, which Range returns, or the next block would exceed maxBytes in all (at least one block is given;
// maxBytes <= 0: no bound). Neighbouring records are read together. fn may keep raw but must not change it. A damaged
// block ends it with ErrCorrupt after the blocks before it; a range that begins below FirstHeight gives ErrPruned.
func (s *Store) Range(from, to uint64, maxBytes int, fn func(height uint64, raw []byte) error) error {
	if last, _ := s.LIB(); to > last {
		to = last
	}
	if s.Empty() || from > to {
		return nil
	}
	total := 0
	for from <= to {
		run, err := s.neighbours(from, to)
		if err != nil {
			return err
		}
		start := run[0].Offset
		buf := make([]byte, run[len(run)-1].End()-int64(start))        //nolint:gosec // bounded
		err = s.readAt(segmentName(run[0].Segment), buf, int64(start)) //nolint:gosec // bounded
		for _, e := range run {
			var payload []byte
			if err != nil { // part of the file is missing or unreadable: find out which block by reading singly
				payload, err = s.record(e)
			} else {
				lo, hi := e.Offset-start, uint64(e.End())-start //nolint:gosec // not negative
				payload, err = s.checkRecord(e, buf[lo:hi:hi])
			}
			if err != nil {
				return err
			}
			if total += len(payload); maxBytes > 0 && total > maxBytes && total > len(payload) {
				return nil
			}
			if err := fn(e.Height, payload); err != nil {
				return err
			}
		}
		from += uint64(len(run))
	}
	return nil
}

// neighbours are the entries of records that lie one after another from a height on, up to a chunk.
func (s *Store) neighbours(from, to uint64) ([]IndexEntry, error) {
	e, err := s.entry(from)
	if err != nil {
		return nil, err
	}
	run := []IndexEntry{e}
	for size := e.End() - int64(e.Offset); from < to; from++ { //nolint:gosec // bounded
		next, err := s.entry(from + 1)
		last := run[len(run)-1]
		if err != nil || next.Segment != last.Segment || int64(next.Offset) != last.End() { //nolint:gosec // bounded
			break // the next round reports it
		}
		if size += next.End() - last.End(); size > readChunkBytes {
			break
		}
		run = append(run, next)
	}
	return run, nil
}
