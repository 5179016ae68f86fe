//go:build linux

package shm

import (
	"errors"
	"fmt"
	"testing"

	"github.com/bornode/bornode/transport/rdma/fabric"
)

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

// BenchmarkPeers is one message, posted and polled, by number of peers: to each in turn, and to one while the others
// are idle.
func BenchmarkPeers(b *testing.B) {
	for _, n := range []int{1, 8, 64} {
		for _, all := range []bool{true, false} {
			name := fmt.Sprintf("%d/all", n)
			if !all {
				name = fmt.Sprintf("%d/one", n)
			}
			b.Run(name, func(b *testing.B) {
				x, y := fan(b, n)
				out := make([]fabric.Completion, 64)
				wr := []fabric.SendWR{{Op: fabric.OpWriteImm, Signaled: true}}
				k := 0
				b.ReportAllocs()
				for b.Loop() {
					from := x[0]
					if all {
						k++
						from = x[k%n]
					}
					if _, err := from.qp.Post(wr); err != nil {
						b.Fatal(err)
					}
					if k%16 == 0 {
						for m := 1; m > 0; {
							m, _ = y.cq.Poll(out)
							y.again(out[:m])
						}
						x[0].cq.Poll(out)
					}
				}
			})
		}
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

// echo answers each message with the same until the queue pair breaks.
func (e *end) echo(asleep bool) {
	wr := []fabric.SendWR{{Op: fabric.OpWriteImm, Signaled: true}}
	for {
		ok := false
		if wr[0].Imm, ok = e.hear(asleep); !ok {
			return
		}
		e.qp.Post(wr)
	}
}

// hear waits for one message, polling or sleeping. It reports false when the queue pair is broken.
func (e *end) hear(asleep bool) (imm uint32, ok bool) {
	var out [1]fabric.Completion
	armed := false
	for spins := 0; ; spins++ {
		n, err := e.cq.Poll(out[:])
		switch {
		case n == 1 && e.again(out[:]) == 1:
			return out[0].Imm, true
		case err != nil || n == 0 && (asleep || spins%128 == 127) && e.qp.state.Load() == stateBroken:
			return 0, false
		case n == 0 && armed:
			if e.cq.Wait() != nil {
				return 0, false
			}
			armed = false
		case n == 0 && asleep:
			armed = e.cq.Arm() == nil
		}
	}
}

// BenchmarkRoundTrip is a message there and back.
func BenchmarkRoundTrip(b *testing.B) {
	for _, asleep := range []bool{false, true} {
		how, part := "polled", "echo"
		if asleep {
			how, part = "slept", "echo asleep"
		}
		b.Run(how+"/goroutines", func(b *testing.B) {
			x, y := pair(b, 64, fabric.QPConfig{})
			done := make(chan struct{})
			go func() {
				defer close(done)
				y.echo(asleep)
			}()
			x.roundTrips(b, asleep)
			x.qp.Break()
			y.cq.kick()
			y.cq.Close()
			<-done
		})
		b.Run(how+"/processes", func(b *testing.B) {
			c := startChild(b, part)
			x := newEnd(b, openDevice(b, testConfig()), 64, fabric.QPConfig{})
			c.join(b, x)
			_, own := c.swap(b, x, 4096)
			defer own.Close()
			x.roundTrips(b, asleep)
			x.qp.Close()
			c.kill()
		})
	}
}

func (e *end) roundTrips(b *testing.B, asleep bool) {
	b.ReportAllocs()
	for b.Loop() {
		e.qp.Post(ping)
		if _, ok := e.hear(asleep); !ok {
			b.Fatal("broken")
		}
	}
}

// stream sends messages of one size through a ring in the peer's memory, as a channel does: the sender encodes in
// place and tells of it, the receiver copies out and returns credit after each quarter of the ring. The first bytes of
// the ring are a header of the test: the size of the messages.
type stream struct {
	*end
	ring  []byte // ours to read, or the mapped ring of the peer
	size  int
	batch int // messages to one immediate
}

const streamRing = 4 << 20

func (s *stream) produce(n int) error {
	src := make([]byte, s.size)
	slots := len(s.ring) / s.size
	quarter := max(slots/4, 1)
	var out [64]fabric.Completion
	credited, wr := 0, []fabric.SendWR{{Op: fabric.OpWriteImm}}
	for i := 0; i < n; {
		k := min(s.batch, n-i, quarter)
		for i+k-credited > slots {
			m, err := s.cq.Poll(out[:])
			if err != nil {
				return err
			}
			for _, c := range out[:m] {
				if c.Op == fabric.OpRecvImm {
					credited += quarter
				} else if c.Status != fabric.StatusOK {
					return fmt.Errorf("%+v", c)
				}
			}
			s.again(out[:m])
		}
		for range k {
			at := i % slots * s.size
			copy(s.ring[at:at+s.size], src)
			i++
		}
		wr[0].Imm, wr[0].Signaled = uint32(k), true
		for {
			m, err := s.qp.Post(wr)
			if m == 1 {
				break
			}
			if !errors.Is(err, fabric.ErrFull) {
				return err
			}
			m, _ = s.cq.Poll(out[:])
			for _, c := range out[:m] {
				if c.Op == fabric.OpRecvImm {
					credited += quarter
				}
			}
			s.again(out[:m])
		}
	}
	return nil
}

// consume receives until the queue pair breaks. The first immediate is the size of the messages.
func (s *stream) consume() {
	var out [64]fabric.Completion
	var dst []byte
	slots, quarter, taken := 0, 0, 0
	for spins := 0; ; spins++ {
		n, _ := s.cq.Poll(out[:])
		if n == 0 {
			if spins%128 == 127 && s.qp.state.Load() == stateBroken {
				return
			}
			continue
		}
		for _, c := range out[:n] {
			if c.Op != fabric.OpRecvImm {
				continue
			}
			if s.size == 0 {
				s.size = int(c.Imm)
				dst = make([]byte, s.size)
				slots = len(s.ring) / s.size
				quarter = max(slots/4, 1)
				continue
			}
			for range c.Imm {
				at := taken % slots * s.size
				copy(dst, s.ring[at:at+s.size])
				if taken++; taken%quarter == 0 {
					s.qp.Post(ping)
				}
			}
		}
		s.again(out[:n])
	}
}

// BenchmarkStream is the rate of messages one way, with the receiver's copy out of the ring; both ends poll.
func BenchmarkStream(b *testing.B) {
	for _, c := range []struct {
		name        string
		size, batch int
	}{{"64B", 64, 1}, {"64B-by-16", 64, 16}, {"1KiB", 1 << 10, 1}, {"64KiB", 64 << 10, 1}, {"1MiB", 1 << 20, 1}} {
		cfg := fabric.QPConfig{SendDepth: 128}
		run := func(b *testing.B, x *end, ring []byte) {
			s := &stream{end: x, ring: ring, size: c.size, batch: c.batch}
			x.post(fabric.SendWR{Op: fabric.OpWriteImm, Imm: uint32(c.size)})
			b.SetBytes(int64(c.size))
			b.ReportAllocs()
			b.ResetTimer()
			if err := s.produce(b.N); err != nil {
				b.Fatal(err)
			}
		}
		b.Run(c.name+"/goroutines", func(b *testing.B) {
			x, y := pair(b, 2048, cfg)
			mapped, theirs, _ := expose(b, x, y, streamRing)
			done := make(chan struct{})
			go func() {
				defer close(done)
				(&stream{end: y, ring: theirs.Bytes()}).consume()
			}()
			run(b, x, mapped)
			x.qp.Break()
			<-done
		})
		b.Run(c.name+"/processes", func(b *testing.B) {
			child := startChild(b, "sink")
			x := newEnd(b, openDevice(b, testConfig()), 2048, cfg)
			child.join(b, x)
			mapped, own := child.swap(b, x, streamRing)
			defer own.Close()
			run(b, x, mapped)
			x.qp.Close()
			child.kill()
		})
	}
}
