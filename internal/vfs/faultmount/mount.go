package faultmount

import (
	"errors"
	"fmt"
	"os"
	"path"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/bornode/bornode/internal/vfs/faultfs"
)

// Mount is a mounted disk. Its methods are safe for concurrent use.
type Mount struct {
	dir    string
	disk   *faultfs.Disk
	server *fuse.Server

	readError atomic.Pointer[func(name string) error]

	mu      sync.Mutex
	sockets map[string]uint32 // mode of special files, which have no contents
}

// New mounts a disk at an existing directory, whose own contents it hides until Unmount.
func New(dir string, disk *faultfs.Disk) (*Mount, error) {
	m := &Mount{dir: dir, disk: disk, sockets: make(map[string]uint32)}
	server, err := fs.Mount(dir, &node{mount: m}, &fs.Options{MountOptions: fuse.MountOptions{
		DirectMountStrict: true, DisableXAttrs: true, FsName: "faultfs", Name: "faultfs", MaxWrite: 1 << 20,
	}})
	if err != nil {
		return nil, fmt.Errorf("mount %s: %w", dir, err)
	}
	m.server = server
	return m, nil
}

// Disk is the mounted disk.
func (m *Mount) Disk() *faultfs.Disk { return m.disk }

// FailReads has reads of files fail with what fn gives for their names, nil to let them be. A nil fn ends that.
func (m *Mount) FailReads(fn func(name string) error) {
	if fn == nil {
		m.readError.Store(nil)
		return
	}
	m.readError.Store(&fn)
}

// Unmount ends the mount. No process may have files open below it.
func (m *Mount) Unmount() error {
	if err := m.server.Unmount(); err != nil {
		return fmt.Errorf("unmount %s: %w", m.dir, err)
	}
	return nil
}

func (m *Mount) socket(name string) (mode uint32, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	mode, ok = m.sockets[path.Clean(name)]
	return mode, ok
}

// moveSocket gives a special file another name, or none, and reports whether there was one.
func (m *Mount) moveSocket(from, to string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	mode, ok := m.sockets[path.Clean(from)]
	delete(m.sockets, path.Clean(from))
	if ok && to != "" {
		m.sockets[path.Clean(to)] = mode
	}
	return ok
}

// attributes are those of a name on the disk.
func (m *Mount) attributes(name string, out *fuse.Attr) (fs.StableAttr, syscall.Errno) {
	if mode, ok := m.socket(name); ok {
		out.Mode = mode
		return fs.StableAttr{Mode: mode & syscall.S_IFMT}, 0
	}
	info, err := m.disk.Stat(name)
	if err != nil {
		return fs.StableAttr{}, errnoOf(err)
	}
	fill(out, info.Size, info.Dir)
	out.Ino = info.Number
	return fs.StableAttr{Mode: out.Mode & syscall.S_IFMT, Ino: info.Number}, 0
}

func fill(out *fuse.Attr, size int64, dir bool) {
	out.Nlink, out.Blksize = 1, 4096
	if out.Mode = syscall.S_IFREG | 0o600; dir {
		out.Mode = syscall.S_IFDIR | 0o700
		return
	}
	out.Size, out.Blocks = uint64(size), uint64(size+511)/512 //nolint:gosec // not negative
}

// errnoOf is the error number that a program sees.
func errnoOf(err error) syscall.Errno {
	var number syscall.Errno
	switch {
	case err == nil:
		return 0
	case errors.As(err, &number):
		return number
	case errors.Is(err, os.ErrNotExist):
		return syscall.ENOENT
	case errors.Is(err, os.ErrExist):
		return syscall.EEXIST
	}
	return syscall.EIO
}
