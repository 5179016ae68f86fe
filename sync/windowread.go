package blocksync

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bornode/bornode/block"
)

// errWindowEnds: the window does not hold all of the heights (yet, or any more). That is nobody's failure.
var errWindowEnds = errors.New("the peer's window ends before")

// windowSource is the part of a link that reads the peer's window.
type windowSource interface {
	ReadWindow(ctx context.Context, area uint32, offset int64, dst []byte) (int, error)
}

// windowReader reads blocks out of a peer's window (docs/wire-sync.md, "One-sided pull"): the directory page, then index
// entries, then ranges of records. It believes nothing: what has a wrong checksum, is not what the entry says or lies
// elsewhere is an error, and the blocks are then asked for by message. One goroutine uses it.
type windowReader struct {
	src      windowSource
	timeout  time.Duration // of one read
	maxBlock int           // largest encoding of a block that the chain allows; 0: any
	entries  []byte        // of one chunk; used again
}

// read gives the blocks start..end in order to emit, in batches that lie in one buffer each. It ends with errWindowEnds
// after the last block that the window holds; emit's error ends it too.
func (r *windowReader) read(ctx context.Context, start, end uint64, emit func([]rangeBlock) error) error {
	d, err := r.directory(ctx)
	if err != nil {
		return err
	}
	if start < d.First || start >= d.Next {
		return fmt.Errorf("%w: it holds blocks %d to %d, %d is wanted", errWindowEnds, d.First, d.Next-1, start)
	}
	last := min(end, d.Next-1)
	entries, err := r.index(ctx, start, last)
	if err != nil {
		return err
	}
	for len(entries) > 0 {
		n := neighbours(entries)
		blocks, err := r.records(ctx, entries[:n])
		if err != nil {
			return err
		}
		if err := emit(blocks); err != nil {
			return err
		}
		entries = entries[n:]
	}
	if last < end {
		return fmt.Errorf("%w: its newest block is %d", errWindowEnds, last)
	}
	return nil
}

// fill reads exactly dst.
func (r *windowReader) fill(ctx context.Context, area uint32, offset int64, dst []byte) error {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	n, err := r.src.ReadWindow(ctx, area, offset, dst)
	if err == nil && n != len(dst) {
		err = fmt.Errorf("area %d has %d of %d bytes at %d", area, n, len(dst), offset)
	}
	return err
}

// directory reads the directory page; one that is being changed is read again.
func (r *windowReader) directory(ctx context.Context) (d block.Directory, err error) {
	var b [block.DirectoryBytes]byte
	for range windowPageTries {
		if err = r.fill(ctx, block.AreaDirectory, 0, b[:]); err != nil {
			return d, err
		}
		if d, err = block.DecodeDirectory(b[:]); !errors.Is(err, block.ErrChecksum) {
			return d, err
		}
	}
	return d, err
}

// index reads the entries of the blocks from..to, which are at most maxChunkBlocks.
func (r *windowReader) index(ctx context.Context, from, to uint64) ([]block.IndexEntry, error) {
	n := int(to - from + 1) //nolint:gosec // a chunk
	if cap(r.entries) < n*block.IndexEntryBytes {
		r.entries = make([]byte, n*block.IndexEntryBytes)
	}
	raw := r.entries[:n*block.IndexEntryBytes]
	for at := from; at <= to; { // the entries of a chunk may lie in two index files
		area, offset := block.IndexArea(at)
		count := min(to-at+1, block.IndexFileEntries-at%block.IndexFileEntries)
		if err := r.fill(ctx, area, offset, raw[(at-from)*block.IndexEntryBytes:(at-from+count)*block.IndexEntryBytes]); err != nil {
			return nil, fmt.Errorf("index entries of blocks %d to %d: %w", at, at+count-1, err)
		}
		at += count
	}
	entries := make([]block.IndexEntry, n)
	for i := range entries {
		height := from + uint64(i) //nolint:gosec // small
		e, err := block.DecodeIndexEntry(height, raw[i*block.IndexEntryBytes:(i+1)*block.IndexEntryBytes])
		switch {
		case err != nil:
			return nil, fmt.Errorf("block %d: %w", height, err)
		case r.maxBlock > 0 && int64(e.Length) > int64(r.maxBlock):
			return nil, fmt.Errorf("block %d has %d bytes, the chain allows %d", height, e.Length, r.maxBlock)
		}
		entries[i] = e
	}
	return entries, nil
}

// neighbours counts the entries from the first on whose records lie one after another, up to what is read at once.
func neighbours(entries []block.IndexEntry) int {
	first := &entries[0]
	n := 1
	for ; n < len(entries); n++ {
		prev, e := &entries[n-1], &entries[n]
		if e.Segment != first.Segment || int64(e.Offset) != prev.End() || e.End()-int64(first.Offset) > windowReadBytes { //nolint:gosec // checked by decode
			break
		}
	}
	return n
}

// records reads neighbouring records at once and takes them apart. The encodings share one buffer.
func (r *windowReader) records(ctx context.Context, entries []block.IndexEntry) ([]rangeBlock, error) {
	first, last := &entries[0], &entries[len(entries)-1]
	buf := make([]byte, last.End()-int64(first.Offset))                          //nolint:gosec // checked by decode
	if err := r.fill(ctx, first.Segment, int64(first.Offset), buf); err != nil { //nolint:gosec // checked by decode
		return nil, fmt.Errorf("blocks %d to %d: %w", first.Height, last.Height, err)
	}
	out := make([]rangeBlock, len(entries))
	for i := range entries {
		e := &entries[i]
		size := block.RecordHeaderBytes + int(e.Length)
		raw, err := block.CheckRecord(buf[:size:size], e.Height, e.Hash)
		if err != nil {
			return nil, fmt.Errorf("block %d %s: %w", e.Height, e.Hash, err)
		}
		out[i] = rangeBlock{height: e.Height, hash: e.Hash, raw: raw}
		buf = buf[size:]
	}
	return out, nil
}
