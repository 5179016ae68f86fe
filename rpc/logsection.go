package rpc

import (
	"encoding/binary"
	"hash/crc32"
	"io"
	"slices"

	"github.com/ethereum/go-ethereum/common"
)

// Layout of a section: header, table, buckets. A bucket holds the fingerprints that leave its number when divided by
// logBuckets, in rising order: the distance of the quotient from the one before, doubled, odd if the value is in more
// than one block; then, if so, the count of blocks; then their distances (all varints).
const (
	logSection  = 2048
	logBuckets  = 1024
	logPass     = 64                 // buckets that are sorted and written together, so that sealing needs little memory
	sectionHead = 8 + 32 + 4 + 4 + 4 // section, hash of its last block, bytes of buckets, CRC of the table, CRC of these
	tableBytes  = logBuckets * 8     // end of the bucket, its CRC
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func crcOf(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// blockSet is a set of blocks of a section.
type blockSet [logSection / 64]uint64

func (b *blockSet) add(i int)      { b[i/64] |= 1 << (i % 64) }
func (b *blockSet) has(i int) bool { return b[i/64]&(1<<(i%64)) != 0 }
func (b *blockSet) or(o *blockSet) {
	for i := range b {
		b[i] |= o[i]
	}
}

func (b *blockSet) and(o *blockSet) {
	for i := range b {
		b[i] &= o[i]
	}
}

// sectionInfo is a section's header.
type sectionInfo struct {
	section uint64
	last    common.Hash
	buckets uint32 // bytes
	table   uint32 // CRC
}

// bytes has a CRC that no section of a file with another salt has.
func (i *sectionInfo) bytes(seed uint32) []byte {
	b := binary.LittleEndian.AppendUint64(nil, i.section)
	b = append(b, i.last[:]...)
	b = binary.LittleEndian.AppendUint32(b, i.buckets)
	b = binary.LittleEndian.AppendUint32(b, i.table)
	return binary.LittleEndian.AppendUint32(b, crc32.Update(seed, castagnoli, b))
}

func (i *sectionInfo) size() int64 { return sectionHead + tableBytes + int64(i.buckets) }

// readInfo is false if there is no header.
func readInfo(b []byte, seed uint32) (i sectionInfo, ok bool) {
	if len(b) < sectionHead || crc32.Update(seed, castagnoli, b[:sectionHead-4]) != binary.LittleEndian.Uint32(b[sectionHead-4:]) {
		return i, false
	}
	return sectionInfo{
		section: binary.LittleEndian.Uint64(b), last: common.Hash(b[8:40]),
		buckets: binary.LittleEndian.Uint32(b[40:]), table: binary.LittleEndian.Uint32(b[44:]),
	}, true
}

// writeSection writes a section at an offset, its header last, and returns its size.
func writeSection(w io.WriterAt, at int64, seed uint32, section uint64, last common.Hash, blocks [][]uint32) (int64, error) {
	info := sectionInfo{section: section, last: last}
	table := make([]byte, 0, tableBytes)
	var postings [logPass][]uint64 // quotient and block
	var buf []byte
	for first := uint32(0); first < logBuckets; first += logPass {
		for k := range postings {
			postings[k] = postings[k][:0]
		}
		for i, ps := range blocks {
			for _, p := range ps {
				if k := p%logBuckets - first; k < logPass { // also false below first: it wraps around
					postings[k] = append(postings[k], uint64(p/logBuckets)<<16|uint64(i)) //nolint:gosec // below logSection
				}
			}
		}
		buf = buf[:0]
		for _, ps := range postings {
			slices.Sort(ps)
			from := len(buf)
			buf = appendBucket(buf, ps)
			table = binary.LittleEndian.AppendUint32(table, info.buckets+uint32(len(buf))) //nolint:gosec // bounded by blocks and prints
			table = binary.LittleEndian.AppendUint32(table, crcOf(buf[from:]))
		}
		if _, err := w.WriteAt(buf, at+info.size()); err != nil {
			return 0, err
		}
		info.buckets += uint32(len(buf)) //nolint:gosec // likewise
	}
	info.table = crcOf(table)
	_, err := w.WriteAt(append(info.bytes(seed), table...), at)
	return info.size(), err
}

// appendBucket appends sorted postings.
func appendBucket(b []byte, ps []uint64) []byte {
	var before uint64
	for len(ps) > 0 {
		q, n := ps[0]>>16, 1
		for n < len(ps) && ps[n]>>16 == q {
			n++
		}
		if n == 1 {
			b = binary.AppendUvarint(b, (q-before)<<1)
		} else {
			b = binary.AppendUvarint(b, (q-before)<<1|1)
			b = binary.AppendUvarint(b, uint64(n)) //nolint:gosec // a count
		}
		var block uint64
		for _, p := range ps[:n] {
			b = binary.AppendUvarint(b, p&0xffff-block)
			block = p & 0xffff
		}
		before, ps = q, ps[n:]
	}
	return b
}

// decodeBucket calls f with every fingerprint of bucket k and its blocks; false if the bytes are no bucket.
func decodeBucket(k uint32, b []byte, f func(print uint32, blocks *blockSet)) bool {
	bad := false
	next := func(below uint64) uint64 {
		v, n := binary.Uvarint(b)
		if n <= 0 || v >= below {
			bad, b = true, nil
			return 0
		}
		b = b[n:]
		return v
	}
	var q uint64
	for len(b) > 0 {
		v, n := next(1<<33), uint64(1)
		if q += v >> 1; v&1 == 1 {
			n = next(logSection + 1)
		}
		if bad || q > (1<<32-1)/logBuckets {
			return false
		}
		var set blockSet
		for at := uint64(0); n > 0; n-- {
			if at += next(logSection); bad || at >= logSection {
				return false
			}
			set.add(int(at)) //nolint:gosec // below logSection
		}
		f(uint32(q)*logBuckets+k, &set) //nolint:gosec // checked above
	}
	return !bad
}
