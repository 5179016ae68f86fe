package link

import (
	"fmt"
	"time"

	"github.com/bornode/bornode/transport"
)

// firstBuffer is what a message's first slice may make us allocate at most; the rest follows as it arrives, so that
// an announced length alone costs little.
const firstBuffer = 1 << 20

const (
	// smallMessage: a whole message up to this size is read at once, before its frame is checked against the lane.
	smallMessage = 4 << 10
	// heardEvery: one data frame in so many notes the time.
	heardEvery = 8
)

// recvLane is the receiving side of a lane.
type recvLane struct {
	lane        transport.Lane
	unread      deque[transport.Message]
	unreadBytes int // with messageOverhead each

	received      uint64 // frames
	receivedBytes uint64 // with headers
	freedFrames   uint64
	freedBytes    uint64
	toldFrames    uint64 // freed as last told to the peer
	toldBytes     uint64
	untold        int // bytes received since the peer was last told, counted in Link.unacked too

	partial []byte // message under way: len is what has arrived
	total   int
	kind    uint8
}

func (r *recvLane) init(first uint64) {
	r.received, r.receivedBytes, r.freedFrames, r.freedBytes, r.toldFrames, r.toldBytes = first, first, first, first, first, first
}

// free gives the peer back all it sent, unless too much waits for the reader.
func (r *recvLane) free() {
	if r.unreadBytes <= transport.UnreadBytes(r.lane) {
		r.freedFrames, r.freedBytes = r.received, r.receivedBytes
	}
}

// creditDue tells that a quarter of the window is free and the peer does not know.
func (r *recvLane) creditDue() bool {
	w := transport.LaneWindow(r.lane)
	return r.freedBytes-r.toldBytes >= uint64(w.Bytes/4) || r.freedFrames-r.toldFrames >= uint64(w.Frames/4)
}

// check checks a data frame against the lane's state. again tells that it was received before.
func (r *recvLane) check(h *transport.Header) (again bool, err error) {
	d := int32(h.Sequence - uint32(r.received))
	if d < 0 {
		return true, nil
	}
	if d > 0 {
		return false, fmt.Errorf("%w: lane %s jumps %d frames ahead of %d", transport.ErrProtocol, r.lane, d, r.received)
	}
	w := transport.LaneWindow(r.lane)
	cost := uint64(transport.HeaderBytes + h.Length)
	if r.received-r.freedFrames >= uint64(w.Frames) || r.receivedBytes-r.freedBytes+cost > uint64(w.Bytes) {
		return false, fmt.Errorf("%w: lane %s sends beyond its credit", transport.ErrProtocol, r.lane)
	}
	begun := len(r.partial) > 0 // a slice that was announced and never arrived leaves an empty one
	if (h.Flags&transport.FlagFirst != 0) == begun {
		return false, fmt.Errorf("%w: lane %s: slice flags %#x out of order", transport.ErrProtocol, r.lane, h.Flags)
	}
	n, total, at := int(h.Length), int(h.Total), len(r.partial)
	if begun && (h.Type != r.kind || total != r.total) {
		return false, fmt.Errorf("%w: lane %s: slice of another message", transport.ErrProtocol, r.lane)
	}
	if at+n > total || (h.Flags&transport.FlagLast != 0) != (at+n == total) {
		return false, fmt.Errorf("%w: lane %s: slice ends at %d of %d with flags %#x", transport.ErrProtocol, r.lane, at+n, total, h.Flags)
	}
	return false, nil
}

// prepare checks a data frame and gives the place for its payload. A frame that was received before gets nil.
func (r *recvLane) prepare(h *transport.Header) ([]byte, bool, error) {
	again, err := r.check(h)
	if again || err != nil {
		return nil, again, err
	}
	if len(r.partial) == 0 {
		r.begin(h)
	}
	n, at := int(h.Length), len(r.partial)
	if at+n > cap(r.partial) {
		grown := make([]byte, at, min(r.total, max(at+n, 4*cap(r.partial))))
		copy(grown, r.partial)
		r.partial = grown
	}
	return r.partial[at : at+n : at+n], false, nil
}

func (r *recvLane) begin(h *transport.Header) {
	r.kind, r.total = h.Type, int(h.Total)
	r.partial = make([]byte, 0, max(int(h.Length), min(r.total, firstBuffer)))
}

// accept counts a frame whose payload is in place; complete tells that it ended a message, given as m.
func (r *recvLane) accept(h *transport.Header) (m transport.Message, complete bool) {
	r.received++
	r.receivedBytes += uint64(transport.HeaderBytes + h.Length)
	r.partial = r.partial[:len(r.partial)+int(h.Length)]
	if h.Flags&transport.FlagLast == 0 {
		return m, false
	}
	m = transport.Message{Lane: r.lane, Type: r.kind, Payload: r.partial}
	r.partial = nil
	return m, true
}

// acknowledge gives the lane's acknowledgement and notes that the peer will know it.
func (l *Link) acknowledge(lane transport.Lane) transport.Ack {
	r := &l.in[lane]
	r.toldFrames, r.toldBytes = r.freedFrames, r.freedBytes
	if lane != transport.LaneConsensus {
		l.unacked -= r.untold
		r.untold = 0
	}
	return transport.Ack{Received: uint32(r.received), FreedFrames: uint32(r.freedFrames), FreedBytes: uint32(r.freedBytes)}
}

// readFrame reads one frame from the pipe. false ends the reader.
func (l *Link) readFrame(p *pipe) bool {
	h, err := p.provider.ReadHeader()
	if err == nil {
		if h.Flags&transport.FlagControl != 0 {
			err = l.readControl(p, &h)
		} else {
			err = l.readData(p, &h)
		}
	}
	if err != nil {
		l.mu.Lock()
		l.metrics.received(&l.stats, &l.shown)
		l.mu.Unlock()
		l.pipeFailed(p, err)
		return false
	}
	return true
}

func (l *Link) readData(p *pipe, h *transport.Header) error {
	if h.Flags&(transport.FlagFirst|transport.FlagLast) == transport.FlagFirst|transport.FlagLast && h.Length <= smallMessage {
		return l.readSmall(p, h)
	}
	l.mu.Lock()
	if l.pipe != p {
		l.mu.Unlock()
		return errReplaced
	}
	dst, again, err := l.in[h.Lane].prepare(h)
	l.mu.Unlock()
	if err != nil {
		return err
	}
	if again {
		dst = p.scratch()[:h.Length]
	}
	if err := p.readPayload(h, dst); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pipe != p {
		return errReplaced
	}
	return l.taken(p, h, again)
}

// readSmall reads a whole small message before it looks at the link's state: one lock, not two.
func (l *Link) readSmall(p *pipe, h *transport.Header) error {
	payload := make([]byte, h.Length)
	if err := p.readPayload(h, payload); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pipe != p {
		return errReplaced
	}
	r := &l.in[h.Lane]
	again, err := r.check(h)
	if err != nil {
		return err
	}
	if !again {
		r.kind, r.total, r.partial = h.Type, len(payload), payload[:0]
	}
	return l.taken(p, h, again)
}

// taken counts a data frame that was read whole. The mutex is held.
func (l *Link) taken(p *pipe, h *transport.Header, again bool) error {
	l.stats.FramesReceived++
	if l.stats.FramesReceived%heardEvery == 0 {
		l.heard()
		l.metrics.received(&l.stats, &l.shown)
	}
	if again {
		l.stats.Duplicates++
		l.metrics.duplicates.Inc()
		return nil
	}
	if err := l.acknowledged(h.Lane, h.Ack); err != nil {
		return err
	}
	l.accept(p, h)
	return nil
}

// accept takes a data frame over into the link.
func (l *Link) accept(p *pipe, h *transport.Header) {
	r := &l.in[h.Lane]
	m, complete := r.accept(h)
	l.stats.Lanes[h.Lane].BytesReceived += uint64(h.Length)
	if complete {
		l.stats.Lanes[h.Lane].MessagesReceived++
	}
	if complete && !l.closing {
		r.unread.push(m)
		r.unreadBytes += len(m.Payload) + messageOverhead
		signal(l.ready[h.Lane])
		signal(l.readyAny)
	}
	r.free()
	if h.Lane != transport.LaneConsensus {
		r.untold += transport.HeaderBytes + int(h.Length)
		l.unacked += transport.HeaderBytes + int(h.Length)
	}
	if l.unacked >= p.limits.UnacknowledgedBytes/4 || r.creditDue() {
		l.ackDue = true
		signal(l.wake)
	}
}

// heard notes the time. Reading the clock costs as much as taking a small frame, so data frames do it now and then:
// the peer's heartbeats are control frames, which always do.
func (l *Link) heard() { l.stats.LastReceived = l.epoch.Add(time.Since(l.epoch)) }

func (l *Link) readControl(p *pipe, h *transport.Header) error {
	var buf [transport.MaxControlBytes]byte
	b := buf[:h.Length]
	if err := p.readPayload(h, b); err != nil {
		return err
	}
	switch h.Type {
	case transport.ControlClose:
		if len(b) > transport.MaxReasonBytes {
			return fmt.Errorf("%w: close reason of %d bytes", transport.ErrProtocol, len(b))
		}
		l.end(fmt.Errorf("%w by the peer: %q", transport.ErrClosed, b))
		return errReplaced
	case transport.ControlHello:
		return fmt.Errorf("%w: second hello on a connection", transport.ErrProtocol)
	}
	acks, token, err := transport.DecodeAcks(h.Type, b)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pipe != p {
		return errReplaced
	}
	l.stats.FramesReceived++
	l.heard()
	l.metrics.received(&l.stats, &l.shown)
	for i := range acks {
		if err := l.acknowledged(transport.Lane(i), acks[i]); err != nil {
			return err
		}
	}
	switch h.Type {
	case transport.ControlPing:
		l.pongDue, l.pongToken = true, token
		signal(l.wake)
	case transport.ControlPong:
		if rtt := time.Since(l.epoch) - time.Duration(token); rtt >= 0 && rtt < l.cfg.IdleTimeout {
			l.stats.RoundTrip = rtt
		}
	}
	return nil
}
