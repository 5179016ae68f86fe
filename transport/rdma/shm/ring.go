//go:build linux

package shm

import (
	"fmt"
	"math/bits"
	"os"
	"sync/atomic"
	"unsafe"

	"github.com/bornode/bornode/internal/invariant"
	"github.com/bornode/bornode/transport/rdma/fabric"
)

// A completion ring carries completions in one direction of a queue pair. In its memory, from the start:
//
//	0    head   position up to which the receiver took slots; written by the receiver
//	8    fault  why the receiver broke the queue pair, 0 while it has not: status, position of the slot
//	128  ack    not 0: the sender waits for head to move; written by the sender
//	256  slots  16 bytes each: word {immediate 32, opcode 16, lap 16}, bytes 32, unused 32
//	then per slot MaxSendBytes for the bytes of a SEND
//
// Positions count slots from the ring's start for ever; slot = position mod depth. A slot is published by storing its
// word with the lap of its position, which its last use did not have.
const (
	ringHead   = 0
	ringFault  = 8
	ringAck    = 128
	ringSlots  = 256
	slotBytes  = 16
	faultShift = 56 // fault: status in the top byte, low bits of the position below
	faultMask  = 1<<faultShift - 1
)

type slot struct {
	word  atomic.Uint64
	bytes uint32
	_     uint32
}

func ringBytes(depth int) int { return pageRound(ringSlots + depth*(slotBytes+fabric.MaxSendBytes)) }

// ring is the view of the shared memory that both halves use.
type ring struct {
	mem   *mapping
	head  *atomic.Uint64
	fault *atomic.Uint64
	ack   *atomic.Uint32
	slots []slot
	send  []byte
	mask  uint64
	shift uint
}

func viewRing(m *mapping, depth int) ring {
	invariant.That(len(m.data) == ringBytes(depth), "ring of %d slots in %d bytes", depth, len(m.data))
	at := func(off int) unsafe.Pointer { return unsafe.Pointer(&m.data[off]) }
	sends := ringSlots + depth*slotBytes
	return ring{
		mem:   m,
		head:  (*atomic.Uint64)(at(ringHead)),
		fault: (*atomic.Uint64)(at(ringFault)),
		ack:   (*atomic.Uint32)(at(ringAck)),
		slots: unsafe.Slice((*slot)(at(ringSlots)), depth),
		send:  m.data[sends : sends+depth*fabric.MaxSendBytes],
		mask:  uint64(depth - 1),
		shift: uint(bits.TrailingZeros(uint(depth))),
	}
}

func (r *ring) lap(pos uint64) uint16 { return uint16(pos>>r.shift + 1) }

// txRing is the sender's half. It is guarded by the queue pair's send mutex.
type txRing struct {
	ring
	pos  uint64 // of the next slot
	seen uint64 // head as last read and checked
}

// newTxRing makes the memory of a ring. The file goes to the peer and is closed by the caller.
func newTxRing(depth int) (txRing, *os.File, error) {
	f, err := newMemfd(ringBytes(depth))
	if err != nil {
		return txRing{}, nil, err
	}
	m, err := mapFile(f, ringBytes(depth), true, false)
	if err != nil {
		f.Close()
		return txRing{}, nil, err
	}
	return txRing{ring: viewRing(m, depth)}, f, nil
}

// begin sets the position that the receiver asked for. Rings of many peers then begin in different cache sets.
func (t *txRing) begin(start uint32) {
	t.pos, t.seen = uint64(start), uint64(start)
}

// put publishes a slot; there must be room. payload is that of a SEND.
func (t *txRing) put(op fabric.Opcode, imm, n uint32, payload []byte) {
	i := t.pos & t.mask
	s := &t.slots[i]
	s.bytes = n
	if len(payload) != 0 {
		copy(t.send[i*fabric.MaxSendBytes:(i+1)*fabric.MaxSendBytes], payload)
	}
	s.word.Store(uint64(imm)<<32 | uint64(op)<<16 | uint64(t.lap(t.pos)))
	t.pos++
}

// reload reads how far the receiver is. The word is the peer's: going back means nothing, and it cannot have taken
// more than was sent.
func (t *txRing) reload() error {
	head := max(t.head.Load(), t.seen) // 0 until the receiver took the first slot
	if head > t.pos {
		return fmt.Errorf("%w: took %d completions of %d", fabric.ErrPeer, head, t.pos)
	}
	t.seen = head
	return nil
}

// blame reads why the receiver broke the queue pair: the status, and the position of the slot it could not take.
func (t *txRing) blame() (fabric.Status, uint64, bool) {
	v := t.fault.Load()
	if st := fabric.Status(v >> faultShift); st == fabric.StatusRNR || st == fabric.StatusOther {
		for pos := t.seen; pos < t.pos; pos++ {
			if pos&faultMask == v&faultMask {
				return st, pos, true
			}
		}
	}
	return 0, 0, false
}

// rxRing is the receiver's half. It is guarded by the completion queue's mutex.
type rxRing struct {
	ring
	pos   uint64
	end   uint64 // no slot from here on counts: the queue pair broke (math.MaxUint64 before)
	retry bool   // the sender's requests wait for receive entries
}

// published gives the position after the last slot that is published now.
func (r *rxRing) published() uint64 {
	pos := r.pos
	for range len(r.slots) {
		if uint16(r.slots[pos&r.mask].word.Load()) != r.lap(pos) {
			break
		}
		pos++
	}
	return pos
}

// accuse tells the sender that the slot at the receiver's position broke the queue pair.
func (r *rxRing) accuse(st fabric.Status) {
	r.fault.Store(uint64(st)<<faultShift | r.pos&faultMask)
}
