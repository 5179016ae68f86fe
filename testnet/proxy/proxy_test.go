package proxy

import (
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// echo answers every byte until the test ends.
func echo(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.Copy(c, c)
			}()
		}
	}()
	return l.Addr().String()
}

func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	require.NoError(t, c.SetDeadline(time.Now().Add(time.Minute)))
	return c
}

func say(t *testing.T, c net.Conn, s string) {
	t.Helper()
	_, err := c.Write([]byte(s))
	require.NoError(t, err)
}

func hear(t *testing.T, c net.Conn, s string) {
	t.Helper()
	b := make([]byte, len(s))
	_, err := io.ReadFull(c, b)
	require.NoError(t, err)
	require.Equal(t, s, string(b))
}

func TestBlackHoleHoldsAndHealReleases(t *testing.T) {
	p := New()
	defer p.Close()
	r, err := p.AddRoute(0, 1, echo(t), "")
	require.NoError(t, err)
	c := dial(t, r.Listen)
	say(t, c, "one")
	hear(t, c, "one")

	require.NoError(t, p.SetRule(1, 0, Rule{Mode: BlackHole})) // the pair is unordered
	say(t, c, "two")
	require.NoError(t, c.SetReadDeadline(time.Now().Add(50*time.Millisecond)))
	_, err = c.Read(make([]byte, 1))
	var timeout net.Error
	require.ErrorAs(t, err, &timeout)
	require.True(t, timeout.Timeout(), "nothing may arrive: %v", err)

	require.NoError(t, c.SetReadDeadline(time.Now().Add(time.Minute)))
	p.Heal()
	hear(t, c, "two")
}

func TestResetEndsConnectionsAndRefusesNewOnes(t *testing.T) {
	p := New()
	defer p.Close()
	r, err := p.AddRoute(0, 1, echo(t), "")
	require.NoError(t, err)
	c := dial(t, r.Listen)
	say(t, c, "one")
	hear(t, c, "one")
	require.NoError(t, p.SetRule(0, 1, Rule{Mode: Reset}))
	_, err = c.Read(make([]byte, 1))
	require.Error(t, err)
	d, err := net.Dial("tcp", r.Listen)
	if err == nil { // the reset may come before this side has noticed that it is connected
		require.NoError(t, d.SetDeadline(time.Now().Add(time.Minute)))
		_, err = d.Read(make([]byte, 1))
		require.NoError(t, d.Close())
	}
	require.Error(t, err)
	require.NotErrorIs(t, err, os.ErrDeadlineExceeded)
	p.Heal()
	e := dial(t, r.Listen)
	say(t, e, "again")
	hear(t, e, "again")
}

func TestHalfOpenPassesOneDirection(t *testing.T) {
	p := New()
	defer p.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	r, err := p.AddRoute(0, 1, l.Addr().String(), "")
	require.NoError(t, err)
	c := dial(t, r.Listen)
	far, err := l.Accept()
	require.NoError(t, err)
	defer far.Close()
	require.NoError(t, p.SetRule(0, 1, Rule{Mode: HalfOpen}))
	say(t, c, "up")
	hear(t, far, "up")
	say(t, far, "down")
	require.NoError(t, c.SetReadDeadline(time.Now().Add(50*time.Millisecond)))
	_, err = c.Read(make([]byte, 1))
	require.Error(t, err)
	p.Heal()
	require.NoError(t, c.SetReadDeadline(time.Now().Add(time.Minute)))
	hear(t, c, "down")
}

func TestDelayIsAtLeastAsTold(t *testing.T) {
	p := New()
	defer p.Close()
	r, err := p.AddRoute(0, 1, echo(t), "")
	require.NoError(t, err)
	require.NoError(t, p.SetRule(0, 1, Rule{Mode: Pass, Delay: 40 * time.Millisecond}))
	c := dial(t, r.Listen)
	start := time.Now()
	say(t, c, "x")
	hear(t, c, "x")
	require.GreaterOrEqual(t, time.Since(start), 80*time.Millisecond, "one delay each way")
}

func TestControlSocket(t *testing.T) {
	p := New()
	defer p.Close()
	ctx, cancel := context.WithCancel(t.Context())
	socket := filepath.Join(t.TempDir(), "p.sock")
	served := make(chan error, 1)
	go func() { served <- p.ServeControl(ctx, socket) }()
	c := NewClient(socket)
	require.Eventually(t, func() bool { return c.Ping(ctx) == nil }, time.Minute, 5*time.Millisecond)
	r, err := c.AddRoute(ctx, Route{From: 0, To: 1, Target: echo(t)})
	require.NoError(t, err)
	conn := dial(t, r.Listen)
	say(t, conn, "hello")
	hear(t, conn, "hello")
	require.ErrorContains(t, c.SetRule(ctx, 0, 1, Rule{Mode: "fog"}), "use pass, black-hole")
	require.NoError(t, c.SetRule(ctx, 0, 1, Rule{Mode: Reset}))
	_, err = conn.Read(make([]byte, 1))
	require.Error(t, err)
	cancel()
	require.NoError(t, <-served)
}
