package blockstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/syndtr/goleveldb/leveldb"
	"go.uber.org/zap"

	"github.com/bornode/bornode/block"
)

// Scrubbed is what one step of the background reading did.
type Scrubbed struct {
	Next     uint64   // height where the next step begins
	End      bool     // everything up to the last irreversible block was read
	Bytes    int64    // read
	Problems []string // kinds of what was found, as of Fsck
}

// Scrub reads irreversible blocks from a height on, about most bytes of them, and checks what Fsck checks of each: the
// header of its segment, its entry of the height index, its record, that hash, record and body belong together, its
// places in the indexes by hash and of transactions, and its receipts. It reads files, never the caches, and fills none.
// A damaged block is noted as any reader's is and comes again from a peer; the rest is put right here, receipts with what
// makeReceipts gives (executing the block again, or, waited for as any reader waits, from a peer; nil: they are not). The
// error says why nothing can be read.
func (s *Store) Scrub(ctx context.Context, from uint64, most int64, makeReceipts func(common.Hash) (types.Receipts, error)) (r Scrubbed, err error) {
	if s.Empty() {
		return Scrubbed{End: true}, nil
	}
	for h := max(from, s.FirstHeight()); ; h++ {
		if last, _ := s.LIB(); h > last {
			r.End = true
			return r, nil
		}
		r.Next = h
		if r.Bytes >= most || ctx.Err() != nil {
			return r, nil
		}
		c := &scrubbing{ctx: ctx, s: s, height: h, makeReceipts: makeReceipts, found: &r}
		if err := c.run(); err != nil {
			return r, fmt.Errorf("read block %d again: %w", h, err)
		}
	}
}

// scrubbing is the check of one block.
type scrubbing struct {
	ctx          context.Context
	s            *Store
	height       uint64
	makeReceipts func(common.Hash) (types.Receipts, error)
	found        *Scrubbed
	batch        leveldb.Batch // what is missing from the indexes
}

func (c *scrubbing) problem(kind string, cause error) {
	c.found.Problems = append(c.found.Problems, kind)
	c.s.log.Warn("the background scrub found something damaged or missing", zap.String("kind", kind), zap.Uint64("height", c.height), zap.Error(cause))
}

// run gives an error only if the check could not be made.
func (c *scrubbing) run() error {
	if err := c.segment(); err != nil {
		return err
	}
	if _, err := c.s.readEntry(c.height); err != nil && c.s.closedError(err) == nil && c.height >= c.s.FirstHeight() {
		c.problem(ProblemIndex, err) // entry has it written again, if the record is there
	}
	e, err := c.s.entry(c.height)
	var b *block.Block
	if err == nil {
		c.found.Bytes += int64(e.Length) + recordHeaderBytes + block.IndexEntryBytes
		b, err = c.s.checkRecordOf(e)
	}
	switch {
	case err == nil:
		return c.derived(e, b)
	case block.IsAbsent(err): // pruned meanwhile
		return nil
	case errors.As(err, new(ErrCorrupt)): // noted
		c.problem(ProblemRecord, err)
		return nil
	}
	return err
}

// segment checks the header of the segment file that begins here.
func (c *scrubbing) segment() error {
	seg, ok := c.s.segmentOf(c.height)
	if !ok || seg.First != c.height {
		return nil
	}
	err := (&fsck{s: c.s}).header(seg)
	if !errors.As(err, new(headerError)) { // what else is wrong with the file shows in its blocks
		return nil
	}
	c.problem(ProblemSegment, err)
	return c.s.rewriteHeader(seg)
}

// CheckStored reads the irreversible block of a height from its file, past the caches, and checks that header, record and
// body belong together. Damage is noted, as that which any reader meets. Errors as of BlockByHeight.
func (s *Store) CheckStored(height uint64) error {
	e, err := s.entry(height)
	if err == nil {
		_, err = s.checkRecordOf(e)
	}
	return err
}

// checkRecordOf is CheckStored with the block's index entry; it gives the block.
func (s *Store) checkRecordOf(e IndexEntry) (*block.Block, error) {
	payload, err := s.record(e)
	if err != nil {
		return nil, err
	}
	b, err := block.DecodeBlock(payload, maxPayloadBytes)
	if err == nil && b.Hash() != e.Hash {
		err = fmt.Errorf("the index says %s, the block hashes to %s", e.Hash, b.Hash())
	}
	if err == nil {
		err = checkBlock(b, e.Height)
	}
	if err != nil {
		return nil, s.corrupt(e.Height, err)
	}
	return b, nil
}

// derived checks what was derived from a whole block, and completes it.
func (c *scrubbing) derived(e IndexEntry, b *block.Block) error {
	there, err := c.s.hasDerived(hashKey(e.Hash, e.Height))
	if err == nil && !there {
		c.batch.Put(hashKey(e.Hash, e.Height), nil)
		c.problem(ProblemHash, errors.New("the index by hash lacks the block"))
	}
	if err == nil && len(b.Transactions) > 0 && e.Height < c.s.indexed.Load() { // above it the indexes are still completed
		if err = c.transactions(e, b); err == nil {
			err = c.receipts(e, b)
		}
	}
	if closed := c.s.closedError(err); closed != nil {
		return closed
	}
	if err != nil {
		c.problem(ProblemDerived, err)
		return nil
	}
	if c.batch.Len() == 0 || e.Height < c.s.FirstHeight() {
		return nil
	}
	return c.s.writeDerived(&c.batch)
}

func (c *scrubbing) transactions(e IndexEntry, b *block.Block) error {
	missing := 0
	for i, tx := range b.Transactions {
		key := txKey(tx.Hash(), e.Height, i)
		there, err := c.s.hasDerived(key)
		if err != nil {
			return err
		}
		if c.found.Bytes += int64(len(key)); !there {
			c.batch.Put(key, nil)
			missing++
		}
	}
	if missing > 0 {
		c.problem(ProblemTransactions, fmt.Errorf("%d of its %d transactions are missing from the index", missing, len(b.Transactions)))
	}
	return nil
}

func (c *scrubbing) receipts(e IndexEntry, b *block.Block) error {
	v, err := c.s.getDerived(blockKey(prefixReceipts, e.Height, e.Hash))
	if err != nil {
		return err
	}
	c.found.Bytes += int64(len(v))
	rs, err := c.s.ReceiptsAt(e.Height, e.Hash)
	if err == nil && len(rs) == len(b.Transactions) {
		return nil
	}
	if err == nil {
		err = fmt.Errorf("%d receipts of %d transactions", len(rs), len(b.Transactions))
	}
	c.problem(ProblemReceipts, err)
	if c.makeReceipts == nil {
		return nil
	}
	err = c.s.ReadRepaired(c.ctx, func() (err error) { // so that the heights that wait for peers never become many
		rs, err = c.makeReceipts(e.Hash)
		return err
	})
	if err != nil {
		c.s.log.Warn("receipts that are missing cannot be made again and were not fetched yet; readers of them are told", zap.Uint64("height", e.Height), zap.Error(err))
		return nil
	}
	return c.s.PutReceipts(e.Hash, e.Height, rs)
}
