package node

import (
	"errors"
	"os"
	"path"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/bornode/bornode/config"
	"github.com/bornode/bornode/internal/vfs"
)

// powerWatch is a folder that knows what a power cut would take from it: contents that were written and not synced, and
// names in folders that were changed and not synced.
type powerWatch struct {
	vfs.FS
	mu       sync.Mutex
	contents map[string]bool
	folders  map[string]bool
	renamed  func(to string) // is called before a file gets its name
}

func watchPower(fs vfs.FS) *powerWatch {
	return &powerWatch{FS: fs, contents: map[string]bool{}, folders: map[string]bool{}, renamed: func(string) {}}
}

// lost is what a power cut would take now.
func (w *powerWatch) lost() (out []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name := range w.contents {
		out = append(out, "contents of "+name)
	}
	for name := range w.folders {
		out = append(out, "names in "+name)
	}
	return out
}

func (w *powerWatch) Open(name string, flag int) (vfs.File, error) {
	f, err := w.FS.Open(name, flag)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if flag&os.O_CREATE != 0 {
		w.folders[path.Dir(name)] = true
	}
	return &watchedFile{f, w, name}, nil
}

func (w *powerWatch) Rename(from, to string) error {
	w.renamed(to)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.contents[from] {
		w.contents[to] = true
	}
	delete(w.contents, from)
	w.folders[path.Dir(from)], w.folders[path.Dir(to)] = true, true
	return w.FS.Rename(from, to)
}

func (w *powerWatch) SyncDir(dir string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.folders, dir)
	return w.FS.SyncDir(dir)
}

type watchedFile struct {
	vfs.File
	w    *powerWatch
	name string
}

func (f *watchedFile) WriteAt(p []byte, off int64) (int, error) {
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	f.w.contents[f.name] = true
	return f.File.WriteAt(p, off)
}

func (f *watchedFile) Sync() error {
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	delete(f.w.contents, f.name)
	return f.File.Sync()
}

// All that a manifest lists is durable before the manifest takes the place of the one before, which is durable itself
// when the backup has ended; so it is in the first backup of a folder and in later ones.
func TestABackupIsDurableBeforeItsManifest(t *testing.T) {
	p, n, _, o := backedUp(t)
	var watch *powerWatch
	published := 0
	o.open = func(dir string) vfs.FS {
		watch = watchPower(vfs.OS(dir, vfs.Private))
		watch.renamed = func(to string) {
			if to != ManifestFile {
				return
			}
			published++
			for _, lost := range watch.lost() {
				require.Equal(t, "names in .", lost, "the manifest's first name alone may be lost")
			}
			for _, dir := range []string{backupSegmentDir, backupFileDir} {
				entries, err := os.ReadDir(filepath.Join(o.Dir, dir))
				require.NoError(t, err)
				require.NotEmpty(t, entries)
			}
		}
		return watch
	}
	for round := 1; round <= 2; round++ {
		_, err := Backup(t.Context(), p.producer, o, cutOf(t, p.producer))
		require.NoError(t, err)
		require.Equal(t, round, published)
		require.Empty(t, watch.lost())
		height, _ := n.store.LIB()
		p.until("there are more blocks", func() bool { h, _ := n.store.LIB(); return h > height+30 })
	}

	named := false
	r := RestoreOptions{Backup: o.Dir, Dir: filepath.Join(t.TempDir(), "restored"), open: func(dir string) vfs.FS {
		watch = watchPower(vfs.OS(dir, vfs.Private))
		watch.renamed = func(to string) { named = to == config.FileName }
		return watch
	}}
	_, err := Restore(t.Context(), r, zap.NewNop())
	require.NoError(t, err)
	require.True(t, named, "the settings come last")
	require.Empty(t, watch.lost())
}

// A folder that cannot be made durable holds no new backup: the error of each sync ends it, and what was whole stays.
func TestABackupEndsWithAFailedSync(t *testing.T) {
	p, n, _, o := backedUp(t)
	first, err := Backup(t.Context(), p.producer, o, cutOf(t, p.producer))
	require.NoError(t, err)
	p.until("there are more blocks", func() bool { h, _ := n.store.LIB(); return h > first.Height+30 })
	for _, dir := range []string{backupSegmentDir, backupFileDir, "."} {
		o.open = func(root string) vfs.FS { return &failingSyncs{vfs.OS(root, vfs.Private), dir} }
		_, err := Backup(t.Context(), p.producer, o, cutOf(t, p.producer))
		require.ErrorIs(t, err, errSyncFails, dir)
		m, err := VerifyBackup(o.Dir, nil)
		require.NoError(t, err)
		require.Equal(t, first.Height, m.Height, dir)
	}
	o.open = nil
	m, err := Backup(t.Context(), p.producer, o, cutOf(t, p.producer))
	require.NoError(t, err)
	require.Greater(t, m.Height, first.Height)
}

var errSyncFails = errors.New("input/output error")

// failingSyncs fails the sync of one folder.
type failingSyncs struct {
	vfs.FS
	dir string
}

func (f *failingSyncs) SyncDir(dir string) error {
	if dir == f.dir {
		return errSyncFails
	}
	return f.FS.SyncDir(dir)
}
