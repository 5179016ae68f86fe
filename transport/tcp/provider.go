package tcp

import (
	"bufio"
	"io"

	"time"

	"github.com/libp2p/go-libp2p/core/network"

	"github.com/bornode/bornode/transport"
)

// Name is the provider's name.
const Name = "tcp"

// pipe is a stream of frames as a transport.Provider. Noise protects integrity, so frames need no checksum.
type pipe struct {
	stream network.MuxedStream
	kind   byte   // said before the first frame, but streamFirst
	gather []byte // only the writer's
	reader *bufio.Reader
}

var _ transport.Provider = (*pipe)(nil)

func newPipe(stream network.MuxedStream, kind byte) *pipe {
	return &pipe{stream: stream, kind: kind, reader: bufio.NewReaderSize(stream, readBytes)}
}

// Name implements transport.Provider.
func (p *pipe) Name() string { return Name }

// Limits implements transport.Provider.
func (p *pipe) Limits() transport.ProviderLimits {
	return transport.ProviderLimits{SliceBytes: sliceBytes, UnacknowledgedBytes: transport.UnacknowledgedBytes}
}

// WriteFrames gathers headers and payloads so that each write fills one yamux and one Noise message.
func (p *pipe) WriteFrames(frames []transport.Frame) error {
	b := p.gather[:0]
	if p.gather == nil {
		p.gather = make([]byte, 0, gatherBytes)
		b = p.gather
		if p.kind != streamFirst {
			b = append(b, p.kind)
		}
	}
	var err error
	for i := range frames {
		f := &frames[i]
		if len(b)+transport.HeaderBytes+min(len(f.Payload), sliceBytes) > gatherBytes {
			if b, err = p.flush(b); err != nil {
				return err
			}
		}
		at := len(b)
		b = b[:at+transport.HeaderBytes]
		transport.PutHeader(b[at:], &f.Header)
		rest := f.Payload
		for {
			n := min(len(rest), gatherBytes-len(b))
			b = append(b, rest[:n]...)
			if rest = rest[n:]; len(rest) == 0 {
				break
			}
			if b, err = p.flush(b); err != nil {
				return err
			}
		}
	}
	_, err = p.flush(b)
	return err
}

func (p *pipe) flush(b []byte) ([]byte, error) {
	if len(b) == 0 {
		return b, nil
	}
	_, err := p.stream.Write(b)
	return b[:0], err
}

// ReadHeader implements transport.Provider.
func (p *pipe) ReadHeader() (transport.Header, error) {
	var b [transport.HeaderBytes]byte
	head, err := p.reader.Peek(transport.HeaderBytes)
	if err != nil {
		return transport.Header{}, err
	}
	copy(b[:], head)
	_, _ = p.reader.Discard(transport.HeaderBytes) // they are buffered
	return transport.DecodeHeader(b[:])
}

// ReadPayload implements transport.Provider.
func (p *pipe) ReadPayload(dst []byte) error {
	_, err := io.ReadFull(p.reader, dst)
	return err
}

// Close implements transport.Provider. It ends the stream, not the connection.
func (p *pipe) Close() error {
	_ = p.stream.SetDeadline(time.Unix(1, 0)) // wakes a writer that waits for a slow connection
	return p.stream.Reset()
}
