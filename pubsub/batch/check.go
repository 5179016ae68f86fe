package batch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
)

// Errors of Checker.Check, beside ErrCorrupt: what is wrong with a whole batch that readers could not use.
var (
	// ErrRecords: the records contradict the batch's header, or are no records. Kafka's INVALID_RECORD.
	ErrRecords = errors.New("the records are not what the batch says")
	// ErrCodec: the batch names a codec that nobody knows. Kafka's UNSUPPORTED_COMPRESSION_TYPE.
	ErrCodec = errors.New("unknown compression")
	// ErrUnpacked: unpacked, the records exceed MaxUnpackedBytes, or FreeUnpackedBytes and MaxRatio. Kafka's MESSAGE_TOO_LARGE.
	ErrUnpacked = errors.New("the records are too large when unpacked")
	// ErrTime: a record's time is outside what the topic takes. Kafka's INVALID_TIMESTAMP.
	ErrTime = errors.New("a record's time is outside what the topic takes")
)

const (
	maxCodec  = 4
	knownBits = CodecMask | AppendTime | Transactional | Control
	noTime    = -1 // a record without a time
)

// Times are the record times that a topic takes, ms, both included.
type Times struct{ From, To int64 }

// AllTimes takes every time.
func AllTimes() Times { return Times{math.MinInt64, math.MaxInt64} }

func (t Times) check(ms int64) error {
	if ms == noTime || ms >= t.From && ms <= t.To {
		return nil
	}
	return fmt.Errorf("%w: %d ms, taken are %d to %d", ErrTime, ms, t.From, t.To)
}

// CheckHeader judges what a batch of a producer says of itself, as far as its records need not be looked at: all that can
// be said of an encrypted one. raw was parsed into h.
func CheckHeader(h *Header, times Times) error {
	switch {
	case h.Attributes&CodecMask > maxCodec:
		return fmt.Errorf("%w: codec %d", ErrCodec, h.Attributes&CodecMask)
	case h.Attributes&^knownBits != 0:
		return fmt.Errorf("%w: its attributes are %#x", ErrRecords, uint16(h.Attributes)) //nolint:gosec // shown as bits
	case h.LastOffsetDelta != h.Count-1:
		return fmt.Errorf("%w: %d records, the last offset is %d", ErrRecords, h.Count, h.LastOffsetDelta)
	}
	if err := times.check(h.FirstTimestamp); err != nil {
		return err
	}
	return times.check(h.MaxTimestamp)
}

// Check judges a whole batch of a producer that is not encrypted: CheckHeader, and whether its records can be unpacked
// within the bounds, are Count in number, with offsets that follow each other and times that the topic takes, and
// nothing behind them. Memory is taken for what is unpacked, never for what a batch announces. raw was parsed into h.
// Errors wrap ErrRecords, ErrCodec, ErrUnpacked or ErrTime.
func (c *Checker) Check(h *Header, raw []byte, times Times) error {
	if err := CheckHeader(h, times); err != nil {
		return err
	}
	section := Records(raw)
	codec := h.Attributes & CodecMask
	if codec == 0 {
		return checkPlain(h, section, times)
	}
	return c.unpack(codec, section, func(r source) error { return checkUnpacked(h, r, times) })
}

// checkPlain is checkUnpacked of records that are in memory, which most are: it looks at the fields that it checks alone.
func checkPlain(h *Header, b []byte, times Times) error {
	for i := range h.Count {
		size, n := binary.Varint(b)
		if n <= 0 || size < 1 || size > int64(len(b)-n) {
			return broken(i, h, "its length")
		}
		if err := checkRecord(h, i, b[n:n+int(size)], times); err != nil {
			return err
		}
		b = b[n+int(size):]
	}
	if len(b) > 0 {
		return fmt.Errorf("%w: %d bytes behind %d records", ErrRecords, len(b), h.Count)
	}
	return nil
}

// checkRecord judges one record without its length.
func checkRecord(h *Header, i int32, b []byte, times Times) error {
	b = b[1:] // attributes, of which none is in use
	at, n := binary.Varint(b)
	if n <= 0 {
		return broken(i, h, "its time")
	}
	b = b[n:]
	delta, n := binary.Varint(b)
	if n <= 0 || delta != int64(i) {
		return broken(i, h, "its offset")
	}
	b = b[n:]
	if err := checkTime(h, at, times); err != nil {
		return err
	}
	ok := true
	if b, ok = skipBytes(b, true); !ok {
		return broken(i, h, "its key")
	}
	if b, ok = skipBytes(b, true); !ok {
		return broken(i, h, "its value")
	}
	count, n := binary.Varint(b)
	if n <= 0 || count < 0 || count > min(MaxHeaders, int64(len(b))) {
		return broken(i, h, "its headers")
	}
	for b = b[n:]; count > 0; count-- {
		if b, ok = skipBytes(b, false); ok {
			b, ok = skipBytes(b, true)
		}
		if !ok {
			return broken(i, h, "its headers")
		}
	}
	if len(b) > 0 {
		return broken(i, h, "what follows its headers")
	}
	return nil
}

// skipBytes passes over bytes behind their length; a length of -1 stands for none.
func skipBytes(b []byte, none bool) ([]byte, bool) {
	size, n := binary.Varint(b)
	switch {
	case n <= 0 || size < -1 || size == -1 && !none:
		return nil, false
	case size == -1:
		return b[n:], true
	case size > int64(len(b)-n):
		return nil, false
	}
	return b[n+int(size):], true
}

func checkTime(h *Header, delta int64, times Times) error {
	at := h.FirstTimestamp + delta
	if (at < h.FirstTimestamp) != (delta < 0) {
		return fmt.Errorf("%w: it does not fit 64 bits", ErrTime)
	}
	return times.check(at)
}

func broken(i int32, h *Header, what string) error {
	return fmt.Errorf("%w: record %d of %d, %s", ErrRecords, i, h.Count, what)
}

// source is what records are unpacked from, piece by piece. Errors of unpacking and of bounds come out of its methods.
type source interface {
	io.ByteReader
	Discard(n int) (int, error)
	Peek(n int) ([]byte, error)
}

// checkUnpacked judges records that come piece by piece, so that no more than a window of them is in memory.
func checkUnpacked(h *Header, src source, times Times) error {
	r := recordReader{src: src}
	for i := range h.Count {
		r.left = math.MaxInt64
		size := r.varint()
		r.left = size
		if r.skip(1); r.err == nil && size < 1 {
			return broken(i, h, "its length")
		}
		at, delta := r.varint(), r.varint()
		if r.err == nil && delta != int64(i) {
			return broken(i, h, "its offset")
		}
		if r.err == nil {
			if err := checkTime(h, at, times); err != nil {
				return err
			}
		}
		r.skipBytes(true)
		r.skipBytes(true)
		count := r.varint()
		if count < 0 || count > min(MaxHeaders, r.left) { // a header takes a byte at least
			r.fail()
		}
		for ; count > 0 && r.err == nil; count-- {
			r.skipBytes(false)
			r.skipBytes(true)
		}
		if r.err == nil && r.left != 0 {
			r.fail()
		}
		if errors.Is(r.err, errShape) {
			return broken(i, h, "its fields")
		}
		if r.err != nil {
			return r.err
		}
	}
	if b, err := src.Peek(1); len(b) > 0 {
		return fmt.Errorf("%w: more follows %d records", ErrRecords, h.Count)
	} else if !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

var errShape = errors.New("not a record")

// recordReader reads the fields of one record. The first error stays.
type recordReader struct {
	src  source
	left int64 // of the record
	err  error
}

func (r *recordReader) fail() {
	if r.err == nil {
		r.err = errShape
	}
}

// ReadByte implements io.ByteReader.
func (r *recordReader) ReadByte() (byte, error) {
	if r.left--; r.left < 0 {
		return 0, errShape
	}
	b, err := r.src.ReadByte()
	if errors.Is(err, io.EOF) {
		err = errShape
	}
	return b, err
}

func (r *recordReader) varint() int64 {
	if r.err != nil {
		return 0
	}
	v, shift := uint64(0), 0
	for {
		b, err := r.ReadByte()
		if err != nil {
			r.err = err
			return 0
		}
		if shift == 63 && b > 1 {
			r.fail()
			return 0
		}
		v |= uint64(b&0x7f) << shift
		if b < 0x80 {
			break
		}
		shift += 7
	}
	return int64(v>>1) ^ -int64(v&1) //nolint:gosec // zigzag
}

func (r *recordReader) skip(n int64) {
	if r.err != nil {
		return
	}
	if r.left -= n; n < 0 || r.left < 0 {
		r.fail()
		return
	}
	for n > 0 && r.err == nil {
		m, err := r.src.Discard(int(min(n, 1<<20)))
		if n -= int64(m); errors.Is(err, io.EOF) {
			err = errShape
		}
		r.err = err
	}
}

func (r *recordReader) skipBytes(none bool) {
	switch n := r.varint(); {
	case r.err != nil || n == -1 && none:
	case n < 0:
		r.fail()
	default:
		r.skip(n)
	}
}
