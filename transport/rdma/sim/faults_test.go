package sim_test

import (
	"bytes"
	"context"
	"strings"
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

func TestEarlyWakes(t *testing.T) {
	r := newRig(t, 1, sim.Faults{EarlyWakes: 0.5})
	early := 0
	for range 100 {
		if r.a.cq.Wait() == nil {
			early++
		}
	}
	require.Greater(t, early, 20)
	require.Less(t, early, 80)
	require.EqualValues(t, early, r.net.Counters().EarlyWakes)
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

func TestDelay(t *testing.T) {
	r := newRig(t, 3, sim.Faults{Delay: time.Millisecond})
	r.b.entries(t, 1)
	post(t, r.a.qp, imm(1))
	settle(r.net)
	require.Positive(t, r.net.Now())
	require.LessOrEqual(t, r.net.Now(), 20*time.Millisecond)
}

func TestRetryTime(t *testing.T) {
	r := newRig(t, 3, sim.Faults{RetryTime: time.Second})
	r.b.entries(t, 1)
	r.b.qp.Break()
	post(t, r.a.qp, imm(1), imm(2))
	settle(r.net)
	require.Equal(t, "1:retry exceeded 2:flushed ", statuses(r.a.poll(t)))
	require.Equal(t, time.Second, r.net.Now())
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

// TestKill: a killed device shows nothing, not even flushes, and takes nothing.
func TestKill(t *testing.T) {
	r := newRig(t, 1, sim.Faults{})
	r.b.entries(t, 8)
	post(t, r.a.qp, imm(1), imm(2))
	r.a.dev.Kill()
	settle(r.net)
	require.Empty(t, r.a.poll(t))
	require.Empty(t, r.b.poll(t))
	_, err := r.a.qp.Post([]fabric.SendWR{imm(3)})
	require.ErrorIs(t, err, fabric.ErrBroken)
	_, err = r.a.dev.NewRegion(1)
	require.ErrorIs(t, err, fabric.ErrUnavailable)
	closeAll(t, r)
}

func closeAll(t *testing.T, r *rig) {
	t.Helper()
	for _, x := range []*node{r.a, r.b} {
		require.NoError(t, x.qp.Close())
		require.NoError(t, x.srq.Close())
		require.NoError(t, x.cq.Close())
		require.NoError(t, x.mem.Close())
		require.NoError(t, x.dev.Close())
	}
}

func TestFail(t *testing.T) {
	for _, kind := range []fabric.EventKind{fabric.EventPortDown, fabric.EventDeviceFatal} {
		r := newRig(t, 1, sim.Faults{})
		post(t, r.a.qp, imm(1))
		r.a.dev.Fail(kind)
		e, ok := r.a.event()
		require.True(t, ok)
		require.Equal(t, kind, e.Kind)
		settle(r.net)
		require.Equal(t, "1:flushed ", statuses(r.a.poll(t)))
		closeAll(t, r)
	}
}

// TestBreaks: planted breaks strike at every stage, and each way of them shows: nothing landed, a part did, all did and
// the sender does not know, the receiver is the one that broke.
func TestBreaks(t *testing.T) {
	var nothing, torn, unseen, receiver, silentReceiver int
	for seed := range uint64(200) {
		r := newRig(t, seed, sim.Faults{BreakAfter: 3})
		r.b.entries(t, 10)
		for i := range r.a.mem.Bytes() {
			r.a.mem.Bytes()[i] = 0xaa
		}
		big := r.write(3, memBytes)
		big.Op = fabric.OpWriteImm
		post(t, r.a.qp, imm(1), imm(2), big, imm(4))
		settle(r.net)
		got, sent := r.b.poll(t), r.a.poll(t)
		require.Len(t, sent, 4)
		require.Equal(t, fabric.StatusFlushed, sent[3].Status)
		require.NotEqual(t, fabric.StatusOK, sent[2].Status)
		landed := bytes.Count(r.b.mem.Bytes(), []byte{0xaa})
		broken := func(x *node) bool {
			_, err := x.qp.Post([]fabric.SendWR{imm(9)})
			return err != nil
		}
		require.True(t, broken(r.a))
		switch {
		case len(got) == 3:
			require.Equal(t, memBytes, landed)
			unseen++
		case broken(r.b):
			require.Zero(t, landed)
			receiver++
		case landed == 0:
			nothing++
		default:
			require.Less(t, landed, memBytes)
			require.Len(t, got, 2)
			torn++
		}
		if sent[0].Status != fabric.StatusOK && len(got) >= 2 {
			silentReceiver++
		}
		require.EqualValues(t, 1, r.net.Counters().Breaks)
	}
	for _, n := range []int{nothing, torn, unseen, receiver, silentReceiver} {
		require.Greater(t, n, 10, "%d %d %d %d %d", nothing, torn, unseen, receiver, silentReceiver)
	}
}

func TestBreakProbability(t *testing.T) {
	count := func(p float64) (breaks uint64) {
		for seed := range uint64(300) {
			r := newRig(t, seed, sim.Faults{Breaks: p})
			r.b.entries(t, 10)
			for i := range uint64(10) {
				post(t, r.a.qp, imm(i))
			}
			settle(r.net)
			breaks += r.net.Counters().Breaks
		}
		return breaks
	}
	require.Zero(t, count(0))
	few := count(0.01)
	require.Greater(t, few, uint64(10))
	require.Less(t, few, uint64(60))
	require.EqualValues(t, 300, count(1))
}

func TestQuietBreaks(t *testing.T) {
	for _, quiet := range []bool{true, false} {
		r := newRig(t, 1, sim.Faults{BreakAfter: 1, QuietBreaks: quiet})
		r.b.entries(t, 1)
		post(t, r.a.qp, imm(1))
		settle(r.net)
		e, toA := r.a.event()
		if !toA {
			e, _ = r.b.event()
		}
		require.Equal(t, quiet, e.Kind == 0)
		if !quiet {
			require.Equal(t, fabric.EventQPFatal, e.Kind)
		}
	}
}

func TestMissedEntries(t *testing.T) {
	r := newRig(t, 1, sim.Faults{MissedEntries: 1})
	r.b.entries(t, 1)
	post(t, r.a.qp, imm(1))
	settle(r.net)
	require.Equal(t, "1:receiver not ready ", statuses(r.a.poll(t)))
	c := r.net.Counters()
	require.EqualValues(t, 1, c.MissedEntries)
	require.EqualValues(t, 1, c.RNR)

	r = newRig(t, 1, sim.Faults{MissedEntries: 0.9})
	x, y := r.a.newQP(t, 16, true), r.b.newQP(t, 16, true)
	join(t, x, y)
	r.b.entries(t, 20)
	for i := range uint64(10) {
		post(t, x, imm(i))
	}
	settle(r.net)
	require.Len(t, r.b.poll(t), 10, "with RNRRetry it is tried again")
	require.Greater(t, r.net.Counters().RNR, uint64(20))
}

func TestPurgeOnClose(t *testing.T) {
	for _, purge := range []bool{true, false} {
		r := newRig(t, 1, sim.Faults{PurgeOnClose: purge})
		r.b.entries(t, 2)
		post(t, r.a.qp, imm(1), imm(2))
		settle(r.net)
		old := r.b.qp.Num()
		require.NoError(t, r.b.qp.Close())
		r.b.qp = r.b.newQP(t, 16, false)
		require.Equal(t, purge, r.b.qp.Num() == old, "the number is used again at once")
		if purge {
			require.Empty(t, r.b.poll(t))
			require.EqualValues(t, 2, r.net.Counters().Purged)
		} else {
			require.Len(t, r.b.poll(t), 2)
		}
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

func TestControlErrors(t *testing.T) {
	n := sim.NewNetwork(1, sim.Faults{Manual: true, ControlErrors: 0.5})
	d := n.NewDevice("a")
	failed := 0
	for range 100 {
		if r, err := d.NewRegion(64); err != nil {
			require.ErrorIs(t, err, fabric.ErrUnavailable)
			failed++
		} else {
			require.NoError(t, r.Close())
		}
	}
	require.Greater(t, failed, 20)
	require.Less(t, failed, 80)

	// Every call that makes something can fail, and leaves nothing.
	calls := map[string]bool{}
	over(t, 2000, func(seed uint64) bool {
		n := sim.NewNetwork(seed, sim.Faults{Manual: true, MapsRemote: true, ControlErrors: 0.2})
		calls[makeAll(t, n)] = true
		return len(calls) == 8
	})
}

// makeAll makes everything and says what failed.
func makeAll(t *testing.T, n *sim.Network) string {
	d := n.NewDevice("a")
	cq, err := d.NewCQ(8)
	if err != nil {
		return "cq"
	}
	srq, err := d.NewSRQ(8)
	if err != nil {
		return "srq"
	}
	mem, err := d.NewRegion(64)
	if err != nil {
		return "region"
	}
	cfg := fabric.QPConfig{CQ: cq, SRQ: srq, SendDepth: 1}
	x, err := d.NewQP(cfg)
	if err != nil {
		return "qp"
	}
	y, err := d.NewQP(cfg)
	if err != nil {
		return "qp"
	}
	if x.Connect(t.Context(), y.Info(), true) != nil || y.Connect(t.Context(), x.Info(), false) != nil {
		return "connect"
	}
	r, err := y.Expose(mem, 0, 64, fabric.RemoteWrite)
	if err != nil {
		return "expose"
	}
	if _, err := x.Map(t.Context(), r); err != nil {
		return "map"
	}
	return ""
}

func TestRegionBytes(t *testing.T) {
	d := sim.NewNetwork(1, sim.Faults{Manual: true, RegionBytes: 10_000}).NewDevice("a")
	first, err := d.NewRegion(6000)
	require.NoError(t, err)
	_, err = d.NewRegion(6000)
	require.ErrorIs(t, err, fabric.ErrUnavailable)
	require.NoError(t, first.Close())
	_, err = d.NewRegion(6000)
	require.NoError(t, err)
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

// TestLimitEventsAreNeverLost, though nobody reads events and others fill the buffer.
func TestLimitEventsAreNeverLost(t *testing.T) {
	n := sim.NewNetwork(1, sim.Faults{Manual: true})
	a, b := newNode(t, n, "a", 1024), newNode(t, n, "b", 1024)
	fatal := func() { // an event of b's
		x, y := a.newQP(t, 1, false), b.newQP(t, 1, false)
		join(t, x, y)
		post(t, x, fabric.SendWR{Op: fabric.OpWrite, Local: a.mem.Bytes(), Key: a.mem.LocalKey(), Remote: 1, RKey: 1})
		settle(n)
		require.NoError(t, x.Close())
		require.NoError(t, y.Close())
		a.poll(t)
	}
	for range 300 {
		fatal()
	}
	a.qp, b.qp = a.newQP(t, 16, false), b.newQP(t, 16, false)
	join(t, a.qp, b.qp)
	b.entries(t, 2)
	require.NoError(t, b.srq.ArmLimit(2))
	post(t, a.qp, imm(1), imm(2))
	settle(n)
	limits := 0
	for {
		e, ok := b.event()
		if !ok {
			break
		}
		if e.Kind == fabric.EventSRQLimit {
			limits++
		}
	}
	require.Equal(t, 1, limits)
	require.EqualValues(t, 1, n.Counters().LimitEvents)
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

// TestHandshake: with it Connect waits for the peer, without it does not.
func TestHandshake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, waits := range []bool{false, true} {
			n := sim.NewNetwork(1, sim.Faults{Handshake: waits})
			a, b := newNode(t, n, "a", 8), newNode(t, n, "b", 8)
			a.qp, b.qp = a.newQP(t, 1, false), b.newQP(t, 1, false)
			done := make(chan error, 1)
			go func() { done <- a.qp.Connect(context.Background(), b.qp.Info(), true) }()
			synctest.Wait()
			require.Equal(t, !waits, len(done) == 1)
			require.NoError(t, b.qp.Connect(context.Background(), a.qp.Info(), false))
			require.NoError(t, <-done)
		}
	})
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

func TestFaultsString(t *testing.T) {
	f := sim.Faults{Manual: true, Delay: time.Millisecond, Breaks: 0.25, BreakAfter: 7}
	require.Equal(t, "sim.Faults{Manual: true, Delay: 1000000, Breaks: 0.25, BreakAfter: 7}", f.String())
	require.Equal(t, "sim.Faults{}", sim.Faults{}.String())
	seen := make(map[string]bool)
	for seed := range uint64(200) {
		require.Equal(t, sim.RandomFaults(seed), sim.RandomFaults(seed))
		text := sim.RandomFaults(seed).String()
		for _, field := range []string{"MapsRemote", "Handshake", "NoReads", "NoInline", "Delay", "RetryTime", "EarlyWakes", "Breaks", "BreakAfter", "QuietBreaks", "PurgeOnClose"} {
			if strings.Contains(text, field+":") {
				seen[field] = true
			}
		}
	}
	require.Len(t, seen, 11)
	for _, bad := range []sim.Faults{{Breaks: 2}, {EarlyWakes: 1}, {Delay: -1}, {BreakAfter: -1}, {ControlErrors: -0.1}} {
		require.Panics(t, func() { sim.NewNetwork(1, bad) })
	}
	require.Panics(t, func() { sim.NewNetwork(1, sim.Faults{}).Step() })
}
