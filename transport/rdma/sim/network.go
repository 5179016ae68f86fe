package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/bornode/bornode/transport/rdma/fabric"
)

// ErrIdle is what a call returns in a Manual network that would have to wait though nothing is under way: with
// hardware it would sleep for ever.
var ErrIdle = errors.New("sim: nothing is under way")

// errPlanted is a failure of a control call that Faults.ControlErrors planted.
var errPlanted = fmt.Errorf("%w: planted by the simulator", fabric.ErrUnavailable)

// Counters counts what happened on a network.
type Counters struct {
	Steps         uint64 // things done: requests carried, completions shown, ...
	Requests      uint64 // requests carried
	Sends         uint64 // SENDs that landed
	Writes        uint64 // WRITEs that landed, with and without immediate
	Immediates    uint64 // of them those with immediate
	Reads         uint64 // READs that were answered
	Bytes         uint64 // landed or read
	Completions   uint64 // shown in completion queues
	Errors        uint64 // of them those that are not StatusOK and not flushed
	Flushed       uint64 // of them those that were flushed
	Full          uint64 // posts of requests that were refused or partial because the send queue was full
	RNR           uint64 // requests that found no receive entry, once per wait
	Overruns      uint64 // completion queues lost because they were full
	Breaks        uint64 // queue pairs broken by a planted fault
	Unseen        uint64 // requests that landed whole but were flushed: their sender does not know that they did
	Torn          uint64 // requests of which a part landed
	Wakes         uint64 // Wait returned for an event
	EarlyWakes    uint64 // Wait returned without one, by a planted fault
	LimitEvents   uint64 // receive queues that fell below their limit
	MissedEntries uint64 // planted: requests that did not find an entry that was there
	Purged        uint64 // completions taken out when their queue pair was closed
	Registrations uint64 // regions made
	Misuses       uint64 // rules broken by the user, see the package's description
}

// Network connects simulated devices. All methods may be called concurrently.
type Network struct {
	faults Faults
	id     uint64
	start  time.Time
	kick   chan struct{} // wakes the driver when something is due earlier than it thought

	mu       sync.Mutex
	rng      *rand.Rand
	now      time.Duration
	due      agenda
	running  bool
	ties     uint64
	devices  []*Device
	counters Counters
}

// NewNetwork makes a network without devices. The same seed and faults give the same devices; with Faults.Manual and
// one goroutine, the same run.
func NewNetwork(seed uint64, f Faults) *Network {
	f.check()
	n := &Network{faults: f, start: time.Now(), kick: make(chan struct{}, 1), rng: rand.New(rand.NewPCG(seed, 0x51b))}
	n.id = n.rng.Uint64()
	return n
}

// Faults returns what the network was made with.
func (n *Network) Faults() Faults { return n.faults }

// Counters returns what was counted so far.
func (n *Network) Counters() Counters {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.counters
}

// Now is the time that passed on the network.
func (n *Network) Now() time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.clock()
	return n.now
}

// Step does the next thing that is under way on a Manual network, and tells whether there was one.
func (n *Network) Step() bool {
	if !n.faults.Manual {
		panic("sim: Step of a network that moves by itself")
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	s := n.due.first()
	if s == nil {
		return false
	}
	n.now = max(n.now, s.at)
	n.advance(s)
	return true
}

// advance does what heads a stream that is due.
func (n *Network) advance(s *stream) {
	n.due.remove(s)
	n.counters.Steps++
	s.run()
}

// clock moves the time of a network that moves by itself.
func (n *Network) clock() {
	if !n.faults.Manual {
		n.now = time.Since(n.start)
	}
}

// add puts a stream on the agenda at a time, unless it is there.
func (n *Network) add(s *stream, at time.Duration) {
	if s.place != absent {
		return
	}
	s.at, s.tie, s.number = at, n.rng.Uint32(), n.ties
	n.ties++
	n.due.insert(s)
	if n.faults.Manual {
		return
	}
	if !n.running {
		n.running = true
		go n.drive()
	} else if s.place == 0 {
		n.look()
	}
}

// cancel takes a stream off the agenda. With the last one the driver ends.
func (n *Network) cancel(s *stream) {
	n.due.remove(s)
	if n.running && len(n.due) == 0 {
		n.look()
	}
}

// look lets the driver see that the agenda changed.
func (n *Network) look() {
	select {
	case n.kick <- struct{}{}:
	default:
	}
}

// drive does things when they are due, until none is left.
func (n *Network) drive() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		n.mu.Lock()
		s := n.due.first()
		if s == nil {
			n.running = false
			n.mu.Unlock()
			return
		}
		n.clock()
		if s.at <= n.now {
			n.advance(s)
			n.mu.Unlock()
			continue
		}
		wait := s.at - n.now
		n.mu.Unlock()
		timer.Reset(wait)
		select {
		case <-timer.C:
		case <-n.kick:
		}
	}
}

// later is a moment within the network's delay. Without delays everything is due at once, and chance orders it.
func (n *Network) later() time.Duration {
	if n.faults.Delay == 0 {
		return 0
	}
	d := time.Duration(n.rng.Int64N(int64(n.faults.Delay) + 1))
	if n.rng.IntN(stallOneIn) == 0 {
		d *= stallFactor
	}
	n.clock()
	return n.now + d
}

func (n *Network) chance(p float64) bool { return p > 0 && n.rng.Float64() < p }

func (n *Network) misuse(format string, args ...any) error {
	n.counters.Misuses++
	return fmt.Errorf("sim: misuse: "+format, args...)
}

// wait calls done, under the mutex, until it says true or fails. Between calls it waits for changed, steps a Manual
// network, or ends with the context.
func (n *Network) wait(ctx context.Context, changed *broadcast, done func() (bool, error)) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		n.mu.Lock()
		ok, err := done()
		ch := changed.wait()
		n.mu.Unlock()
		if ok || err != nil {
			return err
		}
		if n.faults.Manual {
			if !n.Step() {
				return ErrIdle
			}
			continue
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ch:
		}
	}
}

// broadcast wakes all who wait for a change.
type broadcast struct{ ch chan struct{} }

func (b *broadcast) wait() <-chan struct{} {
	if b.ch == nil {
		b.ch = make(chan struct{})
	}
	return b.ch
}

func (b *broadcast) notify() {
	if b.ch != nil {
		close(b.ch)
		b.ch = nil
	}
}

const absent = -1

// stream is something that is done in order, one thing at a time: the requests of a queue pair, say.
type stream struct {
	run    func() // does the first thing and, if there is more, adds the stream again
	at     time.Duration
	tie    uint32 // orders what is due at the same time, at random
	number uint64
	place  int // in the agenda, or absent
}

func newStream(run func()) *stream { return &stream{run: run, place: absent} }

// agenda is a heap of streams, the first due on top.
type agenda []*stream

func (a agenda) first() *stream {
	if len(a) == 0 {
		return nil
	}
	return a[0]
}

func (a agenda) less(i, j int) bool {
	x, y := a[i], a[j]
	if x.at != y.at {
		return x.at < y.at
	}
	if x.tie != y.tie {
		return x.tie < y.tie
	}
	return x.number < y.number
}

func (a agenda) swap(i, j int) {
	a[i], a[j] = a[j], a[i]
	a[i].place, a[j].place = i, j
}

func (a *agenda) insert(s *stream) {
	s.place = len(*a)
	*a = append(*a, s)
	a.up(s.place)
}

func (a *agenda) remove(s *stream) {
	if s.place == absent {
		return
	}
	i, last := s.place, len(*a)-1
	a.swap(i, last)
	*a = (*a)[:last]
	s.place = absent
	if i < last {
		a.up(i)
		a.down(i)
	}
}

func (a agenda) up(i int) {
	for i > 0 && a.less(i, (i-1)/2) {
		a.swap(i, (i-1)/2)
		i = (i - 1) / 2
	}
}

func (a agenda) down(i int) {
	for {
		child := 2*i + 1
		if child >= len(a) {
			return
		}
		if child+1 < len(a) && a.less(child+1, child) {
			child++
		}
		if !a.less(child, i) {
			return
		}
		a.swap(i, child)
		i = child
	}
}

// fifo is a queue in a ring that grows.
type fifo[T any] struct {
	ring []T
	head int
	n    int
}

func (f *fifo[T]) len() int { return f.n }

func (f *fifo[T]) at(i int) *T { return &f.ring[(f.head+i)&(len(f.ring)-1)] }

// push adds room for an item at the end and returns it; it holds what was there before.
func (f *fifo[T]) push() *T {
	if f.n == len(f.ring) {
		grown := make([]T, max(8, 2*len(f.ring)))
		for i := range f.n {
			grown[i] = *f.at(i)
		}
		f.ring, f.head = grown, 0
	}
	f.n++
	return f.at(f.n - 1)
}

func (f *fifo[T]) pop() {
	f.head = (f.head + 1) & (len(f.ring) - 1)
	f.n--
}

// keep drops the items for which keep says false.
func (f *fifo[T]) keep(keep func(*T) bool) {
	kept := 0
	for i := range f.n {
		if item := f.at(i); keep(item) {
			*f.at(kept) = *item
			kept++
		}
	}
	f.n = kept
}
