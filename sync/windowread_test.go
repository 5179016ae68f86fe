package blocksync

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/transport"
)

var errEmit = errors.New("enough")

// memWindow is a window in memory, for the reader alone.
type memWindow map[uint32][]byte

// newMemWindow lays out blocks as a store does, a new segment after every per blocks.
func newMemWindow(chain []*block.Block, per int) memWindow {
	w := memWindow{}
	d := block.Directory{Epoch: 1, Sequence: 2, First: chain[0].Number(), Next: chain[0].Number()}
	d.IndexBase = d.First / block.IndexFileEntries * block.IndexFileEntries
	for i, b := range chain {
		if i%per == 0 {
			d.Segments++
			d.Segment++
			w[d.Segment] = make([]byte, block.SegmentHeaderBytes)
		}
		raw := b.Encode()
		e := block.IndexEntry{Height: b.Number(), Hash: b.Hash(), Segment: d.Segment, Length: uint32(len(raw)), Offset: uint64(len(w[d.Segment]))}
		rec := append(make([]byte, block.RecordHeaderBytes), raw...)
		block.SealRecord(rec, b.Number(), b.Hash())
		w[d.Segment] = append(w[d.Segment], rec...)
		area, offset := block.IndexArea(b.Number())
		w[area] = append(append(w[area], make([]byte, max(0, int(offset)-len(w[area])))...), e.AppendTo(nil)...)
		d.Next, d.SegmentBytes = b.Number()+1, uint64(len(w[d.Segment]))
	}
	w[block.AreaDirectory] = d.AppendTo(nil)
	return w
}

func (w memWindow) ReadWindow(_ context.Context, area uint32, offset int64, dst []byte) (int, error) {
	b, ok := w[area]
	if !ok {
		return 0, transport.ErrNoWindow
	}
	if offset < 0 || offset >= int64(len(b)) {
		return 0, nil
	}
	return copy(dst, b[offset:]), nil
}

func (w memWindow) read(from, to uint64) (got []rangeBlock, err error) {
	r := &windowReader{src: w, timeout: time.Second, maxBlock: 1 << 20}
	err = r.read(context.Background(), from, to, func(b []rangeBlock) error { got = append(got, b...); return nil })
	return got, err
}

func (w memWindow) edit(area uint32, f func(b []byte)) memWindow {
	out := memWindow{}
	for k, v := range w {
		out[k] = bytes.Clone(v)
	}
	f(out[area])
	return out
}

func requireBlocks(t *testing.T, want []*block.Block, got []rangeBlock) {
	t.Helper()
	require.Len(t, got, len(want))
	for i, b := range got {
		require.Equal(t, rangeBlock{height: want[i].Number(), hash: want[i].Hash(), raw: want[i].Encode()}, b)
	}
}

func TestWindowReader(t *testing.T) {
	chain := newChain(50, chainShape{size: 300})
	w := newMemWindow(chain, 7)
	got, err := w.read(1, 50)
	require.NoError(t, err)
	requireBlocks(t, chain[1:], got)
	got, err = w.read(13, 15)
	require.NoError(t, err)
	requireBlocks(t, chain[13:16], got)

	// What it holds comes, the rest is told to be missing.
	got, err = w.read(40, 60)
	require.ErrorIs(t, err, errWindowEnds)
	requireBlocks(t, chain[40:], got)
	_, err = w.read(51, 60)
	require.ErrorIs(t, err, errWindowEnds)
	_, err = newMemWindow(chain[20:], 7).read(10, 30)
	require.ErrorIs(t, err, errWindowEnds, "pruned")

	// emit's error ends it.
	calls := 0
	r := &windowReader{src: w, timeout: time.Second}
	require.ErrorIs(t, r.read(context.Background(), 1, 50, func([]rangeBlock) error { calls++; return errEmit }), errEmit)
	require.Equal(t, 1, calls)
}

// TestWindowReaderAcrossIndexFiles: a chunk whose entries lie in two index files, and records larger than one read.
func TestWindowReaderAcrossIndexFiles(t *testing.T) {
	first := uint64(block.IndexFileEntries - 3)
	var chain []*block.Block
	for i := range uint64(6) {
		size := 100
		if i >= 4 {
			size = windowReadBytes + 1
		}
		x := makeBlock(nil, first+i, size, nil, nil, nil, 0)
		h := *x.Header
		h.Number.SetUint64(first + i)
		chain = append(chain, &block.Block{SealedHeader: &block.SealedHeader{Header: &h, Record: x.Record}, Transactions: x.Transactions, Senders: x.Senders})
	}
	w := newMemWindow(chain, 100)
	require.Contains(t, w, block.AreaIndex+1)
	var batches []int
	var got []rangeBlock
	r := &windowReader{src: w, timeout: time.Second}
	require.NoError(t, r.read(context.Background(), first, first+5, func(b []rangeBlock) error {
		batches = append(batches, len(b))
		got = append(got, b...)
		return nil
	}))
	requireBlocks(t, chain, got)
	require.Equal(t, []int{4, 1, 1}, batches)
}

// TestWindowReaderBelievesNothing: whatever does not fit is an error, and nothing of it is given out.
func TestWindowReaderBelievesNothing(t *testing.T) {
	chain := newChain(20, chainShape{size: 300})
	w := newMemWindow(chain, 7)
	entry := func(h int, f func(*block.IndexEntry)) func([]byte) {
		return func(b []byte) {
			at := b[h*block.IndexEntryBytes : (h+1)*block.IndexEntryBytes]
			e, err := block.DecodeIndexEntry(uint64(h), at)
			require.NoError(t, err)
			f(&e)
			copy(at, e.AppendTo(nil))
		}
	}
	for name, bad := range map[string]memWindow{
		"a damaged entry": w.edit(block.AreaIndex, func(b []byte) { b[9*block.IndexEntryBytes+3]++ }),
		"an entry of another height": w.edit(block.AreaIndex, func(b []byte) {
			copy(b[9*block.IndexEntryBytes:10*block.IndexEntryBytes], b[10*block.IndexEntryBytes:])
		}),
		"another hash":              w.edit(block.AreaIndex, entry(9, func(e *block.IndexEntry) { e.Hash[0]++ })),
		"another place":             w.edit(block.AreaIndex, entry(9, func(e *block.IndexEntry) { e.Offset += 8 })),
		"beyond the segment":        w.edit(block.AreaIndex, entry(9, func(e *block.IndexEntry) { e.Offset = 1 << 30 })),
		"a segment that is gone":    w.edit(block.AreaIndex, entry(9, func(e *block.IndexEntry) { e.Segment = 77 })),
		"a shorter block":           w.edit(block.AreaIndex, entry(9, func(e *block.IndexEntry) { e.Length-- })),
		"a block that is too large": w.edit(block.AreaIndex, entry(9, func(e *block.IndexEntry) { e.Length = 2 << 20 })),
		"a damaged record":          w.edit(2, func(b []byte) { b[len(b)/2]++ }),
		"the record of another block": w.edit(2, func(b []byte) {
			length, err := block.DecodeRecordHead(b[block.SegmentHeaderBytes:])
			require.NoError(t, err)
			rec := b[block.SegmentHeaderBytes : block.SegmentHeaderBytes+block.RecordHeaderBytes+int(length)]
			block.SealRecord(rec, 9, chain[9].Hash())
		}),
		"a torn page": w.edit(block.AreaDirectory, func(b []byte) { b[30]++ }),
		"no page":     w.edit(block.AreaDirectory, func(b []byte) { clear(b) }),
	} {
		got, err := bad.read(1, 20)
		require.Error(t, err, name)
		require.NotErrorIs(t, err, errWindowEnds, name)
		for i, b := range got {
			require.Equal(t, chain[1+i].Encode(), b.raw, name)
		}
		require.Less(t, len(got), 20, name)
	}
	r := &windowReader{src: w, timeout: time.Second, maxBlock: 100}
	require.ErrorContains(t, r.read(context.Background(), 1, 20, func([]rangeBlock) error { return errEmit }), "the chain allows 100")
	gone := memWindow{}
	_, err := gone.read(1, 20)
	require.ErrorIs(t, err, transport.ErrNoWindow)
}

// FuzzWindowReader: whatever a peer puts into its window, nothing breaks, and every block that comes out is the one
// its record's checksum and header vouch for.
func FuzzWindowReader(f *testing.F) {
	chain := newChain(12, chainShape{size: 50})
	w := newMemWindow(chain, 5)
	f.Add([]byte{}, uint32(0), 0, uint64(1), uint64(12))
	f.Add([]byte{1, 2, 3}, uint32(1), 100, uint64(1), uint64(12))
	f.Add(bytes.Repeat([]byte{0xff}, 64), block.AreaIndex, 128, uint64(1), uint64(12))
	f.Add(make([]byte, 80), block.AreaDirectory, 0, uint64(3), uint64(9))
	f.Fuzz(func(t *testing.T, patch []byte, area uint32, offset int, from, to uint64) {
		if from > to || to-from >= maxChunkBlocks {
			return
		}
		bad := w.edit(area, func(b []byte) {
			if offset >= 0 && offset < len(b) {
				copy(b[offset:], patch)
			}
		})
		if _, ok := w[area]; !ok && len(patch) > 0 {
			bad[area] = patch
		}
		got, _ := bad.read(from, to)
		for i, b := range got {
			if b.height != from+uint64(i) {
				t.Fatalf("block %d in the place of %d", b.height, from+uint64(i))
			}
		}
	})
}
