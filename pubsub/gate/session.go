package gate

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/bornode/bornode/pubsub/seal"
)

// exchange is one request under way. Answers leave in the order of the requests.
type exchange struct {
	head
	local []byte // the answer's frame, when the broker is not asked
	// answer makes what the client gets of the broker's frame, into dst or in place; nil passes it on.
	answer func(dst, frame []byte) ([]byte, error)
	own    chan<- []byte // a request of the engine: who waits for its answer
}

// session is one connection of a client with its connection to a broker. Three goroutines: up reads requests, changes
// them and sends them on; pull reads frames of the broker; down pairs them with the requests and answers the client.
type session struct {
	e       *Engine
	client  net.Conn
	broker  net.Conn
	rewrite func(host string, port int32) (string, int32) // of brokers' addresses; nil: none
	until   time.Time                                     // of the login
	flight  chan *exchange
	frames  chan []byte // of the broker
	spare   chan []byte // buffers back to pull
	ctx     context.Context
	cancel  context.CancelCauseFunc

	in, out, sealed []byte                       // buffers of up
	sealers         map[common.Hash]*seal.Sealer // of up, by topic
	answered, clear []byte                       // buffers of down
}

func (e *Engine) session(client, broker net.Conn, until time.Time, rewrite func(string, int32) (string, int32)) *session {
	s := &session{e: e, client: client, broker: broker, until: until, rewrite: rewrite,
		flight: make(chan *exchange, MaxInFlight), frames: make(chan []byte), spare: make(chan []byte, 2)}
	s.ctx, s.cancel = context.WithCancelCause(e.ctx)
	return s
}

// run ends when either side does.
func (s *session) run() {
	s.e.m.connections.Inc()
	defer s.e.m.connections.Dec()
	stop := context.AfterFunc(s.ctx, func() { _, _ = s.client.Close(), s.broker.Close() })
	var wg sync.WaitGroup
	for _, f := range []func() error{s.up, s.pull, s.down} {
		wg.Go(func() { s.cancel(f()) })
	}
	wg.Wait()
	if stop() {
		_, _ = s.client.Close(), s.broker.Close()
	}
	if err := context.Cause(s.ctx); err != nil && !quiet(err) {
		s.e.cfg.Log.Warn("a connection to a broker ended", zap.Stringer("broker", s.broker.RemoteAddr()), zap.Error(err))
	}
}

// quiet are ends that are no news.
func quiet(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) || errors.Is(err, io.ErrClosedPipe) || errors.Is(err, context.Canceled)
}

func (s *session) up() error {
	r := bufio.NewReaderSize(s.client, 16<<10)
	for {
		var err error
		if s.in, err = readFrame(r, s.in); err != nil {
			return err
		}
		if s.e.cfg.Tokens != nil && !s.until.IsZero() && time.Now().After(s.until) {
			if err := s.relogin(); err != nil {
				return fmt.Errorf("logging in again: %w", err)
			}
		}
		x, out, err := s.request(s.in)
		if err != nil {
			return err
		}
		if x != nil {
			if err := s.expect(x); err != nil {
				return err
			}
		}
		if out != nil {
			if err := s.send(s.broker, out); err != nil {
				return err
			}
		}
	}
}

// expect puts an exchange in the order of answers.
func (s *session) expect(x *exchange) error {
	select {
	case s.flight <- x:
		return nil
	case <-s.ctx.Done():
		return context.Cause(s.ctx)
	}
}

func (s *session) send(to net.Conn, frame []byte) error {
	if err := to.SetWriteDeadline(time.Now().Add(WriteTimeout)); err != nil {
		return err
	}
	_, err := to.Write(frame)
	return err
}

// relogin renews the login between two requests.
func (s *session) relogin() error {
	ctx, cancel := context.WithTimeout(s.ctx, DialTimeout)
	defer cancel()
	until, err := s.e.login(ctx, func(req kmsg.Request, resp kmsg.Response) error {
		got := make(chan []byte, 1)
		if err := s.expect(&exchange{head: head{corr: loginCorr}, own: got}); err != nil {
			return err
		}
		if err := s.send(s.broker, kmsg.NewRequestFormatter().AppendRequest(nil, req, loginCorr)); err != nil {
			return err
		}
		select { // answers to requests before it may take as long as they do
		case frame := <-got:
			return loginAnswer(frame, req, resp)
		case <-s.ctx.Done():
			return context.Cause(s.ctx)
		}
	})
	if err == nil {
		s.until = until
	}
	return err
}

func (s *session) pull() error {
	r := bufio.NewReaderSize(s.broker, 64<<10)
	for {
		var buf []byte
		select {
		case buf = <-s.spare:
		default:
		}
		frame, err := readFrame(r, buf)
		if err != nil {
			return err
		}
		select {
		case s.frames <- frame:
		case <-s.ctx.Done():
			return context.Cause(s.ctx)
		}
	}
}

func (s *session) down() error {
	for {
		select {
		case x := <-s.flight:
			if err := s.deliver(x); err != nil {
				return err
			}
		case <-s.ctx.Done():
			return context.Cause(s.ctx)
		}
	}
}

// deliver answers one request.
func (s *session) deliver(x *exchange) error {
	if x.local != nil {
		return s.send(s.client, x.local)
	}
	var frame []byte
	select {
	case frame = <-s.frames:
	case <-s.ctx.Done():
		return context.Cause(s.ctx)
	}
	if len(frame) < 8 || int32(binary.BigEndian.Uint32(frame[4:])) != x.corr {
		return fmt.Errorf("the broker answered out of order: %d bytes where the answer to request %d was due", len(frame), x.corr)
	}
	if x.own != nil {
		x.own <- frame
		return nil
	}
	out := frame
	if x.answer == nil {
		if _, err := checkAnswer(frame, x.head, kmsg.ResponseForKey(x.key)); err != nil {
			return err
		}
	} else {
		var err error
		if out, err = x.answer(s.answered, frame); err != nil {
			return err
		}
		if &out[0] != &frame[0] {
			s.answered = out
			if cap(out) > KeepBytes {
				s.answered = nil
			}
		}
	}
	if err := s.send(s.client, out); err != nil {
		return err
	}
	select {
	case s.spare <- frame:
	default:
	}
	return nil
}

// request decides what becomes of a request: the exchange to expect (nil: no answer comes) and what the broker gets
// (nil: nothing).
func (s *session) request(frame []byte) (*exchange, []byte, error) {
	h, err := parseHead(frame)
	if err != nil {
		return nil, nil, err
	}
	s.e.m.requests.WithLabelValues(kindOf(h.key)).Inc()
	if !passing[h.key] {
		return nil, nil, fmt.Errorf("a client sent a %s request, which is not passed on", kmsg.NameForKey(h.key))
	}
	switch kmsg.Key(h.key) {
	case kmsg.Produce:
		return s.produce(h, frame)
	case kmsg.Fetch:
		return s.fetch(h, frame)
	case kmsg.ApiVersions:
		return &exchange{head: h, answer: func(dst, f []byte) ([]byte, error) { return apiVersions(h, dst, f) }}, frame, nil
	case kmsg.SASLHandshake, kmsg.SASLAuthenticate:
		return s.refuseLogin(h, frame)
	case kmsg.Metadata, kmsg.FindCoordinator, kmsg.DescribeCluster:
		if s.rewrite != nil {
			return &exchange{head: h, answer: func(dst, f []byte) ([]byte, error) { return s.addresses(h, dst, f) }}, frame, nil
		}
	}
	return &exchange{head: h}, frame, nil
}

// kindOf names a request; there are no more names than requests that are known.
func kindOf(key int16) string {
	if kmsg.RequestForKey(key) == nil {
		return "unknown"
	}
	return kmsg.NameForKey(key)
}
