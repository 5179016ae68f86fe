package rpc

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"os"
	"slices"
	"sync"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
)

// Layout of the log index (all numbers little endian). The file begins with magic, a random salt and their CRC; then
// come sections of logSection consecutive final blocks: header, table, buckets. A bucket holds, for each fingerprint
// that falls into it in rising order, the fingerprint (4 bytes), the count of blocks and their distances (varints).
// The tail file holds the blocks after the last section, one entry each. Nothing is synced: what a crash leaves behind
// is found by its CRCs and made again.
const (
	logMagic     = "BORLOGS1"
	logHeadBytes = len(logMagic) + 16 + 4
	logSection   = 2048
	logBuckets   = 1024
	sectionHead  = 8 + 32 + 4 + 4 + 4 // section, hash of its last block, bytes of buckets, CRC of the table, CRC of these
	tableBytes   = logBuckets * 8     // end of the bucket, its CRC
	tailHead     = 8 + 32 + 4 + 4     // height, hash, fingerprints, CRC of all
)

// Fingerprints that stand for no value.
const (
	printWild = 0 // the block has too many values: it may match anything
	printAny  = 1 // the block has logs
	prints    = 2
)

var (
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
	errDamaged = errors.New("the log index is damaged")
)

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

// logFile says which final blocks may hold a value (an address or a topic), exact but for collisions of 32 bits. One
// goroutine adds blocks, many read.
type logFile struct {
	f, tail *os.File
	salt    [16]byte

	mu       sync.RWMutex
	sections map[uint64]int64 // where they begin in f
	end      int64
	next     uint64     // height to add
	recent   [][]uint32 // fingerprints of the blocks below next that are in no section, sorted
	broken   int64      // where a damaged section begins; -1
}

// openLogFile opens the index at path, or makes it. canonical tells the hash of a final block: an index of another
// chain is made anew.
func openLogFile(path string, canonical func(uint64) common.Hash) (*logFile, error) {
	x := &logFile{sections: make(map[uint64]int64), broken: -1}
	var err error
	if x.f, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600); err == nil {
		if x.tail, err = os.OpenFile(path+".tail", os.O_RDWR|os.O_CREATE, 0o600); err != nil {
			x.f.Close()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("rpc.log_index: %w", err)
	}
	if !x.readHead() {
		err = x.reset()
	} else if err = x.walk(canonical); err == nil {
		err = x.readTail(canonical)
	}
	if err != nil {
		x.close()
		return nil, fmt.Errorf("rpc.log_index %s: %w; remove the file and it is made again", path, err)
	}
	return x, nil
}

func (x *logFile) close() { _ = errors.Join(x.f.Close(), x.tail.Close()) }

func (x *logFile) readHead() bool {
	b := make([]byte, logHeadBytes)
	if _, err := x.f.ReadAt(b, 0); err != nil || string(b[:len(logMagic)]) != logMagic || crcOf(b[:logHeadBytes-4]) != binary.LittleEndian.Uint32(b[logHeadBytes-4:]) {
		return false
	}
	copy(x.salt[:], b[len(logMagic):])
	x.end = int64(logHeadBytes)
	return true
}

// reset makes an empty index.
func (x *logFile) reset() error {
	_, _ = rand.Read(x.salt[:]) // never fails; nobody can choose values that collide
	b := append([]byte(logMagic), x.salt[:]...)
	b = binary.LittleEndian.AppendUint32(b, crcOf(b))
	clear(x.sections)
	x.end, x.next, x.recent = int64(len(b)), 0, nil
	_, err := x.f.WriteAt(b, 0)
	return errors.Join(err, x.f.Truncate(x.end), x.tail.Truncate(0))
}

// walk finds the sections; what follows the last whole one is cut off.
func (x *logFile) walk(canonical func(uint64) common.Hash) error {
	fi, err := x.f.Stat()
	if err != nil {
		return err
	}
	for b := make([]byte, sectionHead); ; {
		if _, err := x.f.ReadAt(b, x.end); err != nil || crcOf(b[:sectionHead-4]) != binary.LittleEndian.Uint32(b[sectionHead-4:]) {
			break
		}
		section, size := binary.LittleEndian.Uint64(b), int64(sectionHead+tableBytes)+int64(binary.LittleEndian.Uint32(b[40:]))
		if section*logSection < x.next || x.end+size > fi.Size() {
			break
		}
		last := (section+1)*logSection - 1
		if (x.end == int64(logHeadBytes) || x.end+size == fi.Size()) && canonical(last) != common.Hash(b[8:40]) {
			return x.reset()
		}
		x.sections[section] = x.end
		x.end, x.next = x.end+size, last+1
	}
	return x.f.Truncate(x.end)
}

func (x *logFile) readTail(canonical func(uint64) common.Hash) error {
	b, err := io.ReadAll(io.NewSectionReader(x.tail, 0, 1<<40))
	if err != nil {
		return err
	}
	var good int
	var last common.Hash
	if len(b) >= tailHead && binary.LittleEndian.Uint64(b) > x.next && canonical(x.next) != (common.Hash{}) {
		b = nil // the section before it was lost, and its blocks are there
	}
	for rest := b; len(rest) >= tailHead; {
		n := int(binary.LittleEndian.Uint32(rest[40:]))
		size := tailHead + 4*n
		if n > maxLogPrints || len(rest) < size {
			break
		}
		sum := binary.LittleEndian.Uint32(rest[44:])
		clear(rest[44:48])
		height := binary.LittleEndian.Uint64(rest)
		if crcOf(rest[:size]) != sum || height != x.next && len(x.recent) > 0 || height < x.next || height%logSection != uint64(len(x.recent)) {
			break
		}
		ps := make([]uint32, n)
		for i := range ps {
			ps[i] = binary.LittleEndian.Uint32(rest[tailHead+4*i:])
		}
		x.recent, x.next, last = append(x.recent, ps), height+1, common.Hash(rest[8:40])
		rest, good = rest[size:], good+size
	}
	if n := uint64(len(x.recent)); n > 0 && canonical(x.next-1) != last {
		x.next, x.recent, good = x.next-n, nil, 0
	}
	if err := x.tail.Truncate(int64(good)); err != nil {
		return err
	}
	_, err = x.tail.Seek(int64(good), io.SeekStart)
	return err
}

// print is a value's fingerprint.
func (x *logFile) print(v []byte) uint32 {
	h := sha256.Sum256(append(x.salt[:], v...))
	if p := binary.LittleEndian.Uint32(h[:]); p >= prints {
		return p
	}
	return prints
}

// printsOf are the fingerprints of a block's logs, sorted.
func (x *logFile) printsOf(rs types.Receipts) []uint32 {
	set := make(map[uint32]struct{})
	for _, r := range rs {
		for _, l := range r.Logs {
			set[printAny] = struct{}{}
			set[x.print(l.Address[:])] = struct{}{}
			for _, t := range l.Topics {
				set[x.print(t[:])] = struct{}{}
			}
			if len(set) > maxLogPrints {
				return []uint32{printWild, printAny}
			}
		}
	}
	return slices.Sorted(maps.Keys(set))
}

// add takes the next block: final, its height next or the first of a later section.
func (x *logFile) add(height uint64, hash common.Hash, ps []uint32) error {
	b := binary.LittleEndian.AppendUint64(nil, height)
	b = append(b, hash[:]...)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(ps))) //nolint:gosec // bounded by maxLogPrints
	b = append(b, 0, 0, 0, 0)
	for _, p := range ps {
		b = binary.LittleEndian.AppendUint32(b, p)
	}
	binary.LittleEndian.PutUint32(b[44:], crcOf(b))
	if _, err := x.tail.Write(b); err != nil {
		return err
	}
	x.mu.Lock()
	x.recent, x.next = append(x.recent, ps), height+1
	x.mu.Unlock()
	if x.next%logSection != 0 {
		return nil
	}
	return x.seal(height/logSection, hash)
}

// seal writes the recent blocks as a section.
func (x *logFile) seal(section uint64, last common.Hash) error {
	b := encodeSection(section, last, x.recent)
	if _, err := x.f.WriteAt(b, x.end); err != nil {
		return err
	}
	x.mu.Lock()
	x.sections[section] = x.end
	x.end += int64(len(b))
	x.recent = nil
	x.mu.Unlock()
	return x.cutTail()
}

func (x *logFile) cutTail() error {
	err := x.tail.Truncate(0)
	_, seek := x.tail.Seek(0, io.SeekStart)
	return errors.Join(err, seek)
}

// skip leaves out the section that next is in: not all of its blocks can be read.
func (x *logFile) skip() error {
	x.mu.Lock()
	x.next, x.recent = (x.next/logSection+1)*logSection, nil
	x.mu.Unlock()
	return x.cutTail()
}

// repair drops the damaged section and all later ones, so that they are made again.
func (x *logFile) repair() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.broken < 0 {
		return nil
	}
	x.end, x.broken = x.broken, -1
	for s, at := range x.sections {
		if at >= x.end {
			x.next = min(x.next, s*logSection)
			delete(x.sections, s)
		}
	}
	x.recent = nil
	return errors.Join(x.f.Truncate(x.end), x.cutTail())
}

// posting is one block in which a value occurs.
type posting struct {
	print uint32
	block uint16
}

func bucketOf(print uint32) int { return int(print % logBuckets) }

func encodeSection(section uint64, last common.Hash, blocks [][]uint32) []byte {
	var buckets [logBuckets][]posting
	for i, ps := range blocks {
		for _, p := range ps {
			k := bucketOf(p)
			buckets[k] = append(buckets[k], posting{p, uint16(i)}) //nolint:gosec // below logSection
		}
	}
	b := make([]byte, sectionHead+tableBytes)
	for k, ps := range buckets {
		slices.SortStableFunc(ps, func(a, b posting) int { return cmp.Compare(a.print, b.print) })
		from := len(b)
		for len(ps) > 0 {
			n := 1
			for n < len(ps) && ps[n].print == ps[0].print {
				n++
			}
			b = binary.LittleEndian.AppendUint32(b, ps[0].print)
			b = binary.AppendUvarint(b, uint64(n)) //nolint:gosec // a count
			before := uint16(0)
			for _, p := range ps[:n] {
				b = binary.AppendUvarint(b, uint64(p.block-before))
				before = p.block
			}
			ps = ps[n:]
		}
		row := b[sectionHead+8*k:]
		binary.LittleEndian.PutUint32(row, uint32(len(b)-sectionHead-tableBytes)) //nolint:gosec // bounded by blocks and prints
		binary.LittleEndian.PutUint32(row[4:], crcOf(b[from:]))
	}
	binary.LittleEndian.PutUint64(b, section)
	copy(b[8:], last[:])
	binary.LittleEndian.PutUint32(b[40:], uint32(len(b)-sectionHead-tableBytes)) //nolint:gosec // likewise
	binary.LittleEndian.PutUint32(b[44:], crcOf(b[sectionHead:sectionHead+tableBytes]))
	binary.LittleEndian.PutUint32(b[48:], crcOf(b[:48]))
	return b
}

// decodeBucket calls f with every fingerprint and its blocks; false if the bytes are no bucket.
func decodeBucket(b []byte, f func(print uint32, blocks *blockSet)) bool {
	for len(b) > 0 {
		if len(b) < 4 {
			return false
		}
		print := binary.LittleEndian.Uint32(b)
		b = b[4:]
		n, k := binary.Uvarint(b)
		if k <= 0 || n > logSection {
			return false
		}
		b = b[k:]
		var set blockSet
		var at uint64
		for range n {
			d, k := binary.Uvarint(b)
			if k <= 0 || d >= logSection || at+d >= logSection {
				return false
			}
			b, at = b[k:], at+d
			set.add(int(at)) //nolint:gosec // below logSection
		}
		f(print, &set)
	}
	return true
}

// lookup is the blocks of a section for each of the fingerprints, and how many blocks of the section are indexed.
func (x *logFile) lookup(section uint64, wanted []uint32) (map[uint32]*blockSet, int, error) {
	found := make(map[uint32]*blockSet, len(wanted))
	for _, p := range wanted {
		found[p] = new(blockSet)
	}
	x.mu.RLock()
	at, ok := x.sections[section]
	if !ok && len(x.recent) > 0 && (x.next-1)/logSection == section {
		for i, ps := range x.recent {
			for _, p := range wanted {
				if _, ok := slices.BinarySearch(ps, p); ok {
					found[p].add(i)
				}
			}
		}
		covered := len(x.recent)
		x.mu.RUnlock()
		return found, covered, nil
	}
	x.mu.RUnlock()
	if !ok {
		return nil, 0, nil
	}
	if err := x.readSection(section, at, found); err != nil {
		x.mu.Lock()
		if x.broken < 0 || at < x.broken {
			x.broken = at
		}
		x.mu.Unlock()
		return nil, 0, err
	}
	return found, logSection, nil
}

func (x *logFile) readSection(section uint64, at int64, found map[uint32]*blockSet) error {
	head := make([]byte, sectionHead+tableBytes)
	if _, err := x.f.ReadAt(head, at); err != nil {
		return err
	}
	table := head[sectionHead:]
	if binary.LittleEndian.Uint64(head) != section || crcOf(table) != binary.LittleEndian.Uint32(head[44:]) {
		return errDamaged
	}
	read := make(map[int]bool)
	var buf bytes.Buffer
	for p := range found {
		k := bucketOf(p)
		if read[k] {
			continue
		}
		read[k] = true
		var from uint32
		if k > 0 {
			from = binary.LittleEndian.Uint32(table[8*(k-1):])
		}
		to, sum := binary.LittleEndian.Uint32(table[8*k:]), binary.LittleEndian.Uint32(table[8*k+4:])
		buf.Reset()
		if to < from {
			return errDamaged
		}
		_, err := buf.ReadFrom(io.NewSectionReader(x.f, at+int64(len(head))+int64(from), int64(to-from)))
		if err != nil {
			return err
		}
		if crcOf(buf.Bytes()) != sum || !decodeBucket(buf.Bytes(), func(p uint32, blocks *blockSet) {
			if set := found[p]; set != nil {
				set.or(blocks)
			}
		}) {
			return errDamaged
		}
	}
	return nil
}

// height is the next block to add.
func (x *logFile) height() uint64 {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.next
}
