package store

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/pubsub/batch"
)

// What a start takes for a record has a length that an append can have made: the shortest and the longest batch, and
// nothing beyond them, whatever bytes a damaged disk gives.
func TestLengthsOfRecords(t *testing.T) {
	head := func(k kind, n int) []byte {
		b := putRecord(nil, 1, segmentHeaderBytes, 0, 1, k, 0, nil)
		be.PutUint32(b[4:], uint32(n)) //nolint:gosec // small
		return b
	}
	for _, x := range []struct {
		kind kind
		n    int
		good bool
	}{
		{kindBatch, batch.HeaderBytes - 1, false},
		{kindBatch, batch.HeaderBytes, true},
		{kindBatch, maxPayloadBytes, true},
		{kindBatch, maxPayloadBytes + 1, false},
		{kindMoved, maxPayloadBytes, true},
		{kindMoved, 1<<32 - 1, false},
		{kindStart, 8, true},
		{kindStart, 9, false},
		{kindTruncate, truncateBytes - 1, false},
		{kindTruncate, truncateBytes + maxRebuildHeads*sentBytes, true},
		{kindTruncate, truncateBytes + (maxRebuildHeads+1)*sentBytes, false},
	} {
		size, err := recordSize(head(x.kind, x.n), segmentHeaderBytes)
		if !x.good {
			require.ErrorIs(t, err, errRecord, "%d bytes of kind %d", x.n, x.kind)
			continue
		}
		require.NoError(t, err, "%d bytes of kind %d", x.n, x.kind)
		require.Equal(t, recordHeaderBytes+x.n, size)
	}
}

// The index of a full segment names places and lengths. One that names another partition's batch, or another length, is
// what is damaged: the segment is whole, and its records are no other partition's.
func TestAReadBelievesNoDamagedPlace(t *testing.T) {
	const n = 3 // of 60 batches, ten records each
	entryAt := indexHeaderBytes + 2*indexRunBytes + n*indexEntryBytes
	for name, damage := range map[string]func(b []byte){
		"another partition's": func(b []byte) {
			runs := be.Uint32(b[indexHeaderBytes+8:]) // entries of the first partition
			copy(b[entryAt+16:entryAt+24], b[entryAt+int(runs)*indexEntryBytes+16:])
		},
		"longer":        func(b []byte) { be.PutUint32(b[entryAt+20:], be.Uint32(b[entryAt+20:])+1) },
		"shorter":       func(b []byte) { be.PutUint32(b[entryAt+20:], be.Uint32(b[entryAt+20:])-1) },
		"far too short": func(b []byte) { be.PutUint32(b[entryAt+20:], 1) },
	} {
		t.Run(name, func(t *testing.T) {
			fs := newDisk()
			s := open(t, fs, testConfig())
			p, q := create(t, s, 0), create(t, s, 1)
			for i := range 60 {
				add(t, p, 0, plain(i, 10, 500))
				add(t, q, 0, plain(1000+i, 10, 500))
			}
			sealed(t, s)
			require.NoError(t, s.Close())
			require.NoError(t, fs.Corrupt(indexName(1), func(b []byte) []byte { damage(b); return b }))
			p = open(t, fs, testConfig()).Partition(id(0))
			_, err := p.Read(10*n, 1, everything)
			require.Equal(t, indexName(1), damagedFile(t, err))
			_, err = p.Read(0, 1<<20, 10*(n+3))
			require.Equal(t, indexName(1), damagedFile(t, err), "several at once")
		})
	}
}

// A turned bit anywhere in the head of an index file has it built again from its segment.
func TestADamagedHeadOfAnIndexIsNotBelieved(t *testing.T) {
	fs, want := filled(t)
	for at := range indexHeaderBytes {
		left := disk{fs.Copy()}
		require.NoError(t, left.Corrupt(indexName(1), func(b []byte) []byte { b[at] ^= 1; return b }))
		s := open(t, left, testConfig())
		require.Equal(t, sizeOf(t, left, logName(1)), s.segs[1].size, "byte %d", at)
		require.Equal(t, want, all(t, s.Partition(id(0))), "byte %d", at)
		require.NoError(t, s.Close())
	}
}
