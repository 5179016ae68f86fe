package blockstore

import (
	"encoding/hex"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/syndtr/goleveldb/leveldb/storage"
)

// TestGoldenSegmentHeader pins its layout in docs/storage.md; those of records and index entries are pinned in package block.
func TestGoldenSegmentHeader(t *testing.T) {
	require.Equal(t, "424f524e534547330000000300000000000000000000000700000000eb7bd58c", hex.EncodeToString(encodeSegmentHeader(3, 7)))
}

func TestFileNames(t *testing.T) {
	for _, n := range []uint32{1, 77, 1<<32 - 1} {
		got, ok := parseSegmentName(segmentName(n)[len(segmentDir)+1:])
		require.True(t, ok)
		require.Equal(t, n, got)
	}
	for _, h := range []uint64{0, 65535, 65536, 1 << 40} {
		first, ok := parseIndexName(indexName(h)[len(indexDir)+1:])
		require.True(t, ok)
		require.Equal(t, h/indexFileEntries*indexFileEntries, first)
	}
	for _, bad := range []string{"", "1.seg", "00000001.seg.bak", "x0000001.seg", "LOCK", "00000001.idx"} {
		_, ok := parseSegmentName(bad)
		require.False(t, ok, bad)
		_, ok = parseIndexName(bad)
		require.False(t, ok, bad)
	}
	for _, fd := range []storage.FileDesc{{Type: storage.TypeManifest, Num: 5}, {Type: storage.TypeJournal, Num: 1234567}, {Type: storage.TypeTable, Num: 0}, {Type: storage.TypeTemp, Num: 9}} {
		got, ok := parseLevelName(fd.String())
		require.True(t, ok)
		require.Equal(t, fd, got)
	}
	for _, bad := range []string{"CURRENT", "CURRENT.new", "LOCK", "1.log", "000001.txt", "MANIFEST-", "000001"} {
		_, ok := parseLevelName(bad)
		require.False(t, ok, bad)
	}
}

func TestConfig(t *testing.T) {
	cfg := DefaultConfig()
	require.ErrorContains(t, cfg.Validate(), "dir is empty")
	cfg.Dir = "x"
	require.NoError(t, cfg.Validate())
	cfg.SegmentBytes = 1
	require.ErrorContains(t, cfg.Validate(), "segment_bytes is 1")
}
