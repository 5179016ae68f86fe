package consensus

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/lru"
	"go.uber.org/zap"

	"github.com/bornode/bornode/block"
)

// Driver runs the dpos machine of one node. Its exported methods may be called from any goroutine.
type Driver struct {
	cfg    Config
	deps   Deps
	self   common.Address // zero: observer
	log    *zap.Logger
	m      *metrics
	verify *verifier
	start  time.Time
	time   *networkTime
	forks  *forkAlarms

	calls  chan *call
	core   *core // owned by the goroutine of Run; before that by Open
	status atomic.Pointer[Status]
	done   chan struct{} // closed when Run has returned

	failed   *lru.Cache[common.Hash, struct{}]   // blocks that failed execution
	badVotes *lru.Cache[checkedKey, struct{}]    // votes that failed verification
	hints    *lru.Cache[common.Hash, hintedPair] // certificates whose block is not known yet, by block
	hinting  sync.Mutex                          // held while a pair is changed
	ranges   chan struct{}                       // one range at a time
	stall    int                                 // uncertifiedLimit, less in tests
	compact  int64                               // compactLogBytes, less in tests
	events   finalEvents

	entering struct {
		sync.Mutex
		m map[common.Hash]chan struct{} // blocks on their way into the tree
	}
	sealing sync.Mutex    // held while the seal key signs
	copied  chan struct{} // closed when a copy of our signer was met that started first
	second  sync.Once
	running atomic.Bool
	closed  sync.Once
}

// hintedPair holds certificates of each kind for a block that is not known, the newest last: nothing is verified, so
// one may be forged and another genuine. Its slices are not changed in place.
type hintedPair struct{ qc, fc []*block.Certificate }

// call is a function to run on the machine's goroutine.
type call struct {
	fn   func(*core)
	read bool // changes nothing: answered before duties are done
	done chan struct{}

	early bool // may run before the chain executes

	refused bool // not run, since the chain does not execute yet; read when done is closed
}

// Open reads the vote log and the store and brings the machine to the state before the last stop. It takes the lock
// of the vote log: ErrLocked if another process runs with the same directory. Call Run, or Close if it never runs.
func Open(cfg Config, deps Deps) (*Driver, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if err := deps.check(); err != nil {
		return nil, err
	}
	if deps.Log == nil {
		deps.Log = zap.NewNop()
	}
	if deps.Now == nil {
		deps.Now = time.Now
	}
	m, err := newMetrics(deps.Registry)
	if err != nil {
		return nil, err
	}
	d := &Driver{
		cfg: cfg, deps: deps, log: deps.Log, m: m,
		verify:   newVerifier(deps.Genesis, deps.Recoveries, m),
		start:    deps.Now(),
		calls:    make(chan *call, queueCalls),
		done:     make(chan struct{}),
		copied:   make(chan struct{}),
		failed:   lru.NewCache[common.Hash, struct{}](cacheFailed),
		badVotes: lru.NewCache[checkedKey, struct{}](cacheBadVotes),
		hints:    lru.NewCache[common.Hash, hintedPair](maxHints),
		ranges:   make(chan struct{}, 1),
		stall:    uncertifiedLimit,
		compact:  compactLogBytes,
	}
	d.entering.m = make(map[common.Hash]chan struct{})
	if deps.Signer != nil {
		d.self = deps.Signer.Account()
	}
	d.time = newNetworkTime(&d.deps, d.self)
	if d.forks, err = openForks(&d.cfg, d.log); err != nil {
		return nil, err
	}
	m.forks.Set(float64(len(d.forks.alarms)))
	if d.core, err = openCore(d); err != nil {
		return nil, err
	}
	d.core.publish()
	return d, nil
}

// Run drives the machine until ctx ends (nil) or something fails that only an operator can mend (the error). It
// waits for its goroutines and releases the vote log. It can be called once.
func (d *Driver) Run(ctx context.Context) (err error) {
	if !d.running.CompareAndSwap(false, true) {
		return errors.New("consensus driver runs already")
	}
	ctx, cancel := context.WithCancelCause(ctx)
	var wg sync.WaitGroup
	defer func() {
		cancel(nil)
		wg.Wait()
		err = errors.Join(err, d.release())
	}()
	wg.Go(func() { defer cancel(nil); d.core.executor.run(ctx) }) // one ends, all end
	wg.Go(func() { defer cancel(nil); d.core.signer.run(ctx) })
	wg.Go(func() { d.watchClocks(ctx) })
	wg.Go(func() { d.watchEvidence(ctx) })
	if err := d.core.awaitChain(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	return d.core.loop(ctx)
}

// Close releases the vote log of a driver that never ran; after Run it does nothing.
func (d *Driver) Close() error {
	if !d.running.CompareAndSwap(false, true) {
		<-d.done
		return nil
	}
	return d.release()
}

func (d *Driver) release() (err error) {
	d.closed.Do(func() {
		err = d.core.close()
		close(d.done)
	})
	return err
}

// do runs fn on the machine's goroutine and waits until it ran and, unless it only reads, until the duties that
// follow from it are on disk or queued and Status shows them.
func (d *Driver) do(ctx context.Context, read bool, fn func(*core)) error {
	return d.runCall(ctx, &call{fn: fn, read: read, done: make(chan struct{})})
}

// doEarly is do of what may also run while the chain executes again what its last stop left without a state: fn gives the
// machine no event then.
func (d *Driver) doEarly(ctx context.Context, fn func(*core)) error {
	return d.runCall(ctx, &call{fn: fn, early: true, done: make(chan struct{})})
}

func (d *Driver) runCall(ctx context.Context, c *call) error {
	select {
	case d.calls <- c:
	case <-ctx.Done():
		return ctx.Err()
	case <-d.done:
		return ErrStopped
	}
	select {
	case <-c.done:
		return c.result()
	case <-ctx.Done():
		return ctx.Err() // fn may still run: it must not touch what the caller owns
	case <-d.done:
		select {
		case <-c.done:
			return c.result()
		default:
			return ErrStopped
		}
	}
}

func (c *call) result() error {
	if c.refused {
		return ErrNotReady
	}
	return nil
}

// Status is a snapshot; it never waits.
func (d *Driver) Status() Status { return *d.status.Load() }

// sinceGenesis is the network's time since genesis; negative before genesis.
func (d *Driver) sinceGenesis() time.Duration {
	return d.time.currentTime().Sub(d.deps.Params.SlotStart(0))
}

func (d *Driver) slotNow() uint64 {
	s, _ := d.deps.Params.SlotAt(d.time.currentTime())
	return s
}

// finalEvents hands FinalEvents to subscribers.
type finalEvents struct {
	mu   sync.Mutex
	next int
	subs map[int]chan FinalEvent
}

// SubscribeFinal returns a channel of events, one each time LIB moves, and a function that ends it. A subscriber that
// does not keep up loses the oldest events; each event stands for itself.
func (d *Driver) SubscribeFinal() (<-chan FinalEvent, func()) {
	e := &d.events
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.subs == nil {
		e.subs = make(map[int]chan FinalEvent)
	}
	id := e.next
	e.next++
	ch := make(chan FinalEvent, queueFinalEvents)
	e.subs[id] = ch
	return ch, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.subs, id)
	}
}

func (e *finalEvents) send(ev FinalEvent) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, ch := range e.subs {
		for sent := false; !sent; {
			select {
			case ch <- ev:
				sent = true
			default:
				select {
				case <-ch:
				default:
				}
			}
		}
	}
}

// invalid wraps an error of a lower part as one that the peer is to blame for.
func invalid(err error) error {
	if err == nil || errors.Is(err, ErrInvalid) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrInvalid, err)
}
