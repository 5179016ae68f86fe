package link

import (
	"bytes"
	"context"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/transport"
)

// bytePipe reads frames from given bytes, as from a stream, and swallows what is written. At the end of the bytes it
// waits to be closed.
type bytePipe struct {
	in     *bytes.Reader
	closed chan struct{}
	once   sync.Once
}

func (p *bytePipe) Name() string                        { return "bytes" }
func (p *bytePipe) Limits() transport.ProviderLimits    { return transport.ProviderLimits{} }
func (p *bytePipe) WriteFrames([]transport.Frame) error { return nil }
func (p *bytePipe) Close() error                        { p.once.Do(func() { close(p.closed) }); return nil }
func (p *bytePipe) ReadPayload(dst []byte) error        { _, err := io.ReadFull(p.in, dst); return err }
func (p *bytePipe) ReadHeader() (h transport.Header, _ error) {
	var b [transport.HeaderBytes]byte
	if _, err := io.ReadFull(p.in, b[:]); err != nil {
		return h, err
	}
	return transport.DecodeHeader(b[:])
}

func frameBytes(f transport.Frame) []byte {
	b := make([]byte, transport.HeaderBytes)
	transport.PutHeader(b, &f.Header)
	return append(b, f.Payload...)
}

// FuzzPeerBytes feeds a whole connection, from the hello on, to a node: it must not panic, must end with the input,
// must hold no more than it got, and must give out only messages within bounds.
func FuzzPeerBytes(f *testing.F) {
	hello := frameBytes(control(transport.ControlHello, (&transport.Hello{Local: transport.SessionID{1}}).Encode()))
	data := func(h transport.Header, b []byte) []byte {
		h.Length = uint32(len(b))
		return frameBytes(transport.Frame{Header: h, Payload: b})
	}
	whole := transport.FlagFirst | transport.FlagLast
	f.Add(hello)
	f.Add(append(bytes.Clone(hello), data(transport.Header{Lane: 1, Flags: uint8(whole), Total: 3}, []byte("abc"))...))
	two := append(bytes.Clone(hello), data(transport.Header{Lane: 2, Flags: transport.FlagFirst, Total: 5}, []byte("abc"))...)
	f.Add(append(two, data(transport.Header{Lane: 2, Flags: transport.FlagLast, Total: 5, Sequence: 1}, []byte("de"))...))
	f.Add(append(bytes.Clone(hello), frameBytes(control(transport.ControlPing, make([]byte, transport.AcksBytes+8)))...))
	f.Add(append(bytes.Clone(hello), frameBytes(control(transport.ControlClose, []byte("bye")))...))
	f.Fuzz(func(t *testing.T, in []byte) {
		cfg := DefaultConfig()
		cfg.HelloTimeout = time.Minute
		p, err := NewPeers(cfg, "a", nil, nil, nil)
		require.NoError(t, err)
		defer p.Close()
		pipe := &bytePipe{in: bytes.NewReader(in), closed: make(chan struct{})}
		if err := p.Attach(context.Background(), "b", true, pipe); err != nil {
			<-pipe.closed
			return
		}
		l := <-p.Links()
		<-pipe.closed // the input is used up, or was refused
		held := 0
		s := l.Stats()
		for lane, ls := range s.Lanes {
			held += ls.UnreadBytes
			for range ls.UnreadMessages {
				m, err := l.RecvLane(context.Background(), transport.Lane(lane))
				require.NoError(t, err)
				require.LessOrEqual(t, len(m.Payload), transport.MaxMessageBytes(m.Lane))
			}
		}
		require.LessOrEqual(t, held, len(in))
	})
}
