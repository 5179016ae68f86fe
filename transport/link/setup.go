package link

import (
	"crypto/rand"
	"fmt"

	"go.uber.org/zap"

	"github.com/bornode/bornode/transport"
)

// setup is one connection on its way to become the pipe of its peer's link.
type setup struct {
	peers     *Peers
	entry     *entry
	peer      transport.PeerID
	incoming  bool
	provider  transport.Provider
	session   *session        // whose connection it is, or goes with; nil: a pipe of its own
	continues bool            // only for the link that is there; never to begin another
	settled   func() bool     // disarms the time-out; false if it struck
	theirs    transport.Hello // once read
}

// read reads the peer's hello.
func (s *setup) read() error {
	h, err := s.provider.ReadHeader()
	if err != nil {
		return err
	}
	if h.Flags&transport.FlagControl == 0 || h.Type != transport.ControlHello || int(h.Length) != transport.HelloBytes {
		return fmt.Errorf("%w: first frame is no hello", transport.ErrProtocol)
	}
	b := make([]byte, h.Length)
	if err := s.provider.ReadPayload(b); err != nil {
		return err
	}
	f := transport.Frame{Header: h, Payload: b}
	if err := f.Verify(s.provider.Limits().Checksum); err != nil {
		return err
	}
	s.theirs, err = transport.DecodeHello(b)
	return err
}

func (s *setup) write(mine *transport.Hello) error {
	f := control(transport.ControlHello, mine.Encode())
	if s.provider.Limits().Checksum {
		f.Seal()
	}
	return s.provider.WriteFrames([]transport.Frame{f})
}

// current tells whether this is still the connection to use.
func (s *setup) current() (*Link, error) {
	s.peers.mu.Lock()
	defer s.peers.mu.Unlock()
	if s.entry.chosen != s.provider {
		return nil, errSuperseded
	}
	return s.entry.link, nil
}

// mine makes this side's hello. From here on the old link, if any, has no pipe and its counters stand still.
func (s *setup) mine(old *Link) transport.Hello {
	if old != nil {
		old.detach()
		return old.hello()
	}
	var h transport.Hello
	_, _ = rand.Read(h.Local[:]) // never fails
	for i := range h.Lanes {
		h.Lanes[i].First = s.peers.cfg.FirstSequence
	}
	return h
}

// establish exchanges the hellos and puts the old or a new link on the pipe. The caller has the entry's turn.
func (s *setup) establish() error {
	old, err := s.current()
	if err != nil {
		return err
	}
	if old != nil && !s.continues && !old.lasting() {
		old.end(fmt.Errorf("%w here, and the peer connected again", transport.ErrClosed))
		old = nil
	}
	if old == nil && s.continues {
		return errNothing
	}
	mine := s.mine(old)
	err = s.write(&mine)
	if err == nil && s.peers.Leads(s.peer) {
		err = s.read()
	}
	if err == nil && !s.settled() {
		err = fmt.Errorf("%w: setting up took too long", transport.ErrTimeout)
	}
	if err == nil && old != nil && old.continues(&s.theirs) {
		err = s.resume(old)
	} else if err == nil && s.continues {
		err = errNothing
	} else if err == nil {
		return s.begin(old, &mine)
	}
	if err != nil && old != nil {
		s.peers.pipeLost(old, err) // it was taken off its pipe: the dialler must know
	}
	return err
}

func (s *setup) resume(l *Link) error {
	if err := l.resume(&s.theirs); err != nil {
		l.end(err)
		return err
	}
	if _, err := s.current(); err != nil {
		return err
	}
	s.peers.hand(s, l)
	if err := l.attach(s.provider, s.continues); err != nil {
		return err
	}
	s.peers.log.Debug("link continues", zap.String("peer", string(s.peer)), zap.String("provider", s.provider.Name()))
	return nil
}

// begin starts a new link; the old one, which the peer does not know, ends.
func (s *setup) begin(old *Link, mine *transport.Hello) error {
	p := s.peers
	if old != nil {
		old.end(fmt.Errorf("%w: %s came back without it", transport.ErrSessionLost, s.peer))
	}
	l := newLink(p.cfg, s.peer, s.incoming, mine.Local, p, p.log, p.metrics)
	l.start(&s.theirs)
	if err := p.insert(s.entry, l, s.provider); err != nil {
		l.end(err)
		return err
	}
	s.peers.hand(s, l)
	if err := l.attach(s.provider, false); err != nil {
		return err
	}
	return p.give(l)
}

// give gives a new link out. It has its pipe by now: one that is closed at once tells the peer.
func (p *Peers) give(l *Link) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil // the links in the table are being closed
	}
	select {
	case p.links <- l:
		return nil
	default:
	}
	err := fmt.Errorf("transport: %d links wait to be taken from Links", len(p.links))
	go l.end(err) // it takes the lock
	return err
}

// hand notes who carries the link from now on, and why.
func (p *Peers) hand(s *setup, l *Link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.entry.link != l {
		return
	}
	s.entry.holder, s.entry.carries = s.session, s.provider
	reason := ""
	if s.session != nil {
		reason = s.session.why
	}
	l.explain(reason)
}

// insert makes l the peer's link.
func (p *Peers) insert(e *entry, l *Link, pr transport.Provider) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
		return fmt.Errorf("%w: the host", transport.ErrClosed)
	case e.chosen != pr:
		return errSuperseded
	case p.live >= p.cfg.MaxPeers:
		return fmt.Errorf("transport: %d links exist already; raise max_peers", p.live)
	}
	if e.link == nil { // else an ended link whose end was not noted yet: this one takes its place in the count
		p.live++
	}
	e.link = l
	p.metrics.peers.Set(float64(p.live))
	p.wg.Go(func() { <-l.done; l.wg.Wait() }) // Close waits for links that end by themselves too
	p.log.Debug("link up", zap.String("peer", string(l.peer)), zap.String("provider", pr.Name()), zap.Bool("incoming", l.incoming))
	return nil
}
