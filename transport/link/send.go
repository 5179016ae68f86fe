package link

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/bornode/bornode/transport"
)

// outgoing is a queued message and how much of it has been cut into frames.
type outgoing struct {
	message transport.Message
	offset  int
}

// kept is a frame that the peer has not acknowledged as received.
type kept struct {
	payload []byte
	total   uint32
	kind    uint8
	flags   uint8
}

func (k *kept) cost() int { return transport.HeaderBytes + len(k.payload) }

// sendLane is the sending side of a lane. Counters are of frames (and bytes) since the link's start, from
// FirstSequence on.
type sendLane struct {
	lane   transport.Lane
	queue  deque[outgoing]
	frames deque[kept] // [acked, sent)

	queuedBytes int
	acked       uint64 // received by the peer
	resend      uint64 // next to go on the current pipe; below sent only after a change of pipe
	sent        uint64 // cut and numbered
	sentBytes   uint64
	freedFrames uint64 // what the peer gave back
	freedBytes  uint64
	skipped     int // bytes that higher lanes sent while this one could
}

func (s *sendLane) init(lane transport.Lane, first uint64) {
	s.lane = lane
	s.acked, s.resend, s.sent, s.freedFrames = first, first, first, first
	s.sentBytes, s.freedBytes = first, first
}

func (s *sendLane) drop() {
	s.queue, s.frames, s.queuedBytes = deque[outgoing]{}, deque[kept]{}, 0
}

func (s *sendLane) hasRoom() bool {
	limit := transport.SendQueue(s.lane)
	return s.queue.len() < limit.Messages && s.queuedBytes < limit.Bytes
}

func (s *sendLane) push(m *transport.Message) {
	s.queue.push(outgoing{message: *m})
	s.queuedBytes += len(m.Payload)
}

// next gives the cost in bytes of the next frame, 0 if there is none or its credit is missing.
func (s *sendLane) next(slice int) int {
	if s.resend < s.sent {
		return s.frames.at(int(s.resend - s.acked)).cost()
	}
	if s.queue.len() == 0 {
		return 0
	}
	o := s.queue.at(0)
	cost := transport.HeaderBytes + min(len(o.message.Payload)-o.offset, slice)
	w := transport.LaneWindow(s.lane)
	if s.sent-s.freedFrames >= uint64(w.Frames) || s.sentBytes-s.freedBytes+uint64(cost) > uint64(w.Bytes) {
		return 0
	}
	return cost
}

// cut makes the next slice of the first queued message a kept frame. It tells whether the message is through.
func (s *sendLane) cut(slice int) bool {
	o := s.queue.at(0)
	rest := o.message.Payload[o.offset:]
	k := kept{total: uint32(len(o.message.Payload)), kind: o.message.Type}
	if o.offset == 0 {
		k.flags |= transport.FlagFirst
	}
	n := min(len(rest), slice)
	k.payload = rest[:n:n]
	o.offset += n
	s.queuedBytes -= n
	last := n == len(rest)
	if last {
		k.flags |= transport.FlagLast
		s.queue.pop()
	}
	s.frames.push(k)
	s.sent++
	s.sentBytes += uint64(k.cost())
	return last
}

// canSend gives the cost of the lane's next frame if credit and the pipe's bound let it go now.
func (l *Link) canSend(p *pipe, lane transport.Lane) int {
	if l.closing && lane != transport.LaneConsensus {
		return 0
	}
	cost := l.out[lane].next(p.limits.SliceBytes)
	if cost == 0 || lane == transport.LaneConsensus {
		return cost
	}
	if l.flight > 0 && l.flight+cost > p.limits.UnacknowledgedBytes {
		return 0
	}
	return cost
}

// appendFrame takes the lane's next frame into the batch. canSend said yes.
func (l *Link) appendFrame(p *pipe, lane transport.Lane, batch []transport.Frame) []transport.Frame {
	s := &l.out[lane]
	if s.resend < s.sent {
		l.stats.FramesResent++
		l.metrics.resent.Inc()
	} else {
		full := !s.hasRoom()
		last := s.cut(p.limits.SliceBytes)
		n := len(s.frames.at(s.frames.len() - 1).payload)
		l.stats.Lanes[lane].BytesSent += uint64(n)
		if last {
			l.stats.Lanes[lane].MessagesSent++
		}
		if full && s.hasRoom() {
			signal(l.room[lane])
		}
	}
	k := s.frames.at(int(s.resend - s.acked))
	if lane != transport.LaneConsensus {
		l.flight += k.cost()
	}
	f := transport.Frame{Payload: k.payload, Header: transport.Header{
		Lane:     lane,
		Flags:    k.flags,
		Type:     k.kind,
		Length:   uint32(len(k.payload)),
		Sequence: uint32(s.resend),
		Total:    k.total,
		Ack:      l.acknowledge(lane),
	}}
	s.resend++
	return append(batch, f)
}

// nextBatch collects what the pipe is to carry next: control frames, lane 0 up to its bound, then one slice and
// BurstBytes of the others at most.
func (l *Link) nextBatch(p *pipe, batch []transport.Frame) []transport.Frame {
	batch = l.collect(p, batch)
	l.metrics.sent(&l.stats, &l.shown)
	return batch
}

func (l *Link) collect(p *pipe, batch []transport.Frame) []transport.Frame {
	batch = l.appendControl(batch)
	for size := 0; size < transport.ConsensusBatchBytes; {
		cost := l.canSend(p, transport.LaneConsensus)
		if cost == 0 {
			break
		}
		l.charge(p, transport.LaneConsensus, cost)
		batch = l.appendFrame(p, transport.LaneConsensus, batch)
		size += cost
	}
	if l.canSend(p, transport.LaneConsensus) > 0 {
		if lane, cost := l.starved(p); cost > 0 {
			l.charge(p, lane, cost)
			batch = l.appendFrame(p, lane, batch)
		}
		return batch
	}
	for size := 0; size < transport.BurstBytes; {
		lane, cost := l.starved(p)
		for i := transport.LaneTransactions; cost == 0 && i < transport.Lanes; i++ {
			lane, cost = i, l.canSend(p, i)
		}
		if cost == 0 {
			break
		}
		l.charge(p, lane, cost)
		batch = l.appendFrame(p, lane, batch)
		size += cost
	}
	return l.appendClose(batch)
}

// starved finds a lane that higher lanes kept waiting for ShareBytes.
func (l *Link) starved(p *pipe) (transport.Lane, int) {
	for i := transport.LaneTransactions; i < transport.Lanes; i++ {
		if l.out[i].skipped >= transport.ShareBytes {
			if cost := l.canSend(p, i); cost > 0 {
				return i, cost
			}
		}
	}
	return 0, 0
}

// charge notes that lane sends cost bytes while lower lanes that could send wait.
func (l *Link) charge(p *pipe, lane transport.Lane, cost int) {
	l.out[lane].skipped = 0
	for i := lane + 1; i < transport.Lanes; i++ {
		s := &l.out[i]
		if s.skipped < transport.ShareBytes && l.canSend(p, i) > 0 {
			s.skipped += cost
		}
	}
}

func control(kind uint8, payload []byte) transport.Frame {
	return transport.Frame{
		Header:  transport.Header{Flags: transport.FlagControl, Type: kind, Length: uint32(len(payload))},
		Payload: payload,
	}
}

// appendControl adds the control frames that are due. A ping or pong carries the acknowledgements itself.
func (l *Link) appendControl(batch []transport.Frame) []transport.Frame {
	if !l.ackDue && !l.pingDue && !l.pongDue {
		return batch
	}
	var acks transport.Acks
	for i := range acks {
		acks[i] = l.acknowledge(transport.Lane(i))
	}
	if l.pongDue {
		b := transport.AppendAcks(make([]byte, 0, transport.AcksBytes+8), &acks)
		batch = append(batch, control(transport.ControlPong, binary.BigEndian.AppendUint64(b, l.pongToken)))
	}
	if l.pingDue {
		b := transport.AppendAcks(make([]byte, 0, transport.AcksBytes+8), &acks)
		batch = append(batch, control(transport.ControlPing, binary.BigEndian.AppendUint64(b, uint64(time.Since(l.epoch)))))
	}
	if !l.pongDue && !l.pingDue {
		batch = append(batch, control(transport.ControlAcks, transport.AppendAcks(make([]byte, 0, transport.AcksBytes), &acks)))
	}
	l.ackDue, l.pingDue, l.pongDue = false, false, false
	return batch
}

// appendClose adds the last frame of a closing link, once lane 0 is through.
func (l *Link) appendClose(batch []transport.Frame) []transport.Frame {
	s := &l.out[transport.LaneConsensus]
	if !l.closing || l.closeSent || s.queue.len() > 0 || s.resend < s.sent {
		return batch
	}
	l.closeSent = true
	return append(batch, control(transport.ControlClose, []byte(l.reason)))
}

// acknowledged applies the peer's acknowledgement of a lane.
func (l *Link) acknowledged(lane transport.Lane, a transport.Ack) error {
	s := &l.out[lane]
	received := advance(s.acked, a.Received)
	if received > s.resend {
		return fmt.Errorf("%w: acknowledges frame %d on lane %s, sent are %d", transport.ErrProtocol, received, lane, s.resend)
	}
	freed, freedBytes := advance(s.freedFrames, a.FreedFrames), advance(s.freedBytes, a.FreedBytes)
	if freed > received || freedBytes > s.sentBytes {
		return fmt.Errorf("%w: frees %d frames and %d bytes on lane %s, it has %d and %d",
			transport.ErrProtocol, freed, freedBytes, lane, received, s.sentBytes)
	}
	if received == s.acked && freed == s.freedFrames && freedBytes == s.freedBytes {
		return nil
	}
	l.retire(s, received)
	s.freedFrames, s.freedBytes = freed, freedBytes
	signal(l.wake)
	return nil
}

// retire forgets the frames that the peer has.
func (l *Link) retire(s *sendLane, received uint64) {
	for s.acked < received {
		k := s.frames.pop()
		if s.lane != transport.LaneConsensus && s.acked < s.resend {
			l.flight -= k.cost()
		}
		s.acked++
	}
}

// advance gives the counter whose low 32 bits are low and that lies less than 2^31 above known; known itself if low
// lies behind it (an acknowledgement that was overtaken).
func advance(known uint64, low uint32) uint64 {
	if d := int32(low - uint32(known)); d > 0 {
		return known + uint64(d)
	}
	return known
}
