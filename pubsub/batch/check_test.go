package batch

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/golang/snappy"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/stretchr/testify/require"
)

// aRecord is what a test's record consists of.
type aRecord struct {
	delta      int64 // of its offset
	time       int64 // behind the batch's first
	key, value []byte
	headers    int
}

func (r aRecord) encode(dst []byte) []byte {
	v := binary.AppendVarint
	b := v(v([]byte{0}, r.time), r.delta)
	if r.key == nil {
		b = v(b, -1)
	} else {
		b = append(v(b, int64(len(r.key))), r.key...)
	}
	b = append(v(b, int64(len(r.value))), r.value...)
	b = v(b, int64(r.headers))
	for i := range r.headers {
		b = append(v(b, 1), byte('a'+i))
		b = v(b, -1)
	}
	return append(v(dst, int64(len(b))), b...)
}

func recordsOf(n, size int) []byte {
	var b []byte
	for i := range n {
		b = aRecord{delta: int64(i), time: int64(i), key: []byte("key"), value: bytes.Repeat([]byte{byte(i)}, size), headers: i % 3}.encode(b)
	}
	return b
}

// pack compresses as clients do; 5 stands for snappy in Java's frames.
func pack(t testing.TB, codec int16, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	switch codec {
	case codecGzip:
		w := gzip.NewWriter(&out)
		_, err := w.Write(b)
		require.NoError(t, err)
		require.NoError(t, w.Close())
	case codecSnappy:
		return snappy.Encode(nil, b)
	case codecLZ4:
		w := lz4.NewWriter(&out)
		_, err := w.Write(b)
		require.NoError(t, err)
		require.NoError(t, w.Close())
	case codecZstd:
		w, err := zstd.NewWriter(&out)
		require.NoError(t, err)
		_, err = w.Write(b)
		require.NoError(t, err)
		require.NoError(t, w.Close())
	case 5:
		out.Write(append(append([]byte{}, javaSnappy...), 0, 0, 0, 1, 0, 0, 0, 1))
		for len(b) > 0 {
			n := min(len(b), 32<<10)
			block := snappy.Encode(nil, b[:n])
			require.NoError(t, binary.Write(&out, binary.BigEndian, uint32(len(block))))
			out.Write(block)
			b = b[n:]
		}
	default:
		return b
	}
	return out.Bytes()
}

func wrap(count int, section []byte) []byte {
	return Encode(Header{LastOffsetDelta: int32(count - 1), Count: int32(count), FirstTimestamp: 1000, MaxTimestamp: 1000 + int64(count), ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1}, section)
}

func judge(c *Checker, raw []byte, times Times) error {
	h, _, err := Parse(raw)
	if err != nil {
		return err
	}
	return c.Check(&h, raw, times)
}

func attributesOf(codec int16) int16 {
	if codec == 5 {
		return codecSnappy
	}
	return codec
}

func batchOf(t testing.TB, codec int16, count int, records []byte) []byte {
	raw := wrap(count, nil)
	return WithRecords(raw, pack(t, codec, records), attributesOf(codec))
}

func TestWhatClientsWriteIsTaken(t *testing.T) {
	c := NewChecker(2)
	for codec := range int16(6) {
		for _, n := range []int{1, 2, 500} {
			for _, size := range []int{0, 10, 2000} {
				require.NoError(t, judge(c, batchOf(t, codec, n, recordsOf(n, size)), AllTimes()), "codec %d, %d records of %d", codec, n, size)
			}
		}
	}
}

func TestRecordsThatContradictTheirBatchAreRefused(t *testing.T) {
	c := NewChecker(2)
	good := recordsOf(3, 20)
	gap := aRecord{delta: 2}.encode(aRecord{}.encode(nil))
	twice := aRecord{}.encode(aRecord{}.encode(nil))
	short := aRecord{value: []byte("ten bytes.")}.encode(nil)
	long := append([]byte{}, short...)
	long[0] += 2 // one byte more than its fields
	long = append(long, 0)
	for codec := range int16(6) {
		for what, x := range map[string]struct {
			count   int
			records []byte
		}{
			"fewer records than it says": {4, good},
			"more records than it says":  {2, good},
			"bytes behind the last":      {3, append(recordsOf(3, 20), 7)},
			"a gap in the offsets":       {2, gap},
			"an offset twice":            {2, twice},
			"a record cut short":         {1, short[:len(short)-3]},
			"a record that is too long":  {1, long},
			"no records":                 {1, nil},
			"no record":                  {1, []byte{0}},
			"a length below zero":        {1, binary.AppendVarint(nil, -3)},
			"noise":                      {1, []byte("\x40 records of another kind, made of words")},
			"a key beyond the record":    {1, append(binary.AppendVarint(nil, 5), 0, 0, 0, 40, 0)},
			"more headers than bytes":    {1, append(binary.AppendVarint(nil, 6), 0, 0, 0, 1, 0, 60)},
			"a header without a name":    {1, append(binary.AppendVarint(nil, 8), 0, 0, 0, 1, 0, 2, 1, 1)},
			"a number of eleven bytes":   {1, append([]byte{24, 0}, bytes.Repeat([]byte{0xff}, 11)...)},
		} {
			require.ErrorIs(t, judge(c, batchOf(t, codec, x.count, x.records), AllTimes()), ErrRecords, "codec %d, %s", codec, what)
		}
	}
}

func TestFlagsThatContradictTheBytesAreRefused(t *testing.T) {
	c := NewChecker(1)
	plain := recordsOf(3, 20)
	for codec := range int16(6) {
		for said := range int16(5) {
			raw := WithRecords(wrap(3, nil), pack(t, codec, plain), said)
			if err := judge(c, raw, AllTimes()); said == attributesOf(codec) {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, ErrRecords, "codec %d, it says %d", codec, said)
			}
		}
	}
	for _, codec := range []int16{5, 6, 7} {
		require.ErrorIs(t, judge(c, WithRecords(wrap(3, nil), plain, codec), AllTimes()), ErrCodec)
	}
	h := Header{LastOffsetDelta: 2, Count: 3, Attributes: 1 << 6, ProducerID: -1}
	require.ErrorIs(t, judge(c, Encode(h, plain), AllTimes()), ErrRecords, "a bit without a meaning")
	for codec := int16(1); codec < 6; codec++ {
		b := pack(t, codec, plain)
		for _, cut := range []int{0, 1, len(b) / 2, len(b) - 1} {
			require.ErrorIs(t, judge(c, WithRecords(wrap(3, nil), b[:cut], attributesOf(codec)), AllTimes()), ErrRecords, "codec %d, %d of %d bytes", codec, cut, len(b))
		}
	}
}

// One record of zeros that is small when packed and large when not.
func TestWhatUnpacksToTooMuchIsRefused(t *testing.T) {
	c := NewChecker(1)
	bomb := aRecord{value: make([]byte, MaxUnpackedBytes)}.encode(nil)
	for _, codec := range []int16{codecGzip, codecLZ4, codecZstd} {
		raw := batchOf(t, codec, 1, bomb)
		require.Less(t, len(raw), 512<<10)
		require.ErrorIs(t, judge(c, raw, AllTimes()), ErrUnpacked, "codec %d", codec)
	}
	most := aRecord{value: make([]byte, FreeUnpackedBytes-100)}.encode(nil)
	for _, codec := range []int16{codecGzip, codecLZ4, codecZstd} {
		require.NoError(t, judge(c, batchOf(t, codec, 1, most), AllTimes()), "so much is always taken")
	}
	small := batchOf(t, codecZstd, 1, aRecord{value: make([]byte, MaxBytes-100)}.encode(nil))
	require.Less(t, len(small), 2<<10)
	require.ErrorIs(t, judge(c, small, AllTimes()), ErrUnpacked, "a few bytes that unpack to millions of fields")
	over := aRecord{value: make([]byte, 2*MaxBytes)}.encode(nil)
	require.ErrorIs(t, judge(c, batchOf(t, codecZstd, 1, over), AllTimes()), ErrUnpacked, "the ratio")
	// Snappy announces its length; memory is not taken for more than its bytes can unpack to.
	lie := binary.AppendUvarint(nil, 60<<20)
	allocated := testing.AllocsPerRun(10, func() { _ = judge(c, WithRecords(wrap(1, nil), lie, codecSnappy), AllTimes()) })
	require.Less(t, allocated, 50.0)
	require.ErrorIs(t, judge(c, WithRecords(wrap(1, nil), lie, codecSnappy), AllTimes()), ErrRecords)
}

func TestARecordWithTooManyHeadersIsRefused(t *testing.T) {
	c := NewChecker(1)
	of := func(headers int) []byte {
		b := append([]byte{0, 0, 0, 1, 1}, binary.AppendVarint(nil, int64(headers))...)
		b = append(b, make([]byte, 2*headers)...)
		return append(binary.AppendVarint(nil, int64(len(b))), b...)
	}
	for codec := range int16(6) {
		require.NoError(t, judge(c, batchOf(t, codec, 1, of(MaxHeaders)), AllTimes()), "codec %d", codec)
		require.ErrorIs(t, judge(c, batchOf(t, codec, 1, of(MaxHeaders+1)), AllTimes()), ErrRecords, "codec %d", codec)
	}
}

// Levels of zstd that announce a larger window than is allocated for anybody are told so.
func TestAWindowOfZstdThatIsTooLargeIsNamed(t *testing.T) {
	c := NewChecker(1)
	var out bytes.Buffer
	w, err := zstd.NewWriter(&out, zstd.WithWindowSize(2*maxWindowBytes))
	require.NoError(t, err)
	records := recordsOf(500, 9000)
	for b := records; len(b) > 0; b = b[min(len(b), 1<<20):] { // in pieces: the writer does not know how much comes
		_, err = w.Write(b[:min(len(b), 1<<20)])
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	err = judge(c, WithRecords(wrap(500, nil), out.Bytes(), codecZstd), AllTimes())
	require.ErrorIs(t, err, ErrRecords)
	require.ErrorContains(t, err, "a window of zstd above 8388608 bytes")
}

func TestTimesOutsideWhatATopicTakesAreRefused(t *testing.T) {
	c := NewChecker(1)
	at := func(first, last int64, deltas ...int64) []byte {
		var b []byte
		for i, d := range deltas {
			b = aRecord{delta: int64(i), time: d}.encode(b)
		}
		return Encode(Header{LastOffsetDelta: int32(len(deltas) - 1), Count: int32(len(deltas)), FirstTimestamp: first, MaxTimestamp: last, ProducerID: -1}, b)
	}
	times := Times{From: 500, To: 2000}
	require.NoError(t, judge(c, at(1000, 1100, 0, 100), times))
	require.NoError(t, judge(c, at(500, 2000, 0, 1500), times))
	require.NoError(t, judge(c, at(noTime, noTime, 0), times), "records without a time")
	for what, raw := range map[string][]byte{
		"an old first": at(499, 1000, 501), "a late last": at(1000, 2001, 0), "an old record": at(1000, 1000, 0, -501), "a late record": at(1000, 1000, 0, 1001),
		"a time beyond 64 bits": at(2000, 2000, math.MaxInt64), "a time below 64 bits": at(-1, -1, math.MinInt64),
	} {
		require.ErrorIs(t, judge(c, raw, times), ErrTime, what)
		if strings.HasSuffix(what, "64 bits") {
			require.ErrorIs(t, judge(c, raw, AllTimes()), ErrTime, "%s is no time in any topic", what)
		}
		h, _, err := Parse(raw)
		require.NoError(t, err)
		require.ErrorIs(t, c.unpack(codecSnappy, pack(t, codecSnappy, Records(raw)), func(s source) error {
			if err := CheckHeader(&h, times); err != nil {
				return err
			}
			return checkUnpacked(&h, s, times)
		}), ErrTime, what)
	}
}

// FuzzCheck looks for panics, for records that pass in one form and not in another, and for time that grows.
func FuzzCheck(f *testing.F) {
	for codec := range int16(6) {
		f.Add(pack(f, codec, recordsOf(5, 30)), uint8(attributesOf(codec)), uint16(5))
	}
	f.Add([]byte("BPS1"), uint8(0), uint16(1))
	c := NewChecker(2)
	f.Fuzz(func(t *testing.T, section []byte, codec uint8, count uint16) {
		raw := WithRecords(wrap(int(count)+1, nil), section, int16(codec))
		_ = judge(c, raw, AllTimes())
		plain := WithRecords(raw, section, 0)
		one := judge(c, plain, AllTimes())
		two := judge(c, WithRecords(raw, snappy.Encode(nil, section), codecSnappy), AllTimes())
		require.Equal(t, one == nil, two == nil, "%v, compressed: %v", one, two)
	})
}

func BenchmarkCheck(b *testing.B) {
	c := NewChecker(8)
	for _, size := range []int{100, 1000} {
		n := 100_000 / size * 5
		for codec := range int16(5) {
			raw := batchOf(b, codec, n, recordsOf(n, size))
			h, _, err := Parse(raw)
			require.NoError(b, err)
			b.Run(fmt.Sprintf("%dx%d/codec%d", n, size, codec), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if err := c.Check(&h, raw, AllTimes()); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/record")
			})
		}
	}
}
