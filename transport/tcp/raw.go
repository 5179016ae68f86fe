package tcp

import (
	"context"
	"errors"

	"github.com/libp2p/go-libp2p/core/network"
	libp2p "github.com/libp2p/go-libp2p/core/transport"

	"github.com/bornode/bornode/transport"
	"github.com/bornode/bornode/transport/link"
)

// rawPipe is a connection's first stream without a link; it ends its connection and host.
type rawPipe struct {
	*pipe
	conn libp2p.CapableConn
	host *Host
}

// Close implements transport.Provider.
func (p *rawPipe) Close() error {
	return errors.Join(p.conn.Close(), p.host.Close())
}

// Raw opens an authenticated connection to addr and its first stream, and nothing more: frames are the caller's, the
// hello included. It is for tests that play a peer.
func Raw(ctx context.Context, identity *Identity, addr string) (transport.Provider, error) {
	info, err := parse(addr)
	if err != nil {
		return nil, err
	}
	h, err := New(Config{Link: link.DefaultConfig()}, identity, nil, nil)
	if err != nil {
		return nil, err
	}
	conn, err := h.transport.Dial(ctx, info.Addrs[0], info.ID)
	if err != nil {
		return nil, errors.Join(err, h.Close())
	}
	var s network.MuxedStream
	if h.Leads(transport.PeerID(info.ID.String())) {
		s, err = conn.OpenStream(ctx)
	} else {
		stop := context.AfterFunc(ctx, func() { _ = conn.Close() }) // AcceptStream has no context
		s, err = conn.AcceptStream()
		stop()
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close(), h.Close())
	}
	return &rawPipe{pipe: newPipe(s, streamFirst), conn: conn, host: h}, nil
}
