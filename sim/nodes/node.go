package nodes

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/rawdb"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/ethdb"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/blockstore"
	"github.com/bornode/bornode/chain"
	"github.com/bornode/bornode/consensus"
	readclock "github.com/bornode/bornode/consensus/clock"
	"github.com/bornode/bornode/consensus/signer"
	"github.com/bornode/bornode/internal/vfs/faultfs"
	bornode "github.com/bornode/bornode/node"
	"github.com/bornode/bornode/sim/nodes/statestore"
	blocksync "github.com/bornode/bornode/sync"
	"github.com/bornode/bornode/transport"
	"github.com/bornode/bornode/transport/link"
	"github.com/bornode/bornode/transport/mem"
	"github.com/bornode/bornode/txpool"
)

// Folders of a node's disk.
const (
	storeDir     = "blocks"
	stateDir     = "state"
	consensusDir = "consensus"
	poolDir      = "pool"
)

// node is a machine of the simulation: its keys, its disk, its clock, and the life that runs on it.
type node struct {
	w      *world
	id     int
	name   transport.PeerID
	signer *signer.Local // nil: an observer
	medium *medium
	clock  *clock
	log    *lineLog

	// Owned by the world's goroutine.
	disk *faultfs.Disk // what the next life starts on, while none runs
	life *life         // nil: it is off
	born int           // lives so far

	told toldFinal

	logFrom time.Time // when the vote log that it has began, or was set back to an older one
	ends    []string  // sentences of lives that ended by themselves
	failing int       // starts one after another that ended by themselves

	voted struct { // of Bugs.VotesTwice
		mu       sync.Mutex
		newest   block.Vote
		restored bool
	}
}

// life is one run of the node's program. Its parts are wired in the order of package node.
type life struct {
	n      *node
	number int
	began  time.Time
	drive  *drive
	log    *zap.Logger
	ctx    context.Context
	cancel context.CancelFunc

	store  *blockstore.Store
	chain  *chain.Chain
	pool   atomic.Pointer[txpool.Pool]
	driver *consensus.Driver
	sync   *blocksync.Manager
	host   *mem.Host
	ready  chan struct{}
	parts  []func() error // to be closed, in order of opening

	fate   fate
	opened chan struct{} // closed when open has returned
	ended  chan struct{} // closed when all of its goroutines have ended
	err    error         // of the parts; read when ended is closed
}

// fate is how a life ends.
type fate struct {
	mu     sync.Mutex
	over   bool          // nothing that it says counts any more
	left   *faultfs.Disk // what its end left on the disk
	reason error         // why it ended by itself
}

// isOver reports whether the life's machine or process has ended, though its goroutines may still run.
func (l *life) isOver() bool {
	l.fate.mu.Lock()
	defer l.fate.mu.Unlock()
	return l.fate.over
}

// start begins a life on what the disk holds.
func (n *node) start() {
	n.born++
	l := &life{n: n, number: n.born, began: time.Now(), ready: make(chan struct{}), opened: make(chan struct{}), ended: make(chan struct{})}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.drive = newDrive(n.disk, n.medium, n.w.rng.Uint64N(1000), func() { n.w.post(func() { n.cutWasPlanned(l) }) })
	l.log = n.log.logger(l)
	n.life, n.disk = l, nil
	n.w.note("node %d starts, life %d", n.id, l.number)
	go l.run()
}

// run is the life: it opens the parts, runs them to their end and closes them.
func (l *life) run() {
	defer close(l.ended)
	err := l.open()
	close(l.opened)
	if err == nil {
		l.checkTold()
		err = l.runParts()
	}
	for i := len(l.parts) - 1; i >= 0; i-- {
		err = errors.Join(err, l.parts[i]())
	}
	l.err = err
	l.die(err, l.killed)
	l.n.w.post(func() { l.n.hasEnded(l) })
}

// killed is what the end of the process leaves on the disk: all that it wrote, synced or not.
func (l *life) killed() *faultfs.Disk {
	if cut := l.drive.disk.Crashed(); cut != nil { // a planned power cut came first
		return cut
	}
	return l.drive.disk.Killed()
}

// die notes how the life ended, unless it has: nothing that it does afterwards reaches the disk or another node.
func (l *life) die(reason error, left func() *faultfs.Disk) {
	l.fate.mu.Lock()
	defer l.fate.mu.Unlock()
	if l.fate.over {
		return
	}
	l.fate.over, l.fate.reason = true, reason
	l.n.w.unplug(l.n)
	l.fate.left = left()
	l.drive.ended.Store(true)
	l.cancel()
}

func (l *life) onClose(f func() error) { l.parts = append(l.parts, f) }

func (l *life) open() error {
	w := l.n.w
	if err := l.openStorage(); err != nil {
		return err
	}
	host, err := w.net.NewHost(l.n.name, link.DefaultConfig(), l.log.Named("link"), nil)
	if err != nil {
		return err
	}
	l.host = host
	l.onClose(host.Close)
	return l.openConsensus()
}

func (l *life) openStorage() (err error) {
	w := l.n.w
	sc := blockstore.DefaultConfig()
	for _, dir := range []string{storeDir, stateDir, consensusDir, poolDir} {
		if err := l.drive.folder(dir).Mkdir("."); err != nil {
			return err
		}
	}
	sc.Dir = storeDir
	sc.FS, sc.SegmentBytes, sc.CacheBytes = w.s.Bugs.disk(l, storeDir), segmentBytes, 0
	sc.MetaBuffer, sc.IndexBuffer, sc.IndexCache, sc.RepairWait = 64<<10, 64<<10, 0, repairWait
	if l.store, err = blockstore.Open(sc, l.log.Named("store"), nil); err != nil {
		return err
	}
	l.onClose(l.store.Close)
	cc := chain.DefaultConfig()
	cc.Dir, cc.FS, cc.OpenDatabase = stateDir, l.drive.folder(stateDir), l.openState
	cc.TrieCacheMiB, cc.StateCacheMiB, cc.WriteBufferMiB, cc.BodyCacheMiB = 1, 1, 1, 1
	cc.FlushBlocks, cc.FlushInterval, cc.SenderWorkers = 128, flushEvery, 1
	if l.chain, err = chain.OpenBeforeReplay(l.ctx, cc, w.genesis, w.s.Bugs.store(l.store), l.log.Named("chain"), nil); err != nil {
		return err
	}
	l.onClose(l.chain.Close)
	l.onClose(func() error {
		if p := l.pool.Load(); p != nil {
			return p.Close()
		}
		return nil
	})
	if _, replaying := l.chain.Replaying(); replaying {
		return nil
	}
	return l.openPool()
}

// openState is chain.Config.OpenDatabase: the key-value store of simulations, without an ancient directory.
func (l *life) openState(cfg *chain.Config, fail func(file string, err error)) (ethdb.Database, error) {
	kv, err := statestore.Open(l.drive.folder(stateDir+"/kv"), statestore.Options{Fail: fail})
	if err != nil {
		return nil, chain.OpenFault(cfg.Dir, cfg.Dir+"/kv", err)
	}
	return rawdb.NewDatabase(kv), nil
}

func (l *life) openPool() error {
	cfg := txpool.DefaultConfig()
	cfg.Journal = "pool.journal"
	p, err := txpool.New(cfg, l.chain, txpool.Deps{Senders: l.chain.Senders(), FS: l.drive.folder(poolDir), Log: l.log.Named("pool")})
	if err != nil {
		return err
	}
	l.pool.Store(p)
	close(l.ready)
	return nil
}

func (l *life) openConsensus() (err error) {
	w, n := l.n.w, l.n
	cfg := consensus.DefaultConfig()
	cfg.Dir = consensusDir
	cfg.FS, cfg.NewKey = w.s.Bugs.disk(l, consensusDir), n.born == 1 || w.s.Bugs.NewKeys
	out := &outlet{l: l}
	deps := consensus.Deps{
		Params: w.genesis.Parameters(), Genesis: l.chain.Genesis().Hash(), Schedule: w.genesis.Schedule(),
		Chain: l.chain, Store: l.store, Network: out, Ready: l.ready, Txs: l.transactions, Repaired: l.store.Repaired,
		Now: n.clock.Now, Clocks: out.readings, FinalHeader: l.store.HeaderByHeight, Log: l.log.Named("consensus"),
	}
	if n.signer != nil {
		deps.Signer = n.signer
	}
	if l.driver, err = consensus.Open(cfg, deps); err != nil {
		return err
	}
	l.onClose(l.driver.Close)
	identity := blocksync.Identity{Upgrades: w.genesis.UpgradesDigest()}
	if n.signer != nil {
		identity.Account, identity.SignerStart = n.signer.Account(), l.driver.Status().Started
		identity.Sign = func(h common.Hash) ([]byte, error) {
			sig, err := n.signer.SignSeal(h)
			return sig[:], err
		}
	}
	syncDeps := blocksync.Deps{
		Host: l.host, Blocks: l.store, Pool: latePool{l}, Params: w.genesis.Parameters(), Genesis: l.chain.Genesis().Hash(),
		Identity: identity, Repairs: l.store, Receipts: l.store, Now: n.clock.Now, Log: l.log.Named("sync"),
	}
	bornode.AdaptConsensus(&syncDeps, l.driver)
	syncDeps.Driver, syncDeps.FirstSync = &ear{syncDeps.Driver, w.check}, &firstEar{syncDeps.FirstSync, w.check}
	if l.sync, err = blocksync.New(blocksync.DefaultConfig(), syncDeps); err != nil {
		return err
	}
	out.m.Store(l.sync)
	return nil
}

// transactions orders the pool for a block on this parent, as package node does.
func (l *life) transactions(parent common.Hash) chain.TxSource {
	h, err := l.chain.HeaderByHash(parent)
	p := l.pool.Load()
	if h == nil || err != nil || p == nil {
		return nil
	}
	params, err := l.chain.ParamsAt(h)
	if err != nil {
		return nil
	}
	return p.Source(chain.BaseFee(&params, l.chain.Config(), h))
}

// runParts runs what has goroutines until one fails or the life is ended.
func (l *life) runParts() error {
	g, ctx := errgroup.WithContext(l.ctx)
	g.Go(func() error { return part("consensus", l.driver.Run(ctx)) })
	g.Go(func() error { return part("sync", l.sync.Run(ctx)) })
	g.Go(func() error { return part("chain", l.resume(ctx)) })
	g.Go(func() error { return l.store.AwaitFailure(ctx) })
	w := l.n.w
	asks := &client{l: l, rng: rand.New(rand.NewPCG(w.s.Seed, uint64(l.n.id)<<16|uint64(l.number))), c: w.check} //nolint:gosec // small
	g.Go(func() error { asks.run(ctx); return nil })
	for _, watch := range []func(context.Context){l.watchHead, l.gossip} {
		g.Go(func() error {
			select {
			case <-l.ready:
				watch(ctx)
			case <-ctx.Done():
			}
			return nil
		})
	}
	for _, o := range w.nodes {
		if o.id > l.n.id { // the lower one dials
			if err := l.host.Dial(ctx, mem.Addr(o.name)); err != nil {
				return err
			}
		}
	}
	if err := g.Wait(); err != nil || l.ctx.Err() != nil {
		return err
	}
	return errors.New("a part of the node ended without an error")
}

func part(name string, err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return nil
	}
	return fmt.Errorf("%s: %w", name, err)
}

// resume executes again what the last end left without a state, and waits for damaged blocks as package node does.
func (l *life) resume(ctx context.Context) error {
	select {
	case <-l.ready:
		return nil
	default:
	}
	for {
		err := l.chain.Replay(ctx)
		var damage block.ErrCorrupt
		if last, _ := l.store.LIB(); err == nil {
			return l.openPool()
		} else if !errors.As(err, &damage) || damage.Height > last {
			return err
		}
		if err := l.store.AwaitRepair(ctx, damage.Height); ctx.Err() != nil {
			return ctx.Err()
		} else if err != nil {
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
			}
		}
	}
}

func (l *life) watchHead(ctx context.Context) {
	heads, reorgs := make(chan chain.HeadEvent, 256), make(chan chain.ReorgEvent, 256)
	hs, rs := l.chain.SubscribeHead(heads), l.chain.SubscribeReorg(reorgs)
	defer hs.Unsubscribe()
	defer rs.Unsubscribe()
	for {
		select {
		case <-ctx.Done():
			return
		case <-heads:
			l.pool.Load().HeadChanged()
		case r := <-reorgs:
			var txs types.Transactions
			for _, b := range r.Removed {
				txs = append(txs, b.Transactions...)
			}
			l.pool.Load().Abandoned(txs)
		}
	}
}

func (l *life) gossip(ctx context.Context) {
	txs := make(chan types.Transactions, 256)
	sub := l.pool.Load().Subscribe(txs)
	defer sub.Unsubscribe()
	for {
		select {
		case <-ctx.Done():
			return
		case t := <-txs:
			l.sync.BroadcastTransactions(t)
		}
	}
}

// outlet is the driver's way to the peers.
type outlet struct {
	l *life
	m atomic.Pointer[blocksync.Manager]
}

// BroadcastBlock implements consensus.Network.
func (o *outlet) BroadcastBlock(b *block.Block, from string) {
	if m := o.m.Load(); m != nil {
		m.BroadcastBlock(b, from)
	}
}

// readings are what the sync manager knows of other producers' clocks.
func (o *outlet) readings() []readclock.Reading {
	if m := o.m.Load(); m != nil {
		return m.Clocks()
	}
	return nil
}

// BroadcastVotes implements consensus.Network.
func (o *outlet) BroadcastVotes(vs []block.Vote) {
	m := o.m.Load()
	if m == nil {
		return
	}
	m.BroadcastVotes(o.l.n.w.s.Bugs.votes(o.l, vs))
}

// latePool is the pool as block synchronisation holds it: there is none before the replay is done.
type latePool struct{ l *life }

// Pending implements blocksync.Pool.
func (p latePool) Pending() []common.Hash {
	if pool := p.l.pool.Load(); pool != nil {
		return pool.Pending()
	}
	return nil
}

// Get implements blocksync.Pool.
func (p latePool) Get(h common.Hash) *types.Transaction {
	if pool := p.l.pool.Load(); pool != nil {
		return pool.Get(h)
	}
	return nil
}

// Add implements blocksync.Pool.
func (p latePool) Add(txs []*types.Transaction, local bool) []error {
	if pool := p.l.pool.Load(); pool != nil {
		return pool.Add(txs, local)
	}
	errs := make([]error, len(txs))
	for i := range errs {
		errs[i] = consensus.ErrNotReady
	}
	return errs
}
