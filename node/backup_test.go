package node

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/bornode/bornode/blockstore"
	"github.com/bornode/bornode/config"
)

// backedUp is a network's producer with many small segments, that runs, and the options of a backup of it.
func backedUp(t *testing.T) (p *pair, n *Node, stop func(), o BackupOptions) {
	t.Helper()
	p = newPair(t, quick)
	p.producer.Store.SegmentBytes = 4 << 10
	p.producer.RPC.IPCPath = "node.ipc"
	o = BackupOptions{Dir: filepath.Join(t.TempDir(), "backup"), Settings: filepath.Join(p.producer.DataDir, config.FileName), Secrets: true}
	written := *p.producer
	written.DataDir = config.Default().DataDir
	require.NoError(t, config.Write(o.Settings, &written, false))
	n, stop = p.run(p.producer)
	p.until("there are segments", func() bool { return len(n.store.Segments()) > 5 })
	return p, n, stop, o
}

func cutOf(t *testing.T, c *config.Config) func() (*blockstore.Cut, error) {
	return func() (*blockstore.Cut, error) { return CutOfRunning(t.Context(), c) }
}

// names are the files of a backup with their identities on disk.
func names(t *testing.T, dir string) map[string]os.FileInfo {
	t.Helper()
	out := make(map[string]os.FileInfo)
	entries, err := os.ReadDir(filepath.Join(dir, backupSegmentDir))
	require.NoError(t, err)
	for _, e := range entries {
		out[e.Name()], err = e.Info()
		require.NoError(t, err)
	}
	return out
}

// A backup of a running node is whole, a second one writes only what is new, and what the node prunes stays in it.
func TestBackupOfARunningNode(t *testing.T) {
	p, n, stop, o := backedUp(t)
	first, err := Backup(t.Context(), p.producer, o, cutOf(t, p.producer))
	require.NoError(t, err)
	_, err = VerifyBackup(o.Dir, nil)
	require.NoError(t, err)
	before := names(t, o.Dir)
	require.Len(t, before, len(first.Segments))

	p.until("there are more", func() bool { h, _ := n.store.LIB(); return h > first.Height+30 })
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = Backup(cancelled, p.producer, o, func() (*blockstore.Cut, error) { return n.store.Cut() })
	require.ErrorIs(t, err, context.Canceled)
	m, err := VerifyBackup(o.Dir, nil)
	require.NoError(t, err, "the backup before stays whole")
	require.Equal(t, first.Height, m.Height)

	second, err := Backup(t.Context(), p.producer, o, cutOf(t, p.producer))
	require.NoError(t, err)
	require.Greater(t, second.Height, first.Height)
	after := names(t, o.Dir)
	for _, r := range first.Segments[:len(first.Segments)-1] {
		name := filepath.Base(r.File)
		require.True(t, os.SameFile(before[name], after[name]), name)
		require.Equal(t, before[name].ModTime(), after[name].ModTime(), name)
	}
	require.Len(t, after, len(second.Segments))

	kept, err := n.store.Prune(first.Segments[2].Last + 1)
	require.NoError(t, err)
	require.NotZero(t, kept)
	third, err := Backup(t.Context(), p.producer, o, cutOf(t, p.producer))
	require.NoError(t, err)
	require.Zero(t, third.Segments[0].First)
	elsewhere := o
	elsewhere.Dir = filepath.Join(t.TempDir(), "other")
	_, err = Backup(t.Context(), p.producer, elsewhere, cutOf(t, p.producer))
	require.ErrorContains(t, err, "cannot rebuild its state")
	_, err = VerifyBackup(elsewhere.Dir, nil)
	require.ErrorIs(t, err, errNoBackup)
	stop()
	cold, err := Backup(t.Context(), p.producer, o, func() (*blockstore.Cut, error) { return CutOfStopped(p.producer, zap.NewNop()) })
	require.NoError(t, err)
	require.GreaterOrEqual(t, cold.Height, third.Height)
	_, err = VerifyBackup(o.Dir, nil)
	require.NoError(t, err)
}

// A restored folder is sound, starts, has every block and transaction, and signs nothing, also where the settings say that
// the key is new. What is made from the blocks can be rebuilt in it.
func TestRestoredFolder(t *testing.T) {
	p, n, stop, o := backedUp(t)
	to := common.Address{9}
	height := p.send(n, &to, nil)
	sent, err := n.chain.BlockByNumber(height)
	require.NoError(t, err)
	made, err := Backup(t.Context(), p.producer, o, cutOf(t, p.producer))
	require.NoError(t, err)
	stop()

	dir := filepath.Join(t.TempDir(), "restored")
	_, err = Restore(t.Context(), RestoreOptions{Backup: o.Dir, Dir: p.producer.DataDir}, zap.NewNop())
	require.ErrorContains(t, err, "is not empty")
	_, err = Restore(t.Context(), RestoreOptions{Backup: o.Dir, Dir: dir}, zap.NewNop())
	require.NoError(t, err)
	c, err := config.Load(filepath.Join(dir, config.FileName), nil, nil)
	require.NoError(t, err)
	c.DataDir = dir
	require.True(t, c.Consensus.NewKey, "the settings of the backup say that the key is new")
	require.NoFileExists(t, filepath.Join(c.Path(c.Consensus.Dir), "votes.log"))
	store, err := OpenStore(c, zap.NewNop())
	require.NoError(t, err)
	report, err := store.Fsck(t.Context(), blockstore.FsckOptions{}, nil)
	require.NoError(t, err)
	require.Zero(t, report.Found, "%+v", report)
	require.NoError(t, store.Close())

	for _, step := range []func(){
		func() {},
		func() { _, _, err = RebuildState(c, zap.NewNop()) },
		func() { _, err = RebuildDerived(c, zap.NewNop()) },
		func() { _, report, err = RebuildIndex(t.Context(), c, zap.NewNop(), nil) },
	} {
		step()
		require.NoError(t, err)
		require.True(t, report.Sound(), "%+v", report)
		again, leave := p.run(c)
		require.Equal(t, made.Hash, again.chain.FinalHeader().Hash())
		require.Contains(t, again.driver.Status().Why, "it may have signed what its vote log does not hold")
		p.until("the blocks were executed, and the transaction is found with its receipt", func() bool {
			x, err := again.chain.Transaction(sent.Transactions[0].Hash())
			if err != nil || x == nil || x.Height != height {
				return false
			}
			rs, err := again.chain.Receipts(sent.Hash())
			return err == nil && len(rs) == len(sent.Transactions)
		})
		leave()
	}
}

// Whatever is missing or changed in a backup, it is found, and nothing that can be started is made of it.
func TestDamagedBackupIsRefused(t *testing.T) {
	p, _, stop, o := backedUp(t)
	_, err := Backup(t.Context(), p.producer, o, cutOf(t, p.producer))
	require.NoError(t, err)
	stop()
	var files []string
	require.NoError(t, filepath.WalkDir(o.Dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() && d.Name() != backupLock {
			files = append(files, path)
		}
		return err
	}))
	require.Greater(t, len(files), 8)
	for _, path := range files {
		whole, err := os.ReadFile(path)
		require.NoError(t, err)
		flipped := append([]byte(nil), whole...)
		flipped[len(flipped)/2] ^= 1
		for _, bad := range [][]byte{flipped, whole[:len(whole)-1], append(append([]byte(nil), whole...), 0), nil} {
			require.NoError(t, os.Remove(path))
			if bad != nil {
				require.NoError(t, os.WriteFile(path, bad, 0o600))
			}
			_, err := VerifyBackup(o.Dir, nil)
			require.Error(t, err, path)
			dir := filepath.Join(t.TempDir(), "restored")
			_, err = Restore(t.Context(), RestoreOptions{Backup: o.Dir, Dir: dir}, zap.NewNop())
			require.Error(t, err, path)
			require.NoDirExists(t, dir)
			require.NoError(t, os.WriteFile(path, whole, 0o600))
		}
	}
	_, err = VerifyBackup(o.Dir, nil)
	require.NoError(t, err)
}

// A backup takes no private key away that the one before holds, goes into no data folder, and removes what a killed one left.
func TestBackupRemovesOnlyItsOwnRemains(t *testing.T) {
	p, _, stop, o := backedUp(t)
	stop()
	take := func() (*blockstore.Cut, error) { return CutOfStopped(p.producer, zap.NewNop()) }
	first, err := Backup(t.Context(), p.producer, o, take)
	require.NoError(t, err)
	var keys, remains []string
	for _, f := range first.Files {
		if f.Secret {
			keys = append(keys, filepath.Join(o.Dir, f.File))
		}
	}
	require.NotEmpty(t, keys)
	plain := o
	plain.Secrets = false
	_, err = Backup(t.Context(), p.producer, plain, take)
	require.ErrorContains(t, err, "private key of the backup before")
	for _, key := range keys {
		require.FileExists(t, key)
	}
	m, err := VerifyBackup(o.Dir, nil)
	require.NoError(t, err)
	require.True(t, m.Secrets)

	shorter := func() (*blockstore.Cut, error) { // as of a node that was put back from an older copy
		cut, err := take()
		if err == nil {
			cut.Height--
		}
		return cut, err
	}
	_, err = Backup(t.Context(), p.producer, o, shorter)
	require.ErrorContains(t, err, "let it catch up and make the backup again")
	again, err := VerifyBackup(o.Dir, nil)
	require.NoError(t, err)
	require.Equal(t, m.Height, again.Height)

	for _, dir := range []string{p.producer.DataDir, p.producer.Path(p.producer.Store.Dir)} {
		into := o
		into.Dir = dir
		_, err = Backup(t.Context(), p.producer, into, take)
		require.ErrorContains(t, err, "holds the data of a node")
		require.NoFileExists(t, filepath.Join(dir, ManifestFile))
	}

	for _, name := range []string{backupFileDir + "/.tmp-0123456789abcdef-producer.json-77-1", ".tmp-" + ManifestFile + "-77-2", backupSegmentDir + "/00000099" + backupUnfinished} {
		remains = append(remains, filepath.Join(o.Dir, name))
	}
	own := []string{filepath.Join(o.Dir, backupFileDir, "own.txt"), filepath.Join(o.Dir, "own"+backupUnfinished)}
	for _, path := range append(append([]string(nil), remains...), own...) {
		require.NoError(t, os.WriteFile(path, []byte("x"), 0o600))
	}
	_, err = Backup(t.Context(), p.producer, o, take)
	require.NoError(t, err)
	for _, path := range remains {
		require.NoFileExists(t, path)
	}
	for _, path := range append(own, keys...) {
		require.FileExists(t, path)
	}

	for _, key := range keys { // moved to where it is kept: nothing is lost any more
		require.NoError(t, os.Remove(key))
	}
	_, err = Backup(t.Context(), p.producer, plain, take)
	require.NoError(t, err)
}

// A disk that is full is no damage of the node's segments, and a full segment that the backup has needs no room at all.
func TestBackupToAFullDisk(t *testing.T) {
	p, _, stop, o := backedUp(t)
	stop()
	take := func() (*blockstore.Cut, error) { return CutOfStopped(p.producer, zap.NewNop()) }
	first, err := Backup(t.Context(), p.producer, o, take)
	require.NoError(t, err)
	fill := func(number uint32) {
		require.NoError(t, os.Symlink("/dev/full", filepath.Join(o.Dir, backupSegmentDir, fmt.Sprintf("%08d%s", number, backupUnfinished))))
	}
	for _, r := range first.Segments {
		fill(r.Number)
	}
	_, err = Backup(t.Context(), p.producer, o, take)
	require.NoError(t, err, "nothing is new")

	lost := first.Segments[2]
	require.NoError(t, os.Remove(filepath.Join(o.Dir, lost.File)))
	fill(lost.Number)
	_, err = Backup(t.Context(), p.producer, o, take)
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.NotErrorIs(t, err, blockstore.ErrSegment)
	require.NotContains(t, err.Error(), "is damaged")
	_, err = Backup(t.Context(), p.producer, o, take) // the name that was full is gone
	require.NoError(t, err)
	_, err = VerifyBackup(o.Dir, nil)
	require.NoError(t, err)
}

// A restored folder does not take the topics' folder of the node whose backup it is.
func TestRestoreKeepsAwayFromFoldersElsewhere(t *testing.T) {
	p, _, stop, o := backedUp(t)
	stop()
	elsewhere := t.TempDir()
	written := *p.producer
	written.DataDir, written.PubSub.Dir = config.Default().DataDir, filepath.Join(elsewhere, "topics")
	require.NoError(t, config.Write(o.Settings, &written, true))
	_, err := Backup(t.Context(), p.producer, o, func() (*blockstore.Cut, error) { return CutOfStopped(p.producer, zap.NewNop()) })
	require.NoError(t, err)
	_, err = Restore(t.Context(), RestoreOptions{Backup: o.Dir, Dir: filepath.Join(elsewhere, "restored")}, zap.NewNop())
	require.ErrorContains(t, err, "pubsub.dir")
}

// With Link, full segments are second names and the one that blocks are still appended to is a copy: the backup stays
// whole while the node goes on.
func TestLinkedBackupStaysWholeWhileTheNodeGoesOn(t *testing.T) {
	p, n, stop, o := backedUp(t)
	height, _ := n.store.LIB()
	stop()
	o.Link = true
	m, err := Backup(t.Context(), p.producer, o, func() (*blockstore.Cut, error) { return CutOfStopped(p.producer, zap.NewNop()) })
	require.NoError(t, err)
	last := len(m.Segments) - 1
	for i, r := range m.Segments {
		own, err := os.Stat(filepath.Join(p.producer.Path(p.producer.Store.Dir), "segments", fmt.Sprintf("%08d.seg", r.Number)))
		require.NoError(t, err)
		kept, err := os.Stat(filepath.Join(o.Dir, r.File))
		require.NoError(t, err)
		require.Equal(t, i < last, os.SameFile(own, kept), r.File)
	}
	again, stop := p.run(p.producer)
	p.until("it goes on", func() bool { h, _ := again.store.LIB(); return h > max(height, m.Height)+20 })
	stop()
	_, err = VerifyBackup(o.Dir, nil)
	require.NoError(t, err)
}

// A file of the backup that was damaged there is written again by the next backup, though its size is right.
func TestBackupMendsItsDamagedFiles(t *testing.T) {
	p, _, stop, o := backedUp(t)
	stop()
	take := func() (*blockstore.Cut, error) { return CutOfStopped(p.producer, zap.NewNop()) }
	m, err := Backup(t.Context(), p.producer, o, take)
	require.NoError(t, err)
	for _, name := range []string{m.Segments[1].File, m.Files[0].File} {
		path := filepath.Join(o.Dir, name)
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		b[len(b)/2] ^= 1
		require.NoError(t, os.WriteFile(path, b, 0o600))
	}
	_, err = VerifyBackup(o.Dir, nil)
	require.Error(t, err)
	_, err = Backup(t.Context(), p.producer, o, take)
	require.NoError(t, err)
	_, err = VerifyBackup(o.Dir, nil)
	require.NoError(t, err)
}

// Runs of the backup before are kept up to the first height that the node has, and no block is in two runs.
func TestBackupKeepsWhatWasPruned(t *testing.T) {
	w := &backupWriter{next: new(Manifest), old: &Manifest{Segments: []BackupRun{{First: 0, Last: 4}, {First: 5, Last: 5}}}}
	require.NoError(t, w.keepPruned(5), "the run of block 5 was cut short, and the node has that segment")
	require.Len(t, w.next.Segments, 1)
	w.next = new(Manifest)
	require.NoError(t, w.keepPruned(6))
	require.Len(t, w.next.Segments, 2)
	require.ErrorContains(t, w.keepPruned(7), "no backup of blocks 6 to 6")
}

// A restore that fails after the backup was checked leaves a folder that cannot be started: its settings have no name yet,
// and it is marked as a copy before it has a block.
func TestRestoreThatFailsLeavesNothingToStart(t *testing.T) {
	p, _, stop, o := backedUp(t)
	stop()
	m, err := Backup(t.Context(), p.producer, o, func() (*blockstore.Cut, error) { return CutOfStopped(p.producer, zap.NewNop()) })
	require.NoError(t, err)
	dir := filepath.Join(t.TempDir(), "restored")
	gone := false
	progress := func(done, all int64) {
		if done > all/2 && !gone { // the second reading has begun
			gone = true
			require.NoError(t, os.Remove(filepath.Join(o.Dir, m.Segments[len(m.Segments)-1].File)))
		}
	}
	_, err = Restore(t.Context(), RestoreOptions{Backup: o.Dir, Dir: dir, Progress: progress}, zap.NewNop())
	require.ErrorContains(t, err, "remove the folder and restore again")
	require.NoFileExists(t, filepath.Join(dir, config.FileName))
	require.True(t, UnfinishedRestore(dir))
	require.FileExists(t, filepath.Join(dir, p.producer.Consensus.Dir, "COPY"))
}
