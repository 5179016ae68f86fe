package rdma

import (
	"context"
	"errors"
	"os"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/transport"
	"github.com/bornode/bornode/transport/conformance"
	"github.com/bornode/bornode/transport/rdma/fabric"
	"github.com/bornode/bornode/transport/rdma/sim"
)

func waitFor(t testing.TB, ok func() bool) {
	t.Helper()
	require.Eventually(t, ok, conformance.Patience, time.Millisecond)
}

func TestBusy(t *testing.T) {
	cfg := testConfig()
	cfg.MaxChannels = 2
	eachFabric(t, cfg, func(t *testing.T, a, _ *Device) {
		c, err := a.NewChannel(patient(t), "x")
		require.NoError(t, err)
		_, err = a.NewChannel(patient(t), "y")
		require.NoError(t, err)
		_, err = a.NewChannel(patient(t), "z")
		require.ErrorIs(t, err, ErrBusy)
		require.NoError(t, c.Close())
		<-c.gone
		waitFor(t, func() bool { return a.Stats().Channels == 1 })
		_, err = a.NewChannel(patient(t), "z")
		require.NoError(t, err)
	})
}

// TestNotConnected: calls at the wrong time give errors.
func TestNotConnected(t *testing.T) {
	a, b, _ := simPair(t, 1, sim.Faults{}, testConfig())
	c, err := a.NewChannel(patient(t), "b")
	require.NoError(t, err)
	require.Equal(t, transport.PeerID("b"), c.Peer())
	require.Equal(t, "sim", c.Name())
	require.ErrorIs(t, c.WriteFrames([]transport.Frame{testFrame(0, 0, 1)}), errNotConnected)
	require.ErrorIs(t, c.Err(), errNotConnected)
	_, err = c.ReadHeader()
	require.ErrorIs(t, err, errNotConnected)
	require.Error(t, c.Connect(patient(t), c.Local(), true))
	require.NoError(t, c.Close())

	x, y := channels(t, a, b)
	require.Error(t, x.WriteFrames([]transport.Frame{{Payload: make([]byte, transport.MaxSliceBytes+1)}}), "no such frame")
	require.Error(t, x.Err())
	_ = y.Close()
}

// TestConnectEnds: a peer that does not come is given up when the context ends, or the channel is closed.
func TestConnectEnds(t *testing.T) {
	eachFabric(t, testConfig(), func(t *testing.T, a, b *Device) {
		for _, end := range []func(cancel context.CancelFunc, c *Channel){
			func(cancel context.CancelFunc, _ *Channel) { cancel() },
			func(_ context.CancelFunc, c *Channel) { _ = c.Close() },
		} {
			x, err := a.NewChannel(patient(t), "b")
			require.NoError(t, err)
			y, err := b.NewChannel(patient(t), "a")
			require.NoError(t, err)
			ctx, cancel := context.WithCancel(context.Background())
			errs := make(chan error, 1)
			go func() { errs <- x.Connect(ctx, y.Local(), true) }()
			runtime.Gosched()
			end(cancel, x)
			require.Error(t, <-errs)
			require.Error(t, x.Err())
			cancel()
			_ = x.Close()
			_ = y.Close()
			<-x.gone
			<-y.gone
		}
	})
}

// TestClose: both sides of a channel learn of its end, blocked readers and writers too.
func TestClose(t *testing.T) {
	eachFabric(t, testConfig(), func(t *testing.T, a, b *Device) {
		x, y := channels(t, a, b)
		errs := make(chan error, 3)
		go func() { _, err := x.ReadHeader(); errs <- err }()
		go func() {
			f := []transport.Frame{testFrame(2, 0, 60_000)}
			var err error
			for err == nil {
				err = x.WriteFrames(f) // nobody reads
			}
			errs <- err
		}()
		waitFor(t, func() bool { return x.Counters()["room_waits"] > 0 })
		require.NoError(t, x.Close())
		require.ErrorIs(t, <-errs, transport.ErrClosed)
		require.ErrorIs(t, <-errs, transport.ErrClosed)
		require.ErrorIs(t, x.Err(), transport.ErrClosed)
		require.NoError(t, x.Close())

		// The other side gives out all that had arrived, then the end.
		require.ErrorIs(t, ended(t, y), ErrBroken)
		<-x.gone
		n := uint64(0)
		var err error
		for err == nil {
			var f transport.Frame
			if f, err = readFrame(y); err == nil {
				require.Len(t, f.Payload, 60_000)
				n++
			}
		}
		require.ErrorIs(t, err, ErrBroken)
		require.NotZero(t, n)
		require.Equal(t, x.flow.out[ringBulk].posted/recordBytes(60_000), n)
		require.ErrorIs(t, y.WriteFrames([]transport.Frame{testFrame(0, 0, 1)}), ErrBroken)
	})
}

// TestBreak: a broken queue pair ends the channel here at once, and over there at the next write at the latest.
func TestBreak(t *testing.T) {
	eachFabric(t, testConfig(), func(t *testing.T, a, b *Device) {
		x, y := channels(t, a, b)
		other, there := channels(t, a, b)
		other.peer = "c"
		require.Equal(t, 1, a.Break("b"))
		require.ErrorIs(t, ended(t, x), ErrBroken)
		require.ErrorContains(t, x.Err(), a.Caps().Provider)
		waitFor(t, func() bool { _ = y.WriteFrames([]transport.Frame{testFrame(0, 0, 1)}); return y.Err() != nil })
		require.ErrorIs(t, y.Err(), ErrBroken)
		require.Zero(t, a.Break("b"))
		require.NoError(t, traffic(other, there, 100, 1000))
		require.Equal(t, 1, a.Break(""))
		require.EqualValues(t, 2, a.Stats().Broken)
	})
}

// TestDeviceLost: the end of a device ends its channels and is told; nothing new is made on it.
func TestDeviceLost(t *testing.T) {
	for _, kind := range []fabric.EventKind{fabric.EventPortDown, fabric.EventDeviceFatal, fabric.EventCQFatal} {
		n := sim.NewNetwork(1, sim.Faults{})
		fd := n.NewDevice("a")
		a, b := openDevice(t, fd, testConfig()), openDevice(t, n.NewDevice("b"), testConfig())
		x, _ := channels(t, a, b)
		select {
		case <-a.Failed():
			require.Fail(t, "lost already")
		default:
		}
		fd.Fail(kind)
		<-a.Failed()
		require.Error(t, ended(t, x)) // the broken queue pair may be seen first
		_, err := a.NewChannel(patient(t), "b")
		require.ErrorIs(t, err, ErrDeviceLost)
		require.Equal(t, kind == fabric.EventCQFatal, a.Stats().CQOverruns == 1)
	}
}

// TestCloseDevice: with channels in every state, a Connect and a NewChannel under way.
func TestCloseDevice(t *testing.T) {
	cfg := testConfig()
	cfg.PoolBytes = 4 * int64(cfg.ControlRingBytes+cfg.BulkRingBytes)
	eachFabric(t, cfg, func(t *testing.T, a, b *Device) {
		x, y := channels(t, a, b)
		errs := make(chan error, 3)
		go func() { _, err := x.ReadHeader(); errs <- err }()
		half, err := a.NewChannel(patient(t), "b")
		if err == nil { // the pool may have no more
			theirs, err := b.NewChannel(patient(t), "a")
			require.NoError(t, err)
			go func() { errs <- half.Connect(context.Background(), theirs.Local(), true) }()
		} else {
			errs <- err
		}
		go func() {
			var err error
			for err == nil {
				_, err = a.NewChannel(context.Background(), "b") // until there are too many, or no memory is left
			}
			errs <- err
		}()
		runtime.Gosched()
		require.NoError(t, a.Close())
		for range 3 {
			require.Error(t, <-errs)
		}
		_, err = a.NewChannel(patient(t), "b")
		require.ErrorIs(t, err, transport.ErrClosed)
		require.ErrorIs(t, x.Err(), transport.ErrClosed)
		ended(t, y)
		require.NoError(t, a.Close())
		select {
		case <-a.Failed():
			require.Fail(t, "closing is no failure")
		default:
		}
	})
}

// TestOpenFails: whatever step fails, everything made before is given back and the fabric device closed.
func TestOpenFails(t *testing.T) {
	failed := 0
	for seed := range uint64(200) {
		n := sim.NewNetwork(seed, sim.Faults{ControlErrors: 0.2})
		d, err := Open(n.NewDevice("a"), testConfig(), nil, nil)
		if err == nil {
			require.NoError(t, d.Close())
		} else {
			require.ErrorIs(t, err, fabric.ErrUnavailable)
			failed++
		}
		require.Zero(t, n.Counters().Misuses)
	}
	require.NotZero(t, failed)
	bad := testConfig()
	bad.Entries = 0
	n := sim.NewNetwork(1, sim.Faults{})
	_, err := Open(n.NewDevice("a"), bad, nil, nil)
	require.ErrorContains(t, err, "entries")
}

// TestSetUpFails: whatever step of a set-up fails, everything is given back, and the next one works.
func TestSetUpFails(t *testing.T) {
	for _, mapped := range []bool{false, true} {
		failed, worked := 0, 0
		for seed := range uint64(pick(40, 1000)) {
			n := sim.NewNetwork(seed, sim.Faults{ControlErrors: 0.1, MapsRemote: mapped})
			a, errA := Open(n.NewDevice("a"), testConfig(), nil, nil)
			b, errB := Open(n.NewDevice("b"), testConfig(), nil, nil)
			if errA == nil && errB == nil {
				for range 5 {
					if err := tryChannel(a, b); err != nil {
						failed++
					} else {
						worked++
					}
				}
				waitFor(t, func() bool { return a.Stats().Channels == 0 && b.Stats().Channels == 0 })
				receive := int64(roundUp(a.size.receive*fabric.MaxSendBytes, pageBytes))
				require.Equal(t, receive, a.Stats().PoolUsed, "memory was not given back")
			}
			for _, d := range []*Device{a, b} {
				if d != nil {
					require.NoError(t, d.Close())
				}
			}
			require.Zero(t, n.Counters().Misuses, "seed %d", seed)
		}
		require.NotZero(t, failed)
		require.NotZero(t, worked)
	}
}

func tryChannel(a, b *Device) error {
	ctx, cancel := context.WithTimeout(context.Background(), conformance.Patience)
	defer cancel()
	x, err := a.NewChannel(ctx, "b")
	if err != nil {
		return err
	}
	defer x.Close()
	y, err := b.NewChannel(ctx, "a")
	if err != nil {
		return err
	}
	defer y.Close()
	errs := make(chan error, 2)
	for _, p := range [][2]*Channel{{x, y}, {y, x}} {
		go func() {
			err := p[0].Connect(ctx, p[1].Local(), p[0] == x)
			if err != nil {
				cancel() // the control stream would tell the other side
			}
			errs <- err
		}()
	}
	if err := errors.Join(<-errs, <-errs); err != nil {
		return err
	}
	return traffic(x, y, 10, 1000)
}

// TestPoolQueues: with the pool exhausted a channel waits, and comes when another is closed.
func TestPoolQueues(t *testing.T) {
	cfg := testConfig()
	cfg.PoolBytes, cfg.MaxChannels = 12<<20, 100
	a, _, _ := simPair(t, 1, sim.Faults{}, cfg)
	var list []*Channel
	waits := a.Stats().PoolWaits
	ctx, cancel := context.WithCancel(patient(t))
	full := make(chan error, 1)
	go func() {
		for {
			c, err := a.NewChannel(ctx, "b")
			if err != nil {
				full <- err
				return
			}
			list = append(list, c)
		}
	}()
	waitFor(t, func() bool { return a.Stats().PoolWaits > waits })
	cancel()
	require.ErrorIs(t, <-full, context.Canceled)
	require.NotEmpty(t, list)
	require.Less(t, len(list), a.size.channels)
	came := make(chan error, 1)
	waits = a.Stats().PoolWaits
	go func() {
		_, err := a.NewChannel(patient(t), "b")
		came <- err
	}()
	waitFor(t, func() bool { return a.Stats().PoolWaits > waits })
	require.Empty(t, came)
	require.NoError(t, list[0].Close())
	require.NoError(t, <-came)
	require.Equal(t, uint64(MinRingBytes), list[len(list)-1].own.bulk, "the last ones got less")
	require.Greater(t, list[0].own.bulk, uint64(MinRingBytes))
}

// TestLeaks: 1,000 connects and disconnects leave nothing: no goroutine, descriptor, memory or receive entry.
func TestLeaks(t *testing.T) {
	for name, pair := range fabrics() {
		t.Run(name, func(t *testing.T) {
			a, b := pair(t, testConfig())
			round := func(i int) {
				ctx := patient(t)
				x, err := a.NewChannel(ctx, "b")
				require.NoError(t, err)
				y, err := b.NewChannel(ctx, "a")
				require.NoError(t, err)
				require.NoError(t, join(ctx, x, y))
				require.NoError(t, x.WriteFrames([]transport.Frame{testFrame(0, i, 100)}))
				_, err = readFrame(y)
				require.NoError(t, err)
				switch i % 3 { // who ends it, and how
				case 0:
					_ = x.Close()
				case 1:
					b.Break("a")
				}
				_ = y.Close()
				_ = x.Close()
				<-x.gone
				<-y.gone
			}
			for i := range 5 {
				round(i)
			}
			goroutines, files, before := runtime.NumGoroutine(), openFiles(t), a.Stats()
			for i := range map[bool]int{false: 60, true: 1000}[name == "shm" || long] {
				round(i)
			}
			waitFor(t, func() bool { return a.Stats().Channels == 0 && b.Stats().Channels == 0 })
			waitFor(t, func() bool { return runtime.NumGoroutine() <= goroutines+2 })
			require.LessOrEqual(t, openFiles(t), files+2)
			after := a.Stats()
			require.Equal(t, before.PoolUsed, after.PoolUsed)
			require.Equal(t, before.PoolBytes, after.PoolBytes)
			healthy(t, a, b)
		})
	}
}

func openFiles(t testing.TB) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(list)
}

// TestSwallowedEntries: hardware that loses receive entries with closed queue pairs does not run dry.
func TestSwallowedEntries(t *testing.T) {
	cfg := testConfig()
	cfg.MaxChannels, cfg.Entries = 2, 8
	a, b, n := simPair(t, 1, sim.Faults{PurgeOnClose: true, Delay: 20 * time.Microsecond}, cfg)
	x, y := channels(t, a, b)
	ctx := patient(t)
	for i := 0; i < pick(60, 500) || n.Counters().Purged == 0 || b.Stats().SRQLost == 0; i++ {
		require.NoError(t, ctx.Err(), "nothing was ever under way")
		p, q := channels(t, a, b)
		go func() {
			for p.WriteFrames([]transport.Frame{testFrame(0, i, 100)}) == nil {
			}
		}()
		_, err := readFrame(q)
		require.NoError(t, err)
		_ = q.Close() // with immediates under way
		_ = p.Close()
		<-q.gone
		<-p.gone
		waitFor(t, func() bool { return a.Stats().Channels == 1 && b.Stats().Channels == 1 })
	}
	require.NoError(t, traffic(x, y, 300, 3000))
	require.Zero(t, n.Counters().RNR)
}

// TestMetrics: the collector shows what Stats says, and leaves with the device.
func TestMetrics(t *testing.T) {
	n := sim.NewNetwork(1, sim.Faults{})
	reg := prometheus.NewPedanticRegistry()
	d, err := Open(n.NewDevice("a"), testConfig(), nil, reg)
	require.NoError(t, err)
	_, err = d.NewChannel(patient(t), "b")
	require.NoError(t, err)
	list, err := reg.Gather()
	require.NoError(t, err)
	require.Len(t, list, len(deviceMetrics))
	for _, family := range list {
		m := family.GetMetric()[0]
		require.Equal(t, "provider", m.GetLabel()[0].GetName())
		require.Equal(t, "sim", m.GetLabel()[0].GetValue())
		if family.GetName() == "bornode_rdma_channels" {
			require.EqualValues(t, 1, m.GetGauge().GetValue())
		}
	}
	_, err = Open(n.NewDevice("b"), testConfig(), nil, reg)
	require.Error(t, err, "the same provider twice")
	require.NoError(t, d.Close())
	list, err = reg.Gather()
	require.NoError(t, err)
	require.Empty(t, list)
}

// crooked is a fabric device with faults of its own.
type crooked struct {
	fabric.Device
	full atomic.Int64 // so many posts are refused, or cut short
	deaf atomic.Int64 // so many events are lost
}

func (c *crooked) NewQP(cfg fabric.QPConfig) (fabric.QP, error) {
	cfg.CQ = cfg.CQ.(*crookedCQ).CQ
	q, err := c.Device.NewQP(cfg)
	return &crookedQP{QP: q, c: c}, err
}

func (c *crooked) NewCQ(depth int) (fabric.CQ, error) {
	q, err := c.Device.NewCQ(depth)
	return &crookedCQ{CQ: q, c: c}, err
}

type crookedQP struct {
	fabric.QP
	c *crooked
}

func (q *crookedQP) Post(wrs []fabric.SendWR) (int, error) {
	if q.c.full.Add(-1) < 0 {
		return q.QP.Post(wrs)
	}
	n, err := q.QP.Post(wrs[:len(wrs)/2])
	if err == nil {
		err = fabric.ErrFull
	}
	return n, err
}

type crookedCQ struct {
	fabric.CQ
	c *crooked
}

func (q *crookedCQ) Wait() error {
	err := q.CQ.Wait()
	for err == nil && q.c.deaf.Load() > 0 {
		q.c.deaf.Add(-1)
		err = q.CQ.Wait()
	}
	return err
}

// TestFullPosts: posts that are refused, or taken in part, go out later by themselves.
func TestFullPosts(t *testing.T) {
	for _, mapped := range []bool{false, true} {
		n := sim.NewNetwork(1, sim.Faults{MapsRemote: mapped})
		fd := &crooked{Device: n.NewDevice("a")}
		a, b := openDevice(t, fd, testConfig()), openDevice(t, n.NewDevice("b"), testConfig())
		x, y := channels(t, a, b)
		for i := range 50 {
			fd.full.Store(int64(1 + i%5))
			require.NoError(t, x.WriteFrames([]transport.Frame{testFrame(0, 2*i, 1000), testFrame(2, i, 50_000)}))
			for range 2 {
				_, err := readFrame(y)
				require.NoError(t, err)
			}
		}
		fd.full.Store(0)
		require.NoError(t, traffic(x, y, 100, 10_000))
		require.NotZero(t, a.Stats().GuardTicks)
	}
}

// TestRescued: an event that never comes is noticed: the next write finds the completion, and the count tells.
func TestRescued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := testConfig()
		cfg.Spin = 0
		n := sim.NewNetwork(1, sim.Faults{})
		fd := &crooked{Device: n.NewDevice("a")}
		a, b := openDevice(t, fd, cfg), openDevice(t, n.NewDevice("b"), cfg)
		x, y := channels(t, a, b)
		read := make(chan transport.Frame, 10)
		go func() {
			for {
				f, err := readFrame(x)
				if err != nil {
					close(read)
					return
				}
				read <- f
			}
		}()
		synctest.Wait()
		fd.deaf.Store(1)
		require.NoError(t, y.WriteFrames([]transport.Frame{testFrame(0, 0, 10)}))
		time.Sleep(2 * eventPatience)
		require.Empty(t, read, "its event was lost")
		require.NoError(t, x.WriteFrames([]transport.Frame{testFrame(0, 0, 10)})) // a heartbeat, say
		<-read
		synctest.Wait()
		require.Zero(t, a.Stats().Rescued, "it may still come")
		time.Sleep(2 * eventPatience)
		for range 3 {
			require.NoError(t, y.WriteFrames([]transport.Frame{testFrame(0, 1, 10)}))
			<-read
			synctest.Wait()
		}
		s := a.Stats()
		t.Logf("%+v", s)
		require.EqualValues(t, 1, s.Rescued)
		_ = x.Close()
		_ = y.Close()
	})
}

// A reader may be about to rest when its channel and then the device are closed: it posts nothing, for the memory is gone.
func TestARestAfterTheDeviceIsClosedPostsNothing(t *testing.T) {
	d := openDevice(t, openSHM(t), testConfig())
	d.poller.mu.Lock()
	d.poller.idle = append(d.poller.idle, 0)
	d.poller.mu.Unlock()
	require.NoError(t, d.Close())
	require.NotEmpty(t, d.poller.idle)
	d.poller.rest()
	require.False(t, d.poller.dead.Load())
}

// lateCQ still gives what a control operation had left in it when it was closed.
type lateCQ struct{ fabric.CQ }

func (lateCQ) Poll(out []fabric.Completion) (int, error) {
	out[0] = fabric.Completion{ID: recvID, Op: fabric.OpRecv, Status: fabric.StatusFlushed}
	return 1, fabric.ErrClosed
}

func TestAPollAfterTheDeviceIsClosedLooksAtNothing(t *testing.T) {
	d := openDevice(t, openSHM(t), testConfig())
	require.NoError(t, d.Close())
	d.cq = lateCQ{d.cq}
	require.Zero(t, d.poller.poll())
	found, woke := d.poller.drain()
	require.Zero(t, found)
	require.False(t, woke)
}
