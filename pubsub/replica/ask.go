package replica

import (
	"context"
	"fmt"
	"sync"
)

// asks are this broker's questions under way.
type asks struct {
	mu   sync.Mutex
	last uint64
	open map[uint64]openAsk
}

type openAsk struct {
	peer string
	done chan answer // buffered
}

type answer struct {
	payload []byte
	err     error
}

// Answer sets who answers questions of a kind. Call it before Run. f runs in a goroutine of its own, a few at a time for
// each peer; its context ends with the link.
func (m *Manager) Answer(kind uint8, f func(ctx context.Context, peer string, payload []byte) ([]byte, error)) {
	m.answers[kind] = f
}

// Ask puts a question to another broker, or to this one, and waits for the answer. Errors: ErrNoPeer, ErrBusy,
// ErrTooLarge, ctx's, or what the other side says.
func (m *Manager) Ask(ctx context.Context, peer string, kind uint8, payload []byte) ([]byte, error) {
	if len(payload) > MaxAskBytes {
		return nil, fmt.Errorf("%w: a question of %d bytes, %d allowed", ErrTooLarge, len(payload), MaxAskBytes)
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	if peer == m.self {
		f := m.answers[kind]
		if f == nil {
			return nil, fmt.Errorf("replica: nobody answers questions of kind %d", kind)
		}
		return f(ctx, peer, payload)
	}
	q := m.peer(peer)
	if q == nil || !q.up() {
		return nil, fmt.Errorf("%w: %s", ErrNoPeer, peer)
	}
	n, done, err := m.asks.begin(peer)
	if err != nil {
		return nil, err
	}
	defer m.asks.end(n)
	a := ask{Number: n, Kind: kind, Payload: payload}
	if !q.try(typeAsk, a.encode()) {
		return nil, fmt.Errorf("%w: the link with %s is full", ErrBusy, peer)
	}
	select {
	case <-ctx.Done():
		return nil, fmt.Errorf("replica: no answer of %s: %w", peer, ctx.Err())
	case r := <-done:
		return r.payload, r.err
	}
}

func (a *asks) begin(peer string) (uint64, chan answer, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.open) >= maxAsks {
		return 0, nil, fmt.Errorf("%w: %d questions wait for answers", ErrBusy, maxAsks)
	}
	if a.open == nil {
		a.open = map[uint64]openAsk{}
	}
	a.last++
	o := openAsk{peer: peer, done: make(chan answer, 1)}
	a.open[a.last] = o
	return a.last, o.done, nil
}

func (a *asks) end(n uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.open, n)
}

// answered takes an answer, if it is of the one that was asked.
func (a *asks) answered(peer string, r ask) {
	a.mu.Lock()
	defer a.mu.Unlock()
	o, ok := a.open[r.Number]
	if !ok || o.peer != peer {
		return
	}
	delete(a.open, r.Number)
	if r.Kind == 0 {
		o.done <- answer{payload: r.Payload}
		return
	}
	o.done <- answer{err: fmt.Errorf("replica: %s answers: %q", peer, r.Payload[:min(len(r.Payload), maxAskError)])}
}

// drop fails the questions to a peer whose link ended.
func (a *asks) drop(peer string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for n, o := range a.open {
		if o.peer == peer {
			delete(a.open, n)
			o.done <- answer{err: fmt.Errorf("%w: the link with %s ended", ErrNoPeer, peer)}
		}
	}
}

// serve answers a peer's question.
func (q *peer) serve(ctx context.Context, a ask, wg *sync.WaitGroup) {
	f := q.m.answers[a.Kind]
	refuse := func(why string) {
		r := ask{Number: a.Number, Kind: 1, Payload: []byte(why[:min(len(why), maxAskError)])}
		q.try(typeAnswer, r.encode())
	}
	if f == nil {
		refuse("nobody answers questions of this kind here")
		return
	}
	q.mu.Lock()
	busy := q.serving >= maxAsksServed
	if !busy {
		q.serving++
	}
	q.mu.Unlock()
	if busy {
		refuse("too many questions at once")
		return
	}
	wg.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, askTimeout)
		defer cancel()
		b, err := f(ctx, q.id, a.Payload)
		q.mu.Lock()
		q.serving--
		q.mu.Unlock()
		switch {
		case err != nil:
			refuse(err.Error())
		case len(b) > MaxAskBytes:
			refuse("the answer is too large")
		default:
			r := ask{Number: a.Number, Payload: b}
			q.try(typeAnswer, r.encode())
		}
	})
}

// heartbeat is the message that says that this broker lives.
var heartbeat = []byte{wireVersion}

// beat tells every broker that shares partitions with this one that it lives.
func (m *Manager) beat() {
	for _, q := range m.allPeers() {
		if q.relevant.Load() {
			q.try(typeHeartbeat, heartbeat)
		}
	}
}
