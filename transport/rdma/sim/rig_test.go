package sim_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/transport/rdma/fabric"
	"github.com/bornode/bornode/transport/rdma/sim"
)

// node is a device with its queues and memory; rig is two of them with one connection.
type node struct {
	dev *sim.Device
	cq  fabric.CQ
	srq fabric.SRQ
	mem fabric.Region
	qp  fabric.QP
}

type rig struct {
	net  *sim.Network
	a, b *node
	far  fabric.Remote // b's memory, for a
}

const memBytes = 4096

func newNode(t testing.TB, n *sim.Network, name string, cqDepth int) *node {
	t.Helper()
	x := &node{dev: n.NewDevice(name)}
	var err error
	x.cq, err = x.dev.NewCQ(cqDepth)
	require.NoError(t, err)
	x.srq, err = x.dev.NewSRQ(64)
	require.NoError(t, err)
	x.mem, err = x.dev.NewRegion(memBytes)
	require.NoError(t, err)
	return x
}

func (x *node) newQP(t testing.TB, depth int, retry bool) fabric.QP {
	t.Helper()
	qp, err := x.dev.NewQP(fabric.QPConfig{CQ: x.cq, SRQ: x.srq, SendDepth: depth, RNRRetry: retry})
	require.NoError(t, err)
	return qp
}

func join(t testing.TB, x, y fabric.QP) {
	t.Helper()
	require.NoError(t, x.Connect(context.Background(), y.Info(), true))
	require.NoError(t, y.Connect(context.Background(), x.Info(), false))
}

// newRig makes a Manual network with one connection.
func newRig(t testing.TB, seed uint64, f sim.Faults) *rig {
	t.Helper()
	f.Manual = true
	n := sim.NewNetwork(seed, f)
	r := &rig{net: n, a: newNode(t, n, "a", 1024), b: newNode(t, n, "b", 1024)}
	r.connect(t)
	return r
}

func (r *rig) connect(t testing.TB) {
	t.Helper()
	r.a.qp, r.b.qp = r.a.newQP(t, 16, false), r.b.newQP(t, 16, false)
	join(t, r.a.qp, r.b.qp)
	var err error
	r.far, err = r.b.qp.Expose(r.b.mem, 0, memBytes, fabric.RemoteWrite|fabric.RemoteRead)
	require.NoError(t, err)
}

func (x *node) entries(t testing.TB, n int) {
	t.Helper()
	wrs := make([]fabric.RecvWR, n)
	for i := range wrs {
		wrs[i].ID = recvBit | uint64(i)
	}
	took, err := x.srq.Post(wrs)
	require.NoError(t, err)
	require.Equal(t, n, took)
}

const recvBit = uint64(1) << 63

func imm(id uint64) fabric.SendWR {
	return fabric.SendWR{ID: id, Op: fabric.OpWriteImm, Imm: uint32(id), Signaled: true}
}

// write is a WRITE of the first n bytes of a's memory to the same place at b.
func (r *rig) write(id uint64, n int) fabric.SendWR {
	return fabric.SendWR{ID: id, Op: fabric.OpWrite, Local: r.a.mem.Bytes()[:n], Key: r.a.mem.LocalKey(), Remote: r.far.Addr, RKey: r.far.Key, Signaled: true}
}

func post(t testing.TB, qp fabric.QP, wrs ...fabric.SendWR) {
	t.Helper()
	n, err := qp.Post(wrs)
	require.NoError(t, err)
	require.Equal(t, len(wrs), n)
}

// settle steps until nothing is under way.
func settle(n *sim.Network) {
	for n.Step() {
	}
}

func (x *node) poll(t testing.TB) []fabric.Completion {
	t.Helper()
	out := make([]fabric.Completion, 1024)
	n, err := x.cq.Poll(out)
	require.NoError(t, err)
	return out[:n]
}

func statuses(list []fabric.Completion) string {
	text := ""
	for _, c := range list {
		text += fmt.Sprintf("%d:%s ", c.ID, c.Status)
	}
	return text
}

func (x *node) event() (fabric.Event, bool) {
	select {
	case e := <-x.dev.Events():
		return e, true
	default:
		return fabric.Event{}, false
	}
}

// over runs a test for seeds until it says that it saw what it waits for; every seed must hold, one must show it.
func over(t *testing.T, seeds int, try func(seed uint64) bool) {
	t.Helper()
	for seed := range uint64(seeds) {
		if try(seed) {
			return
		}
	}
	require.Fail(t, "no seed shows it")
}
