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
//	record:         payload length u32 | crc32c u32 of (height u64 | hash 32 | payload length u32 | payload) | payload
//	index entry:    hash 32 | segment u32 | payload length u32 | offset of the record u32 |
//	                crc32c u32 of (height u64 | the 44 bytes before)
//
// Height and hash of a record, and the height of an entry, are covered by the checksums without being stored: who reads by the
// index knows them, and who walks through a segment takes them from the block's header. So a sound record or entry in a
// wrong place is found as a damaged one is.
//
//	directory page: magic 8 | epoch u64 | sequence u64 | first height u64 | next height u64 | generation u32 |
//	                segments u32 | newest segment u32 | zero u32 | index base u64 | bytes of the newest segment u64 |
//	                zero u32 | crc32c u32 of the 76 bytes before | zeros
const (
	// RecordHeaderBytes is what a record has in front of the encoded block.
	RecordHeaderBytes = 8
	// RecordHeadBytes are the first bytes of a record that DecodeRecordHead reads: the header, and where the encoding says
	// its length a second time.
	RecordHeadBytes = RecordHeaderBytes + 5
	// IndexEntryBytes is the size of one entry of the height index.
	IndexEntryBytes = 48
	// IndexFileEntries is how many heights one index file covers.
	IndexFileEntries = 1 << 16
	// SegmentHeaderBytes is what a segment has in front of its first record.
	SegmentHeaderBytes = 32
	// MaxSegmentBytes is the largest size at which a segment is sealed. One record may lie beyond it.
	MaxSegmentBytes = 1 << 30

	// DirectoryPageBytes is the size of the directory page, DirectoryBytes the part of it that is used.
	DirectoryPageBytes = 4096
	DirectoryBytes     = 80

	directoryMagic = "BORNWIN2"
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
	Height  uint64
	Hash    common.Hash
	Segment uint32 // number of the segment file
	Length  uint32 // of the encoded block; the record is RecordHeaderBytes longer
	Offset  uint64 // of the record in the segment file; at most 2 * MaxSegmentBytes
}

// End is the offset behind the record.
func (e *IndexEntry) End() int64 { return int64(e.Offset) + RecordHeaderBytes + int64(e.Length) } //nolint:gosec // checked by decode

// AppendTo appends the entry's IndexEntryBytes to b.
func (e *IndexEntry) AppendTo(b []byte) []byte {
	start := len(b)
	b = append(b, e.Hash[:]...)
	b = binary.BigEndian.AppendUint32(b, e.Segment)
	b = binary.BigEndian.AppendUint32(b, e.Length)
	b = binary.BigEndian.AppendUint32(b, uint32(e.Offset)) //nolint:gosec // at most 2 * MaxSegmentBytes
	return binary.BigEndian.AppendUint32(b, entryChecksum(e.Height, b[start:]))
}

func entryChecksum(height uint64, b []byte) uint32 {
	var at [8]byte
	binary.BigEndian.PutUint64(at[:], height)
	return crc32.Update(crc32.Checksum(at[:], castagnoli), castagnoli, b)
}

// DecodeIndexEntry reads the entry of a height of exactly IndexEntryBytes and checks its checksum (ErrChecksum; also for the
// entry of another height) and bounds.
func DecodeIndexEntry(height uint64, b []byte) (IndexEntry, error) {
	const sum = IndexEntryBytes - 4
	if len(b) != IndexEntryBytes {
		return IndexEntry{}, fmt.Errorf("%w: index entry of %d bytes, %d expected", ErrDecode, len(b), IndexEntryBytes)
	}
	if entryChecksum(height, b[:sum]) != binary.BigEndian.Uint32(b[sum:]) {
		return IndexEntry{}, fmt.Errorf("index entry of block %d: %w", height, ErrChecksum)
	}
	e := IndexEntry{
		Height:  height,
		Segment: binary.BigEndian.Uint32(b[32:]),
		Length:  binary.BigEndian.Uint32(b[36:]),
		Offset:  uint64(binary.BigEndian.Uint32(b[40:])),
	}
	copy(e.Hash[:], b[:32])
	if e.Segment == 0 || e.Segment >= AreaIndex || e.Length == 0 || e.Length > MaxBlockBytes || e.Offset < SegmentHeaderBytes || e.Offset > 2*MaxSegmentBytes {
		return IndexEntry{}, fmt.Errorf("%w: index entry of block %d points to segment %d, offset %d, length %d", ErrDecode, e.Height, e.Segment, e.Offset, e.Length)
	}
	return e, nil
}

// RecordOf is what a whole record says of its block.
type RecordOf struct {
	Length uint32 // of the encoding
	Height uint64
	Hash   common.Hash
}

// DecodeRecordHead gives the length of the encoded block in a record of which the first RecordHeadBytes are there. The
// encoding says it a second time, so that the beginning of a record is told from other bytes; its checksum is not looked at.
func DecodeRecordHead(b []byte) (length uint32, err error) {
	if len(b) < RecordHeadBytes {
		return 0, fmt.Errorf("%w: head of a record of %d bytes", ErrDecode, len(b))
	}
	length = binary.BigEndian.Uint32(b)
	if length < RecordHeadBytes-RecordHeaderBytes || length > MaxBlockBytes {
		return 0, fmt.Errorf("%w: record of %d bytes, %d to %d allowed", ErrDecode, length, RecordHeadBytes-RecordHeaderBytes, MaxBlockBytes)
	}
	if n := listBytes(b[RecordHeaderBytes:]); n != uint64(length) {
		return 0, fmt.Errorf("%w: record of %d bytes whose block has %d", ErrDecode, length, n)
	}
	return length, nil
}

// listBytes is the size of the RLP list that b begins with, its header included; 0 for anything else, and for a list of 4 GiB
// or more.
func listBytes(b []byte) uint64 {
	const short, long = 0xc0, 0xf7
	switch n := int(b[0]) - long; {
	case b[0] < short || n > 4:
		return 0
	case n <= 0:
		return 1 + uint64(b[0]-short)
	default:
		size := uint64(0)
		for _, x := range b[1 : 1+n] {
			size = size<<8 | uint64(x)
		}
		return 1 + uint64(n) + size
	}
}

func recordChecksum(rec []byte, height uint64, hash common.Hash) uint32 {
	var known [44]byte
	binary.BigEndian.PutUint64(known[:], height)
	copy(known[8:], hash[:])
	copy(known[40:], rec[:4])
	return crc32.Update(crc32.Checksum(known[:], castagnoli), castagnoli, rec[RecordHeaderBytes:])
}

// CheckRecord checks that the bytes are the whole record of the block with a height and hash, as they were written
// (ErrChecksum), and returns the encoded block, which shares memory with rec. It does not look into the encoding.
func CheckRecord(rec []byte, height uint64, hash common.Hash) ([]byte, error) {
	if len(rec) < RecordHeaderBytes || int64(binary.BigEndian.Uint32(rec)) != int64(len(rec)-RecordHeaderBytes) {
		return nil, fmt.Errorf("%w: record of block %d in %d bytes, which it does not say", ErrDecode, height, len(rec))
	}
	if recordChecksum(rec, height, hash) != binary.BigEndian.Uint32(rec[4:]) {
		return nil, fmt.Errorf("record of block %d: %w", height, ErrChecksum)
	}
	return rec[RecordHeaderBytes:], nil
}

// DecodeRecord checks a whole record of which nothing is known (ErrChecksum, or ErrDecode for bytes that hold no header of a
// block), and returns what it holds and the encoded block, which shares memory with rec. It costs the hash of a header.
func DecodeRecord(rec []byte) (r RecordOf, payload []byte, err error) {
	length, err := DecodeRecordHead(rec)
	if err != nil {
		return r, nil, err
	}
	if len(rec) != RecordHeaderBytes+int(length) {
		return r, nil, fmt.Errorf("%w: record of %d bytes says %d", ErrDecode, len(rec), RecordHeaderBytes+int(length))
	}
	h, err := DecodeBlockHeader(rec[RecordHeaderBytes:])
	if err != nil {
		return r, nil, err
	}
	r = RecordOf{Length: length, Height: h.Number(), Hash: h.Hash()}
	payload, err = CheckRecord(rec, r.Height, r.Hash)
	return r, payload, err
}

// SealRecord fills in the header of a record whose encoded block is already in place behind it.
func SealRecord(rec []byte, height uint64, hash common.Hash) {
	binary.BigEndian.PutUint32(rec, uint32(len(rec)-RecordHeaderBytes)) //nolint:gosec // bounded by the callers
	binary.BigEndian.PutUint32(rec[4:], recordChecksum(rec, height, hash))
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
