package gate

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"go.uber.org/zap"
)

// watch holds what was delivered until it is proved. add and await are called by connections; the goroutine of run
// alone asks for proofs.
type watch struct {
	ctx    context.Context
	proofs Proofs
	fail   func(topic string, partition int32, err error)
	log    *zap.Logger
	m      *metrics
	now    func() time.Time
	began  time.Time
	said   time.Time // of run: when it last said that proofs cannot be had

	mu    sync.Mutex
	parts map[place]*followed
	total int           // pending leaves
	moved chan struct{} // closed when something was proved or failed
}

// followed is one partition.
type followed struct {
	t       Topic
	pending map[int64]waitingLeaf   // by base offset
	top     int64                   // highest offset that was proved
	bad     error                   // tampering: nothing more is delivered
	overdue bool                    // that something waits too long was told
	doubted map[common.Address]bool // of whose disputes was told
}

// waitingLeaf is a leaf with the time since the watch began when it was delivered.
type waitingLeaf struct {
	Leaf
	since time.Duration
}

func newWatch(ctx context.Context, p Proofs, m *metrics, fail func(string, int32, error), log *zap.Logger) *watch {
	return &watch{ctx: ctx, proofs: p, m: m, fail: fail, log: log, now: time.Now, began: time.Now(), parts: map[place]*followed{}, moved: make(chan struct{})}
}

// add notes leaves that are about to be delivered, and tells how many may be: fewer than all when there is no room until
// ctx ends, or with an error about the next one.
func (w *watch) add(ctx context.Context, at place, t Topic, leaves []Leaf) (int, error) {
	for n := 0; ; {
		w.mu.Lock()
		f, err := w.follow(at, t)
		if err != nil {
			w.mu.Unlock()
			return n, err
		}
		for ; f != nil && n < len(leaves) && w.total < MaxPendingBatches && len(f.pending) < MaxPartitionBatches; n++ {
			l := leaves[n]
			if old, ok := f.pending[l.Base]; !ok {
				f.pending[l.Base] = waitingLeaf{l, w.now().Sub(w.began)}
				w.total++
			} else if old.Leaf != l {
				f.bad = &TamperError{Topic: t.Name, Partition: at.partition, Offset: l.Base, What: Equivocal}
				w.mu.Unlock()
				return n, f.bad
			}
		}
		moved := w.moved
		w.m.pending.Set(float64(w.total))
		w.mu.Unlock()
		if n == len(leaves) {
			return n, nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return n, nil
		}
	}
}

// follow finds or begins a partition; nil: there is no room for another one.
func (w *watch) follow(at place, t Topic) (*followed, error) {
	f := w.parts[at]
	if f == nil {
		if len(w.parts) >= MaxPartitions {
			for p, old := range w.parts {
				if len(old.pending) == 0 && old.bad == nil {
					delete(w.parts, p)
				}
			}
		}
		if len(w.parts) >= MaxPartitions {
			return nil, nil
		}
		f = &followed{t: t, pending: map[int64]waitingLeaf{}}
		w.parts[at] = f
	}
	return f, f.bad
}

// await waits until leaves are proved or ctx ends, and tells how many of the first are.
func (w *watch) await(ctx context.Context, at place, leaves []Leaf) (int, error) {
	for {
		w.mu.Lock()
		f, n := w.parts[at], 0
		if f == nil {
			w.mu.Unlock()
			return 0, nil
		}
		for n < len(leaves) {
			if _, waits := f.pending[leaves[n].Base]; waits {
				break
			}
			n++
		}
		bad, moved := f.bad, w.moved
		w.mu.Unlock()
		if n > 0 || len(leaves) == 0 || bad != nil {
			return n, bad
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return 0, nil
		}
	}
}

// proved is the offset below which nothing waits.
func (w *watch) proved(at place) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	f := w.parts[at]
	if f == nil {
		return 0
	}
	low := f.top
	for base := range f.pending {
		low = min(low, base)
	}
	return low
}

func (w *watch) run() {
	tick := time.NewTicker(CheckInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			w.round()
		case <-w.ctx.Done():
			return
		}
	}
}

// round checks all that is pending once.
func (w *watch) round() {
	w.mu.Lock()
	var due []place
	for at, f := range w.parts {
		if len(f.pending) > 0 && f.bad == nil {
			due = append(due, at)
		}
	}
	w.mu.Unlock()
	for _, at := range due {
		for _, run := range w.runs(at) {
			if w.ctx.Err() != nil || !w.prove(at, run) {
				break
			}
		}
	}
	ctx, cancel := context.WithTimeout(w.ctx, CheckTimeout)
	defer cancel()
	for _, d := range w.proofs.Doubts(ctx) {
		w.mu.Lock()
		f := w.parts[place{d.Topic.ID, d.Partition}]
		told := f != nil && !f.disputed(d.Err)
		w.mu.Unlock()
		if !told {
			w.fail(d.Topic.Name, d.Partition, d.Err)
		}
	}
}

// disputed tells whether err is a dispute of somebody whose disputes of the partition were not told before.
func (f *followed) disputed(err error) bool {
	var d *DisputedError
	if !errors.As(err, &d) || f.doubted[d.By] || len(f.doubted) >= MaxDisputers {
		return false
	}
	if f.doubted == nil {
		f.doubted = map[common.Address]bool{}
	}
	f.doubted[d.By] = true
	return true
}

// runs are the pending leaves of a partition as runs without gaps, of RunBatches at most.
func (w *watch) runs(at place) [][]Leaf {
	w.mu.Lock()
	f := w.parts[at]
	leaves := make([]Leaf, 0, len(f.pending))
	for _, l := range f.pending {
		leaves = append(leaves, l.Leaf)
	}
	w.mu.Unlock()
	slices.SortFunc(leaves, func(a, b Leaf) int { return cmp.Compare(a.Base, b.Base) })
	var out [][]Leaf
	for from, i := 0, 1; i <= len(leaves); i++ {
		if i == len(leaves) || leaves[i].Base != leaves[i-1].Next || i-from == RunBatches {
			out = append(out, leaves[from:i])
			from = i
		}
	}
	return out
}

// prove checks one run and tells whether later ones are worth asking for.
func (w *watch) prove(at place, run []Leaf) bool {
	ctx, cancel := context.WithTimeout(w.ctx, CheckTimeout)
	defer cancel()
	w.mu.Lock()
	f := w.parts[at]
	w.mu.Unlock()
	to, err := w.proofs.Check(ctx, f.t, at.partition, run)
	var tampered *TamperError
	w.mu.Lock()
	done := false
	for _, l := range run {
		if l.Next <= to {
			delete(f.pending, l.Base)
			w.total--
			w.m.proved.Inc()
			f.top, done = max(f.top, l.Next), true
		}
	}
	if errors.As(err, &tampered) {
		f.bad, done = tampered, true
	}
	var news []error
	switch {
	case tampered != nil:
		news = append(news, tampered)
	default:
		if done {
			f.overdue = false
		}
		news = f.news(run, to, w.now().Sub(w.began), at.partition, err)
	}
	w.m.pending.Set(float64(w.total))
	if done {
		close(w.moved)
		w.moved = make(chan struct{})
	}
	w.mu.Unlock()
	if err != nil && len(news) == 0 && w.ctx.Err() == nil && w.now().Sub(w.said) > ComplaintInterval {
		w.said = w.now()
		w.log.Warn("what was delivered cannot be proved now", zap.String("topic", f.t.Name), zap.Int32("partition", at.partition), zap.Int64("offset", to), zap.Error(err))
	}
	for _, e := range news {
		w.fail(f.t.Name, at.partition, e)
	}
	return err == nil && to >= run[len(run)-1].Next
}

// news is what is to be told of a run that is proved up to an offset: that its checkpoint is disputed, once for each who
// disputes, and that the first batch behind it has waited too long, once until something is proved.
func (f *followed) news(run []Leaf, to int64, now time.Duration, partition int32, err error) (out []error) {
	if f.disputed(err) {
		out = append(out, err)
	}
	limit := UnprovedTime
	if errors.Is(err, ErrPassedOver) {
		limit = PassedTime
	}
	for _, l := range run {
		if l.Next <= to {
			continue
		}
		if p, ok := f.pending[l.Base]; ok && now-p.since > limit && !f.overdue {
			f.overdue = true
			out = append(out, &UnprovedError{Topic: f.t.Name, Partition: partition, Offset: l.Base, Cause: err})
		}
		break
	}
	return out
}
