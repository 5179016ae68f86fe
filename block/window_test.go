package block

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"
)

func sampleEntry() IndexEntry {
	return IndexEntry{Height: 7, Hash: common.HexToHash("0x0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f20"), Segment: 3, Length: 1000, Offset: 4096}
}

func sampleRecord(t testing.TB) (rec []byte, b *Block) {
	b = sampleBlock(t)
	rec = append(make([]byte, RecordHeaderBytes), b.Encode()...)
	SealRecord(rec, b.Number(), b.Hash())
	return rec, b
}

func sampleDirectory() Directory {
	return Directory{Epoch: 0x1122334455667788, Sequence: 10, First: 65540, Next: 200000, Generation: 4, Segments: 3, Segment: 9, IndexBase: 65536, SegmentBytes: 12345}
}

// TestGoldenWindow pins the layouts of docs/storage.md and docs/wire-sync.md: files written by one version are read by
// the next, and by peers.
func TestGoldenWindow(t *testing.T) {
	e, d := sampleEntry(), sampleDirectory()
	require.Equal(t, "0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f2000000003000003e800001000f2844507",
		hex.EncodeToString(e.AppendTo(nil)))
	rec, b := sampleRecord(t)
	require.Equal(t, "0000055bb9a44b59", hex.EncodeToString(rec[:RecordHeaderBytes]))
	require.Equal(t, b.Encode(), rec[RecordHeaderBytes:])
	require.Equal(t, "424f524e57494e321122334455667788000000000000000a00000000000100040000000000030d40000000040000000300000009000000000000000000010000000000000000303900000000506747bb",
		hex.EncodeToString(d.AppendTo(nil)))
}

func TestIndexArea(t *testing.T) {
	for _, c := range []struct {
		height uint64
		area   uint32
		offset int64
	}{{0, 1 << 31, 0}, {1, 1 << 31, 48}, {65535, 1 << 31, 65535 * 48}, {65536, 1<<31 + 1, 0}, {maxWindowHeight - 1, 1<<32 - 1, 65535 * 48}} {
		area, offset := IndexArea(c.height)
		require.Equal(t, c.area, area)
		require.Equal(t, c.offset, offset)
	}
}

// TestEveryBitIsCovered: no single flipped bit goes unnoticed.
func TestEveryBitIsCovered(t *testing.T) {
	e, d := sampleEntry(), sampleDirectory()
	rec, sealed := sampleRecord(t)
	for name, c := range map[string]struct {
		good   []byte
		decode func([]byte) error
	}{
		"entry":                              {e.AppendTo(nil), func(b []byte) error { _, err := DecodeIndexEntry(e.Height, b); return err }},
		"record":                             {rec, func(b []byte) error { _, err := CheckRecord(b, sealed.Number(), sealed.Hash()); return err }},
		"a record of which nothing is known": {rec, func(b []byte) error { _, _, err := DecodeRecord(b); return err }},
		"directory":                          {d.AppendTo(nil), func(b []byte) error { _, err := DecodeDirectory(b); return err }},
	} {
		require.NoError(t, c.decode(c.good), name)
		for bit := range len(c.good) * 8 {
			b := bytes.Clone(c.good)
			b[bit/8] ^= 1 << (bit % 8)
			require.Error(t, c.decode(b), "%s, bit %d", name, bit)
		}
	}
}

// TestSoundBytesInAWrongPlace: an entry or a record that a disk has put where another one belongs is found, though neither holds
// its height, nor a record its hash.
func TestSoundBytesInAWrongPlace(t *testing.T) {
	e := sampleEntry()
	_, err := DecodeIndexEntry(e.Height+1, e.AppendTo(nil))
	require.ErrorIs(t, err, ErrChecksum)
	rec, b := sampleRecord(t)
	r, payload, err := DecodeRecord(rec)
	require.NoError(t, err)
	require.Equal(t, RecordOf{Length: uint32(len(payload)), Height: b.Number(), Hash: b.Hash()}, r) //nolint:gosec // small
	_, err = CheckRecord(rec, b.Number()+1, b.Hash())
	require.ErrorIs(t, err, ErrChecksum)
	other := b.Hash()
	other[31]++
	_, err = CheckRecord(rec, b.Number(), other)
	require.ErrorIs(t, err, ErrChecksum)
	SealRecord(rec, b.Number(), other) // a record that was sealed for another block than it holds
	_, _, err = DecodeRecord(rec)
	require.ErrorIs(t, err, ErrChecksum)
}

// TestRecordHeads: the length is taken only if record and encoding say the same.
func TestRecordHeads(t *testing.T) {
	for _, c := range []struct {
		length uint32
		list   []byte
		ok     bool
	}{
		{6, []byte{0xc5, 0, 0, 0, 0}, true},
		{5, []byte{0xc5, 0, 0, 0, 0}, false},
		{58, []byte{0xf8, 56, 0, 0, 0}, true},
		{303, []byte{0xf9, 1, 44, 0, 0}, true},
		{304, []byte{0xf9, 1, 44, 0, 0}, false},
		{5 + 1<<24, []byte{0xfb, 1, 0, 0, 0}, true},
		{5 + 1<<26, []byte{0xfb, 4, 0, 0, 0}, false}, // more than a block may have
		{6, []byte{0xfc, 0, 0, 0, 0}, false},         // a length of five bytes
		{6, []byte{0x85, 0, 0, 0, 0}, false},         // no list
		{0, []byte{0, 0, 0, 0, 0}, false},
	} {
		head := append(binary.BigEndian.AppendUint32(nil, c.length), 1, 2, 3, 4)
		head = append(head, c.list...)
		length, err := DecodeRecordHead(head)
		require.Equal(t, c.ok, err == nil, "%x", head)
		if c.ok {
			require.Equal(t, c.length, length)
		}
		_, err = DecodeRecordHead(head[:RecordHeadBytes-1])
		require.ErrorIs(t, err, ErrDecode)
	}
}

func TestDirectoryRefuses(t *testing.T) {
	d := sampleDirectory()
	good := d.AppendTo(nil)
	_, err := DecodeDirectory(good[:79])
	require.ErrorIs(t, err, ErrDecode)
	_, err = DecodeDirectory(make([]byte, DirectoryBytes))
	require.ErrorIs(t, err, ErrDecode, "a page that was never written")
	for name, edit := range map[string]func(*Directory){
		"first above next":         func(d *Directory) { d.First = d.Next + 1 },
		"index above first":        func(d *Directory) { d.IndexBase = 2 * 65536 },
		"index between files":      func(d *Directory) { d.IndexBase-- },
		"more segments than ever":  func(d *Directory) { d.Segments = d.Segment + 1 },
		"blocks but no segment":    func(d *Directory) { d.Segments = 0 },
		"segments but no block":    func(d *Directory) { d.Next = d.First },
		"a huge segment":           func(d *Directory) { d.SegmentBytes = 2*MaxSegmentBytes + 1 },
		"a number that is no area": func(d *Directory) { d.Segment = AreaIndex },
		"heights without an area":  func(d *Directory) { d.Next = maxWindowHeight + 1 },
	} {
		d := sampleDirectory()
		edit(&d)
		_, err := DecodeDirectory(d.AppendTo(nil))
		require.ErrorIs(t, err, ErrDecode, name)
	}
	d.Sequence = 11
	_, err = DecodeDirectory(d.AppendTo(nil))
	require.ErrorIs(t, err, ErrChecksum, "in the middle of a change")
	empty := Directory{Epoch: 1, Sequence: 2}
	got, err := DecodeDirectory(empty.AppendTo(nil))
	require.NoError(t, err)
	require.Equal(t, empty, got)
}

func FuzzIndexEntry(f *testing.F) {
	e := sampleEntry()
	good := e.AppendTo(nil)
	f.Add(good)
	f.Add(good[:47])
	f.Add(make([]byte, 48))
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := DecodeIndexEntry(7, b)
		if err != nil {
			return
		}
		if !bytes.Equal(e.AppendTo(nil), b) {
			t.Fatalf("%+v does not encode to what it was read from", e)
		}
		if e.Length > MaxBlockBytes || e.End() < 0 {
			t.Fatalf("%+v is out of bounds", e)
		}
	})
}

func FuzzRecord(f *testing.F) {
	good, _ := sampleRecord(f)
	f.Add(good)
	f.Add(good[:50])
	f.Add(good[:10])
	f.Add(bytes.Repeat([]byte{0xff}, 60))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, payload, err := DecodeRecord(b)
		if err != nil {
			return
		}
		rec := append(make([]byte, RecordHeaderBytes), payload...)
		SealRecord(rec, h.Height, h.Hash)
		if !bytes.Equal(rec, b) {
			t.Fatal("the record does not encode to what it was read from")
		}
	})
}

func FuzzDirectory(f *testing.F) {
	d := sampleDirectory()
	good := d.AppendTo(nil)
	f.Add(good)
	f.Add(good[:40])
	f.Add(make([]byte, DirectoryBytes))
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := DecodeDirectory(b)
		if err != nil {
			return
		}
		if !bytes.Equal(d.AppendTo(nil), b) {
			t.Fatalf("%+v does not encode to what it was read from", d)
		}
	})
}
