package rdma

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/bornode/bornode/transport"
	"github.com/bornode/bornode/transport/rdma/fabric"
)

// What is sent over the queue pair of windows (docs/wire-rdma.md, "Windows"), in SENDs of windowNoteBytes: the reader
// says which chunk of an area it wants, and the serving side answers where in its registered copy that lies. Integers
// are big-endian; the version words in the copy are little-endian.
const (
	windowNoteBytes   = 64
	windowNoteVersion = 1

	noteWant = 1
	noteHave = 2
)

// Statuses of a have.
const (
	haveOK      = iota
	haveNothing // no window is served
	haveGone    // the area does not exist, or no more
	haveRefused // it could not be read
)

// want asks for a chunk: windowChunkBytes of an area from chunk*windowChunkBytes on.
type want struct {
	id    uint32 // of the reader, repeated in the answer
	area  uint32
	chunk uint32
}

// have tells where a chunk lies. It may be overwritten at any moment: before that its version word changes.
type have struct {
	want
	status  byte
	valid   uint32        // bytes of it; fewer than windowChunkBytes: the area ends there now
	remote  fabric.Remote // the copy
	word    uint32        // offset of the version word in it
	data    uint32        // offset of the bytes
	version uint64
}

func (w *want) encode(kind byte) []byte {
	b := make([]byte, 0, windowNoteBytes)
	b = append(b, windowNoteVersion, kind, 0, 0)
	b = binary.BigEndian.AppendUint32(b, w.id)
	b = binary.BigEndian.AppendUint32(b, w.area)
	return binary.BigEndian.AppendUint32(b, w.chunk)
}

func sealNote(b []byte) []byte {
	b = append(b, make([]byte, windowNoteBytes-4-len(b))...)
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

func (w *want) note() []byte { return sealNote(w.encode(noteWant)) }

func (h *have) note() []byte {
	b := h.encode(noteHave)
	b[2] = h.status
	b = binary.BigEndian.AppendUint32(b, h.valid)
	b = binary.BigEndian.AppendUint64(b, h.remote.Addr)
	b = binary.BigEndian.AppendUint32(b, h.remote.Key)
	b = binary.BigEndian.AppendUint32(b, h.remote.Len)
	b = binary.BigEndian.AppendUint32(b, h.word)
	b = binary.BigEndian.AppendUint32(b, h.data)
	b = binary.BigEndian.AppendUint64(b, h.version)
	return sealNote(b)
}

// decodeNote reads either kind; of a want only the want is set.
func decodeNote(b []byte) (kind byte, h have, err error) {
	fail := func(format string, args ...any) (byte, have, error) {
		return 0, have{}, fmt.Errorf("%w: window: %s", transport.ErrProtocol, fmt.Sprintf(format, args...))
	}
	switch {
	case len(b) != windowNoteBytes:
		return fail("a note of %d bytes, want %d", len(b), windowNoteBytes)
	case crc32.Checksum(b[:windowNoteBytes-4], castagnoli) != binary.BigEndian.Uint32(b[windowNoteBytes-4:]):
		return fail("checksum of a note")
	case b[0] != windowNoteVersion || b[3] != 0:
		return fail("a note of version %d", b[0])
	}
	kind, h.status = b[1], b[2]
	h.id, h.area, h.chunk = binary.BigEndian.Uint32(b[4:]), binary.BigEndian.Uint32(b[8:]), binary.BigEndian.Uint32(b[12:])
	used := 16
	if kind == noteHave {
		h.valid = binary.BigEndian.Uint32(b[16:])
		h.remote = fabric.Remote{Addr: binary.BigEndian.Uint64(b[20:]), Key: binary.BigEndian.Uint32(b[28:]), Len: binary.BigEndian.Uint32(b[32:])}
		h.word, h.data = binary.BigEndian.Uint32(b[36:]), binary.BigEndian.Uint32(b[40:])
		h.version = binary.BigEndian.Uint64(b[44:])
		used = 52
	}
	for _, x := range b[used : windowNoteBytes-4] {
		if x != 0 {
			return fail("reserved bytes of a note")
		}
	}
	switch {
	case kind == noteWant && h.status == 0:
		return kind, h, nil
	case kind != noteHave || h.status > haveRefused:
		return fail("a note of kind %d, status %d", kind, h.status)
	case h.status != haveOK:
		if h.valid != 0 || h.remote != (fabric.Remote{}) || h.word != 0 || h.data != 0 || h.version != 0 {
			return fail("a refusal with a place")
		}
		return kind, h, nil
	}
	return kind, h, h.check()
}

// check bounds a place: nothing of it lies outside what is exposed.
func (h *have) check() error {
	size := uint64(h.remote.Len)
	switch {
	case h.remote.Addr+size < h.remote.Addr:
	case h.word%8 != 0 || uint64(h.word)+8 > size:
	case h.valid > windowChunkBytes || uint64(h.data)+uint64(h.valid) > size:
	case h.version%2 != 0:
	default:
		return nil
	}
	return fmt.Errorf("%w: window: a place that cannot be: %d bytes at %d, word at %d, version %d, in %d at %#x", transport.ErrProtocol,
		h.valid, h.data, h.word, h.version, h.remote.Len, h.remote.Addr)
}
