package rpc

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"go.uber.org/zap"

	"github.com/bornode/bornode/internal/format"
	"github.com/bornode/bornode/internal/vfs"
)

// Layout of the log index (all numbers little endian). The file begins with magic, a random salt and their CRC; then
// come sections of logSection consecutive final blocks, in any order (logsection.go). The tail file holds the blocks
// of the section that is being filled, one entry each. Nothing is synced: what a crash leaves behind is found by its
// CRCs, which depend on the salt, and made again.
const (
	logMagic     = "BORLOGS2"
	logHeadBytes = len(logMagic) + 16 + 4
	tailHead     = 8 + 32 + 4 + 4 // height, hash, fingerprints, CRC of all
)

// Fingerprints that stand for no value.
const (
	printWild = 0 // the block has too many values, or could not be read: it may match anything
	printAny  = 1 // the block has logs
	prints    = 2
)

var (
	errDamaged = errors.New("the log index is damaged")
	errFull    = errors.New("the section of the log index is full and not written yet")
	wildPrints = []uint32{printWild, printAny}
)

// logFile says which final blocks may hold a value (an address or a topic), exact but for collisions of 32 bits. One
// goroutine adds blocks, many read.
type logFile struct {
	fs      vfs.FS
	path    string // of the index, as errors and the log name it
	name    string // of the index in fs; the tail's is tailName of it
	f, tail vfs.File
	log     *zap.Logger
	salt    [16]byte
	seed    uint32 // of CRCs: the salt's
	tailEnd int64
	last    common.Hash // of the newest block in recent
	floor   uint64      // sections below are not tried any more

	mu       sync.RWMutex
	sections map[uint64]int64 // where they begin in f
	end      int64
	next     uint64     // height to add
	recent   [][]uint32 // fingerprints of the blocks below next that are in no section, sorted; whole ones of one section
	broken   []uint64   // sections that are damaged
	repairs  int        // that were made: what was read before says nothing
}

func tailName(name string) string { return name + ".tail" }

// openLogFile opens the index with this path, or makes it. fs is the folder that it lies in. canonical tells the hash of a final block: what the index has of
// another chain, or of blocks that this one does not have yet, is dropped.
func openLogFile(fs vfs.FS, path string, canonical func(uint64) common.Hash, log *zap.Logger) (*logFile, error) {
	x := &logFile{fs: fs, path: path, name: filepath.Base(path), log: log, sections: make(map[uint64]int64)}
	err := format.Stamp(fs, filepath.Dir(path), format.LogIndex)
	if err == nil {
		x.f, err = fs.Open(x.name, os.O_RDWR|os.O_CREATE)
	}
	if err == nil {
		if x.tail, err = fs.Open(tailName(x.name), os.O_RDWR|os.O_CREATE); err != nil {
			err = errors.Join(err, x.f.Close())
		}
	}
	if err != nil {
		return nil, fmt.Errorf("rpc.log_index: %w", err)
	}
	if !x.readHead() {
		x.keepDamaged(x.f, x.name, 0)
		x.keepDamaged(x.tail, tailName(x.name), 0)
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
	x.seed, x.end = crcOf(x.salt[:]), int64(logHeadBytes)
	return true
}

// reset makes an empty index.
func (x *logFile) reset() error {
	_, _ = rand.Read(x.salt[:]) // never fails; nobody can choose values that collide
	b := append([]byte(logMagic), x.salt[:]...)
	b = binary.LittleEndian.AppendUint32(b, crcOf(b))
	x.seed, x.end = crcOf(x.salt[:]), int64(len(b))
	err := errors.Join(x.f.Truncate(0), x.cutTail())
	return errors.Join(err, vfs.WriteAll(x.f, b, 0))
}

// walk finds the sections; what follows the last whole one is set aside and cut off. Blocks name their parents: if the newest
// section is of this chain, so are the ones before. Of a section that is there twice the first was damaged.
func (x *logFile) walk(canonical func(uint64) common.Hash) error {
	size, err := x.f.Size()
	if err != nil {
		return err
	}
	lasts := make(map[uint64]common.Hash)
	for b := make([]byte, sectionHead); ; {
		if _, err := x.f.ReadAt(b, x.end); err != nil {
			break // torn, or unreadable: made again
		}
		i, ok := readInfo(b, x.seed)
		if !ok || x.end+i.size() > size {
			break
		}
		x.sections[i.section], lasts[i.section] = x.end, i.last
		x.end += i.size()
	}
	x.keepDamaged(x.f, x.name, x.end)
	newest := slices.Sorted(maps.Keys(lasts))
	slices.Reverse(newest)
	for _, s := range newest {
		at, ok := x.sections[s]
		if ok && canonical((s+1)*logSection-1) == lasts[s] {
			break
		} else if ok {
			x.cut(at)
		}
	}
	x.next = x.lowest()
	return x.f.Truncate(x.end)
}

// cut drops the sections from an offset on; f is truncated by the caller.
func (x *logFile) cut(at int64) {
	x.end = at
	maps.DeleteFunc(x.sections, func(_ uint64, from int64) bool { return from >= at })
}

// lowest is where the lowest section begins that is missing.
func (x *logFile) lowest() uint64 {
	s := x.floor
	for ; ; s++ {
		if _, ok := x.sections[s]; !ok {
			return s * logSection
		}
	}
}

// readTail reads the entries up to the first that is torn, and drops those that are not of this chain. A tail above a
// missing section is kept only if that section's blocks are not. Block 0 is never missing.
func (x *logFile) readTail(canonical func(uint64) common.Hash) error {
	b, err := io.ReadAll(io.NewSectionReader(x.tail, 0, logSection*(tailHead+4*maxLogPrints)))
	if err != nil {
		return err
	}
	if len(b) >= tailHead {
		first := binary.LittleEndian.Uint64(b)
		if _, sealed := x.sections[first/logSection]; sealed || first%logSection != 0 || first > x.next && canonical(max(x.next, 1)) != (common.Hash{}) {
			b = nil
		}
	}
	var ends []int64
	var hashes []common.Hash
	for next := uint64(0); len(x.recent) < logSection; next++ {
		height, hash, ps, size := readEntry(b, x.seed)
		if size == 0 || len(ends) > 0 && height != next {
			break
		}
		next, b, x.tailEnd = height, b[size:], x.tailEnd+int64(size)
		x.recent, ends, hashes = append(x.recent, ps), append(ends, x.tailEnd), append(hashes, hash)
		x.next = height + 1
	}
	if len(b) > 0 && len(x.recent) < logSection {
		x.keepDamaged(x.tail, tailName(x.name), x.tailEnd)
	}
	n := len(x.recent)
	for n > 0 && canonical(x.next-1) != hashes[n-1] {
		n, x.next = n-1, x.next-1
	}
	if x.recent, x.tailEnd = x.recent[:n], 0; n > 0 {
		x.tailEnd, x.last = ends[n-1], hashes[n-1]
	} else {
		x.recent, x.next = nil, x.lowest()
	}
	return x.tail.Truncate(x.tailEnd)
}

// readEntry reads the entry that the tail begins with; size 0: there is none.
func readEntry(b []byte, seed uint32) (height uint64, hash common.Hash, ps []uint32, size int) {
	if len(b) < tailHead {
		return 0, hash, nil, 0
	}
	n := binary.LittleEndian.Uint32(b[40:])
	size = tailHead + 4*int(n)
	if n > maxLogPrints || len(b) < size {
		return 0, hash, nil, 0
	}
	sum := crc32.Update(crc32.Update(seed, castagnoli, b[:44]), castagnoli, b[tailHead:size])
	if sum != binary.LittleEndian.Uint32(b[44:]) {
		return 0, hash, nil, 0
	}
	for i := range n {
		ps = append(ps, binary.LittleEndian.Uint32(b[tailHead+4*i:]))
	}
	return binary.LittleEndian.Uint64(b), common.Hash(b[8:40]), ps, size
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
				return wildPrints
			}
		}
	}
	return slices.Sorted(maps.Keys(set))
}

// full reports that the recent blocks are a section, which seal has to write before more can be added.
func (x *logFile) full() bool { return len(x.recent) == logSection }

// add takes the next block: final, its height next. After an error it may be called again.
func (x *logFile) add(height uint64, hash common.Hash, ps []uint32) error {
	if x.full() {
		return errFull
	}
	b := binary.LittleEndian.AppendUint64(nil, height)
	b = append(b, hash[:]...)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(ps))) //nolint:gosec // bounded by maxLogPrints
	b = append(b, 0, 0, 0, 0)
	for _, p := range ps {
		b = binary.LittleEndian.AppendUint32(b, p)
	}
	binary.LittleEndian.PutUint32(b[44:], crc32.Update(crc32.Update(x.seed, castagnoli, b[:44]), castagnoli, b[tailHead:]))
	if err := vfs.WriteAll(x.tail, b, x.tailEnd); err != nil {
		return err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.recent, x.next, x.last, x.tailEnd = append(x.recent, ps), height+1, hash, x.tailEnd+int64(len(b))
	return nil
}

// seal writes the recent blocks as a section. After an error it may be called again.
func (x *logFile) seal() error {
	section := x.next/logSection - 1
	size, err := writeSection(x.f, x.end, x.seed, section, x.last, x.recent)
	if err != nil {
		return err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.sections[section] = x.end
	x.end += size
	x.recent, x.next = nil, x.lowest()
	return x.cutTail()
}

func (x *logFile) cutTail() error {
	x.tailEnd = 0
	return x.tail.Truncate(0)
}

// skip leaves out what is missing below a height: it cannot be read. The next start tries again.
func (x *logFile) skip(below uint64) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.floor = (below + logSection - 1) / logSection
	x.recent, x.next = nil, x.lowest()
	return x.cutTail()
}

// repair drops the damaged sections, so that they are made again.
func (x *logFile) repair() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.broken) == 0 {
		return nil
	}
	for _, s := range x.broken {
		at := x.sections[s]
		delete(x.sections, s)
		if last := slices.Max(append(slices.Collect(maps.Values(x.sections)), 0)); last < at {
			x.end = at
		}
	}
	x.keepDamaged(x.f, x.name, x.end)
	x.repairs++
	x.broken, x.recent, x.next = nil, nil, x.lowest()
	return errors.Join(x.f.Truncate(x.end), x.cutTail())
}

// lookup is the blocks of a section for each of the fingerprints, and how many blocks of the section are indexed.
func (x *logFile) lookup(section uint64, wanted []uint32) (map[uint32]*blockSet, int, error) {
	found := make(map[uint32]*blockSet, len(wanted))
	for _, p := range wanted {
		found[p] = new(blockSet)
	}
	x.mu.RLock()
	at, ok := x.sections[section]
	recent, first, repairs := x.recent, x.next-uint64(len(x.recent)), x.repairs
	x.mu.RUnlock()
	if !ok {
		if first != section*logSection || len(recent) > logSection {
			return nil, 0, nil
		}
		for i, ps := range recent { // what is there already does not change
			among(ps, found, i)
		}
		return found, len(recent), nil
	}
	if err := x.readSection(section, at, found); err != nil {
		x.damaged(section, repairs)
		return nil, 0, err
	}
	return found, logSection, nil
}

// damaged notes that a section cannot be read; repairs is what it was when the reader found the section.
func (x *logFile) damaged(section uint64, repairs int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.repairs == repairs && !slices.Contains(x.broken, section) {
		x.broken = append(x.broken, section)
	}
}

// among adds block i to those of found that its fingerprints have.
func among(ps []uint32, found map[uint32]*blockSet, i int) {
	if len(ps) < 8*len(found) {
		for _, p := range ps {
			if set := found[p]; set != nil {
				set.add(i)
			}
		}
		return
	}
	for p, set := range found {
		if _, ok := slices.BinarySearch(ps, p); ok {
			set.add(i)
		}
	}
}

func (x *logFile) readSection(section uint64, at int64, found map[uint32]*blockSet) error {
	head := make([]byte, sectionHead+tableBytes)
	if _, err := x.f.ReadAt(head, at); err != nil {
		return err
	}
	table := head[sectionHead:]
	if i, ok := readInfo(head, x.seed); !ok || i.section != section || crcOf(table) != i.table {
		return errDamaged
	}
	read := make(map[uint32]bool)
	var buf bytes.Buffer
	for p := range found {
		k := p % logBuckets
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
		if crcOf(buf.Bytes()) != sum || !decodeBucket(k, buf.Bytes(), func(p uint32, blocks *blockSet) {
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
