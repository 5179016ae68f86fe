package rdma

import (
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/transport"
	"github.com/bornode/bornode/transport/conformance"
	"github.com/bornode/bornode/transport/rdma/fabric"
)

// echoes returns every frame of lane 0.
func echoes(c *Channel) {
	b := make([]byte, transport.MaxSliceBytes)
	one := make([]transport.Frame, 1)
	for {
		h, err := c.ReadHeader()
		if err != nil {
			return
		}
		if c.ReadPayload(b[:h.Length]) != nil {
			return
		}
		one[0] = transport.Frame{Header: h, Payload: b[:h.Length]}
		if c.WriteFrames(one) != nil {
			return
		}
	}
}

func benchChannels(b *testing.B, spin time.Duration) (x, y *Channel) {
	cfg := testConfig()
	cfg.Spin = spin
	return channels(b, openDevice(b, openSHM(b), cfg), openDevice(b, openSHM(b), cfg))
}

// BenchmarkRoundTrip is of 64 bytes at the channel, over shared memory within one process.
func BenchmarkRoundTrip(b *testing.B) {
	for _, mode := range []struct {
		name string
		spin time.Duration
	}{{"polled", time.Millisecond}, {"default", DefaultConfig().Spin}, {"slept", 0}} {
		b.Run(mode.name, func(b *testing.B) {
			x, y := benchChannels(b, mode.spin)
			go echoes(y)
			one := []transport.Frame{testFrame(0, 0, 64)}
			var buf [64]byte
			took := make([]time.Duration, 0, b.N)
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				start := time.Now()
				if err := x.WriteFrames(one); err != nil {
					b.Fatal(err)
				}
				if _, err := x.ReadHeader(); err != nil {
					b.Fatal(err)
				}
				if err := x.ReadPayload(buf[:]); err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(start))
			}
			b.StopTimer()
			slices.Sort(took) // on a busy machine the mean says nothing
			for _, p := range []int{1, 10, 25, 50, 99} {
				b.ReportMetric(float64(took[len(took)*p/100].Nanoseconds()), fmt.Sprintf("p%d-ns", p))
			}
			b.ReportMetric(float64(x.Counters()["sleeps"])/float64(b.N), "sleeps/op")
		})
	}
}

// BenchmarkOneWay writes batches like the link's: up to 64 KiB and a slice, then the next.
func BenchmarkOneWay(b *testing.B) {
	for _, size := range []int{64, 1 << 10, 16 << 10, 64 << 10} {
		for _, lane := range []transport.Lane{transport.LaneConsensus, transport.LaneCatchUp} {
			b.Run(fmt.Sprintf("%d/%s", size, lane), func(b *testing.B) { benchOneWay(b, size, lane) })
		}
	}
}

func benchOneWay(b *testing.B, size int, lane transport.Lane) {
	x, y := benchChannels(b, DefaultConfig().Spin)
	batch := make([]transport.Frame, max(1, min(2*transport.BurstBytes/(size+transport.HeaderBytes), b.N)))
	for i := range batch {
		batch[i] = testFrame(lane, i, size)
	}
	done := make(chan error, 1)
	go func() {
		buf := make([]byte, size)
		for range b.N {
			_, err := y.ReadHeader()
			if err == nil {
				err = y.ReadPayload(buf)
			}
			if err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	b.SetBytes(int64(size))
	b.ReportAllocs()
	before := cpu()
	b.ResetTimer()
	for sent := 0; sent < b.N; {
		n := min(len(batch), b.N-sent)
		if err := x.WriteFrames(batch[:n]); err != nil {
			b.Fatal(err)
		}
		sent += n
	}
	require.NoError(b, <-done)
	b.StopTimer()
	b.ReportMetric((cpu()-before).Seconds()/(float64(size)*float64(b.N)/1e9), "cpu-s/GB")
}

func cpu() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkLink is the suite's benchmark, of links over shared memory.
func BenchmarkLink(b *testing.B) {
	conformance.Benchmark(b, harness(DefaultConfig(), 0, func(testing.TB) func(testing.TB, string) fabric.Device {
		return func(t testing.TB, _ string) fabric.Device { return openSHM(t) }
	}))
}

// BenchmarkHop is one frame written and read by one goroutine: what the software costs without waiting.
func BenchmarkHop(b *testing.B) {
	for _, size := range []int{64, 1 << 10, 64 << 10} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			x, y := benchChannels(b, DefaultConfig().Spin)
			one := []transport.Frame{testFrame(0, 0, size)}
			buf := make([]byte, size)
			b.ReportAllocs()
			b.SetBytes(int64(size))
			before := cpu()
			defer func() { b.ReportMetric(float64((cpu()-before).Nanoseconds())/float64(b.N), "cpu-ns/op") }()
			for b.Loop() {
				if err := x.WriteFrames(one); err != nil {
					b.Fatal(err)
				}
				if _, err := y.ReadHeader(); err != nil {
					b.Fatal(err)
				}
				if err := y.ReadPayload(buf); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkLinkSpin is the link's round trip on an idle link, by how long readers spin.
func BenchmarkLinkSpin(b *testing.B) {
	for _, spin := range []time.Duration{0, 5 * time.Microsecond, 20 * time.Microsecond, 50 * time.Microsecond, 100 * time.Microsecond} {
		b.Run(spin.String(), func(b *testing.B) {
			cfg := DefaultConfig()
			cfg.Spin = spin
			h := harness(cfg, 0, func(testing.TB) func(testing.TB, string) fabric.Device {
				return func(t testing.TB, _ string) fabric.Device { return openSHM(t) }
			})
			conformance.Benchmark(b, h)
		})
	}
}
