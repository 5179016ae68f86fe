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
//	128  slots  words of 8 bytes: immediate 32, flags 8, opcode 8, lap 16
//	then sizes, 4 bytes for each slot whose flags say so, and MaxSendBytes for the bytes of a SEND
//
// Positions count slots from the ring's start for ever; slot = position mod depth. A slot is published by storing its
// word with the lap of its position, which its last use did not have. The head and the slots of a ring of usual depth
// share a page, so that many idle queue pairs cost few address translations.
const (
	ringHead   = 0
	ringFault  = 8
	ringSlots  = 128
	slotBytes  = 8
	sizeBytes  = 4
	faultShift = 56 // fault: status in the top byte, low bits of the position below
	faultMask  = 1<<faultShift - 1

	flagSized = 1 // the completion has a size, not 0
	flagAck   = 2 // the sender waits for the head to pass this slot: wake it if it sleeps
	flagsAll  = flagSized | flagAck
)

func ringBytes(depth int) int {
	return pageRound(ringSlots + depth*(slotBytes+sizeBytes+fabric.MaxSendBytes))
}

// ring is the view of the shared memory that both halves use.
type ring struct {
	slots []atomic.Uint64
	mask  uint64
	shift uint
	head  *atomic.Uint64
	fault *atomic.Uint64
	sizes []atomic.Uint32
	send  []byte
	mem   *mapping
}

func viewRing(m *mapping, depth int) ring {
	invariant.That(len(m.data) == ringBytes(depth), "ring of %d slots in %d bytes", depth, len(m.data))
	at := func(off int) unsafe.Pointer { return unsafe.Pointer(&m.data[off]) }
	sizes := ringSlots + depth*slotBytes
	sends := sizes + depth*sizeBytes
	return ring{
		slots: unsafe.Slice((*atomic.Uint64)(at(ringSlots)), depth),
		mask:  uint64(depth - 1),
		shift: uint(bits.TrailingZeros(uint(depth))),
		head:  (*atomic.Uint64)(at(ringHead)),
		fault: (*atomic.Uint64)(at(ringFault)),
		sizes: unsafe.Slice((*atomic.Uint32)(at(sizes)), depth),
		send:  m.data[sends : sends+depth*fabric.MaxSendBytes],
		mem:   m,
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

// put publishes a slot; there must be room. payload is that of a SEND. With ack the receiver wakes the sender when it
// took the slot.
func (t *txRing) put(op fabric.Opcode, imm, n uint32, payload []byte, ack bool) {
	i := t.pos & t.mask
	word := uint64(imm)<<32 | uint64(op)<<16 | uint64(t.lap(t.pos))
	if n != 0 {
		word |= flagSized << 24
		t.sizes[i].Store(n)
		copy(t.send[i*fabric.MaxSendBytes:(i+1)*fabric.MaxSendBytes], payload)
	}
	if ack {
		word |= flagAck << 24
	}
	t.slots[i].Store(word)
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
		if uint16(r.slots[pos&r.mask].Load()) != r.lap(pos) {
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
