package blockstore

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/rlp"

	"github.com/bornode/bornode/block"
)

// Layouts of records and index entries are those of package block, which readers in other processes share. The header of
// a segment, integers big-endian (docs/storage.md has the same tables):
//
//	magic 8 | segment u32 | zero u32 | first height u64 | zero u32 | crc32c u32 of the 28 bytes before
const (
	segmentKind        = "BORNSEG" // begins the magic of every form
	segmentMagic       = segmentKind + "3"
	segmentHeaderBytes = block.SegmentHeaderBytes
	recordHeaderBytes  = block.RecordHeaderBytes
	recordHeadBytes    = block.RecordHeadBytes
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// IndexEntry is one entry of the height index.
type IndexEntry = block.IndexEntry

func encodeSegmentHeader(number uint32, first uint64) []byte {
	b := make([]byte, 0, segmentHeaderBytes)
	b = append(b, segmentMagic...)
	b = binary.BigEndian.AppendUint32(b, number)
	b = append(b, 0, 0, 0, 0)
	b = binary.BigEndian.AppendUint64(b, first)
	b = append(b, 0, 0, 0, 0)
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// isOfAnotherForm reports whether a segment's header is a sound one of another form than this program's. The checksum tells
// it from a damaged one.
func isOfAnotherForm(b []byte) bool {
	const sum = segmentHeaderBytes - 4
	return len(b) == segmentHeaderBytes && bytes.HasPrefix(b, []byte(segmentKind)) && !bytes.HasPrefix(b, []byte(segmentMagic)) &&
		binary.BigEndian.Uint32(b[sum:]) == crc32.Checksum(b[:sum], castagnoli)
}

func checkSegmentHeader(b []byte, number uint32, first uint64) error {
	if !bytes.Equal(b, encodeSegmentHeader(number, first)) {
		return fmt.Errorf("segment %d has a damaged header", number)
	}
	return nil
}

func recordOf(height uint64, hash common.Hash, payload []byte) []byte {
	rec := make([]byte, recordHeaderBytes+len(payload))
	copy(rec[recordHeaderBytes:], payload)
	block.SealRecord(rec, height, hash)
	return rec
}

// encodeRecord encodes a block as a record in one buffer.
func encodeRecord(b *block.Block) ([]byte, error) {
	if raw := b.Received(); raw != nil && len(raw) <= maxPayloadBytes {
		return recordOf(b.Number(), b.Hash(), raw), nil
	}
	buf := bytes.NewBuffer(make([]byte, recordHeaderBytes, recordHeaderBytes+1024+160*len(b.Transactions)))
	if err := rlp.Encode(buf, b); err != nil {
		return nil, fmt.Errorf("encode %v: %w", b, err)
	}
	rec := buf.Bytes()
	if n := len(rec) - recordHeaderBytes; n > maxPayloadBytes {
		return nil, fmt.Errorf("%v has %d bytes, %d allowed", b, n, maxPayloadBytes)
	}
	block.SealRecord(rec, b.Number(), b.Hash())
	return rec, nil
}
