package sim_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/transport/rdma/fabric"
	"github.com/bornode/bornode/transport/rdma/sim"
)

// TestNICReadsLate: bytes are taken from local memory when the request is carried, not when it is posted.
func TestNICReadsLate(t *testing.T) {
	r := newRig(t, 1, sim.Faults{})
	copy(r.a.mem.Bytes(), "posted")
	post(t, r.a.qp, r.write(1, 6))
	copy(r.a.mem.Bytes(), "reused")
	settle(r.net)
	require.Equal(t, "reused", string(r.b.mem.Bytes()[:6]))
	inline := r.write(2, 6)
	inline.Inline = true
	post(t, r.a.qp, inline)
	copy(r.a.mem.Bytes(), "later!")
	settle(r.net)
	require.Equal(t, "reused", string(r.b.mem.Bytes()[:6]), "inline bytes are taken by Post")
}

// TestExactDepth: the send queue holds exactly what was asked for, and only polled completions free it, each with all
// that was posted before.
func TestExactDepth(t *testing.T) {
	r := newRig(t, 1, sim.Faults{})
	r.b.entries(t, 64)
	var wrs []fabric.SendWR
	for i := range uint64(20) {
		wr := imm(i)
		wr.Signaled = i == 5
		wrs = append(wrs, wr)
	}
	n, err := r.a.qp.Post(wrs)
	require.ErrorIs(t, err, fabric.ErrFull)
	require.Equal(t, 16, n)
	settle(r.net)
	n, err = r.a.qp.Post(wrs[16:])
	require.ErrorIs(t, err, fabric.ErrFull, "done, but not polled")
	require.Zero(t, n)
	require.Equal(t, "5:ok ", statuses(r.a.poll(t)))
	n, err = r.a.qp.Post(append(wrs[16:], wrs...))
	require.ErrorIs(t, err, fabric.ErrFull)
	require.Equal(t, 6, n, "the polled one and the five before it; the ten unsignalled ones behind it stay")
	settle(r.net)
	require.Empty(t, r.a.poll(t))
	n, err = r.a.qp.Post(wrs[:1])
	require.ErrorIs(t, err, fabric.ErrFull, "unsignalled requests alone never free a slot")
	require.Zero(t, n)
	require.EqualValues(t, 4, r.net.Counters().Full)
}

// TestArmIsOneShot: an armed queue gives one event for the next completion, and none for those that are there.
func TestArmIsOneShot(t *testing.T) {
	r := newRig(t, 1, sim.Faults{})
	r.b.entries(t, 10)
	post(t, r.a.qp, imm(1))
	settle(r.net)
	require.NoError(t, r.b.cq.Arm())
	require.ErrorIs(t, r.b.cq.Wait(), sim.ErrIdle, "the completion was there before: a sleeper sleeps for ever")
	post(t, r.a.qp, imm(2), imm(3))
	require.NoError(t, r.b.cq.Wait())
	settle(r.net)
	require.ErrorIs(t, r.b.cq.Wait(), sim.ErrIdle, "one event for one Arm")
	require.Len(t, r.b.poll(t), 3)
	require.EqualValues(t, 1, r.net.Counters().Wakes)
}

// TestOrder: completions of one queue pair keep their order; those of several, and the two sides of one, do not.
func TestOrder(t *testing.T) {
	var acrossPairs, acrossSides bool
	over(t, 50, func(seed uint64) bool {
		r := newRig(t, seed, sim.Faults{Delay: time.Millisecond})
		r.b.entries(t, 64)
		qps := []fabric.QP{r.a.qp}
		of := map[uint32]int{r.b.qp.Num(): 0}
		for i := range 3 {
			x, y := r.a.newQP(t, 16, false), r.b.newQP(t, 16, false)
			join(t, x, y)
			of[y.Num()] = i + 1
			qps = append(qps, x)
		}
		for i := range 10 {
			for k, qp := range qps {
				post(t, qp, imm(uint64(k*100+i)))
			}
		}
		next, last := make([]int, 4), 0
		for r.net.Step() {
			sent := r.a.poll(t)
			for _, c := range r.b.poll(t) {
				k := of[c.QP]
				require.EqualValues(t, k*100+next[k], c.Imm)
				next[k]++
				acrossPairs = acrossPairs || k < last && next[k] < next[last]
				last = k
			}
			for _, c := range sent {
				acrossSides = acrossSides || int(c.ID%100) >= next[c.ID/100] // the sender knows before the receiver
			}
		}
		require.Equal(t, []int{10, 10, 10, 10}, next)
		return acrossPairs && acrossSides
	})
}

// TestEntriesOutOfOrder: receive entries are not used in the order of posting.
func TestEntriesOutOfOrder(t *testing.T) {
	over(t, 10, func(seed uint64) bool {
		r := newRig(t, seed, sim.Faults{})
		r.b.entries(t, 10)
		for i := range uint64(10) {
			post(t, r.a.qp, imm(i))
		}
		settle(r.net)
		shuffled := false
		for i, c := range r.b.poll(t) {
			require.EqualValues(t, i, c.Imm)
			shuffled = shuffled || c.ID != recvBit|uint64(i)
		}
		return shuffled
	})
}

// TestDeadPeerIsNotNoticed: a side that only receives sees nothing when its peer breaks, closes or dies.
func TestDeadPeerIsNotNoticed(t *testing.T) {
	for _, end := range []func(r *rig){
		func(r *rig) { r.a.qp.Break() },
		func(r *rig) { require.NoError(t, r.a.qp.Close()) },
		func(r *rig) { r.a.dev.Kill() },
	} {
		r := newRig(t, 1, sim.Faults{})
		r.b.entries(t, 1)
		end(r)
		require.NoError(t, r.b.cq.Arm())
		require.ErrorIs(t, r.b.cq.Wait(), sim.ErrIdle)
		_, ok := r.b.event()
		require.False(t, ok)
		post(t, r.b.qp, imm(1))
		require.NoError(t, r.b.cq.Wait())
		require.Equal(t, "1:retry exceeded ", statuses(r.b.poll(t)))
		_, err := r.b.qp.Post([]fabric.SendWR{imm(2)})
		require.ErrorIs(t, err, fabric.ErrBroken)
	}
}

// TestCloseShowsWhatLanded: an entry that was used comes back, though its queue pair was closed before the completion
// could be seen.
func TestCloseShowsWhatLanded(t *testing.T) {
	over(t, 20, func(seed uint64) bool {
		r := newRig(t, seed, sim.Faults{Delay: time.Millisecond})
		r.b.entries(t, 1)
		post(t, r.a.qp, imm(1))
		for r.net.Counters().Immediates == 0 {
			require.True(t, r.net.Step())
		}
		before := len(r.b.poll(t))
		require.NoError(t, r.b.qp.Close())
		require.Equal(t, 1, before+len(r.b.poll(t)))
		return before == 0
	})
}

// TestOverrun: a completion too many loses the queue, its queue pairs and the device.
func TestOverrun(t *testing.T) {
	n := sim.NewNetwork(1, sim.Faults{Manual: true})
	a, b := newNode(t, n, "a", 1024), newNode(t, n, "b", 4)
	a.qp, b.qp = a.newQP(t, 16, false), b.newQP(t, 16, false)
	join(t, a.qp, b.qp)
	b.entries(t, 10)
	require.NoError(t, b.cq.Arm())
	for i := range uint64(5) {
		post(t, a.qp, imm(i))
	}
	settle(n)
	e, ok := b.event()
	require.True(t, ok)
	require.Equal(t, fabric.EventCQFatal, e.Kind)
	require.EqualValues(t, 1, n.Counters().Overruns)
	require.Len(t, b.poll(t), 4)
	_, err := b.cq.Poll(make([]fabric.Completion, 1))
	require.ErrorIs(t, err, fabric.ErrBroken)
	require.NoError(t, b.cq.Wait(), "a sleeper is woken")
	_, err = b.qp.Post([]fabric.SendWR{imm(1)})
	require.ErrorIs(t, err, fabric.ErrBroken)
	_, err = b.dev.NewCQ(1)
	require.ErrorIs(t, err, fabric.ErrUnavailable)
}

// TestRNRIsCounted, and the peer of a sender that found no entry is not broken.
func TestRNRIsCounted(t *testing.T) {
	r := newRig(t, 1, sim.Faults{})
	post(t, r.a.qp, imm(1))
	settle(r.net)
	require.Equal(t, "1:receiver not ready ", statuses(r.a.poll(t)))
	require.EqualValues(t, 1, r.net.Counters().RNR)
	post(t, r.b.qp, r.write(1, 0))
}

// TestMisuse: broken rules of the user are refused and counted.
func TestMisuse(t *testing.T) {
	r := newRig(t, 1, sim.Faults{})
	count := func() uint64 { return r.net.Counters().Misuses }
	require.Error(t, r.b.mem.Close(), "exposed")
	require.Error(t, r.b.cq.Close(), "in use")
	require.Error(t, r.b.srq.Close(), "in use")
	post(t, r.a.qp, r.write(1, 8))
	require.Error(t, r.a.mem.Close(), "a request uses it")
	settle(r.net)
	require.NoError(t, r.a.mem.Close())
	require.Error(t, r.b.dev.Close(), "forgotten parts")
	require.Error(t, r.a.qp.Connect(t.Context(), r.b.qp.Info(), true), "connected twice")
	require.EqualValues(t, 6, count())
	x, y := r.a.newQP(t, 1, false), r.a.newQP(t, 1, false)
	require.NoError(t, x.Connect(t.Context(), y.Info(), true))
	require.NoError(t, y.Connect(t.Context(), x.Info(), true))
	require.EqualValues(t, 7, count(), "both lead")
	other := r.net.NewDevice("c")
	_, err := other.NewQP(fabric.QPConfig{CQ: r.a.cq, SRQ: r.a.srq, SendDepth: 1})
	require.Error(t, err)
	_, err = x.Expose(r.b.mem, 0, 8, fabric.RemoteWrite)
	require.Error(t, err)
	require.EqualValues(t, 9, count())

	m := newRig(t, 1, sim.Faults{MapsRemote: true})
	require.NoError(t, m.b.qp.Close())
	z := m.b.newQP(t, 1, false)
	require.NoError(t, z.Connect(t.Context(), m.a.qp.Info(), true))
	_, err = z.Expose(m.b.mem, 0, memBytes, fabric.RemoteWrite)
	require.Error(t, err, "the old peer may write into it for ever")
	require.EqualValues(t, 1, m.net.Counters().Misuses)
}

// TestManualWaits: what would wait steps, and tells when nothing comes.
func TestManualWaits(t *testing.T) {
	r := newRig(t, 1, sim.Faults{MapsRemote: true, Delay: time.Second, Handshake: true})
	b, err := r.a.qp.Map(t.Context(), r.far)
	require.NoError(t, err)
	require.Len(t, b, memBytes)
	_, err = r.a.qp.Map(t.Context(), fabric.Remote{Key: 1, Len: 8})
	require.ErrorIs(t, err, sim.ErrIdle)
	require.ErrorIs(t, r.a.cq.Wait(), sim.ErrIdle)
}

// TestPostBeforePeerConnects: a request waits for the peer's Connect, as a NIC tries again.
func TestPostBeforePeerConnects(t *testing.T) {
	n := sim.NewNetwork(1, sim.Faults{Manual: true})
	a, b := newNode(t, n, "a", 8), newNode(t, n, "b", 8)
	a.qp, b.qp = a.newQP(t, 1, false), b.newQP(t, 1, false)
	b.entries(t, 1)
	require.NoError(t, a.qp.Connect(t.Context(), b.qp.Info(), true))
	post(t, a.qp, imm(1))
	settle(n)
	require.Empty(t, b.poll(t))
	require.NoError(t, b.qp.Connect(t.Context(), a.qp.Info(), false))
	settle(n)
	require.Len(t, b.poll(t), 1)
}

// TestSleeperSleeps: in a bubble nothing runs while nothing is under way.
func TestSleeperSleeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := sim.NewNetwork(1, sim.Faults{Delay: time.Millisecond})
		a, b := newNode(t, n, "a", 8), newNode(t, n, "b", 8)
		a.qp, b.qp = a.newQP(t, 1, false), b.newQP(t, 1, false)
		join(t, a.qp, b.qp)
		b.entries(t, 1)
		require.NoError(t, b.cq.Arm())
		done := make(chan error, 1)
		go func() { done <- b.cq.Wait() }()
		<-time.After(time.Hour)
		synctest.Wait()
		require.Empty(t, done)
		post(t, a.qp, imm(1))
		require.NoError(t, <-done)
		require.Len(t, b.poll(t), 1)
		require.NoError(t, a.qp.Close()) // nothing is under way any more, and the network's goroutine ends
	})
}
