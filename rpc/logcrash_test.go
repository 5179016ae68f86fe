package rpc

import (
	"bytes"
	"errors"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/bornode/bornode/internal/vfs"
)

// logDir is a chain with an index file, which a test changes as a crash would.
type logDir struct {
	*testing.T
	chain *longChain
	s     *service
	path  string
}

func newLogDir(t *testing.T) *logDir {
	d := &logDir{T: t, chain: &longChain{logs: map[common.Hash]types.Receipts{}}, path: filepath.Join(t.TempDir(), "logs")}
	d.s = queryService(d.chain)
	t.Cleanup(func() { d.s.index.close() })
	return d
}

// grow adds blocks; those whose height 7 divides have a log of address 1, 11 of address 2.
func (d *logDir) grow(n int) {
	for range n {
		var logs []*types.Log
		for a, each := range map[byte]int{1: 7, 2: 11} {
			if len(d.chain.headers)%each == 0 {
				logs = append(logs, &types.Log{Address: common.Address{a}})
			}
		}
		d.chain.grow(logs...)
	}
}

func (d *logDir) open() {
	d.s.index.close()
	d.s.index = newLogIndex(d.s.back.Chain)
	require.NoError(d, d.s.index.open(d.path))
}

func (d *logDir) files() (main, tail []byte) {
	main, err := os.ReadFile(d.path)
	require.NoError(d, err)
	tail, err = os.ReadFile(d.path + ".tail")
	require.NoError(d, err)
	return main, tail
}

func (d *logDir) restore(main, tail []byte) {
	d.s.index.close()
	require.NoError(d, os.WriteFile(d.path, main, 0o600))
	require.NoError(d, os.WriteFile(d.path+".tail", tail, 0o600))
	d.open()
}

// check asks for all logs, as a range and of each section.
func (d *logDir) check(what string) {
	d.Helper()
	for a, each := range map[byte]int{1: 7, 2: 11} {
		logs, err := d.s.getLogs(bg, rangeQuery(0, int64(len(d.chain.headers)-1), []common.Address{{a}}))
		require.NoError(d, err, what)
		require.Len(d, logs, (len(d.chain.headers)+each-1)/each, what)
	}
}

// A section whose blocks are all in the tail, but which is not written, or only in part, is written after the start.
func TestLogIndexStopsWhileSealing(t *testing.T) {
	d := newLogDir(t)
	d.grow(logSection - 1)
	d.open()
	extendAll(t, d.s.index)
	before, tail := d.files()
	d.grow(1)
	h := d.chain.headers[logSection-1]
	x := d.s.index.file
	require.NoError(t, x.add(logSection-1, h.Hash(), x.printsOf(d.chain.logs[h.Hash()])))
	_, full := d.files()
	require.Greater(t, len(full), len(tail))
	d.check("before it is sealed")
	require.ErrorIs(t, x.add(logSection, common.Hash{}, nil), errFull)
	d.grow(30)
	extendAll(t, d.s.index)
	after, _ := d.files()
	r := rand.New(rand.NewPCG(1, 1))
	for i := range 40 {
		d.restore(after[:len(before)+r.IntN(len(after)-len(before)+1)*i/39], full)
		require.EqualValues(t, logSection, d.s.index.file.height())
		d.check("after the start")
		extendAll(t, d.s.index)
		require.EqualValues(t, len(d.chain.headers), d.s.index.file.height())
		d.check("sealed")
		again, _ := d.files()
		require.Equal(t, after, again)
	}
	d.restore(after, full) // the tail was not emptied
	require.EqualValues(t, logSection, d.s.index.file.height())
	d.check("sealed already")
}

// A disk that is full stops the index, not the queries, and not the next start.
func TestLogIndexOnAFullDisk(t *testing.T) {
	d := newLogDir(t)
	d.grow(logSection + 50)
	d.open()
	f := d.s.index.file.f
	full, err := vfs.OS("/dev", vfs.Private).Open("full", os.O_RDWR)
	require.NoError(t, err)
	defer full.Close()
	d.s.index.file.f = full
	for range 3 {
		for more := true; more; {
			more, err = d.s.index.extend()
		}
		require.ErrorContains(t, err, "write the log index")
		require.EqualValues(t, logSection, d.s.index.file.height())
		d.check("the section cannot be written")
	}
	d.s.index.file.f = f
	main, tail := d.files()
	extendAll(t, d.s.index)
	require.EqualValues(t, len(d.chain.headers), d.s.index.file.height(), "there is room again")
	d.check("there is room again")
	d.restore(main, tail)
	d.s.index.file.f.Close()
	d.s.index.file.f = full
	_, err = d.s.index.extend()
	require.Error(t, err, "still full after a start")
	d.check("still full")
}

// However a small index is cut off, padded or changed, it gives right answers at once, and is whole again in the end.
func TestLogIndexCutAnywhere(t *testing.T) {
	if testing.Short() {
		return // takes seconds: for `make test`
	}
	d := newLogDir(t)
	d.grow(logSection + 8)
	d.open()
	extendAll(t, d.s.index)
	main, tail := d.files()
	d.grow(2)
	r := rand.New(rand.NewPCG(2, 2))
	junk := make([]byte, 300)
	for i := range junk {
		junk[i] = byte(r.UintN(256))
	}
	pads := [][]byte{nil, make([]byte, 300), slices.Concat(tail[:100], junk)}
	start := func(what string, cut int, m, tl []byte) {
		d.restore(m, tl)
		x := d.s.index.file
		for section := range uint64(2) { // what it says of its blocks is true
			found, covered, err := x.lookup(section, []uint32{printAny, printWild, x.print(common.Address{1}.Bytes())})
			if errors.Is(err, errDamaged) && what == "index" {
				continue // its bytes are not those of its header: it is made again
			}
			require.NoError(t, err)
			one := found[x.print(common.Address{1}.Bytes())]
			for i := range covered {
				n := int(section)*logSection + i
				if one.has(i) != (n%7 == 0) || found[printAny].has(i) != (n%7 == 0 || n%11 == 0) || found[printWild].has(i) {
					require.Fail(t, "wrong", "%s cut at %d: block %d", what, cut, n)
				}
			}
		}
	}
	for cut := range len(tail) + 1 { // every position of the tail
		for _, pad := range pads {
			start("tail", cut, main, slices.Concat(tail[:cut], pad))
		}
		if cut < len(tail) {
			bad := bytes.Clone(tail)
			bad[cut] ^= 1 << r.IntN(8)
			start("changed tail", cut, main, bad)
		}
		if cut%97 == 0 {
			extendAll(t, d.s.index)
			d.check("after a torn tail")
		}
	}
	heads := len(main) - 60
	for cut := range len(main) + 1 { // of the index all positions of its headers and its end, and some in the table
		if cut > logHeadBytes+sectionHead+20 && cut < heads && cut%101 != 0 {
			continue
		}
		for _, pad := range pads {
			start("index", cut, slices.Concat(main[:cut], pad), tail)
		}
		if cut%40 == 0 {
			extendAll(t, d.s.index)
			d.check("after a torn index")
			require.EqualValues(t, len(d.chain.headers), d.s.index.file.height())
		}
	}
}

// An index that was emptied in part, as when the power fails between its writes, has nothing of its former self.
func TestLogIndexMadeAnewIsEmpty(t *testing.T) {
	d := newLogDir(t)
	d.grow(logSection + 12)
	d.open()
	extendAll(t, d.s.index)
	main, tail := d.files()
	require.NoError(t, d.s.index.file.reset())
	head, _ := d.files()
	d.restore(slices.Concat(head, main[len(head):]), tail)
	require.Zero(t, d.s.index.file.height(), "fingerprints of another salt")
	d.check("made anew")
}

// What the index has above the chain's last final block, or of another branch after a copy was restored, is dropped;
// the rest stays.
func TestLogIndexAheadOfTheChain(t *testing.T) {
	d := newLogDir(t)
	d.grow(2*logSection + 12)
	d.open()
	extendAll(t, d.s.index)
	main, tail := d.files()
	d.chain.headers = d.chain.headers[:2*logSection+5]
	d.restore(main, tail)
	require.EqualValues(t, 2*logSection+5, d.s.index.file.height())
	d.check("entries above the head")
	d.chain.headers = d.chain.headers[:2*logSection-5]
	for range 10 {
		d.chain.grow() // another branch
	}
	d.restore(append(main, 1, 2, 3), tail) // also if torn bytes follow the last section
	require.EqualValues(t, logSection, d.s.index.file.height())
	extendAll(t, d.s.index)
	require.EqualValues(t, len(d.chain.headers), d.s.index.file.height())
	found, covered, err := d.s.index.file.lookup(1, []uint32{printAny})
	require.NoError(t, err)
	require.Equal(t, logSection, covered)
	require.False(t, found[printAny].has(logSection-2), "block %d", 2*logSection-2)
}

// failingChain cannot read some blocks for a while.
type failingChain struct {
	*longChain
	bad   func(n uint64) bool
	tries atomic.Int64
}

func (c *failingChain) HeaderByNumber(n uint64) (*types.Header, error) {
	if c.bad(n) && n%2 == 1 {
		c.tries.Add(1)
		return nil, nil
	}
	return c.longChain.HeaderByNumber(n)
}

func (c *failingChain) Receipts(h common.Hash) (types.Receipts, error) {
	if rs, _ := c.longChain.Receipts(h); len(rs) > 0 && c.bad(rs[0].Logs[0].BlockNumber) {
		c.tries.Add(1)
		return nil, errors.New("input/output error")
	}
	return c.longChain.Receipts(h)
}

// A block that cannot be read for a moment leaves no gap; one that stays unreadable leaves one that is filled later,
// and queries that need it say so.
func TestLogIndexLeavesNoGap(t *testing.T) {
	for _, bad := range []uint64{14, 77} { // receipts, header
		d := newLogDir(t)
		d.grow(2*logSection + 20)
		until := int64(logIndexTries - 1)
		c := &failingChain{longChain: d.chain}
		c.bad = func(n uint64) bool { return n == bad && c.tries.Load() < until }
		d.s.back.Chain = c
		d.open()
		for range logIndexTries {
			extendAll(t, d.s.index)
		}
		x := d.s.index.file
		require.EqualValues(t, len(d.chain.headers), x.height())
		require.Len(t, x.sections, 2)
		found, _, err := x.lookup(0, []uint32{printWild})
		require.NoError(t, err)
		require.Equal(t, blockSet{}, *found[printWild])
		d.check("it came back")

		require.NoError(t, x.reset())
		clear(x.sections)
		until = 1 << 40
		d.open()
		for range 2 * logIndexTries {
			extendAll(t, d.s.index)
		}
		x = d.s.index.file
		require.EqualValues(t, len(d.chain.headers), x.height(), "it goes on above")
		_, err = d.s.getLogs(bg, rangeQuery(0, 3000, []common.Address{{1}}))
		requireCode(t, err, codeServer, "not available")
		logs, err := d.s.getLogs(bg, rangeQuery(78, 3000, []common.Address{{1}}))
		require.NoError(t, err)
		require.Len(t, logs, 3000/7-77/7)

		until = 0
		d.check("it can be read again")
		d.open()
		extendAll(t, d.s.index)
		require.EqualValues(t, len(d.chain.headers), d.s.index.file.height())
		require.Len(t, d.s.index.file.sections, 2, "the next start fills the gap")
		d.check("filled")
		d.open()
		require.EqualValues(t, len(d.chain.headers), d.s.index.file.height())
		d.check("opened again")
	}
}

// A damaged section is made again, the others stay; a reader that saw the index before does not damage it again.
func TestRepairOfTheLogIndex(t *testing.T) {
	d := newLogDir(t)
	d.grow(3*logSection + 12)
	d.open()
	extendAll(t, d.s.index)
	for _, section := range []uint64{1, 2} { // in the middle, and the last
		x := d.s.index.file
		damage := func() {
			b := []byte{0}
			at := x.sections[section] + sectionHead + 5
			_, err := x.f.ReadAt(b, at)
			require.NoError(t, err)
			b[0] ^= 1
			_, err = x.f.WriteAt(b, at)
			require.NoError(t, err)
			for range 2 {
				_, _, err = x.lookup(section, []uint32{printAny})
				require.ErrorIs(t, err, errDamaged)
			}
			d.check("damaged")
		}
		damage()
		others, repairs := maps.Clone(x.sections), x.repairs
		delete(others, section)
		require.NoError(t, x.repair())
		require.Equal(t, others, x.sections, "the others stay")
		x.damaged(section, repairs)
		require.Empty(t, x.broken, "what it read is gone")
		extendAll(t, d.s.index)
		require.EqualValues(t, len(d.chain.headers), x.height())
		for s := range uint64(3) {
			_, covered, err := x.lookup(s, []uint32{printAny})
			require.NoError(t, err)
			require.Equal(t, logSection, covered)
		}
		d.check("repaired")
		damage()
		d.open() // stopped before the repair
		x = d.s.index.file
		d.check("damaged still")
		extendAll(t, d.s.index)
		d.open()
		x = d.s.index.file
		require.EqualValues(t, len(d.chain.headers), x.height())
		require.Len(t, x.sections, 3)
		d.check("opened again")
		_, covered, err := x.lookup(section, []uint32{printAny})
		require.NoError(t, err)
		require.Equal(t, logSection, covered, "the newer one counts")
		end := x.end
		for range 5 {
			damage()
			extendAll(t, d.s.index)
		}
		require.LessOrEqual(t, x.end, 2*end, "the file does not grow with each repair")
	}
}

// What a start or a repair cuts off because it cannot be read is copied before and told; the copies are bounded.
func TestDamagedLogIndexIsSetAside(t *testing.T) {
	d := newLogDir(t)
	d.grow(2*logSection + 12)
	d.open()
	extendAll(t, d.s.index)
	d.s.index.close()
	main, tail := d.files()
	core, logs := observer.New(zap.WarnLevel)
	damaged := func(main, tail []byte) {
		t.Helper()
		d.s.index.close()
		require.NoError(t, os.WriteFile(d.path, main, 0o600))
		require.NoError(t, os.WriteFile(d.path+".tail", tail, 0o600))
		d.s.index = newLogIndex(d.s.back.Chain)
		d.s.index.log = zap.New(core)
		require.NoError(t, d.s.index.open(d.path))
	}
	told := func(want []byte) {
		t.Helper()
		entries := logs.TakeAll()
		require.Len(t, entries, 1)
		kept, err := os.ReadFile(entries[0].ContextMap()["to"].(string))
		require.NoError(t, err)
		require.Equal(t, want, kept)
	}
	damaged(main, tail)
	require.Zero(t, logs.Len())

	damaged(main, tail[:len(tail)-1])
	told(tail[len(tail)-tailHead-4*len(d.s.index.file.printsOf(nil)) : len(tail)-1])
	last := d.s.index.file.sections[1]
	spoiled := bytes.Clone(main)
	spoiled[last] ^= 1
	damaged(spoiled, nil)
	told(spoiled[last:])
	extendAll(t, d.s.index)

	damaged(main, nil)
	x := d.s.index.file
	_, err := x.f.WriteAt([]byte{main[last+sectionHead+5] ^ 1}, last+sectionHead+5)
	require.NoError(t, err)
	_, _, err = x.lookup(1, []uint32{printAny})
	require.ErrorIs(t, err, errDamaged)
	require.NoError(t, x.repair())
	spoiled = bytes.Clone(main)
	spoiled[last+sectionHead+5] ^= 1
	told(spoiled[last:])

	for i := range 2 * maxDamagedIndexes {
		spoiled = bytes.Clone(main)
		spoiled[i] ^= 1
		damaged(spoiled, nil)
		told(spoiled)
	}
	copies, err := filepath.Glob(d.path + ".damaged-*")
	require.NoError(t, err)
	require.Len(t, copies, maxDamagedIndexes)
}

// panicking fails in a way that nobody foresaw.
type panicking struct{ *longChain }

func (panicking) Receipts(common.Hash) (types.Receipts, error) { panic("unforeseen") }

func TestLogQueryThatPanics(t *testing.T) {
	d := newLogDir(t)
	d.grow(50)
	d.s.index = newLogIndex(panicking{d.chain})
	require.NoError(t, d.s.index.open(d.path))
	_, err := d.s.getLogs(bg, rangeQuery(0, 49, nil))
	requireCode(t, err, codeServer, "unforeseen")
	_, err = d.s.index.extend()
	require.ErrorContains(t, err, "unforeseen")
}

// fillBlocks are as many values as a section can hold, none of them twice in a block.
func fillBlocks() [][]uint32 {
	r := rand.New(rand.NewPCG(5, 6))
	blocks := make([][]uint32, logSection)
	for i := range blocks {
		ps := make([]uint32, maxLogPrints)
		for k := range ps {
			ps[k] = r.Uint32()
		}
		slices.Sort(ps)
		blocks[i] = slices.Compact(ps)
	}
	return blocks
}

// Sealing a section that is as full as can be needs little memory and disk, and nothing of it is lost.
func TestSealOfAFullSection(t *testing.T) {
	blocks := fillBlocks()
	f, err := vfs.OS(t.TempDir(), vfs.Private).Open("section", os.O_RDWR|os.O_CREATE)
	require.NoError(t, err)
	x := &logFile{f: f, sections: map[uint64]int64{9: 100}}
	defer f.Close()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	size, err := writeSection(f, 100, 0, 9, common.Hash{1}, blocks)
	require.NoError(t, err)
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(32<<20), "bytes allocated")
	require.Less(t, size, int64(20<<20), "bytes of file")
	wanted := slices.Concat(blocks[0][:300], blocks[1000][700:900], blocks[logSection-1][1800:], []uint32{2, 3, 4, 5})
	found, covered, err := x.lookup(9, wanted)
	require.NoError(t, err)
	require.Equal(t, logSection, covered)
	for p, set := range found {
		for i, ps := range blocks {
			_, in := slices.BinarySearch(ps, p)
			require.Equal(t, in, set.has(i), "%x in block %d", p, i)
		}
	}
}

func BenchmarkSeal(b *testing.B) {
	blocks := fillBlocks()
	f, err := os.Create(filepath.Join(b.TempDir(), "section"))
	require.NoError(b, err)
	defer f.Close()
	b.ReportAllocs()
	for b.Loop() {
		size, err := writeSection(f, 0, 0, 0, common.Hash{}, blocks)
		require.NoError(b, err)
		b.ReportMetric(float64(size)/(1<<20), "file-MiB")
	}
}
