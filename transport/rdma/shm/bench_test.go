//go:build linux

package shm

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/transport/rdma/fabric"
)

// spin polls until a completion is there and posts the entry again.
func (e *end) spin(out []fabric.Completion, again []fabric.RecvWR) int {
	for {
		n, err := e.cq.Poll(out)
		if err != nil {
			panic(err)
		}
		if n > 0 {
			if _, err := e.srq.Post(again[:n]); err != nil {
				panic(err)
			}
			return n
		}
	}
}

var ping = []fabric.SendWR{{Op: fabric.OpWriteImm, Imm: 1, Signaled: true}}

// BenchmarkPost is the sender's part of one message, with a receiver in the same goroutine.
func BenchmarkPostAndPoll(b *testing.B) {
	x, y := pair(b, 512, fabric.QPConfig{SendDepth: 128})
	out := make([]fabric.Completion, 64)
	again := make([]fabric.RecvWR, 64)
	wr := []fabric.SendWR{{Op: fabric.OpWriteImm, Imm: 1}}
	b.ReportAllocs()
	k := 0
	for b.Loop() {
		k++
		wr[0].Signaled = k%32 == 0
		if _, err := x.qp.Post(wr); err != nil {
			b.Fatal(err)
		}
		if k%32 == 0 {
			if n, _ := x.cq.Poll(out); n != 1 {
				b.Fatal(n)
			}
			n, _ := y.cq.Poll(out)
			y.srq.Post(again[:n])
		}
	}
}

// BenchmarkIdlePoll is a Poll that finds nothing, by number of queue pairs.
func BenchmarkIdlePoll(b *testing.B) {
	for _, n := range []int{1, 4, 16, 64, 256} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			_, y := fan(b, n)
			out := make([]fabric.Completion, 64)
			b.ReportAllocs()
			for b.Loop() {
				if n, _ := y.cq.Poll(out); n != 0 {
					b.Fatal("not idle")
				}
			}
		})
	}
}

// fan connects n queue pairs of one device with n of another, each side on one set of queues.
func fan(t testing.TB, n int) (a []*end, b *end) {
	cfg := fabric.QPConfig{SendDepth: 64}
	x := newEnd(t, openDevice(t, testConfig()), 1024, cfg)
	y := newEnd(t, openDevice(t, testConfig()), 1024, cfg)
	for i := range n {
		if i > 0 {
			x, y = copyEnd(x), copyEnd(y)
			x.newQP(cfg)
			y.newQP(cfg)
		}
		connect(t, x.qp, y.qp)
		a = append(a, x)
	}
	return a, y
}

func copyEnd(e *end) *end {
	c := *e
	return &c
}

// BenchmarkRoundTripPolled: both ends poll.
func BenchmarkRoundTripPolled(b *testing.B) {
	x, y := pair(b, 64, fabric.QPConfig{})
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		out := make([]fabric.Completion, 16)
		again := make([]fabric.RecvWR, 16)
		wr := []fabric.SendWR{{Op: fabric.OpWriteImm, Imm: 1, Signaled: true}}
		for {
			for got := false; !got; {
				select {
				case <-stop:
					return
				default:
				}
				for range 100 {
					n, _ := y.cq.Poll(out)
					for _, c := range out[:n] {
						if c.Op == fabric.OpRecvImm {
							got = true
							y.srq.Post(again[:1])
						}
					}
					if got {
						break
					}
				}
			}
			y.qp.Post(wr)
		}
	}()
	out := make([]fabric.Completion, 16)
	again := make([]fabric.RecvWR, 16)
	b.ReportAllocs()
	for b.Loop() {
		x.qp.Post(ping)
		for got := false; !got; {
			n, _ := x.cq.Poll(out)
			for _, c := range out[:n] {
				if c.Op == fabric.OpRecvImm {
					got = true
					x.srq.Post(again[:1])
				}
			}
		}
	}
	close(stop)
	<-done
}

// BenchmarkRoundTripSlept: both ends sleep until they are woken.
func BenchmarkRoundTripSlept(b *testing.B) {
	x, y := pair(b, 64, fabric.QPConfig{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for y.sleep() {
			y.qp.Post(ping)
		}
	}()
	b.ReportAllocs()
	for b.Loop() {
		x.qp.Post(ping)
		require.True(b, x.sleep())
	}
	y.qp.Break()
	y.cq.Close()
	<-done
}

// sleep waits for one message as a poller does: drain, arm, drain, sleep.
func (e *end) sleep() bool {
	var out [16]fabric.Completion
	var again [16]fabric.RecvWR
	got := false
	for {
		n, err := e.cq.Poll(out[:])
		if err != nil {
			return false
		}
		for _, c := range out[:n] {
			if c.Op == fabric.OpRecvImm {
				e.srq.Post(again[:1])
				got = true
			}
		}
		if n != 0 {
			continue
		}
		if got {
			return true
		}
		e.cq.Arm()
		if n, _ = e.cq.Poll(out[:]); n != 0 {
			for _, c := range out[:n] {
				if c.Op == fabric.OpRecvImm {
					e.srq.Post(again[:1])
					got = true
				}
			}
			if got {
				return true
			}
			continue
		}
		if e.cq.Wait() != nil {
			return false
		}
	}
}
