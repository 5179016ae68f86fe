package sim_test

import (
	"bytes"
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/transport/rdma/fabric"
	"github.com/bornode/bornode/transport/rdma/sim"
)

// TestRefusalAcknowledges: who is told that a request was refused knows that those before it were done.
func TestRefusalAcknowledges(t *testing.T) {
	for seed := range uint64(50) {
		r := newRig(t, seed, sim.Faults{Delay: time.Millisecond})
		r.b.entries(t, 2)
		post(t, r.a.qp, imm(1), imm(2), imm(3), imm(4))
		settle(r.net)
		require.Equal(t, "1:ok 2:ok 3:receiver not ready 4:flushed ", statuses(r.a.poll(t)))
	}
}

// TestReadArrivesWithItsCompletion: the bytes are those of the moment when the peer answered.
func TestReadArrivesWithItsCompletion(t *testing.T) {
	r := newRig(t, 1, sim.Faults{Delay: time.Millisecond})
	copy(r.b.mem.Bytes(), "old")
	read := r.write(1, 3)
	read.Op = fabric.OpRead
	post(t, r.a.qp, read)
	for r.net.Counters().Reads == 0 {
		require.True(t, r.net.Step())
	}
	copy(r.b.mem.Bytes(), "new")
	require.Equal(t, "\x00\x00\x00", string(r.a.mem.Bytes()[:3]))
	settle(r.net)
	require.Equal(t, "old", string(r.a.mem.Bytes()[:3]))
}

// TestPeerOfAnother: a queue pair that is connected with another takes nothing and shows no memory.
func TestPeerOfAnother(t *testing.T) {
	for _, f := range []sim.Faults{{}, {MapsRemote: true}} {
		r := newRig(t, 1, f)
		r.b.entries(t, 1)
		stranger := r.a.newQP(t, 4, false)
		require.NoError(t, stranger.Connect(t.Context(), r.b.qp.Info(), true))
		if f.MapsRemote {
			_, err := stranger.Map(t.Context(), r.far)
			require.ErrorIs(t, err, sim.ErrIdle)
		}
		post(t, stranger, imm(1))
		settle(r.net)
		require.Equal(t, "1:retry exceeded ", statuses(r.a.poll(t)))
		require.Empty(t, r.b.poll(t))
	}
}

// TestWaitingRequestsEnd: what waits for an entry or a Connect of the peer ends when the peer breaks or closes.
func TestWaitingRequestsEnd(t *testing.T) {
	for _, end := range []func(fabric.QP){func(q fabric.QP) { q.Break() }, func(q fabric.QP) { _ = q.Close() }} {
		r := newRig(t, 1, sim.Faults{})
		x, y := r.a.newQP(t, 4, true), r.b.newQP(t, 4, true)
		join(t, x, y)
		post(t, x, imm(1))
		u, v := r.a.newQP(t, 4, true), r.b.newQP(t, 4, true)
		require.NoError(t, u.Connect(t.Context(), v.Info(), true))
		post(t, u, imm(1))
		settle(r.net)
		require.Empty(t, r.a.poll(t))
		end(y)
		end(v)
		settle(r.net)
		require.Equal(t, "1:retry exceeded 1:retry exceeded ", statuses(r.a.poll(t)))
	}
}

// TestWaitingCallsEnd: so do a Connect and a Map.
func TestWaitingCallsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := sim.NewNetwork(1, sim.Faults{Handshake: true, MapsRemote: true})
		a, b := newNode(t, n, "a", 8), newNode(t, n, "b", 8)
		a.qp, b.qp = a.newQP(t, 1, false), b.newQP(t, 1, false)
		done := make(chan error, 1)
		go func() { done <- a.qp.Connect(context.Background(), b.qp.Info(), true) }()
		synctest.Wait()
		require.NoError(t, b.qp.Close())
		require.ErrorIs(t, <-done, fabric.ErrBroken)
		require.ErrorIs(t, a.newQP(t, 1, false).Connect(t.Context(), b.qp.Info(), true), fabric.ErrPeer, "it has gone")

		a.qp, b.qp = a.newQP(t, 1, false), b.newQP(t, 1, false)
		go func() { done <- a.qp.Connect(context.Background(), b.qp.Info(), true) }()
		require.NoError(t, b.qp.Connect(context.Background(), a.qp.Info(), false))
		require.NoError(t, <-done)
		go func() {
			_, err := a.qp.Map(context.Background(), fabric.Remote{Key: 1, Len: 8})
			done <- err
		}()
		b.qp.Break()
		synctest.Wait()
		require.Empty(t, done, "nobody notices that a peer broke")
		require.NoError(t, b.qp.Close())
		require.ErrorIs(t, <-done, fabric.ErrBroken)

		// A Connect that failed leaves a broken queue pair.
		a.qp, b.qp = a.newQP(t, 1, false), b.newQP(t, 1, false)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, a.qp.Connect(ctx, b.qp.Info(), true), context.DeadlineExceeded)
		_, err := a.qp.Post([]fabric.SendWR{imm(1)})
		require.ErrorIs(t, err, fabric.ErrBroken)
	})
}

// TestViolationIsTold: the device whose memory a peer reached for wrongly has an event, and a receive entry may be used
// up by it.
func TestViolationIsTold(t *testing.T) {
	used, unused := 0, 0
	for seed := range uint64(40) {
		r := newRig(t, seed, sim.Faults{})
		r.b.entries(t, 1)
		wr := r.write(1, 8)
		wr.Op, wr.RKey = fabric.OpWriteImm, wr.RKey+1
		post(t, r.a.qp, wr)
		settle(r.net)
		require.Equal(t, "1:remote access ", statuses(r.a.poll(t)))
		e, ok := r.b.event()
		require.True(t, ok)
		require.Equal(t, fabric.Event{Kind: fabric.EventQPFatal, QP: r.b.qp.Num(), Text: e.Text}, e)
		if got := r.b.poll(t); len(got) == 0 {
			unused++
		} else {
			require.Equal(t, fabric.StatusRemoteAccess, got[0].Status)
			used++
		}
	}
	require.Positive(t, used)
	require.Positive(t, unused)
}

// TestReceiveQueueIsExact in its depth and its limit.
func TestReceiveQueueIsExact(t *testing.T) {
	r := newRig(t, 1, sim.Faults{})
	n, err := r.b.srq.Post(make([]fabric.RecvWR, 100))
	require.ErrorIs(t, err, fabric.ErrFull)
	require.Equal(t, 64, n)
	require.NoError(t, r.b.srq.ArmLimit(60))
	for i := range uint64(10) {
		post(t, r.a.qp, imm(i))
		settle(r.net)
		r.a.poll(t)
		_, fired := r.b.event()
		require.Equal(t, i == 4, fired, "%d entries are left", 63-i)
	}
	require.Error(t, r.b.srq.ArmLimit(65))
	require.Error(t, r.b.srq.ArmLimit(-1))
}

// TestCloseForgetsOrTells: requests that were under way at Close complete, or not.
func TestCloseForgetsOrTells(t *testing.T) {
	told := make(map[int]int)
	for seed := range uint64(40) {
		r := newRig(t, seed, sim.Faults{})
		post(t, r.a.qp, imm(1), imm(2))
		require.NoError(t, r.a.qp.Close())
		list := r.a.poll(t)
		for _, c := range list {
			require.Equal(t, fabric.StatusFlushed, c.Status)
		}
		told[len(list)]++
	}
	require.Len(t, told, 2)
	require.Positive(t, told[0])
	require.Positive(t, told[2])
}

// TestExposureTakesTime before the peer can map it.
func TestExposureTakesTime(t *testing.T) {
	over(t, 10, func(seed uint64) bool {
		r := newRig(t, seed, sim.Faults{MapsRemote: true, Delay: time.Second})
		_, err := r.a.qp.Map(t.Context(), r.far)
		require.NoError(t, err)
		return r.net.Now() > 100*time.Millisecond
	})
}

// TestInfoIsChecked: a single changed bit is found.
func TestInfoIsChecked(t *testing.T) {
	n := sim.NewNetwork(1, sim.Faults{Manual: true})
	a, b := newNode(t, n, "a", 8), newNode(t, n, "b", 8)
	good := b.newQP(t, 1, false).Info()
	for bit := range 8 * len(good) {
		info := bytes.Clone(good)
		info[bit/8] ^= 1 << (bit % 8)
		require.ErrorIs(t, a.newQP(t, 1, false).Connect(t.Context(), info, true), fabric.ErrPeer, "bit %d", bit)
	}
	elsewhere := newNode(t, sim.NewNetwork(2, sim.Faults{Manual: true}), "b", 8).newQP(t, 1, false).Info()
	require.ErrorIs(t, a.newQP(t, 1, false).Connect(t.Context(), elsewhere, true), fabric.ErrPeer)
}

// TestEarlierComesFirst: what is due soon is done soon, though something far off was due before.
func TestEarlierComesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := sim.NewNetwork(1, sim.Faults{RetryTime: time.Hour})
		a, b := newNode(t, n, "a", 8), newNode(t, n, "b", 8)
		x, y := a.newQP(t, 1, false), b.newQP(t, 1, false)
		join(t, x, y)
		y.Break()
		post(t, x, imm(1))
		synctest.Wait() // the network's goroutine waits for an hour
		start := time.Now()
		u, v := a.newQP(t, 1, false), b.newQP(t, 1, false)
		join(t, u, v)
		b.entries(t, 1)
		require.NoError(t, b.cq.Arm())
		post(t, u, imm(2))
		require.NoError(t, b.cq.Wait())
		require.Zero(t, time.Since(start))
		require.Len(t, b.poll(t), 1)
		for _, qp := range []fabric.QP{x, y, u, v} {
			require.NoError(t, qp.Close())
		}
	})
}

// TestOverrunWakes whoever sleeps, armed or not.
func TestOverrunWakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := sim.NewNetwork(1, sim.Faults{})
		a, b := newNode(t, n, "a", 8), newNode(t, n, "b", 1)
		x, y := a.newQP(t, 2, false), b.newQP(t, 2, false)
		join(t, x, y)
		b.entries(t, 2)
		done := make(chan error, 1)
		go func() { done <- b.cq.Wait() }()
		post(t, x, imm(1))
		synctest.Wait()
		require.Empty(t, done)
		post(t, x, imm(2))
		require.NoError(t, <-done)
	})
}

// TestStalls: most delays keep their bound, some are ten times as long.
func TestStalls(t *testing.T) {
	short, stalled := 0, 0
	for seed := range uint64(300) {
		r := newRig(t, seed, sim.Faults{Delay: time.Millisecond})
		post(t, r.a.qp, r.write(1, 8)) // carried and acknowledged: two delays
		settle(r.net)
		require.LessOrEqual(t, r.net.Now(), 20*time.Millisecond)
		if r.net.Now() > 2*time.Millisecond {
			stalled++
		} else {
			short++
		}
	}
	require.Greater(t, stalled, 5)
	require.Greater(t, short, 200)
}

// TestAddressesAreApart: exposed memory of one region never has the address of another's.
func TestAddressesAreApart(t *testing.T) {
	r := newRig(t, 1, sim.Faults{})
	end := r.far.Addr + uint64(r.far.Len)
	for _, size := range []int{1, 4096, 4097, 1} {
		mem, err := r.b.dev.NewRegion(size)
		require.NoError(t, err)
		m, err := r.b.qp.Expose(mem, 0, size, fabric.RemoteWrite)
		require.NoError(t, err)
		require.GreaterOrEqual(t, m.Addr, end+1)
		end = m.Addr + uint64(m.Len)
	}
}

// TestLimitEventsPushOthersOut of a full buffer, never each other.
func TestLimitEventsPushOthersOut(t *testing.T) {
	n := sim.NewNetwork(1, sim.Faults{Manual: true})
	a, b := newNode(t, n, "a", 1024), newNode(t, n, "b", 1024)
	a.qp, b.qp = a.newQP(t, 16, false), b.newQP(t, 16, false)
	join(t, a.qp, b.qp)
	limit := func() {
		b.entries(t, 1)
		require.NoError(t, b.srq.ArmLimit(1))
		post(t, a.qp, imm(1))
		settle(n)
		a.poll(t)
		b.poll(t)
	}
	for range 10 {
		limit()
	}
	for range 300 {
		x, y := a.newQP(t, 1, false), b.newQP(t, 1, false)
		join(t, x, y)
		post(t, x, fabric.SendWR{Op: fabric.OpWrite, Local: a.mem.Bytes(), Key: a.mem.LocalKey(), Remote: 1, RKey: 1})
		settle(n)
		require.NoError(t, x.Close())
		require.NoError(t, y.Close())
		a.poll(t)
	}
	for range 5 {
		limit()
	}
	count := map[fabric.EventKind]int{}
	for e, ok := b.event(); ok; e, ok = b.event() {
		count[e.Kind]++
	}
	require.Equal(t, map[fabric.EventKind]int{fabric.EventSRQLimit: 15, fabric.EventQPFatal: 256 - 15}, count)
	for range 300 { // more than the buffer holds: whoever reads learns of it
		limit()
	}
	for e, ok := b.event(); ok; e, ok = b.event() {
		require.Equal(t, fabric.EventSRQLimit, e.Kind)
	}
}
