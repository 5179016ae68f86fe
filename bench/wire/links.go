package wire

import (
	"context"
	"fmt"

	"github.com/bornode/bornode/transport"
	"github.com/bornode/bornode/transport/tcp"
)

// hosts are nodes' hosts over libp2p's TCP: one in the near process, one per peer in the far one.
type hosts struct {
	owned
	mine []*tcp.Host
}

func (h *hosts) host() (*tcp.Host, error) {
	id, err := tcp.GenerateIdentity()
	if err != nil {
		return nil, err
	}
	cfg := tcp.DefaultConfig()
	cfg.Listen = []string{"/ip4/127.0.0.1/tcp/0"}
	x, err := tcp.New(cfg, id, nil, nil)
	if err != nil {
		return nil, err
	}
	h.own(x.Close)
	h.mine = append(h.mine, x)
	return x, nil
}

func (h *hosts) offer(_ context.Context, peers int) ([][]byte, error) {
	out := make([][]byte, peers)
	for i := range out {
		x, err := h.host()
		if err != nil {
			return nil, err
		}
		out[i] = []byte(x.Addrs()[0])
	}
	return out, nil
}

func (h *hosts) answer(ctx context.Context, offer [][]byte) ([][]byte, error) {
	x, err := h.host()
	if err != nil {
		return nil, err
	}
	for _, addr := range offer {
		if err := x.Dial(ctx, string(addr)); err != nil {
			return nil, err
		}
	}
	return make([][]byte, len(offer)), nil
}

func (h *hosts) join(ctx context.Context, answer [][]byte) ([]end, error) {
	out := make([]end, len(answer))
	for i := range out {
		x := h.mine[i%len(h.mine)] // the near side has one for all, the order of its peers is of no matter
		select {
		case l, ok := <-x.Links():
			if !ok {
				return nil, transport.ErrClosed
			}
			out[i] = &messages{l}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return out, nil
}

// messages is an end on a link. The link's own queues make the batches.
type messages struct{ link transport.Link }

func (x *messages) send(lane transport.Lane, payload []byte, n int) error {
	for range n {
		if err := x.link.Send(context.Background(), transport.Message{Lane: lane, Payload: payload}); err != nil {
			return err
		}
	}
	return nil
}

func (x *messages) receive(lane transport.Lane, size int) (byte, error) {
	m, err := x.link.RecvLane(context.Background(), lane)
	if err != nil {
		return 0, err
	}
	if len(m.Payload) != size {
		return 0, fmt.Errorf("message of %d bytes, expected %d", len(m.Payload), size)
	}
	return m.Payload[0], nil
}

// frames is an end on a bare provider: every message is cut as the provider likes it, as a link would do.
type frames struct {
	pipe  transport.Provider
	slice int
	batch []transport.Frame
	into  []byte
}

func newFrames(p transport.Provider) *frames {
	return &frames{pipe: p, slice: p.Limits().SliceBytes, into: make([]byte, transport.MaxSliceBytes)}
}

func (x *frames) send(lane transport.Lane, payload []byte, n int) error {
	x.batch = x.batch[:0]
	for range n {
		for at := 0; at < len(payload); at += x.slice {
			part := payload[at:min(at+x.slice, len(payload))]
			h := transport.Header{Lane: lane, Length: uint32(len(part)), Total: uint32(len(payload))} //nolint:gosec // at most 1 MiB
			if at == 0 {
				h.Flags |= transport.FlagFirst
			}
			if at+len(part) == len(payload) {
				h.Flags |= transport.FlagLast
			}
			x.batch = append(x.batch, transport.Frame{Header: h, Payload: part})
		}
	}
	return x.pipe.WriteFrames(x.batch)
}

func (x *frames) receive(lane transport.Lane, size int) (mark byte, err error) {
	for got := 0; ; {
		h, err := x.pipe.ReadHeader()
		if err != nil {
			return 0, err
		}
		if h.Lane != lane || h.Length == 0 {
			return 0, fmt.Errorf("frame of %d bytes on lane %s", h.Length, h.Lane)
		}
		if err := x.pipe.ReadPayload(x.into[:h.Length]); err != nil {
			return 0, err
		}
		if h.Flags&transport.FlagFirst != 0 {
			mark = x.into[0]
		}
		if got += int(h.Length); h.Flags&transport.FlagLast != 0 {
			if got != size {
				return 0, fmt.Errorf("message of %d bytes, expected %d", got, size)
			}
			return mark, nil
		}
	}
}
