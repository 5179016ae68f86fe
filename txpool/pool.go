package txpool

import (
	"context"
	"fmt"
	"math/big"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ethereum/go-ethereum/common"
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

	now func() time.Time // of tests; nil: the system's
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
	signer  types.Signer
	metrics *metrics
	log     *zap.Logger
	now     func() time.Time

	fees atomic.Pointer[fees] // as of the head
	view atomic.Pointer[view] // the accounts at the head
	room atomic.Int64         // slots that are free or that gapped entries would give up
	// listed counts changes of the lists: what precheck found allowed is asked again when they changed meanwhile.
	listed atomic.Uint64

	mu   sync.RWMutex // guards book, and what it holds but for the entries of executable lists
	book *book        // changed by run alone

	ctx      context.Context
	cancel   context.CancelFunc
	wg       sync.WaitGroup
	requests chan *request
	moved    chan struct{} // capacity 1: the head changed or transactions were abandoned
	events   eventQueue
	closed   sync.Once
	closeErr error

	returned struct {
		sync.Mutex
		waiting []abandoned
	}
	fullRecoveries struct {
		sync.Mutex
		rate
	}

	// Owned by run.
	lists        lists // what Allowed judges by, at the pool's head
	examineAll   bool  // at the next head: an account could not be read
	expired      time.Time
	replacements rate       // free ones of all accounts
	superseded   superseded // hashes of what they replaced
	journal      *journal
}

// fees is what the chain's parameters say of fees.
type fees struct {
	floor *big.Int // base fee that no coming block undercuts: what offers less could not enter one
	free  bool     // fixed at 0
}

// request is one call of Add on its way to the owner goroutine.
type request struct {
	txs     []*types.Transaction
	entries []*entry // nil where errs has an error
	errs    []error
	local   bool
	listed  uint64 // Pool.listed before Allowed was asked
	done    chan struct{}
}

// New starts the pool at the chain's head and loads the journal, if there is one.
func New(cfg Config, c Chain, deps Deps) (*Pool, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if deps.Log == nil {
		deps.Log = zap.NewNop()
	}
	if deps.now == nil {
		deps.now = time.Now
	}
	p := &Pool{
		cfg: cfg, deps: deps, chain: c, log: deps.Log, now: deps.now, signer: types.LatestSigner(c.Config()), book: newBook(),
		requests: make(chan *request, maxWaiting), moved: make(chan struct{}, 1),
	}
	p.events.ready = make(chan struct{}, 1)
	p.setFees()
	p.noteRoom()
	head := c.CurrentHeader()
	v, err := p.openView(head)
	if err == nil {
		p.view.Store(v)
		p.lists, err = p.listsAt(head)
	}
	if err != nil {
		return nil, fmt.Errorf("start the transaction pool at block %d: %w", head.Number, err)
	}
	p.metrics = newMetrics(deps.Registry, p)
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.wg.Add(1)
	go p.sendEvents()
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
		p.events.scope.Close() // frees the sender if it waits for a subscriber
		p.wg.Wait()
		if p.journal != nil {
			p.closeErr = p.journal.close()
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

// setFees follows the base fee, which may change by vote. What the pool holds below a new one stays, as it does below
// a market's fee: no block takes it, and its sender may replace it.
func (p *Pool) setFees() {
	params := p.chain.Params()
	p.fees.Store(&fees{floor: new(big.Int).SetUint64(params.BaseFee), free: params.BaseFeeFixed && params.BaseFee == 0})
}

func (p *Pool) run() {
	defer p.wg.Done()
	var rejournal <-chan time.Time
	if p.journal != nil {
		t := time.NewTicker(p.cfg.Rejournal)
		defer t.Stop()
		rejournal = t.C
	}
	expire := time.NewTicker(expireEvery)
	defer expire.Stop()
	for {
		select {
		case r := <-p.requests:
			p.admit(p.gatherRequests(r))
		case <-p.moved:
			p.move()
		case <-expire.C:
			p.expireGapped()
		case <-rejournal:
			p.rewriteJournal()
		case <-p.ctx.Done():
			return
		}
		p.publish()
	}
}

// publish hands on what became executable, and tells others how much room there is.
func (p *Pool) publish() {
	p.noteRoom()
	if len(p.book.news) > 0 {
		p.metrics.lost.Add(float64(p.events.put(p.book.news)))
		p.book.news = nil
	}
}

func (p *Pool) noteRoom() {
	p.room.Store(int64(p.cfg.GlobalSlots) - int64(p.book.slots) + int64(p.book.evictable)) //nolint:gosec // validated
}

// gatherRequests takes the calls that wait already, up to maxBatch transactions: one round serves them all.
func (p *Pool) gatherRequests(first *request) []*request {
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
	if head.Hash() != p.view.Load().hash {
		if err := p.follow(head); err != nil {
			p.log.Warn("the pool cannot read the state of the newest block; it stays at the one before and tries again at the next",
				zap.Uint64("height", head.Number.Uint64()), zap.Error(err))
			return
		}
		p.dropForbidden(head)
		p.metrics.reset.Observe(time.Since(start).Seconds())
	}
	p.readd(head.Hash())
	p.expireGapped()
}

// expireGapped drops what has waited too long for a missing nonce.
func (p *Pool) expireGapped() {
	now := p.now()
	if now.Sub(p.expired) < expireEvery {
		return
	}
	p.expired = now
	p.mu.Lock()
	dropped := p.book.expire(now, p.cfg.Lifetime)
	p.mu.Unlock()
	if dropped > 0 {
		p.log.Debug("dropped transactions that waited too long for a missing nonce", zap.Int("dropped", dropped))
	}
}

// Subscribe delivers every transaction that becomes executable, those put back after a branch switch included. A slow
// receiver does not stall the pool; when more than maxEvents transactions wait for it, the oldest events are dropped
// and counted.
func (p *Pool) Subscribe(ch chan<- types.Transactions) event.Subscription {
	return p.events.scope.Track(p.events.feed.Subscribe(ch))
}
