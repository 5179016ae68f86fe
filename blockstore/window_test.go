package blockstore_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/blockstore"
	"github.com/bornode/bornode/internal/vfs"
	"github.com/bornode/bornode/internal/vfs/faultfs"
)

func openOS(t testing.TB, dir string) *blockstore.Store {
	t.Helper()
	return open(t, vfs.OS(dir, vfs.Public))
}

// readDirectory reads the directory page as a peer does.
func readDirectory(t testing.TB, w *blockstore.Window) block.Directory {
	t.Helper()
	f, err := w.Open(block.AreaDirectory)
	require.NoError(t, err)
	defer f.Close()
	d, err := directoryOf(f)
	require.NoError(t, err)
	return d
}

func directoryOf(f *os.File) (block.Directory, error) {
	for {
		var b [block.DirectoryBytes]byte
		if _, err := f.ReadAt(b[:], 0); err != nil {
			return block.Directory{}, err
		}
		d, err := block.DecodeDirectory(b[:])
		if !errors.Is(err, block.ErrChecksum) {
			return d, err
		}
	}
}

func readArea(t testing.TB, w *blockstore.Window, area uint32, offset int64, n int) []byte {
	t.Helper()
	f, err := w.Open(area)
	require.NoError(t, err)
	defer f.Close()
	b := make([]byte, n)
	_, err = f.ReadAt(b, offset)
	require.NoError(t, err)
	return b
}

// requireWindow reads every block of the window as a peer does and compares it.
func requireWindow(t testing.TB, w *blockstore.Window, d block.Directory, blocks []*block.Block) {
	t.Helper()
	require.Equal(t, blocks[0].Number(), d.First)
	require.Equal(t, blocks[len(blocks)-1].Number()+1, d.Next)
	for _, b := range blocks {
		area, offset := block.IndexArea(b.Number())
		e, err := block.DecodeIndexEntry(b.Number(), readArea(t, w, area, offset, block.IndexEntryBytes))
		require.NoError(t, err)
		require.Equal(t, b.Hash(), e.Hash)
		require.LessOrEqual(t, e.Segment, d.Segment)
		require.Greater(t, e.Segment, d.Segment-d.Segments)
		h, payload, err := block.DecodeRecord(readArea(t, w, e.Segment, int64(e.Offset), block.RecordHeaderBytes+int(e.Length)))
		require.NoError(t, err)
		require.Equal(t, b.Number(), h.Height)
		require.Equal(t, b.Hash(), h.Hash)
		require.Equal(t, b.Encode(), payload)
		if e.Segment == d.Segment {
			require.LessOrEqual(t, e.End(), int64(d.SegmentBytes))
		}
	}
}

func TestWindow(t *testing.T) {
	dir := t.TempDir()
	s := openOS(t, dir)
	w := s.Window()
	empty := readDirectory(t, w)
	require.Zero(t, empty.Next)
	require.Zero(t, empty.Segments)
	for _, area := range []uint32{1, 2, block.AreaIndex, block.AreaIndex + 1, 1<<32 - 1} {
		_, err := w.Open(area)
		require.ErrorIs(t, err, fs.ErrNotExist, "area %d of an empty store", area)
	}

	chain := line(nil, 100, 1, 1, 200)
	require.NoError(t, s.AppendFinal(chain[:60], final(chain[:60]...)))
	page, err := w.Open(block.AreaDirectory) // one descriptor sees what follows
	require.NoError(t, err)
	defer page.Close()
	first, err := directoryOf(page)
	require.NoError(t, err)
	requireWindow(t, w, first, chain[:60])
	require.EqualValues(t, len(s.Segments()), first.Segments)
	require.Greater(t, first.Segments, uint32(2))

	// Reversible blocks are not in it until they are irreversible.
	require.NoError(t, s.PutReversible(chain[60:]))
	same, err := directoryOf(page)
	require.NoError(t, err)
	require.Equal(t, first, same)
	require.NoError(t, s.Finalize(final(chain[60:]...)))
	all, err := directoryOf(page)
	require.NoError(t, err)
	require.Greater(t, all.Sequence, first.Sequence)
	require.Equal(t, first.Epoch, all.Epoch, "nothing that was read is void")
	requireWindow(t, w, all, chain)
	for _, area := range []uint32{all.Segment + 1, block.AreaIndex + 1} {
		_, err := w.Open(area)
		require.ErrorIs(t, err, fs.ErrNotExist)
	}

	require.NoError(t, s.Close())
	_, err = w.Open(block.AreaDirectory)
	require.ErrorIs(t, err, blockstore.ErrClosed)
	s = openOS(t, dir)
	again := readDirectory(t, s.Window())
	require.NotEqual(t, all.Epoch, again.Epoch, "another process, another epoch")
	requireWindow(t, s.Window(), again, chain)
}

func TestWindowAfterPruning(t *testing.T) {
	s := openOS(t, t.TempDir())
	w := s.Window()
	chain := line(nil, 200, 1, 1, 200)
	require.NoError(t, s.AppendFinal(chain, final(chain...)))
	before := readDirectory(t, w)
	held, err := w.Open(1)
	require.NoError(t, err)
	defer held.Close()
	first, err := s.Prune(s.Segments()[3].First)
	require.NoError(t, err)
	after := readDirectory(t, w)
	require.NotEqual(t, before.Epoch, after.Epoch)
	require.Equal(t, before.Generation+1, after.Generation)
	requireWindow(t, w, after, chain[first:])
	for _, area := range []uint32{1, 2, 3} {
		_, err := w.Open(area)
		require.ErrorIs(t, err, fs.ErrNotExist)
	}
	_, err = held.ReadAt(make([]byte, 32), 0)
	require.NoError(t, err, "who holds a pruned segment reads it to the end")
}

// TestWindowEpochAfterReplace: who keeps a copy of a damaged record must fetch it anew.
func TestWindowEpochAfterReplace(t *testing.T) {
	s := openOS(t, t.TempDir())
	chain := line(nil, 20, 1, 1, 200)
	require.NoError(t, s.AppendFinal(chain, final(chain...)))
	before := readDirectory(t, s.Window())
	require.NoError(t, s.Replace(5, chain[5]))
	require.NotEqual(t, before.Epoch, readDirectory(t, s.Window()).Epoch)
}

// TestWindowCannotBeChanged: a peer that gets a descriptor can do nothing with it but read.
func TestWindowCannotBeChanged(t *testing.T) {
	s := openOS(t, t.TempDir())
	chain := line(nil, 20, 1, 1, 200)
	require.NoError(t, s.AppendFinal(chain, final(chain...)))
	for _, area := range []uint32{block.AreaDirectory, 1, block.AreaIndex} {
		f, err := s.Window().Open(area)
		require.NoError(t, err)
		_, err = f.WriteAt([]byte{1}, 0)
		require.Error(t, err, "area %d", area)
		require.Error(t, f.Truncate(0), "area %d", area)
		_, err = unix.Mmap(int(f.Fd()), 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		require.Error(t, err, "area %d", area)
		if area == block.AreaDirectory { // nor by opening it anew, as the owner of a file may
			again, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", f.Fd()), os.O_RDWR, 0)
			require.NoError(t, err)
			_, err = again.WriteAt([]byte{1}, 0)
			require.Error(t, err)
			require.Error(t, again.Truncate(0))
			_, err = unix.Mmap(int(again.Fd()), 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
			require.Error(t, err)
			require.NoError(t, again.Close())
		}
		require.NoError(t, f.Close())
	}
}

// TestWindowUnderReaders: whoever reads while blocks become final and segments are pruned sees only whole pages, and
// every block that a page promises.
func TestWindowUnderReaders(t *testing.T) {
	s := openOS(t, t.TempDir())
	w := s.Window()
	chain := line(nil, 400, 1, 1, 200)
	require.NoError(t, s.AppendFinal(chain[:10], final(chain[:10]...)))
	done := make(chan struct{})
	errs := make(chan error, 4)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() { errs <- readWhile(w, chain, done) })
	}
	for i := 10; i < len(chain); i++ {
		require.NoError(t, s.AppendFinal(chain[i:i+1], final(chain[i])))
		if i%100 == 0 {
			_, err := s.Prune(uint64(i) - 50)
			require.NoError(t, err)
		}
	}
	close(done)
	wg.Wait()
	for range 4 {
		require.NoError(t, <-errs)
	}
}

func readWhile(w *blockstore.Window, chain []*block.Block, done <-chan struct{}) error {
	page, err := w.Open(block.AreaDirectory)
	if err != nil {
		return err
	}
	defer page.Close()
	for seen := uint64(0); ; {
		select {
		case <-done:
			return nil
		default:
		}
		d, err := directoryOf(page)
		if err != nil {
			return err
		}
		if d.Next < seen {
			return errors.New("the window shrank")
		}
		seen = d.Next
		err = readOne(w, chain[d.Next-1])
		if errors.Is(err, fs.ErrNotExist) { // pruned meanwhile
			if again, e := directoryOf(page); e == nil && again.First >= d.Next {
				continue
			}
		}
		if err != nil {
			return err
		}
	}
}

func readOne(w *blockstore.Window, b *block.Block) error {
	area, offset := block.IndexArea(b.Number())
	raw, err := readFrom(w, area, offset, block.IndexEntryBytes)
	if err != nil {
		return err
	}
	e, err := block.DecodeIndexEntry(b.Number(), raw)
	if err != nil {
		return err
	}
	if raw, err = readFrom(w, e.Segment, int64(e.Offset), block.RecordHeaderBytes+int(e.Length)); err != nil {
		return err
	}
	h, _, err := block.DecodeRecord(raw)
	if err == nil && h.Hash != b.Hash() {
		err = errors.New("another block")
	}
	return err
}

func readFrom(w *blockstore.Window, area uint32, offset int64, n int) ([]byte, error) {
	f, err := w.Open(area)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b := make([]byte, n)
	_, err = f.ReadAt(b, offset)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return b, err
}

func TestWindowOfAStoreWithoutFiles(t *testing.T) {
	s := open(t, faultfs.New())
	chain := line(nil, 5, 1, 1, 200)
	require.NoError(t, s.AppendFinal(chain, final(chain...)))
	for _, area := range []uint32{block.AreaDirectory, 1, block.AreaIndex} {
		_, err := s.Window().Open(area)
		require.ErrorIs(t, err, fs.ErrNotExist)
	}
}

func BenchmarkWindowPage(b *testing.B) {
	s := openOS(b, b.TempDir())
	chain := line(nil, 5, 1, 1, 200)
	require.NoError(b, s.AppendFinal(chain, final(chain...)))
	page, err := s.Window().Open(block.AreaDirectory)
	require.NoError(b, err)
	defer page.Close()
	for b.Loop() {
		if _, err := directoryOf(page); err != nil {
			b.Fatal(err)
		}
	}
}
