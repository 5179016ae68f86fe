package blockstore

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/internal/vfs"
)

// window reads a segment file in large steps.
type window struct {
	f    vfs.File
	base int64
	buf  []byte
	n    int // bytes of buf that are valid
}

// at returns n bytes at off; they are valid until the next call.
func (w *window) at(off int64, n int) ([]byte, error) {
	if off >= w.base && off+int64(n) <= w.base+int64(w.n) {
		return w.buf[off-w.base : off-w.base+int64(n)], nil
	}
	if size := max(n, scanChunkBytes); cap(w.buf) < size {
		w.buf = make([]byte, size)
	}
	w.buf = w.buf[:cap(w.buf)]
	got, err := w.f.ReadAt(w.buf, off)
	w.base, w.n = off, got
	if got >= n {
		return w.buf[:n], nil
	}
	if err == nil || err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	w.n = 0
	return nil, err
}

// walked is one record of a segment, or why it cannot be read.
type walked struct {
	height  uint64
	off     int64
	record  block.RecordOf
	payload []byte // valid until fn returns
	err     error
}

// walk visits every height of a segment in order. The place of a record is where the one before it ends; behind a
// damaged record the index says where to go on. fn's error ends the walk.
func (s *Store) walk(ctx context.Context, seg Segment, fn func(walked) error) error {
	f, err := s.fs.Open(seg.Name, os.O_RDONLY)
	if err != nil {
		for h := seg.First; h <= seg.Last; h++ {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err := fn(walked{height: h, err: err}); err != nil {
				return err
			}
		}
		return nil
	}
	defer f.Close()
	w := &window{f: f}
	off := int64(segmentHeaderBytes)
	for h := seg.First; h <= seg.Last; h++ {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		x := walked{height: h, off: off}
		if off == 0 {
			x.err = fmt.Errorf("the record before it is damaged and the index does not say where it lies")
		} else {
			x.record, x.payload, x.err = s.recordAt(w, seg, off, h)
		}
		if err := fn(x); err != nil {
			return err
		}
		if x.err == nil {
			off += recordHeaderBytes + int64(x.record.Length)
		} else {
			off = s.offsetAfter(seg, h)
		}
	}
	return nil
}

// recordAt reads and checks the record of a height at an offset of a segment.
func (s *Store) recordAt(w *window, seg Segment, off int64, height uint64) (r block.RecordOf, payload []byte, err error) {
	b, err := w.at(off, recordHeadBytes)
	if err != nil {
		return r, nil, err
	}
	length, err := block.DecodeRecordHead(b)
	if err != nil {
		return r, nil, err
	}
	size := recordHeaderBytes + int(length)
	if off+int64(size) > seg.Size {
		return r, nil, fmt.Errorf("the record at %d reaches beyond the end of %s", off, seg.Name)
	}
	if b, err = w.at(off, size); err != nil {
		return r, nil, err
	}
	r, payload, err = block.DecodeRecord(b)
	if err == nil && r.Height != height {
		err = fmt.Errorf("the record at %d is that of block %d", off, r.Height)
	}
	return r, payload, err
}

// offsetAfter is where the record behind a damaged one lies as the index says, 0 if it does not.
func (s *Store) offsetAfter(seg Segment, height uint64) int64 {
	if e, err := s.readEntry(height + 1); err == nil && e.Segment == seg.Number {
		return int64(e.Offset) //nolint:gosec // bounded
	}
	if e, err := s.readEntry(height); err == nil && e.Segment == seg.Number {
		return e.End()
	}
	return 0
}
