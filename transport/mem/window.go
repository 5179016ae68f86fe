package mem

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/bornode/bornode/transport"
)

// WindowFaults is what is wrong when one host reads another one's window. The zero value is nothing.
type WindowFaults struct {
	None      bool                                         // no one-sided reads, as over a provider without them
	Latency   time.Duration                                // of each read
	FailAfter int64                                        // bytes from now on until every read fails; 0: never
	Spoil     func(area uint32, offset int64, read []byte) // changes what was read; called one read at a time
}

var errWindow = errors.New("mem: window read failed")

type route struct{ reader, server transport.PeerID }

type windowState struct {
	mu     sync.Mutex
	faults WindowFaults
	bytes  int64 // read since the faults were set
	reads  int
}

type readWindow func(ctx context.Context, area uint32, offset int64, dst []byte) (int, error)

// Serve offers areas to the host's peers for one-sided reads; nil: none.
func (h *Host) Serve(src transport.Source) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.source = src
}

// SetWindowFaults replaces the faults of what reader reads of server's window.
func (n *Network) SetWindowFaults(reader, server transport.PeerID, f WindowFaults) {
	w := n.windowState(route{reader, server})
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults, w.bytes = f, 0
}

// WindowReads counts the reads that reader began of server's window.
func (n *Network) WindowReads(reader, server transport.PeerID) int {
	w := n.windowState(route{reader, server})
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.reads
}

func (n *Network) windowState(r route) *windowState {
	n.mu.Lock()
	defer n.mu.Unlock()
	w := n.windows[r]
	if w == nil {
		w = new(windowState)
		n.windows[r] = w
	}
	return w
}

// window makes the reads of one end of a connection. The server's goroutines have no part in them.
func (n *Network) window(c *connection, r route) readWindow {
	return func(ctx context.Context, area uint32, offset int64, dst []byte) (int, error) {
		n.mu.Lock()
		server, faults := n.hosts[r.server], n.faults[c.pair]
		n.mu.Unlock()
		w := n.windowState(r)
		w.mu.Lock()
		w.reads++
		wf := w.faults
		w.mu.Unlock()
		if server == nil || wf.None {
			return 0, transport.ErrNoWindow
		}
		if err := c.wait(ctx, wf.Latency, faults.Silent); err != nil {
			return 0, err
		}
		server.mu.Lock()
		src := server.source
		server.mu.Unlock()
		if src == nil {
			return 0, transport.ErrNoWindow
		}
		return w.read(src, area, offset, dst)
	}
}

// wait lets a read's latency pass; it never ends while the peer is silent.
func (c *connection) wait(ctx context.Context, latency time.Duration, silent bool) error {
	timer := time.NewTimer(latency)
	defer timer.Stop()
	due := timer.C
	if silent {
		due = nil
	}
	select {
	case <-due:
	case <-c.done:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-c.done:
		return errReset
	default:
		return nil
	}
}

func (w *windowState) read(src transport.Source, area uint32, offset int64, dst []byte) (int, error) {
	f, err := src.Open(area)
	if err != nil {
		return 0, fmt.Errorf("mem: window area %d: %w", area, err)
	}
	defer f.Close()
	k, err := f.ReadAt(dst, offset)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.bytes += int64(k); w.faults.FailAfter > 0 && w.bytes > w.faults.FailAfter {
		return 0, errWindow
	}
	if w.faults.Spoil != nil {
		w.faults.Spoil(area, offset, dst[:k])
	}
	return k, nil
}

// ReadWindow implements transport.WindowReader.
func (c *conn) ReadWindow(ctx context.Context, area uint32, offset int64, dst []byte) (int, error) {
	return c.window(ctx, area, offset, dst)
}
