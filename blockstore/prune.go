package blockstore

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/syndtr/goleveldb/leveldb"
	"github.com/syndtr/goleveldb/leveldb/opt"
	"go.uber.org/zap"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/internal/failpoint"
)

// Prune deletes whole sealed segments all of whose blocks are below a height, with what was derived from them, and
// returns the first height that is left. The new first height is durable before a file goes, so a crash in between
// leaves only files that the next Open removes. The active segment always stays.
func (s *Store) Prune(below uint64) (first uint64, err error) {
	var gone []Segment
	err = s.submit(&op{alone: func() error {
		n := 0
		for n < len(s.sealed) && s.sealed[n].Last < below {
			n++
		}
		if n == 0 {
			return nil
		}
		lib := s.lib
		lib.First = s.sealed[n-1].Last + 1
		lib.Generation++
		batch := new(leveldb.Batch)
		for _, seg := range s.sealed[:n] {
			batch.Delete(segmentKey(seg.Number))
		}
		batch.Put([]byte(keyLIB), mustRLP(&lib))
		failpoint.Hit("blockstore.prune.commit.before")
		if err := s.meta.Write(batch, &opt.WriteOptions{Sync: true}); err != nil {
			return s.gate.fail("commit to "+metaDir, err)
		}
		failpoint.Hit("blockstore.prune.commit.after")
		next := s.state
		next.lib, next.sealed = lib, s.sealed[n:]
		if err := s.writeSuperblock(&next, true); err != nil {
			return s.gate.fail("prune", err)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		gone = s.sealed[:n:n]
		s.lib, s.sealed = next.lib, next.sealed
		s.page.renew(s.directory()) // before the first file goes
		return nil
	}})()
	if err != nil {
		return s.FirstHeight(), err
	}
	first = s.FirstHeight()
	s.damaged.forgetBelow(first)
	s.receiptless.forgetBelow(first)
	for _, seg := range gone {
		if err := s.forgetSegment(seg); err != nil {
			return first, err
		}
		failpoint.Hit("blockstore.prune.segment.removed")
	}
	return first, s.removeIndexBelow(first)
}

func (s *Store) forgetSegment(seg Segment) error {
	err := s.walk(context.Background(), seg, func(w walked) error {
		if w.err != nil {
			return nil // what was derived from a damaged block stays behind; no lookup believes it
		}
		b, err := block.DecodeBlock(w.payload, maxPayloadBytes)
		if err != nil {
			return nil //nolint:nilerr // likewise
		}
		batch := new(leveldb.Batch)
		deleteDerived(batch, b, []*block.Block{}) // no other block of its height is kept
		batch.Delete(hashKey(w.record.Hash, w.record.Height))
		s.blocks.remove(w.record.Hash)
		s.headers.Remove(w.record.Hash)
		return s.writeDerived(batch)
	})
	if err != nil {
		return err
	}
	s.files.Forget(seg.Name)
	if err := s.fs.Remove(seg.Name); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove pruned segment: %w", err)
	}
	s.log.Info("pruned a segment", zap.Uint32("segment", seg.Number), zap.Uint64("height", seg.Last))
	return nil
}

func (s *Store) removeIndexBelow(first uint64) error {
	names, err := s.fs.List(indexDir)
	if err != nil {
		return fmt.Errorf("list index files: %w", err)
	}
	for _, base := range names {
		if start, ok := parseIndexName(base); ok && start+indexFileEntries <= first {
			s.files.Forget(indexDir + "/" + base)
			if err := s.fs.Remove(indexDir + "/" + base); err != nil && !errors.Is(err, os.ErrNotExist) {
				return fmt.Errorf("remove pruned index file: %w", err)
			}
		}
	}
	return nil
}
