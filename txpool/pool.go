package txpool

import (
	"context"
	"fmt"
	"math/big"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ethereum/go-ethereum/common"
	gethpool "github.com/ethereum/go-ethereum/core/txpool"
	"github.com/ethereum/go-ethereum/core/txpool/legacypool"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/event"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/bornode/bornode/internal/vfs"
)

// Deps is what the pool is given besides its limits and the chain; all of it may be left out.
type Deps struct {
	// Allowed says whether an account may send transactions, or create a contract (optional lists of Members). Called
	// from many goroutines; nil: everyone. Its answers may change only with the head, by the storage of the contracts Members
	// and Producers.
	Allowed func(from common.Address, create bool) error
	// Senders recovers the senders of transactions; called from many goroutines. nil: the pool recovers them by itself.
	Senders  Senders
	FS       vfs.FS // of the journal; nil: the operating system's
	Log      *zap.Logger
	Registry prometheus.Registerer
}

// Senders gives the account that signed a transaction, and attaches it to the transaction for types.Sender with the
// chain's newest signer. recovered says that the signature had to be recovered.
type Senders interface {
	Sender(tx *types.Transaction) (from common.Address, recovered bool, err error)
}

// Pool is the transaction pool. Its methods may be called from any goroutine.
type Pool struct {
	cfg     Config
	deps    Deps
	chain   Chain
	floor   atomic.Pointer[big.Int] // base fee that no coming block undercuts, as of the head: what offers less could not enter one
	adapter *chainAdapter
	legacy  *legacypool.LegacyPool
	signer  types.Signer
	metrics *metrics
	log     *zap.Logger

	ctx      context.Context
	cancel   context.CancelFunc
	wg       sync.WaitGroup
	requests chan *request
	moved    chan struct{} // capacity 1: the head changed or transactions were abandoned

	mu struct {
		sync.Mutex
		abandoned []abandoned
	}
	events eventQueue

	dropping sync.RWMutex // held while legacypool's nonces are not those of the accounts
	closed   sync.Once
	closeErr error

	// Owned by run.
	slots     uint64 // upper bound of the slots in use
	recounted bool   // slots was counted exactly at this head
	lists     lists  // what Allowed judges by, at the pool's head
	journal   *journal
}

// request is one call of Add on its way to the owner goroutine.
type request struct {
	txs   []*types.Transaction
	errs  []error
	local bool
	done  chan struct{}
}

// New starts the pool at the chain's head and loads the journal, if there is one.
func New(cfg Config, c Chain, deps Deps) (*Pool, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if deps.Log == nil {
		deps.Log = zap.NewNop()
	}
	p := &Pool{
		cfg: cfg, deps: deps, chain: c, adapter: &chainAdapter{Chain: c}, log: deps.Log,
		signer:   types.LatestSigner(c.Config()),
		requests: make(chan *request, maxWaiting), moved: make(chan struct{}, 1),
	}
	p.setFloor()
	p.metrics = newMetrics(deps.Registry, p)
	p.ctx, p.cancel = context.WithCancel(context.Background())
	head := c.CurrentHeader()
	p.adapter.head.Store(head)

	// Admission keeps the pool within our limits, so legacypool's limits only have to lie above them: its own way of
	// keeping them is to drop what it accepted.
	slack := 2 * cfg.GlobalSlots
	p.legacy = legacypool.New(legacypool.Config{
		PriceLimit: 1, // not used once Init was given the minimum tip
		PriceBump:  cfg.PriceBump, AccountSlots: cfg.AccountSlots, GlobalSlots: slack, AccountQueue: slack, GlobalQueue: slack,
		Lifetime: cfg.Lifetime,
	}, p.adapter)
	err := p.legacy.Init(0, head, gethpool.NewReservationTracker().NewHandle(0))
	if err != nil {
		p.cancel()
		return nil, fmt.Errorf("start the transaction pool at block %d: %w", head.Number, err)
	}
	if p.lists, err = p.listsAt(head); err != nil {
		p.cancel()
		p.legacy.Close()
		return nil, fmt.Errorf("start the transaction pool at block %d: %w", head.Number, err)
	}
	p.startEvents()
	if cfg.Journal != "" {
		if err := p.openJournal(); err != nil {
			p.Close()
			return nil, err
		}
	}
	p.wg.Add(1)
	go p.run()
	return p, nil
}

// Close stops the pool and waits for its goroutines. Calls of Add under way end with ErrClosed.
func (p *Pool) Close() error {
	p.closed.Do(func() {
		p.cancel()
		p.closeErr = p.legacy.Close()
		p.wg.Wait()
		if p.journal != nil {
			if err := p.journal.close(); p.closeErr == nil {
				p.closeErr = err
			}
		}
	})
	return p.closeErr
}

// HeadChanged tells the pool that the executed head moved. It never blocks.
func (p *Pool) HeadChanged() {
	select {
	case p.moved <- struct{}{}:
	default:
	}
}

// setFloor follows the base fee, which may change by vote. What the pool holds below a new one stays, as it does below
// a market's fee: no block takes it, and its sender may replace it.
func (p *Pool) setFloor() {
	params := p.chain.Params()
	p.floor.Store(new(big.Int).SetUint64(params.BaseFee))
}

func (p *Pool) run() {
	defer p.wg.Done()
	var rejournal <-chan time.Time
	if p.journal != nil {
		t := time.NewTicker(p.cfg.Rejournal)
		defer t.Stop()
		rejournal = t.C
	}
	for {
		select {
		case r := <-p.requests:
			p.admit(p.gather(r))
		case <-p.moved:
			p.move()
		case <-rejournal:
			p.rewriteJournal()
		case <-p.ctx.Done():
			return
		}
	}
}

// gather takes the calls that wait already, up to maxBatch transactions: one round of legacypool serves them all.
func (p *Pool) gather(first *request) []*request {
	rs, n := []*request{first}, len(first.txs)
	for n < maxBatch {
		select {
		case r := <-p.requests:
			rs, n = append(rs, r), n+len(r.txs)
		default:
			return rs
		}
	}
	return rs
}

// move brings the pool to the chain's head and puts abandoned transactions back.
func (p *Pool) move() {
	start := time.Now()
	head := p.chain.CurrentHeader()
	if head.Hash() != p.adapter.head.Load().Hash() {
		p.adapter.head.Store(head)
		p.setFloor()
		p.legacy.Reset(nil, head) // no old head: abandoned transactions come back through Abandoned
		p.recounted = false
		p.dropForbidden(head)
		p.metrics.reset.Observe(time.Since(start).Seconds())
	}
	p.readd(head.Hash())
}

// Has reports whether the pool holds the transaction.
func (p *Pool) Has(hash common.Hash) bool { return p.legacy.Has(hash) }

// Get is a transaction of the pool, or nil.
func (p *Pool) Get(hash common.Hash) *types.Transaction { return p.legacy.Get(hash) }

// Nonce is the account's next nonce after all its executable transactions in the pool.
func (p *Pool) Nonce(a common.Address) uint64 {
	p.dropping.RLock()
	defer p.dropping.RUnlock()
	return p.legacy.Nonce(a)
}

// Stats counts the executable transactions and those that wait for a missing nonce.
func (p *Pool) Stats() (pending, queued int) { return p.legacy.Stats() }

// Content lists executable and waiting transactions by account, in nonce order. The slices are the caller's.
func (p *Pool) Content() (pending, queued map[common.Address][]*types.Transaction) {
	return p.legacy.Content()
}

// ContentFrom is Content of one account.
func (p *Pool) ContentFrom(a common.Address) (pending, queued []*types.Transaction) {
	return p.legacy.ContentFrom(a)
}

// Pending is the hashes of all executable transactions, each account's in nonce order.
func (p *Pool) Pending() []common.Hash {
	pending, _ := p.legacy.Content()
	n := 0
	for _, txs := range pending {
		n += len(txs)
	}
	hashes := make([]common.Hash, 0, n)
	for _, txs := range pending {
		for _, tx := range txs {
			hashes = append(hashes, tx.Hash())
		}
	}
	return hashes
}

// Subscribe delivers every transaction that becomes executable, those put back after a branch switch included. A slow
// receiver does not stall the pool; when more than maxEvents transactions wait for it, the oldest events are dropped
// and counted.
func (p *Pool) Subscribe(ch chan<- types.Transactions) event.Subscription {
	return p.events.scope.Track(p.events.feed.Subscribe(ch))
}
