package rdma

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/bornode/bornode/transport"
	"github.com/bornode/bornode/transport/rdma/fabric"
)

// window keeps the files of the peer's window that were read lately. An area may be replaced as a whole by the peer: a
// read from its beginning opens it anew.
type window struct {
	mu     sync.Mutex
	files  map[uint32]*openArea
	order  []uint32 // least lately opened first
	closed bool
}

// openArea is a file with its readers; the last one closes it.
type openArea struct {
	file  fabric.File
	users int // the window's own hold included; guarded by window.mu
}

// ReadWindow implements transport.WindowReader; see transport.Link. transport.ErrNoWindow where the fabric cannot, or
// the peer serves nothing.
func (c *Channel) ReadWindow(ctx context.Context, area uint32, offset int64, dst []byte) (int, error) {
	files, ok := c.qp.(fabric.FileSharer)
	if !ok || !c.d.caps.SharesFiles {
		return 0, transport.ErrNoWindow
	}
	if err := c.Err(); err != nil {
		return 0, fmt.Errorf("%w: %w", transport.ErrNoWindow, err)
	}
	a, err := c.window.obtain(ctx, files, area, offset == 0)
	if errors.Is(err, fabric.ErrUnsupported) {
		return 0, transport.ErrNoWindow
	}
	if err != nil {
		return 0, fmt.Errorf("rdma: area %d of %s: %w", area, c.peer, err)
	}
	n, err := a.file.ReadAt(dst, offset)
	c.window.leave(a)
	if err != nil && !errors.Is(err, io.EOF) {
		return n, fmt.Errorf("rdma: area %d of %s: %w", area, c.peer, err)
	}
	return n, nil
}

// obtain gives the open file of an area; leave must follow.
func (w *window) obtain(ctx context.Context, from fabric.FileSharer, area uint32, anew bool) (*openArea, error) {
	if !anew {
		w.mu.Lock()
		if a := w.files[area]; a != nil {
			a.users++
			w.mu.Unlock()
			return a, nil
		}
		w.mu.Unlock()
	}
	file, err := from.OpenArea(ctx, area)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	a := &openArea{file: file, users: 1}
	if w.closed {
		return a, nil
	}
	w.evict(area)
	if len(w.order) >= maxOpenAreas {
		w.evict(w.order[0])
	}
	if w.files == nil {
		w.files = make(map[uint32]*openArea)
	}
	a.users++
	w.files[area] = a
	w.order = append(w.order, area)
	return a, nil
}

// evict gives up the window's hold on an area. The mutex is held.
func (w *window) evict(area uint32) {
	a := w.files[area]
	if a == nil {
		return
	}
	delete(w.files, area)
	w.order = slices.DeleteFunc(w.order, func(x uint32) bool { return x == area })
	w.drop(a)
}

func (w *window) drop(a *openArea) {
	if a.users--; a.users == 0 {
		_ = a.file.Close() // it was only read
	}
}

func (w *window) leave(a *openArea) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.drop(a)
}

// close gives up everything; readers that are under way finish.
func (w *window) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	for _, area := range slices.Clone(w.order) {
		w.evict(area)
	}
}
