package store

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/internal/format"
	"github.com/bornode/bornode/internal/vfs"
)

// unreadable is a disk that does not give some bytes of one file while cause says why.
type unreadable struct {
	disk
	name     string
	from, to int64
	cause    func() error // nil: the bytes are given

	replaced atomic.Bool // the name is another file's now
}

type unreadableFile struct {
	vfs.File
	d *unreadable
}

func (d *unreadable) Open(name string, flag int) (vfs.File, error) {
	f, err := d.disk.Open(name, flag)
	if err != nil || name != d.name || d.replaced.Load() {
		return f, err
	}
	return unreadableFile{f, d}, nil
}

func (d *unreadable) Rename(from, to string) error {
	err := d.disk.Rename(from, to)
	if err == nil && to == d.name {
		d.replaced.Store(true)
	}
	return err
}

func (f unreadableFile) ReadAt(p []byte, off int64) (int, error) {
	if off < f.d.to && off+int64(len(p)) > f.d.from {
		if err := f.d.cause(); err != nil {
			return 0, err
		}
	}
	return f.File.ReadAt(p, off)
}

// badSector makes bytes of a file unreadable from the moment on that on says.
func badSector(fs disk, name string, from, to int64) (d *unreadable, on *atomic.Bool) {
	on = new(atomic.Bool)
	return &unreadable{disk: fs, name: name, from: from, to: to, cause: func() error {
		if on.Load() {
			return syscall.EIO
		}
		return nil
	}}, on
}

// firstTouched is the first offset of every partition whose record in a segment touches bytes of its file.
func firstTouched(t *testing.T, s *Store, seg uint32, from, to int64) map[ID]int64 {
	t.Helper()
	touched := map[ID]int64{}
	for _, id := range s.List() {
		for _, r := range s.Partition(id).runs {
			for at := r.base; r.seg == seg && at < r.next; {
				es, next, err := s.entriesFrom(r, at)
				require.NoError(t, err)
				for _, e := range es {
					end := int64(e.pos+e.size) + recordHeaderBytes
					if _, has := touched[id]; !has && int64(e.pos) < to && end > from {
						touched[id] = max(e.base, r.base)
					}
				}
				at = next
			}
		}
	}
	return touched
}

// damageLog notes what OnDamage is told.
type damageLog struct {
	mu  sync.Mutex
	all map[ID]error
}

func noteDamage(s *Store) *damageLog {
	l := &damageLog{all: map[ID]error{}}
	s.OnDamage(func(id ID, err error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.all[id] = err
	})
	return l
}

func (l *damageLog) take() map[ID]error {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.all
	l.all = map[ID]error{}
	return all
}

// mendWhatIsMet reads with read, and mends what it had told, until nothing is met any more; it gives the partitions that
// were cut.
func mendWhatIsMet(t *testing.T, s *Store, read func()) (met, cut map[ID]bool) {
	t.Helper()
	told := noteDamage(s)
	met, cut = map[ID]bool{}, map[ID]bool{}
	for range 20 {
		read()
		all := told.take()
		if len(all) == 0 {
			return met, cut
		}
		for id, err := range all {
			require.True(t, isDamage(err))
			met[id] = true
			lost, m, err := s.Partition(id).Mend(err)
			require.NoError(t, err)
			if lost {
				cut[id] = true
				require.NoError(t, s.Durable(t.Context(), m))
			}
		}
	}
	require.FailNow(t, "the damage is never mended")
	return nil, nil
}

// A bad sector in a full segment or in its index file, and a file that is lost, are damage for a running store, whether a
// read or the scrub meets it: the owner is told, an index file costs nothing, and of a segment exactly the partitions that
// have records in the bad place are cut there. What was cut is not met again, nor after a restart on the same disk.
func TestAFullSegmentThatCannotBeReadIsDamage(t *testing.T) {
	const seg = 2
	for _, kind := range []struct {
		file     string
		lost     bool
		from, to int64
	}{
		{logName(seg), false, pageBytes, 2 * pageBytes},
		{indexName(seg), false, indexHeaderBytes, 1 << 30},
		{logName(seg), true, 0, 1 << 30},
		{indexName(seg), true, 0, 1 << 30},
	} {
		for _, how := range []string{"read", "scrub"} {
			what := fmt.Sprintf("%s, lost: %v, met by a %s", kind.file, kind.lost, how)
			fs, want := several(t, 1)
			bad, on := badSector(fs, kind.file, kind.from, kind.to)
			s := open(t, bad, testConfig())
			for n := range want {
				require.NoError(t, readAll(s.Partition(id(n))), what)
			}
			touched := firstTouched(t, s, seg, kind.from, kind.to)
			require.NotEmpty(t, touched, what)
			if kind.lost {
				fs.Lose(kind.file)
				s.files.Forget(kind.file) // as others' use of the file handles does
			} else {
				on.Store(true)
			}
			met, cut := mendWhatIsMet(t, s, func() {
				if how == "scrub" {
					scrubAll(t, s)
					return
				}
				for n := range want {
					_ = readAll(s.Partition(id(n)))
				}
			})
			isLog := strings.HasSuffix(kind.file, logSuffix)
			for n, w := range want {
				entered, end := s.Partition(id(n)).Position()
				at, isTouched := touched[id(n)]
				if isLog && isTouched {
					require.True(t, met[id(n)] && cut[id(n)], what)
					require.Equal(t, int32(-1), entered, what)
					require.Equal(t, at, end, what)
					continue
				}
				require.False(t, cut[id(n)], what)
				require.Equal(t, w.entered, entered, what)
				require.Equal(t, w.batches, all(t, s.Partition(id(n))), what)
			}
			names, err := fs.List(".")
			require.NoError(t, err)
			require.Equal(t, !kind.lost, slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, kind.file+".damaged-") }), what)
			require.NoError(t, s.Close())
			s = open(t, bad, testConfig())
			compareDamaged(t, s, want, what)
			problems, _ := scrubAll(t, s)
			require.Zero(t, problems, what)
			require.NoError(t, s.Close())
		}
	}
}

// What passes, what the process lacks, and a folder that is not there as a whole say nothing of what is on the disk.
func TestWhatSaysNothingOfTheDiskIsNoDamage(t *testing.T) {
	fs, want := several(t, 1)
	left := 0
	cause := error(syscall.EIO)
	bad := &unreadable{disk: fs, name: logName(2), to: 1 << 30, cause: func() error {
		if left--; left >= 0 {
			return cause
		}
		return nil
	}}
	s := open(t, bad, testConfig())
	told := noteDamage(s)
	for range 3 { // each time the next read is one that succeeds
		left = readTries - 1
		for n, w := range want {
			require.Equal(t, w.batches, all(t, s.Partition(id(n))))
		}
	}
	require.Empty(t, told.take())
	for _, cause = range []error{syscall.EMFILE, syscall.ENOMEM, syscall.EACCES} {
		left = 1000
		err := readAll(s.Partition(id(0)))
		require.ErrorIs(t, err, cause)
		require.False(t, isDamage(err))
	}
	left = 0
	require.Empty(t, told.take())
	fs.Lose(format.FileName)
	for seg := range uint32(100) {
		fs.Lose(logName(seg))
		s.files.Forget(logName(seg))
	}
	err := readAll(s.Partition(id(0)))
	require.Error(t, err)
	require.False(t, isDamage(err), "the folder was taken away")
	require.Empty(t, told.take())
	require.ErrorIs(t, s.Close(), nil)
	err = readAll(s.Partition(id(0)))
	require.Error(t, err)
	require.False(t, isDamage(err), "the store is closed")
}

// The open segment is read by the same rules. A trouble that has passed cuts nothing; damage cuts at the batch in the bad
// place, and the log goes on in a new segment, so that the next start loses no more than that: not what others have in the
// damaged one, nor what was promised.
func TestAnOpenSegmentThatCannotBeReadIsLeft(t *testing.T) {
	for _, lost := range []bool{false, true} {
		fs := newDisk()
		s := open(t, fs, testConfig())
		require.NoError(t, s.SetMade(40))
		for n := range int32(2) {
			create(t, s, n)
		}
		for i := range 20 { // one partition is in the second page alone, the other in the third
			add(t, s.Partition(id(int32(i)/10)), 1, plain(i, 1, 380))
		}
		_, err := s.Partition(id(1)).Promise(7)
		require.NoError(t, err)
		want := view(t, s)
		require.NoError(t, s.Close())
		bad, on := badSector(fs, logName(1), 2*pageBytes-1000, 2*pageBytes-900)
		if lost {
			bad, on = badSector(fs, "", 0, 0)
		}
		s = open(t, bad, testConfig())
		require.Equal(t, uint32(1), s.wal.seg)
		touched := firstTouched(t, s, 1, bad.from, bad.to)
		on.Store(true)
		if lost {
			fs.Lose(logName(1))
			s.files.Forget(logName(1))
		} else {
			require.Len(t, touched, 1)
			p := s.Partition(id(1))
			err := readAll(p)
			require.True(t, isDamage(err))
			on.Store(false)
			cut, _, mendErr := p.Mend(err)
			require.NoError(t, mendErr)
			require.False(t, cut, "it can be read now")
			on.Store(true)
		}
		_, cut := mendWhatIsMet(t, s, func() {
			for n := range want {
				_ = readAll(s.Partition(id(n)))
			}
		})
		require.Equal(t, uint32(2), s.wal.seg)
		for n, w := range want {
			p := s.Partition(id(n))
			at, isTouched := touched[id(n)]
			require.Equal(t, isTouched || lost, cut[id(n)])
			switch _, end := p.Position(); {
			case lost:
				require.Zero(t, end)
			case isTouched:
				require.Equal(t, at, end)
			default:
				require.Equal(t, w.end, end)
			}
			add(t, p, 7, plain(100, 1, 100))
		}
		sealed(t, s)
		after := view(t, s)
		require.NoError(t, s.Close())
		s = open(t, bad, testConfig())
		require.True(t, after.equal(view(t, s)))
		_, made := s.Made()
		require.True(t, made, "no promise is forgotten")
		require.Equal(t, int32(7), s.Partition(id(1)).Promised())
		require.NoError(t, s.Close())
	}
}

// A truncation looks at the batch where it cuts: if it cannot be read, the owner is told, for the cut would fail for ever.
func TestATruncationTellsOfDamage(t *testing.T) {
	fs, _ := several(t, 1)
	bad, on := badSector(fs, logName(2), pageBytes, 2*pageBytes)
	s := open(t, bad, testConfig())
	touched := firstTouched(t, s, 2, pageBytes, 2*pageBytes)
	on.Store(true)
	told := noteDamage(s)
	for id, at := range touched {
		p := s.Partition(id)
		p.committed.Store(0)
		_, err := p.Truncate(at + 1)
		if err == nil {
			continue // only the end of the batch is in the bad place
		}
		require.True(t, isDamage(err))
		all := told.take()
		require.True(t, isDamage(all[id]))
		lost, _, err := p.Mend(all[id])
		require.NoError(t, err)
		require.True(t, lost)
		_, err = p.Truncate(p.Start())
		require.NoError(t, err)
		return
	}
	require.FailNow(t, "no truncation met the bad place")
}

// A segment whose file is lost, and in which nothing is live any more, is done with.
func TestADeadSegmentWithoutAFileIsForgotten(t *testing.T) {
	fs, want := several(t, 1)
	s := open(t, fs, testConfig())
	fs.Lose(logName(2))
	fs.Lose(indexName(2))
	for n := range want {
		require.NoError(t, s.Delete(id(n)))
	}
	p := create(t, s, 9)
	for i := range 100 {
		add(t, p, 0, plain(i, 1, 500))
	}
	tick(t, s, time.Now())
	s.wal.mu.Lock()
	defer s.wal.mu.Unlock()
	require.NotContains(t, s.segs, uint32(2))
}

// The scanner passes over the records in a bad page, and over nothing else.
func TestAScanPassesOverTheBadPageAlone(t *testing.T) {
	fs, want := several(t, 1)
	for page := range int64(4) {
		bad, on := badSector(fs, logName(2), page*pageBytes, (page+1)*pageBytes)
		s := open(t, bad, testConfig())
		touched := map[ID]int{}
		whole := map[ID]int{}
		for _, id := range s.List() {
			for _, r := range s.Partition(id).runs {
				for at := r.base; r.seg == 2 && at < r.next; {
					es, next, err := s.entriesFrom(r, at)
					require.NoError(t, err)
					for _, e := range es {
						whole[id]++
						if int64(e.pos) < (page+1)*pageBytes && int64(e.pos+e.size)+recordHeaderBytes > page*pageBytes {
							touched[id]++
						}
					}
					at = next
				}
			}
		}
		on.Store(true)
		j, err := s.scanRuns(2)
		require.NoError(t, err)
		for n := range want {
			p, found := s.Partition(id(n)), 0
			for i := range j.runs {
				if j.runs[i].number == p.number {
					found += len(j.runs[i].entries)
				}
			}
			if page == 0 { // without its header a segment says nothing
				require.Zero(t, found)
				continue
			}
			require.GreaterOrEqual(t, found, whole[id(n)]-touched[id(n)], "page %d, partition %d", page, n)
		}
		require.NoError(t, s.Close())
	}
}
