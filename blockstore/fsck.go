package blockstore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/ethereum/go-ethereum/common"
	"github.com/syndtr/goleveldb/leveldb"

	"github.com/bornode/bornode/block"
)

// FsckOptions says how much Fsck does.
type FsckOptions struct {
	// Repair makes damaged derived data again: height index, hash index, with Transactions their index, and headers of
	// segments. Blocks that stay damaged are remembered, the newest of very many: the next start notes them, so that the
	// node fetches them.
	Repair       bool
	Transactions bool // look for every transaction in the index, and for every block's receipts
}

// Problem kinds.
const (
	ProblemSegment      = "segment"      // a segment file, or its header, which can be repaired
	ProblemRecord       = "record"       // a block that cannot be served: fetch it and Replace it
	ProblemLink         = "link"         // a block that is not the child of the one before it
	ProblemIndex        = "index"        // an entry of the height index; can be repaired
	ProblemHash         = "hash"         // an entry of the hash index; can be repaired
	ProblemTransactions = "transactions" // index entries of a block's transactions; can be repaired
	ProblemReceipts     = "receipts"     // absent receipts; executing the block makes them again
	ProblemProof        = "proof"        // the LIB, its certificates or the consensus root
	ProblemReversible   = "reversible"   // a reversible block
	ProblemMeta         = "meta"         // the primary database; opening the store for use rebuilds it from what can be read
	ProblemSuperblock   = "superblock"   // a copy of the superblock; opening the store for use writes it again
	ProblemDerived      = "derived"      // the database of derived data; opening the store for use rebuilds it
)

// ReceiptsRemedy says how absent receipts come back.
const ReceiptsRemedy = "a running node makes receipts again when they are asked for, from the states it keeps (chain.state_history) or with a peer's; bornode rebuild state brings all back where no blocks were pruned"

// Problem is one finding.
type Problem struct {
	Kind     string
	Height   uint64
	Text     string
	Repaired bool
}

// Aside is a file or directory that Open set aside, or that it would set aside (Inspect).
type Aside struct {
	Name string // below the store's directory, where it was
	To   string // where it is
	Why  string
}

// Report is what Fsck found. Problems lists the first of them; Found counts all.
type Report struct {
	First, LIB      uint64
	Segments        int
	Blocks          uint64 // irreversible, readable
	Bytes           uint64 // of their encodings
	Transactions    uint64
	Reversible      int
	WithReceipts    uint64       // irreversible blocks that have transactions, and so receipts
	Receiptless     uint64       // of those, the ones whose receipts are absent: execution makes them, or makes them again
	ReceiptlessFrom uint64       // height of the first of them
	Damaged         HeightRanges // irreversible blocks that cannot be read; at most maxDamagedRanges ranges, the highest
	Found, Repaired int
	Problems        []Problem
	Moved           []Aside  // set aside when the store was opened
	Asides          []string // folders below the aside folder, oldest first; at most maxAsideListed
}

// Sound reports that nothing is wrong, or all that was is repaired.
func (r *Report) Sound() bool { return r.Found == r.Repaired }

// FsckProgress is what the progress function gets after every block.
type FsckProgress struct {
	Stage       string // "segments", "reversible"
	Done, Total uint64 // blocks
}

type fsck struct {
	s        *Store
	opts     FsckOptions
	progress func(FsckProgress)
	report   Report
	lib      state
	total    uint64
	done     uint64
	prev     common.Hash // hash of the block before, zero if unknown
	batch    leveldb.Batch
}

// Fsck checks everything: segment headers, every record's checksum, encoding, hash, record and body digest, that each
// block is the child of the one before it, the height and hash indexes against the segments, the LIB and its proof,
// and that reversible blocks descend from the LIB. It may run while the store is in use and checks what was there when
// it began. progress may be nil. The error says why it could not finish; what is wrong is in the report.
func (s *Store) Fsck(ctx context.Context, opts FsckOptions, progress func(FsckProgress)) (Report, error) {
	if progress == nil {
		progress = func(FsckProgress) {}
	}
	segs := s.Segments()
	s.mu.RLock()
	c := &fsck{s: s, opts: opts, progress: progress, lib: s.state}
	c.report.Reversible = len(s.rev)
	s.mu.RUnlock()
	if err := c.opened(); err != nil {
		return c.report, err
	}
	c.report.First, c.report.LIB, c.report.Segments = c.lib.lib.First, c.lib.lib.Height, len(segs)
	if c.lib.has {
		c.total = c.lib.lib.Height - c.lib.lib.First + 1
	}
	for _, seg := range segs {
		if err := c.segment(ctx, seg); err != nil {
			return c.report, err
		}
	}
	if err := c.flush(); err != nil {
		return c.report, err
	}
	if opts.Repair {
		if err := s.rememberDamaged(c.report.Damaged.newest(maxDamagedHeights)); err != nil {
			return c.report, err
		}
	}
	c.proof()
	return c.report, c.reversible(ctx)
}

// opened reports what Open found and did.
func (c *fsck) opened() error {
	c.s.told.Lock()
	defer c.s.told.Unlock()
	for _, p := range c.s.findings {
		c.problem(p.Kind, p.Height, p.Repaired, "%s", p.Text)
	}
	c.report.Moved = slices.Clone(c.s.moved)
	names, err := c.s.fs.List(asideDir)
	if err != nil {
		return fmt.Errorf("list %s: %w", asideDir, err)
	}
	ours := make(map[string]bool)
	for _, dir := range c.s.asides {
		ours[dir] = c.s.looking // in memory only
	}
	for _, name := range names {
		if !ours[asideDir+"/"+name] && len(c.report.Asides) < maxAsideListed {
			c.report.Asides = append(c.report.Asides, name)
		}
	}
	return nil
}

func (c *fsck) problem(kind string, height uint64, repaired bool, format string, args ...any) {
	c.report.Found++
	if repaired {
		c.report.Repaired++
	}
	if len(c.report.Problems) < maxFsckProblems {
		c.report.Problems = append(c.report.Problems, Problem{kind, height, fmt.Sprintf(format, args...), repaired})
	}
}

func (c *fsck) segment(ctx context.Context, seg Segment) error {
	if err := c.header(seg); err != nil {
		if seg.Last < c.s.FirstHeight() {
			return nil // pruned meanwhile
		}
		mend := c.opts.Repair && errors.As(err, new(headerError))
		if mend {
			if err := c.s.rewriteHeader(seg); err != nil {
				return err
			}
		}
		c.problem(ProblemSegment, seg.First, mend, "%s: %v", seg.Name, err)
	}
	return c.s.walk(ctx, seg, func(w walked) error {
		c.done++
		c.progress(FsckProgress{"segments", c.done, c.total})
		if w.err == nil {
			w.err = c.block(seg, w)
		}
		if w.err == nil {
			return nil
		}
		c.prev = common.Hash{}
		if err := c.s.closedError(w.err); err != nil {
			return err
		}
		if w.height < c.s.FirstHeight() {
			return nil // pruned meanwhile
		}
		var failed writeError
		if errors.As(w.err, &failed) {
			return failed.error
		}
		c.problem(ProblemRecord, w.height, false, "block %d: %v", w.height, w.err)
		c.report.Damaged.add(w.height)
		return nil
	})
}

// writeError tells a failed repair from a finding.
type writeError struct{ error }

func (e writeError) Unwrap() error { return e.error }

// headerError says that a segment file has the right length and a damaged header, which Repair writes again.
type headerError struct{ error }

func (e headerError) Unwrap() error { return e.error }

func (c *fsck) header(seg Segment) (err error) {
	f, err := c.s.fs.Open(seg.Name, os.O_RDONLY)
	if err != nil {
		return err
	}
	defer f.Close()
	b := make([]byte, segmentHeaderBytes)
	if _, err := f.ReadAt(b, 0); err != nil {
		return err
	}
	size, err := f.Size()
	if err != nil {
		return err
	}
	if size < seg.Size || seg.Sealed && size != seg.Size {
		return fmt.Errorf("it has %d bytes, %d expected", size, seg.Size)
	}
	if err := checkSegmentHeader(b, seg.Number, seg.First); err != nil {
		return headerError{err}
	}
	return nil
}

// block checks one record whose checksum is right.
func (c *fsck) block(seg Segment, w walked) error {
	b, err := block.DecodeBlock(w.payload, maxPayloadBytes)
	if err != nil {
		return err
	}
	if err := checkBlock(b, w.height); err != nil {
		return err
	}
	if c.prev != (common.Hash{}) && b.Parent() != c.prev {
		c.problem(ProblemLink, w.height, false, "block %d is not the child of block %d", w.height, w.height-1)
	}
	c.prev = w.record.Hash
	if w.height == c.lib.lib.Height && w.record.Hash != c.lib.lib.Hash {
		c.problem(ProblemProof, w.height, false, "the last irreversible block is %s, its segment holds %s", c.lib.lib.Hash, w.record.Hash)
	}
	c.report.Blocks++
	c.report.Bytes += uint64(len(w.payload))
	c.report.Transactions += uint64(len(b.Transactions))
	if err := c.index(seg, w); err != nil {
		return err
	}
	c.receipts(b)
	if c.opts.Transactions {
		return c.transactions(b)
	}
	return nil
}

// receipts looks for a block's receipts. The report counts those that are absent, since a block that was not executed has none; with
// Transactions each is a problem.
func (c *fsck) receipts(b *block.Block) {
	if len(b.Transactions) == 0 {
		return
	}
	c.report.WithReceipts++
	there, err := c.s.hasDerived(blockKey(prefixReceipts, b.Number(), b.Hash()))
	if err == nil && there {
		return
	}
	if c.report.Receiptless++; c.report.Receiptless == 1 {
		c.report.ReceiptlessFrom = b.Number()
	}
	if c.opts.Transactions {
		c.problem(ProblemReceipts, b.Number(), false, "the receipts of block %d are missing; %s", b.Number(), ReceiptsRemedy)
	}
}

func (c *fsck) index(seg Segment, w walked) error {
	e, err := c.s.readEntry(w.height)
	want := IndexEntry{Height: w.height, Hash: w.record.Hash, Segment: seg.Number, Length: w.record.Length, Offset: uint64(w.off)} //nolint:gosec // not negative
	if err != nil || e != want {
		if c.opts.Repair {
			if err := c.s.submit(&op{alone: func() error { return c.s.writeEntry(want) }})(); err != nil {
				return writeError{err}
			}
		}
		c.problem(ProblemIndex, w.height, c.opts.Repair, "index entry of block %d is wrong or missing", w.height)
	}
	if there, err := c.s.hasDerived(hashKey(w.record.Hash, w.height)); err != nil || !there {
		c.batch.Put(hashKey(w.record.Hash, w.height), nil)
		c.problem(ProblemHash, w.height, c.opts.Repair, "block %d %s is missing from the hash index", w.height, w.record.Hash)
	}
	return c.flushLarge()
}

func (c *fsck) transactions(b *block.Block) error {
	missing := 0
	for i, tx := range b.Transactions {
		key := txKey(tx.Hash(), b.Number(), i)
		if there, err := c.s.hasDerived(key); err != nil || !there {
			missing++
			c.batch.Put(key, nil)
		}
	}
	if missing > 0 {
		c.problem(ProblemTransactions, b.Number(), c.opts.Repair, "%d of %d transactions of block %d are missing from the index", missing, len(b.Transactions), b.Number())
	}
	return c.flushLarge()
}

func (c *fsck) flushLarge() error {
	if c.batch.Len() < 4096 {
		return nil
	}
	return c.flush()
}

func (c *fsck) flush() error {
	if c.opts.Repair && c.batch.Len() > 0 {
		if err := c.s.writeDerived(&c.batch); err != nil {
			return writeError{err}
		}
	}
	c.batch.Reset()
	return nil
}

func (c *fsck) proof() {
	if !c.lib.has || c.lib.lib.Height == c.lib.lib.First && c.lib.fc == nil {
		return // genesis needs none
	}
	height, hash := c.lib.lib.Height, c.lib.lib.Hash
	switch fc := c.lib.fc; {
	case fc == nil:
		c.problem(ProblemProof, height, false, "no certificate proves that block %d is final", height)
	case fc.Kind != block.Precommit:
		c.problem(ProblemProof, height, false, "the certificate kept for block %d is one of %ss", height, fc.Kind)
	case fc.Target.Hash != hash:
		c.problem(ProblemProof, height, false, "the certificate kept is for %s, block %d is %s", fc.Target.Hash, height, hash)
	}
	if c.lib.root == nil {
		c.problem(ProblemProof, height, false, "no consensus root is kept for block %d", height)
	}
}

func (c *fsck) reversible(ctx context.Context) error {
	blocks, err := c.s.Reversible()
	var corrupt ErrCorrupt
	if errors.As(err, &corrupt) {
		c.problem(ProblemReversible, corrupt.Height, false, "%v; it is dropped at the next start", err)
		err = nil
	}
	if err != nil {
		return err
	}
	_, lib := c.s.LIB()
	known := map[common.Hash]uint64{lib: 0}
	for i, b := range blocks {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		c.progress(FsckProgress{"reversible", uint64(i + 1), uint64(len(blocks))}) //nolint:gosec // not negative
		if _, ok := known[b.Parent()]; !ok && c.lib.has {
			if final, err := c.s.Block(b.Parent()); err != nil || final == nil {
				c.problem(ProblemReversible, b.Number(), false, "%v does not descend from the last irreversible block", b)
			}
		}
		if err := checkBlock(b, b.Number()); err != nil {
			c.problem(ProblemReversible, b.Number(), false, "%v", err)
		}
		known[b.Hash()] = b.Number()
	}
	return nil
}
