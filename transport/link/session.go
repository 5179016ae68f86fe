package link

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/bornode/bornode/transport"
)

// spareReturns is how often a peer may bring the link back to the connection beyond the upgrades that this side tried,
// and once more each returnRefill: its attempt may fail before ours begins.
const (
	spareReturns = 8
	returnRefill = time.Minute
)

// noOffer is the reason shown until an upgrader says more.
const noOffer = "the peer offers nothing faster"

// session is a connection that outlives its pipes: the link may leave for a faster pipe and come back.
//
// Base pipes are the connection's own, fast ones the upgrader's; of all of them one at most is in use. The connection
// ends with the link, with a base pipe that fails while no upgrade is under way, and when the link is carried or being
// set up elsewhere. It stays while a pipe of it is in use, and for a bounded time while the leader brings the link back.
type session struct {
	peers    *Peers
	entry    *entry
	peer     transport.PeerID
	leads    bool
	incoming bool
	conn     Conn
	upgrader Upgrader
	log      *zap.Logger
	ctx      context.Context // ends with the session
	cancel   context.CancelFunc
	wg       sync.WaitGroup
	look     chan struct{} // token: something may have changed
	moves    chan struct{} // capacity 1: the leader makes one move at a time, away to a fast pipe or back
	why      string        // reason for what carries the link; guarded by Peers.mu

	mu        sync.Mutex
	base      map[*sessionPipe]struct{} // not yet closed
	fast      map[*sessionPipe]struct{}
	attaching int  // calls of attach under way
	owed      bool // the link left for a fast pipe that is gone: it has to come back
	reset     bool // the leader closed the base pipe: it moves the link
	holding   bool // the dialler waits for this session
	upgrades  int  // attempts of this side's upgrader
	returns   int  // base pipes after the first
	began     time.Time
	ended     bool
}

// sessionPipe tells its session of its end.
type sessionPipe struct {
	transport.Provider
	session *session
	base    bool // of the connection, else the upgrader's
	once    sync.Once
	mu      sync.Mutex
	failed  bool // an operation failed before anyone closed it here
}

func (p *sessionPipe) note(err error) error {
	if err != nil {
		p.mu.Lock()
		p.failed = true
		p.mu.Unlock()
	}
	return err
}

func (p *sessionPipe) WriteFrames(frames []transport.Frame) error {
	return p.note(p.Provider.WriteFrames(frames))
}

func (p *sessionPipe) ReadHeader() (transport.Header, error) {
	h, err := p.Provider.ReadHeader()
	return h, p.note(err)
}

func (p *sessionPipe) ReadPayload(dst []byte) error { return p.note(p.Provider.ReadPayload(dst)) }

// Counters implements transport.Counted.
func (p *sessionPipe) Counters() map[string]uint64 {
	if c, ok := p.Provider.(transport.Counted); ok {
		return c.Counters()
	}
	return nil
}

// ReadWindow implements transport.WindowReader.
func (p *sessionPipe) ReadWindow(ctx context.Context, area uint32, offset int64, dst []byte) (int, error) {
	if w, ok := p.Provider.(transport.WindowReader); ok {
		return w.ReadWindow(ctx, area, offset, dst)
	}
	return 0, transport.ErrNoWindow
}

// Close closes the pipe; the session is told first, so that the dialler never sees a link that nobody looks after.
func (p *sessionPipe) Close() error {
	p.once.Do(func() {
		p.mu.Lock()
		failed := p.failed
		p.mu.Unlock()
		p.session.closed(p, failed)
	})
	return p.Provider.Close()
}

// Serve keeps the link with a peer on a connection that was just made: on its own pipe, or on a faster one that up
// (nil: none) agrees on with the peer. It returns when the link is up; on an error conn is closed. The session lasts
// until the connection ends or carries nothing any more; Close waits for it.
func (p *Peers) Serve(ctx context.Context, peer transport.PeerID, incoming bool, conn Conn, up Upgrader) error {
	s := &session{
		peers: p, peer: peer, leads: p.Leads(peer), incoming: incoming, conn: conn, upgrader: up,
		log: p.log.With(zap.String("peer", string(peer))), look: make(chan struct{}, 1), moves: make(chan struct{}, 1),
		base: make(map[*sessionPipe]struct{}), fast: make(map[*sessionPipe]struct{}),
		began: time.Now(),
	}
	if up != nil {
		s.why = noOffer
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	if err := p.enlist(s); err != nil {
		s.cancel()
		_ = conn.Close() // err is what matters
		return err
	}
	defer p.wg.Done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(p.ctx, cancel)()
	pr, err := conn.Pipe(ctx)
	if err != nil {
		err = fmt.Errorf("link: connection with %s: %w", peer, err)
	} else {
		err = s.attach(ctx, pr, true, false)
	}
	if err != nil {
		s.finish()
		return err
	}
	p.wg.Go(s.run)
	return nil
}

// enlist makes the session known, and counts it in wg.
func (p *Peers) enlist(s *session) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	e, err := p.obtain(s.peer)
	if err != nil {
		return err
	}
	p.wg.Add(1)
	e.sessions = append(e.sessions, s)
	s.entry = e
	return nil
}

func (p *Peers) delist(s *session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := s.entry
	e.sessions = slices.DeleteFunc(e.sessions, func(x *session) bool { return x == s })
	if e.holder == s {
		e.holder = nil
	}
	p.tidy(s.peer, e)
}

// hold keeps the dialler off the peer while sessions look after its link.
func (p *Peers) hold(s *session, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.entry.held += n
	if d := s.entry.dialler; d != nil && s.entry.held == 0 {
		signal(d.look)
	}
}

// awaits tells whether the link is the session's to bring back: it lasts, and no other connection sets a pipe up.
func (p *Peers) awaits(s *session) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := s.entry
	other := func(pr transport.Provider) bool { w, ok := pr.(*sessionPipe); return !ok || w.session != s }
	return e.holder == s && e.link != nil && !slices.ContainsFunc(e.pending, other)
}

// attach puts the link on a pipe of the session. Only the connection's first pipe may begin a link; every other one
// continues the link that this session carries.
func (s *session) attach(ctx context.Context, pr transport.Provider, base, continues bool) error {
	w := &sessionPipe{Provider: pr, session: s, base: base}
	s.mu.Lock()
	if s.ended {
		s.mu.Unlock()
		_ = pr.Close() // the connection's end is what matters
		return fmt.Errorf("%w: the connection has ended", transport.ErrClosed)
	}
	s.attaching++
	if base {
		s.base[w] = struct{}{}
	} else {
		s.fast[w] = struct{}{}
		s.upgrades++
	}
	s.update()
	s.mu.Unlock()
	err := s.peers.attach(ctx, setup{peer: s.peer, incoming: s.incoming, provider: w, session: s, continues: continues})
	s.mu.Lock()
	s.attaching--
	if len(s.base) > 0 && base == (err == nil) { // a base pipe that has gone again already leaves what closed noted
		s.owed, s.reset = false, false // the base pipe carries the link
	}
	s.update()
	s.mu.Unlock()
	signal(s.look)
	return err
}

// closed is how a pipe reports that it was closed; failed tells that it had failed by itself.
func (s *session) closed(p *sessionPipe, failed bool) {
	s.mu.Lock()
	if _, ok := s.base[p]; ok {
		delete(s.base, p)
		s.reset = len(s.base) == 0 && failed && !s.leads && !s.over()
	}
	if _, ok := s.fast[p]; ok {
		delete(s.fast, p)
		s.owed = true
	}
	s.update()
	s.mu.Unlock()
	signal(s.look)
}

// over tells that the connection has ended.
func (s *session) over() bool {
	select {
	case <-s.conn.Done():
		return true
	default:
		return false
	}
}

// update tells the dialler whether to wait. The caller holds the mutex.
func (s *session) update() {
	want := !s.ended && s.upgrader != nil && (len(s.fast) > 0 || s.owed || s.reset)
	if want == s.holding {
		return
	}
	s.holding = want
	if want {
		s.peers.hold(s, 1)
	} else {
		s.peers.hold(s, -1)
	}
}

// run is the session's goroutine: it decides whether the connection stays.
func (s *session) run() {
	defer s.finish()
	s.wg.Go(s.upgrade)
	if !s.leads {
		s.wg.Go(s.accept)
	}
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for waiting := false; ; {
		busy, mine := s.state()
		switch {
		case s.peers.linkOf(s) == nil: // it ended, or another connection carries it
			return
		case busy:
			waiting = false
		case !mine || s.upgrader == nil || !s.peers.awaits(s):
			return
		case s.leads:
			if err := s.bringBack(); err != nil {
				s.log.Debug("connection does not take the link back", zap.Error(err))
				return
			}
			continue
		case !waiting: // the leader brings it back, or not
			waiting = true
			timer.Reset(s.patience())
		}
		select {
		case <-s.look:
		case <-timer.C:
			if waiting {
				s.log.Debug("the peer does not bring the link back to its connection")
				return
			}
		case <-s.conn.Done():
			return
		case <-s.ctx.Done():
			return
		}
	}
}

// state tells whether a pipe of the session is in use, and if not, whether the link is this session's to bring back.
func (s *session) state() (busy, mine bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.base) > 0 || len(s.fast) > 0 || s.attaching > 0, s.owed || s.reset
}

// patience bounds how long bringing the link back may take. It leaves the dialler as much of the resume time-out.
func (s *session) patience() time.Duration {
	return min(s.peers.cfg.HelloTimeout, s.peers.cfg.ResumeTimeout/2)
}

// move waits until no other move is under way.
func (s *session) move(ctx context.Context) error {
	select {
	case s.moves <- struct{}{}:
		return nil
	case <-s.conn.Done():
		return fmt.Errorf("%w: the connection has ended", transport.ErrClosed)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// bringBack puts the link on a new pipe of the connection. Only the leader does.
func (s *session) bringBack() error {
	ctx, cancel := context.WithTimeout(s.ctx, s.patience())
	defer cancel()
	if err := s.move(ctx); err != nil {
		return err
	}
	defer func() { <-s.moves }()
	if busy, _ := s.state(); busy {
		return nil // the upgrader was first with another pipe
	}
	pr, err := s.conn.Pipe(ctx)
	if err != nil {
		return err
	}
	return s.attach(ctx, pr, true, true)
}

// accept takes the pipes by which the leader brings the link back.
func (s *session) accept() {
	for {
		pr, err := s.conn.Pipe(s.ctx)
		if err != nil {
			return // the connection has ended, or the session
		}
		s.mu.Lock()
		s.returns++
		tooMany := s.upgrader == nil || s.returns > s.upgrades+spareReturns+int(time.Since(s.began)/returnRefill)
		s.mu.Unlock()
		if tooMany {
			s.log.Warn("peer opens pipes without cause, connection closed")
			_ = pr.Close() // with the connection
			s.cancel()
			return
		}
		ctx, cancel := context.WithTimeout(s.ctx, s.patience())
		if err := s.attach(ctx, pr, true, true); err != nil {
			s.log.Debug("link was not brought back", zap.Error(err))
		}
		cancel()
	}
}

// upgrade runs the upgrader over the control stream.
func (s *session) upgrade() {
	if s.upgrader == nil {
		return
	}
	control, err := s.conn.Control(s.ctx)
	if err != nil {
		return // the connection has ended
	}
	defer control.Close()
	local, remote := s.conn.Addrs()
	err = s.upgrader.Run(s.ctx, Session{
		Peer: s.peer, Leads: s.leads, Local: local, Remote: remote, Control: control,
		Attach: s.attachFast, Reason: s.reason, IdleTimeout: s.peers.cfg.IdleTimeout, Heartbeat: s.peers.cfg.Heartbeat,
	})
	switch {
	case err == nil || s.ctx.Err() != nil || s.over():
		return
	case errors.Is(err, transport.ErrProtocol):
		s.log.Warn("peer broke the protocol of the control stream, link closed", zap.Error(err))
		if l := s.peers.linkOf(s); l != nil {
			l.end(err)
		}
	default:
		s.log.Debug("upgrader gave the connection up", zap.Error(err))
	}
	s.cancel()
}

// attachFast is Session.Attach. It takes at most a part of the time for which the link may be without a pipe.
func (s *session) attachFast(ctx context.Context, pr transport.Provider) error {
	ctx, cancel := context.WithTimeout(ctx, s.patience()/2)
	defer cancel()
	if s.leads {
		if err := s.move(ctx); err != nil {
			_ = pr.Close() // err is what matters
			return err
		}
		defer func() { <-s.moves }()
	}
	return s.attach(ctx, pr, false, true)
}

// reason is Session.Reason.
func (s *session) reason(text string) {
	s.peers.mu.Lock()
	defer s.peers.mu.Unlock()
	s.why = text
	if e := s.entry; e.holder == s && e.link != nil {
		e.link.explain(text)
	}
}

// linkOf gives the link that the session carries or carried last, if it has not gone elsewhere.
func (p *Peers) linkOf(s *session) *Link {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.entry.holder == s {
		return s.entry.link
	}
	return nil
}

// lasts tells whether the session may yet put its link on another pipe.
func (s *session) lasts() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	busy := len(s.base) > 0 || len(s.fast) > 0 || s.attaching > 0 || s.owed || s.reset
	return busy && !s.ended && s.upgrader != nil && !s.over()
}

// finish ends the session: the connection and every pipe of it, then its goroutines.
func (s *session) finish() {
	s.mu.Lock()
	s.ended = true
	pipes := slices.AppendSeq(slices.Collect(maps.Keys(s.fast)), maps.Keys(s.base))
	s.update()
	s.mu.Unlock()
	s.cancel()
	_ = s.conn.Close() // nothing on it is wanted any more
	for _, p := range pipes {
		_ = p.Close()
	}
	if l := s.peers.linkOf(s); l != nil {
		l.abandon()
	}
	s.wg.Wait()
	s.peers.delist(s)
}
