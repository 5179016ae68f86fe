package join

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"go.uber.org/zap"

	"github.com/bornode/bornode/blockstore"
	"github.com/bornode/bornode/config"
	"github.com/bornode/bornode/genesis"
	"github.com/bornode/bornode/node"
	blocksync "github.com/bornode/bornode/sync"
	"github.com/bornode/bornode/transport"
	"github.com/bornode/bornode/transport/tcp"
)

// task is what a transferring process is told on its standard input, once it said ready.
type task struct {
	Peer   string `json:"peer"`
	Height uint64 `json:"height"` // up to which it gets blocks
	// Provider that the link is to be on in the end; a small history may be there before the link has moved, which is
	// waited for.
	Provider string        `json:"provider"`
	MoveTime time.Duration `json:"move_time"`
}

// answer is a line of its standard output: an empty one when it is ready and when it has all blocks, then the result.
type answer struct {
	Hash    common.Hash `json:"hash,omitzero"` // of the block at the height
	Carried carried     `json:"carried,omitzero"`
}

// joiner is a node's host, sync manager and block store around a driver that only checks digests.
type joiner struct {
	store   *blockstore.Store
	host    transport.Host
	driver  *digests
	manager *blocksync.Manager
	closers []func() error
}

func openJoiner(dir string) (j *joiner, err error) {
	cfg, err := config.Load(filepath.Join(dir, config.FileName), nil, nil)
	if err != nil {
		return nil, err
	}
	cfg.DataDir = dir
	gen, err := genesis.Load(cfg.Path(cfg.Genesis))
	if err != nil {
		return nil, err
	}
	zero, err := gen.Block()
	if err != nil {
		return nil, err
	}
	j = new(joiner)
	defer func() {
		if err != nil {
			err = errors.Join(err, j.close())
		}
	}()
	cfg.Store.Dir = cfg.Path(cfg.Store.Dir)
	if j.store, err = blockstore.Open(cfg.Store, nil, nil); err != nil {
		return nil, err
	}
	j.closers = append(j.closers, j.store.Close)
	if j.driver, err = openDigests(j.store, zero); err != nil {
		return nil, err
	}
	key, err := tcp.LoadOrCreateIdentity(cfg.Path(cfg.Keys.Identity))
	if err != nil {
		return nil, err
	}
	up, err := node.OpenUpgrader(&cfg.RDMA, j.store.Window(), zap.NewNop(), nil)
	if err != nil {
		return nil, err
	}
	if up != nil {
		j.closers = append(j.closers, up.Close)
		cfg.P2P.TCP.Upgrader = up
	}
	if j.host, err = tcp.New(cfg.P2P.TCP, key, nil, nil); err != nil {
		return nil, err
	}
	j.closers = append(j.closers, j.host.Close)
	j.manager, err = blocksync.New(cfg.Sync, blocksync.Deps{
		Host: j.host, Driver: j.driver, Blocks: j.store, Params: gen.Parameters(), Genesis: zero.Hash(),
		Identity: blocksync.Identity{Upgrades: gen.UpgradesDigest()}, Classify: classify,
	})
	return j, err
}

func (j *joiner) close() error {
	var errs []error
	for i := len(j.closers) - 1; i >= 0; i-- {
		errs = append(errs, j.closers[i]())
	}
	return errors.Join(errs...)
}

// Transfer is the joiner of the transfer phase, a process with a node's folder: it says when it is ready, gets the
// blocks it is told to, says so, and ends when in ends.
func Transfer(ctx context.Context, dir string, in io.Reader, out io.Writer) (err error) {
	j, err := openJoiner(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, j.close()) }()
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- j.manager.Run(running) }()
	defer func() {
		stop()
		if e := <-ended; !errors.Is(e, context.Canceled) {
			err = errors.Join(err, e)
		}
	}()
	to, from := json.NewEncoder(out), json.NewDecoder(in)
	if err := to.Encode(answer{}); err != nil {
		return err
	}
	var t task
	if err := from.Decode(&t); err != nil {
		return fmt.Errorf("transfer: %w", err)
	}
	j.driver.expect(t.Height)
	if err := j.host.Dial(ctx, t.Peer); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case err := <-j.driver.done:
		if err != nil {
			return err
		}
	}
	if err := to.Encode(answer{}); err != nil { // what is measured ends here
		return err
	}
	a, err := j.result(ctx, &t)
	if err != nil {
		return err
	}
	if err := to.Encode(a); err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, in) // until the other side has taken the last readings
	return nil
}

func (j *joiner) result(ctx context.Context, t *task) (a answer, err error) {
	if a.Hash, err = j.store.HashByHeight(t.Height); err != nil {
		return a, err
	}
	return a, until(ctx, t.MoveTime, syncEvery, func() bool {
		for _, p := range j.manager.Peers() {
			a.Carried = carried{Provider: p.Path.Provider, Ranges: p.RangeBytes, Pulled: p.PulledBytes, Channel: p.Path.Counters["bytes"]}
		}
		return a.Carried.Provider == t.Provider
	})
}

// until calls done every few milliseconds until it is true or the time is over; that is no error, the end of ctx is.
func until(ctx context.Context, limit, every time.Duration, done func() bool) error {
	end := time.NewTimer(limit)
	defer end.Stop()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for !done() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-end.C:
			return nil
		case <-tick.C:
		}
	}
	return nil
}

var (
	_ blocksync.Driver = (*digests)(nil)
	_ blocksync.Blocks = (*blockstore.Store)(nil)
)
