package fabrictest

import (
	"bytes"
	"context"
	"math"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/transport/rdma/fabric"
)

// testCaps: what a device says of itself is enough for a channel.
func testCaps(t *testing.T, h Harness) {
	a, b := sides(t, h)
	for _, s := range []*side{a, b} {
		caps := s.dev.Caps()
		require.NotEmpty(t, caps.Provider)
		require.NotEmpty(t, caps.Device)
		require.GreaterOrEqual(t, caps.MaxSend, sendDepth)
		require.GreaterOrEqual(t, caps.MaxRecv, srqDepth)
		require.GreaterOrEqual(t, caps.MaxCQ, cqDepth)
		require.GreaterOrEqual(t, caps.MaxInline, 0)
		if caps.Reads {
			require.Positive(t, caps.MaxReads)
		}
	}
	require.Equal(t, a.dev.Caps().MapsRemote, b.dev.Caps().MapsRemote)
	require.Equal(t, a.dev.Caps().Provider, b.dev.Caps().Provider)
}

// testRegions: memory is zeroed, aligned, of the asked size, apart from others, and zeroed again when reused.
func testRegions(t *testing.T, h Harness) {
	a, _ := sides(t, h)
	for _, size := range []int{1, 64, page, page + 1, 12345, 1 << 20} {
		for range 3 { // what was freed is dirty
			r, err := a.dev.NewRegion(size)
			require.NoError(t, err)
			other, err := a.dev.NewRegion(size)
			require.NoError(t, err)
			b := r.Bytes()
			require.Len(t, b, size)
			require.Zero(t, uintptr(unsafe.Pointer(&b[0]))%page, "aligned to a page")
			require.Equal(t, len(b), bytes.Count(b, []byte{0}), "zeroed")
			for i := range b {
				b[i] = 0xa5
			}
			require.Equal(t, size, bytes.Count(other.Bytes(), []byte{0}), "regions are apart")
			require.NoError(t, other.Close())
			require.NoError(t, r.Close())
		}
	}
}

// testLimits: sizes that cannot be are errors.
func testLimits(t *testing.T, h Harness) {
	a, _ := sides(t, h)
	caps := a.dev.Caps()
	for _, n := range []int{0, -1, math.MinInt, math.MaxInt} {
		_, err := a.dev.NewRegion(n)
		require.Error(t, err, "a region of %d bytes", n)
		_, err = a.dev.NewCQ(n)
		require.Error(t, err, "a completion queue of %d", n)
		_, err = a.dev.NewSRQ(n)
		require.Error(t, err, "a receive queue of %d", n)
		_, err = a.dev.NewQP(fabric.QPConfig{CQ: a.cq, SRQ: a.srq, SendDepth: n})
		require.Error(t, err, "a send queue of %d", n)
	}
	_, err := a.dev.NewCQ(caps.MaxCQ + 1)
	require.Error(t, err)
	_, err = a.dev.NewSRQ(caps.MaxRecv + 1)
	require.Error(t, err)
	_, err = a.dev.NewQP(fabric.QPConfig{CQ: a.cq, SRQ: a.srq, SendDepth: caps.MaxSend + 1})
	require.Error(t, err)
	_, err = a.dev.NewQP(fabric.QPConfig{SRQ: a.srq, SendDepth: 1})
	require.Error(t, err, "no completion queue")
	_, err = a.dev.NewQP(fabric.QPConfig{CQ: a.cq, SendDepth: 1})
	require.Error(t, err, "no receive queue")
}

// testConnect: either side may lead, several queue pairs of a side have different numbers, and all talk.
func testConnect(t *testing.T, h Harness) {
	a, b := sides(t, h)
	var ends [][2]*end
	numbers := make(map[uint32]bool)
	for i := range h.count(6, 40) {
		from, to := a, b
		if i%2 == 1 {
			from, to = b, a
		}
		x, y := newEnd(t, from, fabric.QPConfig{}), newEnd(t, to, fabric.QPConfig{})
		for _, e := range []*end{x, y} {
			info := e.qp.Info()
			require.NotEmpty(t, info)
			require.LessOrEqual(t, len(info), fabric.MaxInfoBytes)
			require.Equal(t, info, e.qp.Info())
		}
		if from == a {
			require.False(t, numbers[x.qp.Num()])
			numbers[x.qp.Num()] = true
		}
		require.NoError(t, connect(patient(t), x.qp, y.qp))
		ends = append(ends, [2]*end{x, y})
	}
	for _, e := range ends {
		alive(t, e[0], e[1])
	}
	for i := len(ends) - 1; i >= 0; i-- {
		alive(t, ends[i][1], ends[i][0])
	}
}

// testBadInfo: what is no Info is an error of the peer; what was changed in places never does harm.
func testBadInfo(t *testing.T, h Harness) {
	a, b := sides(t, h)
	good := newEnd(t, b, fabric.QPConfig{}).qp.Info()
	var bad [][]byte
	for n := range good {
		if n < 4 || n%5 == 0 || n == len(good)-1 {
			bad = append(bad, good[:n])
		}
	}
	bad = append(bad, nil, append(bytes.Clone(good), 0), make([]byte, len(good)), bytes.Repeat([]byte{0xff}, len(good)),
		make([]byte, fabric.MaxInfoBytes+1), make([]byte, 1<<16), []byte("GET / HTTP/1.1\r\n\r\n"), pattern(7, len(good)))
	for i, info := range bad {
		for _, lead := range []bool{true, false} {
			qp := newEnd(t, a, fabric.QPConfig{}).qp
			require.ErrorIs(t, qp.Connect(patient(t), info, lead), fabric.ErrPeer, "bad info %d of %d bytes", i, len(info))
			require.NoError(t, qp.Close())
		}
	}
	for i := range good {
		qp := newEnd(t, a, fabric.QPConfig{}).qp
		info := bytes.Clone(good)
		info[i] ^= 1 << (i % 8)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		_ = qp.Connect(ctx, info, i%2 == 0) // may even succeed: another queue pair of the peer, say
		cancel()
		require.NoError(t, qp.Close())
	}
	x, y := connected(t, a, b, fabric.QPConfig{})
	alive(t, x, y)
}

// testConnectContext: the context ends a Connect whose peer does nothing.
func testConnectContext(t *testing.T, h Harness) {
	a, b := sides(t, h)
	info := newEnd(t, b, fabric.QPConfig{}).qp.Info()
	for _, lead := range []bool{true, false} {
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		qp := newEnd(t, a, fabric.QPConfig{}).qp
		done := make(chan error, 1)
		go func() { done <- qp.Connect(ended, info, lead) }()
		require.ErrorIs(t, within(t, done), context.Canceled)
		require.NoError(t, qp.Close())

		ctx, cancel := context.WithCancel(t.Context())
		qp = newEnd(t, a, fabric.QPConfig{}).qp
		go func() { done <- qp.Connect(ctx, info, lead) }()
		cancel()
		if err := within(t, done); err != nil { // nil: the backend needs no answer to connect
			require.ErrorIs(t, err, context.Canceled)
		}
		require.NoError(t, qp.Close())
	}
	x, y := connected(t, a, b, fabric.QPConfig{})
	alive(t, x, y)
}

// within waits for what must come.
func within[T any](t testing.TB, c <-chan T) T {
	t.Helper()
	timer := time.NewTimer(Patience)
	defer timer.Stop()
	select {
	case v := <-c:
		return v
	case <-timer.C:
		require.FailNow(t, "it did not end")
		panic("not reached")
	}
}

// testUnconnected: a queue pair that was never connected takes nothing, and may be broken and closed.
func testUnconnected(t *testing.T, h Harness) {
	a, b := sides(t, h)
	e, other := newEnd(t, a, fabric.QPConfig{}), newEnd(t, b, fabric.QPConfig{})
	n, err := e.qp.Post([]fabric.SendWR{e.immediate(1)})
	require.Error(t, err)
	require.Zero(t, n)
	e.qp.Break()
	e.qp.Break()
	n, err = e.qp.Post([]fabric.SendWR{e.immediate(1)})
	require.ErrorIs(t, err, fabric.ErrBroken)
	require.Zero(t, n)
	require.Error(t, e.qp.Connect(patient(t), other.qp.Info(), true), "a broken queue pair stays broken")
	require.NoError(t, e.qp.Close())
	n, err = e.qp.Post([]fabric.SendWR{e.immediate(1)})
	require.Error(t, err)
	require.Zero(t, n)
	require.Error(t, e.qp.Connect(patient(t), other.qp.Info(), true))
	_ = e.qp.Close() // a second Close does no harm
}
