package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"go.uber.org/zap"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/config"
	"github.com/bornode/bornode/consensus"
	"github.com/bornode/bornode/genesis"
	"github.com/bornode/bornode/internal/vfs"
)

// Bounds of what a restore holds in memory at once.
const (
	restoreBlocks = 256
	restoreBytes  = 32 << 20
)

// RestoreOptions say what a restore makes.
type RestoreOptions struct {
	Backup   string // folder of the backup
	Dir      string // the node's folder: missing or empty
	Settings string // a settings file to take in place of the backup's; empty: the backup's
	// Progress, which may be nil, gets the bytes read so far and in all; the backup is read twice.
	Progress func(done, all int64)
	open     openFolder
}

// Restore makes a node's folder of a backup, which is checked whole first. The folder is marked as a copy: a producer
// that starts in it signs nothing until the chain proves that this is safe. The settings file comes last, so that a folder
// whose restore did not end cannot be started.
func Restore(ctx context.Context, o RestoreOptions, log *zap.Logger) (*Manifest, error) {
	if err := checkEmpty(o.Dir); err != nil {
		return nil, err
	}
	half := func(offset int64) func(done, all int64) {
		return func(done, all int64) {
			if o.Progress != nil {
				o.Progress(offset*all+done, 2*all)
			}
		}
	}
	m, err := VerifyBackup(o.Backup, half(0))
	if err != nil {
		return nil, err
	}
	if err := makeRestored(ctx, m, o, half(1), log); err != nil {
		return nil, fmt.Errorf("restore to %s: %w; nothing there is of use, remove the folder and restore again", o.Dir, err)
	}
	return m, nil
}

// UnfinishedRestore reports that a restore to the folder did not end.
func UnfinishedRestore(dir string) bool {
	_, err := os.Lstat(filepath.Join(dir, config.FileName+backupUnfinished))
	return err == nil
}

// checkEmpty refuses a folder that holds anything.
func checkEmpty(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err == nil && len(entries) > 0 {
		err = fmt.Errorf("%s is not empty (it has %s): a backup is restored to a folder of its own, name one that does not exist", dir, entries[0].Name())
	}
	return err
}

func makeRestored(ctx context.Context, m *Manifest, o RestoreOptions, progress func(done, all int64), log *zap.Logger) error {
	files := o.open.files(o.Dir)
	if err := files.Mkdir("."); err != nil {
		return err
	}
	settings, err := restoreFiles(m, o)
	if err != nil {
		return err
	}
	cfg, err := loadRestored(settings, o.Dir)
	if err != nil {
		return errors.Join(err, os.Remove(settings))
	}
	gen, err := genesis.Load(cfg.Path(cfg.Genesis))
	if err != nil {
		return err
	}
	zero, err := gen.Block()
	if err != nil {
		return err
	}
	if zero.Hash() != m.Genesis {
		return fmt.Errorf("the genesis file of the backup makes block 0 %s, its blocks are of the chain with genesis %s", zero.Hash(), m.Genesis)
	}
	if err := consensus.MarkCopied(cfg.Path(cfg.Consensus.Dir)); err != nil {
		return err
	}
	if err := restoreStore(ctx, m, cfg, progress, log); err != nil {
		return err
	}
	if err := files.Rename(filepath.Base(settings), config.FileName); err != nil {
		return err
	}
	return files.SyncDir(".")
}

// restoreFiles writes the small files and returns the path of the settings, which have a name of their own until the end.
func restoreFiles(m *Manifest, o RestoreOptions) (settings string, err error) {
	settings = filepath.Join(o.Dir, config.FileName+backupUnfinished)
	for i := range m.Files {
		f := &m.Files[i]
		b, err := m.readFile(f)
		if err != nil {
			return "", err
		}
		to := filepath.Join(o.Dir, filepath.FromSlash(f.Name))
		if f.Name == config.FileName {
			if o.Settings != "" {
				if b, err = os.ReadFile(o.Settings); err != nil {
					return "", err
				}
			}
			to = settings
		}
		if err := vfs.OS(filepath.Dir(to), vfs.Private).Mkdir("."); err != nil {
			return "", err
		}
		if err := vfs.CreateFileAt(to, b); err != nil {
			return "", err
		}
	}
	return settings, nil
}

// loadRestored reads the settings of a restored folder. All data has to lie in it: a path that leads elsewhere is
// perhaps that of the node whose backup it is.
func loadRestored(settings, dir string) (*config.Config, error) {
	cfg, err := config.Load(settings, nil, nil)
	if err != nil {
		return nil, err
	}
	here, name := config.Default().DataDir, restoredGenesis(cfg)
	if cfg.DataDir != here || cfg.Genesis != name { // where the node of the backup is, or was
		cfg.DataDir, cfg.Genesis = here, name
		if err := config.Write(settings, cfg, true); err != nil {
			return nil, err
		}
	}
	cfg.DataDir = dir
	for _, x := range []struct{ key, path string }{
		{"store.dir", cfg.Store.Dir}, {"chain.dir", cfg.Chain.Dir}, {"consensus.dir", cfg.Consensus.Dir},
		{"pool.journal", cfg.Pool.Journal}, {"pubsub.dir", cfg.PubSub.Dir}, {"pubsub.store.dir", cfg.PubSub.Store.Dir}, {"rpc.log_index", cfg.RPC.LogIndex},
	} {
		if x.path != "" && !filepath.IsLocal(x.path) {
			return nil, fmt.Errorf("the settings name %s %s outside the node's folder, where the node of the backup may keep its own: restore with --settings and a copy of the file with a path below the folder", x.key, x.path)
		}
	}
	return cfg, nil
}

// restoreStore writes the blocks and their proof to a new store.
func restoreStore(ctx context.Context, m *Manifest, cfg *config.Config, progress func(done, all int64), log *zap.Logger) (err error) {
	store, err := OpenStore(cfg, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	var waiting []*block.Block
	size := 0
	flush := func(f block.FinalUpdate) error {
		err := store.AppendFinalAsync(waiting, f)
		waiting, size = nil, 0
		if f.Root != nil || f.FC != nil {
			return err()
		}
		return ctx.Err()
	}
	all, done := m.bytes(), int64(0)
	for i := range m.Segments {
		r := &m.Segments[i]
		err := m.readRun(r, func(b *block.Block, bytes int) error {
			waiting, size = append(waiting, b), size+bytes
			if len(waiting) < restoreBlocks && size < restoreBytes || b.Number() == m.Height {
				return nil
			}
			return flush(block.FinalUpdate{})
		})
		if err != nil {
			return err
		}
		done += r.Bytes
		progress(done, all)
	}
	proof, err := m.proof()
	if err != nil {
		return err
	}
	if err := flush(proof); err != nil {
		return err
	}
	if err := store.Sync(); err != nil {
		return err
	}
	if height, hash := store.LIB(); height != m.Height || hash != m.Hash {
		return fmt.Errorf("the restored store ends with block %d %s, the backup with block %d %s", height, hash, m.Height, m.Hash)
	}
	return store.Failed()
}

// proof is what proves the last block final.
func (m *Manifest) proof() (f block.FinalUpdate, err error) {
	if len(m.QC) > 0 {
		if f.QC, err = block.DecodeCertificate(m.QC); err != nil {
			return f, fmt.Errorf("the manifest's QC: %w", err)
		}
	}
	if len(m.FC) > 0 {
		if f.FC, err = block.DecodeCertificate(m.FC); err != nil {
			return f, fmt.Errorf("the manifest's FC: %w", err)
		}
		if f.FC.Kind != block.Precommit || f.FC.Target.Hash != m.Hash {
			return f, fmt.Errorf("the manifest's FC is for %s, the last block is %s", f.FC.Target.Hash, m.Hash)
		}
	}
	if len(m.Root) > 0 {
		f.Root = m.Root
	}
	return f, nil
}
