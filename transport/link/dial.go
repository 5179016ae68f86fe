package link

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/bornode/bornode/transport"
)

// MaxAddresses bounds the addresses kept for one dialled peer.
const MaxAddresses = 8

// dialler keeps one peer connected. Its goroutine owns next and pause; the rest is guarded by Peers.mu.
type dialler struct {
	peer     transport.PeerID
	look     chan struct{} // token: the link's state may have changed
	hurry    chan struct{} // token: do not wait for the pause to end
	addrs    []string
	cancel   context.CancelFunc
	punished bool // the next attempt waits for the longest pause
	refused  bool // the gate refused the newest attempt
}

func (d *dialler) punish() { d.punished = true }

// Dial keeps the peer connected at addr until Forget. Further addresses of the same peer are tried in turn.
func (p *Peers) Dial(peer transport.PeerID, addr string) error {
	if p.connect == nil {
		return fmt.Errorf("transport: this host does not dial")
	}
	if err := p.Allowed(peer); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	e, err := p.obtain(peer)
	if err != nil {
		return err
	}
	if d := e.dialler; d != nil {
		if slices.Contains(d.addrs, addr) {
			return nil
		}
		if len(d.addrs) >= MaxAddresses {
			return fmt.Errorf("transport: %s has %d addresses already", peer, MaxAddresses)
		}
		d.addrs = append(d.addrs, addr)
		return nil
	}
	ctx, cancel := context.WithCancel(p.ctx)
	d := &dialler{peer: peer, look: make(chan struct{}, 1), hurry: make(chan struct{}, 1), addrs: []string{addr}, cancel: cancel}
	e.dialler = d
	p.wg.Go(func() { p.keepConnected(ctx, d) })
	return nil
}

// Forget implements transport.Host.
func (p *Peers) Forget(peer transport.PeerID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.table[peer]
	if e == nil || e.dialler == nil {
		return
	}
	e.dialler.cancel()
	e.dialler = nil
	p.tidy(peer, e)
}

// due tells whether the peer needs dialling: it has no link, or one without a pipe that no session brings back.
func (p *Peers) due(d *dialler) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.table[d.peer]
	return e != nil && e.dialler == d && (e.link == nil || e.held == 0 && !e.link.up())
}

// next gives the address of the attempt, the pause that is due before it, and how long the attempt waits in fact: as long as the
// pause, which is the longest one if the peer was disconnected on purpose since the last attempt; and at most a small part of the
// time that is left where a link that lasted waits to be continued. A link that was cut young earns no short wait, or a peer that
// ends each link at once would be dialled about once a second for ever.
func (p *Peers) next(d *dialler, attempt int, pause time.Duration) (addr string, due, wait time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.table[d.peer]
	due = pause
	if d.punished {
		due = p.cfg.BackoffMax
	}
	wait = due
	if !d.punished && e != nil && e.link != nil && time.Since(e.link.epoch) >= p.cfg.BackoffMax {
		wait = min(due, p.cfg.ResumeTimeout/8)
	}
	d.punished = false
	return d.addrs[attempt%len(d.addrs)], due, wait
}

// up tells whether the link has a pipe.
func (l *Link) up() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.pipe != nil
}

// lasting tells whether the link has neither ended nor begun to close.
func (l *Link) lasting() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err == nil && !l.closing
}

// keepConnected is the dialler's goroutine. The pause doubles from attempt to attempt, and starts anew after a
// connection that lasted.
func (p *Peers) keepConnected(ctx context.Context, d *dialler) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	var pause time.Duration
	for attempt := 0; ctx.Err() == nil; {
		if !p.due(d) {
			since := time.Now()
			select {
			case <-d.look:
			case <-ctx.Done():
			}
			if time.Since(since) > p.cfg.BackoffMax {
				pause = 0
			}
			continue
		}
		addr, due, wait := p.next(d, attempt, pause)
		pause = due
		if wait > 0 && !p.rest(ctx, d, timer, wait) {
			continue
		}
		pause = min(max(2*pause, p.cfg.BackoffMin), p.cfg.BackoffMax)
		attempt++
		p.attempt(ctx, d, addr)
	}
}

// rest waits a jittered pause; false if the peer got connected meanwhile or the dialler ended.
func (p *Peers) rest(ctx context.Context, d *dialler, timer *time.Timer, pause time.Duration) bool {
	timer.Reset(pause/2 + rand.N(pause/2+1))
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			return p.due(d)
		case <-d.hurry:
			return p.due(d)
		case <-d.look:
			if !p.due(d) {
				return false
			}
		case <-ctx.Done():
			return false
		}
	}
}

func (p *Peers) attempt(ctx context.Context, d *dialler, addr string) {
	err := p.Allowed(d.peer)
	p.mu.Lock()
	d.refused = errors.Is(err, transport.ErrNotMember)
	p.mu.Unlock()
	if err != nil {
		p.log.Debug("not dialling", zap.String("peer", string(d.peer)), zap.Error(err))
		return
	}
	ctx, cancel := context.WithTimeout(ctx, p.cfg.HelloTimeout)
	defer cancel()
	if err := p.connect(ctx, addr); err != nil {
		p.log.Debug("dialling failed", zap.String("peer", string(d.peer)), zap.String("address", addr), zap.Error(err))
	}
}
