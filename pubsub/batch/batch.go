package batch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// ErrCorrupt is wrapped by every error about bytes that are no batch. Kafka's CORRUPT_MESSAGE.
var ErrCorrupt = errors.New("not a record batch")

// Bits of Header.Attributes.
const (
	CodecMask     int16 = 7 // 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd
	AppendTime    int16 = 1 << 3
	Transactional int16 = 1 << 4
	Control       int16 = 1 << 5
)

// Places of fields in an encoded batch.
const (
	atLength     = 8
	atEpoch      = 12
	atMagic      = 16
	atCRC        = 17
	atAttributes = 21
	magic        = 2
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Header is a batch without its records, as encoded.
type Header struct {
	BaseOffset      int64
	LeaderEpoch     int32
	CRC             uint32
	Attributes      int16
	LastOffsetDelta int32
	FirstTimestamp  int64 // ms
	MaxTimestamp    int64 // ms
	ProducerID      int64 // -1: the producer is not idempotent
	ProducerEpoch   int16
	FirstSequence   int32 // -1: none
	Count           int32
}

// NextOffset is the first offset after the batch.
func (h *Header) NextOffset() int64 { return h.BaseOffset + int64(h.LastOffsetDelta) + 1 }

// LastSequence is the sequence number of the last record; they wrap to 0 after the largest int32.
func (h *Header) LastSequence() int32 {
	return int32((int64(h.FirstSequence) + int64(h.LastOffsetDelta)) & 0x7fffffff)
}

// Size is the length of the first batch in b from its length field alone: what a reader needs to cut a stream into
// batches. Errors wrap ErrCorrupt; io is not over with b shorter than the batch.
func Size(b []byte) (int, error) {
	if len(b) < atEpoch {
		return 0, fmt.Errorf("%w: %d bytes", ErrCorrupt, len(b))
	}
	n := int64(int32(binary.BigEndian.Uint32(b[atLength:])))
	if n < HeaderBytes-atEpoch || n > MaxBytes-atEpoch {
		return 0, fmt.Errorf("%w: length %d", ErrCorrupt, n)
	}
	return int(n) + atEpoch, nil
}

// Parse reads the header of the first batch in b and its size in bytes, and checks its checksum and counts. Errors wrap
// ErrCorrupt.
func Parse(b []byte) (Header, int, error) {
	h, size, err := ParseHeader(b)
	if err != nil {
		return h, 0, err
	}
	if len(b) < size {
		return h, 0, fmt.Errorf("%w: %d of %d bytes", ErrCorrupt, len(b), size)
	}
	if sum := crc32.Checksum(b[atAttributes:size], castagnoli); sum != h.CRC {
		return h, 0, fmt.Errorf("%w: checksum %08x, the batch says %08x", ErrCorrupt, sum, h.CRC)
	}
	return h, size, nil
}

// ParseHeader is Parse without the checksum, for batches that were checked before: b needs to hold the header only.
func ParseHeader(b []byte) (h Header, size int, err error) {
	if size, err = Size(b); err != nil {
		return h, 0, err
	}
	if len(b) < HeaderBytes {
		return h, 0, fmt.Errorf("%w: %d bytes", ErrCorrupt, len(b))
	}
	if b[atMagic] != magic {
		return h, 0, fmt.Errorf("%w: message format %d; only format 2 is taken", ErrCorrupt, b[atMagic])
	}
	e := binary.BigEndian
	h = Header{
		BaseOffset: int64(e.Uint64(b)), LeaderEpoch: int32(e.Uint32(b[atEpoch:])), CRC: e.Uint32(b[atCRC:]),
		Attributes: int16(e.Uint16(b[21:])), LastOffsetDelta: int32(e.Uint32(b[23:])),
		FirstTimestamp: int64(e.Uint64(b[27:])), MaxTimestamp: int64(e.Uint64(b[35:])),
		ProducerID: int64(e.Uint64(b[43:])), ProducerEpoch: int16(e.Uint16(b[51:])),
		FirstSequence: int32(e.Uint32(b[53:])), Count: int32(e.Uint32(b[57:])),
	}
	switch {
	case h.Count < 1 || h.Count > MaxRecords:
		return h, 0, fmt.Errorf("%w: %d records", ErrCorrupt, h.Count)
	case h.LastOffsetDelta < h.Count-1 || h.LastOffsetDelta > MaxRecords: // compaction may leave gaps
		return h, 0, fmt.Errorf("%w: last offset delta %d of %d records", ErrCorrupt, h.LastOffsetDelta, h.Count)
	case h.BaseOffset < 0 || h.BaseOffset > 1<<62:
		return h, 0, fmt.Errorf("%w: base offset %d", ErrCorrupt, h.BaseOffset)
	}
	return h, size, nil
}

// Each calls f with every batch of b in order, checked. It stops at the first error, f's or one that wraps ErrCorrupt.
func Each(b []byte, f func(h Header, raw []byte) error) error {
	for len(b) > 0 {
		h, size, err := Parse(b)
		if err != nil {
			return err
		}
		if err := f(h, b[:size:size]); err != nil {
			return err
		}
		b = b[size:]
	}
	return nil
}

// Assign gives a batch its place in the log, in place. raw was parsed before.
func Assign(raw []byte, base int64, epoch int32) {
	binary.BigEndian.PutUint64(raw, uint64(base))
	binary.BigEndian.PutUint32(raw[atEpoch:], uint32(epoch))
}

// Covered is what the checksum of a batch covers: everything that its producer decided.
func Covered(raw []byte) []byte { return raw[atAttributes:] }

// Records is the section of records: compressed, and encrypted, as the producer wrote it.
func Records(raw []byte) []byte { return raw[HeaderBytes:] }

// WithRecords is a new batch with the header of raw and another section of records under the codec (0 to 4), with
// length and checksum made anew.
func WithRecords(raw, records []byte, codec int16) []byte {
	out := make([]byte, 0, HeaderBytes+len(records))
	out = append(append(out, raw[:HeaderBytes]...), records...)
	e := binary.BigEndian
	e.PutUint32(out[atLength:], uint32(len(out)-atEpoch))
	e.PutUint16(out[atAttributes:], e.Uint16(out[atAttributes:])&^uint16(CodecMask)|uint16(codec&CodecMask))
	e.PutUint32(out[atCRC:], crc32.Checksum(out[atAttributes:], castagnoli))
	return out
}

// Encode makes a batch of a header and a section of records that holds h.Count of them. CRC is computed.
func Encode(h Header, records []byte) []byte {
	b := make([]byte, HeaderBytes, HeaderBytes+len(records))
	e := binary.BigEndian
	e.PutUint64(b, uint64(h.BaseOffset))
	e.PutUint32(b[atEpoch:], uint32(h.LeaderEpoch))
	b[atMagic] = magic
	e.PutUint16(b[21:], uint16(h.Attributes))
	e.PutUint32(b[23:], uint32(h.LastOffsetDelta))
	e.PutUint64(b[27:], uint64(h.FirstTimestamp))
	e.PutUint64(b[35:], uint64(h.MaxTimestamp))
	e.PutUint64(b[43:], uint64(h.ProducerID))
	e.PutUint16(b[51:], uint16(h.ProducerEpoch))
	e.PutUint32(b[53:], uint32(h.FirstSequence))
	e.PutUint32(b[57:], uint32(h.Count))
	return WithRecords(append(b, records...), records, h.Attributes&CodecMask)
}
