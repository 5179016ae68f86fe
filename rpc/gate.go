package rpc

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// local is the host of the Unix socket and of clients inside the process: it has no quota of its own.
const local = ""

var errQueue = errors.New("too many requests of this address are waiting already")

// gate lets a bounded number of requests work at the same time. Each host has a quota; half of the places is kept for
// hosts that have none yet, so one host, or a few, cannot keep another waiting. Among hosts that wait the one with the
// fewest places is served first, in turn; within a host it is first come, first served.
type gate struct {
	places  int // of all hosts
	perHost int

	mu      sync.Mutex
	running int
	hosts   map[string]*gateHost
	line    []*gateHost // hosts with somebody waiting, the one served longest ago first
}

type gateHost struct {
	name    string
	running int
	waiting []chan struct{}
}

func newGate(places, perHost int) *gate {
	return &gate{places: places, perHost: perHost, hosts: make(map[string]*gateHost)}
}

// fits reports whether a request of h may begin; g.mu is held.
func (g *gate) fits(h *gateHost) bool {
	switch {
	case g.running >= g.places:
		return false
	case h.running == 0:
		return true
	case h.name != local && h.running >= g.perHost:
		return false
	}
	return g.running < g.places-g.places/2
}

// enter takes a place, which leave gives back. It waits until ctx ends.
func (g *gate) enter(ctx context.Context, host string) error {
	g.mu.Lock()
	h := g.hosts[host]
	if h == nil {
		h = &gateHost{name: host}
		g.hosts[host] = h
	}
	if len(h.waiting) == 0 && g.fits(h) {
		h.running++
		g.running++
		g.mu.Unlock()
		return nil
	}
	if len(h.waiting) >= maxGateQueue {
		g.mu.Unlock()
		return errQueue
	}
	turn := make(chan struct{})
	if h.waiting = append(h.waiting, turn); len(h.waiting) == 1 {
		g.line = append(g.line, h)
	}
	g.mu.Unlock()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	i := slices.Index(h.waiting, turn)
	if i < 0 { // the place came at the same moment
		g.free(h)
		return ctx.Err()
	}
	h.waiting = slices.Delete(h.waiting, i, i+1)
	g.forget(h)
	return ctx.Err()
}

func (g *gate) leave(host string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.free(g.hosts[host])
}

// free gives a place back and lets in who may begin now; g.mu is held.
func (g *gate) free(h *gateHost) {
	h.running--
	g.running--
	for {
		var next *gateHost
		for _, x := range g.line {
			if g.fits(x) && (next == nil || x.running < next.running) {
				next = x
			}
		}
		if next == nil {
			break
		}
		next.running++
		g.running++
		close(next.waiting[0])
		next.waiting = next.waiting[1:]
		i := slices.Index(g.line, next)
		g.line = slices.Delete(g.line, i, i+1)
		if len(next.waiting) > 0 {
			g.line = append(g.line, next)
		}
	}
	g.forget(h)
}

// forget drops what is kept of a host that has nothing here; g.mu is held.
func (g *gate) forget(h *gateHost) {
	if len(h.waiting) > 0 {
		return
	}
	if i := slices.Index(g.line, h); i >= 0 {
		g.line = slices.Delete(g.line, i, i+1)
	}
	if h.running == 0 {
		delete(g.hosts, h.name)
	}
}

// budget bounds what all hosts together, and each of them, hold of something: bytes, subscriptions, filters.
type budget struct {
	most, perHost int64
	floor         int64 // what a host may hold however much the others do

	mu    sync.Mutex
	used  int64
	hosts map[string]int64
}

func newBudget(most, perHost, floor int64) *budget {
	return &budget{most: most, perHost: perHost, floor: floor, hosts: make(map[string]int64)}
}

// take reserves n; false if that is too much for the host or for all together.
func (b *budget) take(host string, n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	own := b.hosts[host] + n
	if host != local && own > b.perHost || b.used+n > b.most && own > b.floor {
		return false
	}
	b.add(host, n)
	return true
}

// force reserves n in any case.
func (b *budget) force(host string, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.add(host, n)
}

func (b *budget) give(host string, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.add(host, -n)
}

func (b *budget) add(host string, n int64) {
	b.used += n
	if b.hosts[host] += n; b.hosts[host] == 0 {
		delete(b.hosts, host)
	}
}

func (b *budget) total() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}
