package rdma

import (
	"fmt"
	"sync"

	"github.com/bornode/bornode/transport"
)

// reader takes frames out of this side's rings. Only the channel's reader goroutine uses it, but for close. The peer
// may change a ring at any time, so what is looked at is copied first and looked at only there.
//
// Small records are copied many at once into a stage; of a record after a large one only the header is, so that a
// payload is copied once.
type reader struct {
	flow *flow
	in   [rings]inRing

	current ringKind // of the frame whose header was given last
	left    int      // of its payload
	carried uint64   // bytes of bulk since tired last said so

	// mu keeps the rings' memory from going away under a copy.
	mu     sync.Mutex
	closed bool
}

// inRing is the reading side of a ring.
type inRing struct {
	mem   []byte
	next  uint64 // position of the first byte that is not in the stage
	limit uint64 // published, as last seen
	large bool   // the last record was
	r, w  int    // unread part of the stage
	skip  int    // padding of the last record, beyond the stage if it ends before
	stage [stageBytes]byte
}

// init sets the memory of the rings; start is where positions begin.
func (r *reader) init(f *flow, control, bulk []byte, start uint64) {
	r.flow = f
	for i, mem := range [][]byte{control, bulk} {
		r.in[i].mem, r.in[i].next, r.in[i].limit = mem, start, start
	}
}

// close takes the memory away.
func (r *reader) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	for i := range r.in {
		r.in[i].mem = nil
	}
}

// available tells that a frame may be waiting.
func (r *reader) available() bool {
	for i := range r.in {
		in := &r.in[i]
		if in.r < in.w || r.flow.published[i].Load() != in.next {
			return true
		}
	}
	return false
}

// has tells the same of one ring.
func (r *reader) has(ring ringKind) bool {
	in := &r.in[ring]
	if in.r < in.w || in.limit != in.next {
		return true
	}
	in.limit = r.flow.published[ring].Load()
	return in.limit != in.next
}

// header gives the next frame of the ring, which has one.
func (r *reader) header(ring ringKind) (transport.Header, error) {
	in := &r.in[ring]
	if in.r == in.w {
		if err := r.fill(ring); err != nil {
			return transport.Header{}, err
		}
	}
	h, err := transport.DecodeHeader(in.stage[in.r : in.r+transport.HeaderBytes])
	if err != nil {
		return h, err
	}
	in.r += transport.HeaderBytes
	size := recordBytes(int(h.Length))
	if ahead := uint64(in.w-in.r) + in.limit - in.next + transport.HeaderBytes; size > ahead {
		return h, fmt.Errorf("%w: %s ring: frame of %d bytes, published are %d", transport.ErrProtocol, ring, size, ahead)
	}
	r.current, r.left = ring, int(h.Length)
	if ring == ringBulk {
		r.carried += size
	}
	in.skip = int(size) - transport.HeaderBytes - int(h.Length)
	in.large = h.Length >= directBytes
	if h.Length == 0 {
		r.finish(in)
	}
	return h, nil
}

// fill copies the next records into the empty stage.
func (r *reader) fill(ring ringKind) error {
	in := &r.in[ring]
	n := min(in.limit-in.next, stageBytes)
	if in.large {
		n = unit
	}
	if err := r.copy(in, in.stage[:n]); err != nil {
		return err
	}
	in.r, in.w = 0, int(n)
	r.flow.consumed[ring].Store(in.next)
	return nil
}

// copy takes the next bytes out of the ring.
func (r *reader) copy(in *inRing, b []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return transport.ErrClosed
	}
	get(b, in.mem, in.next)
	in.next += uint64(len(b))
	return nil
}

// tired tells, after each slice of bulk, that it is time to look for what arrived meanwhile.
func (r *reader) tired() bool {
	if r.carried < sliceBytes {
		return false
	}
	r.carried = 0
	return true
}

// payload fills dst with the payload of the frame whose header was given last.
func (r *reader) payload(dst []byte) error {
	if len(dst) != r.left {
		return fmt.Errorf("rdma: payload of %d bytes read into %d", r.left, len(dst))
	}
	in := &r.in[r.current]
	n := copy(dst, in.stage[in.r:in.w])
	in.r += n
	if n < len(dst) {
		if err := r.copy(in, dst[n:]); err != nil {
			return err
		}
	}
	r.left = 0
	ahead := in.next
	r.finish(in)
	if n < len(dst) || in.next != ahead {
		r.flow.consumed[r.current].Store(in.next)
	}
	return nil
}

// finish skips the padding of a record that has been read.
func (r *reader) finish(in *inRing) {
	n := min(in.skip, in.w-in.r)
	in.r += n
	in.next += uint64(in.skip - n)
	in.skip = 0
}
