package kafka

import (
	"crypto/tls"
	"encoding/binary"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// raw is a client that sends bytes.
type raw struct {
	net.Conn
	t    testing.TB
	next int32
}

func dial(t testing.TB, r *rig) *raw {
	c, err := net.Dial("tcp", r.addr)
	require.NoError(t, err)
	return wrap(t, c)
}

// dialFrom is dial from another address of this machine.
func dialFrom(t testing.TB, r *rig, from string) *raw {
	c, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}).Dial("tcp", r.addr)
	require.NoError(t, err)
	return wrap(t, c)
}

func dialTLS(t testing.TB, r *rig, cfg *tls.Config) *raw {
	c, err := tls.Dial("tcp", r.addr, cfg)
	require.NoError(t, err)
	return wrap(t, c)
}

func wrap(t testing.TB, c net.Conn) *raw {
	t.Cleanup(func() { _ = c.Close() })
	require.NoError(t, c.SetDeadline(time.Now().Add(180*time.Second)))
	return &raw{Conn: c, t: t}
}

func (c *raw) write(b []byte) {
	_, err := c.Write(b)
	require.NoError(c.t, err)
}

func (c *raw) frame(b []byte) { c.write(append(kbin.AppendInt32(nil, int32(len(b))), b...)) }

func (c *raw) send(req kmsg.Request) int32 {
	c.next++
	c.write(kmsg.NewRequestFormatter(kmsg.FormatterClientID("raw")).AppendRequest(nil, req, c.next))
	return c.next
}

// read gives the next answer: its correlation id and what follows.
func (c *raw) read() (int32, []byte) {
	b := c.readFrame()
	require.GreaterOrEqual(c.t, len(b), 4)
	return int32(binary.BigEndian.Uint32(b)), b[4:]
}

func (c *raw) readFrame() []byte {
	var n [4]byte
	_, err := io.ReadFull(c, n[:])
	require.NoError(c.t, err)
	b := make([]byte, binary.BigEndian.Uint32(n[:]))
	_, err = io.ReadFull(c, b)
	require.NoError(c.t, err)
	return b
}

// answer reads the answer to the request with that correlation id.
func (c *raw) answer(id int32, req kmsg.Request) kmsg.Response {
	got, b := c.read()
	require.Equal(c.t, id, got)
	resp := req.ResponseKind()
	if resp.IsFlexible() && resp.Key() != 18 {
		require.Zero(c.t, b[0])
		b = b[1:]
	}
	require.NoError(c.t, resp.ReadFrom(b))
	return resp
}

func (c *raw) ask(req kmsg.Request) kmsg.Response { return c.answer(c.send(req), req) }

func (c *raw) versions(version int16) *kmsg.ApiVersionsResponse {
	req := kmsg.NewPtrApiVersionsRequest()
	req.Version = version
	return c.ask(req).(*kmsg.ApiVersionsResponse)
}

func (c *raw) expectClosed() {
	_, err := c.Read(make([]byte, 1))
	require.Error(c.t, err)
	ne, ok := err.(net.Error)
	require.False(c.t, ok && ne.Timeout(), "the connection is still open")
}

func (c *raw) logIn(user string) *kmsg.SASLAuthenticateResponse {
	h := kmsg.NewPtrSASLHandshakeRequest()
	h.Version, h.Mechanism = 1, "PLAIN"
	require.Zero(c.t, c.ask(h).(*kmsg.SASLHandshakeResponse).ErrorCode)
	a := kmsg.NewPtrSASLAuthenticateRequest()
	a.Version, a.SASLAuthBytes = 2, []byte("\x00"+user+"\x00right")
	return c.ask(a).(*kmsg.SASLAuthenticateResponse)
}
