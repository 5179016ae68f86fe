package rdma

import (
	"fmt"

	"github.com/bornode/bornode/transport"
)

// unit is what positions in a ring count in, and what every record is a multiple of: one cache line.
const unit = 64

// ringKind names one of the two rings of a direction.
type ringKind uint8

// The rings of a direction.
const (
	ringControl ringKind = iota // control frames of the link and lane 0
	ringBulk                    // lanes 1-3
	rings
)

func (r ringKind) String() string {
	if r == ringControl {
		return "control"
	}
	return "bulk"
}

// ringOf tells in which ring a frame travels.
func ringOf(h *transport.Header) ringKind {
	if h.Flags&transport.FlagControl != 0 || h.Lane == transport.LaneConsensus {
		return ringControl
	}
	return ringBulk
}

// The value of an immediate holds the low bits of a position in units.
const (
	valueBits = 28
	valueMask = 1<<valueBits - 1
)

// recordBytes is what a frame with a payload of n bytes takes in a ring.
func recordBytes(n int) uint64 {
	return (transport.HeaderBytes + uint64(n) + unit - 1) &^ (unit - 1)
}

// Positions are counts of bytes since the channel's start, multiples of unit. The byte at position p of a ring of
// size bytes (a power of two) lies at p modulo size.

// outRing is the writer's account of a ring at the peer: freed <= posted <= written <= freed + size.
type outRing struct {
	size    uint64
	written uint64 // end of the last record put into the mirror
	posted  uint64 // told to the peer by an immediate
	freed   uint64 // the peer said it has taken the bytes before
}

func (o *outRing) init(size, start uint64) {
	*o = outRing{size: size, written: start, posted: start, freed: start}
}

// room is how many bytes may be written now.
func (o *outRing) room() uint64 { return o.size - (o.written - o.freed) }

// free applies what the peer said it has consumed.
func (o *outRing) free(consumed uint64) error {
	if consumed < o.freed || consumed > o.posted || consumed%unit != 0 {
		return fmt.Errorf("%w: consumed position %d of a ring with %d to %d under way",
			transport.ErrProtocol, consumed, o.freed, o.posted)
	}
	o.freed = consumed
	return nil
}

// publish gives the position that the value of an immediate names: the one above published. A reader who has consumed
// everything before consumed can be told of size bytes more.
func publish(published, consumed, size uint64, value uint32) (uint64, error) {
	ahead := uint64((value-uint32(published/unit))&valueMask) * unit
	if ahead == 0 || published+ahead-consumed > size {
		return 0, fmt.Errorf("%w: published position is %d bytes ahead of %d, consumed are %d, the ring has %d",
			transport.ErrProtocol, ahead, published, consumed, size)
	}
	return published + ahead, nil
}

// put copies b into the ring at position pos, around its end.
func put(ring []byte, pos uint64, b []byte) {
	n := copy(ring[pos&uint64(len(ring)-1):], b)
	if n < len(b) {
		copy(ring, b[n:])
	}
}

// get copies out of the ring from position pos on.
func get(b, ring []byte, pos uint64) {
	n := copy(b, ring[pos&uint64(len(ring)-1):])
	if n < len(b) {
		copy(b[n:], ring)
	}
}
