package rpc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// One port of a client may be connected to several addresses of the node at once: each connection keeps its quotas when
// another one ends.
func TestConnectionsOfOnePort(t *testing.T) {
	n := newNet(t, 0, func(c *Config) { c.HTTPAddr, c.Subscriptions = "0.0.0.0:0", 3 })
	_, port, err := net.SplitHostPort(strings.TrimPrefix(n.srv.WSURL(), "ws://"))
	require.NoError(t, err)
	from := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}
	d := websocket.Dialer{NetDialContext: func(ctx context.Context, _, addr string) (net.Conn, error) {
		nd := net.Dialer{LocalAddr: from, Control: func(_, _ string, rc syscall.RawConn) error {
			var set error
			err := rc.Control(func(fd uintptr) {
				set = errors.Join(unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1), unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1))
			})
			return errors.Join(err, set)
		}}
		return nd.DialContext(ctx, "tcp4", addr)
	}}
	one, _, err := d.Dial("ws://127.0.0.1:"+port, nil)
	require.NoError(t, err)
	defer one.Close()
	from.Port = one.LocalAddr().(*net.TCPAddr).Port
	two, _, err := d.Dial("ws://127.0.0.2:"+port, nil)
	require.NoError(t, err)
	require.Equal(t, one.LocalAddr().String(), two.LocalAddr().String())
	known := func() int { n.srv.conns.mu.Lock(); defer n.srv.conns.mu.Unlock(); return len(n.srv.conns.byID) }
	require.Eventually(t, func() bool { return known() == 3 }, waitTime, pollTime, "both, and the test's own")
	require.NoError(t, two.Close())
	require.Eventually(t, func() bool { return known() == 2 }, waitTime, pollTime)
	for i := range 4 {
		require.NoError(t, one.WriteMessage(websocket.TextMessage, fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"eth_subscribe","params":["logs",{}]}`, i)))
		_, m, err := one.ReadMessage()
		require.NoError(t, err)
		require.Equal(t, i == 3, strings.Contains(string(m), "this connection has 3 subscriptions"), "%s", m)
	}
	require.EqualValues(t, 3, n.srv.subscriptions.total())
}
