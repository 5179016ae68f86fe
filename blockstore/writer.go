package blockstore

import (
	"errors"
	"fmt"
	"os"

	"github.com/bornode/bornode/internal/failpoint"
	"github.com/bornode/bornode/internal/vfs"
)

// writer holds the files that are being appended to. Owned by Store.run (and by Open before it starts).
type writer struct {
	seg       vfs.File
	segNumber uint32
	segDirty  bool

	idx      vfs.File
	idxName  string
	idxDirty bool

	buf []byte // gathers small records
}

// placed is a record with its place.
type placed struct {
	entry IndexEntry
	rec   []byte
}

// append writes records, which lie one after another in one or several segments, and syncs them. Segments that are
// left are synced before the next one is begun.
func (w *writer) append(fs vfs.FS, recs []placed) error {
	failpoint.Hit("blockstore.segment.write.before")
	for i := 0; i < len(recs); {
		n := recs[i].entry.Segment
		if n != w.segNumber {
			if err := w.sealAndCreate(fs, n, recs[i].entry.Height); err != nil {
				return err
			}
		}
		j, size := i, 0
		for j < len(recs) && recs[j].entry.Segment == n && (j == i || size+len(recs[j].rec) <= writeChunkBytes) {
			size += len(recs[j].rec)
			j++
		}
		data := recs[i].rec
		if j > i+1 {
			w.buf = w.buf[:0]
			for _, r := range recs[i:j] {
				w.buf = append(w.buf, r.rec...)
			}
			data = w.buf
		}
		w.segDirty = true
		if err := vfs.WriteAll(w.seg, data, int64(recs[i].entry.Offset)); err != nil { //nolint:gosec // bounded
			return fmt.Errorf("append to %s: %w", segmentName(n), err)
		}
		i = j
	}
	failpoint.Hit("blockstore.segment.write.after")
	return w.syncSegment()
}

func (w *writer) syncSegment() error {
	if w.seg == nil || !w.segDirty {
		return nil
	}
	failpoint.Hit("blockstore.segment.sync.before")
	if err := w.seg.Sync(); err != nil {
		return fmt.Errorf("sync %s: %w", segmentName(w.segNumber), err)
	}
	w.segDirty = false
	failpoint.Hit("blockstore.segment.sync.after")
	return nil
}

func (w *writer) sealAndCreate(fs vfs.FS, number uint32, first uint64) error {
	if w.seg != nil {
		if err := errors.Join(w.syncSegment(), w.seg.Close()); err != nil {
			return err
		}
		w.seg = nil
	}
	return w.create(fs, number, first)
}

// create makes an empty segment whose name and header are durable.
func (w *writer) create(fs vfs.FS, number uint32, first uint64) error {
	failpoint.Hit("blockstore.segment.create.before")
	name := segmentName(number)
	f, err := fs.Open(name, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return fmt.Errorf("create %s: %w", name, err)
	}
	w.seg, w.segNumber, w.segDirty = f, number, false
	size, err := f.Size()
	if err == nil && size > 0 {
		return fmt.Errorf("create %s: there is a file of this name with %d bytes, which nothing lists; move it away", name, size)
	}
	if err != nil {
		return fmt.Errorf("create %s: %w", name, err)
	}
	err = vfs.WriteAll(f, encodeSegmentHeader(number, first), 0)
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = fs.SyncDir(segmentDir)
	}
	if err != nil {
		return fmt.Errorf("create %s: %w", name, err)
	}
	failpoint.Hit("blockstore.segment.create.after")
	return nil
}

// writeIndex writes entries at their places. It does not sync: Open completes the index from the active segment. An
// index file that is left is synced, and the caller syncs the current one when a segment was sealed.
func (w *writer) writeIndex(fs vfs.FS, entries []IndexEntry) error {
	for i := 0; i < len(entries); {
		name := indexName(entries[i].Height)
		if err := w.openIndex(fs, name); err != nil {
			return err
		}
		var data []byte
		j := i
		for j < len(entries) && indexName(entries[j].Height) == name && entries[j].Height == entries[i].Height+uint64(j-i) { //nolint:gosec // not negative
			data = entries[j].AppendTo(data)
			j++
		}
		w.idxDirty = true
		if err := vfs.WriteAll(w.idx, data, indexOffset(entries[i].Height)); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
		i = j
	}
	failpoint.Hit("blockstore.index.write.after")
	return nil
}

func (w *writer) openIndex(fs vfs.FS, name string) error {
	if w.idxName == name {
		return nil
	}
	if err := w.closeIndex(); err != nil {
		return err
	}
	f, err := fs.Open(name, os.O_RDWR|os.O_CREATE)
	if err == nil {
		if err = fs.SyncDir(indexDir); err != nil {
			err = errors.Join(err, f.Close())
		}
	}
	if err != nil {
		return fmt.Errorf("open %s: %w", name, err)
	}
	w.idx, w.idxName = f, name
	return nil
}

func (w *writer) flushIndex() error {
	if w.idx == nil || !w.idxDirty {
		return nil
	}
	if err := w.idx.Sync(); err != nil {
		return fmt.Errorf("sync %s: %w", w.idxName, err)
	}
	w.idxDirty = false
	failpoint.Hit("blockstore.index.sync.after")
	return nil
}

func (w *writer) closeIndex() error {
	if w.idx == nil {
		return nil
	}
	err := errors.Join(w.flushIndex(), w.idx.Close())
	w.idx, w.idxName = nil, ""
	return err
}

// close syncs only while the gate is open: after a failed write nothing may look as if it had been made good.
func (w *writer) close(g *gate) error {
	var err error
	if g.check() == nil {
		err = errors.Join(w.syncSegment(), w.flushIndex())
	}
	if w.idx != nil {
		err = errors.Join(err, w.idx.Close())
	}
	if w.seg != nil {
		err = errors.Join(err, w.seg.Close())
	}
	w.seg, w.idx, w.idxName = nil, nil, ""
	return err
}
