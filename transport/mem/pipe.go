package mem

import (
	"errors"
	"io"
	"sync"
	"time"

	"github.com/bornode/bornode/transport"
)

// pipeBytes is what one direction of a connection buffers, as a socket would.
const pipeBytes = 256 << 10

var errReset = errors.New("mem: connection reset")

// parcel is a frame under way.
type parcel struct {
	header  [transport.HeaderBytes]byte
	payload []byte
	at      time.Time // not before
}

// half is one direction of a connection.
type half struct {
	faults func() Faults

	mu      sync.Mutex
	changed sync.Cond
	queue   []parcel
	bytes   int
	carried int // frames taken
	err     error
	timer   *time.Timer
}

func newHalf(faults func() Faults) *half {
	h := &half{faults: faults}
	h.changed.L = &h.mu
	return h
}

func (h *half) fail(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err == nil {
		h.err = err
		h.queue, h.bytes = nil, 0
	}
	if h.timer != nil {
		h.timer.Stop()
	}
	h.changed.Broadcast()
}

// put takes a frame; it blocks while the buffer is full.
func (h *half) put(f *transport.Frame) error {
	faults := h.faults()
	p := parcel{payload: append([]byte(nil), f.Payload...)}
	transport.PutHeader(p.header[:], &f.Header)
	h.mu.Lock()
	defer h.mu.Unlock()
	size := transport.HeaderBytes + len(f.Payload)
	for h.err == nil && h.bytes > 0 && h.bytes+size > pipeBytes {
		h.changed.Wait()
	}
	if h.err != nil {
		return h.err
	}
	if faults.Latency > 0 {
		p.at = time.Now().Add(faults.Latency)
	}
	h.carried++
	h.bytes += size
	h.queue = append(h.queue, p)
	if n := faults.DuplicateEvery; n > 0 && h.carried%n == 0 && f.Header.Flags&transport.FlagControl == 0 {
		h.queue = append(h.queue, p)
		h.bytes += size
	}
	h.changed.Broadcast()
	return nil
}

// get waits for the next frame that may be delivered.
func (h *half) get() (parcel, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for {
		if h.err != nil {
			return parcel{}, h.err
		}
		if len(h.queue) > 0 && !h.faults().Silent {
			wait := time.Duration(0)
			if at := h.queue[0].at; !at.IsZero() {
				wait = time.Until(at)
			}
			if wait <= 0 {
				break
			}
			if h.timer != nil {
				h.timer.Stop()
			}
			h.timer = time.AfterFunc(wait, func() {
				h.mu.Lock()
				defer h.mu.Unlock()
				h.changed.Broadcast()
			})
		}
		h.changed.Wait()
	}
	p := h.queue[0]
	h.queue[0] = parcel{}
	h.queue = h.queue[1:]
	h.bytes -= transport.HeaderBytes + len(p.payload)
	h.changed.Broadcast()
	return p, nil
}

// look wakes both sides after the faults changed.
func (h *half) look() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.changed.Broadcast()
}

// conn is one end of a connection: a transport.Provider.
type conn struct {
	in, out *half
	onClose func()
	once    sync.Once
	payload []byte // of the frame whose header was read
	frames  func(n int) bool
	window  readWindow
}

var (
	_ transport.Provider     = (*conn)(nil)
	_ transport.WindowReader = (*conn)(nil)
)

func (c *conn) Name() string { return "mem" }

func (c *conn) Limits() transport.ProviderLimits {
	return transport.ProviderLimits{
		SliceBytes:          transport.MaxSliceBytes,
		UnacknowledgedBytes: transport.UnacknowledgedBytes,
	}
}

func (c *conn) WriteFrames(frames []transport.Frame) error {
	for i := range frames {
		if err := c.out.put(&frames[i]); err != nil {
			return err
		}
	}
	return nil
}

func (c *conn) ReadHeader() (transport.Header, error) {
	p, err := c.in.get()
	if err != nil {
		return transport.Header{}, err
	}
	if !c.frames(1) {
		_ = c.Close() // never fails
		return transport.Header{}, errReset
	}
	c.payload = p.payload
	return transport.DecodeHeader(p.header[:])
}

func (c *conn) ReadPayload(dst []byte) error {
	if len(dst) != len(c.payload) {
		return io.ErrUnexpectedEOF
	}
	copy(dst, c.payload)
	c.payload = nil
	return nil
}

// Close resets both directions, as closing with unread data does on a socket.
func (c *conn) Close() error {
	c.once.Do(func() {
		c.in.fail(errReset)
		c.out.fail(errReset)
		c.onClose()
	})
	return nil
}
