package blockstore

import (
	"errors"
	"fmt"
	"io"
	"os"

	"go.uber.org/zap"

	"github.com/bornode/bornode/internal/vfs"
)

// keepActiveName sees to it that the name of the active segment leads to the file that the writer appends to. A name that
// was removed, or that another file has got, takes nothing from the open file: what it holds is written to a new file of
// this name, where writing goes on. Else every later commit would be durable where no reader and no start looks. Blocks
// that readers missed are whole then. An error closes the gate. For the writer's goroutine, between two groups.
func (s *Store) keepActiveName() error {
	seg := s.activeSegment()
	if !s.has || s.w.seg == nil || s.w.segNumber != seg.Number {
		return nil
	}
	lost, err := s.activeNameLost(seg)
	if err == nil && lost {
		s.log.Error("the file of the active segment has lost its name while the node runs; it is written again from the open file: find out what removes or replaces files there",
			zap.String("file", s.cfg.Dir+"/"+seg.Name))
		err = s.renameActive(seg)
	}
	if err != nil {
		return s.gate.fail("give "+seg.Name+" its name again", err)
	}
	if !lost {
		return nil
	}
	s.files.Forget(seg.Name)
	s.page.renew(s.directory())
	for _, h := range s.damaged.list(s.lib.First) {
		if h >= seg.First && h <= seg.Last && s.CheckStored(h) == nil {
			s.damaged.forget(h)
		}
	}
	return nil
}

// activeNameLost reports whether the name leads to no file; another file is set aside before. A name that cannot be
// looked at now is looked at again before the next commit.
func (s *Store) activeNameLost(seg Segment) (lost bool, err error) {
	f, err := s.fs.Open(seg.Name, os.O_RDONLY)
	if errors.Is(err, os.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, nil //nolint:nilerr // said above
	}
	same := vfs.SameFile(f, s.w.seg)
	if err := f.Close(); err != nil || same {
		return false, err
	}
	return true, s.setAside(asideSegment, seg.Name, "another file took the name of the active segment while the node ran")
}

// renameActive writes the open file of the active segment to a new one with its name and goes on there.
func (s *Store) renameActive(seg Segment) error {
	err := vfs.ReplaceFileBy(s.fs, seg.Name, func(w io.Writer) error { return copyReadable(w, s.w.seg, seg.Size) })
	if err != nil {
		return err
	}
	f, err := s.fs.Open(seg.Name, os.O_RDWR)
	if err != nil {
		return err
	}
	old := s.w.seg
	s.w.seg, s.w.segDirty = f, false // only what is durable is copied: a group that failed has closed the gate
	return old.Close()
}

// copyReadable copies the first bytes of a file. Pages that cannot be read are written as zeros: the blocks in them are
// damaged as before, the others are not.
func copyReadable(to io.Writer, from io.ReaderAt, size int64) error {
	const page = 4 << 10
	buf := make([]byte, scanChunkBytes)
	for off := int64(0); off < size; off += int64(len(buf)) {
		buf = buf[:min(int64(len(buf)), size-off)]
		if n, err := from.ReadAt(buf, off); n < len(buf) && err != nil {
			for at := 0; at < len(buf); at += page {
				part := buf[at:min(at+page, len(buf))]
				if n, err := from.ReadAt(part, off+int64(at)); n < len(part) && err != nil {
					clear(part[max(n, 0):])
				}
			}
		}
		if _, err := to.Write(buf); err != nil {
			return fmt.Errorf("copy the open file: %w", err)
		}
	}
	return nil
}

// missActive asks the writer to look after the name of the active segment, since a reader found no file there. If the
// writer is busy, it looks before its next commit.
func (s *Store) missActive(segment uint32, cause error) {
	if !errors.Is(cause, os.ErrNotExist) || segment != s.activeNumber() {
		return
	}
	select {
	case s.ops <- &op{done: make(chan struct{}), alone: s.keepActiveName}:
	default:
	}
}

func (s *Store) activeNumber() uint32 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.lib.Segment
}
