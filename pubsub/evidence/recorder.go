package evidence

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"
	"time"

	"github.com/syndtr/goleveldb/leveldb"
	"github.com/syndtr/goleveldb/leveldb/opt"
	"github.com/syndtr/goleveldb/leveldb/util"

	"github.com/bornode/bornode/pubsub/proof"
)

type foldKey struct {
	topic, tenant [32]byte
	key           proof.Key
}

// entry is one entry of some topic's operations log. tenant is where it counts for or against its operator's reputation;
// zero: nowhere. On disk it is the topic, the tenant and the operation.
type entry struct {
	topic, tenant [32]byte
	op            proof.Operation
}

// entryHead is the length of what comes before the operation on disk.
const entryHead = 32 + 32

// append appends the entry as it is on disk.
func (x *entry) append(b []byte) []byte {
	b = append(append(b, x.topic[:]...), x.tenant[:]...)
	return x.op.Append(b)
}

// recorder folds operations within a window and queues the entries on disk.
type recorder struct {
	db     *database
	window time.Duration
	now    func() time.Time
	m      *metrics
	full   chan struct{} // the window has too many entries
	queued chan struct{} // there is something to commit

	mu          sync.Mutex
	open        map[foldKey]int
	entries     []entry
	coarse      bool
	first, next uint64 // numbers of the queue: [first,next)
	room        chan struct{}
}

func entryKey(n uint64) []byte { return binary.BigEndian.AppendUint64([]byte{keyEntry}, n) }

func newRecorder(db *database, window time.Duration, now func() time.Time, m *metrics) (*recorder, error) {
	r := &recorder{db: db, window: window, now: now, m: m, full: make(chan struct{}, 1), queued: make(chan struct{}, 1),
		open: map[foldKey]int{}, room: make(chan struct{})}
	it := db.NewIterator(util.BytesPrefix([]byte{keyEntry}), nil)
	defer it.Release()
	if it.First() {
		r.first = binary.BigEndian.Uint64(it.Key()[1:])
		it.Last()
		r.next = binary.BigEndian.Uint64(it.Key()[1:]) + 1
	} else {
		r.first, r.next = 1, 1
	}
	r.m.queued.Set(float64(r.next - r.first))
	return r, it.Error()
}

// add folds one operation.
func (r *recorder) add(topic, tenant [32]byte, op proof.Operation) {
	op.Reason = proof.CutReason(op.Reason)
	if op.Count == 0 {
		op.Count = 1
	}
	op.Last, op.End = max(op.First, op.Last), max(op.Start, op.End)
	r.m.operations.Inc()
	r.mu.Lock()
	defer r.mu.Unlock()
	k := foldKey{topic, tenant, op.Key(r.coarse)}
	if i, ok := r.open[k]; ok && r.entries[i].op.Fold(&op) {
		return
	}
	r.open[k] = len(r.entries)
	r.entries = append(r.entries, entry{topic, tenant, op})
	if len(r.entries) >= maxOpen {
		select {
		case r.full <- struct{}{}:
		default:
		}
	}
}

// beyond tells whether as many entries are held.
func (r *recorder) beyond(limit uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.held() >= limit
}

// ready waits while as many entries are held.
func (r *recorder) ready(ctx context.Context, limit uint64) error {
	for {
		r.mu.Lock()
		held, room := r.held() >= limit, r.room
		r.mu.Unlock()
		if !held {
			return nil
		}
		r.m.held.Inc()
		select {
		case <-ctx.Done():
			return fmt.Errorf("the operations log waits for the chain: %w", ctx.Err())
		case <-room:
		}
	}
}

func (r *recorder) held() uint64 { return r.next - r.first + uint64(len(r.entries)) }

func (r *recorder) run(ctx context.Context) {
	tick := time.NewTicker(r.window)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-r.full:
		case <-tick.C:
			if r.isCoarse() && n%coarseWindows != 0 {
				continue
			}
		}
		if err := r.flush(); err != nil {
			r.m.commitErrors.Inc() // the entries stay in memory and are tried with the next window
		}
	}
}

func (r *recorder) isCoarse() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.coarse
}

// flush closes the window: its entries are on disk when it returns.
func (r *recorder) flush() error {
	r.mu.Lock()
	entries, from := r.entries, r.next
	r.entries, r.open = nil, map[foldKey]int{}
	r.coarse = r.next-r.first+uint64(len(entries)) > maxQueued
	if r.coarse {
		r.m.coarse.Inc()
	}
	r.mu.Unlock()
	if len(entries) == 0 {
		return nil
	}
	var w leveldb.Batch
	for i := range entries {
		w.Put(entryKey(from+uint64(i)), entries[i].append(nil))
	}
	err := r.db.Write(&w, &opt.WriteOptions{Sync: true})
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.entries = append(entries, r.entries...)
		r.open = map[foldKey]int{} // entries of one key may now be two; none is lost
		return fmt.Errorf("queue operations: %w", err)
	}
	r.next += uint64(len(entries))
	r.m.entries.Add(float64(len(entries)))
	r.m.queued.Set(float64(r.next - r.first))
	select {
	case r.queued <- struct{}{}:
	default:
	}
	return nil
}

func (r *recorder) close() error { return r.flush() }

// peek reads the oldest entries of the queue: at most this many. The number of the first comes with them.
func (r *recorder) peek(most int) (first uint64, out []entry, err error) {
	r.mu.Lock()
	first, next := r.first, r.next
	r.mu.Unlock()
	it := r.db.NewIterator(&util.Range{Start: entryKey(first), Limit: entryKey(min(next, first+uint64(most)))}, nil)
	defer it.Release()
	for it.Next() {
		v := it.Value()
		if len(v) < entryHead {
			return first, nil, fmt.Errorf("the queue of operations is damaged at entry %x", it.Key()[1:])
		}
		list, err := proof.DecodeOperations(v[entryHead:], 1)
		if err != nil {
			return first, nil, fmt.Errorf("the queue of operations is damaged at entry %x: %w", it.Key()[1:], err)
		}
		out = append(out, entry{[32]byte(v[:32]), [32]byte(v[32:entryHead]), list[0]})
	}
	return first, out, it.Error()
}

// drop puts the removal of the oldest entries, up to a number, into w; dropped notes that w was written.
func (r *recorder) drop(w *leveldb.Batch, until uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for n := r.first; n < until; n++ {
		w.Delete(entryKey(n))
	}
}

func (r *recorder) dropped(until uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.first = min(max(r.first, until), r.next)
	r.m.queued.Set(float64(r.next - r.first))
	close(r.room)
	r.room = make(chan struct{})
}
