package replica

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/bornode/bornode/transport"
)

var errNoBroker = errors.New("replica: the peer is no broker")

// peer is another broker, whether or not there is a link with it.
type peer struct {
	m        *Manager
	id       string
	heard    atomic.Int64 // Unix nanoseconds of its last message
	taking   atomic.Bool  // a message of it is being taken: it is this broker that is slow
	relevant atomic.Bool  // it shares partitions with this broker: it is told that this one lives
	wake     chan struct{}

	mu      sync.Mutex
	link    transport.Link // nil: none
	queue   []*part        // with news for it, each once
	queued  map[*part]struct{}
	serving int // questions of it being answered

	// Of the Manager's goroutine.
	stop func() // ends the link's goroutines and waits for them; nil: none
}

func (q *peer) up() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.link != nil
}

func (q *peer) heardAt() time.Time {
	if q.taking.Load() {
		return time.Now()
	}
	return time.Unix(0, q.heard.Load())
}

// want has the sender look at the part; the part's lock may be held.
func (q *peer) want(p *part) {
	q.mu.Lock()
	_, ok := q.queued[p]
	if !ok && q.link != nil {
		q.queued[p] = struct{}{}
		q.queue = append(q.queue, p)
	}
	q.mu.Unlock()
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

func (q *peer) pop() *part {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.queue) == 0 {
		return nil
	}
	p := q.queue[0]
	q.queue[0] = nil
	q.queue = q.queue[1:]
	delete(q.queued, p)
	return p
}

// setLink replaces the link; what was queued is derived anew by the parts.
func (q *peer) setLink(l transport.Link) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.link, q.queue, q.queued = l, nil, map[*part]struct{}{}
}

// try sends without waiting.
func (q *peer) try(t uint8, payload []byte) bool {
	q.mu.Lock()
	l := q.link
	q.mu.Unlock()
	if l == nil || !l.TrySend(transport.Message{Lane: transport.LaneTopics, Type: t, Payload: payload}) {
		return false
	}
	q.m.metrics.messages.Inc()
	q.m.metrics.sentBytes.Add(float64(len(payload)))
	return true
}

// attach takes a new link into use. Manager's goroutine.
func (m *Manager) attach(ctx context.Context, l transport.Link) {
	q := m.needPeer(string(l.Peer()))
	m.detach(q)
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	q.stop = func() { cancel(); wg.Wait() }
	q.heard.Store(time.Now().UnixNano())
	q.setLink(l)
	m.metrics.peers.Inc()
	wg.Go(func() { q.read(ctx, l, &wg) })
	wg.Go(func() { q.write(ctx, l) })
	for _, p := range m.all() {
		p.mu.Lock()
		if !p.gone {
			p.core.linkUp(q.id)
		}
		p.mu.Unlock()
	}
}

// detach forgets a peer's link, if any. Manager's goroutine.
func (m *Manager) detach(q *peer) {
	if q.stop == nil {
		return
	}
	q.stop()
	q.stop = nil
	q.setLink(nil)
	m.metrics.peers.Dec()
	m.asks.drop(q.id)
	for _, p := range m.all() {
		p.mu.Lock()
		if !p.gone {
			p.core.linkDown(q.id)
		}
		p.mu.Unlock()
	}
}

// read takes what the peer sends until the link ends.
func (q *peer) read(ctx context.Context, l transport.Link, wg *sync.WaitGroup) {
	for {
		msg, err := l.RecvLane(ctx, transport.LaneTopics)
		if err != nil {
			if ctx.Err() == nil {
				q.m.post(ctx, func() {
					if q.stop != nil && q.linkIs(l) {
						q.m.detach(q)
					}
				})
			}
			return
		}
		q.taking.Store(true)
		err = q.take(ctx, msg, wg)
		q.heard.Store(time.Now().UnixNano())
		q.taking.Store(false)
		if err != nil {
			q.m.metrics.counters[eventRefused].Inc()
			q.m.log.Warn("a message of another broker is not taken", zap.String("peer", q.id), zap.Uint8("type", msg.Type), zap.Error(err))
		}
	}
}

// broker tells whether a peer may hand batches over and ask.
func (m *Manager) broker(id string) bool { return m.deps.Broker == nil || m.deps.Broker(id) }

func (q *peer) linkIs(l transport.Link) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.link == l
}

func (q *peer) take(ctx context.Context, msg transport.Message, wg *sync.WaitGroup) error {
	switch msg.Type {
	case typeItems:
		items, err := decodeItems(msg.Payload)
		if err != nil {
			return err
		}
		for i := range items {
			if items[i].Kind == kindSalvage && !q.m.broker(q.id) {
				return errNoBroker
			}
			if p := q.m.part(items[i].ID); p != nil {
				p.mu.Lock()
				if !p.gone {
					p.core.receive(q.id, &items[i])
				}
				p.mu.Unlock()
			}
		}
	case typeHeartbeat: // that it came is all it says
	case typeAsk:
		if !q.m.broker(q.id) {
			return errNoBroker
		}
		a, err := decodeAsk(msg.Payload)
		if err != nil {
			return err
		}
		q.serve(ctx, a, wg)
	case typeAnswer:
		a, err := decodeAsk(msg.Payload)
		if err != nil {
			return err
		}
		q.m.asks.answered(q.id, a)
	}
	return nil
}

// write sends what parts have for the peer until the link ends.
func (q *peer) write(ctx context.Context, l transport.Link) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-q.wake:
		}
		for {
			b := q.gather()
			if len(b) == 0 {
				break
			}
			err := l.Send(ctx, transport.Message{Lane: transport.LaneTopics, Type: typeItems, Payload: b})
			if err != nil {
				if !errors.Is(err, transport.ErrTooLarge) {
					return // the reader learns it too
				}
				q.m.log.Error("a message for another broker is too large", zap.String("peer", q.id), zap.Int("bytes", len(b)))
				continue
			}
			q.m.metrics.messages.Inc()
			q.m.metrics.sentBytes.Add(float64(len(b)))
		}
	}
}

// gather makes one message of what parts have to say; empty: nothing.
func (q *peer) gather() []byte {
	var items []item
	for size := 1; len(items) < maxItems && size < gatherBytes; {
		p := q.pop()
		if p == nil {
			break
		}
		it, ok := q.next(p)
		if !ok {
			continue
		}
		q.want(p) // behind the others: each gets its turn
		if it.Kind == 0 {
			continue
		}
		items = append(items, it)
		size += it.room()
	}
	if len(items) == 0 {
		return nil
	}
	size := 1
	for i := range items {
		size += items[i].room()
	}
	b := append(make([]byte, 0, size), wireVersion)
	for i := range items {
		b = appendItem(b, &items[i])
	}
	return b
}

// next gives the part's next item for the peer; false: none. Kind is 0 if there was one that may not go.
func (q *peer) next(p *part) (item, bool) {
	p.mu.Lock()
	if p.gone {
		p.mu.Unlock()
		return item{}, false
	}
	it, ok := p.core.next(q.id)
	data := p.core.logOf(&it)
	p.mu.Unlock()
	if !ok || it.max == 0 {
		return it, ok
	}
	err := fill(data, &it)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gone || !p.core.filled(q.id, &it, err) {
		it.Kind = 0
	}
	return it, true
}
