package conformance

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/transport"
)

// Benchmark measures round trip, message rate, throughput, and lane 0's latency while lane 2 is saturated.
func Benchmark(b *testing.B, h Harness) {
	b.Run("RoundTrip", func(b *testing.B) { benchRoundTrip(b, h) })
	for _, size := range []int{64, 1 << 10, 64 << 10, 1 << 20} {
		b.Run(fmt.Sprintf("OneWay/%d", size), func(b *testing.B) { benchOneWay(b, h, size) })
	}
	b.Run("ConsensusIdle", func(b *testing.B) { benchConsensus(b, h, false) })
	b.Run("ConsensusUnderCatchUp", func(b *testing.B) { benchConsensus(b, h, true) })
}

func benchPair(b *testing.B, h Harness) (transport.Link, transport.Link) {
	x, y := start(b, h, 0, Config()), start(b, h, 1, Config())
	require.NoError(b, x.Dial(context.Background(), y.Addrs()[0]))
	return nextLink(b, x), nextLink(b, y)
}

// echo returns every message of the lane until ctx ends.
func echo(ctx context.Context, l transport.Link, lane transport.Lane) {
	for {
		m, err := l.RecvLane(ctx, lane)
		if err != nil || l.Send(ctx, m) != nil {
			return
		}
	}
}

func benchRoundTrip(b *testing.B, h Harness) {
	x, y := benchPair(b, h)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go echo(ctx, y, 0)
	m := transport.Message{Payload: make([]byte, 64)}
	for b.Loop() {
		require.NoError(b, x.Send(ctx, m))
		_, err := x.Recv(ctx)
		require.NoError(b, err)
	}
}

func benchOneWay(b *testing.B, h Harness, size int) {
	x, y := benchPair(b, h)
	ctx := context.Background()
	m := transport.Message{Lane: transport.LaneCatchUp, Payload: make([]byte, size)}
	done := make(chan error, 1)
	b.SetBytes(int64(size))
	b.ResetTimer()
	go func() {
		for range b.N {
			if _, err := y.Recv(ctx); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	for range b.N {
		if err := x.Send(ctx, m); err != nil {
			b.Fatal(err)
		}
	}
	require.NoError(b, <-done)
}

func benchConsensus(b *testing.B, h Harness, loaded bool) {
	x, y := benchPair(b, h)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go echo(ctx, y, 0)
	if loaded {
		go func() {
			m := transport.Message{Lane: transport.LaneCatchUp, Payload: make([]byte, 1<<20)}
			for x.Send(ctx, m) == nil {
			}
		}()
		go func() {
			for {
				if _, err := y.RecvLane(ctx, transport.LaneCatchUp); err != nil {
					return
				}
			}
		}()
	}
	m := transport.Message{Payload: make([]byte, 200)}
	var took []time.Duration
	b.ResetTimer()
	for range b.N {
		t0 := time.Now()
		require.NoError(b, x.Send(ctx, m))
		_, err := x.RecvLane(ctx, 0)
		require.NoError(b, err)
		took = append(took, time.Since(t0))
	}
	b.StopTimer()
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-us")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-us")
}
