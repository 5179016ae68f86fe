package link

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/transport"
)

const patience = 60 * time.Second

// testPipe is one end of a frame pipe in memory. With a step channel each write waits to be let through.
type testPipe struct {
	name     string
	checksum bool
	in, out  chan transport.Frame
	payload  []byte
	step     chan struct{}
	wrote    func([]transport.Frame)
	closed   chan struct{} // of the connection: both ends
	once     *sync.Once
	budget   func() bool // false: the connection breaks instead of carrying the frame
}

var errCut = errors.New("cut")

func testPipes(name string) (*testPipe, *testPipe) {
	x, y := make(chan transport.Frame, 4), make(chan transport.Frame, 4)
	closed, once := make(chan struct{}), new(sync.Once)
	return &testPipe{name: name, in: x, out: y, closed: closed, once: once}, &testPipe{name: name, in: y, out: x, closed: closed, once: once}
}

func (p *testPipe) Name() string { return p.name }

func (p *testPipe) Limits() transport.ProviderLimits {
	return transport.ProviderLimits{SliceBytes: 1000, UnacknowledgedBytes: transport.UnacknowledgedBytes, Checksum: p.checksum}
}

func (p *testPipe) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *testPipe) WriteFrames(frames []transport.Frame) error {
	if p.wrote != nil {
		p.wrote(frames)
	}
	if p.step != nil {
		select {
		case <-p.step:
		case <-p.closed:
			return errCut
		}
	}
	for _, f := range frames {
		if p.budget != nil && !p.budget() {
			_ = p.Close()
		}
		f.Payload = append([]byte(nil), f.Payload...)
		select {
		case <-p.closed:
			return errCut
		default:
		}
		select {
		case p.out <- f:
		case <-p.closed:
			return errCut
		}
	}
	return nil
}

func (p *testPipe) ReadHeader() (transport.Header, error) {
	select {
	case <-p.closed: // whatever is still under way
		return transport.Header{}, io.EOF
	default:
	}
	select {
	case f := <-p.in:
		p.payload = f.Payload
		return f.Header, nil
	case <-p.closed:
		return transport.Header{}, io.EOF
	}
}

func (p *testPipe) ReadPayload(dst []byte) error {
	copy(dst, p.payload)
	return nil
}

// testConfig never lets time decide a test.
func testConfig() Config {
	c := DefaultConfig()
	c.IdleTimeout, c.ResumeTimeout, c.HelloTimeout = 2*patience, 2*patience, patience
	return c
}

func newTestPeers(t *testing.T, cfg Config, self transport.PeerID) *Peers {
	p, err := NewPeers(cfg, self, nil, nil, nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

// attachBoth puts a's and b's link on a new pipe.
func attachBoth(t *testing.T, a, b *Peers, pa, pb transport.Provider) {
	t.Helper()
	errs := make(chan error, 2)
	go func() { errs <- a.Attach(context.Background(), b.self, false, pa) }()
	go func() { errs <- b.Attach(context.Background(), a.self, true, pb) }()
	require.NoError(t, <-errs)
	require.NoError(t, <-errs)
}

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}
