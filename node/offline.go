package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"go.uber.org/zap"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/blockstore"
	"github.com/bornode/bornode/config"
	"github.com/bornode/bornode/consensus"
	"github.com/bornode/bornode/genesis"
	"github.com/bornode/bornode/internal/exit"
	"github.com/bornode/bornode/internal/telemetry"
)

// feedBlocks is how many blocks are handed to the driver at once, less if they have more than feedBytes.
const (
	feedBlocks = 256
	feedBytes  = 64 << 20
	readAhead  = 64 // blocks decoded while the driver works
)

// OpenStore opens the block store of a stopped node's folder for use: it recovers as at a start, and Fsck may repair.
func OpenStore(cfg *config.Config, log *zap.Logger) (*blockstore.Store, error) {
	sc := cfg.Store
	sc.Dir = cfg.Path(sc.Dir)
	return blockstore.Open(sc, log, nil)
}

// InspectStore opens it to look at it: nothing of the folder changes.
func InspectStore(cfg *config.Config, log *zap.Logger) (*blockstore.Store, error) {
	sc := cfg.Store
	sc.Dir = cfg.Path(sc.Dir)
	return blockstore.Inspect(sc, log)
}

// RestoreBlockZero puts block 0 of a stopped node's store in its place if its record is damaged.
func RestoreBlockZero(cfg *config.Config, store *blockstore.Store, log *zap.Logger) error {
	gen, err := LoadGenesis(cfg)
	if err != nil {
		return err
	}
	return restoreBlockZero(store, gen, log)
}

// restoreBlockZero puts block 0 in its place if its record is damaged: no peer sends it, genesis makes it, and a start
// needs it.
func restoreBlockZero(store *blockstore.Store, gen *genesis.Genesis, log *zap.Logger) error {
	if _, err := store.BlockByHeight(0); store.FirstHeight() > 0 || !errors.As(err, new(blockstore.ErrCorrupt)) {
		return nil
	}
	b, err := gen.Block()
	if err == nil {
		err = store.Replace(0, b)
	}
	if err != nil {
		return fmt.Errorf("block 0 is damaged and is not restored from the genesis file: %w", err)
	}
	log.Warn("block 0 was damaged and is restored from the genesis file; check the disk")
	return nil
}

// storeFault makes a damaged block that keeps a node from starting the end of it that it is: nothing changes until an
// operator restores the block.
func storeFault(dir string, err error) error {
	if !errors.As(err, new(blockstore.ErrCorrupt)) || errors.As(err, new(*exit.Fault)) {
		return err
	}
	return &exit.Fault{What: "the block store is damaged", File: dir, Cause: err, Remedy: "bornode fsck tells of all that is damaged there"}
}

// Import checks, executes and stores the blocks of an export file in the folder of a stopped node, in the mode of
// sync.mode. Blocks that the node has already are skipped, so an interrupted import is simply run again. It returns the
// heights of LIB before and after.
func Import(ctx context.Context, cfg *config.Config, file *blockstore.ImportReader, log *zap.Logger, progress func(height uint64)) (from, to uint64, err error) {
	n := newNode(cfg, log, telemetry.NewRegistry())
	defer func() { err = errors.Join(err, n.close()) }()
	if n.gen, err = LoadGenesis(cfg); err != nil {
		return 0, 0, err
	}
	if err := n.openStorage(ctx); err != nil {
		return 0, 0, err
	}
	if err := n.chain.Replay(ctx); err != nil {
		return 0, 0, storeFault(cfg.Path(cfg.Store.Dir), err)
	}
	if file.Genesis() != n.chain.Genesis().Hash() {
		return 0, 0, fmt.Errorf("the file holds blocks of the chain with genesis %s, this node is of %s", file.Genesis(), n.chain.Genesis().Hash())
	}
	cc := cfg.Consensus
	cc.Dir = cfg.Path(cc.Dir)
	driver, err := consensus.Open(cc, consensus.Deps{Params: n.gen.Parameters(), Genesis: n.chain.Genesis().Hash(), Schedule: n.gen.Schedule(),
		Recoveries: n.recovered.forMachine(), Chain: n.chain, Store: n.store, Log: log})
	if err != nil {
		return 0, 0, err
	}
	n.onClose(driver.Close)
	mode := consensus.Full
	if cfg.Sync.Mode == "certified" {
		mode = consensus.Certified
	}
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- driver.Run(running) }()
	from = driver.Status().LIB.Height
	err = Feed(ctx, driver, mode, from+1, file.Next, func() *block.Certificate { _, fc := file.Certificates(); return fc }, progress)
	to = driver.Status().LIB.Height
	stop()
	return from, to, errors.Join(nameRecovery(cfg, err), part("consensus", <-ended))
}

// nameRecovery says what to do where blocks go on by a recovery that this folder lacks.
func nameRecovery(cfg *config.Config, err error) error {
	if !errors.Is(err, consensus.ErrRecovered) {
		return err
	}
	return fmt.Errorf("%w; have it applied to this folder, bornode recover apply FILE --dir %s, then import the rest: a node that goes by it keeps the file as %s",
		err, cfg.DataDir, filepath.Join(RecoveryFolder, appliedName(1)))
}

// Feed gives blocks to a running driver in order, those below the height first being skipped, until next returns
// io.EOF. last, if not nil, is asked then for a certificate of the last block.
func Feed(ctx context.Context, d *consensus.Driver, mode consensus.Mode, first uint64, next func() (*block.Block, error),
	last func() *block.Certificate, progress func(height uint64),
) error {
	var waiting []*block.Block
	bytes := uint64(0) // of what came since the last flush
	flush := func() error {
		if len(waiting) == 0 {
			return nil
		}
		res, err := d.AddRange(ctx, waiting, mode)
		if err != nil {
			return err
		}
		if progress != nil {
			progress(res.Applied)
		}
		waiting, bytes = append(waiting[:0:0], waiting[len(waiting)-res.Rest:]...), 0
		return nil
	}
	reading, stop := context.WithCancel(ctx)
	defer stop()
	decoded := decodeAhead(reading, next)
	for item := range decoded {
		if errors.Is(item.err, io.EOF) {
			break
		}
		if item.err != nil {
			return item.err
		}
		if item.b.Number() < first {
			continue
		}
		for _, tx := range item.b.Transactions {
			bytes += tx.Size()
		}
		if waiting = append(waiting, item.b); len(waiting)%feedBlocks == 0 || bytes >= feedBytes {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if last != nil {
		if c := last(); c != nil {
			if err := d.AddCertificate(c); err != nil && !errors.Is(err, consensus.ErrUnknownParent) && !errors.Is(err, consensus.ErrKnown) && !errors.Is(err, consensus.ErrBelowLIB) {
				return err
			}
		}
	}
	return flush()
}

type feedItem struct {
	b   *block.Block
	err error
}

// decodeAhead reads while the driver works.
func decodeAhead(ctx context.Context, next func() (*block.Block, error)) <-chan feedItem {
	ch := make(chan feedItem, readAhead)
	go func() {
		defer close(ch)
		for {
			b, err := next()
			select {
			case ch <- feedItem{b, err}:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return ch
}
