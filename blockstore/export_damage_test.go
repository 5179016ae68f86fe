package blockstore

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/syndtr/goleveldb/leveldb/opt"
)

// ForgetSegments takes entries out of the list of sealed segments of a closed store.
func ForgetSegments(t *testing.T, cfg Config, which ...int) {
	t.Helper()
	s, err := Open(cfg, nil, nil)
	require.NoError(t, err)
	segs := s.Segments()
	for _, i := range which {
		require.NoError(t, s.meta.Delete(segmentKey(segs[i].Number), &opt.WriteOptions{Sync: true}))
	}
	require.NoError(t, s.Close())
}
