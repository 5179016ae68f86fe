package store

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/bornode/bornode/internal/aside"
	"github.com/bornode/bornode/internal/vfs"
	"github.com/bornode/bornode/pubsub/batch"
)

// several is a disk with three partitions of many segments, closed well, and what they hold. The third was truncated and
// written again under another epoch.
func several(t *testing.T, seed int) (disk, modelState) {
	t.Helper()
	fs := newDisk()
	s := open(t, fs, testConfig())
	require.NoError(t, s.SetMade(40))
	rng := rand.New(rand.NewPCG(uint64(seed), 11)) //nolint:gosec // a test
	for n := range int32(3) {
		p := create(t, s, n)
		_, err := p.Enter(1)
		require.NoError(t, err)
	}
	for i := range 150 {
		n := int32(rng.IntN(3))
		p := s.Partition(id(n))
		epoch := max(p.Promised(), 1)
		add(t, p, epoch, plain(1000*seed+i, 1+rng.IntN(4), 100+rng.IntN(600)))
		if n == 2 && rng.IntN(8) == 0 {
			_, err := p.Truncate(max(p.Committed(), p.End()-int64(rng.IntN(10))))
			require.NoError(t, err)
			_, err = p.Enter(epoch + 1)
			require.NoError(t, err)
		}
		if rng.IntN(10) == 0 {
			p.SetCommitted(p.End())
			s.Tick(time.UnixMilli(0))
		}
	}
	sealed(t, s)
	s.Tick(time.UnixMilli(0))
	synced(t, s)
	want := view(t, s)
	require.NoError(t, s.Close())
	return fs, want
}

// compareDamaged checks a store after damage: a partition has everything or says that its log is not whole, and then it has
// a beginning of what it had, or of what it had been before.
func compareDamaged(t *testing.T, s *Store, want modelState, what string) (lost int) {
	t.Helper()
	_, made := s.Made()
	for n, w := range want {
		p := s.Partition(id(n))
		if p == nil { // nothing is known of it any more
			require.False(t, made, what)
			lost++
			continue
		}
		entered, end := p.Position()
		var got [][]byte
		require.NoError(t, p.Batches(p.Start(), everything, func(_ batch.Header, raw []byte) error {
			got = append(got, bytes.Clone(raw))
			return nil
		}), what)
		if entered >= 0 {
			require.Equal(t, w.entered, entered, "%s: partition %d", what, n)
			require.Equal(t, w.promised, p.Promised(), "%s: partition %d", what, n)
			require.Equal(t, w.end, end, "%s: partition %d", what, n)
			require.Equal(t, w.batches, got, "%s: partition %d", what, n)
			continue
		}
		lost++
		require.True(t, p.Promised() == w.promised || p.Promised() < 0 && !made, "%s: partition %d promised %d, before %d", what, n, p.Promised(), w.promised)
		require.LessOrEqual(t, p.Committed(), end, what)
		// Of one epoch at one offset there is one batch.
		for _, raw := range got {
			h, _, err := batch.Parse(raw)
			require.NoError(t, err)
			for _, x := range w.batches {
				if g, _, _ := batch.Parse(x); g.BaseOffset == h.BaseOffset && g.LeaderEpoch == h.LeaderEpoch {
					require.Equal(t, x, raw, what)
				}
			}
		}
	}
	return lost
}

// kept checks that no file is gone but those that the store makes itself: each is there, or under its second name.
func kept(t *testing.T, before, after disk, what string) {
	t.Helper()
	names, err := after.List(".")
	require.NoError(t, err)
	old, err := before.List(".")
	require.NoError(t, err)
	for _, name := range old {
		seg, isIndex := numberOf(name, indexSuffix)
		if _, ok := numberOf(name, snapSuffix); ok || isIndex && !slices.Contains(old, logName(seg)) || name == closedName || name == reserveName || name == lockName {
			continue
		}
		require.True(t, slices.ContainsFunc(names, func(n string) bool { return n == name || strings.HasPrefix(n, name+".damaged-") }), "%s: %s is gone", what, name)
	}
}

// One bit is turned at many places of every file: the store opens, nothing is served that was not written, a partition that
// lost something says so, no file is lost, and the start after that finds the same.
func TestATurnedBitCostsAPartitionItsCopyAtMost(t *testing.T) {
	for seed := range 3 {
		fs, want := several(t, seed)
		names, err := fs.List(".")
		require.NoError(t, err)
		rng := rand.New(rand.NewPCG(uint64(seed), 12)) //nolint:gosec // a test
		flips, losses := 0, 0
		for _, name := range names {
			for range 10 {
				left := disk{fs.Copy()}
				what := ""
				require.NoError(t, left.Corrupt(name, func(b []byte) []byte {
					if len(b) > 0 {
						at := rng.IntN(len(b))
						b[at] ^= 1 << rng.IntN(8)
						what = fmt.Sprintf("seed %d, %s, byte %d of %d", seed, name, at, len(b))
					}
					return b
				}))
				flips++
				losses += openDamaged(t, left, want, what)
			}
		}
		t.Logf("seed %d: %d flips, %d copies lost", seed, flips, losses)
	}
}

// openDamaged opens a damaged disk three times, and writes to it in between.
func openDamaged(t *testing.T, left disk, want modelState, what string) (lost int) {
	t.Helper()
	before := disk{left.Copy()}
	s, err := Open(testConfig(), left, nil, nil)
	require.NoError(t, err, what)
	lost = compareDamagedOrRead(t, s, want, what)
	kept(t, before, left, what)
	killed := disk{left.Killed()}
	require.NoError(t, s.Close())
	s, err = Open(testConfig(), killed, nil, nil)
	require.NoError(t, err, "%s, again", what)
	require.Equal(t, lost, compareDamagedOrRead(t, s, want, what+", again"))
	for n := range want { // it goes on
		p, err := s.Create(id(n), Retention{})
		require.NoError(t, err)
		add(t, p, 1000, plain(1, 2, 50))
	}
	ends := map[int32]int64{}
	for n := range want {
		ends[n] = s.Partition(id(n)).End()
	}
	require.NoError(t, s.Close())
	s, err = Open(testConfig(), killed, nil, nil)
	require.NoError(t, err, "%s, a third time", what)
	for n := range want {
		require.Equal(t, ends[n], s.Partition(id(n)).End(), what)
	}
	require.NoError(t, s.Close())
	return lost
}

// compareDamagedOrRead is compareDamaged after a read of everything: damage in the middle of full segments and of the places in index
// files is found then.
func compareDamagedOrRead(t *testing.T, s *Store, want modelState, what string) int {
	t.Helper()
	for n := range want {
		if p := s.Partition(id(n)); p != nil {
			for err := readAll(p); err != nil; err = readAll(p) {
				require.True(t, isDamage(err) || gone(err), "%s: %v", what, err)
				_, _, err := p.Mend(err)
				require.NoError(t, err, what)
			}
		}
	}
	return compareDamaged(t, s, want, what)
}

func readAll(p *Partition) error {
	return p.Batches(p.Start(), everything, func(batch.Header, []byte) error { return nil })
}

func TestLostAndShortFilesCostCopiesAtMost(t *testing.T) {
	fs, want := several(t, 7)
	names, err := fs.List(".")
	require.NoError(t, err)
	for _, name := range names {
		left := disk{fs.Copy()}
		left.Lose(name)
		openDamaged(t, left, want, "lost "+name)
		if strings.HasSuffix(name, logSuffix) {
			for _, part := range []int{0, 1, 3} {
				left = disk{fs.Copy()}
				require.NoError(t, left.Corrupt(name, func(b []byte) []byte { return b[:len(b)*part/4] }))
				openDamaged(t, left, want, fmt.Sprint(name, " cut to ", part, "/4"))
			}
		}
	}
}

// A disk that cannot read some pages, however often it is asked.
func TestPagesThatCannotBeReadCostCopiesAtMost(t *testing.T) {
	fs, want := several(t, 8)
	for _, seg := range numbers(t, fs, logSuffix) {
		for page := range int64(4) {
			left := disk{fs.Copy()}
			bad := badPage{left, logName(seg), page * pageBytes}
			what := fmt.Sprintf("segment %d, page %d", seg, page)
			s, err := Open(testConfig(), bad, nil, nil)
			require.NoError(t, err, what)
			kept(t, fs, left, what)
			require.NoError(t, s.Close())
			s = open(t, left, testConfig())
			compareDamaged(t, s, want, what)
			require.NoError(t, s.Close())
		}
	}
}

// A process that has no file descriptors or no memory left finds no damage: the store does not open, and the next start has
// everything.
func TestAProcessThatLacksMemoryFindsNoDamage(t *testing.T) {
	fs, want := several(t, 9)
	names, err := fs.List(".")
	require.NoError(t, err)
	failed := 0
	for _, name := range names {
		for _, lost := range []string{"", indexName(1)} { // an index is rebuilt from its segment
			for _, cause := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM} {
				for _, at := range []int64{-1, 0, pageBytes, 2 * pageBytes} {
					left := disk{fs.Copy()}
					if lost != "" {
						left.Lose(lost)
					}
					s, err := Open(testConfig(), exhausted{left, name, at, cause}, nil, nil)
					if err != nil {
						failed++
						require.ErrorIs(t, err, cause, name)
					} else {
						require.NoError(t, s.Close())
					}
					s = open(t, left, testConfig())
					require.Zero(t, compareDamaged(t, s, want, fmt.Sprint(name, " at ", at, ": ", cause)))
					require.NoError(t, s.Close())
				}
			}
		}
	}
	require.Positive(t, failed)
}

// exhausted is a disk one file of which cannot be opened, or read at a place, for lack of something.
type exhausted struct {
	disk
	name  string
	at    int64 // -1: it cannot be opened
	cause error
}

func (d exhausted) Open(name string, flag int) (vfs.File, error) {
	if name == d.name && d.at < 0 && flag&os.O_CREATE == 0 {
		return nil, d.cause
	}
	f, err := d.disk.Open(name, flag)
	if err != nil || name != d.name || d.at < 0 {
		return f, err
	}
	return exhaustedFile{f, d}, nil
}

type exhaustedFile struct {
	vfs.File
	d exhausted
}

func (f exhaustedFile) ReadAt(p []byte, off int64) (int, error) {
	if off <= f.d.at && off+int64(len(p)) > f.d.at {
		return 0, f.d.cause
	}
	return f.File.ReadAt(p, off)
}

// badPage is a disk with one page of one file that cannot be read.
type badPage struct {
	disk
	name string
	at   int64
}

type badPageFile struct {
	vfs.File
	at int64
}

func (d badPage) Open(name string, flag int) (vfs.File, error) {
	f, err := d.disk.Open(name, flag)
	if err != nil || name != d.name {
		return f, err
	}
	return badPageFile{f, d.at}, nil
}

func (f badPageFile) ReadAt(p []byte, off int64) (int, error) {
	if off < f.at+pageBytes && off+int64(len(p)) > f.at {
		return 0, errIO
	}
	return f.File.ReadAt(p, off)
}

// Only the partition whose batch is damaged loses its copy, whichever bit of the record is turned; the others, and what they
// promised, stay. Made stays known.
func TestADamagedBatchIsOnePartitionsLoss(t *testing.T) {
	fs := newDisk()
	s := open(t, fs, testConfig())
	require.NoError(t, s.SetMade(40))
	p, q := create(t, s, 0), create(t, s, 1)
	add(t, p, 1, plain(1, 1, 100))
	add(t, q, 1, plain(1, 1, 100))
	synced(t, s)
	at := s.wal.end().end()
	add(t, p, 1, plain(2, 1, 100))
	size := s.wal.end().end() - at
	add(t, q, 1, plain(3, 1, 100))
	_, err := q.Promise(9)
	require.NoError(t, err)
	_, err = p.Promise(8)
	require.NoError(t, err)
	want := all(t, q)
	require.NoError(t, s.Close())
	for bit := range 8 * size {
		left := disk{fs.Copy()}
		require.NoError(t, left.Corrupt(logName(1), func(b []byte) []byte { b[at+bit/8] ^= 1 << (bit % 8); return b }))
		core, told := observer.New(zap.WarnLevel)
		s, err := Open(testConfig(), left, zap.New(core), nil)
		require.NoError(t, err)
		require.Equal(t, want, all(t, s.Partition(id(1))))
		require.Equal(t, int32(9), s.Partition(id(1)).Promised())
		require.Equal(t, int32(8), s.Partition(id(0)).Promised())
		require.Equal(t, int64(1), s.Partition(id(0)).End())
		_, made := s.Made()
		require.True(t, made)
		require.Len(t, told.FilterField(zap.Strings("first", []string{id(0).String()})).All(), 1, "bit %d", bit)
		require.NoError(t, s.Close())
	}
}

// A turned bit in a record that is no batch loses nothing.
func TestADamagedPromiseIsReadAllTheSame(t *testing.T) {
	fs := newDisk()
	s := open(t, fs, testConfig())
	p := create(t, s, 0)
	add(t, p, 1, plain(1, 1, 100))
	at := s.wal.end().end()
	_, err := p.Promise(8)
	require.NoError(t, err)
	size := s.wal.end().end() - at
	synced(t, s)
	add(t, p, 8, plain(2, 1, 100))
	synced(t, s)
	want := all(t, p)
	require.NoError(t, s.Close())
	for bit := range 8 * size {
		left := disk{fs.Copy()}
		require.NoError(t, left.Corrupt(logName(1), func(b []byte) []byte { b[at+bit/8] ^= 1 << (bit % 8); return b }))
		s := open(t, left, testConfig())
		require.Equal(t, int32(8), s.Partition(id(0)).Promised())
		require.Equal(t, want, all(t, s.Partition(id(0))))
		require.NoError(t, s.Close())
	}
}

// Where it is not known what is lost, everybody may have promised there: all forget it, and the store knows no more since
// when it is there, before any snapshot says so.
func TestUnknownDamageForgetsWhatWasPromised(t *testing.T) {
	fs := newDisk()
	s := open(t, fs, testConfig())
	require.NoError(t, s.SetMade(40))
	p := create(t, s, 0)
	q := create(t, s, 1)
	add(t, p, 1, plain(1, 1, 100))
	add(t, q, 1, plain(1, 1, 100))
	at := s.wal.end().end()
	_, err := p.Promise(8)
	require.NoError(t, err)
	add(t, q, 1, plain(2, 1, 100))
	synced(t, s)
	add(t, q, 1, plain(3, 1, 100))
	require.NoError(t, s.Close())
	require.NoError(t, fs.Corrupt(logName(1), func(b []byte) []byte { clear(b[at : at+200]); return b }))
	for range 2 {
		s = open(t, disk{fs.Copy()}, testConfig())
		_, made := s.Made()
		require.False(t, made)
		for n := range int32(2) {
			p := s.Partition(id(n))
			entered, end := p.Position()
			require.Equal(t, int32(-1), entered)
			require.Equal(t, int32(-1), p.Promised())
			require.Equal(t, int64(1), end)
		}
		fs = disk{fs.Copy()}
	}
}

// Zeros that begin inside one batch and cover what follows it: the first record is known by its head, and what it hides is
// not overlooked, be it a partition's last batch or its promise.
func TestDamageBehindAnIdentifiedRecordIsNotOverlooked(t *testing.T) {
	fs := newDisk()
	cfg := testConfig()
	s := open(t, fs, cfg)
	require.NoError(t, s.SetMade(40))
	rng := rand.New(rand.NewPCG(3, 13)) //nolint:gosec // a test
	for n := range int32(3) {
		p := create(t, s, n)
		_, err := p.Enter(1)
		require.NoError(t, err)
	}
	var batches []int64 // where the batch records begin
	for i := range 80 {
		n := int32(rng.IntN(3))
		if i > 20 { // the first partition's last batches and promises are in the first half
			n = int32(1 + rng.IntN(2))
		}
		p := s.Partition(id(n))
		if rng.IntN(4) == 0 {
			_, err := p.Promise(max(p.Promised(), 1) + 1)
			require.NoError(t, err)
		} else {
			batches = append(batches, int64(s.wal.end().end()))
			add(t, p, max(p.Promised(), 1), plain(i, 1, 40+rng.IntN(60)))
		}
		synced(t, s)
	}
	require.Less(t, int64(s.wal.end().end()), cfg.SegmentBytes, "all is in the newest segment")
	want := view(t, s)
	killed := disk{fs.Killed()}
	lost := 0
	for _, at := range batches[:len(batches)/2] {
		from := at + recordHeaderBytes + batch.HeaderBytes + 1 + int64(rng.IntN(30))
		for _, length := range []int64{60, 150, 300, 1000, 4096} {
			left := disk{killed.Copy()}
			require.NoError(t, left.Corrupt(logName(1), func(b []byte) []byte { clear(b[from : from+length]); return b }))
			lost += openDamaged(t, left, want, fmt.Sprintf("%d zeros from %d on, in the batch at %d", length, from, at))
		}
	}
	require.Positive(t, lost)
}

// A partition that is created behind damage, and whose own records contradict each other, is not whole either.
func TestAContradictionBehindDamageIsNotOverlooked(t *testing.T) {
	fs := newDisk()
	s := open(t, fs, testConfig())
	p := create(t, s, 0)
	at := s.wal.end().end()
	_, err := p.Promise(8)
	require.NoError(t, err)
	add(t, p, 8, plain(1, 1, 300))
	synced(t, s)
	q := create(t, s, 1)
	_, err = q.Enter(1)
	require.NoError(t, err)
	add(t, q, 1, plain(2, 1, 100))
	raw := plain(3, 1, 100)
	batch.Assign(raw, 7, 1) // offset 1 is the next
	s.wal.mu.Lock()
	s.wal.putBatch(q.number, kindBatch, raw, 1000)
	s.wal.mu.Unlock()
	synced(t, s)
	require.NoError(t, s.Close())
	require.NoError(t, fs.Corrupt(logName(1), func(b []byte) []byte { clear(b[at : at+200]); return b }))
	s = open(t, fs, testConfig())
	entered, end := s.Partition(id(1)).Position()
	require.Equal(t, int32(-1), entered)
	require.Equal(t, int64(1), end)
}

// A damaged segment that nothing needs any more is not removed: it has a second name.
func TestADamagedSegmentIsNeverRemoved(t *testing.T) {
	fs, _ := filled(t)
	fs.Lose(indexName(1))
	require.NoError(t, fs.Corrupt(logName(1), func(b []byte) []byte { b[2000] ^= 1; return b }))
	s := open(t, fs, testConfig())
	require.NoError(t, s.Delete(id(0)))
	p := create(t, s, 1)
	for i := range 100 {
		add(t, p, 0, plain(i, 1, 500))
	}
	tick(t, s, time.Now())
	_, err := fs.Open(logName(1), os.O_RDONLY)
	require.ErrorIs(t, err, os.ErrNotExist)
	names, err := fs.List(".")
	require.NoError(t, err)
	require.True(t, slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, logName(1)+".damaged-") }))
}

// What a partition has behind a damaged place may be the only copy: its segments keep a second name when the cut makes them
// dead, whether a read, a start that rebuilds an index, or a start that reads the records finds the damage.
func TestSegmentsBehindDamageKeepANameAfterTheCut(t *testing.T) {
	for _, how := range []string{"read", "index", "replay"} {
		fs, _ := filled(t)
		if how == "index" {
			fs.Lose(indexName(1))
		}
		if how == "replay" {
			for _, suffix := range []string{snapSuffix, indexSuffix} {
				for _, n := range numbers(t, fs, suffix) {
					fs.Lose(map[string]func(uint32) string{snapSuffix: snapName, indexSuffix: indexName}[suffix](n))
				}
			}
		}
		require.NoError(t, fs.Corrupt(logName(1), func(b []byte) []byte { b[2000] ^= 1; return b }))
		before := numbers(t, fs, logSuffix)
		s := open(t, fs, testConfig())
		p := s.Partition(id(0))
		if err := readAll(p); how == "read" {
			require.Error(t, err)
			lost, _, err := p.Mend(err)
			require.NoError(t, err)
			require.True(t, lost)
		}
		entered, _ := p.Position()
		require.Equal(t, int32(-1), entered, how)
		q := create(t, s, 1)
		for i := range 100 {
			add(t, q, 0, plain(i, 1, 500))
		}
		tick(t, s, time.Now())
		logs := numbers(t, fs, logSuffix)
		require.NotContains(t, logs, uint32(2), "%s: dead segments are removed", how)
		names, err := fs.List(".")
		require.NoError(t, err)
		for _, n := range before {
			require.True(t, slices.ContainsFunc(names, func(x string) bool { return x == logName(n) || strings.HasPrefix(x, logName(n)+".damaged-") }), "%s: segment %d is gone", how, n)
		}
		require.NoError(t, s.Close())
	}
}

// A file that is set aside has its dated name, and that is its own: not the one that a file of an earlier log was given,
// and not one beside its old name. The operating system does not rename between two names of one file.
func TestAsideNamesAreOfTheirFile(t *testing.T) {
	dir := t.TempDir()
	fs := vfs.OS(dir, vfs.Public)
	s := &Store{fs: fs, clock: func() time.Time { return testTime }, log: zap.NewNop()}
	file := logName(1)
	var asides []string
	for n := range 3 {
		contents := fmt.Sprintf("log number %d", n)
		require.NoError(t, vfs.ReplaceFile(fs, file, []byte(contents)))
		require.NoError(t, os.Chtimes(filepath.Join(dir, file), testTime, testTime.Add(time.Duration(n)*time.Second)))
		second := s.setAside(file)
		require.NotContains(t, asides, second)
		require.Equal(t, second, s.setAside(file), "once")
		_, err := aside.KeepMoved(fs, file, aside.All, testTime)
		require.NoError(t, err)
		_, err = fs.Open(file, os.O_RDONLY)
		require.ErrorIs(t, err, os.ErrNotExist)
		b, err := vfs.ReadFile(fs, second, 100)
		require.NoError(t, err)
		require.Equal(t, contents, string(b))
		asides = append(asides, second)
	}
}
