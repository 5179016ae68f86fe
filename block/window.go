package block

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/ethereum/go-ethereum/common"
)

// The forms in which irreversible blocks lie in segment files and in the height index (docs/storage.md), and the
// directory page in front of them (docs/wire-sync.md, "One-sided pull"): a store writes them, and a peer that reads
// them one-sidedly decodes them. Integers are big-endian, checksums CRC-32C.
//
//	record:         payload length u32 | crc32c u32 of all else in the record | height u64 | hash 32 | payload
//	index entry:    height u64 | hash 32 | segment u32 | payload length u32 | offset of the record u64 |
//	                generation u32 | crc32c u32 of the 60 bytes before
//	directory page: magic 8 | epoch u64 | sequence u64 | first height u64 | next height u64 | generation u32 |
//	                segments u32 | newest segment u32 | zero u32 | index base u64 | bytes of the newest segment u64 |
//	                zero u32 | crc32c u32 of the 76 bytes before | zeros
const (
	// RecordHeaderBytes is what a record has in front of the encoded block.
	RecordHeaderBytes = 48
	// IndexEntryBytes is the size of one entry of the height index.
	IndexEntryBytes = 64
	// IndexFileEntries is how many heights one index file covers.
	IndexFileEntries = 1 << 16
	// SegmentHeaderBytes is what a segment has in front of its first record.
	SegmentHeaderBytes = 32
	// MaxSegmentBytes is the largest size at which a segment is sealed. One record may lie beyond it.
	MaxSegmentBytes = 1 << 30

	// DirectoryPageBytes is the size of the directory page, DirectoryBytes the part of it that is used.
	DirectoryPageBytes = 4096
	DirectoryBytes     = 80

	directoryMagic = "BORNWIN1"
)

// Areas of the window that a node serves: the directory page, segment file n at n (they count from 1), and index file
// n, which holds the heights from n*IndexFileEntries on, at AreaIndex + n.
const (
	AreaDirectory uint32 = 0
	AreaIndex     uint32 = 1 << 31
)

// IndexArea is where the index entry of a height lies.
func IndexArea(height uint64) (area uint32, offset int64) {
	return AreaIndex + uint32(height/IndexFileEntries), int64(height%IndexFileEntries) * IndexEntryBytes //nolint:gosec // heights are below 2^47
}

// ErrChecksum says that bytes are not the ones that were written: damaged, or changed while they were read.
var ErrChecksum = errors.New("checksum is wrong")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// IndexEntry is one entry of the height index: where the record of an irreversible block lies.
type IndexEntry struct {
	Height     uint64
	Hash       common.Hash
	Segment    uint32 // number of the segment file
	Length     uint32 // of the encoded block; the record is RecordHeaderBytes longer
	Offset     uint64 // of the record in the segment file
	Generation uint32 // of the store when the entry was written; pruning raises it
}

// End is the offset behind the record.
func (e *IndexEntry) End() int64 { return int64(e.Offset) + RecordHeaderBytes + int64(e.Length) } //nolint:gosec // checked by decode

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

// DecodeIndexEntry reads one entry of exactly IndexEntryBytes and checks its checksum (ErrChecksum) and bounds.
func DecodeIndexEntry(b []byte) (IndexEntry, error) {
	if len(b) != IndexEntryBytes {
		return IndexEntry{}, fmt.Errorf("%w: index entry of %d bytes, %d expected", ErrDecode, len(b), IndexEntryBytes)
	}
	if crc32.Checksum(b[:60], castagnoli) != binary.BigEndian.Uint32(b[60:]) {
		return IndexEntry{}, fmt.Errorf("index entry: %w", ErrChecksum)
	}
	e := IndexEntry{
		Height:     binary.BigEndian.Uint64(b),
		Segment:    binary.BigEndian.Uint32(b[40:]),
		Length:     binary.BigEndian.Uint32(b[44:]),
		Offset:     binary.BigEndian.Uint64(b[48:]),
		Generation: binary.BigEndian.Uint32(b[56:]),
	}
	copy(e.Hash[:], b[8:40])
	if e.Segment == 0 || e.Segment >= AreaIndex || e.Length == 0 || e.Length > MaxBlockBytes || e.Offset < SegmentHeaderBytes || e.Offset > 2*MaxSegmentBytes {
		return IndexEntry{}, fmt.Errorf("%w: index entry of block %d points to segment %d, offset %d, length %d", ErrDecode, e.Height, e.Segment, e.Offset, e.Length)
	}
	return e, nil
}

// RecordHeader is the head of a record in a segment.
type RecordHeader struct {
	Length   uint32 // of the encoded block behind it
	Checksum uint32
	Height   uint64
	Hash     common.Hash
}

// DecodeRecordHeader reads the first RecordHeaderBytes of a record; only the length is checked here.
func DecodeRecordHeader(b []byte) (RecordHeader, error) {
	if len(b) < RecordHeaderBytes {
		return RecordHeader{}, fmt.Errorf("%w: record header of %d bytes", ErrDecode, len(b))
	}
	h := RecordHeader{Length: binary.BigEndian.Uint32(b), Checksum: binary.BigEndian.Uint32(b[4:]), Height: binary.BigEndian.Uint64(b[8:])}
	copy(h.Hash[:], b[16:48])
	if h.Length == 0 || h.Length > MaxBlockBytes {
		return RecordHeader{}, fmt.Errorf("%w: record of %d bytes, 1 to %d allowed", ErrDecode, h.Length, MaxBlockBytes)
	}
	return h, nil
}

func recordChecksum(rec []byte) uint32 {
	return crc32.Update(crc32.Update(0, castagnoli, rec[:4]), castagnoli, rec[8:])
}

// DecodeRecord checks a whole record, its checksum too (ErrChecksum), and returns the encoded block, which shares
// memory with rec.
func DecodeRecord(rec []byte) (RecordHeader, []byte, error) {
	h, err := DecodeRecordHeader(rec)
	if err != nil {
		return h, nil, err
	}
	if len(rec) != RecordHeaderBytes+int(h.Length) {
		return h, nil, fmt.Errorf("%w: record of %d bytes says %d", ErrDecode, len(rec), RecordHeaderBytes+int(h.Length))
	}
	if recordChecksum(rec) != h.Checksum {
		return h, nil, fmt.Errorf("record of block %d: %w", h.Height, ErrChecksum)
	}
	return h, rec[RecordHeaderBytes:], nil
}

// SealRecord fills in the header of a record whose encoded block is already in place behind it.
func SealRecord(rec []byte, height uint64, hash common.Hash) {
	binary.BigEndian.PutUint32(rec, uint32(len(rec)-RecordHeaderBytes)) //nolint:gosec // bounded by the callers
	binary.BigEndian.PutUint64(rec[8:], height)
	copy(rec[16:48], hash[:])
	binary.BigEndian.PutUint32(rec[4:], recordChecksum(rec))
}

// Directory is what the directory page says of the blocks that a window serves: First..Next-1, all irreversible.
type Directory struct {
	Epoch        uint64 // changes when areas were removed or replaced: nothing kept of them counts any more
	Sequence     uint64 // even; grows by two with every change of the page
	First        uint64
	Next         uint64
	Generation   uint32 // of the store; pruning raises it
	Segments     uint32 // segment files, the newest one included
	Segment      uint32 // number of the newest one
	IndexBase    uint64 // first height of the oldest index file
	SegmentBytes uint64 // of the newest segment that are part of the window
}

// AppendTo appends the page's DirectoryBytes to b.
func (d *Directory) AppendTo(b []byte) []byte {
	start := len(b)
	b = append(b, directoryMagic...)
	b = binary.BigEndian.AppendUint64(b, d.Epoch)
	b = binary.BigEndian.AppendUint64(b, d.Sequence)
	b = binary.BigEndian.AppendUint64(b, d.First)
	b = binary.BigEndian.AppendUint64(b, d.Next)
	b = binary.BigEndian.AppendUint32(b, d.Generation)
	b = binary.BigEndian.AppendUint32(b, d.Segments)
	b = binary.BigEndian.AppendUint32(b, d.Segment)
	b = append(b, 0, 0, 0, 0)
	b = binary.BigEndian.AppendUint64(b, d.IndexBase)
	b = binary.BigEndian.AppendUint64(b, d.SegmentBytes)
	b = append(b, 0, 0, 0, 0)
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b[start:], castagnoli))
}

// DecodeDirectory reads the first DirectoryBytes of a directory page. ErrChecksum: it was being written, read it again.
func DecodeDirectory(b []byte) (Directory, error) {
	if len(b) != DirectoryBytes || !bytes.Equal(b[:8], []byte(directoryMagic)) {
		return Directory{}, fmt.Errorf("%w: not a directory page", ErrDecode)
	}
	d := Directory{
		Epoch:        binary.BigEndian.Uint64(b[8:]),
		Sequence:     binary.BigEndian.Uint64(b[16:]),
		First:        binary.BigEndian.Uint64(b[24:]),
		Next:         binary.BigEndian.Uint64(b[32:]),
		Generation:   binary.BigEndian.Uint32(b[40:]),
		Segments:     binary.BigEndian.Uint32(b[44:]),
		Segment:      binary.BigEndian.Uint32(b[48:]),
		IndexBase:    binary.BigEndian.Uint64(b[56:]),
		SegmentBytes: binary.BigEndian.Uint64(b[64:]),
	}
	if d.Sequence%2 != 0 || crc32.Checksum(b[:76], castagnoli) != binary.BigEndian.Uint32(b[76:]) {
		return Directory{}, fmt.Errorf("directory page: %w", ErrChecksum)
	}
	switch {
	case binary.BigEndian.Uint32(b[52:]) != 0 || binary.BigEndian.Uint32(b[72:]) != 0:
		return Directory{}, fmt.Errorf("%w: directory page with unknown fields", ErrDecode)
	case d.First > d.Next || d.IndexBase > d.First || d.IndexBase%IndexFileEntries != 0 || d.Next > maxWindowHeight:
		return Directory{}, fmt.Errorf("%w: directory page of heights %d to %d, index from %d", ErrDecode, d.First, d.Next, d.IndexBase)
	case d.Segments > d.Segment || d.Segment >= AreaIndex || (d.Segments == 0) != (d.First == d.Next):
		return Directory{}, fmt.Errorf("%w: directory page with %d segments up to number %d", ErrDecode, d.Segments, d.Segment)
	case d.SegmentBytes > 2*MaxSegmentBytes:
		return Directory{}, fmt.Errorf("%w: directory page with a segment of %d bytes", ErrDecode, d.SegmentBytes)
	}
	return d, nil
}

// maxWindowHeight keeps index files within their areas.
const maxWindowHeight = (1 << 31) * IndexFileEntries
