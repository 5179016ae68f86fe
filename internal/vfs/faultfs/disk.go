package faultfs

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path"
	"slices"
	"sort"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/bornode/bornode/internal/vfs"
)

// ErrCrashed is what every operation gives after the crash of a Plan.
var ErrCrashed = errors.New("faultfs: the machine has crashed")

// Change describes one numbered operation to a Plan.
type Change struct {
	Number int
	Kind   Kind
	Name   string // file or directory
}

// Kind is the kind of a change.
type Kind uint8

// Kinds of changes.
const (
	Write Kind = iota
	Sync
	Truncate
	Create
	Rename
	Remove
	SyncDir
)

func (k Kind) String() string {
	return [...]string{"write", "sync", "truncate", "create", "rename", "remove", "syncdir"}[k]
}

// Plan decides what happens at a change. It is called under the disk's lock and must not use the disk.
type Plan func(Change) Verdict

// Verdict of a plan. The zero value lets the change happen.
type Verdict struct {
	Err   error // the change fails: nothing of it happens, but for Short
	Short int   // with Err and a write: so many bytes are written before it fails
	Lost  bool  // with Err and a sync: what was written and not synced never will be, though it can be read, as the page cache of Linux has it
	Crash bool  // the machine stops before this change happens; Disk.Crashed has what is left
}

type inode struct {
	number  uint64 // of this process
	data    []byte
	durable []byte // contents at the last sync
	pending []write
}

// write is a change of contents since the last sync: data at off, or a truncation to off if data is nil.
type write struct {
	off  int64
	data []byte
}

// dirChange is a change of names since the directory's last sync.
type dirChange struct {
	name string // base name
	file *inode // nil: removed
}

type dir struct {
	number  uint64
	now     map[string]*inode
	durable map[string]*inode
	pending []dirChange
}

// Disk implements vfs.FS.
type Disk struct {
	mu      sync.Mutex
	dirs    map[string]*dir
	locks   map[string]bool
	plan    Plan
	changes int
	crashed *Disk
	seed    uint64
	dead    bool
}

// New is an empty disk.
func New() *Disk {
	return &Disk{dirs: map[string]*dir{".": newDir()}, locks: make(map[string]bool)}
}

// numbers gives files and folders their numbers.
var numbers atomic.Uint64

func newDir() *dir {
	return &dir{number: numbers.Add(1), now: make(map[string]*inode), durable: make(map[string]*inode)}
}

// SetPlan sets what happens from now on (nil: nothing fails) and what of the unsynced changes a planned crash keeps
// (see Crash). Numbers go on counting.
func (d *Disk) SetPlan(p Plan, seed uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.plan, d.seed = p, seed
}

// Changes is the number of changes so far.
func (d *Disk) Changes() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.changes
}

// Crashed is the disk that a planned crash left, nil if there was none.
func (d *Disk) Crashed() *Disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.crashed
}

// Crash is what a power cut at this moment leaves. Seed 0 keeps nothing that is not durable; any other seed keeps a
// part of it, chosen by the seed. The disk itself goes on.
func (d *Disk) Crash(seed uint64) *Disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.crash(seed)
}

// Copy is the disk as it is, synced or not: what the kill of a process leaves.
func (d *Disk) Copy() *Disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	out, copies := New(), make(map[*inode]*inode)
	for name, from := range d.dirs {
		to := newDir()
		for base, f := range from.now {
			if copies[f] == nil {
				copies[f] = newInode(f.data)
			}
			to.now[base], to.durable[base] = copies[f], copies[f]
		}
		out.dirs[name] = to
	}
	return out
}

// Killed is Copy, but what was not synced still is not: a Crash of the new disk may lose it, as a power cut does that
// comes after the kill of a process.
func (d *Disk) Killed() *Disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	out, copies := New(), make(map[*inode]*inode)
	clone := func(f *inode) *inode {
		if f != nil && copies[f] == nil {
			n := newInode(f.data)
			n.durable, n.pending = append([]byte(nil), f.durable...), append([]write(nil), f.pending...)
			copies[f] = n
		}
		return copies[f]
	}
	for name, from := range d.dirs {
		to := newDir()
		for base, f := range from.now {
			to.now[base] = clone(f)
		}
		for base, f := range from.durable {
			to.durable[base] = clone(f)
		}
		for _, c := range from.pending {
			to.pending = append(to.pending, dirChange{c.name, clone(c.file)})
		}
		out.dirs[name] = to
	}
	return out
}

func newInode(data []byte) *inode {
	return &inode{number: numbers.Add(1), data: append([]byte(nil), data...), durable: append([]byte(nil), data...)}
}

func (d *Disk) crash(seed uint64) *Disk {
	out, copies := New(), make(map[*inode]*inode)
	rng := rand.New(rand.NewPCG(seed, 1))
	for _, name := range sortedKeys(d.dirs) {
		from, to := d.dirs[name], newDir()
		names := make(map[string]*inode, len(from.durable))
		for base, f := range from.durable {
			names[base] = f
		}
		if seed != 0 && len(from.pending) > 0 {
			for _, c := range from.pending[:rng.IntN(len(from.pending)+1)] {
				if c.file == nil {
					delete(names, c.name)
				} else {
					names[c.name] = c.file
				}
			}
		}
		for _, base := range sortedKeys(names) {
			n := copies[names[base]]
			if n == nil {
				n = newInode(names[base].durable)
				if seed != 0 {
					n = newInode(survivors(names[base], rng))
				}
				copies[names[base]] = n
			}
			to.now[base], to.durable[base] = n, n
		}
		out.dirs[name] = to
	}
	return out
}

// survivors are contents after a crash that kept some of the unsynced writes.
func survivors(f *inode, rng *rand.Rand) []byte {
	data := append([]byte(nil), f.durable...)
	mode := rng.IntN(3)
	for _, w := range f.pending {
		if mode == 0 {
			break // nothing more reached the disk
		}
		if mode == 2 && rng.IntN(3) == 0 {
			continue // later ones may, though this one did not
		}
		if w.data == nil {
			data = resize(data, w.off)
			continue
		}
		keep := w.data
		if rng.IntN(4) == 0 {
			keep = keep[:rng.IntN(len(keep)+1)] // torn
		}
		if end := w.off + int64(len(w.data)); end > int64(len(data)) {
			data = resize(data, end) // the size was written before the data
		}
		copy(data[w.off:], keep)
	}
	return data
}

func resize(b []byte, n int64) []byte {
	if n <= int64(len(b)) {
		return b[:n]
	}
	return append(b, make([]byte, n-int64(len(b)))...)
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}

// change counts a change and asks the plan. The caller holds mu.
func (d *Disk) change(kind Kind, name string) (Verdict, error) {
	if d.dead {
		return Verdict{}, ErrCrashed
	}
	d.changes++
	if d.plan == nil {
		return Verdict{}, nil
	}
	v := d.plan(Change{d.changes, kind, name})
	if v.Crash {
		d.crashed, d.dead = d.crash(d.seed), true
		return v, ErrCrashed
	}
	if v.Err != nil {
		return v, fmt.Errorf("faultfs: %s %s: %w", kind, name, v.Err)
	}
	return v, nil
}

// alive is ErrCrashed after a planned crash: reads fail too. The caller holds mu.
func (d *Disk) alive() error {
	if d.dead {
		return ErrCrashed
	}
	return nil
}

func split(name string) (dirName, base string) {
	dirName, base = path.Split(path.Clean(name))
	return path.Clean(dirName), base
}

func (d *Disk) parent(name string) (*dir, string, error) {
	dn, base := split(name)
	p := d.dirs[dn]
	if p == nil {
		return nil, "", &os.PathError{Op: "open", Path: name, Err: os.ErrNotExist}
	}
	return p, base, nil
}

// parents is parent of two names.
func (d *Disk) parents(from, to string) (p *dir, base string, q *dir, target string, err error) {
	if p, base, err = d.parent(from); err == nil {
		q, target, err = d.parent(to)
	}
	return p, base, q, target, err
}

func (p *dir) set(base string, f *inode) {
	if f == nil {
		delete(p.now, base)
	} else {
		p.now[base] = f
	}
	p.pending = append(p.pending, dirChange{base, f})
}

// forget removes a name and all that is pending for it, durably.
func (p *dir) forget(base string) {
	delete(p.now, base)
	delete(p.durable, base)
	p.pending = slices.DeleteFunc(p.pending, func(c dirChange) bool { return c.name == base })
}

// Corrupt changes the contents of a file, synced, without counting as a change: damage to the medium.
func (d *Disk) Corrupt(name string, fn func(data []byte) []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	p, base, err := d.parent(name)
	if err != nil {
		return err
	}
	f := p.now[base]
	if f == nil {
		return &os.PathError{Op: "corrupt", Path: name, Err: os.ErrNotExist}
	}
	*f = *newInode(fn(append([]byte(nil), f.data...)))
	return nil
}

// Each gives every file as it is, synced or not; data is a copy.
func (d *Disk) Each(fn func(name string, data []byte)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for dn, p := range d.dirs {
		for base, f := range p.now {
			fn(path.Join(dn, base), append([]byte(nil), f.data...))
		}
	}
}

// Lose removes files whose path begins with prefix, for good, without counting as a change.
func (d *Disk) Lose(prefix string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for dn, p := range d.dirs {
		for base := range p.now {
			if strings.HasPrefix(path.Join(dn, base), prefix) {
				delete(p.now, base)
				delete(p.durable, base)
			}
		}
	}
}

// lockCloser is a lock on the disk.
type lockCloser struct {
	d    *Disk
	name string
}

func (l lockCloser) Close() error {
	l.d.mu.Lock()
	defer l.d.mu.Unlock()
	delete(l.d.locks, l.name)
	return nil
}

// Lock implements vfs.FS. A crash frees all locks.
func (d *Disk) Lock(name string) (io.Closer, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.locks[name] {
		return nil, fmt.Errorf("faultfs: %s is locked: %w", name, vfs.ErrLocked)
	}
	d.locks[name] = true
	if p, base, err := d.parent(name); err == nil && p.now[base] == nil { // the file stays, as on a real disk
		n := newInode(nil)
		p.now[base], p.durable[base] = n, n
	}
	return lockCloser{d, name}, nil
}
