package rdma

import (
	"cmp"
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/bornode/bornode/transport/rdma/fabric"
)

// recvID marks the ids of receive entries; the rest is the entry's index.
const recvID = 1 << 63

// poller takes completions from the device's queue. Whoever holds mu polls: the poller's own goroutine after an event,
// and readers and writers of channels that wait. See doc.go for who arms the queue when.
type poller struct {
	d     *Device
	block *block // buffers of the receive entries

	armed    atomic.Bool  // an event comes, or is on its way to run
	spinners atomic.Int32 // goroutines that poll until they find something or arm the queue
	active   atomic.Bool  // somebody found something by polling lately
	guarded  atomic.Bool  // guard will tick
	guard    *time.Timer
	most     int32      // goroutines that spin at once
	ticking  sync.Mutex // held by the guard
	stopped  bool       // guarded by ticking
	wakeups  atomic.Uint64
	ticks    atomic.Uint64
	others   atomic.Uint64 // readers and writers woken
	dead     atomic.Bool   // the queue does not work any more
	full     atomic.Bool   // a post was refused: the guard lets blocked channels try again

	mu     sync.Mutex // a system call under it is polling and arming themselves only
	comps  [pollBatch]fabric.Completion
	idle   []uint32                   // receive entries, by index, used and not yet posted again
	again  [repostBatch]fabric.RecvWR // being posted
	stamps []uint64                   // by index: when it was posted, in posts; 0: it is idle
	posts  uint64                     // of receive entries
	shut   bool                       // the buffers of the receive entries are gone
	doubt  int                        // receive entries that may be lost: closed queue pairs may have swallowed them
	quiet  bool                       // armed, and then found empty
	missed missed
	stats  struct{ polls, completions, arms, rescued, stale, low, lost uint64 }
}

// init posts the receive entries and arms the queue.
func (p *poller) init(d *Device) error {
	p.d = d
	n := d.size.receive
	block, err := d.pool.get(context.Background(), n*fabric.MaxSendBytes, false)
	if err != nil {
		return err
	}
	p.block = block
	p.stamps = make([]uint64, n)
	p.idle = make([]uint32, n, n+pollBatch)
	for i := range p.idle {
		p.idle[i] = uint32(i)
	}
	if err := p.repost(); err != nil {
		return err
	}
	if err := d.srq.ArmLimit(lowEntries); err != nil && !errors.Is(err, fabric.ErrUnsupported) {
		return err
	}
	p.most = int32(max(1, runtime.GOMAXPROCS(0)/2))
	p.guard = time.AfterFunc(time.Hour, p.tick)
	p.guard.Stop()
	p.armed.Store(true)
	return d.cq.Arm()
}

func (p *poller) close() {
	if p.guard != nil {
		p.guard.Stop()
	}
	p.ticking.Lock() // one may be under way
	p.stopped = true
	p.ticking.Unlock()
	p.mu.Lock()
	p.shut = true // a reader of a closed channel may still be about to poll or rest
	p.mu.Unlock()
	p.block.close()
}

// entry makes the receive entry with an index.
func (p *poller) entry(i uint32) fabric.RecvWR {
	return fabric.RecvWR{ID: recvID | uint64(i), Local: p.buffer(i), Key: p.block.key()}
}

func (p *poller) buffer(i uint32) []byte {
	return p.block.bytes()[int(i)*fabric.MaxSendBytes:][:fabric.MaxSendBytes:fabric.MaxSendBytes]
}

// post posts receive entries and returns how many were taken. mu is held.
func (p *poller) post(list []uint32) (int, error) {
	if p.shut {
		return 0, fabric.ErrClosed
	}
	for done := 0; ; {
		n := min(len(list)-done, len(p.again))
		if n == 0 {
			return done, nil
		}
		for i, x := range list[done : done+n] {
			p.again[i] = p.entry(x)
		}
		took, err := p.d.srq.Post(p.again[:n])
		for _, x := range list[done : done+took] {
			p.posts++
			p.stamps[x] = p.posts
		}
		if done += took; err != nil {
			return done, err
		}
	}
}

// repost gives used receive entries back to the queue. mu is held.
func (p *poller) repost() error {
	if len(p.idle) == 0 {
		return nil
	}
	n, err := p.post(p.idle)
	p.idle = p.idle[:copy(p.idle, p.idle[n:])]
	if errors.Is(err, fabric.ErrFull) {
		return nil // the rest goes with the next
	}
	return err
}

// doubtful notes that a queue pair was closed, and n receive entries may have gone with it.
func (p *poller) doubtful(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.doubt = min(p.doubt+n, len(p.stamps))
}

// refill makes good for receive entries that closed queue pairs swallowed: some hardware drops their completions, and
// then nobody learns that an entry was used. The queue itself knows how many it has: it takes more until it is full.
// Entries are used in about the order of posting, so the oldest ones are those that are lost; should one be there all
// the same, it is used long before its double.
func (p *poller) refill() {
	p.mu.Lock()
	n := p.doubt
	p.doubt = 0
	if n == 0 {
		p.mu.Unlock()
		return
	}
	stamps := slices.Clone(p.stamps)
	p.mu.Unlock()
	var out []uint32
	for i, stamp := range stamps {
		if stamp > 0 {
			out = append(out, uint32(i))
		}
	}
	slices.SortFunc(out, func(a, b uint32) int { return cmp.Compare(stamps[a], stamps[b]) })
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.repost(); err != nil {
		return // the next poll meets it too
	}
	took, _ := p.post(out[:min(n, len(out))]) // full, as a rule
	p.stats.lost += uint64(took)
}

// fetch takes completions from the queue, which may have some yet when it is closed. mu is held.
func (p *poller) fetch() (int, error) {
	if p.shut {
		return 0, fabric.ErrClosed
	}
	return p.d.cq.Poll(p.comps[:])
}

// poll looks once for completions, if nobody else does. It returns how many there were.
func (p *poller) poll() int {
	if !p.mu.TryLock() {
		return 0
	}
	n, err := p.fetch()
	if n == 0 && err == nil {
		p.mu.Unlock()
		return 0
	}
	p.dispatch(n, err)
	return n
}

// drain takes completions until there are none. It tells whether that woke somebody.
func (p *poller) drain() (found int, woke bool) {
	for {
		p.mu.Lock()
		n, err := p.fetch()
		if n == 0 && err == nil {
			p.mu.Unlock()
			return found, woke
		}
		found += n
		if p.dispatch(n, err) {
			woke = true
		}
		if err != nil {
			return found, woke
		}
	}
}

// dispatch hands out n completions, posts receive entries again and unlocks mu.
func (p *poller) dispatch(n int, err error) (woke bool) {
	var todo [settleBatch]consumer
	k := 0
	table := *p.d.table.Load()
	for i := range p.comps[:n] {
		done := &p.comps[i]
		var sent []byte
		if done.ID&recvID != 0 {
			i := uint32(done.ID)
			if done.Op == fabric.OpRecv {
				sent = p.buffer(i)
			}
			p.idle = append(p.idle, i)
			p.stamps[i] = 0
		}
		c := table[done.QP]
		if c == nil {
			p.stats.stale++
		} else if c.complete(done, sent) && (k == 0 || todo[k-1] != c) {
			if k == len(todo) {
				woke = todo[0].settle() || woke // so many at once are rare
				k = copy(todo[:], todo[1:])
			}
			todo[k] = c
			k++
		}
	}
	p.stats.polls++
	p.stats.completions += uint64(n)
	if p.quiet {
		p.quiet = false
		p.missed.found(n, time.Now())
	}
	if len(p.idle) >= repostBatch/2 && err == nil {
		err = p.repost()
	}
	p.mu.Unlock()
	if err != nil {
		p.fail(err)
	}
	for _, c := range todo[:k] {
		if c.settle() {
			woke = true
		}
	}
	return woke
}

func (p *poller) fail(err error) {
	if !errors.Is(err, fabric.ErrClosed) {
		p.dead.Store(true)
		p.d.lose(err)
	}
}

// rest arms the queue and looks again, so that nothing that came before is overlooked.
func (p *poller) rest() {
	p.mu.Lock()
	err := p.repost()
	// The guard is called off before: whatever event comes of this arming may want it again.
	if p.guarded.Load() {
		p.guard.Stop() // and then the mark: a watch between the two must not set a timer that this stops
		p.guarded.Store(false)
		if p.full.Load() {
			p.watch()
		}
	}
	p.active.Store(false)
	p.armed.Store(true) // before Arm: the poller's goroutine may see the event at once
	if err == nil {
		err = p.d.cq.Arm()
	}
	p.stats.arms++
	p.stats.rescued += p.missed.judge(time.Now())
	p.mu.Unlock()
	if err != nil {
		p.fail(err)
		return
	}
	if found, _ := p.drain(); found == 0 {
		p.mu.Lock()
		p.quiet = p.armed.Load()
		p.mu.Unlock()
	}
}

// watch makes sure that the guard looks after a queue that is not armed.
func (p *poller) watch() {
	if !p.guarded.Load() && !p.guarded.Swap(true) {
		p.guard.Reset(guardTick)
	}
}

// tick is the guard: readers that found something went off to work without arming the queue.
func (p *poller) tick() {
	p.ticking.Lock()
	defer p.ticking.Unlock()
	p.guarded.Store(false)
	if p.stopped {
		return
	}
	p.ticks.Add(1)
	if p.full.Swap(false) {
		for _, c := range p.d.all() {
			c.kickBlocked()
		}
	}
	switch {
	case p.armed.Load():
	case p.spinners.Load() > 0 || p.active.Swap(false):
		p.poll()
		p.watch()
	default:
		p.rest()
	}
}

// run sleeps until events come, until the queue is closed.
func (p *poller) run() {
	defer p.d.wg.Done()
	for !p.dead.Load() {
		if err := p.d.cq.Wait(); err != nil {
			p.fail(err)
			return
		}
		p.wakeups.Add(1)
		p.armed.Store(false) // before quiet, which rest sets by it
		p.mu.Lock()
		p.quiet = false
		p.stats.rescued += p.missed.judge(time.Now())
		p.missed.event()
		p.mu.Unlock()
		_, woke := p.drain()
		if woke || p.spinners.Load() > 0 || p.active.Load() {
			p.watch() // whoever was woken polls for itself and arms when it finds nothing more
		} else {
			p.rest()
		}
	}
}

// low answers the event that the shared receive queue runs low. If not because completions wait to be polled, then
// because entries were lost.
func (p *poller) low() {
	if found, _ := p.drain(); found == 0 {
		p.doubtful(len(p.stamps))
	}
	p.refill()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stats.low++
	if err := p.d.srq.ArmLimit(lowEntries); err != nil {
		p.d.log.Warn("the limit of the shared receive queue", zap.Error(err))
	}
}

// waiter is a reader or writer of a channel that may wait.
type waiter struct {
	parked atomic.Bool
	sleeps atomic.Uint64
	token  chan struct{}
	spin   time.Duration // adaptive; only the waiting goroutine uses it
}

func (w *waiter) init(spin time.Duration) { w.token, w.spin = make(chan struct{}, 1), spin }

// wake wakes the waiter if it sleeps.
func (w *waiter) wake() bool {
	if w.parked.Load() && w.parked.CompareAndSwap(true, false) {
		w.token <- struct{}{}
		return true
	}
	return false
}

// await returns when ready, or for no reason. It polls for a while and then sleeps; somebody who makes it ready after
// that calls w.wake.
func (p *poller) await(w *waiter, ready func() bool) {
	for range eagerPolls { // what is there already costs no clock and no count of spinners
		p.poll()
		if ready() {
			p.found()
			return
		}
	}
	start := time.Now()
	for alone := p.spinners.Add(1) <= p.most; alone; { // one polls for all: more would only take processors from others
		runtime.Gosched() // at once, too: whoever the last frame woke is next on this processor
		for range spinCheck {
			p.poll()
			if ready() {
				w.spin = p.d.cfg.Spin
				p.spinners.Add(-1)
				p.found()
				return
			}
		}
		if time.Since(start) >= w.spin {
			break
		}
	}
	w.parked.Store(true)
	if p.spinners.Add(-1) == 0 {
		p.rest()
	}
	if ready() && w.parked.CompareAndSwap(true, false) {
		return
	}
	<-w.token
	w.sleeps.Add(1)
	p.others.Add(1)
	if time.Since(start) < p.d.cfg.Spin {
		w.spin = p.d.cfg.Spin
	} else {
		w.spin = max(min(minSpin, p.d.cfg.Spin), w.spin/2)
	}
}

// found ends a wait that polling ended: the queue is left as it is, and the guard looks after it.
func (p *poller) found() {
	if !p.active.Load() {
		p.active.Store(true)
	}
	if !p.armed.Load() {
		p.watch()
	}
}

// help polls once on behalf of a reader that has enough to do.
func (p *poller) help() {
	if !p.active.Load() {
		p.active.Store(true)
	}
	p.poll()
}

// missed finds events that never came. Completions that somebody finds in a queue which was armed and then empty must
// have made one.
type missed struct {
	due   int
	since time.Time
}

func (m *missed) found(n int, now time.Time) {
	if m.due == 0 {
		m.since = now
	}
	m.due += n
}

func (m *missed) event() { m.due = 0 }

// judge tells how many completions an event is overdue for.
func (m *missed) judge(now time.Time) uint64 {
	if m.due == 0 || now.Sub(m.since) < eventPatience {
		return 0
	}
	n := m.due
	m.due = 0
	return uint64(n)
}
