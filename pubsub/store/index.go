package store

import (
	"errors"
	"fmt"
	"hash/crc32"
	"sort"
)

// An index file, integers big-endian:
//
//	magic 8 | segment u32 | segment bytes u32 | runs u32 | entries u32 | crc32c of the directory u32 | crc32c of the 28 bytes before u32
//	directory: per run: partition u32 | first entry u32 | entries u32 | appended u24 | moved u8 | base i64 | next i64 | newest timestamp i64 | bytes i64
//	entries: base i64 | newest timestamp i64 | position u32 | payload bytes u32
//
// Appended is when the broker appended the run's newest batch (see age.go); zero in files from before there was that
// field. The directory is sorted by partition and base. Entries have no checksum: what they point at does.
const (
	indexMagic       = "BORNTIX1"
	indexHeaderBytes = 32
	indexRunBytes    = 48
	indexEntryBytes  = 24
)

// entry is the place of one batch in its segment.
type entry struct {
	base     int64
	maxTs    int64
	appended int64 // ms; 0: read from an index file, where the run has it
	pos      uint32
	size     uint32 // of the payload
}

// run is a stretch of contiguous batches of a partition that lies in one segment. Guarded as the partition's state.
type run struct {
	number     uint32
	seg        uint32
	moved      bool
	base, next int64
	maxTs      int64
	appended   int64 // ms; when the broker appended the newest batch, or later
	bytes      int64
	entries    []entry // nil when sealed; elements never change, a shorter copy has no spare room
	first      uint32  // of the index file's entries, when sealed
	count      uint32
}

func (r *run) sealed() bool { return r.entries == nil }

// sealJob is a full segment with what its index file and snapshot need, all as of its end.
type sealJob struct {
	seg     uint32
	size    uint32
	runs    []sealRun
	flushed bool // the segment is durable

	snap       []byte // guarded by wal.mu until fillSnapshot is done
	parts      uint32 // partitions in snap
	filled     bool   // keeper only
	nextNumber uint32
}

// sealRun is a run as it was when its segment was full.
type sealRun struct {
	run
	live *run
}

func (j *sealJob) sort() {
	sort.Slice(j.runs, func(a, b int) bool {
		if j.runs[a].number != j.runs[b].number {
			return j.runs[a].number < j.runs[b].number
		}
		return j.runs[a].base < j.runs[b].base
	})
	first := uint32(0)
	for i := range j.runs {
		r := &j.runs[i]
		r.first, r.count = first, uint32(len(r.entries)) //nolint:gosec // bounded by maxSegmentRecords
		first += r.count
	}
}

// encode is the contents of the index file. The job was sorted.
func (j *sealJob) encode() []byte {
	n := 0
	for i := range j.runs {
		n += len(j.runs[i].entries)
	}
	b := make([]byte, indexHeaderBytes, indexHeaderBytes+len(j.runs)*indexRunBytes+n*indexEntryBytes)
	for i := range j.runs {
		r := &j.runs[i]
		flags := stepOf(r.appended) << 8
		if r.moved {
			flags |= 1
		}
		b = be.AppendUint32(b, r.number)
		b = be.AppendUint32(b, r.first)
		b = be.AppendUint32(b, r.count)
		b = be.AppendUint32(b, flags)
		b = append(b, i64(r.base)...)
		b = append(b, i64(r.next)...)
		b = append(b, i64(r.maxTs)...)
		b = append(b, i64(r.bytes)...)
	}
	copy(b, indexMagic)
	be.PutUint32(b[8:], j.seg)
	be.PutUint32(b[12:], j.size)
	be.PutUint32(b[16:], uint32(len(j.runs))) //nolint:gosec // bounded by maxSegmentRecords
	be.PutUint32(b[20:], uint32(n))           //nolint:gosec // as above
	be.PutUint32(b[24:], crc32.Checksum(b[indexHeaderBytes:], castagnoli))
	be.PutUint32(b[28:], crc32.Checksum(b[:28], castagnoli))
	for i := range j.runs {
		for _, e := range j.runs[i].entries {
			b = append(b, i64(e.base)...)
			b = append(b, i64(e.maxTs)...)
			b = be.AppendUint32(b, e.pos)
			b = be.AppendUint32(b, e.size)
		}
	}
	return b
}

// indexHeader is the start of an index file.
type indexHeader struct {
	seg, size, runs, entries, sum uint32
}

var errIndex = errors.New("not a readable index file")

func decodeIndexHeader(b []byte, seg uint32) (h indexHeader, err error) {
	if len(b) < indexHeaderBytes || string(b[:8]) != indexMagic || crc32.Checksum(b[:28], castagnoli) != be.Uint32(b[28:]) {
		return h, errIndex
	}
	h = indexHeader{be.Uint32(b[8:]), be.Uint32(b[12:]), be.Uint32(b[16:]), be.Uint32(b[20:]), be.Uint32(b[24:])}
	if h.seg != seg || h.runs > maxSegmentRecords+1 || h.entries > maxSegmentRecords+1 || h.runs > h.entries {
		return h, fmt.Errorf("%w: segment %d, %d runs, %d entries", errIndex, h.seg, h.runs, h.entries)
	}
	return h, nil
}

// decodeDirectory reads the runs of an index file.
func decodeDirectory(h indexHeader, b []byte) ([]*run, error) {
	if len(b) != int(h.runs)*indexRunBytes || crc32.Checksum(b, castagnoli) != h.sum {
		return nil, fmt.Errorf("%w: the directory's checksum is wrong", errIndex)
	}
	runs := make([]*run, 0, h.runs)
	first := uint32(0)
	for ; len(b) > 0; b = b[indexRunBytes:] {
		r := &run{number: be.Uint32(b), seg: h.seg, first: be.Uint32(b[4:]), count: be.Uint32(b[8:]), moved: b[15] == 1,
			appended: millisOf(be.Uint32(b[12:]) >> 8),
			base:     toI64(b[16:]), next: toI64(b[24:]), maxTs: toI64(b[32:]), bytes: toI64(b[40:])}
		if r.first != first || r.count == 0 || r.count > h.entries-first || r.base < 0 || r.next <= r.base || r.bytes < 0 {
			return nil, fmt.Errorf("%w: run of partition %d", errIndex, r.number)
		}
		first += r.count
		runs = append(runs, r)
	}
	if first != h.entries {
		return nil, fmt.Errorf("%w: %d of %d entries belong to a run", errIndex, first, h.entries)
	}
	return runs, nil
}

func decodeEntry(b []byte) entry {
	return entry{base: toI64(b), maxTs: toI64(b[8:]), pos: be.Uint32(b[16:]), size: be.Uint32(b[20:])}
}

// entriesPos is where in an index file the entries begin.
func (h indexHeader) entriesPos() int64 { return indexHeaderBytes + int64(h.runs)*indexRunBytes }

// search is the entry of es that holds offset, the last one whose base is not above it; len(es) > 0 and es[0].base <=
// offset.
func search(es []entry, offset int64) int {
	return sort.Search(len(es), func(i int) bool { return es[i].base > offset }) - 1
}

// entriesFrom gives entries of a run from the one that holds offset, at least one, and the offset behind the last of
// them: all of an open run, a block of a sealed one. r is a copy; its live part is [r.base, r.next) and has offset.
func (s *Store) entriesFrom(r *run, offset int64) (es []entry, next int64, err error) {
	next = r.next
	if !r.sealed() {
		es = r.entries[search(r.entries, offset):]
	} else if es, next, err = s.sealedEntries(r, offset); err != nil {
		return nil, 0, err
	}
	for len(es) > 1 && es[len(es)-1].base >= r.next {
		es = es[:len(es)-1]
	}
	return es, min(next, r.next), nil
}

// sealedEntries reads a block of entries that begins with the one that holds offset.
func (s *Store) sealedEntries(r *run, offset int64) (es []entry, next int64, err error) {
	name := indexName(r.seg)
	at, err := s.indexEntries(r.seg)
	if err != nil {
		return nil, 0, err
	}
	lo, hi := uint32(0), r.count // the entry is in [lo, hi)
	var buf [(indexBlockEntries + 1) * indexEntryBytes]byte
	for hi-lo > indexBlockEntries {
		mid := lo + (hi-lo)/2
		b := buf[:indexEntryBytes]
		if err := s.readAt(name, b, at+int64(r.first+mid)*indexEntryBytes); err != nil {
			return nil, 0, err
		}
		if decodeEntry(b).base <= offset {
			lo = mid
		} else {
			hi = mid
		}
	}
	n := min(r.count-lo, indexBlockEntries+1) // one more tells where the last one ends
	pos := at + int64(r.first+lo)*indexEntryBytes
	if err := s.readAt(name, buf[:n*indexEntryBytes], pos); err != nil {
		return nil, 0, err
	}
	es = make([]entry, n)
	for i := range es {
		es[i] = decodeEntry(buf[i*indexEntryBytes:])
		if i > 0 && es[i].base <= es[i-1].base {
			return nil, 0, s.damagedIndex(name, pos)
		}
	}
	next = r.next
	if lo+n < r.count {
		next, es = es[n-1].base, es[:n-1]
	}
	i := search(es, offset)
	if i < 0 {
		return nil, 0, s.damagedIndex(name, pos)
	}
	return es[i:], next, nil
}

func (s *Store) damagedIndex(name string, pos int64) error {
	return &DamageError{File: name, Pos: pos, Cause: errors.New("the index does not fit its segment"), rebuilt: s.countRebuilds(name)}
}
