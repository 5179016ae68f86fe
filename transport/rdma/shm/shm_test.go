//go:build linux

package shm

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"github.com/bornode/bornode/transport/rdma/fabric"
)

// patience is how long a test waits for what must happen: machines are loaded.
const patience = 60 * time.Second

// end is one side of a queue pair with its own queues.
type end struct {
	t    testing.TB
	dev  *Device
	cq   *CQ
	srq  *SRQ
	land *Region
	qp   *QP
}

func testConfig() Config {
	c := DefaultConfig()
	c.Timeout = patience
	c.HugePages = false
	return c
}

func openDevice(t testing.TB, cfg Config) *Device {
	d, err := Open(cfg, zaptest.NewLogger(t, zaptest.Level(zap.WarnLevel)))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

// newEnd makes the queues of one side on dev, with entries receive entries.
func newEnd(t testing.TB, dev *Device, entries int, cfg fabric.QPConfig) *end {
	e := &end{t: t, dev: dev}
	cq, err := dev.NewCQ(1024)
	require.NoError(t, err)
	srq, err := dev.NewSRQ(max(entries, 16))
	require.NoError(t, err)
	land, err := dev.NewRegion(fabric.MaxSendBytes * 64)
	require.NoError(t, err)
	e.cq, e.srq, e.land = cq.(*CQ), srq.(*SRQ), land.(*Region)
	t.Cleanup(func() {
		require.NoError(t, e.srq.Close())
		require.NoError(t, e.cq.Close())
		require.NoError(t, e.land.Close())
	})
	e.give(0, entries)
	e.newQP(cfg)
	return e
}

func (e *end) newQP(cfg fabric.QPConfig) {
	cfg.CQ, cfg.SRQ = e.cq, e.srq
	if cfg.SendDepth == 0 {
		cfg.SendDepth = 64
	}
	qp, err := e.dev.NewQP(cfg)
	require.NoError(e.t, err)
	e.qp = qp.(*QP)
	e.t.Cleanup(func() { require.NoError(e.t, qp.Close()) })
}

// give posts receive entries with ids from first on.
func (e *end) give(first, n int) {
	for i := range n {
		at := (first + i) % 64 * fabric.MaxSendBytes
		took, err := e.srq.Post([]fabric.RecvWR{{
			ID: uint64(first + i), Local: e.land.Bytes()[at : at+fabric.MaxSendBytes], Key: e.land.LocalKey(),
		}})
		require.NoError(e.t, err)
		require.Equal(e.t, 1, took)
	}
}

func connect(t testing.TB, a, b *QP) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	errs := make(chan error, 1)
	go func() { errs <- b.Connect(ctx, a.Info(), false) }()
	require.NoError(t, a.Connect(ctx, b.Info(), true))
	require.NoError(t, <-errs)
}

// pair gives two connected ends, each on a device of its own.
func pair(t testing.TB, entries int, cfg fabric.QPConfig) (a, b *end) {
	a = newEnd(t, openDevice(t, testConfig()), entries, cfg)
	b = newEnd(t, openDevice(t, testConfig()), entries, cfg)
	connect(t, a.qp, b.qp)
	return a, b
}

// await sleeps and polls until n completions are there.
func (e *end) await(n int) []fabric.Completion {
	var late atomic.Bool
	timer := time.AfterFunc(patience, func() {
		late.Store(true)
		e.cq.kick()
	})
	defer timer.Stop()
	out := make([]fabric.Completion, n)
	for got := 0; got < n; {
		require.NoError(e.t, e.cq.Arm())
		k, err := e.cq.Poll(out[got:])
		require.NoError(e.t, err)
		if got += k; k == 0 {
			require.NoError(e.t, e.cq.Wait())
			require.False(e.t, late.Load(), "%d of %d completions", got, n)
		}
	}
	return out
}

func (e *end) post(wrs ...fabric.SendWR) {
	n, err := e.qp.Post(wrs)
	require.NoError(e.t, err)
	require.Equal(e.t, len(wrs), n)
}

// expose makes a region of b and maps it at a.
func expose(t testing.TB, a, b *end, size int) (mapped []byte, theirs *Region, r fabric.Remote) {
	reg, err := b.dev.NewRegion(size)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, reg.Close()) })
	r, err = b.qp.Expose(reg, 0, size, fabric.RemoteWrite)
	require.NoError(t, err)
	mapped, err = a.qp.Map(context.Background(), r)
	require.NoError(t, err)
	require.Len(t, mapped, size)
	return mapped, reg.(*Region), r
}

func TestWriteSendAndImmediate(t *testing.T) {
	a, b := pair(t, 16, fabric.QPConfig{})
	mapped, theirs, remote := expose(t, a, b, 10_000)
	copy(mapped[9_990:], "0123456789")
	require.Equal(t, "0123456789", string(theirs.Bytes()[9_990:]))

	copy(a.land.Bytes(), "hello")
	a.post(
		fabric.SendWR{ID: 1, Op: fabric.OpWrite, Local: a.land.Bytes()[:5], Key: a.land.LocalKey(), Remote: remote.Addr + 100, RKey: remote.Key},
		fabric.SendWR{ID: 2, Op: fabric.OpWriteImm, Local: []byte("inline"), Inline: true, Remote: remote.Addr + 200, RKey: remote.Key, Imm: 0xdeadbeef},
		fabric.SendWR{ID: 3, Op: fabric.OpSend, Local: []byte("sent"), Inline: true, Signaled: true},
		fabric.SendWR{ID: 4, Op: fabric.OpWriteImm, Imm: 7, Signaled: true},
	)
	require.Equal(t, []fabric.Completion{
		{ID: 0, QP: b.qp.Num(), Op: fabric.OpRecvImm, Bytes: 6, Imm: 0xdeadbeef},
		{ID: 1, QP: b.qp.Num(), Op: fabric.OpRecv, Bytes: 4},
		{ID: 2, QP: b.qp.Num(), Op: fabric.OpRecvImm, Imm: 7},
	}, b.await(3))
	require.Equal(t, "hello", string(theirs.Bytes()[100:105]))
	require.Equal(t, "inline", string(theirs.Bytes()[200:206]))
	require.Equal(t, "sent", string(b.land.Bytes()[fabric.MaxSendBytes:fabric.MaxSendBytes+4]))
	require.Equal(t, []fabric.Completion{
		{ID: 3, QP: a.qp.Num(), Op: fabric.OpSend},
		{ID: 4, QP: a.qp.Num(), Op: fabric.OpWriteImm},
	}, a.await(2))

	b.post(fabric.SendWR{Op: fabric.OpWriteImm, Imm: 8})
	require.Equal(t, uint32(8), a.await(1)[0].Imm)
}
