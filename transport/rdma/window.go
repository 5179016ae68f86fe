package rdma

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bornode/bornode/transport"
	"github.com/bornode/bornode/transport/rdma/fabric"
)

// ReadWindow implements transport.WindowReader; see transport.Link. Where the peer hands out files it reads those, else
// the peer's registered copy by READ. transport.ErrNoWindow where the fabric can do neither, the peer serves nothing or
// the channel has ended; an area that the peer does not have, or no more, gives an error that wraps fs.ErrNotExist.
func (c *Channel) ReadWindow(ctx context.Context, area uint32, offset int64, dst []byte) (int, error) {
	if err := c.Err(); err != nil {
		return 0, fmt.Errorf("%w: %w", transport.ErrNoWindow, err)
	}
	if offset < 0 {
		return 0, fmt.Errorf("rdma: area %d read at %d", area, offset)
	}
	if c.pair != nil {
		return c.pair.read(ctx, area, offset, dst)
	}
	files, ok := c.qp.(fabric.FileSharer)
	if !ok || !c.d.caps.SharesFiles {
		return 0, transport.ErrNoWindow
	}
	n, err := c.window.read(ctx, files, area, offset, dst)
	if errors.Is(err, fabric.ErrUnsupported) {
		return 0, transport.ErrNoWindow
	}
	if err != nil {
		return n, fmt.Errorf("rdma: area %d of %s: %w", area, c.peer, err)
	}
	return n, nil
}

// windowCounters adds what was read of the peer's window.
func (c *Channel) windowCounters(m map[string]uint64) {
	if w := c.pair; w != nil {
		m["window_bytes"], m["window_reads"], m["window_asked"], m["window_torn"] = w.bytes.Load(), w.reads.Load(), w.wants.Load(), w.torn.Load()
		return
	}
	m["window_bytes"], m["window_reads"] = c.window.bytes.Load(), c.window.reads.Load()
	c.window.mu.Lock()
	m["window_asked"] = c.window.opens
	c.window.mu.Unlock()
}

// windowFiles keeps open the files of the peer's window that were read last: as long as the window's epoch is the same,
// at most maxOpenAreas, and not much longer than areaIdle after the last read, since an open file keeps what the peer
// has pruned on its disk. A file that grows is read to its present end without being opened again.
type windowFiles struct {
	used  atomic.Bool // since the last look at idleness
	reads atomic.Uint64
	bytes atomic.Uint64

	mu     sync.Mutex
	files  map[uint32]*openArea
	clock  uint64
	opens  uint64
	epoch  uint64 // of the areas in files
	known  bool   // epoch is
	idle   *time.Timer
	closed bool
}

// openArea is a file with its readers; the last one closes it. Guarded by windowFiles.mu, but for reading the file.
type openArea struct {
	file  fabric.File
	users int    // the window's own hold included
	last  uint64 // windowFiles.clock when it was read last
}

func (w *windowFiles) read(ctx context.Context, from fabric.FileSharer, area uint32, offset int64, dst []byte) (int, error) {
	w.used.Store(true)
	a, err := w.obtain(ctx, from, area)
	if err != nil {
		return 0, err
	}
	n, err := a.file.ReadAt(dst, offset)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	w.reads.Add(1)
	w.bytes.Add(uint64(n))
	w.mu.Lock()
	defer w.mu.Unlock()
	w.drop(a)
	if err != nil {
		w.evict(area) // the next read opens it anew
	} else if area == 0 && offset == 0 {
		w.look(dst[:n])
	}
	return n, err
}

// look takes the epoch out of a reading of area 0: another one than before makes all other files void.
func (w *windowFiles) look(page []byte) {
	if len(page) < transport.WindowEpochOffset+8 {
		return
	}
	epoch := binary.BigEndian.Uint64(page[transport.WindowEpochOffset:])
	if w.known && epoch != w.epoch {
		for area := range w.files {
			if area != 0 {
				w.evict(area)
			}
		}
	}
	w.epoch, w.known = epoch, true
}

// obtain gives the open file of an area; drop must follow.
func (w *windowFiles) obtain(ctx context.Context, from fabric.FileSharer, area uint32) (*openArea, error) {
	w.mu.Lock()
	w.clock++
	if a := w.files[area]; a != nil {
		a.users++
		a.last = w.clock
		w.mu.Unlock()
		return a, nil
	}
	w.mu.Unlock()
	file, err := from.OpenArea(ctx, area)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.opens++
	a := &openArea{file: file, users: 1, last: w.clock}
	if w.closed {
		return a, nil
	}
	w.evict(area) // somebody else opened it meanwhile
	if len(w.files) >= maxOpenAreas {
		w.evict(w.oldest())
	}
	if w.files == nil {
		w.files = make(map[uint32]*openArea)
	}
	a.users++
	w.files[area] = a
	w.watch()
	return a, nil
}

func (w *windowFiles) oldest() (area uint32) {
	least := w.clock + 1
	for k, a := range w.files {
		if a.last < least {
			area, least = k, a.last
		}
	}
	return area
}

// watch sees to it that files which nobody reads any more are closed. There is no timer while none is open.
func (w *windowFiles) watch() {
	if w.idle == nil {
		w.idle = time.AfterFunc(areaIdle, w.tick)
	}
}

func (w *windowFiles) tick() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || w.idle == nil {
		return
	}
	if w.used.Swap(false) {
		w.idle.Reset(areaIdle)
		return
	}
	w.idle = nil
	w.evictAll()
}

// evict gives up the window's hold on an area.
func (w *windowFiles) evict(area uint32) {
	if a := w.files[area]; a != nil {
		delete(w.files, area)
		w.drop(a)
	}
}

func (w *windowFiles) evictAll() {
	for area := range w.files {
		w.evict(area)
	}
}

func (w *windowFiles) drop(a *openArea) {
	if a.users--; a.users == 0 {
		_ = a.file.Close() // it was only read
	}
}

// close gives up everything; readers that are under way finish.
func (w *windowFiles) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	if w.idle != nil {
		w.idle.Stop()
		w.idle = nil
	}
	w.evictAll()
}
