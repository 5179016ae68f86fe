//go:build rdmalab && linux && cgo

package verbs

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/transport/rdma/fabric"
)

// The figures of software RoCE in an emulated machine are good for comparing changes, never as speed.

// BenchmarkPost is the cost of handing over requests, system call of software RoCE included.
func BenchmarkPost(b *testing.B) {
	for _, batch := range []int{1, 16} {
		b.Run(fmt.Sprint(batch), func(b *testing.B) {
			r := newDeviceRig(b, nil)
			var wrs []fabric.SendWR
			for i := range batch {
				wrs = append(wrs, r.write(uint64(i), 8, i == batch-1))
			}
			out := make([]fabric.Completion, 1)
			for b.Loop() {
				_, err := r.x.Post(wrs)
				require.NoError(b, err)
				for n := 0; n == 0; {
					n, err = r.cq[0].Poll(out)
					require.NoError(b, err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*batch), "ns/request")
		})
	}
}

// BenchmarkPoll is a poll that finds nothing.
func BenchmarkPoll(b *testing.B) {
	r := newDeviceRig(b, nil)
	out := make([]fabric.Completion, 32)
	for b.Loop() {
		if _, err := r.cq[0].Poll(out); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRoundTrip sends an immediate there and back; both ends poll, or both sleep.
func BenchmarkRoundTrip(b *testing.B) {
	for _, sleeps := range []bool{false, true} {
		b.Run(map[bool]string{false: "polled", true: "slept"}[sleeps], func(b *testing.B) {
			r := newDeviceRig(b, nil)
			var stopped error
			done := make(chan struct{})
			go func() {
				defer close(done)
				for {
					if stopped = r.answer(1, r.y, sleeps); stopped != nil {
						return
					}
				}
			}()
			for i := range 2 {
				_, err := r.srq[i].Post(make([]fabric.RecvWR, 4))
				require.NoError(b, err)
			}
			for b.Loop() {
				require.NoError(b, say(r.x))
				require.NoError(b, r.hear(0, sleeps))
			}
			r.y.Break()
			r.x.Break()
			require.NoError(b, r.y.Close())
			require.NoError(b, r.cq[1].Close())
			<-done
			require.Error(b, stopped)
			r.x.Close()
		})
	}
}

func say(q *qp) error {
	_, err := q.Post([]fabric.SendWR{{Op: fabric.OpWriteImm, Signaled: true}})
	return err
}

func (r *rig) answer(i int, q *qp, sleeps bool) error {
	if err := r.hear(i, sleeps); err != nil {
		return err
	}
	return say(q)
}

// hear waits for an immediate and posts its entry again.
func (r *rig) hear(i int, sleeps bool) error {
	out := make([]fabric.Completion, 1)
	for armed := false; ; {
		n, err := r.cq[i].Poll(out)
		switch {
		case err != nil:
			return err
		case n == 1 && out[0].Status != fabric.StatusOK:
			return errors.New(out[0].Status.String())
		case n == 1 && out[0].Op == fabric.OpRecvImm:
			_, err := r.srq[i].Post(make([]fabric.RecvWR, 1))
			return err
		case n == 1 || !sleeps:
		case !armed:
			armed = true
			if err := r.cq[i].Arm(); err != nil {
				return err
			}
		default:
			armed = false
			if err := r.cq[i].Wait(); err != nil {
				return err
			}
		}
	}
}

// BenchmarkWrite moves 64 KiB and 1 MiB.
func BenchmarkWrite(b *testing.B) {
	for _, size := range []int{64 << 10, 1 << 20} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			r := newDeviceRig(b, nil)
			b.SetBytes(int64(size))
			for b.Loop() {
				_, err := r.x.Post([]fabric.SendWR{r.write(1, size, true)})
				require.NoError(b, err)
				require.Equal(b, fabric.StatusOK, take(b, r.cq[0], 1)[0].Status)
			}
		})
	}
}
