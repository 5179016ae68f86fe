package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"go.uber.org/zap"

	"github.com/bornode/bornode/blockstore"
	"github.com/bornode/bornode/chain"
	"github.com/bornode/bornode/config"
	"github.com/bornode/bornode/internal/aside"
	"github.com/bornode/bornode/internal/vfs"
)

// RebuildState sets the state of a stopped node aside; the next start executes all blocks again, which writes all
// receipts again too. A pruned node cannot do that. It gives what was set aside and how many blocks there are.
func RebuildState(cfg *config.Config, log *zap.Logger) (to string, blocks uint64, err error) {
	store, err := InspectStore(cfg, log)
	if err != nil {
		return "", 0, err
	}
	first := store.FirstHeight()
	blocks, _ = store.LIB()
	if err := store.Close(); err != nil {
		return "", 0, err
	}
	if first > 0 {
		return "", 0, fmt.Errorf("this node keeps blocks from %d on only (store.keep_blocks, store.keep_days): its state cannot be rebuilt from them and was left as it is; restore a backup, or join again with an empty folder and the node's keys", first)
	}
	cc := cfg.Chain
	cc.Dir = cfg.Path(cc.Dir)
	to, err = chain.SetStateAside(&cc)
	if errors.Is(err, fs.ErrNotExist) {
		return "", 0, fmt.Errorf("%s does not exist: the next start makes the state in any case", cc.Dir)
	}
	return to, blocks, err
}

// RebuildDerived sets the database of derived data of a stopped node aside and begins a new one; the index of transactions
// is completed by the next run.
func RebuildDerived(cfg *config.Config, log *zap.Logger) (to string, err error) {
	sc := cfg.Store
	sc.Dir = cfg.Path(sc.Dir)
	if to, err = blockstore.SetDerivedAside(sc, log); err != nil {
		return "", err
	}
	store, err := OpenStore(cfg, log)
	if err != nil {
		return "", err
	}
	return filepath.Join(sc.Dir, to), store.Close()
}

// RebuildIndex sets the height index and the log index of a stopped node aside and rebuilds the height index; the log index
// is rebuilt by the next run.
func RebuildIndex(ctx context.Context, cfg *config.Config, log *zap.Logger, progress func(blockstore.FsckProgress)) (moved []string, report blockstore.Report, err error) {
	sc := cfg.Store
	sc.Dir = cfg.Path(sc.Dir)
	to, err := blockstore.SetIndexAside(sc, log)
	if err != nil {
		return nil, report, err
	}
	moved = append(moved, filepath.Join(sc.Dir, to))
	if name := cfg.Path(cfg.RPC.LogIndex); name != "" {
		now := time.Now()
		folder := vfs.OS(filepath.Dir(name), vfs.Private)
		for _, file := range []string{name, name + ".tail"} {
			if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
				continue
			}
			to, err := aside.KeepMoved(folder, filepath.Base(file), aside.All, now)
			if err != nil {
				return moved, report, err
			}
			moved = append(moved, filepath.Join(filepath.Dir(file), to))
		}
	}
	store, err := OpenStore(cfg, log)
	if err != nil {
		return moved, report, err
	}
	report, err = store.Fsck(ctx, blockstore.FsckOptions{Repair: true}, progress)
	return moved, report, errors.Join(err, store.Close())
}
