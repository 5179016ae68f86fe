package blockstore

import (
	"errors"
	"fmt"

	"github.com/bornode/bornode/block"
)

// restoreLIB writes the record of the last irreversible block again from its copy in the database, if it is damaged: what
// begins above the store needs this block before it can ask a peer for it. nil: the record is sound, or is again.
func (s *Store) restoreLIB() error {
	if !s.has {
		return nil
	}
	height, hash := s.lib.Height, s.lib.Hash
	_, damage := s.BlockByHeight(height)
	if !errors.As(damage, new(ErrCorrupt)) {
		return nil //nolint:nilerr // what else fails a read is met again by the next reader
	}
	copied, err := get(s.meta, blockKey(prefixReversible, height, hash))
	if err == nil && copied == nil {
		err = ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("%w (the copy: %w)", damage, err)
	}
	b, err := block.DecodeBlock(copied, maxPayloadBytes)
	if err == nil {
		err = s.Replace(height, b)
	}
	if err != nil {
		return fmt.Errorf("%w (the copy: %w)", damage, err)
	}
	s.finding(ProblemRecord, height, fmt.Sprintf("the record of the last irreversible block was damaged and is restored from the copy in %s: %v", metaDir, damage))
	return nil
}
