//go:build rdmalab && linux && cgo

package verbs

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/bornode/bornode/transport/rdma/fabric"
	"github.com/bornode/bornode/transport/rdma/fabrictest"
)

func newDeviceRig(t testing.TB, change func(*Config)) *rig {
	t.Helper()
	d := open(t, change)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return newRig(t, d)
}

// TestSendQueueIsCounted: a slot is free when a completion at or behind it was polled, not when the driver would take
// another request (software RoCE takes more than it was asked for, and forgets unsignalled ones).
func TestSendQueueIsCounted(t *testing.T) {
	r := newDeviceRig(t, nil)
	var wrs []fabric.SendWR
	for i := range 3 * rigDepth {
		wrs = append(wrs, r.write(uint64(i), 8, i == rigDepth-1 || i == 2*rigDepth-1))
	}
	n, err := r.x.Post(wrs)
	require.ErrorIs(t, err, fabric.ErrFull)
	require.Equal(t, rigDepth, n)
	n, err = r.x.Post(wrs[n:])
	require.ErrorIs(t, err, fabric.ErrFull)
	require.Zero(t, n)
	_, err = r.x.Expose(r.source, 0, 64, fabric.RemoteWrite) // has a place of its own, and takes none of the caller's
	require.NoError(t, err)
	require.EqualValues(t, rigDepth-1, take(t, r.cq[0], 1)[0].ID)
	n, err = r.x.Post(wrs[rigDepth:])
	require.ErrorIs(t, err, fabric.ErrFull)
	require.Equal(t, rigDepth, n)
	require.EqualValues(t, 2*rigDepth-1, take(t, r.cq[0], 1)[0].ID)
	n, err = r.x.Post(wrs[2*rigDepth:])
	require.NoError(t, err)
	require.Equal(t, rigDepth, n)
	n, err = r.x.Post(wrs[:1])
	require.ErrorIs(t, err, fabric.ErrFull, "unsignalled ones never come back by themselves")
	require.Zero(t, n)
}

// TestRequestsAreChecked: what is no request is refused, after what comes before it was taken.
func TestRequestsAreChecked(t *testing.T) {
	r := newDeviceRig(t, nil)
	long := make([]byte, r.dev.Caps().MaxInline+1)
	for name, bad := range map[string]fabric.SendWR{
		"opcode of a completion": {Op: fabric.OpRecvImm},
		"no opcode":              {},
		"long SEND":              {Op: fabric.OpSend, Local: r.source.Bytes()[:fabric.MaxSendBytes+1], Key: r.source.LocalKey()},
		"long inline data":       {Op: fabric.OpWrite, Local: long, Inline: true, Remote: r.remote.Addr, RKey: r.remote.Key},
		"inline READ":            {Op: fabric.OpRead, Local: long[:8], Inline: true},
	} {
		n, err := r.x.Post([]fabric.SendWR{r.write(7, 8, true), bad, r.write(8, 8, true)})
		require.Error(t, err, name)
		require.Equal(t, 1, n, name)
		require.EqualValues(t, 7, take(t, r.cq[0], 1)[0].ID)
	}
}

// TestExposeWhileOthersPoll: windows are bound while other goroutines poll, post and sleep; no completion of a bind
// reaches them, and none of theirs is lost.
func TestExposeWhileOthersPoll(t *testing.T) {
	r := newDeviceRig(t, nil)
	const writes = 400
	var stop atomic.Bool
	var wg sync.WaitGroup
	for i := range 2 {
		wg.Go(func() { // keeps the completion queue of side 1 busy, or asleep in Wait
			out := make([]fabric.Completion, 4)
			for !stop.Load() {
				if n, err := r.cq[1].Poll(out); n != 0 || err != nil {
					t.Errorf("polled %v, %v", out[:n], err)
				}
				if i == 0 {
					_ = r.cq[1].Arm()
				}
			}
		})
	}
	posted := make(chan error, 1)
	go func() { posted <- r.postAll(writes) }()
	for round := range 4 {
		_, y := r.pair(t)
		for i := range fabric.MaxExposed {
			remote, err := y.Expose(r.target, 4096*i, 4096, fabric.RemoteWrite|fabric.RemoteRead)
			require.NoError(t, err, "round %d", round)
			require.EqualValues(t, 4096, remote.Len)
		}
		require.NoError(t, y.Close())
	}
	got := take(t, r.cq[0], writes)
	require.NoError(t, <-posted)
	stop.Store(true)
	wg.Wait()
	for i, c := range got {
		require.Equal(t, fabric.StatusOK, c.Status)
		require.EqualValues(t, i, c.ID)
	}
	// The first ends of the pairs are open: no test of them.
	for _, q := range r.dev.open() {
		if q != r.x && q != r.y {
			require.NoError(t, q.Close())
		}
	}
}

func (r *rig) postAll(n int) error {
	for i := 0; i < n; {
		k, err := r.x.Post([]fabric.SendWR{r.write(uint64(i), 8, true)})
		if i += k; err != nil && !errors.Is(err, fabric.ErrFull) {
			return fmt.Errorf("write %d: %w", i, err)
		}
	}
	return nil
}

// open lists the open queue pairs.
func (d *device) open() []*qp {
	d.mu.Lock()
	defer d.mu.Unlock()
	var list []*qp
	for _, q := range d.byNumber {
		list = append(list, q)
	}
	return list
}

// TestLateFollower: a leader whose peer is not ready when its retries are used up tries again until it is.
func TestLateFollower(t *testing.T) {
	core, logs := observer.New(zap.DebugLevel)
	d := openLogged(t, func(c *Config) { c.Timeout, c.Retry = 10, 1 }, zap.New(core))
	defer func() { require.NoError(t, d.Close()) }()
	r := newRig(t, d)
	defer r.close(t)
	x, y := r.unconnected(t, 0), r.unconnected(t, 1)
	led := make(chan error, 1)
	go func() { led <- x.Connect(patient(t), y.Info(), true) }()
	require.Eventually(t, func() bool { return logs.FilterMessage(retrying).Len() >= 2 }, fabrictest.Patience, time.Millisecond)
	require.NoError(t, y.Connect(patient(t), x.Info(), false))
	require.NoError(t, <-led)
	for i, q := range []*qp{x, y} { // both numbers of packets are right
		_, err := r.srq[1-i].Post([]fabric.RecvWR{{ID: 5}})
		require.NoError(t, err)
		_, err = q.Post([]fabric.SendWR{{ID: 6, Op: fabric.OpWriteImm, Imm: 7, Signaled: true}})
		require.NoError(t, err)
		require.Equal(t, fabric.Completion{ID: 6, QP: q.Num(), Op: fabric.OpWriteImm, Bytes: 0}, take(t, r.cq[i], 1)[0])
		require.EqualValues(t, 7, take(t, r.cq[1-i], 1)[0].Imm)
	}
	require.NoError(t, errors.Join(x.Close(), y.Close()))
}

// TestFollowerWaitsForItsSecret: a wrong number at the meeting place is none.
func TestFollowerWaitsForItsSecret(t *testing.T) {
	r := newDeviceRig(t, nil)
	x, y := r.unconnected(t, 0), r.unconnected(t, 1)
	info := y.Info()
	lie := append([]byte(nil), info...)
	binary.LittleEndian.PutUint64(lie[40:], 0x1234567812345678)
	ctx, cancel := context.WithCancel(t.Context())
	followed := make(chan error, 1)
	go func() { followed <- y.Connect(ctx, x.Info(), false) }()
	require.NoError(t, x.Connect(patient(t), lie, true), "the write itself is fine")
	for range 5 { // time in which a follower that is content with any number would go on
		a, b := r.pair(t)
		require.NoError(t, errors.Join(a.Close(), b.Close()))
	}
	select {
	case err := <-followed:
		require.FailNow(t, "it did not wait", "%v", err)
	default:
	}
	cancel()
	require.ErrorIs(t, <-followed, context.Canceled)
	_, err := y.Post([]fabric.SendWR{r.write(1, 8, true)})
	require.ErrorIs(t, err, fabric.ErrBroken)
	require.NoError(t, errors.Join(x.Close(), y.Close()))
}

// TestMeetingPlaceIsClosed: after Connect nobody can write to the meeting place, though it knows the key.
func TestMeetingPlaceIsClosed(t *testing.T) {
	r := newDeviceRig(t, nil)
	x, y := r.unconnected(t, 0), r.unconnected(t, 1)
	told, err := decodeInfo(y.Info())
	require.NoError(t, err)
	require.NoError(t, connect(patient(t), x, y))
	wr := r.write(1, 8, true)
	wr.Remote, wr.RKey = told.meet, told.key
	_, err = r.x.Post([]fabric.SendWR{wr})
	require.NoError(t, err)
	require.Equal(t, fabric.StatusRemoteAccess, take(t, r.cq[0], 1)[0].Status)
	require.NoError(t, errors.Join(x.Close(), y.Close()))
}

// TestCloseLeavesCompletions: closing a queue pair leaves the completion of every request in the completion queue, in
// order and under the caller's numbers, and all receive entries are accounted for.
func TestCloseLeavesCompletions(t *testing.T) {
	r := newDeviceRig(t, nil)
	for round := range 10 {
		x, y := r.pair(t)
		var wrs []fabric.SendWR
		for i := range rigDepth { // wait for entries that never come: rnr is endless only with RNRRetry, so some fail
			wrs = append(wrs, fabric.SendWR{ID: ^uint64(i), Op: fabric.OpWriteImm, Signaled: i%2 == 0})
		}
		n, err := x.Post(wrs)
		require.NoError(t, err)
		require.Equal(t, len(wrs), n)
		require.NoError(t, x.Close())
		require.NoError(t, y.Close())
		out := make([]fabric.Completion, 2*rigDepth)
		n, err = r.cq[0].Poll(out)
		require.NoError(t, err)
		require.Equal(t, rigDepth, n, "round %d", round)
		for i, c := range out[:n] {
			require.Equal(t, ^uint64(i), c.ID)
			require.Equal(t, x.Num(), c.QP)
			require.NotEqual(t, fabric.StatusOK, c.Status)
		}
	}
	// The receive queue takes exactly what it is for.
	entries := make([]fabric.RecvWR, 100)
	n, err := r.srq[1].Post(entries)
	require.ErrorIs(t, err, fabric.ErrFull)
	require.Equal(t, 64, n)
}

// TestGenerations: queue pairs that follow each other in one place of the table have different numbers, so that late
// completions of one are not taken for another's.
func TestGenerations(t *testing.T) {
	d := open(t, nil)
	r := newRig(t, d)
	d.mu.Lock()
	d.nextIndex = 0
	d.mu.Unlock()
	seen := make(map[uint16]bool)
	for range 5 {
		q := r.unconnected(t, 0)
		require.False(t, seen[q.generation])
		seen[q.generation] = true
		index := q.index
		require.NoError(t, q.Close())
		d.mu.Lock()
		d.nextIndex = index
		d.mu.Unlock()
	}
	r.close(t)
	require.NoError(t, d.Close())
}

// TestConcurrentLives: queue pairs are made, connected, used and closed by several goroutines on the same queues.
func TestConcurrentLives(t *testing.T) {
	r := newDeviceRig(t, nil)
	rounds := 10
	if long {
		rounds = 100
	}
	ctx := patient(t)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range rounds {
				if err := r.life(ctx); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	require.Len(t, r.dev.open(), 2)
}

func (r *rig) life(ctx context.Context) (err error) {
	var ends [2]fabric.QP
	for i := range 2 {
		if ends[i], err = r.dev.NewQP(fabric.QPConfig{CQ: r.cq[i], SRQ: r.srq[i], SendDepth: 4}); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, ends[i].Close()) }()
	}
	if err := connect(ctx, ends[0], ends[1]); err != nil {
		return err
	}
	remote, err := ends[1].Expose(r.target, 64, 64, fabric.RemoteWrite)
	if err != nil {
		return err
	}
	_, err = ends[0].Post([]fabric.SendWR{{
		Op: fabric.OpWrite, Local: r.source.Bytes()[:64], Key: r.source.LocalKey(), Remote: remote.Addr, RKey: remote.Key,
	}})
	return err
}

// TestDataPathAllocatesNothing.
func TestDataPathAllocatesNothing(t *testing.T) {
	r := newDeviceRig(t, nil)
	entries := []fabric.RecvWR{{ID: 1}}
	wrs := []fabric.SendWR{r.write(1, 64, false), {ID: 2, Op: fabric.OpWriteImm, Imm: 3, Signaled: true}}
	wrs[0].Inline = true
	out := make([]fabric.Completion, 8)
	var failed error
	once := func() {
		_, e1 := r.srq[1].Post(entries)
		e2 := r.cq[1].Arm()
		_, e3 := r.x.Post(wrs)
		e4 := r.cq[1].Wait()
		failed = errors.Join(failed, e1, e2, e3, e4)
		for _, q := range r.cq {
			for n := 0; n == 0 && failed == nil; {
				n, failed = q.Poll(out)
			}
		}
	}
	once()
	require.Zero(t, testing.AllocsPerRun(200, once))
	require.NoError(t, failed)
}
