package kafka

import (
	"encoding/binary"
	"fmt"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func hasShape(key, version int16) bool {
	return shapes[key] != nil && version >= 0
}

// checkShape walks a body: every length and count in it must fit the bytes that are there, and what decoding would
// allocate must stay within a small multiple of them. Without it a few bytes could claim an array of millions of
// structs at every level, or billions of tags, and the decoder would believe them.
func checkShape(key, version int16, flexible bool, body []byte) error {
	factor := int64(controlFactor - 1)
	if key == kmsg.Produce.Int16() {
		factor = produceFactor - 1
	}
	w := walker{b: body, version: version, flexible: flexible, room: smallBuffer + factor*int64(len(body))}
	w.shape(shapes[key], 0)
	return w.err
}

type walker struct {
	b        []byte
	version  int16
	flexible bool
	room     int64 // memory that decoding may still take
	err      error
}

func (w *walker) fail(format string, args ...any) {
	if w.err == nil {
		w.err = fmt.Errorf(format, args...)
	}
	w.b = nil
}

func (w *walker) take(n int64) []byte {
	if n < 0 || n > int64(len(w.b)) {
		w.fail("it is cut short: a field of %d bytes with %d left", n, len(w.b))
		return nil
	}
	out := w.b[:n]
	w.b = w.b[n:]
	return out
}

func (w *walker) spend(n int64) {
	if w.room -= n; w.room < 0 {
		w.fail("it would take far more memory than it has bytes")
	}
}

func (w *walker) uvarint() int64 {
	v, n := kbin.Uvarint(w.b)
	if n <= 0 {
		w.fail("it is cut short in a length")
		return 0
	}
	w.b = w.b[n:]
	return int64(v)
}

// length reads the length of a string (2 bytes), bytes or an array (4 bytes); -1 is null.
func (w *walker) length(size int64) int64 {
	if w.flexible {
		return w.uvarint() - 1
	}
	b := w.take(size)
	switch len(b) {
	case 2:
		return int64(int16(binary.BigEndian.Uint16(b))) //nolint:gosec // its bits
	case 4:
		return int64(int32(binary.BigEndian.Uint32(b))) //nolint:gosec // its bits
	}
	return -1
}

func (w *walker) shape(s *shape, depth int) {
	for k := range s.fields {
		if w.err != nil {
			return
		}
		w.field(&s.fields[k], depth)
	}
	if w.flexible && !s.bare && w.err == nil {
		w.tags(s, depth)
	}
}

func (w *walker) field(f *field, depth int) {
	if w.version < f.min || w.version > f.max {
		return
	}
	switch f.kind {
	case 's', 'x':
		size := int64(2)
		if f.kind == 'x' {
			size = 4
		}
		n := w.length(size)
		if n < -1 {
			w.fail("a length is %d", n)
		}
		if n > 0 {
			w.take(n)
			if f.kind == 's' {
				w.spend(n)
			}
		}
	case '{':
		w.shape(f.sub, depth+1)
	case '[':
		w.array(f.sub, depth+1)
	default:
		w.take(sizes[f.kind])
	}
}

func (w *walker) array(s *shape, depth int) {
	n := w.length(4)
	switch {
	case n < -1 || n > int64(len(w.b)): // every element has a byte at least
		w.fail("an array says that it has %d elements, with %d bytes left", n, len(w.b))
		return
	case depth > maxDepth:
		w.fail("arrays are nested too deeply")
		return
	}
	if n > 0 {
		w.spend(n * s.cost)
	}
	for ; n > 0 && w.err == nil; n-- {
		w.shape(s, depth)
	}
}

// tags walks the tagged fields at the end of a struct; s may be nil.
func (w *walker) tags(s *shape, depth int) {
	n := w.uvarint()
	if n > maxTags {
		w.fail("it has %d tagged fields in one place; at most %d are taken", n, maxTags)
		return
	}
	for ; n > 0 && w.err == nil; n-- {
		key, size := w.uvarint(), w.uvarint()
		payload := w.take(size)
		if w.err != nil {
			return
		}
		if s != nil && s.tags[uint32(key)] != nil { //nolint:gosec // was 32 bits
			rest := w.b
			w.b = payload
			w.field(s.tags[uint32(key)], depth+1) //nolint:gosec // likewise
			if w.err == nil {
				w.b = rest
			}
			continue
		}
		w.spend(unknownTag)
	}
}

const unknownTag = 96 // memory of an entry in the decoder's map of unknown tags
