package chain

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/internal/exit"
	"github.com/bornode/bornode/internal/failpoint"
	"github.com/bornode/bornode/internal/senders"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/lru"
	"github.com/ethereum/go-ethereum/core"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/core/vm"
	"github.com/ethereum/go-ethereum/event"
	"github.com/ethereum/go-ethereum/params"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
)

// Chain is the block tree with its states. See the package comment for who may call what.
type Chain struct {
	cfg      Config
	params   block.Parameters // of genesis; what may change by vote stands in rules
	config   *params.ChainConfig
	schedule block.Schedule // of genesis
	genesis  *block.Block
	signer   types.Signer
	senders  *senders.Cache
	store    Store
	states   *states
	log      *zap.Logger
	m        *metrics

	exec   chan struct{} // the execution slot: holds one token while nobody executes
	replay replay        // of what a kill left without a state
	closed atomic.Bool
	ending sync.RWMutex   // held for writing while the event queue is closed
	wg     sync.WaitGroup // receipt writer, dispatcher

	// Owned by whoever holds the execution slot.
	built       map[common.Hash]*outcome
	builtOrder  []common.Hash
	sinceFlush  flushed
	jumpDests   vm.JumpDestCache
	precompiles *vm.PrecompileCache
	watched     *decided // as of the head whose decided changes were logged last

	mu   sync.RWMutex
	tree *tree

	rules, asked *ruleBook // of execution and building; of all who ask
	lastParams   atomic.Pointer[block.Parameters]
	bodies       *bodyCache
	headers      *lru.Cache[common.Hash, *block.SealedHeader]
	hashes       *lru.Cache[uint64, common.Hash] // irreversible only
	receiptCache *lru.Cache[common.Hash, types.Receipts]
	receipts     *receiptWriter
	changes      *changeLog
	recoveries   atomic.Uint64
	flushes      atomic.Uint64
	members      atomic.Pointer[memberList]

	events    chan any
	scope     event.SubscriptionScope
	headFeed  event.FeedOf[HeadEvent]
	reorgFeed event.FeedOf[ReorgEvent]
	finalFeed event.FeedOf[FinalEvent]
}

// Open opens the state database, brings store and state to a consistent head and starts the two goroutines. The head
// is the highest durable reversible block whose state survived, else the last irreversible block. Blocks whose state
// was lost are executed again, which ctx may interrupt.
func Open(ctx context.Context, cfg Config, gen Genesis, store Store, log *zap.Logger, reg prometheus.Registerer) (*Chain, error) {
	c, err := OpenBeforeReplay(ctx, cfg, gen, store, log, reg)
	if err != nil {
		return nil, err
	}
	if err := c.Replay(ctx); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// OpenBeforeReplay is Open without executing blocks again: that is left to Replay, which must be called if Replaying
// says so, which it also does if a block is damaged that must be read to know whether there is anything to execute. Until then stored blocks can be read, the head is the last irreversible block, states that are not there yet
// are refused with ErrReplaying, and what executes waits.
func OpenBeforeReplay(ctx context.Context, cfg Config, gen Genesis, store Store, log *zap.Logger, reg prometheus.Registerer) (*Chain, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	g, err := gen.Block()
	if err != nil {
		return nil, fmt.Errorf("block 0: %w", err)
	}
	if log == nil {
		log = zap.NewNop()
	}
	m, err := newMetrics(reg)
	if err != nil {
		return nil, err
	}
	c := &Chain{
		cfg: cfg, params: gen.Parameters(), config: gen.ChainConfig(), schedule: gen.Schedule(), genesis: g, store: store, log: log, m: m,
		exec: make(chan struct{}, 1), built: make(map[common.Hash]*outcome),
		jumpDests: core.NewJumpDestCache(), precompiles: vm.NewPrecompileCache(),
		bodies:       newBodyCache(uint64(cfg.BodyCacheMiB) << 20), //nolint:gosec // validated
		headers:      lru.NewCache[common.Hash, *block.SealedHeader](headerCacheEntries),
		hashes:       lru.NewCache[uint64, common.Hash](headerCacheEntries),
		receiptCache: lru.NewCache[common.Hash, types.Receipts](receiptCacheEntries),
		receipts:     newReceiptWriter(), changes: newChangeLog(), events: make(chan any, eventQueue),
	}
	c.replay.done, c.replay.closing = make(chan struct{}), make(chan struct{})
	c.signer = types.LatestSigner(c.config)
	c.senders = senders.New(c.signer, sendersKept)
	c.rules, c.asked = newRuleBook(c.params, gen.Upgrades()), newRuleBook(c.params, gen.Upgrades())
	c.lastParams.Store(&c.params)
	if err := c.openStore(); err != nil {
		return nil, err
	}
	if c.states, err = c.openSoundStates(); err != nil {
		return nil, err
	}
	c.wg.Add(2)
	go c.receipts.run(c)
	go c.dispatch()
	c.exec <- struct{}{}
	c.replay.alloc = gen.Alloc()
	if err := c.planReplay(ctx); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// reportFault ends the process by the logger's fatal hook: what the state database says is not to be trusted any more.
func (c *Chain) reportFault(f *exit.Fault) { exit.Report(c.log, f) }

// openStore puts block 0 into an empty store, checks that of a used one, and builds the tree.
func (c *Chain) openStore() error {
	height, hash := c.store.LIB()
	if hash == (common.Hash{}) {
		if err := c.store.PutReversible([]*block.Block{c.genesis}); err != nil {
			return fmt.Errorf("store block 0: %w", err)
		}
		failpoint.Hit("chain/genesis-stored")
		if err := c.store.Finalize(block.FinalUpdate{Hashes: []common.Hash{c.genesis.Hash()}}); err != nil {
			return fmt.Errorf("store block 0: %w", err)
		}
		failpoint.Hit("chain/genesis-final")
		height, hash = c.store.LIB()
	}
	if c.store.FirstHeight() == 0 {
		g, err := c.store.HeaderByHeight(0)
		if err != nil {
			return fmt.Errorf("read block 0: %w", unreadable(err))
		}
		if g.Hash() != c.genesis.Hash() {
			return fmt.Errorf("the block store belongs to another chain: its block 0 is %s, genesis makes %s; use another data directory", g.Hash(), c.genesis.Hash())
		}
	}
	lib, err := c.store.HeaderByHeight(height) // derived data have no say in what a start needs
	if err == nil && lib.Hash() != hash {
		err = fmt.Errorf("the stored block %d is %s", height, lib.Hash())
	}
	if err != nil {
		return fmt.Errorf("read the last irreversible block %s: %w", hash, unreadable(err))
	}
	c.tree = newTree(newNode(lib))
	reversible, err := c.store.Reversible()
	if err != nil {
		return fmt.Errorf("read reversible blocks: %w", err)
	}
	for _, b := range reversible {
		if _, err := c.tree.add(b.SealedHeader); err == nil { // others do not descend from LIB
			c.bodies.put(b)
		}
	}
	return nil
}

// beginStates begins with the state of block 0 when no stored block has a state.
func (c *Chain) beginStates(none error) (*block.SealedHeader, error) {
	if first := c.store.FirstHeight(); first > 0 {
		return nil, fmt.Errorf("%w and blocks below %d were pruned: restore the state directory %s or sync again into an empty data directory (no state was removed)", none, first, c.cfg.Dir)
	}
	if !c.states.empty() {
		if err := c.replaceStates(); err != nil {
			return nil, err
		}
	}
	return c.genesis.SealedHeader, c.states.commitGenesis(c.replay.alloc, c.genesis.Header.Root)
}

// base walks down from h to the first block whose state exists or can be rolled back to. ErrStateUnavailable says that
// all blocks down to the first one kept were read and none is the state's; a block that cannot be read is another
// error, which says nothing about the state.
func (c *Chain) base(h *block.SealedHeader) (*block.SealedHeader, error) {
	for {
		root := h.Header.Root
		if c.states.has(root) || c.states.recoverable(root) {
			return h, nil
		}
		if h.Number() <= c.store.FirstHeight() {
			return nil, fmt.Errorf("%w for any stored block down to %d", ErrStateUnavailable, h.Number())
		}
		p, err := c.parentOf(h)
		if err != nil {
			return nil, fmt.Errorf("look for the block that the state on disk in %s belongs to: %w", c.cfg.Dir, unreadable(err))
		}
		h = p
	}
}

// parentOf reads the header of a parent from the tree or the store. Irreversible blocks are found by their height, which
// needs no derived data.
func (c *Chain) parentOf(h *block.SealedHeader) (*block.SealedHeader, error) {
	if n := c.node(h.Parent()); n != nil {
		return n.sealed, nil
	}
	height := h.Number() - 1
	p, err := c.store.HeaderByHeight(height)
	if err == nil && p.Hash() != h.Parent() {
		err = fmt.Errorf("the stored block %d is %s, its child names %s", height, p.Hash(), h.Parent())
	}
	if err != nil {
		return nil, fmt.Errorf("read block %d: %w", height, err)
	}
	return p, nil
}

// unreadable says what to do about a block that a start needs and cannot read.
func unreadable(err error) error {
	return fmt.Errorf("%w; start again if the disk failed for a moment, else restore the block from an export of a sound node with bornode fsck --repair --blocks FILE (no block and no state was removed)", err)
}

// openSoundStates opens the state. One that is damaged, now or by the mark of the run before, is set aside, and an empty
// one begun: the state holds nothing that the blocks do not. An operator decides instead if blocks were pruned, or if that
// happened before and did not help.
func (c *Chain) openSoundStates() (*states, error) {
	damage := markedDamage(c.cfg.files(), c.cfg.Dir)
	if damage == nil {
		s, err := openStates(&c.cfg, c.params.MaxReversible, c.sameHistory, c.reportFault)
		if err == nil || exit.Code(err) != exit.Damage {
			return s, err
		}
		damage = err
	}
	if exit.Code(damage) != exit.Damage || c.store.FirstHeight() > 0 || damagedAside(c.cfg.files()) >= maxDamagedAside {
		return nil, damage
	}
	to, err := setStateAside(c.cfg.files(), c.cfg.Dir, asideDamaged)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("set the damaged state aside: %w", err), damage)
	}
	c.log.Warn("set aside: the state on disk, which is damaged; it is rebuilt by executing the blocks again; check the disk",
		zap.String("dir", c.cfg.Dir), zap.String("to", to), zapHeight(c.tree.lib.height), zap.Error(damage))
	return openStates(&c.cfg, c.params.MaxReversible, c.sameHistory, c.reportFault)
}

// replaceStates sets the state on disk aside and begins an empty one.
func (c *Chain) replaceStates() error {
	if err := c.states.close(common.Hash{}); err != nil {
		return err
	}
	to, err := setStateAside(c.cfg.files(), c.cfg.Dir, "of-no-stored-block")
	if err != nil {
		return fmt.Errorf("set the state on disk aside: %w", err)
	}
	c.log.Warn("set aside: the state on disk, which is of no stored block: blocks were lost or set back, or the state is of another chain; it is made again from genesis",
		zap.String("dir", c.cfg.Dir), zap.String("to", to), zapHeight(c.tree.lib.height))
	s, err := openStates(&c.cfg, c.params.MaxReversible, c.sameHistory, c.reportFault)
	if err != nil {
		return err
	}
	c.states.become(s)
	return nil
}

// anyLayer is the root of some block of the tree whose state pathdb has, or zero.
func (c *Chain) anyLayer() common.Hash {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, n := range c.tree.nodes {
		if root := n.sealed.Header.Root; c.states.has(root) {
			return root
		}
	}
	return common.Hash{}
}

// sameHistory: see openStates. Genesis makes the first state transition and every block one more.
func (c *Chain) sameHistory(id uint64, idOf func(common.Hash) (uint64, bool)) bool {
	if id == 0 || id-1 > c.tree.lib.height {
		return false
	}
	h, err := c.store.HeaderByHeight(id - 1)
	if err != nil {
		c.log.Warn("the index of the state history is rebuilt, since the block that it ends with cannot be read", zapHeight(id-1), zapError(err))
		return false
	}
	got, ok := idOf(h.Header.Root)
	return ok && got == id
}

// rollback makes pathdb's disk state that of h. Every layer in memory is lost. kept is the root of any layer there.
func (c *Chain) rollback(ctx context.Context, h *block.SealedHeader, kept common.Hash) error {
	failpoint.Hit("chain/rollback-before")
	c.m.recovers.Inc()
	clear(c.built) // their states stand on layers that are lost
	c.builtOrder = nil
	if c.states.indexed() && c.states.recoverable(h.Header.Root) {
		err := c.states.trie().Recover(h.Header.Root)
		if err == nil {
			failpoint.Hit("chain/rollback-after")
			return nil
		}
		c.log.Warn("state rollback failed; trying without the history index", zapHeight(h.Number()), zapError(err))
	}
	if err := c.rollbackUnindexed(ctx, h, kept); err != nil {
		return fmt.Errorf("roll the state back to block %d %s: %w", h.Number(), h.Hash(), err)
	}
	failpoint.Hit("chain/rollback-after")
	return nil
}

// rollbackUnindexed rolls back without the index of the history, which is made again in the background, and executes
// again what the state on disk lacks.
func (c *Chain) rollbackUnindexed(ctx context.Context, h *block.SealedHeader, kept common.Hash) error {
	if err := c.states.dropIndex(); err != nil {
		return err
	}
	if err := c.states.reopen(kept, false); err != nil {
		return err
	}
	base, err := c.base(h)
	if err != nil {
		return err
	}
	if !c.states.has(base.Header.Root) {
		if err := c.states.trie().Recover(base.Header.Root); err != nil {
			return err
		}
	}
	if err := c.states.reopen(base.Header.Root, true); err != nil {
		return err
	}
	return c.catchUp(ctx, base, h)
}

// acquire takes the execution slot, behind the replay.
func (c *Chain) acquire(ctx context.Context) error {
	select {
	case <-c.replay.done:
	case <-c.replay.closing:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
	return c.acquireSlot(ctx)
}

// acquireSlot takes the execution slot.
func (c *Chain) acquireSlot(ctx context.Context) error {
	select {
	case <-c.exec:
	case <-ctx.Done():
		return ctx.Err()
	}
	if c.closed.Load() {
		c.exec <- struct{}{}
		return ErrClosed
	}
	return nil
}

func (c *Chain) release() { c.exec <- struct{}{} }

// Close waits for the executor, writes the receipts that wait and pathdb's journal, and closes the state database.
// The store is its owner's to close. A second Close does nothing.
func (c *Chain) Close() error {
	c.scope.Close() // first: a subscriber that stopped draining may hold up the executor
	<-c.exec
	defer c.release()
	if c.closed.Load() {
		return nil
	}
	return c.shutdown()
}

func (c *Chain) shutdown() error {
	c.scope.Close()
	close(c.replay.closing)
	c.ending.Lock()
	c.closed.Store(true)
	close(c.events)
	c.ending.Unlock()
	close(c.receipts.queue)
	c.wg.Wait()
	failpoint.Hit("chain/close-before-journal")
	err := c.states.close(c.newestState())
	failpoint.Hit("chain/close-after-journal")
	return err
}

func zapHeight(n uint64) zap.Field { return zap.Uint64("height", n) }
func zapError(err error) zap.Field { return zap.Error(err) }
