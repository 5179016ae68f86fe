package batch

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
)

func sample() []byte {
	return Encode(Header{BaseOffset: 7, LeaderEpoch: 3, Attributes: 4, LastOffsetDelta: 1, FirstTimestamp: 10, MaxTimestamp: 11,
		ProducerID: 99, ProducerEpoch: 1, FirstSequence: 5, Count: 2}, []byte("two records"))
}

func TestParseGivesWhatEncodeTook(t *testing.T) {
	raw := sample()
	h, size, err := Parse(append(raw, "rest"...))
	require.NoError(t, err)
	require.Equal(t, len(raw), size)
	require.Equal(t, int64(9), h.NextOffset())
	require.Equal(t, int32(6), h.LastSequence())
	require.Equal(t, raw, Encode(h, Records(raw)))
}

func TestAssignLeavesTheChecksum(t *testing.T) {
	raw := sample()
	Assign(raw, 1000, 9)
	h, _, err := Parse(raw)
	require.NoError(t, err)
	require.Equal(t, int64(1000), h.BaseOffset)
	require.Equal(t, int32(9), h.LeaderEpoch)
}

func TestWithRecordsKeepsAllButCodec(t *testing.T) {
	raw := sample()
	h, _, err := Parse(WithRecords(raw, []byte("other"), 2))
	require.NoError(t, err)
	require.Equal(t, int16(2), h.Attributes)
	h.Attributes, h.CRC = 4, 0
	want, _, _ := Parse(raw)
	want.CRC = 0
	require.Equal(t, want, h)
}

func TestEveryFlippedBitIsFound(t *testing.T) {
	for i := range sample() {
		raw := sample()
		raw[i] ^= 1
		if _, _, err := Parse(raw); err == nil {
			require.True(t, i < 8 || i >= 12 && i < 16, "byte %d: only offset and epoch may change unseen", i)
		} else {
			require.ErrorIs(t, err, ErrCorrupt)
		}
	}
}

func TestSequencesWrap(t *testing.T) {
	h := Header{FirstSequence: 0x7fffffff, LastOffsetDelta: 1}
	require.Equal(t, int32(0), h.LastSequence())
}

func TestEachStopsAtATornBatch(t *testing.T) {
	b := append(sample(), sample()[:70]...)
	n := 0
	err := Each(b, func(Header, []byte) error { n++; return nil })
	require.ErrorIs(t, err, ErrCorrupt)
	require.Equal(t, 1, n)
}

func FuzzParse(f *testing.F) {
	f.Add(sample())
	huge := sample()
	binary.BigEndian.PutUint32(huge[atLength:], 1<<31)
	f.Add(huge)
	f.Fuzz(func(t *testing.T, b []byte) {
		h, size, err := Parse(b)
		if err != nil {
			require.ErrorIs(t, err, ErrCorrupt)
			return
		}
		require.LessOrEqual(t, size, len(b))
		require.Equal(t, b[:size], Encode(h, Records(b[:size])))
	})
}
