package link

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/bornode/bornode/transport"
)

// messageOverhead is what an unread message counts beyond its payload, so that empty messages are bounded too.
const messageOverhead = 64

// owner is told of a link's fate. The methods are called from the link's own goroutines and must not wait for it.
type owner interface {
	pipeLost(l *Link, err error) // the link now waits for another pipe
	linkEnded(l *Link)
	mayReturn(l *Link) bool // a connection is there that may put the link on another pipe
}

// Link is one side of a lasting connection with a peer; see transport.Link.
type Link struct {
	cfg      Config
	peer     transport.PeerID
	incoming bool
	local    transport.SessionID
	remote   transport.SessionID
	log      *zap.Logger
	owner    owner
	metrics  *metrics

	// Tokens of capacity 1: something may have changed, look again.
	wake     chan struct{} // writer
	alarm    chan struct{} // timer
	readyAny chan struct{} // Recv
	ready    [transport.Lanes]chan struct{}
	room     [transport.Lanes]chan struct{}

	done chan struct{}
	wg   sync.WaitGroup // timer, readers and writers

	mu        sync.Mutex
	out       [transport.Lanes]sendLane
	in        [transport.Lanes]recvLane
	flight    int // bytes of lanes 1-3 on the current pipe that the peer has not received
	pipe      *pipe
	last      *pipe  // the newest that was attached; its goroutines may outlive pipe
	provider  string // name of the current or last pipe
	path      transport.Path
	suspended time.Time
	closing   bool
	reason    string
	closeSent bool
	err       error

	ackDue    bool // control frames the writer owes
	pingDue   bool
	pongDue   bool
	pongToken uint64
	unacked   int // bytes of lanes 1-3 received since the last acknowledgement of any kind
	stats     transport.Stats
	shown     transport.Stats // of its lanes, what the metrics know
	epoch     time.Time       // ping tokens are times since
}

var _ transport.Link = (*Link)(nil)

func newLink(cfg Config, peer transport.PeerID, incoming bool, local transport.SessionID, o owner, log *zap.Logger, m *metrics) *Link {
	l := &Link{
		cfg:      cfg,
		peer:     peer,
		incoming: incoming,
		local:    local,
		log:      log.With(zap.String("peer", string(peer))),
		owner:    o,
		metrics:  m,
		wake:     make(chan struct{}, 1),
		alarm:    make(chan struct{}, 1),
		readyAny: make(chan struct{}, 1),
		done:     make(chan struct{}),
		epoch:    time.Now(),
	}
	for i := range l.out {
		lane := transport.Lane(i)
		l.ready[i] = make(chan struct{}, 1)
		l.room[i] = make(chan struct{}, 1)
		l.out[i].init(lane, cfg.FirstSequence)
		l.in[i].lane = lane
	}
	l.stats.Started = l.epoch
	return l
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Peer implements transport.Link.
func (l *Link) Peer() transport.PeerID { return l.peer }

// Incoming implements transport.Link.
func (l *Link) Incoming() bool { return l.incoming }

// Done implements transport.Link.
func (l *Link) Done() <-chan struct{} { return l.done }

// Provider implements transport.Link.
func (l *Link) Provider() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.provider
}

// Err implements transport.Link.
func (l *Link) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// Stats implements transport.Link.
func (l *Link) Stats() transport.Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.stats
	for i := range s.Lanes {
		s.Lanes[i].QueuedMessages = l.out[i].queue.len()
		s.Lanes[i].QueuedBytes = l.out[i].queuedBytes
		s.Lanes[i].UnreadMessages = l.in[i].unread.len()
		s.Lanes[i].UnreadBytes = l.in[i].unreadBytes - messageOverhead*l.in[i].unread.len()
	}
	return s
}

func checkMessage(m *transport.Message) error {
	if m.Lane >= transport.Lanes {
		return fmt.Errorf("transport: lane %d does not exist", m.Lane)
	}
	if limit := transport.MaxMessageBytes(m.Lane); len(m.Payload) > limit {
		return fmt.Errorf("%w: %d bytes on lane %s, at most %d", transport.ErrTooLarge, len(m.Payload), m.Lane, limit)
	}
	return nil
}

// enqueue takes m if its lane has room.
func (l *Link) enqueue(m *transport.Message) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return false, l.err
	}
	if l.closing {
		return false, fmt.Errorf("%w here: %s", transport.ErrClosed, l.reason)
	}
	s := &l.out[m.Lane]
	if !s.hasRoom() {
		return false, nil
	}
	idle := s.queue.len() == 0
	s.push(m)
	if idle {
		signal(l.wake)
	}
	if s.hasRoom() {
		signal(l.room[m.Lane]) // pass it on: several senders may wait for the one token
	}
	return true, nil
}

// Send implements transport.Link.
func (l *Link) Send(ctx context.Context, m transport.Message) error {
	if err := checkMessage(&m); err != nil {
		return err
	}
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		if ok, err := l.enqueue(&m); ok || err != nil {
			return err
		}
		select {
		case <-l.room[m.Lane]:
		case <-l.done:
		case <-ctx.Done():
		}
	}
}

// TrySend implements transport.Link.
func (l *Link) TrySend(m transport.Message) bool {
	if checkMessage(&m) != nil {
		return false
	}
	ok, err := l.enqueue(&m)
	return ok && err == nil
}

// Recv implements transport.Link.
func (l *Link) Recv(ctx context.Context) (transport.Message, error) {
	return l.recv(ctx, 0, transport.Lanes, l.readyAny)
}

// RecvLane implements transport.Link.
func (l *Link) RecvLane(ctx context.Context, lane transport.Lane) (transport.Message, error) {
	if lane >= transport.Lanes {
		return transport.Message{}, fmt.Errorf("transport: lane %d does not exist", lane)
	}
	return l.recv(ctx, lane, lane+1, l.ready[lane])
}

func (l *Link) recv(ctx context.Context, from, to transport.Lane, ready <-chan struct{}) (transport.Message, error) {
	for {
		if err := ctx.Err(); err != nil {
			return transport.Message{}, err
		}
		m, ok, err := l.take(from, to)
		if ok || err != nil {
			return m, err
		}
		select {
		case <-ready:
		case <-l.done:
		case <-ctx.Done():
		}
	}
}

// take pops the first unread message of lanes [from, to); with none left, the link's error.
func (l *Link) take(from, to transport.Lane) (transport.Message, bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for lane := from; lane < to; lane++ {
		r := &l.in[lane]
		if r.unread.len() == 0 {
			continue
		}
		m := r.unread.pop()
		r.unreadBytes -= len(m.Payload) + messageOverhead
		r.free()
		if r.creditDue() && l.pipe != nil {
			l.ackDue = true
			signal(l.wake)
		}
		return m, true, nil
	}
	return transport.Message{}, false, l.err
}

// Close implements transport.Link.
func (l *Link) Close(reason string) error {
	if len(reason) > transport.MaxReasonBytes {
		reason = reason[:transport.MaxReasonBytes]
	}
	l.mu.Lock()
	if l.err == nil && !l.closing {
		l.closing, l.reason = true, reason
	}
	reason = l.reason
	p, ended := l.pipe, l.err != nil
	l.mu.Unlock()
	if !ended && (p != nil || l.owner.mayReturn(l)) {
		signal(l.wake)
		timer := time.NewTimer(l.cfg.CloseTimeout)
		defer timer.Stop()
		select {
		case <-l.done:
		case <-timer.C:
		}
	}
	if !ended {
		l.end(fmt.Errorf("%w here: %s", transport.ErrClosed, reason))
	}
	l.wg.Wait()
	return nil
}

// abandon ends a closing link that no connection will put on a pipe any more.
func (l *Link) abandon() {
	l.mu.Lock()
	left := l.closing && l.pipe == nil
	reason := l.reason
	l.mu.Unlock()
	if left {
		l.end(fmt.Errorf("%w here: %s", transport.ErrClosed, reason))
	}
}

// end is the one way a link ends. It wakes everyone and does not wait.
func (l *Link) end(err error) {
	l.mu.Lock()
	if l.err != nil {
		l.mu.Unlock()
		return
	}
	l.err = err
	p := l.pipe
	l.pipe = nil
	for i := range l.out {
		l.out[i].drop()
		l.in[i].partial = nil
		if l.closing {
			l.in[i].unread = deque[transport.Message]{}
			l.in[i].unreadBytes = 0
		}
	}
	close(l.done)
	l.mu.Unlock()
	if p != nil {
		p.shut()
	}
	l.owner.linkEnded(l)
}

// Path implements transport.Link.
func (l *Link) Path() transport.Path {
	l.mu.Lock()
	p := l.path
	p.Provider = l.provider
	var pr transport.Provider
	if l.pipe != nil {
		pr = l.pipe.provider
	}
	l.mu.Unlock()
	if c, ok := pr.(transport.Counted); ok {
		p.Counters = c.Counters()
	}
	return p
}

// explain notes why the link is carried by what carries it.
func (l *Link) explain(reason string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.path.Reason = reason
}

// ReadWindow implements transport.Link.
func (l *Link) ReadWindow(ctx context.Context, area uint32, offset int64, dst []byte) (int, error) {
	l.mu.Lock()
	var pr transport.Provider
	if l.pipe != nil {
		pr = l.pipe.provider
	}
	l.mu.Unlock()
	if w, ok := pr.(transport.WindowReader); ok {
		return w.ReadWindow(ctx, area, offset, dst)
	}
	return 0, transport.ErrNoWindow
}
