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
