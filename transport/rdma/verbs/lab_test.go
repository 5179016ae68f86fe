//go:build rdmalab && linux && cgo

package verbs

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"github.com/bornode/bornode/transport/rdma/fabric"
	"github.com/bornode/bornode/transport/rdma/fabrictest"
)

// The tests with the tag rdmalab need a machine with a device of its own, whose network interface they may take down:
// the guest of `make rdma-lab`.

var long = os.Getenv("BORNODE_LONG") != ""

// open opens the machine's device.
func open(t testing.TB, change func(*Config)) *device {
	t.Helper()
	return openLogged(t, change, zaptest.NewLogger(t))
}

func openLogged(t testing.TB, change func(*Config), log *zap.Logger) *device {
	t.Helper()
	d, err := Open(with(change), log)
	require.NoError(t, err)
	return d.(*device)
}

func patient(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), fabrictest.Patience)
	t.Cleanup(cancel)
	return ctx
}

func TestFabric(t *testing.T) {
	fabrictest.Run(t, fabrictest.Harness{
		NewPair: func(t testing.TB) (a, b fabric.Device) { return open(t, nil), open(t, nil) },
		Long:    long,
	})
}

// TestFabricWithRegistrations: a device without memory windows passes all but what they are for.
func TestFabricWithRegistrations(t *testing.T) {
	h := fabrictest.Harness{NewPair: func(t testing.TB) (a, b fabric.Device) {
		d := open(t, func(c *Config) { c.Windows = false })
		require.Contains(t, d.Caps().Device, "registrations instead of memory windows")
		return d, d
	}}
	for _, c := range fabrictest.Cases() {
		switch c.Name {
		case "Connect", "WriteOrder", "Read", "StaleKey", "Expose":
			t.Run(c.Name, func(t *testing.T) { c.Run(t, h) })
		}
	}
}

// rig is two connected queue pairs of one device, with a region of y exposed to x.
type rig struct {
	dev    *device
	cq     [2]fabric.CQ
	srq    [2]fabric.SRQ
	x, y   *qp
	source fabric.Region
	target fabric.Region
	remote fabric.Remote
}

const (
	rigDepth = 16
	rigBytes = 1 << 20
)

func newRig(t testing.TB, d *device) *rig {
	t.Helper()
	r := &rig{dev: d}
	var err error
	for i := range 2 {
		r.cq[i], err = d.NewCQ(256)
		require.NoError(t, err)
		r.srq[i], err = d.NewSRQ(64)
		require.NoError(t, err)
	}
	r.x, r.y = r.pair(t)
	r.source, err = d.NewRegion(rigBytes)
	require.NoError(t, err)
	r.target, err = d.NewRegion(rigBytes)
	require.NoError(t, err)
	r.remote, err = r.y.Expose(r.target, 0, rigBytes, fabric.RemoteWrite)
	require.NoError(t, err)
	t.Cleanup(func() { r.close(t) })
	return r
}

func (r *rig) close(t testing.TB) {
	require.NoError(t, errors.Join(r.x.Close(), r.y.Close()))
	require.NoError(t, errors.Join(r.source.Close(), r.target.Close()))
	for i := range 2 {
		require.NoError(t, errors.Join(r.srq[i].Close(), r.cq[i].Close()))
	}
}

// unconnected makes a queue pair on side i.
func (r *rig) unconnected(t testing.TB, i int) *qp {
	t.Helper()
	q, err := r.dev.NewQP(fabric.QPConfig{CQ: r.cq[i], SRQ: r.srq[i], SendDepth: rigDepth})
	require.NoError(t, err)
	return q.(*qp)
}

func (r *rig) pair(t testing.TB) (x, y *qp) {
	t.Helper()
	x, y = r.unconnected(t, 0), r.unconnected(t, 1)
	require.NoError(t, connect(patient(t), x, y))
	return x, y
}

func connect(ctx context.Context, x, y fabric.QP) error {
	done := make(chan error, 1)
	go func() { done <- y.Connect(ctx, x.Info(), false) }()
	return errors.Join(x.Connect(ctx, y.Info(), true), <-done)
}

// write is a WRITE of n bytes.
func (r *rig) write(id uint64, n int, signaled bool) fabric.SendWR {
	return fabric.SendWR{
		ID: id, Op: fabric.OpWrite, Local: r.source.Bytes()[:n], Key: r.source.LocalKey(),
		Remote: r.remote.Addr, RKey: r.remote.Key, Signaled: signaled,
	}
}

// take polls until n completions came.
func take(t testing.TB, q fabric.CQ, n int) []fabric.Completion {
	t.Helper()
	deadline := time.Now().Add(fabrictest.Patience)
	var got []fabric.Completion
	out := make([]fabric.Completion, 8)
	for len(got) < n {
		k, err := q.Poll(out)
		require.NoError(t, err)
		got = append(got, out[:k]...)
		require.True(t, k > 0 || time.Now().Before(deadline), "%d of %d completions came", len(got), n)
		runtime.Gosched()
	}
	return got
}

// shell runs a command of the guest.
func shell(t testing.TB, name string, args ...string) {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	require.NoError(t, err, "%s", out)
}
