package blockstore_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/blockstore"
)

func openBench(b *testing.B) *blockstore.Store {
	cfg := blockstore.DefaultConfig()
	cfg.Dir = b.TempDir()
	s, err := blockstore.Open(cfg, nil, nil)
	require.NoError(b, err)
	b.Cleanup(func() { s.Close() })
	return s
}

// BenchmarkAppendFinal appends runs of 64 blocks of about 64 KiB, two runs ahead of the disk.
func BenchmarkAppendFinal(b *testing.B) {
	s := openBench(b)
	var tip *block.Block
	size := 0
	wait := func() error { return nil }
	for b.Loop() {
		b.StopTimer()
		blocks := line(tip, 64, 1, 4, 16<<10)
		size = 64 * len(blocks[0].Encode())
		tip = blocks[63]
		b.StartTimer()
		next := s.AppendFinalAsync(blocks, final(blocks...))
		require.NoError(b, wait())
		wait = next
	}
	require.NoError(b, wait())
	b.SetBytes(int64(size))
}

// BenchmarkRange reads the same blocks as a server of history does.
func BenchmarkRange(b *testing.B) {
	s := openBench(b)
	blocks := line(nil, 512, 1, 4, 16<<10)
	require.NoError(b, s.AppendFinal(blocks, final(blocks...)))
	size := 0
	for b.Loop() {
		size = 0
		require.NoError(b, s.Range(0, 511, 0, func(_ uint64, raw []byte) error { size += len(raw); return nil }))
	}
	b.SetBytes(int64(size))
}

// BenchmarkPutReversible is what a prevote waits for.
func BenchmarkPutReversible(b *testing.B) {
	s := openBench(b)
	tip := child(nil, 0, 0, 0)
	require.NoError(b, s.AppendFinal([]*block.Block{tip}, final(tip)))
	for b.Loop() {
		b.StopTimer()
		tip = child(tip, 1, 20, 200)
		b.StartTimer()
		require.NoError(b, s.PutReversible([]*block.Block{tip}))
	}
}
