package wire

import (
	"bufio"
	"context"
	"io"
	"net"
	"sync/atomic"
	"syscall"

	"github.com/bornode/bornode/transport"
)

const (
	socketBuffer = 64 << 10 // small messages are read through it, many at once
	spinsPerLook = 256      // empty reads between two looks whether the end was closed
)

// sockets are plain TCP connections over loopback, one per peer: messages of a known size without any header, small
// ones gathered into one write where several are handed over at once.
type sockets struct {
	owned
	polled   bool
	listener net.Listener
	conns    []net.Conn
}

func (s *sockets) offer(ctx context.Context, peers int) ([][]byte, error) {
	var err error
	if s.listener, err = new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0"); err != nil {
		return nil, err
	}
	s.own(s.listener.Close)
	out := make([][]byte, peers)
	for i := range out {
		out[i] = []byte(s.listener.Addr().String())
	}
	return out, nil
}

func (s *sockets) answer(ctx context.Context, offer [][]byte) ([][]byte, error) {
	for _, addr := range offer { // the far side takes them in this order
		c, err := new(net.Dialer).DialContext(ctx, "tcp", string(addr))
		if err != nil {
			return nil, err
		}
		s.own(c.Close)
		s.conns = append(s.conns, c)
	}
	return make([][]byte, len(offer)), nil
}

func (s *sockets) join(_ context.Context, answer [][]byte) ([]end, error) {
	for s.listener != nil && len(s.conns) < len(answer) {
		c, err := s.listener.Accept()
		if err != nil {
			return nil, err
		}
		s.own(c.Close)
		s.conns = append(s.conns, c)
	}
	out := make([]end, len(s.conns))
	for i, c := range s.conns {
		x := &socket{conn: c}
		if s.polled {
			raw, err := c.(*net.TCPConn).SyscallConn()
			if err != nil {
				return nil, err
			}
			x.spin = &spinning{raw: raw}
			s.own(func() error { x.spin.closed.Store(true); return nil })
		}
		x.reader = bufio.NewReaderSize(x.input(), socketBuffer)
		out[i] = x
	}
	return out, nil
}

type socket struct {
	conn   net.Conn
	spin   *spinning // nil: reads sleep
	reader *bufio.Reader
	gather []byte
	large  []byte
}

func (x *socket) input() io.Reader {
	if x.spin != nil {
		return x.spin
	}
	return x.conn
}

func (x *socket) send(_ transport.Lane, payload []byte, n int) error {
	if n > 1 {
		x.gather = x.gather[:0]
		for range n {
			x.gather = append(x.gather, payload...)
		}
		payload = x.gather
	}
	_, err := x.conn.Write(payload)
	return err
}

func (x *socket) receive(_ transport.Lane, size int) (byte, error) {
	if size < socketBuffer {
		b, err := x.reader.Peek(size)
		if err != nil {
			return 0, err
		}
		mark := b[0]
		_, err = x.reader.Discard(size)
		return mark, err
	}
	if len(x.large) < size {
		x.large = make([]byte, size)
	}
	if _, err := io.ReadFull(x.input(), x.large[:size]); err != nil { // straight to its place
		return 0, err
	}
	return x.large[0], nil
}

// spinning reads a non-blocking socket again and again instead of sleeping until there is something.
type spinning struct {
	raw    syscall.RawConn
	closed atomic.Bool
}

func (s *spinning) Read(p []byte) (n int, err error) {
	ended := s.raw.Read(func(fd uintptr) bool {
		for i := 1; ; i++ {
			n, err = syscall.Read(int(fd), p) //nolint:gosec // a descriptor
			if err != syscall.EAGAIN && err != syscall.EINTR {
				return true
			}
			if i%spinsPerLook == 0 && s.closed.Load() {
				err = net.ErrClosed
				return true
			}
		}
	})
	switch {
	case ended != nil:
		return 0, ended
	case err != nil:
		return 0, err
	case n == 0 && len(p) > 0:
		return 0, io.EOF
	}
	return n, nil
}
