package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/bornode/bornode/pubsub/batch"
)

// A segment begins with a header, integers big-endian:
//
//	magic 8 | number u32 | salt u32 | zero 12 | crc32c u32 of the 28 bytes before
//
// and goes on with records:
//
//	crc32c u32 | payload length u32 | position u32 | durable u32 | partition u32 | kind u8 | appended u24 | payload
//
// The checksum starts from the segment's salt, which no client knows, so that no payload can be made to look like
// records. It covers the record's header and payload, of a batch only the batch's header: the batch's own checksum covers
// its rest. Position is the record's place in the file; durable is how far the segment was synced at that time. Appended is
// when this broker appended a batch first (see age.go), zero in other records.
const (
	segmentMagic       = "BORNTOP1"
	segmentHeaderBytes = 32
	recordHeaderBytes  = 24
)

type kind uint8

const (
	kindBatch     kind = 1 + iota
	kindMoved          // a batch that was copied forward from an older segment
	kindCreate         // topic 32, partition i32, retention bytes i64, age ns i64
	kindDelete         // nothing
	kindPromise        // epoch i32
	kindEnter          // epoch i32
	kindTruncate       // end i64, then of producers that lose all that is remembered what they had sent before: see encodeTruncate
	kindStart          // start i64
	kindReset          // start = end i64
	kindCommitted      // offset i64
	kindEnd            // nothing: the segment is full, the next one follows
	kindSynced         // nothing: written when all before it is durable and nothing comes
	kindLost           // as kindTruncate: what is behind the new end is damaged, and the log is not whole any more
	kinds
)

// payloadBytes is the exact length of a payload; -1: see goodLength.
var payloadBytes = [kinds]int{kindBatch: -1, kindMoved: -1, kindCreate: 52, kindPromise: 4, kindEnter: 4, kindTruncate: -1,
	kindStart: 8, kindReset: 8, kindCommitted: 8, kindLost: -1}

var (
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
	be         = binary.BigEndian
)

var errRecord = errors.New("not a record")

func encodeSegmentHeader(number, salt uint32) []byte {
	b := make([]byte, segmentHeaderBytes)
	copy(b, segmentMagic)
	be.PutUint32(b[8:], number)
	be.PutUint32(b[12:], salt)
	be.PutUint32(b[28:], crc32.Checksum(b[:28], castagnoli))
	return b
}

func decodeSegmentHeader(b []byte, number uint32) (salt uint32, err error) {
	if len(b) < segmentHeaderBytes || string(b[:8]) != segmentMagic || be.Uint32(b[28:]) != crc32.Checksum(b[:28], castagnoli) {
		return 0, errors.New("the header of the segment is not readable")
	}
	if n := be.Uint32(b[8:]); n != number {
		return 0, fmt.Errorf("the header says segment %d", n)
	}
	return be.Uint32(b[12:]), nil
}

// record is a decoded record; payload aliases the buffer.
type record struct {
	kind      kind
	number    uint32 // of the partition
	pos       uint32
	durable   uint32
	step      uint32 // of batches: when it was appended, 0: not known
	appended  int64  // ms; the same for replays, never unknown
	payload   []byte
	header    batch.Header // of batches
	recordLen int
}

func isBatch(k kind) bool { return k == kindBatch || k == kindMoved }

// checked is the part of a payload that the record's checksum covers.
func checked(k kind, payload []byte) []byte {
	if isBatch(k) && len(payload) > batch.HeaderBytes {
		return payload[:batch.HeaderBytes]
	}
	return payload
}

// putRecord appends a record to dst.
func putRecord(dst []byte, salt, pos, durable, number uint32, k kind, step uint32, payload []byte) []byte {
	at := len(dst)
	dst = append(dst, make([]byte, recordHeaderBytes)...)
	h := dst[at:]
	be.PutUint32(h[4:], uint32(len(payload))) //nolint:gosec // bounded by maxPayloadBytes
	be.PutUint32(h[8:], pos)
	be.PutUint32(h[12:], durable)
	be.PutUint32(h[16:], number)
	be.PutUint32(h[20:], uint32(k)<<24|step)
	be.PutUint32(h, recordSum(salt, h, checked(k, payload)))
	return append(dst, payload...)
}

func recordSum(salt uint32, header, covered []byte) uint32 {
	return crc32.Update(crc32.Update(salt, castagnoli, header[4:recordHeaderBytes]), castagnoli, covered)
}

// recordSize is the length of the record that begins b, from its header alone, as far as that can be true.
func recordSize(b []byte, pos uint32) (int, error) {
	if len(b) < recordHeaderBytes {
		return 0, fmt.Errorf("%w: %d bytes", errRecord, len(b))
	}
	n, k := be.Uint32(b[4:]), kind(b[20])
	switch {
	case k == 0 || k >= kinds || !isBatch(k) && stepIn(b) != 0:
		return 0, fmt.Errorf("%w: kind %d", errRecord, k)
	case be.Uint32(b[8:]) != pos:
		return 0, fmt.Errorf("%w: it says position %d", errRecord, be.Uint32(b[8:]))
	case !goodLength(k, n):
		return 0, fmt.Errorf("%w: %d bytes of kind %d", errRecord, n, k)
	}
	return recordHeaderBytes + int(n), nil
}

// stepIn is the step in the header of a record.
func stepIn(header []byte) uint32 { return be.Uint32(header[20:]) & maxAppendStep }

func goodLength(k kind, n uint32) bool {
	switch {
	case isBatch(k):
		return n >= batch.HeaderBytes && n <= maxPayloadBytes
	case k == kindTruncate, k == kindLost:
		return n >= truncateBytes && n <= truncateBytes+maxRebuildHeads*sentBytes && (n-truncateBytes)%sentBytes == 0
	}
	return int(n) == payloadBytes[k]
}

// decodeRecord reads the record that begins b and stands at pos of a segment. Every checksum is verified.
func decodeRecord(b []byte, salt, pos uint32) (r record, err error) {
	size, err := recordSize(b, pos)
	if err != nil {
		return r, err
	}
	if len(b) < size {
		return r, fmt.Errorf("%w: %d of %d bytes", errRecord, len(b), size)
	}
	r = record{kind: kind(b[20]), number: be.Uint32(b[16:]), pos: pos, durable: be.Uint32(b[12:]), step: stepIn(b),
		payload: b[recordHeaderBytes:size:size], recordLen: size}
	if sum := recordSum(salt, b, checked(r.kind, r.payload)); sum != be.Uint32(b) {
		return r, fmt.Errorf("%w: checksum %08x, the record says %08x", errRecord, sum, be.Uint32(b))
	}
	if !isBatch(r.kind) {
		return r, nil
	}
	h, n, err := batch.Parse(r.payload)
	if err == nil && n != len(r.payload) {
		err = fmt.Errorf("%w: a batch of %d bytes in a payload of %d", errRecord, n, len(r.payload))
	}
	r.header = h
	return r, err
}

func i64(v int64) []byte { return be.AppendUint64(nil, uint64(v)) } //nolint:gosec // two's complement, read back the same way

func i32(v int32) []byte { return be.AppendUint32(nil, uint32(v)) } //nolint:gosec // as above

func toI64(b []byte) int64 { return int64(be.Uint64(b)) } //nolint:gosec // as above

func toI32(b []byte) int32 { return int32(be.Uint32(b)) } //nolint:gosec // as above
