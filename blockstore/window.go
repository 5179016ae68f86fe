package blockstore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/internal/vfs"
)

// Window is what the store lets peers read one-sidedly: the directory page, the segment files and the height index, as
// areas (block.AreaDirectory and those behind it; docs/wire-sync.md). Irreversible blocks only; nothing here runs when a
// peer reads. It is a transport.Source.
type Window struct{ s *Store }

// Window gives the store's window. A store whose files are not the operating system's has an empty one.
func (s *Store) Window() *Window { return &Window{s} }

// Open opens an area for reading only; the caller closes it. An area that is pruned, or was never there, gives an error
// that wraps fs.ErrNotExist.
func (w *Window) Open(area uint32) (*os.File, error) {
	if !w.s.hasWindow() {
		return nil, fmt.Errorf("window area %d: the store's files are not the operating system's: %w", area, fs.ErrNotExist)
	}
	if area == block.AreaDirectory {
		return w.s.page.open()
	}
	name, err := w.s.areaName(area)
	if err != nil {
		return nil, err
	}
	file, _ := vfs.Path(w.s.fs, name)
	f, err := os.Open(file) //nolint:gosec // a name of ours below the store's directory
	if err != nil {
		return nil, fmt.Errorf("open window area %d: %w", area, err) // pruned just now: wraps fs.ErrNotExist
	}
	return f, nil
}

// hasWindow reports that the store's files are the operating system's.
func (s *Store) hasWindow() bool {
	_, ok := vfs.Path(s.fs, "")
	return ok
}

// areaName is the file of an area that holds irreversible blocks now.
func (s *Store) areaName(area uint32) (string, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	d := s.directory()
	switch {
	case !s.has:
	case area >= block.AreaIndex:
		if n := uint64(area - block.AreaIndex); n >= d.IndexBase/indexFileEntries && n <= s.lib.Height/indexFileEntries {
			return indexName(n * indexFileEntries), nil
		}
	case area <= d.Segment && area > d.Segment-d.Segments:
		return segmentName(area), nil
	}
	return "", fmt.Errorf("window area %d: %w", area, fs.ErrNotExist)
}

// directory says what the window holds. Called by the writer, or with mu held.
func (st *state) directory() block.Directory {
	if !st.has {
		return block.Directory{}
	}
	return block.Directory{
		First: st.lib.First, Next: st.lib.Height + 1, Generation: st.lib.Generation,
		Segments: uint32(len(st.sealed)) + 1, Segment: st.lib.Segment, //nolint:gosec // numbers of segments are 32 bits
		IndexBase: st.lib.First / indexFileEntries * indexFileEntries, SegmentBytes: st.lib.End,
	}
}

// directoryPage is the page that peers read, in memory which they can map or read but not change. Its writer is the
// store's; a nil page is that of a store without a window.
type directoryPage struct {
	epoch    uint64
	sequence uint64
	mem      []byte

	mu sync.Mutex
	f  *os.File // nil once closed
}

// openPage makes the directory page of a store whose files peers can read. Without one the store works all the same.
func (s *Store) openPage() {
	if !s.hasWindow() {
		return
	}
	f, mem, err := sharedPage(block.DirectoryPageBytes)
	if err != nil {
		s.log.Warn("peers cannot read blocks one-sidedly from this node", zap.Error(err))
		return
	}
	s.page = &directoryPage{f: f, mem: mem, epoch: uint64(time.Now().UnixNano())} //nolint:gosec // positive; it only has to differ from that of the last start
	s.page.publish(s.directory())
}

// publish writes the page. A reader that meets it in the middle finds an odd sequence or a wrong checksum.
func (p *directoryPage) publish(d block.Directory) {
	if p == nil {
		return
	}
	p.sequence += 2
	d.Epoch, d.Sequence = p.epoch, p.sequence
	var buf [block.DirectoryBytes]byte
	b := d.AppendTo(buf[:0])
	const sequence = 16 // its offset
	p.mem[sequence+7] |= 1
	copy(p.mem[sequence+8:], b[sequence+8:])
	copy(p.mem[:sequence+8], b)
}

// renew is publish after areas were removed or changed in place: what readers keep of them counts no more.
func (p *directoryPage) renew(d block.Directory) {
	if p != nil {
		p.epoch++
		p.publish(d)
	}
}

func (p *directoryPage) open() (*os.File, error) {
	if p == nil {
		return nil, fmt.Errorf("directory page: %w", fs.ErrNotExist)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.f == nil {
		return nil, ErrClosed
	}
	return reopen(p.f)
}

func (p *directoryPage) close() error {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.f == nil {
		return nil
	}
	err := errors.Join(unmap(p.mem), p.f.Close())
	p.f, p.mem = nil, nil
	return err
}
