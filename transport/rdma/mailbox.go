package rdma

import (
	"encoding/binary"
	"math/bits"
	"sync/atomic"
	"unsafe"
)

// mailbox is the cache line of exposed memory into which the peer writes its words, little-endian. Each word is
// written and read whole.
type mailbox [unit / 8]uint64

// Places in a mailbox.
const (
	controlWord = iota
	bulkWord
	entriesWord
	probeWord // of the set-up

	mailWords = 3 // written together
)

// mailboxOf takes the first cache line of b, which is page-aligned.
func mailboxOf(b []byte) *mailbox {
	_ = b[unit-1]
	return (*mailbox)(unsafe.Pointer(unsafe.SliceData(b)))
}

// nativeBig tells that the machine is big-endian.
var nativeBig = binary.NativeEndian.Uint16([]byte{0, 1}) == 1

func wire64(x uint64) uint64 {
	if nativeBig {
		return bits.ReverseBytes64(x)
	}
	return x
}

func (m *mailbox) get(i int) uint64    { return wire64(atomic.LoadUint64(&m[i])) }
func (m *mailbox) set(i int, x uint64) { atomic.StoreUint64(&m[i], wire64(x)) }

func (m *mailbox) load() words {
	return words{consumed: [rings]uint64{m.get(controlWord), m.get(bulkWord)}, entries: m.get(entriesWord)}
}

func (m *mailbox) store(w *words) {
	m.set(controlWord, w.consumed[ringControl])
	m.set(bulkWord, w.consumed[ringBulk])
	m.set(entriesWord, w.entries)
}

func (m *mailbox) probe() uint64     { return m.get(probeWord) }
func (m *mailbox) setProbe(x uint64) { m.set(probeWord, x) }

// putWords encodes what a WRITE puts into the peer's mailbox.
func putWords(b []byte, w *words) {
	binary.LittleEndian.PutUint64(b[controlWord*8:], w.consumed[ringControl])
	binary.LittleEndian.PutUint64(b[bulkWord*8:], w.consumed[ringBulk])
	binary.LittleEndian.PutUint64(b[entriesWord*8:], w.entries)
}
