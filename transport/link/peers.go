package link

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/bornode/bornode/transport"
)

// MaxSetups bounds the connections with one peer that are being set up at once.
const MaxSetups = 4

var (
	errRevoked    = errors.New("link: the connection was dropped while it was set up")
	errSuperseded = errors.New("link: a newer connection took over")
	errNothing    = errors.New("link: there is no link to continue")
)

// Connect makes one connection to addr and hands it to Peers.Attach. It returns Attach's error, or nil once the link
// is up.
type Connect func(ctx context.Context, addr string) error

// Peers is the table of a host's links: it gates peers, makes new links, continues old ones over new connections, and
// keeps dialled peers connected. All methods may be called concurrently.
type Peers struct {
	cfg     Config
	self    transport.PeerID
	log     *zap.Logger
	metrics *metrics
	connect Connect
	links   chan transport.Link
	ctx     context.Context
	cancel  context.CancelFunc
	wg      sync.WaitGroup // diallers and closers

	mu     sync.Mutex
	gate   func(transport.PeerID) error
	table  map[transport.PeerID]*entry
	live   int
	closed bool
}

// entry is what is known of one peer; it exists while it has a link, a dialler, a session or a pipe being set up.
type entry struct {
	turn     chan struct{}        // capacity 1: one connection becomes the pipe at a time
	pending  []transport.Provider // pipes being set up
	chosen   transport.Provider   // of those, the one to become the link's pipe
	carries  transport.Provider   // of those, the one that is the link's pipe already
	link     *Link
	dialler  *dialler
	sessions []*session
	holder   *session // whose pipe the link was put on last; nil: a pipe without one
	held     int      // sessions that bring the link back by themselves: no dialling meanwhile
}

// NewPeers makes the table of the node self. connect may be nil for a host that never dials. log and reg may be nil.
func NewPeers(cfg Config, self transport.PeerID, connect Connect, log *zap.Logger, reg prometheus.Registerer) (*Peers, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if log == nil {
		log = zap.NewNop()
	}
	m, err := newMetrics(reg)
	if err != nil {
		return nil, fmt.Errorf("link: registering metrics: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	return &Peers{
		cfg: cfg, self: self, log: log, metrics: m, connect: connect,
		links: make(chan transport.Link, cfg.MaxPeers),
		ctx:   ctx, cancel: cancel,
		table: make(map[transport.PeerID]*entry),
	}, nil
}

// Links implements transport.Host.
func (p *Peers) Links() <-chan transport.Link { return p.links }

// Leads tells whether this node decides which of several connections with the peer is used: the one with the lower
// id does, and the newest connection it chooses wins. So two nodes that dial each other at once end with exactly one.
func (p *Peers) Leads(peer transport.PeerID) bool { return p.self < peer }

// Allowed asks the gate about a peer.
func (p *Peers) Allowed(peer transport.PeerID) error {
	p.mu.Lock()
	closed := p.closed
	p.mu.Unlock()
	if closed {
		return fmt.Errorf("%w: the host", transport.ErrClosed)
	}
	return p.admitted(peer)
}

// admitted is Allowed also while the host closes: links that are there may still move.
func (p *Peers) admitted(peer transport.PeerID) error {
	p.mu.Lock()
	gate := p.gate
	p.mu.Unlock()
	switch {
	case peer == p.self:
		return fmt.Errorf("%w: it is this node itself", transport.ErrNotMember)
	case gate == nil:
		return nil
	}
	if err := gate(peer); err != nil {
		return fmt.Errorf("%w: %s: %w", transport.ErrNotMember, peer, err)
	}
	return nil
}

// obtain gives the peer's entry. The caller holds the mutex.
func (p *Peers) obtain(peer transport.PeerID) (*entry, error) {
	if p.closed {
		return nil, fmt.Errorf("%w: the host", transport.ErrClosed)
	}
	e := p.table[peer]
	if e == nil {
		if len(p.table) >= 2*p.cfg.MaxPeers {
			return nil, fmt.Errorf("transport: %d peers are known already; raise max_peers", len(p.table))
		}
		e = &entry{turn: make(chan struct{}, 1)}
		p.table[peer] = e
	}
	return e, nil
}

// tidy forgets an entry without use. The caller holds the mutex.
func (p *Peers) tidy(peer transport.PeerID, e *entry) {
	if e.link == nil && e.dialler == nil && len(e.pending) == 0 && len(e.sessions) == 0 && p.table[peer] == e {
		delete(p.table, peer)
	}
}

// Attach puts the link with the peer on a new pipe: it exchanges hellos and either continues the link that both sides
// know or ends the old one and gives out a new one. Of several connections being set up the newest wins, as seen by
// the node that leads the pair: it says hello first, and the other follows. On error pr is closed. The peer must be
// authenticated.
func (p *Peers) Attach(ctx context.Context, peer transport.PeerID, incoming bool, pr transport.Provider) error {
	return p.attach(ctx, setup{peer: peer, incoming: incoming, provider: pr})
}

func (p *Peers) attach(ctx context.Context, s setup) error {
	ctx, cancel := context.WithTimeout(ctx, p.cfg.HelloTimeout)
	defer cancel()
	ask := p.admitted
	if !s.continues {
		ask = p.Allowed
		defer context.AfterFunc(p.ctx, cancel)()
	}
	err := ask(s.peer)
	if err == nil {
		err = p.setUp(ctx, s)
	}
	if err != nil {
		_ = s.provider.Close() // the error that matters is err
	}
	return err
}

func (p *Peers) setUp(ctx context.Context, s setup) error {
	peer, pr := s.peer, s.provider
	e, err := p.register(&s)
	if err != nil {
		return err
	}
	defer p.unregister(peer, e, pr)
	stop := context.AfterFunc(ctx, func() { _ = pr.Close() }) // wakes whoever reads or writes it
	defer stop()

	s.peers, s.entry, s.settled = p, e, stop
	if !p.Leads(peer) {
		if err := s.read(); err != nil {
			return fmt.Errorf("link: hello of %s: %w", peer, err)
		}
	}
	if err := p.choose(e, &s); err != nil {
		return err
	}
	select {
	case e.turn <- struct{}{}:
		defer func() { <-e.turn }()
	case <-ctx.Done():
		return fmt.Errorf("link: connecting %s: %w", peer, ctx.Err())
	}
	return s.establish()
}

// register notes a pipe being set up.
func (p *Peers) register(s *setup) (*entry, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var e *entry
	if s.session != nil {
		e = s.session.entry // which lasts as long as the session
	} else {
		var err error
		if e, err = p.obtain(s.peer); err != nil {
			return nil, err
		}
	}
	if len(e.pending) >= MaxSetups {
		return nil, fmt.Errorf("link: %s sets up %d connections at once", s.peer, len(e.pending))
	}
	e.pending = append(e.pending, s.provider)
	return e, nil
}

func (p *Peers) unregister(peer transport.PeerID, e *entry, pr transport.Provider) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e.pending = slices.DeleteFunc(e.pending, func(q transport.Provider) bool { return q == pr })
	if e.chosen == pr {
		e.chosen = nil
	}
	if e.carries == pr {
		e.carries = nil
	}
	p.tidy(peer, e)
}

// choose makes s the one to become the peer's pipe; it replaces one that has not got that far. A session that would
// only continue the link gives way to any other connection instead, as seen by the node that leads. That node makes one
// move of a session at a time, so for the other one a way back that is being set up means that the way out is over.
func (p *Peers) choose(e *entry, s *setup) error {
	p.mu.Lock()
	if !slices.Contains(e.pending, s.provider) {
		p.mu.Unlock()
		return errRevoked
	}
	if s.continues && p.Leads(s.peer) && (e.chosen != nil || e.holder != s.session) {
		p.mu.Unlock()
		return errSuperseded
	}
	var older []transport.Provider
	if s.continues {
		back := s.provider.(*sessionPipe).base
		for _, pr := range e.pending {
			w, ok := pr.(*sessionPipe)
			if !ok || w.session != s.session || w.base == back {
				continue
			}
			if !back {
				p.mu.Unlock()
				return errSuperseded
			}
			older = append(older, pr)
		}
		e.pending = slices.DeleteFunc(e.pending, func(pr transport.Provider) bool { return slices.Contains(older, pr) })
	}
	if e.chosen != nil && !slices.Contains(older, e.chosen) {
		older = append(older, e.chosen)
	}
	e.chosen = s.provider
	p.mu.Unlock()
	for _, pr := range older {
		_ = pr.Close() // its setup fails and gives its turn
	}
	return nil
}

// revoke takes all connections being set up off the entry. The caller holds the mutex, closes them after, and ends the
// link: its pipe is the link's to close, which tells the peer why.
func (e *entry) revoke() []transport.Provider {
	pending := slices.DeleteFunc(e.pending, func(pr transport.Provider) bool { return pr == e.carries })
	e.pending, e.chosen = nil, nil
	return pending
}

// pipeLost implements owner.
func (p *Peers) pipeLost(l *Link, _ error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e := p.table[l.peer]; e != nil && e.dialler != nil {
		signal(e.dialler.look)
	}
}

// mayReturn implements owner.
func (p *Peers) mayReturn(l *Link) bool {
	p.mu.Lock()
	var s *session
	if e := p.table[l.peer]; e != nil && e.link == l {
		s = e.holder
	}
	p.mu.Unlock()
	return s != nil && s.lasts()
}

// linkEnded implements owner.
func (p *Peers) linkEnded(l *Link) {
	p.log.Debug("link ended", zap.String("peer", string(l.peer)), zap.Error(l.Err()))
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.table[l.peer]
	if e == nil || e.link != l {
		return
	}
	e.link, e.holder = nil, nil
	p.live--
	p.metrics.peers.Set(float64(p.live))
	if e.dialler != nil {
		signal(e.dialler.look)
	}
	for _, s := range e.sessions {
		signal(s.look)
	}
	p.tidy(l.peer, e)
}

// Disconnect implements transport.Host.
func (p *Peers) Disconnect(peer transport.PeerID, reason string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.table[peer]
	if e == nil || p.closed {
		return
	}
	for _, pr := range e.revoke() {
		p.wg.Go(func() { _ = pr.Close() })
	}
	if e.dialler != nil {
		e.dialler.punish()
	}
	if l := e.link; l != nil {
		p.wg.Go(func() { _ = l.Close(reason) })
	}
}

// SetGate implements transport.Host.
func (p *Peers) SetGate(gate func(transport.PeerID) error) {
	p.mu.Lock()
	p.gate = gate
	p.mu.Unlock()
	p.RecheckGate()
}

// RecheckGate implements transport.Host.
func (p *Peers) RecheckGate() {
	p.mu.Lock()
	ids := make([]transport.PeerID, 0, len(p.table))
	for id, e := range p.table {
		ids = append(ids, id)
		if e.dialler != nil && e.dialler.refused {
			signal(e.dialler.hurry) // it may be a member now; the pause of any other has another reason
		}
	}
	p.mu.Unlock()
	for _, id := range ids {
		err := p.Allowed(id)
		if !errors.Is(err, transport.ErrNotMember) {
			continue
		}
		p.mu.Lock()
		var l *Link
		var pending []transport.Provider
		if e := p.table[id]; e != nil {
			l, pending = e.link, e.revoke()
		}
		p.mu.Unlock()
		for _, pr := range pending {
			_ = pr.Close()
		}
		if l != nil {
			l.end(err)
		}
	}
}

// Close ends all links and waits for everything Peers and its links started. The host must have stopped handing in
// connections, or have its calls of Attach return by themselves: they fail from now on.
func (p *Peers) Close() error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		p.wg.Wait()
		return nil
	}
	p.closed = true
	var links []*Link
	for _, e := range p.table {
		if e.link != nil {
			links = append(links, e.link)
		}
	}
	p.mu.Unlock()
	p.cancel()
	for _, l := range links {
		p.wg.Go(func() { _ = l.Close("shutting down") })
	}
	p.wg.Wait()
	close(p.links)
	return nil
}
