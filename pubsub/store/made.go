package store

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"os"

	"github.com/bornode/bornode/internal/vfs"
)

// madeName is the file that says since when the store is there:
//
//	magic 8 | made u64 | floor u64 | crc32c u32 of the 24 bytes before
const (
	madeName  = "MADE"
	madeMagic = "BORNMADE"
	madeBytes = 28
)

// heights are those of the chain that tie the store's life to it.
type heights struct{ made, floor uint64 }

// Made is a height of the chain that was reached when this store was made already: a topic that came later had nothing
// before this store. false: nobody said it yet, as of a store that is new or whose files were lost.
func (s *Store) Made() (height uint64, ok bool) {
	h := s.heights.Load()
	if h == nil {
		return 0, false
	}
	return h.made, true
}

// SetMade says which height had been reached when the store was made, once; it is durable then. Before, whatever an
// earlier store of this broker did is to be known to lie below that height.
func (s *Store) SetMade(height uint64) error {
	s.making.Lock()
	defer s.making.Unlock()
	if s.heights.Load() != nil {
		return nil
	}
	if err := s.wal.admit(false); err != nil {
		return err
	}
	s.wal.mu.Lock() // a log to stand beside, also where nothing else comes before the next start
	s.wal.put(0, kindSynced, nil)
	s.wal.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), closeWait)
	defer cancel()
	if err := s.Sync(ctx); err != nil {
		return err
	}
	return s.saveHeights(heights{height, height})
}

// Floor is the height below which the chain's state is too old for this store: it has forgotten what it promised by then.
func (s *Store) Floor() uint64 {
	if h := s.heights.Load(); h != nil {
		return h.floor
	}
	return 0
}

// RaiseFloor makes Floor at least height, durably: to be called before a log is deleted whose topic goes on.
func (s *Store) RaiseFloor(height uint64) error {
	s.making.Lock()
	defer s.making.Unlock()
	h := s.heights.Load()
	switch {
	case h == nil:
		return errors.New("topic store: nobody said yet when it was made")
	case h.floor >= height:
		return nil
	}
	return s.saveHeights(heights{h.made, height})
}

// saveHeights is called with making held.
func (s *Store) saveHeights(h heights) error {
	b := append(make([]byte, 0, madeBytes), madeMagic...)
	b = be.AppendUint64(be.AppendUint64(b, h.made), h.floor)
	b = be.AppendUint32(b, crc32.Checksum(b, castagnoli))
	if err := vfs.ReplaceFile(s.fs, madeName, b); err != nil {
		return fmt.Errorf("write %s of the topic store: %w", madeName, err)
	}
	s.heights.Store(&h)
	return nil
}

// loadHeights reads the file. One that stands beside no log is left of a store that was lost: it goes.
func (s *Store) loadHeights(f found) error {
	if len(f.logs) == 0 && len(f.snaps) == 0 {
		if err := s.fs.Remove(madeName); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		return s.fs.SyncDir(".")
	}
	b, err := vfs.ReadFile(s.fs, madeName, madeBytes)
	if errors.Is(err, os.ErrNotExist) {
		return nil // of an earlier version
	}
	if saysNothing(err) {
		return fmt.Errorf("read %s of the topic store: %w", madeName, err)
	}
	if err == nil && (len(b) != madeBytes || string(b[:8]) != madeMagic || crc32.Checksum(b[:24], castagnoli) != be.Uint32(b[24:])) {
		err = errors.New("it does not say when the store was made")
	}
	if err != nil { // a transaction of the broker says it anew, and a later height is as safe
		s.foundDamage(madeName, 0, err)
		return s.dropHeights()
	}
	s.heights.Store(&heights{be.Uint64(b[8:]), be.Uint64(b[16:])})
	return nil
}
