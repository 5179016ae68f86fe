//go:build linux

package shm

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"os"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/transport/rdma/fabric"
)

func itoa(n int) string { return strconv.Itoa(n) }

// descriptors counts the open descriptors of the process.
func descriptors(t testing.TB) int {
	list, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(list)
}

// mappings counts what is mapped of this package's memory files.
func mappings(t testing.TB) int {
	b, err := os.ReadFile("/proc/self/maps")
	require.NoError(t, err)
	return bytes.Count(b, []byte("memfd:"+memfdName))
}

// requireSettled waits until the process holds no more goroutines, descriptors and mappings than before.
func requireSettled(t testing.TB, goroutines, files, maps int) {
	deadline := time.Now().Add(patience)
	for runtime.NumGoroutine() > goroutines || descriptors(t) > files || mappings(t) > maps {
		if time.Now().After(deadline) {
			buf := make([]byte, 1<<20)
			require.FailNow(t, "something is left", "goroutines %d -> %d, descriptors %d -> %d, mappings %d -> %d\n%s",
				goroutines, runtime.NumGoroutine(), files, descriptors(t), maps, mappings(t), buf[:runtime.Stack(buf, true)])
		}
		runtime.Gosched()
	}
}

func TestConnectsLeaveNothing(t *testing.T) {
	rounds := 1000
	if raceEnabled {
		rounds = 200
	}
	files, maps := descriptors(t), mappings(t)
	goroutines := runtime.NumGoroutine()
	t.Run("rounds", func(t *testing.T) {
		a := newEnd(t, openDevice(t, testConfig()), 8, fabric.QPConfig{})
		b := newEnd(t, openDevice(t, testConfig()), 8, fabric.QPConfig{})
		region, err := b.dev.NewRegion(4096)
		require.NoError(t, err)
		defer region.Close()
		innerFiles, innerMaps, innerGoroutines := descriptors(t), mappings(t), runtime.NumGoroutine()
		for i := range rounds {
			x, y := a.quickQP(), b.quickQP()
			a.qp, b.qp = x, y
			connect(t, x, y)
			r, err := y.Expose(region, 0, 4096, fabric.RemoteWrite)
			require.NoError(t, err)
			_, err = x.Map(context.Background(), r)
			require.NoError(t, err)
			a.post(fabric.SendWR{Op: fabric.OpWriteImm, Imm: uint32(i)})
			c := b.await(1)[0]
			require.Equal(t, uint32(i), c.Imm)
			b.give(int(c.ID), 1)
			switch i % 4 {
			case 0:
				x.Break()
			case 1:
				y.Break()
			case 2:
				require.NoError(t, y.Close())
			}
			require.NoError(t, x.Close())
			require.NoError(t, y.Close())
		}
		requireSettled(t, innerGoroutines, innerFiles, innerMaps)
	})
	requireSettled(t, goroutines, files, maps)
}

func (e *end) quickQP() *QP {
	qp, err := e.dev.NewQP(fabric.QPConfig{CQ: e.cq, SRQ: e.srq, SendDepth: 64})
	require.NoError(e.t, err)
	return qp.(*QP)
}

// TestHalfConnects: handshakes that fail at every point leave nothing.
func TestHalfConnects(t *testing.T) {
	goroutines, files, maps := runtime.NumGoroutine(), descriptors(t), mappings(t)
	t.Run("rounds", func(t *testing.T) {
		a := newEnd(t, openDevice(t, testConfig()), 8, fabric.QPConfig{})
		b := newEnd(t, openDevice(t, testConfig()), 8, fabric.QPConfig{})
		for i := range 100 {
			x, y := a.quickQP(), b.quickQP()
			ctx, cancel := context.WithCancel(context.Background())
			done := make(chan error, 2)
			go func() { done <- x.Connect(ctx, y.Info(), true) }()
			if i%2 == 0 {
				go func() { done <- y.Connect(ctx, x.Info(), i%3 != 0) }() // now and then both lead
			} else {
				done <- nil // y never comes, and has the parked handshake closed
			}
			for range i % 7 {
				runtime.Gosched()
			}
			if i%5 != 4 {
				cancel()
			} else {
				x.Break()
				require.NoError(t, y.Close())
			}
			<-done
			<-done
			cancel()
			require.NoError(t, x.Close())
			require.NoError(t, y.Close())
		}
	})
	requireSettled(t, goroutines, files, maps)
}

// TestIdleDeviceSleeps: while others work, a device with 20 connected queue pairs is woken by nobody.
func TestIdleDeviceSleeps(t *testing.T) {
	_, idle := fan(t, 20)
	var returned atomic.Int64
	done := make(chan struct{})
	go func() { // as the poller of a device does
		defer close(done)
		out := make([]fabric.Completion, 32)
		for {
			for {
				if n, err := idle.cq.Poll(out); n == 0 || err != nil {
					break
				}
			}
			if idle.cq.Arm() != nil {
				return
			}
			if n, _ := idle.cq.Poll(out); n != 0 {
				continue
			}
			if idle.cq.Wait() != nil {
				return
			}
			returned.Add(1)
		}
	}()
	require.Eventually(t, func() bool { return idle.cq.armed.Load() != 0 }, patience, time.Millisecond)
	before, wakes := returned.Load(), idle.dev.Stats().Wakes
	x, y := pair(t, 64, fabric.QPConfig{})
	echoed := make(chan struct{})
	const rounds = 5000
	go func() {
		defer close(echoed)
		for range rounds {
			if _, ok := y.hear(true); ok {
				y.qp.Post(ping)
			}
		}
	}()
	for range rounds {
		x.post(ping...)
		_, ok := x.hear(true)
		require.True(t, ok)
	}
	<-echoed
	require.NotZero(t, x.dev.Stats().Wakes)
	require.LessOrEqual(t, returned.Load()-before, int64(1), "at most the one that was under way")
	require.Equal(t, wakes, idle.dev.Stats().Wakes)
	require.NoError(t, idle.cq.Close())
	<-done
}

// TestAwakePeersAreNotSignalled: no system call is spent on a peer that polls, and one on each sleep of one that does
// not.
func TestAwakePeersAreNotSignalled(t *testing.T) {
	a, b := pair(t, 64, fabric.QPConfig{})
	out := make([]fabric.Completion, 32)
	for range 1000 {
		a.post(ping...)
		n, err := b.cq.Poll(out)
		require.NoError(t, err)
		require.Equal(t, 1, n)
		b.give(0, 1)
		a.await(1)
	}
	require.Zero(t, b.dev.Stats().Wakes)
	for i := range uint64(50) {
		require.NoError(t, b.cq.Arm())
		a.post(ping...)
		a.post(ping...)
		a.post(ping...)
		require.NoError(t, b.cq.Wait())
		b.await(3)
		b.give(0, 3)
		a.await(3)
		require.Equal(t, i+1, b.dev.Stats().Wakes)
	}
}

// TestSendsWaitForASlowReceiver: with the ring nearly full completions wait until the receiver polls, which wakes a
// sender that sleeps; nothing is lost and the ring never overflows.
func TestSendsWaitForASlowReceiver(t *testing.T) {
	a, b := pair(t, 2048, fabric.QPConfig{SendDepth: 32})
	sent, full := uint32(0), false
	post := func() {
		for !full {
			n, err := a.qp.Post([]fabric.SendWR{{ID: uint64(sent), Op: fabric.OpWriteImm, Imm: sent, Signaled: true}})
			sent += uint32(n)
			if full = err != nil; full {
				require.ErrorIs(t, err, fabric.ErrFull)
			}
		}
	}
	var out [64]fabric.Completion
	done := uint64(0)
	drain := func() int {
		n, err := a.cq.Poll(out[:])
		require.NoError(t, err)
		for _, c := range out[:n] {
			require.Equal(t, done, c.ID)
			require.Equal(t, fabric.StatusOK, c.Status)
			done++
			full = false
		}
		return n
	}
	for {
		post()
		if drain() == 0 {
			break
		}
	}
	require.EqualValues(t, minRingDepth, sent)
	require.NoError(t, a.cq.Arm())
	require.Zero(t, drain())
	woken := make(chan error, 1)
	go func() { woken <- a.cq.Wait() }()
	got := uint32(0)
	for got < sent {
		n, err := b.cq.Poll(out[:])
		require.NoError(t, err)
		for _, c := range out[:n] {
			require.Equal(t, got, c.Imm)
			got++
		}
	}
	select {
	case err := <-woken:
		require.NoError(t, err)
	case <-time.After(patience):
		require.FailNow(t, "the sender sleeps on")
	}
	require.Equal(t, 32, drain())
	require.EqualValues(t, sent, done)
	require.False(t, a.qp.deferred.Load())
	require.Zero(t, a.cq.waiting.Load())
}

// TestRaceForTheLastEntry: of two senders for one entry the receiver refuses the second, and tells it why.
func TestRaceForTheLastEntry(t *testing.T) {
	b := newEnd(t, openDevice(t, testConfig()), 1, fabric.QPConfig{})
	b2 := copyEnd(b)
	b2.newQP(fabric.QPConfig{})
	a1 := newEnd(t, openDevice(t, testConfig()), 1, fabric.QPConfig{})
	a2 := newEnd(t, openDevice(t, testConfig()), 1, fabric.QPConfig{})
	connect(t, a1.qp, b.qp)
	connect(t, a2.qp, b2.qp)
	a1.post(fabric.SendWR{ID: 1, Op: fabric.OpWriteImm, Imm: 1})
	a2.post(fabric.SendWR{ID: 2, Op: fabric.OpWriteImm, Imm: 2})
	first := b.await(1)[0]
	loser, winner, gone := a2, a1, b2.qp
	if first.Imm == 2 {
		loser, winner, gone = a1, a2, b.qp
	}
	n, err := b.cq.Poll(make([]fabric.Completion, 4))
	require.NoError(t, err)
	require.Zero(t, n)
	requireBroken(t, loser.qp, fabric.ErrBroken)
	requireBroken(t, gone, fabric.ErrBroken)
	st, _, known := loser.qp.tx.blame()
	require.True(t, known)
	require.Equal(t, fabric.StatusRNR, st)
	b.give(0, 1)
	winner.post(fabric.SendWR{Op: fabric.OpWriteImm, Imm: 3})
	require.Equal(t, uint32(3), b.await(1)[0].Imm)
}

// TestBlame: what was pending when the receiver refused a slot ends as it did: done, refused, flushed.
func TestBlame(t *testing.T) {
	a, b := pair(t, 0, fabric.QPConfig{RNRRetry: true})
	for i := range 6 {
		a.post(fabric.SendWR{ID: uint64(i), Op: fabric.OpWriteImm, Signaled: i%2 == 0})
	}
	b.give(0, 2)
	b.cq.mu.Lock()
	b.qp.rx.retry = false // as if the sender had not asked to wait
	b.cq.mu.Unlock()
	b.await(2)
	_, err := b.cq.Poll(make([]fabric.Completion, 4))
	require.NoError(t, err)
	requireBroken(t, a.qp, fabric.ErrBroken)
	want := []fabric.Completion{{ID: 0, Op: fabric.OpWriteImm}}
	for i, st := range []fabric.Status{fabric.StatusRNR, fabric.StatusFlushed, fabric.StatusFlushed, fabric.StatusFlushed} {
		want = append(want, fabric.Completion{ID: uint64(i + 2), Op: fabric.OpWriteImm, Status: st})
	}
	for i := range want {
		want[i].QP = a.qp.num
	}
	require.Equal(t, want, a.await(5))
}

// TestDeadPeer: the requests that a peer did not take before it went fail, the first with the reason; what it published
// before is still given out.
func TestDeadPeer(t *testing.T) {
	a, b := pair(t, 4, fabric.QPConfig{RNRRetry: true})
	for i := range 6 {
		a.post(fabric.SendWR{ID: uint64(i), Op: fabric.OpWriteImm, Imm: uint32(10 + i)})
	}
	b.post(fabric.SendWR{Op: fabric.OpWriteImm, Imm: 1}, fabric.SendWR{Op: fabric.OpWriteImm, Imm: 2})
	require.NoError(t, b.qp.Close())
	requireBroken(t, a.qp, fabric.ErrBroken)
	var imms []uint32
	var failed []fabric.Status
	for _, c := range a.await(4) {
		if c.Op == fabric.OpRecvImm {
			imms = append(imms, c.Imm)
		} else {
			failed = append(failed, c.Status)
		}
	}
	require.Equal(t, []uint32{1, 2}, imms)
	require.Equal(t, []fabric.Status{fabric.StatusRetryExceeded, fabric.StatusFlushed}, failed)
	ev := <-a.dev.Events()
	require.Equal(t, fabric.EventQPFatal, ev.Kind)
	require.Equal(t, a.qp.num, ev.QP)
}

func TestCompletionQueueOverruns(t *testing.T) {
	a := newEnd(t, openDevice(t, testConfig()), 8, fabric.QPConfig{})
	small, err := a.dev.NewCQ(4)
	require.NoError(t, err)
	a.cq = small.(*CQ)
	a.newQP(fabric.QPConfig{})
	other := copyEnd(a)
	other.newQP(fabric.QPConfig{})
	b := newEnd(t, openDevice(t, testConfig()), 64, fabric.QPConfig{})
	b2 := copyEnd(b)
	b2.newQP(fabric.QPConfig{})
	connect(t, a.qp, b.qp)
	connect(t, other.qp, b2.qp)
	for range 5 {
		a.qp.Post(ping)
	}
	requireBroken(t, a.qp, fabric.ErrBroken)
	requireBroken(t, other.qp, fabric.ErrBroken)
	out := make([]fabric.Completion, 8)
	n, err := a.cq.Poll(out)
	require.NoError(t, err)
	require.Equal(t, 4, n)
	_, err = a.cq.Poll(out)
	require.ErrorIs(t, err, fabric.ErrBroken)
	for ev := range a.dev.Events() {
		if ev.Kind == fabric.EventCQFatal {
			break
		}
	}
}

func TestConfig(t *testing.T) {
	require.NoError(t, DefaultConfig().Validate())
	for i, bad := range []func(c *Config){
		func(c *Config) { c.Timeout = 0 },
		func(c *Config) { c.MaxQPs = 0 },
		func(c *Config) { c.Folder = "relative" },
	} {
		cfg := DefaultConfig()
		bad(&cfg)
		require.Error(t, cfg.Validate(), fmt.Sprint(i))
		_, err := Open(cfg, nil)
		require.Error(t, err)
	}
	cfg := testConfig()
	cfg.MaxQPs = 2
	e := newEnd(t, openDevice(t, cfg), 4, fabric.QPConfig{})
	e.newQP(fabric.QPConfig{})
	_, err := e.dev.NewQP(fabric.QPConfig{CQ: e.cq, SRQ: e.srq, SendDepth: 1})
	require.ErrorIs(t, err, fabric.ErrFull)
	require.NoError(t, e.qp.Close())
	e.newQP(fabric.QPConfig{})
}

// TestDeviceClosesWhatIsLeft: a device that is closed first takes queue pairs and queues with it.
func TestDeviceClosesWhatIsLeft(t *testing.T) {
	goroutines, files, maps := runtime.NumGoroutine(), descriptors(t), mappings(t)
	t.Run("close", func(t *testing.T) {
		a, b := pair(t, 4, fabric.QPConfig{})
		waiting := make(chan error, 1)
		go func() { waiting <- a.cq.Wait() }()
		require.NoError(t, a.dev.Close())
		if err := <-waiting; err == nil { // it returned early
			require.ErrorIs(t, a.cq.Wait(), fabric.ErrClosed)
		}
		require.ErrorIs(t, a.cq.Arm(), fabric.ErrClosed)
		requireBroken(t, b.qp, fabric.ErrBroken)
		_, err := a.dev.NewRegion(1)
		require.ErrorIs(t, err, fabric.ErrClosed)
		_, err = a.dev.NewCQ(1)
		require.ErrorIs(t, err, fabric.ErrClosed)
		_, err = a.srq.Post(make([]fabric.RecvWR, 1))
		require.ErrorIs(t, err, fabric.ErrClosed)
	})
	requireSettled(t, goroutines, files, maps)
}

// TestNothingPublishedIsMissed: a sleeper gets what its peer published before it was connected here, and what a peer
// published that died before it could wake anyone.
func TestNothingPublishedIsMissed(t *testing.T) {
	e := newEnd(t, openDevice(t, testConfig()), 8, fabric.QPConfig{})
	v := newVillain(t, e)
	m, err := mapFile(v.ring, ringBytes(minRingDepth), true, false)
	require.NoError(t, err)
	defer m.close()
	tx := txRing{ring: viewRing(m, minRingDepth)}
	tx.begin(e.qp.first())
	out := make([]fabric.Completion, 4)
	for imm, then := range []func(){v.connected, func() { require.NoError(t, v.conn.Close()) }} {
		require.NoError(t, e.cq.Arm())
		n, err := e.cq.Poll(out)
		require.NoError(t, err)
		require.Zero(t, n)
		woken := make(chan error, 1)
		go func() { woken <- e.cq.Wait() }()
		tx.put(fabric.OpWriteImm, uint32(imm), 0, nil, false)
		then()
		select {
		case err := <-woken:
			require.NoError(t, err)
		case <-time.After(patience):
			require.FailNow(t, "asleep")
		}
		n, err = e.cq.Poll(out)
		require.NoError(t, err)
		require.Equal(t, 1, n)
		require.EqualValues(t, imm, out[0].Imm)
	}
}

// TestWriteBounds: a WRITE goes into a region that the peer exposed under this very key, whole, or fails.
func TestWriteBounds(t *testing.T) {
	for name, bad := range map[string]func(wr *fabric.SendWR){
		"no key":        func(wr *fabric.SendWR) { wr.RKey = 0 },
		"another key":   func(wr *fabric.SendWR) { wr.RKey += fabric.MaxExposed },
		"before":        func(wr *fabric.SendWR) { wr.Remote-- },
		"one too far":   func(wr *fabric.SendWR) { wr.Remote += 5000 - 7 },
		"at the end":    func(wr *fabric.SendWR) { wr.Remote += 5000 },
		"in the page":   func(wr *fabric.SendWR) { wr.Remote += 5001 },
		"far":           func(wr *fabric.SendWR) { wr.Remote += 1 << 31 },
		"wraps":         func(wr *fabric.SendWR) { wr.Remote = math.MaxUint64 - 3 },
		"no address":    func(wr *fabric.SendWR) { wr.Remote = 0 },
		"not local":     func(wr *fabric.SendWR) { wr.Inline = false },
		"long inline":   func(wr *fabric.SendWR) { wr.Local = make([]byte, MaxInlineBytes+1) },
		"of no kind":    func(wr *fabric.SendWR) { wr.Op = 0 },
		"kind to come":  func(wr *fabric.SendWR) { wr.Op = 77 },
		"of a receiver": func(wr *fabric.SendWR) { wr.Op = fabric.OpRecvImm },
	} {
		t.Run(name, func(t *testing.T) {
			a, b := pair(t, 8, fabric.QPConfig{})
			_, theirs, r := expose(t, a, b, 5000)
			wr := fabric.SendWR{ID: 5, Op: fabric.OpWrite, Local: []byte("12345678"), Inline: true, Remote: r.Addr, RKey: r.Key}
			at := wr
			at.Remote += 5000 - 8
			a.post(at) // to the last byte
			bad(&wr)
			n, err := a.qp.Post([]fabric.SendWR{wr, {ID: 6, Op: fabric.OpWrite}})
			require.NoError(t, err)
			require.Equal(t, 2, n)
			want := fabric.StatusRemoteAccess
			if !wr.Inline || wr.Op != fabric.OpWrite || len(wr.Local) > 8 {
				want = fabric.StatusLocal
			}
			failed := a.await(2)
			require.Equal(t, want, failed[0].Status)
			require.EqualValues(t, 5, failed[0].ID)
			require.Equal(t, fabric.StatusFlushed, failed[1].Status)
			requireBroken(t, b.qp, fabric.ErrBroken)
			require.Equal(t, make([]byte, 5000-8), theirs.Bytes()[:5000-8])
			require.Equal(t, "12345678", string(theirs.Bytes()[5000-8:]))
		})
	}
}

// TestEntriesWakeTheStarved: a receiver without entries, for which a retrying sender waits, sleeps until it gets one.
func TestEntriesWakeTheStarved(t *testing.T) {
	a, b := pair(t, 0, fabric.QPConfig{RNRRetry: true})
	a.post(ping...)
	require.NoError(t, b.cq.Arm())
	out := make([]fabric.Completion, 4)
	n, err := b.cq.Poll(out)
	require.NoError(t, err)
	require.Zero(t, n)
	woken := make(chan error, 1)
	go func() { woken <- b.cq.Wait() }()
	b.give(0, 1)
	select {
	case err := <-woken:
		require.NoError(t, err)
	case <-time.After(patience):
		require.FailNow(t, "asleep")
	}
	require.Equal(t, fabric.OpRecvImm, b.await(1)[0].Op)
}

// TestArmedAgain: an event of an earlier Arm does not disarm the queue that was armed since.
func TestArmedAgain(t *testing.T) {
	a, b := pair(t, 8, fabric.QPConfig{})
	require.NoError(t, b.cq.Arm())
	old := b.cq.epoch.Load()
	require.NoError(t, b.cq.Arm())
	b.cq.event <- old
	require.NoError(t, b.cq.Wait())
	require.NotZero(t, b.cq.armed.Load())
	a.post(ping...)
	require.NoError(t, b.cq.Wait())
	require.Zero(t, b.cq.armed.Load(), "awake")
	b.await(1)
}
