package store

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// benchStore is a store on real files, in the directory that tests get (TMPDIR).
func benchStore(b *testing.B) *Store {
	cfg := DefaultConfig()
	cfg.Dir = b.TempDir()
	return open(b, nil, cfg)
}

// BenchmarkAppend appends batches of 16 KiB made of records of one size, and one larger record alone, without waiting.
func BenchmarkAppend(b *testing.B) {
	for _, size := range []int{100, 1 << 10, 16 << 10} {
		b.Run(fmt.Sprintf("record=%d", size), func(b *testing.B) {
			s := benchStore(b)
			p := create(b, s, 0)
			n := max(1, 16<<10/size)
			raw := made(1, n, n*size, 1, -1, 0, 0)
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			for b.Loop() {
				_, err := p.Append(0, raw, 1)
				require.NoError(b, err)
			}
			b.ReportMetric(float64(b.N*n)/b.Elapsed().Seconds(), "records/s")
		})
	}
}

// BenchmarkSync appends from some goroutines that each wait for every batch: the group sync.
func BenchmarkSync(b *testing.B) {
	for _, writers := range []int{1, 8, 64} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) {
			s := benchStore(b)
			var next atomic.Int32
			raw := made(1, 10, 10*100, 1, -1, 0, 0)
			b.SetBytes(int64(len(raw)))
			b.SetParallelism(writers)
			b.RunParallel(func(pb *testing.PB) {
				p := create(b, s, next.Add(1))
				raw := append([]byte(nil), raw...)
				for pb.Next() {
					a, err := p.Append(0, raw, 1)
					if err == nil {
						err = s.Durable(b.Context(), a.Mark)
					}
					if err != nil {
						b.Error(err)
					}
				}
			})
		})
	}
}

// BenchmarkRead reads one partition of many that lie interleaved, from files and from memory.
func BenchmarkRead(b *testing.B) {
	for _, partitions := range []int{1, 100} {
		for _, where := range []string{"file", "memory"} {
			b.Run(fmt.Sprintf("partitions=%d/%s", partitions, where), func(b *testing.B) {
				cfg := DefaultConfig()
				cfg.Dir, cfg.SegmentBytes = b.TempDir(), 64<<20
				if cfg.CacheBytes = 0; where == "memory" {
					cfg.CacheBytes = 256 << 20
				}
				s := open(b, nil, cfg)
				const total = 96 << 20
				raw := made(1, 10, 10*1024, 1, -1, 0, 0)
				for i := range total / len(raw) {
					_, err := create(b, s, int32(i%partitions)).Append(0, raw, 1)
					require.NoError(b, err)
				}
				sealed(b, s)
				p := s.Partition(id(0))
				at, bytes := int64(0), int64(0)
				for b.Loop() {
					got, err := p.Read(at, 1<<20, everything)
					require.NoError(b, err)
					bytes += int64(len(got))
					if at += int64(len(got)/len(raw)) * 10; at >= p.End() {
						at = 0
					}
				}
				b.ReportMetric(float64(bytes)/1e6/b.Elapsed().Seconds(), "MB/s")
			})
		}
	}
}

// BenchmarkOpen starts a store with 10,000 partitions.
func BenchmarkOpen(b *testing.B) {
	cfg := DefaultConfig()
	cfg.Dir, cfg.SegmentBytes = b.TempDir(), 4<<20
	s := open(b, nil, cfg)
	for i := range 60000 {
		_, err := create(b, s, int32(i%10000)).Append(0, made(1, 1, 400, 1, 7, 0, int32(i/10000)), 1)
		require.NoError(b, err)
	}
	sealed(b, s)
	require.NoError(b, s.Close())
	for b.Loop() {
		require.NoError(b, open(b, nil, cfg).Close())
	}
}

// BenchmarkSnapshot makes the snapshot of 10,000 partitions with 5 producers each.
func BenchmarkSnapshot(b *testing.B) {
	s := benchStore(b)
	for i := range 50000 {
		_, err := create(b, s, int32(i%10000)).Append(0, made(1, 1, 10, 1, int64(i/10000), 0, 0), 1)
		require.NoError(b, err)
	}
	for b.Loop() {
		b.SetBytes(int64(len(snapshotOf(s, 1))))
	}
}
