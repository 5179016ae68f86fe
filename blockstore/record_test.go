package blockstore

import (
	"bytes"
	"encoding/hex"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"
	"github.com/syndtr/goleveldb/leveldb/storage"
)

func sampleEntry() IndexEntry {
	return IndexEntry{Height: 7, Hash: common.HexToHash("0x0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f20"), Segment: 3, Length: 1000, Offset: 4096, Generation: 2}
}

// TestGoldenLayouts pins the layouts of docs/storage.md: files written by one version are read by the next.
func TestGoldenLayouts(t *testing.T) {
	e := sampleEntry()
	require.Equal(t, "00000000000000070102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f2000000003000003e80000000000001000000000027e01fbb7",
		hex.EncodeToString(e.AppendTo(nil)))
	require.Equal(t, "424f524e534547310000000300000000000000000000000700000000f16f2e56", hex.EncodeToString(encodeSegmentHeader(3, 7)))
	require.Equal(t, "0000000329ed3aa300000000000000070102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f20c20102",
		hex.EncodeToString(recordOf(7, e.Hash, []byte{0xc2, 1, 2})))
}

func FuzzIndexEntry(f *testing.F) {
	e := sampleEntry()
	good := e.AppendTo(nil)
	f.Add(good)
	f.Add(good[:63])
	f.Add(make([]byte, 64))
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := DecodeIndexEntry(b)
		if err != nil {
			return
		}
		if !bytes.Equal(e.AppendTo(nil), b) {
			t.Fatalf("%+v does not encode to what it was read from", e)
		}
		if e.Length > maxPayloadBytes || e.end() < 0 {
			t.Fatalf("%+v is out of bounds", e)
		}
	})
}

func FuzzRecord(f *testing.F) {
	good := recordOf(7, common.Hash{1}, []byte("payload"))
	f.Add(good)
	f.Add(good[:50])
	f.Add(good[:10])
	f.Add(bytes.Repeat([]byte{0xff}, 60))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, payload, err := decodeRecord(b)
		if err != nil {
			return
		}
		if !bytes.Equal(recordOf(h.height, h.hash, payload), b) {
			t.Fatal("the record does not encode to what it was read from")
		}
	})
}

// TestEveryBitOfAnEntryIsCovered: no single flipped bit goes unnoticed.
func TestEveryBitOfAnEntryIsCovered(t *testing.T) {
	e := sampleEntry()
	entry, rec := e.AppendTo(nil), recordOf(7, common.Hash{1}, []byte("some payload"))
	for bit := range len(entry) * 8 {
		b := bytes.Clone(entry)
		b[bit/8] ^= 1 << (bit % 8)
		_, err := DecodeIndexEntry(b)
		require.Error(t, err)
	}
	for bit := range len(rec) * 8 {
		b := bytes.Clone(rec)
		b[bit/8] ^= 1 << (bit % 8)
		_, _, err := decodeRecord(b)
		require.Error(t, err)
	}
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

func TestOpenFilesAreBounded(t *testing.T) {
	fs := OS(t.TempDir())
	r := newReaders(fs, 3)
	for n := range 10 {
		f, err := fs.Open(string(rune('a'+n)), 0o102) // O_RDWR|O_CREATE
		require.NoError(t, err)
		_, err = f.WriteAt([]byte{byte(n)}, 0)
		require.NoError(t, err)
		require.NoError(t, f.Close())
	}
	held, err := r.acquire("a")
	require.NoError(t, err)
	for n := range 10 {
		var b [1]byte
		require.NoError(t, r.readAt(string(rune('a'+n)), b[:], 0))
		require.Equal(t, byte(n), b[0])
		require.LessOrEqual(t, r.recent.Len(), 3)
	}
	require.NotContains(t, r.open, "a")
	_, err = held.f.ReadAt(make([]byte, 1), 0)
	require.NoError(t, err, "an evicted file stays open for the reader that has it")
	r.release(held)
	_, err = held.f.ReadAt(make([]byte, 1), 0)
	require.Error(t, err, "and is closed by the last one")
	r.close()
	require.ErrorIs(t, r.readAt("a", make([]byte, 1), 0), ErrClosed)
}

func TestConfig(t *testing.T) {
	cfg := DefaultConfig()
	require.ErrorContains(t, cfg.Validate(), "dir is empty")
	cfg.Dir = "x"
	require.NoError(t, cfg.Validate())
	cfg.SegmentBytes = 1
	require.ErrorContains(t, cfg.Validate(), "segment_bytes is 1")
}
