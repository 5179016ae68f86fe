package node

import (
	"errors"
	"fmt"
	"io"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/blockstore"
	"github.com/bornode/bornode/config"
	"github.com/bornode/bornode/consensus/dpos"
)

// maxPostponedBytes bounds the encoded blocks that wait in memory until a block above them is restored; what exceeds it is
// read from the file again.
const maxPostponedBytes = 64 << 20

// RestoreBlocks writes the blocks of an export file over records of these heights, which Fsck found damaged, and returns
// how many were restored. Blocks of other heights are passed over. The store checks that a block is the one that it
// lacks; the seal, which is not part of a block's hash, is checked here, in the domain of its slot. A block that cannot be
// placed before one above it (blockstore.ErrNeighbourFirst) waits for it, and the file is read again while that restores
// any. If blocks are left that wait for one which the file lacks, the error wraps that of the highest of them; all
// others are restored then.
func RestoreBlocks(cfg *config.Config, store *blockstore.Store, file io.ReadSeeker, damaged blockstore.HeightRanges) (restored int, err error) {
	return restoreBlocksBy(cfg, store, file, damaged, maxPostponedBytes)
}

// restoreBlocksBy is RestoreBlocks with a bound of the encoded blocks that wait in memory.
func restoreBlocksBy(cfg *config.Config, store *blockstore.Store, file io.ReadSeeker, damaged blockstore.HeightRanges, mostBytes int) (restored int, err error) {
	gen, err := LoadGenesis(cfg)
	if err != nil {
		return 0, err
	}
	known, err := loadRecoveries(cfg, gen)
	if err != nil {
		return 0, err
	}
	r := &blockRestore{store: store, damaged: damaged, applied: known.forMachine(), mostBytes: mostBytes, done: make(map[uint64]bool)}
	for {
		before := len(r.done)
		if err := r.readFile(file); err != nil {
			return len(r.done), err
		}
		switch {
		case r.isComplete(), len(r.postponed) == 0 && !r.dropped:
			return len(r.done), nil
		case len(r.done) == before:
			return len(r.done), r.refused
		}
		if _, err := file.Seek(0, io.SeekStart); err != nil {
			return len(r.done), fmt.Errorf("read the file again for blocks that had to wait: %w", err)
		}
		r.postponed, r.bytes, r.dropped = nil, 0, false
	}
}

// blockRestore is the work of RestoreBlocks.
type blockRestore struct {
	store     *blockstore.Store
	damaged   blockstore.HeightRanges
	applied   []dpos.Recovery
	mostBytes int

	done      map[uint64]bool
	postponed []*block.Block // wait for a block above them; the one that was read last is tried first
	bytes     int            // of their encodings
	awaited   uint64         // height that the last of them waits for
	dropped   bool           // some had no room
	refused   error          // why the last of them waits
}

func (r *blockRestore) isComplete() bool { return uint64(len(r.done)) >= r.damaged.Count() }

// readFile reads the file once, to its end or until nothing is damaged any more.
func (r *blockRestore) readFile(from io.Reader) error {
	file, err := blockstore.NewImportReader(from, 0)
	if err != nil {
		return err
	}
	for !r.isComplete() {
		b, err := file.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if !r.damaged.Contain(b.Number()) || r.done[b.Number()] {
			continue
		}
		domain := block.Domain{Genesis: file.Genesis(), Recovery: dpos.DomainAt(r.applied, b.Slot())}
		if by, err := b.SealedHeader.Signer(domain); b.Number() > 0 && (err != nil || by != b.SealedHeader.Header.Coinbase) {
			return fmt.Errorf("block %d of the file is not sealed by its producer %s", b.Number(), b.SealedHeader.Header.Coinbase)
		}
		if err := r.restore(b); err != nil {
			return err
		}
	}
	return nil
}

// restore puts a block in its place, then those that waited for it, or has it wait. A block between one that waits and
// the one that is waited for is not tried: it waits for the same.
func (r *blockRestore) restore(b *block.Block) error {
	if n := len(r.postponed); n > 0 && r.postponed[n-1].Number() < b.Number() && b.Number() < r.awaited {
		r.postpone(b)
		return nil
	}
	placed, err := r.place(b)
	if !placed || err != nil {
		if err == nil {
			r.postpone(b)
		}
		return err
	}
	for len(r.postponed) > 0 {
		last := r.postponed[len(r.postponed)-1]
		if placed, err := r.place(last); !placed || err != nil {
			return err
		}
		r.postponed, r.bytes = r.postponed[:len(r.postponed)-1], r.bytes-len(last.Encode())
	}
	return nil
}

// place is false if the block must wait for another one.
func (r *blockRestore) place(b *block.Block) (placed bool, err error) {
	err = r.store.Replace(b.Number(), b)
	var order blockstore.ErrNeighbourFirst
	if errors.As(err, &order) {
		r.awaited, r.refused = order.First, err
		return false, nil
	}
	if err == nil {
		r.done[b.Number()] = true
	}
	return err == nil, err
}

// postpone has a block wait. If there is no room those that wait longest are dropped, which are restored last.
func (r *blockRestore) postpone(b *block.Block) {
	r.postponed, r.bytes = append(r.postponed, b), r.bytes+len(b.Encode())
	for r.bytes > r.mostBytes && len(r.postponed) > 1 {
		r.bytes -= len(r.postponed[0].Encode())
		r.postponed, r.dropped = r.postponed[1:], true
	}
}
