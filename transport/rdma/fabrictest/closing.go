package fabrictest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/transport/rdma/fabric"
)

// testCloseWhileWaiting: Close of a completion queue ends Wait, whenever it comes.
func testCloseWhileWaiting(t *testing.T, h Harness) {
	a, _ := sides(t, h)
	for i := range h.count(30, 300) {
		cq, err := a.dev.NewCQ(16)
		require.NoError(t, err)
		done := make(chan error, 1)
		go func() {
			for {
				if err := cq.Arm(); err != nil {
					done <- err
					return
				}
				if err := cq.Wait(); err != nil {
					done <- err
					return
				}
			}
		}()
		for range i % 5 {
			runtime.Gosched()
		}
		require.NoError(t, cq.Close())
		require.ErrorIs(t, within(t, done), fabric.ErrClosed)
		go func() { done <- cq.Wait() }()
		require.ErrorIs(t, within(t, done), fabric.ErrClosed)
		require.ErrorIs(t, cq.Arm(), fabric.ErrClosed)
		_, err = cq.Poll(make([]fabric.Completion, 1))
		require.ErrorIs(t, err, fabric.ErrClosed)
		_ = cq.Close() // a second Close does no harm
	}
}

// testCloseWhileMapping: Close and Break of a queue pair end Map.
func testCloseWhileMapping(t *testing.T, h Harness) {
	a, b := sides(t, h)
	if !a.dev.Caps().MapsRemote {
		return
	}
	for i := range h.count(10, 100) {
		x, _ := connected(t, a, b, fabric.QPConfig{})
		done := make(chan error, 1)
		go func() {
			_, err := x.qp.Map(context.Background(), fabric.Remote{Key: 0xfffffff0, Len: page})
			done <- err
		}()
		for range i % 5 {
			runtime.Gosched()
		}
		if i%2 == 0 {
			x.qp.Break()
		} else {
			require.NoError(t, x.qp.Close())
		}
		err := within(t, done)
		require.True(t, errors.Is(err, fabric.ErrBroken) || errors.Is(err, fabric.ErrClosed), "got %v", err)
		require.NoError(t, x.qp.Close())
	}
}

// testCloseWhileConnecting: Close and Break end a Connect whose peer does nothing.
func testCloseWhileConnecting(t *testing.T, h Harness) {
	a, b := sides(t, h)
	info := newEnd(t, b, fabric.QPConfig{}).qp.Info()
	for i := range h.count(10, 100) {
		qp := newEnd(t, a, fabric.QPConfig{}).qp
		done := make(chan error, 1)
		go func() { done <- qp.Connect(context.Background(), info, i%4 < 2) }()
		for range i % 5 {
			runtime.Gosched()
		}
		if i%2 == 0 {
			qp.Break()
		} else {
			require.NoError(t, qp.Close())
		}
		err := within(t, done) // nil: it was connected before, which needs no answer of the peer
		require.True(t, err == nil || errors.Is(err, fabric.ErrBroken) || errors.Is(err, fabric.ErrClosed), "got %v", err)
		require.NoError(t, qp.Close())
	}
	x, y := connected(t, a, b, fabric.QPConfig{})
	alive(t, x, y)
}

// testCloseUnderLoad: a queue pair is closed or broken while its owner posts; posting ends with an error, and what was
// not carried is not doubled either.
func testCloseUnderLoad(t *testing.T, h Harness) {
	a, b := sides(t, h)
	for i := range h.count(6, 60) {
		x, y := connected(t, a, b, fabric.QPConfig{RNRRetry: true})
		b.fill(t, len(b.free))
		enough, stop, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
		go func() { ended <- x.postUntilStopped(enough, stop) }()
		within(t, enough)
		if i%2 == 0 {
			x.qp.Break()
		} else {
			require.NoError(t, x.qp.Close())
		}
		close(stop)
		require.NoError(t, within(t, ended))
		require.NoError(t, x.qp.Close())
		// What arrived is a prefix of what was posted.
		fresh, its := connected(t, a, b, fabric.QPConfig{RNRRetry: true})
		fresh.must(t, fresh.immediate(77))
		b.fill(t, len(b.free))
		for next, ended := uint32(0), false; !ended; {
			c, err := b.next(isRecv)
			require.NoError(t, err)
			b.done(c)
			b.fill(t, 1)
			switch {
			case c.QP == its.qp.Num():
				require.Equal(t, fabric.StatusOK, c.Status)
				require.EqualValues(t, 77, c.Imm)
				ended = true
			case c.QP == y.qp.Num() && c.Status == fabric.StatusOK:
				require.Equal(t, next, c.Imm)
				next++
			}
		}
		a.discard(t)
		b.discard(t)
		for _, e := range []*end{y, fresh, its} {
			require.NoError(t, e.qp.Close())
		}
	}
}

// postUntilStopped posts immediates and polls, until the queue pair tells of its end after stop.
func (e *end) postUntilStopped(enough chan<- struct{}, stop <-chan struct{}) error {
	for i := 0; ; {
		wr := e.immediate(uint32(i))
		wr.Signaled = true
		n, err := e.qp.Post([]fabric.SendWR{wr})
		if i += n; i == 50 && n == 1 {
			close(enough)
		}
		switch {
		case err == nil || errors.Is(err, fabric.ErrFull):
		case i < 50:
			return fmt.Errorf("after %d requests: %w", i, err)
		case errors.Is(err, fabric.ErrBroken) || errors.Is(err, fabric.ErrClosed):
			<-stop
			return nil
		default:
			return err
		}
		if _, err := e.poll(); err != nil {
			return err
		}
		runtime.Gosched()
	}
}

// testLeaks: what is closed leaves no goroutine, descriptor or memory.
func testLeaks(t *testing.T, h Harness) {
	a, b := h.NewPair(t)
	once := func() { require.NoError(t, connectAndClose(a, b)) }
	for range 3 { // what is made once stays: pollers of the run time, caches
		once()
	}
	goroutines, descriptors, memory := runtime.NumGoroutine(), openDescriptors(t), virtualMemory(t)
	rounds := h.count(200, 1000)
	for range rounds {
		once()
	}
	require.NoError(t, a.Close())
	if a != b {
		require.NoError(t, b.Close())
	}
	atMost(t, goroutines, runtime.NumGoroutine, "goroutines")
	atMost(t, descriptors, func() int { return openDescriptors(t) }, "descriptors")
	grown := virtualMemory(t) - memory
	require.Less(t, grown, int64(rounds)*leakRegion/2, "%d MiB of mappings are left after %d rounds", grown>>20, rounds)
}

const leakRegion = 1 << 20

// connectAndClose makes a connection with all that belongs to it, uses it once, and closes it.
func connectAndClose(a, b fabric.Device) (err error) {
	var closers []func() error
	defer func() {
		for i := len(closers) - 1; i >= 0; i-- {
			err = errors.Join(err, closers[i]())
		}
	}()
	var ends []*end
	for _, dev := range []fabric.Device{a, b} {
		s, err := openSide(dev)
		if err != nil {
			return err
		}
		closers = append(closers, s.close)
		r, err := dev.NewRegion(leakRegion)
		if err != nil {
			return err
		}
		closers = append(closers, r.Close)
		qp, err := dev.NewQP(fabric.QPConfig{CQ: s.cq, SRQ: s.srq, SendDepth: 16})
		if err != nil {
			return err
		}
		closers = append(closers, qp.Close)
		ends = append(ends, &end{side: s, qp: qp, target: r})
	}
	x, y := ends[0], ends[1]
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	if err := connect(ctx, x.qp, y.qp); err != nil {
		return err
	}
	remote, err := y.qp.Expose(y.target, 0, leakRegion, fabric.RemoteWrite)
	if err != nil {
		return err
	}
	if a.Caps().MapsRemote {
		m, err := x.qp.Map(ctx, remote)
		if err != nil {
			return err
		}
		m[0] = 1
	}
	if err := errors.Join(x.post(4), y.post(4), x.ping(1)); err != nil {
		return err
	}
	_, err = y.hearOne()
	return err
}

// atMost waits until a count is down to a limit; what was closed may end a little later.
func atMost(t testing.TB, limit int, count func() int, what string) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(Patience); count() > limit; <-tick.C {
		require.True(t, time.Now().Before(end), "%d %s are left, %d were there before", count(), what, limit)
	}
}

func openDescriptors(t testing.TB) int {
	list, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(list)
}

// virtualMemory is what the process has mapped, in bytes.
func virtualMemory(t testing.TB) int64 {
	text, err := os.ReadFile("/proc/self/status")
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmSize:"); ok {
			kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			require.NoError(t, err)
			return kib << 10
		}
	}
	require.FailNow(t, "no VmSize")
	return 0
}
