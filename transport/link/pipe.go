package link

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/bornode/bornode/transport"
)

// errReplaced ends the goroutines of a pipe that the link has left; it is not a failure.
var errReplaced = errors.New("link: pipe was replaced")

// pipe is a provider in use by a link, with its two goroutines.
type pipe struct {
	provider transport.Provider
	limits   transport.ProviderLimits
	stop     chan struct{}
	once     sync.Once
	wg       sync.WaitGroup
	spare    []byte
}

func newPipe(pr transport.Provider) *pipe {
	p := &pipe{provider: pr, limits: pr.Limits(), stop: make(chan struct{})}
	if p.limits.SliceBytes < 1 || p.limits.SliceBytes > transport.MaxSliceBytes {
		p.limits.SliceBytes = transport.MaxSliceBytes
	}
	if p.limits.UnacknowledgedBytes <= 0 {
		p.limits.UnacknowledgedBytes = transport.UnacknowledgedBytes
	}
	return p
}

// shut closes the provider and wakes the goroutines; it does not wait for them.
func (p *pipe) shut() {
	p.once.Do(func() {
		close(p.stop)
		_ = p.provider.Close() // what it carried is resent or given up; its error helps nobody
	})
}

// scratch is where the payload of a frame that is not wanted goes. Only the reader uses it.
func (p *pipe) scratch() []byte {
	if p.spare == nil {
		p.spare = make([]byte, transport.MaxSliceBytes)
	}
	return p.spare
}

func (p *pipe) readPayload(h *transport.Header, dst []byte) error {
	if len(dst) > 0 {
		if err := p.provider.ReadPayload(dst); err != nil {
			return err
		}
	}
	if !p.limits.Checksum && h.Flags&transport.FlagChecksum == 0 {
		return nil
	}
	f := transport.Frame{Header: *h, Payload: dst}
	return f.Verify(p.limits.Checksum)
}

// hello describes this end for a new connection.
func (l *Link) hello() transport.Hello {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := transport.Hello{Local: l.local, Remote: l.remote}
	for i := range h.Lanes {
		h.Lanes[i] = transport.HelloLane{Received: l.in[i].received, First: l.cfg.FirstSequence}
	}
	return h
}

// continues tells whether the peer's hello names this link.
func (l *Link) continues(h *transport.Hello) bool {
	return l.remote == h.Local && l.local == h.Remote
}

// start takes the peer's first hello; the link begins with it.
func (l *Link) start(h *transport.Hello) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.remote = h.Local
	for i := range l.in {
		l.in[i].init(h.Lanes[i].First)
	}
	l.wg.Add(1)
	go l.timers()
}

// resume takes the hello with which the peer continues the link: what it received need not be kept, the rest is sent
// again.
func (l *Link) resume(h *transport.Hello) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return l.err // what it kept is dropped
	}
	for i := range l.out {
		s := &l.out[i]
		if got := h.Lanes[i].Received; got < s.acked || got > s.sent {
			return fmt.Errorf("%w: hello says it received %d frames on lane %s, possible are %d to %d",
				transport.ErrProtocol, got, s.lane, s.acked, s.sent)
		}
	}
	for i := range l.out {
		s := &l.out[i]
		l.retire(s, h.Lanes[i].Received)
		s.resend = s.acked
	}
	l.flight = 0
	l.stats.Reconnects++
	l.metrics.reconnects.Inc()
	return nil
}

// attach puts the link on a pipe. The link has none; hello was exchanged on it. A closing link goes only where its
// connection moves it, to tell the peer that it closes.
func (l *Link) attach(pr transport.Provider, closing bool) error {
	p := newPipe(pr)
	l.mu.Lock()
	if l.err != nil || l.closing && !closing {
		l.mu.Unlock()
		p.shut()
		return fmt.Errorf("%w while it was connecting", transport.ErrClosed)
	}
	l.pipe, l.last, l.provider = p, p, pr.Name()
	l.path.Since = time.Now()
	l.suspended = time.Time{}
	l.stats.LastReceived = time.Now()
	l.ackDue, l.pingDue, l.pongDue = true, false, false
	l.closeSent = false
	l.wg.Add(2)
	p.wg.Add(2)
	l.mu.Unlock()
	signal(l.alarm)
	go l.writeLoop(p)
	go l.readLoop(p)
	return nil
}

// detach takes the link off its pipe, if it has one, and waits until the goroutines of its last pipe no longer touch
// the link, also if that pipe has failed before: its reader may still be filling a message that the next one goes on
// with.
func (l *Link) detach() {
	l.mu.Lock()
	p, last := l.pipe, l.last
	l.pipe = nil
	if p != nil && l.err == nil {
		l.suspended = time.Now()
	}
	l.mu.Unlock()
	if p != nil {
		signal(l.alarm)
	}
	if last != nil {
		last.shut()
		last.wg.Wait()
	}
}

// pipeFailed is how a pipe's goroutines report its end. A broken protocol ends the link, all else suspends it.
func (l *Link) pipeFailed(p *pipe, err error) {
	l.mu.Lock()
	if l.pipe != p {
		l.mu.Unlock()
		p.shut()
		return
	}
	l.pipe = nil
	closing, reason := l.closing, l.reason
	l.suspended = time.Now()
	l.mu.Unlock()
	p.shut() // only now: it makes the other goroutine fail too, and the first error is the one that counts
	switch {
	case closing && !errors.Is(err, transport.ErrProtocol) && l.owner.mayReturn(l):
		// It was moved before the peer read that it closes. Close does not wait for long.
	case closing:
		l.end(fmt.Errorf("%w here: %s", transport.ErrClosed, reason))
	case errors.Is(err, transport.ErrProtocol):
		l.log.Warn("peer broke the protocol, link closed", zap.String("provider", p.provider.Name()), zap.Error(err))
		l.end(err)
	default:
		signal(l.alarm)
		l.log.Debug("connection lost, waiting to resume", zap.String("provider", p.provider.Name()), zap.Error(err))
		l.owner.pipeLost(l, err)
	}
}

func (l *Link) writeLoop(p *pipe) {
	defer l.wg.Done()
	defer p.wg.Done()
	var batch []transport.Frame
	for {
		l.mu.Lock()
		if l.pipe != p {
			l.mu.Unlock()
			return
		}
		batch = l.nextBatch(p, batch[:0])
		if len(batch) > 0 {
			l.stats.Writes++
			l.stats.FramesSent += uint64(len(batch))
		}
		l.mu.Unlock()
		if len(batch) == 0 {
			select {
			case <-l.wake:
			case <-p.stop:
				return
			}
			continue
		}
		if p.limits.Checksum {
			for i := range batch {
				batch[i].Seal()
			}
		}
		if err := p.provider.WriteFrames(batch); err != nil {
			l.pipeFailed(p, err)
			return
		}
		clear(batch) // the payloads belong to the resend buffer alone
	}
}

func (l *Link) readLoop(p *pipe) {
	defer l.wg.Done()
	defer p.wg.Done()
	for l.readFrame(p) {
	}
}

// timers sends heartbeats and watches over silence and absence of the peer.
func (l *Link) timers() {
	defer l.wg.Done()
	timer := time.NewTimer(l.cfg.Heartbeat)
	defer timer.Stop()
	for {
		select {
		case <-l.done:
			return
		case <-l.alarm:
		case <-timer.C:
			l.beat()
		}
		timer.Reset(l.nextAlarm())
	}
}

func (l *Link) nextAlarm() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pipe == nil {
		return max(0, l.cfg.ResumeTimeout-time.Since(l.suspended))
	}
	return l.cfg.Heartbeat
}

func (l *Link) beat() {
	l.mu.Lock()
	p := l.pipe
	silent := time.Since(l.stats.LastReceived) >= l.cfg.IdleTimeout
	absent := p == nil && time.Since(l.suspended) >= l.cfg.ResumeTimeout
	if p != nil && !silent {
		l.pingDue = true
		signal(l.wake)
	}
	l.mu.Unlock()
	switch {
	case p != nil && silent:
		l.pipeFailed(p, fmt.Errorf("%w: nothing received for %v", transport.ErrTimeout, l.cfg.IdleTimeout))
	case absent:
		l.end(fmt.Errorf("%w: no connection for %v", transport.ErrTimeout, l.cfg.ResumeTimeout))
	}
}
