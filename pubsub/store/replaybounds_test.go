package store

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/pubsub/batch"
)

// A record with a right checksum that cannot follow what was replayed is refused: a batch that does not begin where its log ends,
// and a truncation to a place outside its log.
func TestReplayRefusesWhatCannotFollow(t *testing.T) {
	s := open(t, newDisk(), testConfig())
	defer func() { require.NoError(t, s.Close()) }()
	p := create(t, s, 0)
	for i := range 4 {
		add(t, p, 1, plain(i, 2, 40)) // offsets 0 to 7
	}
	synced(t, s)
	p.SetCommitted(2)
	require.NoError(t, p.DeleteBefore(2))
	require.EqualValues(t, 2, p.Start())
	require.EqualValues(t, 8, p.End())
	s.lost = new(losses) // as while a store opens

	for _, base := range []int64{7, 9} {
		err := s.replayRecord(1, &record{kind: kindBatch, number: p.number, header: batch.Header{BaseOffset: base}})
		require.ErrorContains(t, err, "ends at 8, the batch begins at")
	}
	for _, end := range []int64{1, 9} {
		err := s.replayRecord(1, &record{kind: kindTruncate, number: p.number, payload: encodeTruncate(end, nil)})
		require.ErrorContains(t, err, "it was truncated to")
	}
	require.EqualValues(t, 8, p.End(), "what was refused changed nothing")
	for _, end := range []int64{8, 2} {
		require.NoError(t, s.replayRecord(1, &record{kind: kindTruncate, number: p.number, payload: encodeTruncate(end, nil)}))
		require.Equal(t, end, p.End())
	}
}

// Bytes are damaged, and not a tail that was torn, where a sync is known to have passed them: by what was noted, or by a later
// record that was written when more than they were durable. A record that was written when they just began is no such proof.
func TestWhatShowsThatBytesWereSynced(t *testing.T) {
	s := open(t, newDisk(), testConfig())
	defer func() { require.NoError(t, s.Close()) }()
	p := create(t, s, 0)
	add(t, p, 1, plain(0, 2, 40))
	synced(t, s)
	torn := s.wal.off // durable up to here
	add(t, p, 1, plain(1, 2, 40))
	second := s.wal.off
	add(t, p, 1, plain(2, 2, 40)) // says: durable up to torn
	synced(t, s)
	third := s.wal.off
	sc, err := s.scan(s.wal.seg)
	require.NoError(t, err)
	defer func() { require.NoError(t, sc.f.Close()) }()

	sc.pos = int64(torn)
	require.False(t, s.wasSynced(sc, torn), "both records that follow were written before a sync passed this place")
	require.True(t, s.wasSynced(sc, torn+1))
	sc.pos = int64(torn) - 1
	require.True(t, s.wasSynced(sc, 0), "the record behind it was written when this was durable")
	at, err := sc.proof()
	require.NoError(t, err)
	require.EqualValues(t, torn, at)
	sc.pos = int64(second)
	require.False(t, s.wasSynced(sc, torn))
	require.EqualValues(t, second, sc.pos, "looking moves nothing")
	require.Greater(t, third, second)
}
