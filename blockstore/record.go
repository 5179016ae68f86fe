package blockstore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/rlp"

	"github.com/bornode/bornode/block"
)

// Layouts on disk; integers are big-endian (docs/storage.md has the same tables).
//
//	segment header: magic 8 | segment u32 | zero u32 | first height u64 | zero u32 | crc32c u32 of the 28 bytes before
//	record:         payload length u32 | crc32c u32 of all else in the record | height u64 | hash 32 | payload
//	index entry:    height u64 | hash 32 | segment u32 | payload length u32 | offset of the record u64 |
//	                generation u32 | crc32c u32 of the 60 bytes before
const (
	segmentMagic       = "BORNSEG1"
	segmentHeaderBytes = 32
	recordHeaderBytes  = 48
	// IndexEntryBytes is the size of one entry of the height index.
	IndexEntryBytes = 64
)

var (
	castagnoli = crc32.MakeTable(crc32.Castagnoli)

	errChecksum = errors.New("checksum is wrong")
)

// IndexEntry is one entry of the height index: where the record of an irreversible block lies.
type IndexEntry struct {
	Height     uint64
	Hash       common.Hash
	Segment    uint32 // number of the segment file
	Length     uint32 // of the encoded block; the record is recordHeaderBytes (48) longer
	Offset     uint64 // of the record in the segment file
	Generation uint32 // of the store when the entry was written; pruning raises it
}

func (e *IndexEntry) end() int64 { return int64(e.Offset) + recordHeaderBytes + int64(e.Length) } //nolint:gosec // checked by decode

// AppendTo appends the entry's 64 bytes to b.
func (e *IndexEntry) AppendTo(b []byte) []byte {
	start := len(b)
	b = binary.BigEndian.AppendUint64(b, e.Height)
	b = append(b, e.Hash[:]...)
	b = binary.BigEndian.AppendUint32(b, e.Segment)
	b = binary.BigEndian.AppendUint32(b, e.Length)
	b = binary.BigEndian.AppendUint64(b, e.Offset)
	b = binary.BigEndian.AppendUint32(b, e.Generation)
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b[start:], castagnoli))
}

// DecodeIndexEntry reads one entry of exactly IndexEntryBytes and checks its checksum and bounds.
func DecodeIndexEntry(b []byte) (IndexEntry, error) {
	if len(b) != IndexEntryBytes {
		return IndexEntry{}, fmt.Errorf("index entry of %d bytes, %d expected", len(b), IndexEntryBytes)
	}
	if crc32.Checksum(b[:60], castagnoli) != binary.BigEndian.Uint32(b[60:]) {
		return IndexEntry{}, fmt.Errorf("index entry: %w", errChecksum)
	}
	e := IndexEntry{
		Height:     binary.BigEndian.Uint64(b),
		Segment:    binary.BigEndian.Uint32(b[40:]),
		Length:     binary.BigEndian.Uint32(b[44:]),
		Offset:     binary.BigEndian.Uint64(b[48:]),
		Generation: binary.BigEndian.Uint32(b[56:]),
	}
	copy(e.Hash[:], b[8:40])
	if e.Segment == 0 || e.Length == 0 || e.Length > maxPayloadBytes || e.Offset < segmentHeaderBytes || e.Offset > 2*maxSegmentBytes {
		return IndexEntry{}, fmt.Errorf("index entry of block %d points to segment %d, offset %d, length %d", e.Height, e.Segment, e.Offset, e.Length)
	}
	return e, nil
}

func encodeSegmentHeader(number uint32, first uint64) []byte {
	b := make([]byte, 0, segmentHeaderBytes)
	b = append(b, segmentMagic...)
	b = binary.BigEndian.AppendUint32(b, number)
	b = append(b, 0, 0, 0, 0)
	b = binary.BigEndian.AppendUint64(b, first)
	b = append(b, 0, 0, 0, 0)
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

func checkSegmentHeader(b []byte, number uint32, first uint64) error {
	if !bytes.Equal(b, encodeSegmentHeader(number, first)) {
		return fmt.Errorf("segment %d has a damaged header", number)
	}
	return nil
}

type recordHeader struct {
	length uint32
	crc    uint32
	height uint64
	hash   common.Hash
}

// decodeRecordHeader reads the first 48 bytes of a record; only the length is checked here.
func decodeRecordHeader(b []byte) (recordHeader, error) {
	if len(b) < recordHeaderBytes {
		return recordHeader{}, fmt.Errorf("record header of %d bytes", len(b))
	}
	h := recordHeader{length: binary.BigEndian.Uint32(b), crc: binary.BigEndian.Uint32(b[4:]), height: binary.BigEndian.Uint64(b[8:])}
	copy(h.hash[:], b[16:48])
	if h.length == 0 || h.length > maxPayloadBytes {
		return recordHeader{}, fmt.Errorf("record of %d bytes, 1 to %d allowed", h.length, maxPayloadBytes)
	}
	return h, nil
}

func recordChecksum(rec []byte) uint32 {
	return crc32.Update(crc32.Update(0, castagnoli, rec[:4]), castagnoli, rec[8:])
}

// decodeRecord checks a whole record and returns its payload, which shares memory with rec.
func decodeRecord(rec []byte) (recordHeader, []byte, error) {
	h, err := decodeRecordHeader(rec)
	if err != nil {
		return h, nil, err
	}
	if len(rec) != recordHeaderBytes+int(h.length) {
		return h, nil, fmt.Errorf("record of %d bytes says %d", len(rec), recordHeaderBytes+int(h.length))
	}
	if recordChecksum(rec) != h.crc {
		return h, nil, fmt.Errorf("record of block %d: %w", h.height, errChecksum)
	}
	return h, rec[recordHeaderBytes:], nil
}

// sealRecord fills in the header of a record whose payload is already in place.
func sealRecord(rec []byte, height uint64, hash common.Hash) {
	binary.BigEndian.PutUint32(rec, uint32(len(rec)-recordHeaderBytes)) //nolint:gosec // bounded by the callers
	binary.BigEndian.PutUint64(rec[8:], height)
	copy(rec[16:48], hash[:])
	binary.BigEndian.PutUint32(rec[4:], recordChecksum(rec))
}

func recordOf(height uint64, hash common.Hash, payload []byte) []byte {
	rec := make([]byte, recordHeaderBytes+len(payload))
	copy(rec[recordHeaderBytes:], payload)
	sealRecord(rec, height, hash)
	return rec
}

// encodeRecord encodes a block as a record in one buffer.
func encodeRecord(b *block.Block) ([]byte, error) {
	buf := bytes.NewBuffer(make([]byte, recordHeaderBytes, recordHeaderBytes+1024+160*len(b.Transactions)))
	if err := rlp.Encode(buf, b); err != nil {
		return nil, fmt.Errorf("encode %v: %w", b, err)
	}
	rec := buf.Bytes()
	if n := len(rec) - recordHeaderBytes; n > maxPayloadBytes {
		return nil, fmt.Errorf("%v has %d bytes, %d allowed", b, n, maxPayloadBytes)
	}
	sealRecord(rec, b.Number(), b.Hash())
	return rec, nil
}

// decodeBlockHeader decodes only the sealed header of an encoded block.
func decodeBlockHeader(payload []byte) (*block.SealedHeader, error) {
	list, _, err := rlp.SplitList(payload)
	if err != nil {
		return nil, fmt.Errorf("%w: block: %w", block.ErrDecode, err)
	}
	_, _, rest, err := rlp.Split(list)
	if err != nil {
		return nil, fmt.Errorf("%w: sealed header: %w", block.ErrDecode, err)
	}
	return block.DecodeSealedHeader(list[:len(list)-len(rest)])
}
