package faultmount

import (
	"context"
	"errors"
	"io"
	"os"
	"path"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/bornode/bornode/internal/vfs"
)

// node is a name of the disk: a file or a directory. Nothing about it is kept here, so a fault of the disk shows at once.
type node struct {
	fs.Inode
	mount *Mount
}

// handle is an open file.
type handle struct {
	mount *Mount
	name  string
	file  vfs.File
}

// The kernel caches no data (FOPEN_DIRECT_IO): damage and failing reads show in a running process.
const openFlags = fuse.FOPEN_DIRECT_IO

func (n *node) name() string { return nameOf(&n.Inode) }

func nameOf(inode *fs.Inode) string {
	if p := inode.Path(nil); p != "" {
		return p
	}
	return "."
}

func (n *node) below(name string) string { return path.Join(n.name(), name) }

// child describes a name below n to the kernel.
func (n *node) child(ctx context.Context, name string, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	stable, errno := n.mount.attributes(n.below(name), &out.Attr)
	if errno != 0 {
		return nil, errno
	}
	return n.NewInode(ctx, &node{mount: n.mount}, stable), 0
}

// Lookup implements fs.NodeLookuper.
func (n *node) Lookup(ctx context.Context, name string, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	return n.child(ctx, name, out)
}

// Getattr implements fs.NodeGetattrer.
func (n *node) Getattr(_ context.Context, f fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	if h, ok := f.(*handle); ok { // a removed file that is still open has no name
		size, err := h.file.Size()
		fill(&out.Attr, size, false)
		return errnoOf(err)
	}
	_, errno := n.mount.attributes(n.name(), &out.Attr)
	return errno
}

// Setattr implements fs.NodeSetattrer: the size alone.
func (n *node) Setattr(ctx context.Context, f fs.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	if size, ok := in.GetSize(); ok {
		h, open := f.(*handle)
		if !open {
			file, err := n.mount.disk.Open(n.name(), os.O_RDWR)
			if err != nil {
				return errnoOf(err)
			}
			defer file.Close() //nolint:errcheck // it was only truncated
			h = &handle{file: file}
		}
		if err := h.file.Truncate(int64(size)); err != nil { //nolint:gosec // the kernel's own bound
			return errnoOf(err)
		}
	}
	return n.Getattr(ctx, f, out)
}

// Statfs implements fs.NodeStatfser: there is always room.
func (n *node) Statfs(_ context.Context, out *fuse.StatfsOut) syscall.Errno {
	out.Bsize, out.Blocks, out.Bfree, out.Bavail, out.Files, out.Ffree, out.NameLen = 4096, 1<<28, 1<<28, 1<<28, 1<<20, 1<<20, 255
	return 0
}

// Readdir implements fs.NodeReaddirer.
func (n *node) Readdir(context.Context) (fs.DirStream, syscall.Errno) {
	names, err := n.mount.disk.List(n.name())
	if err != nil {
		return nil, errnoOf(err)
	}
	var entries []fuse.DirEntry
	for _, name := range names {
		var attr fuse.Attr
		if stable, errno := n.mount.attributes(n.below(name), &attr); errno == 0 {
			entries = append(entries, fuse.DirEntry{Name: name, Mode: stable.Mode, Ino: stable.Ino})
		}
	}
	return fs.NewListDirStream(entries), 0
}

// Mkdir implements fs.NodeMkdirer.
func (n *node) Mkdir(ctx context.Context, name string, _ uint32, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	if err := n.mount.disk.Mkdir(n.below(name)); err != nil {
		return nil, errnoOf(err)
	}
	return n.child(ctx, name, out)
}

// Mknod implements fs.NodeMknoder, for sockets.
func (n *node) Mknod(ctx context.Context, name string, mode, _ uint32, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	n.mount.mu.Lock()
	n.mount.sockets[n.below(name)] = mode
	n.mount.mu.Unlock()
	return n.child(ctx, name, out)
}

// Create implements fs.NodeCreater.
func (n *node) Create(ctx context.Context, name string, flags, _ uint32, out *fuse.EntryOut) (*fs.Inode, fs.FileHandle, uint32, syscall.Errno) {
	h, errno := n.mount.open(n.below(name), flags|syscall.O_CREAT)
	if errno != 0 {
		return nil, nil, 0, errno
	}
	inode, errno := n.child(ctx, name, out)
	return inode, h, openFlags, errno
}

// Open implements fs.NodeOpener.
func (n *node) Open(_ context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	h, errno := n.mount.open(n.name(), flags)
	return h, openFlags, errno
}

func (m *Mount) open(name string, flags uint32) (fs.FileHandle, syscall.Errno) {
	flag := os.O_RDONLY
	if flags&syscall.O_ACCMODE != syscall.O_RDONLY {
		flag = os.O_RDWR | int(flags)&(os.O_CREATE|os.O_EXCL|os.O_TRUNC)
	}
	file, err := m.disk.Open(name, flag)
	if err != nil {
		return nil, errnoOf(err)
	}
	return &handle{m, name, file}, 0
}

// Unlink implements fs.NodeUnlinker.
func (n *node) Unlink(_ context.Context, name string) syscall.Errno {
	if n.mount.moveSocket(n.below(name), "") {
		return 0
	}
	return errnoOf(n.mount.disk.Remove(n.below(name)))
}

// Rmdir implements fs.NodeRmdirer.
func (n *node) Rmdir(_ context.Context, name string) syscall.Errno {
	return errnoOf(n.mount.disk.RemoveDir(n.below(name)))
}

// Rename implements fs.NodeRenamer.
func (n *node) Rename(_ context.Context, name string, parent fs.InodeEmbedder, to string, flags uint32) syscall.Errno {
	if flags != 0 {
		return syscall.EINVAL // no exchange, no refusal of an existing name: a caller falls back to what it did before
	}
	target := path.Join(nameOf(parent.EmbeddedInode()), to)
	if n.mount.moveSocket(n.below(name), target) {
		return 0
	}
	return errnoOf(n.mount.disk.Rename(n.below(name), target))
}

// Link implements fs.NodeLinker, within one directory.
func (n *node) Link(ctx context.Context, target fs.InodeEmbedder, name string, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	from, ok := target.(*node)
	if !ok {
		return nil, syscall.EINVAL
	}
	if path.Dir(from.name()) != n.name() {
		return nil, syscall.EXDEV
	}
	if err := n.mount.disk.Link(from.name(), n.below(name)); err != nil {
		return nil, errnoOf(err)
	}
	_, errno := n.mount.attributes(n.below(name), &out.Attr)
	return target.EmbeddedInode(), errno
}

// Fsync implements fs.NodeFsyncer, of directories: those of files have a handle.
func (n *node) Fsync(ctx context.Context, f fs.FileHandle, flags uint32) syscall.Errno {
	if h, ok := f.(*handle); ok {
		return h.Fsync(ctx, flags)
	}
	return errnoOf(n.mount.disk.SyncDir(n.name()))
}

// Read implements fs.FileReader.
func (h *handle) Read(_ context.Context, dest []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	if fail := h.mount.readError.Load(); fail != nil {
		if err := (*fail)(h.name); err != nil {
			return nil, errnoOf(err)
		}
	}
	n, err := h.file.ReadAt(dest, off)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, errnoOf(err)
	}
	return fuse.ReadResultData(dest[:n]), 0
}

// Write implements fs.FileWriter.
func (h *handle) Write(_ context.Context, data []byte, off int64) (uint32, syscall.Errno) {
	n, err := h.file.WriteAt(data, off)
	return uint32(n), errnoOf(err) //nolint:gosec // not negative
}

// Fsync implements fs.FileFsyncer.
func (h *handle) Fsync(context.Context, uint32) syscall.Errno { return errnoOf(h.file.Sync()) }

// Release implements fs.FileReleaser.
func (h *handle) Release(context.Context) syscall.Errno { return errnoOf(h.file.Close()) }

// Allocate implements fs.FileAllocater: no room is kept.
func (h *handle) Allocate(context.Context, uint64, uint64, uint32) syscall.Errno {
	return syscall.EOPNOTSUPP
}

var (
	_ = (fs.NodeLookuper)((*node)(nil))
	_ = (fs.NodeGetattrer)((*node)(nil))
	_ = (fs.NodeSetattrer)((*node)(nil))
	_ = (fs.NodeStatfser)((*node)(nil))
	_ = (fs.NodeReaddirer)((*node)(nil))
	_ = (fs.NodeMkdirer)((*node)(nil))
	_ = (fs.NodeMknoder)((*node)(nil))
	_ = (fs.NodeCreater)((*node)(nil))
	_ = (fs.NodeOpener)((*node)(nil))
	_ = (fs.NodeUnlinker)((*node)(nil))
	_ = (fs.NodeRmdirer)((*node)(nil))
	_ = (fs.NodeRenamer)((*node)(nil))
	_ = (fs.NodeLinker)((*node)(nil))
	_ = (fs.NodeFsyncer)((*node)(nil))
	_ = (fs.FileReader)((*handle)(nil))
	_ = (fs.FileWriter)((*handle)(nil))
	_ = (fs.FileFsyncer)((*handle)(nil))
	_ = (fs.FileReleaser)((*handle)(nil))
	_ = (fs.FileAllocater)((*handle)(nil))
)
