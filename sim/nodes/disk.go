package nodes

import (
	"io"
	"os"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/bornode/bornode/internal/vfs"
	"github.com/bornode/bornode/internal/vfs/faultfs"
)

// access is what a part asks of a disk.
type access uint8

const (
	reads access = iota
	writes
	syncs
	silently // writes that go wrong without a word
)

func (a access) String() string { return [...]string{"read", "write", "sync", "write"}[a] }

// trouble is a fault of a node's medium that waits for its moment: the after-th access of its kind below a prefix.
type trouble struct {
	kind    access
	below   string // prefix of the file's path
	after   int    // accesses that still go well
	forGood bool   // every later one fails too
	what    mishap
}

// mishap is what goes wrong.
type mishap uint8

const (
	fails       mishap = iota // EIO
	isLost                    // a write is acknowledged and not there
	isMisplaced               // a write lands somewhere else in the same file
	cutsPower                 // the machine stops before it; the world is told
)

func (m mishap) String() string {
	return [...]string{"EIO", "lost", "misplaced", "power cut"}[m]
}

// medium is a node's disk as a thing that outlives its lives: what is on it, and what is wrong with it.
type medium struct {
	mu       sync.Mutex
	troubles []*trouble
	full     bool
	slow     time.Duration // a sync takes so long
	struck   []string      // what went wrong, for the report
	damage   bool          // something on it was changed, lost or misplaced, and may not be mended yet
}

// strikes reports what happens to an access.
func (m *medium) strikes(kind access, name string) (mishap, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, t := range m.troubles {
		if t.kind != kind || !strings.HasPrefix(name, t.below) {
			continue
		}
		if t.after > 0 {
			t.after--
			continue
		}
		if !t.forGood {
			m.troubles = append(m.troubles[:i:i], m.troubles[i+1:]...)
		}
		if len(m.struck) < maxStruckKept {
			m.struck = append(m.struck, kind.String()+" of "+name+": "+t.what.String())
		}
		if t.what == isLost || t.what == isMisplaced {
			m.damage = true
		}
		return t.what, true
	}
	return 0, false
}

// add makes something wrong with the medium.
func (m *medium) add(t trouble) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.troubles = append(m.troubles, &t)
}

// isWell reports whether a start may go well: nothing fails for good.
func (m *medium) isWell() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, t := range m.troubles {
		if t.forGood {
			return false
		}
	}
	return !m.full
}

// setFull and setSlow change how the medium is.
func (m *medium) setFull(full bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.full = full; full {
		m.struck = append(m.struck, "full")
	}
}

func (m *medium) setSlow(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.slow = d
}

func (m *medium) isFull() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.full
}

// heal ends every trouble; what it did to the contents stays.
func (m *medium) heal() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.troubles, m.full, m.slow = nil, false, 0
}

// hurt notes that the contents were changed from outside.
func (m *medium) hurt(what string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.struck, m.damage = append(m.struck, what), true
}

// wasHurt reports whether anything ever went wrong with the medium.
func (m *medium) wasHurt() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.damage || len(m.struck) > 0
}

func (m *medium) syncTakes() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.slow
}

// drive is a disk as one life of a node uses it. When the life ends by a power cut or the end of its process, nothing that
// its goroutines still do changes anything any more.
type drive struct {
	disk   *faultfs.Disk
	medium *medium
	ended  atomic.Bool
	onCut  func() // the planned power cut has come
}

// newDrive plugs a disk in. The seed says what a planned power cut keeps of the changes that are not durable.
func newDrive(disk *faultfs.Disk, m *medium, seed uint64, onCut func()) *drive {
	d := &drive{disk: disk, medium: m, onCut: onCut}
	disk.SetPlan(d.plan, seed)
	return d
}

// plan is asked under the disk's lock before every change.
func (d *drive) plan(c faultfs.Change) (v faultfs.Verdict) {
	if d.ended.Load() {
		return faultfs.Verdict{Err: faultfs.ErrCrashed}
	}
	kind := writes
	switch c.Kind {
	case faultfs.Sync, faultfs.SyncDir:
		kind = syncs
	case faultfs.Remove:
		return v
	}
	if kind == writes && d.medium.isFull() && (c.Kind == faultfs.Write || c.Kind == faultfs.Create) {
		return faultfs.Verdict{Err: syscall.ENOSPC}
	}
	what, struck := d.medium.strikes(kind, c.Name)
	switch {
	case !struck:
	case what == fails:
		v = faultfs.Verdict{Err: syscall.EIO, Lost: kind == syncs}
	case what == cutsPower:
		d.ended.Store(true)
		d.onCut()
		v = faultfs.Verdict{Crash: true}
	}
	return v
}

// folder is the file system below one folder of the drive.
func (d *drive) folder(name string) vfs.FS { return &folder{d, name} }

type folder struct {
	d   *drive
	dir string
}

func (f *folder) at(name string) string { return path.Join(f.dir, name) }

func (f *folder) check() error {
	if f.d.ended.Load() {
		return faultfs.ErrCrashed
	}
	return nil
}

// Open implements vfs.FS.
func (f *folder) Open(name string, flag int) (vfs.File, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	inner, err := f.d.disk.Open(f.at(name), flag)
	if err != nil {
		return nil, err
	}
	return &driveFile{File: inner, d: f.d, name: f.at(name)}, nil
}

// Remove implements vfs.FS.
func (f *folder) Remove(name string) error {
	if err := f.check(); err != nil {
		return err
	}
	return f.d.disk.Remove(f.at(name))
}

// Rename implements vfs.FS.
func (f *folder) Rename(from, to string) error {
	if err := f.check(); err != nil {
		return err
	}
	return f.d.disk.Rename(f.at(from), f.at(to))
}

// Link implements vfs.FS.
func (f *folder) Link(from, to string) error {
	if err := f.check(); err != nil {
		return err
	}
	return f.d.disk.Link(f.at(from), f.at(to))
}

// List implements vfs.FS.
func (f *folder) List(dir string) ([]string, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	return f.d.disk.List(f.at(dir))
}

// Modified implements vfs.FS.
func (f *folder) Modified(name string) (time.Time, error) {
	if err := f.check(); err != nil {
		return time.Time{}, err
	}
	return f.d.disk.Modified(f.at(name))
}

// Mkdir implements vfs.FS.
func (f *folder) Mkdir(dir string) error {
	if err := f.check(); err != nil {
		return err
	}
	return f.d.disk.Mkdir(f.at(dir))
}

// SyncDir implements vfs.FS.
func (f *folder) SyncDir(dir string) error {
	if err := f.check(); err != nil {
		return err
	}
	return f.d.disk.SyncDir(f.at(dir))
}

// Lock implements vfs.FS.
func (f *folder) Lock(name string) (io.Closer, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	return f.d.disk.Lock(f.at(name))
}

// driveFile is an open file of a drive.
type driveFile struct {
	vfs.File
	d    *drive
	name string
}

func (f *driveFile) err(op string, cause error) error {
	return &os.PathError{Op: op, Path: f.name, Err: cause}
}

func (f *driveFile) ReadAt(p []byte, off int64) (int, error) {
	if f.d.ended.Load() {
		return 0, faultfs.ErrCrashed
	}
	if _, struck := f.d.medium.strikes(reads, f.name); struck {
		return 0, f.err("read", syscall.EIO)
	}
	return f.File.ReadAt(p, off)
}

// WriteAt loses and misplaces writes by itself; whether they fail is the plan's.
func (f *driveFile) WriteAt(p []byte, off int64) (int, error) {
	if f.d.ended.Load() {
		return 0, faultfs.ErrCrashed
	}
	what, struck := f.d.medium.strikes(silently, f.name)
	if !struck {
		return f.File.WriteAt(p, off)
	}
	if size, err := f.Size(); err == nil && size < off+int64(len(p)) { // the size is the file system's, the data the disk's
		_ = f.File.Truncate(off + int64(len(p))) // a failure shows with the next write
	}
	if what == isMisplaced {
		_, _ = f.File.WriteAt(p, off/2) // likewise
	}
	return len(p), nil
}

// Sync is slow on a slow disk, but only for files on whose sync nobody waits with a mutex: a goroutine that waits for a
// mutex does not count as idle in a bubble of virtual time, which would stand still for good.
func (f *driveFile) Sync() error {
	if f.d.ended.Load() {
		return faultfs.ErrCrashed
	}
	if d := f.d.medium.syncTakes(); d > 0 && maySlowDown(f.name) {
		time.Sleep(d)
	}
	if f.d.ended.Load() {
		return faultfs.ErrCrashed
	}
	return f.File.Sync()
}

// Truncate implements vfs.File.
func (f *driveFile) Truncate(size int64) error {
	if f.d.ended.Load() {
		return faultfs.ErrCrashed
	}
	return f.File.Truncate(size)
}

func maySlowDown(name string) bool {
	return strings.HasPrefix(name, storeDir+"/segments/") || strings.HasPrefix(name, consensusDir+"/")
}
