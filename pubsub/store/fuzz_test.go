package store

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/pubsub/batch"
)

func FuzzRecord(f *testing.F) {
	f.Add(putRecord(nil, 7, 32, 0, 1, kindBatch, 0, plain(1, 2, 30)), uint32(7), uint32(32))
	f.Add(putRecord(nil, 7, 32, 0, 1, kindMoved, maxAppendStep, plain(1, 2, 30)), uint32(7), uint32(32))
	f.Add(putRecord(nil, 0, 100, 32, 9, kindCreate, 0, encodeCreate(id(3), Retention{Bytes: 5, Age: 6})), uint32(0), uint32(100))
	f.Add(putRecord(nil, 1, 100, 90, 0, kindEnd, 0, nil), uint32(1), uint32(100))
	f.Fuzz(func(t *testing.T, b []byte, salt, pos uint32) {
		r, err := decodeRecord(b, salt, pos)
		if err != nil {
			return
		}
		require.Equal(t, b[:r.recordLen], putRecord(nil, salt, r.pos, r.durable, r.number, r.kind, r.step, r.payload))
		if isBatch(r.kind) {
			_, n, err := batch.Parse(r.payload)
			require.NoError(t, err)
			require.Len(t, r.payload, n)
		}
	})
}

func FuzzTruncate(f *testing.F) {
	r := &producer{epoch: -1}
	r.add(sentBatch{1, 2, 3, 5})
	r.add(sentBatch{3, 3, 9, 10})
	f.Add(encodeTruncate(12, map[int64]*producer{8: r, 9: {epoch: 3}}))
	f.Add(i64(7))
	f.Add(append(i64(7), make([]byte, (producerBatches+1)*sentBytes)...)) // more of a producer than is remembered
	f.Add(append(i64(7), make([]byte, sentBytes-1)...))
	f.Add(make([]byte, truncateBytes-1))
	f.Add(make([]byte, truncateBytes+(maxRebuildHeads+1)*sentBytes))
	f.Fuzz(func(t *testing.T, b []byte) {
		_, err := decodeRecord(putRecord(nil, 0, 32, 0, 1, kindTruncate, 0, b), 0, 32)
		whole := len(b) - truncateBytes
		require.Equal(t, whole >= 0 && whole%sentBytes == 0 && whole/sentBytes <= maxRebuildHeads, err == nil)
		if err != nil {
			return
		}
		end, found := decodeTruncate(b)
		again, same := decodeTruncate(encodeTruncate(end, found))
		require.Equal(t, end, again)
		require.Equal(t, found, same)
	})
}

func FuzzIndex(f *testing.F) {
	j := &sealJob{seg: 3, size: 500, runs: []sealRun{{run: run{number: 2, base: 4, next: 9, maxTs: 1, appended: millisOf(7), bytes: 80, entries: []entry{{4, 1, 0, 32, 40}, {6, 1, 0, 99, 40}}}},
		{run: run{number: 1, base: 0, next: 1, bytes: 40, moved: true, entries: []entry{{0, 1, 0, 32, 40}}}}}}
	j.sort()
	f.Add(j.encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := decodeIndexHeader(b, 3)
		if err != nil {
			return
		}
		runs, err := decodeDirectory(h, b[indexHeaderBytes:min(len(b), int(h.entriesPos()))])
		if err != nil {
			return
		}
		for _, r := range runs {
			require.Less(t, r.base, r.next)
			require.LessOrEqual(t, r.first+r.count, h.entries)
		}
	})
}

func snapshotOf(s *Store, seg uint32) []byte {
	j := &sealJob{seg: seg}
	s.wal.mu.Lock()
	s.beginSnapshot(j)
	for _, p := range s.byNumber {
		p.snapped = 0
	}
	s.wal.mu.Unlock()
	s.fillSnapshot(j)
	return j.snap
}

func FuzzSnapshot(f *testing.F) {
	blank := func() *Store {
		return &Store{wal: newWAL(&Config{SegmentBytes: minSegmentBytes}), byNumber: make(map[uint32]*Partition), segs: make(map[uint32]*segment)}
	}
	s := blank()
	p := newPartition(s, id(4), 2)
	p.start, p.end, p.promised, p.epochs = 5, 90, 3, []EpochStart{{1, 5}, {2, 50}}
	r := &producer{epoch: 1, seen: 77}
	r.add(sentBatch{1, 2, 3, 5})
	p.producers[8] = r
	s.byNumber[2] = p
	f.Add(snapshotOf(s, 6)[snapHeaderBytes:])
	f.Add([]byte("\x000000000000000000000000000000000000000000\x040000\x02000\x020000")) // partition 0
	f.Fuzz(func(t *testing.T, body []byte) {
		s := blank()
		r := &snapReader{b: body}
		for len(r.b) > 0 && r.err == nil {
			p := s.decodePartition(r)
			s.byNumber[p.number] = p
		}
		if r.err != nil {
			return
		}
		parts, _, err := s.decodeSnapshot(snapshotOf(s, 6), 6)
		require.NoError(t, err)
		require.Len(t, parts, len(s.byNumber))
	})
}

func TestASnapshotHoldsTheState(t *testing.T) {
	fs := newDisk()
	s := open(t, fs, testConfig())
	p, err := s.Create(id(1), Retention{Bytes: 7, Age: 8})
	require.NoError(t, err)
	add(t, p, 3, made(1, 2, 9, 1, 77, 2, 0))
	parts, next, err := s.decodeSnapshot(snapshotOf(s, 4), 4)
	require.NoError(t, err)
	require.Equal(t, uint32(2), next)
	require.Len(t, parts, 1)
	got := parts[0]
	require.Equal(t, []any{p.id, p.number, p.retention, p.start, p.end, p.promised, p.entered, p.epochs, p.producers},
		[]any{got.id, got.number, got.retention, got.start, got.end, got.promised, got.entered, got.epochs, got.producers})
	_, _, err = s.decodeSnapshot(snapshotOf(s, 4), 5)
	require.ErrorIs(t, err, errSnapshot)
}
