package rdma

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/bornode/bornode/transport"
	"github.com/bornode/bornode/transport/rdma/fabric"
)

// pool is a device's registered memory: slabs of whole huge pages, cut into blocks of whole pages by first fit.
// Channels take few sizes, so what is given back fits the next one. Blocks that a peer maps (see fabric.QP.Expose)
// are regions of their own and never reused. Who finds no room waits in line until his context ends. Above the high
// watermark slabs that fall empty are given back to the system, below the low one they stay.
//
// Registering happens in the caller's goroutine, outside the mutex.
type pool struct {
	fd    fabric.Device
	limit int64
	note  func() // called for every registration

	mu      sync.Mutex
	slabs   []*slab
	total   int64 // registered, and being registered
	used    int64
	waits   uint64
	waiters []*poolWaiter
	closed  bool
}

// slab is one region and what is free of it.
type slab struct {
	region fabric.Region
	free   []extent // by offset, never adjacent
}

type extent struct{ offset, n int }

// block is memory in use.
type block struct {
	pool   *pool
	slab   *slab // nil: a region of its own
	region fabric.Region
	offset int
	n      int
}

func (b *block) bytes() []byte { return b.region.Bytes()[b.offset : b.offset+b.n : b.offset+b.n] }
func (b *block) key() uint32   { return b.region.LocalKey() }

// poolWaiter is a place in the line; a token tells its first to try again.
type poolWaiter struct{ wake chan struct{} }

func newPool(fd fabric.Device, limit int64, note func()) *pool {
	return &pool{fd: fd, limit: limit, note: note}
}

func roundUp(n, to int) int { return (n + to - 1) / to * to }

// get gives n bytes, rounded up to pages, not zeroed. own asks for a region that is never used again. It waits for
// memory until ctx ends.
func (p *pool) get(ctx context.Context, n int, own bool) (*block, error) {
	n = roundUp(n, pageBytes)
	if int64(n) > p.limit {
		return nil, fmt.Errorf("rdma: %d bytes of registered memory wanted, pool_bytes is %d", n, p.limit)
	}
	var turn *poolWaiter
	for {
		b, reserve, err := p.take(n, own, turn)
		if err != nil || b != nil {
			return b, err
		}
		if reserve > 0 {
			return p.register(n, reserve, own)
		}
		if turn == nil {
			turn = p.line()
		}
		select {
		case <-turn.wake:
		case <-ctx.Done():
			p.leave(turn)
			return nil, fmt.Errorf("rdma: waiting for registered memory (pool_bytes is %d): %w", p.limit, ctx.Err())
		}
	}
}

// take gives a block, or how much to register, or neither: then the caller waits. turn is the caller's place in the
// line, nil before it has one.
func (p *pool) take(n int, own bool, turn *poolWaiter) (b *block, reserve int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, 0, fmt.Errorf("%w: the device", transport.ErrClosed)
	}
	if len(p.waiters) > 0 && p.waiters[0] != turn {
		return nil, 0, nil
	}
	if !own {
		b = p.fit(n)
	}
	if b == nil {
		reserve = n
		if !own {
			reserve = max(slabBytes, roundUp(n, hugeBytes))
		}
		p.shrink(int64(reserve))
		if !own && p.total+int64(reserve) > p.limit {
			reserve = n // the rest of the limit, in one piece
		}
		if p.total+int64(reserve) > p.limit {
			return nil, 0, nil
		}
		p.total += int64(reserve)
		p.used += int64(n)
	}
	if turn != nil {
		p.waiters = p.waiters[1:]
		p.call()
	}
	return b, reserve, nil
}

// fit cuts n bytes off a slab. The mutex is held.
func (p *pool) fit(n int) *block {
	for _, s := range p.slabs {
		for i := range s.free {
			if e := &s.free[i]; e.n >= n {
				b := &block{pool: p, slab: s, region: s.region, offset: e.offset, n: n}
				e.offset, e.n = e.offset+n, e.n-n
				if e.n == 0 {
					s.free = slices.Delete(s.free, i, i+1)
				}
				p.used += int64(n)
				return b
			}
		}
	}
	return nil
}

// shrink gives up empty slabs if more bytes would not fit beside them. The mutex is held; closing an empty slab's
// region here is rare and on a control goroutine.
func (p *pool) shrink(more int64) {
	for i := 0; i < len(p.slabs) && p.total+more > p.limit; {
		if s := p.slabs[i]; s.empty() {
			p.drop(i)
			continue
		}
		i++
	}
}

func (p *pool) drop(i int) {
	s := p.slabs[i]
	p.slabs = slices.Delete(p.slabs, i, i+1)
	p.total -= int64(len(s.region.Bytes()))
	_ = s.region.Close() // nobody uses it; a failed unmap leaks and hurts nobody else
}

func (s *slab) empty() bool { return len(s.free) == 1 && s.free[0].n == len(s.region.Bytes()) }

// register makes the region that take reserved.
func (p *pool) register(n, reserve int, own bool) (*block, error) {
	p.note()
	region, err := p.fd.NewRegion(reserve)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil && len(region.Bytes()) != reserve {
		_ = region.Close() // it is the backend that is wrong
		err = fmt.Errorf("rdma: a region of %d bytes, asked were %d", len(region.Bytes()), reserve)
	}
	if err == nil && p.closed {
		_ = region.Close()
		err = fmt.Errorf("%w: the device", transport.ErrClosed)
	}
	if err != nil {
		p.total -= int64(reserve)
		p.used -= int64(n)
		p.call()
		return nil, fmt.Errorf("rdma: registering %d bytes: %w", reserve, err)
	}
	if own {
		return &block{pool: p, region: region, n: n}, nil
	}
	s := &slab{region: region}
	if reserve > n {
		s.free = []extent{{offset: n, n: reserve - n}}
	}
	p.slabs = append(p.slabs, s)
	p.call() // there may be room for the next in line
	return &block{pool: p, slab: s, region: region, n: n}, nil
}

// close gives a block back. nil does nothing.
func (b *block) close() {
	if b == nil {
		return
	}
	p := b.pool
	if b.slab == nil {
		_ = b.region.Close() // see drop
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.used -= int64(b.n)
	if b.slab == nil {
		p.total -= int64(b.n)
	} else {
		b.slab.release(b.offset, b.n)
		high := p.limit / 4 * 3
		if b.slab.empty() && p.total > high {
			p.drop(slices.Index(p.slabs, b.slab))
		}
	}
	p.call()
}

// release adds an extent and joins it with its neighbours.
func (s *slab) release(offset, n int) {
	i, _ := slices.BinarySearchFunc(s.free, offset, func(e extent, o int) int { return e.offset - o })
	s.free = slices.Insert(s.free, i, extent{offset, n})
	if i+1 < len(s.free) && offset+n == s.free[i+1].offset {
		s.free[i].n += s.free[i+1].n
		s.free = slices.Delete(s.free, i+1, i+2)
	}
	if i > 0 && s.free[i-1].offset+s.free[i-1].n == offset {
		s.free[i-1].n += s.free[i].n
		s.free = slices.Delete(s.free, i, i+1)
	}
}

// line queues the caller.
func (p *pool) line() *poolWaiter {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := &poolWaiter{wake: make(chan struct{}, 1)}
	p.waiters = append(p.waiters, w)
	p.waits++
	if len(p.waiters) == 1 {
		p.call() // something may have come free before it stood in line
	}
	return w
}

// call wakes the first of the line. The mutex is held.
func (p *pool) call() {
	if len(p.waiters) > 0 {
		signal(p.waiters[0].wake)
	}
}

func (p *pool) leave(w *poolWaiter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.Index(p.waiters, w); i >= 0 {
		p.waiters = slices.Delete(p.waiters, i, i+1)
		p.call()
	}
}

// usage tells what is registered, of that in use, and how often somebody waited.
func (p *pool) usage() (total, used int64, waits uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.total, p.used, p.waits
}

// refuse ends the waiting.
func (p *pool) refuse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, w := range p.waiters {
		signal(w.wake)
	}
}

// close frees what is registered. All blocks were given back.
func (p *pool) close() error {
	p.refuse()
	p.mu.Lock()
	defer p.mu.Unlock()
	var first error
	for _, s := range p.slabs {
		if err := s.region.Close(); err != nil && first == nil {
			first = err
		}
	}
	p.slabs, p.total = nil, 0
	if p.used != 0 && first == nil {
		first = fmt.Errorf("rdma: %d bytes of registered memory were not given back", p.used)
	}
	return first
}

// signal puts a token into a channel of capacity 1.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
