package kafka

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/bornode/bornode/internal/pause"
)

// Conn is one connection of a client. Its methods may be called by any goroutine.
type Conn struct {
	s         *Server
	id        uint64
	raw, nc   net.Conn // nc is raw, or TLS over it
	ctx       context.Context
	cancel    context.CancelFunc
	scheme    string
	host      string
	quotaHost string
	local     bool

	session   atomic.Pointer[Session]
	clientID  atomic.Pointer[string]
	began     time.Time
	mutedTill atomic.Int64 // nanoseconds since began: a host's clock may be set back
	ownUsed   atomic.Int64 // of ownFrameBytes
	waiting   atomic.Int64 // exchanges at the writer

	queue   chan *exchange
	current *exchange // the writer's

	login     loginState // the reader's
	principal string     // s.mu
}

// exchange is a request on its way to its answer.
type exchange struct {
	key         int16
	correlation int32
	reply       Reply
	frame       []byte // the whole answer, if it exists already
	start       time.Time
	who         string  // who holds the budgets
	from        *budget // what cost was taken from; nil: the connection's own allowance
	cost        int64
	granted     int64
}

func newConn(ctx context.Context, s *Server, nc net.Conn, scheme string) *Conn {
	c := &Conn{s: s, id: s.nextID.Add(1), began: time.Now(), raw: nc, nc: nc, scheme: scheme, queue: make(chan *exchange, s.cfg.QueuedRequests)}
	c.host, c.quotaHost, c.local = hostsOf(nc.RemoteAddr())
	c.ctx, c.cancel = context.WithCancel(ctx)
	c.clientID.Store(new(string))
	if scheme == schemeTLS {
		c.nc = tls.Server(nc, &tls.Config{GetConfigForClient: s.certs.current, MinVersion: tls.VersionTLS12})
	}
	return c
}

// ID tells connections of a server apart.
func (c *Conn) ID() uint64 { return c.id }

// Remote is the client's address without the port, as ACLs name hosts.
func (c *Conn) Remote() string { return c.host }

// Local says whether the client is on this machine.
func (c *Conn) Local() bool { return c.local }

// Listener is "tls" or "plain".
func (c *Conn) Listener() string { return c.scheme }

// Session is who the client is; nil before the login, and always where none is needed.
func (c *Conn) Session() *Session { return c.session.Load() }

// ClientID is what the client called itself in its last request; it proves nothing.
func (c *Conn) ClientID() string { return *c.clientID.Load() }

// Throttle stops reading from the client for d from now, besides what it was told before; it is for the handler to
// say so in the answer.
func (c *Conn) Throttle(d time.Duration) {
	d = min(d, longestThrottle)
	till := int64(time.Since(c.began) + d)
	for {
		old := c.mutedTill.Load()
		if till <= old {
			return
		}
		if c.mutedTill.CompareAndSwap(old, till) {
			c.s.metrics.throttled.Add(d.Seconds())
			return
		}
	}
}

// Grant is for a Reply that is about to read records: it gives how many of the bytes it may read, at least 64 KiB (or
// all it asked for), until its answer is written. It does not wait. Only a Reply may call it, on its own goroutine.
func (c *Conn) Grant(bytes int) int {
	x := c.current
	if x == nil || bytes <= 0 {
		return 0
	}
	n := c.s.answers.upTo(x.who, int64(bytes), ownAnswerBytes)
	x.granted += n
	return int(n)
}

// Keep is for a Reply that has read so many bytes of records: what Grant gave beyond them is free again. If they are more
// than it gave, since a batch goes out whole, the rest is taken as well; false if there is no room for that: the Reply
// drops them and calls Await.
func (c *Conn) Keep(bytes int) bool {
	x := c.current
	if x == nil {
		return true
	}
	n := int64(bytes)
	if n > x.granted && !c.s.answers.try(x.who, n-x.granted) {
		return false
	}
	if n < x.granted {
		c.s.answers.put(x.who, x.granted-n)
	}
	x.granted = n
	return true
}

// Await gives back what a Reply was granted and waits until it may read so many bytes, or ctx ends. It holds nothing
// meanwhile, so those who wait cannot hold each other up. More than a principal may ever have is taken alone.
func (c *Conn) Await(ctx context.Context, bytes int) error {
	x := c.current
	if x == nil {
		return nil
	}
	if x.granted > 0 {
		c.s.answers.put(x.who, x.granted)
		x.granted = 0
	}
	n := min(int64(bytes), c.s.answers.share)
	if err := c.s.answers.take(ctx, x.who, n, c.s.metrics.waits.Inc); err != nil {
		return err
	}
	x.granted = n
	return nil
}

// Close ends the connection.
func (c *Conn) Close() { c.cancel() }

func (c *Conn) holder() string {
	if s := c.session.Load(); s != nil {
		return s.Principal
	}
	return c.host
}

func (c *Conn) run() {
	stop := context.AfterFunc(c.ctx, func() { _ = c.raw.Close() })
	defer stop()
	written := make(chan struct{})
	go func() {
		defer close(written)
		c.write()
	}()
	err := c.read()
	if !errors.Is(err, errLast) {
		c.cancel()
	}
	close(c.queue)
	<-written
	c.note(err)
	_ = c.nc.SetDeadline(time.Now().Add(time.Second)) // for the goodbye of TLS
	_ = c.nc.Close()
	c.cancel()
}

// errLast is wrapped by errors after which the client still gets the answers that are queued.
var errLast = errors.New("closed by the broker")

// note logs why a connection was closed, unless the client or the node just went away.
func (c *Conn) note(err error) {
	reason := "protocol"
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrClosedPipe), errors.Is(err, net.ErrClosed), errors.Is(err, context.Canceled):
		return
	case errors.Is(err, errLogin):
		reason = "login"
	case errors.Is(err, errSilent):
		reason = "timeout"
	case isReset(err):
		return
	}
	c.s.metrics.refused.WithLabelValues(reason).Inc()
	c.s.say("a connection of a Kafka client was closed", zap.String("host", c.host), zap.String("principal", c.holder()),
		zap.String("client", c.ClientID()), zap.Error(err))
}

func isReset(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && !op.Timeout()
}

var (
	errSilent = errors.New("it was silent for too long")
	errLogin  = errors.New("its login was refused")
)

func (c *Conn) read() error {
	loginBy := time.Now().Add(c.s.cfg.LoginTimeout)
	_ = c.nc.SetDeadline(loginBy)
	if t, ok := c.nc.(*tls.Conn); ok {
		if err := t.HandshakeContext(c.ctx); err != nil {
			return fmt.Errorf("%w: TLS: %w", errLogin, err)
		}
	}
	_ = c.nc.SetWriteDeadline(time.Time{})
	br := bufio.NewReaderSize(c.nc, readBuffer)
	for {
		if err := c.waitWhileMuted(); err != nil {
			return err
		}
		if err := c.waitForRequest(br, loginBy); err != nil {
			return err
		}
		x, frame, err := c.readFrame(br, loginBy)
		if err == nil {
			err = c.process(x, frame)
		}
		if err != nil {
			if !errors.Is(err, errLast) { // else it is the writer's, or released
				c.release(x)
			}
			return err
		}
	}
}

// admitted says whether the client has done what it must before it may ask for anything.
func (c *Conn) admitted() bool { return c.s.auth == nil || c.session.Load() != nil }

func (c *Conn) waitWhileMuted() error {
	for {
		d := time.Duration(c.mutedTill.Load()) - time.Since(c.began)
		if d <= 0 {
			return nil
		}
		if !pause.For(c.ctx, d) {
			return c.ctx.Err()
		}
	}
}

// waitForRequest waits for the first byte. A client that waits for an answer itself is not idle.
func (c *Conn) waitForRequest(br *bufio.Reader, loginBy time.Time) error {
	for {
		deadline := time.Now().Add(c.s.cfg.IdleTimeout)
		if !c.admitted() {
			deadline = loginBy
		}
		_ = c.nc.SetReadDeadline(deadline)
		_, err := br.Peek(1)
		if err == nil {
			return nil
		}
		if err = readError(err, "before a request"); !errors.Is(err, errSilent) || !c.admitted() || c.waiting.Load() == 0 {
			return err
		}
	}
}

// frameDeadline is when n bytes of a frame must have come. Before the login no frame, however slow, outlasts loginBy.
func (c *Conn) frameDeadline(n int, loginBy time.Time) time.Time {
	if c.admitted() {
		return c.deadline(n)
	}
	return earlier(c.deadline(n), loginBy)
}

// readFrame reads the next frame, without its length, when the budget has room for it.
func (c *Conn) readFrame(br *bufio.Reader, loginBy time.Time) (*exchange, []byte, error) {
	_ = c.nc.SetReadDeadline(c.frameDeadline(0, loginBy))
	n, factor, err := c.frameSize(br)
	if err != nil {
		return nil, nil, err
	}
	x := &exchange{cost: n * factor, who: c.holder()}
	if err := c.reserve(x, n); err != nil {
		return nil, nil, err
	}
	_, _ = br.Discard(4)
	frame := make([]byte, n)
	total := c.frameDeadline(len(frame), loginBy)
	for rest := frame; len(rest) > 0; {
		chunk := rest[:min(len(rest), chunkBytes)]
		_ = c.nc.SetReadDeadline(earlier(total, c.deadline(len(chunk))))
		if _, err := io.ReadFull(br, chunk); err != nil {
			return x, nil, readError(err, "in a request")
		}
		rest = rest[len(chunk):]
	}
	x.start = time.Now()
	c.s.metrics.received.Add(float64(n + 4))
	return x, frame, nil
}

// frameSize looks at the length of the next frame, and at what request it is, since Produce may be larger than others.
func (c *Conn) frameSize(br *bufio.Reader) (n, factor int64, err error) {
	least, most := int64(headBytes), int64(maxControlFrame)
	factor = controlFactor
	if c.login.raw {
		least = 0
	}
	if c.login.raw || !c.admitted() {
		most = maxLoginFrame
	}
	head, err := br.Peek(4)
	if err != nil {
		return 0, 0, readError(err, "in the length of a request")
	}
	n = int64(int32(binary.BigEndian.Uint32(head))) //nolint:gosec // its bits
	if n >= headBytes && most == maxControlFrame {
		if head, err = br.Peek(4 + 2); err != nil {
			return 0, 0, readError(err, "in the header of a request")
		}
		if int16(binary.BigEndian.Uint16(head[4:])) == kmsg.Produce.Int16() { //nolint:gosec // its bits
			most, factor = int64(c.s.cfg.FrameBytes), produceFactor
		}
	}
	if n < least || n > most {
		return 0, 0, fmt.Errorf("%w: %d bytes are announced, %d to %d are taken", ErrFrame, n, least, most)
	}
	return n, factor, nil
}

func readError(err error, where string) error {
	var ne net.Error
	if errors.As(err, &ne) && ne.Timeout() {
		return fmt.Errorf("%w %s", errSilent, where)
	}
	return err
}

// reserve takes the memory of a frame: of the connection's own allowance, or of what all share.
func (c *Conn) reserve(x *exchange, n int64) error {
	if c.ownUsed.Add(n) <= ownFrameBytes {
		x.cost = n
		return nil
	}
	c.ownUsed.Add(-n)
	if x.from = c.s.strangers; c.admitted() {
		x.from = c.s.requests
	}
	if err := x.from.take(c.ctx, x.who, x.cost, c.s.metrics.waits.Inc); err != nil {
		x.cost = 0
		return err
	}
	return nil
}

// release gives back what an exchange holds; x may be nil.
func (c *Conn) release(x *exchange) {
	if x == nil {
		return
	}
	switch {
	case x.from == nil:
		c.ownUsed.Add(-x.cost)
	case x.cost > 0:
		x.from.put(x.who, x.cost)
	}
	if x.granted > 0 {
		c.s.answers.put(x.who, x.granted)
	}
	x.cost, x.granted = 0, 0
}
