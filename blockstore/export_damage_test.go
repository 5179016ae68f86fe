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

// SwapLIB gives a closed store the LIB that was read from it before, nil for its present one, and returns the one it had.
func SwapLIB(t *testing.T, cfg Config, earlier []byte) (present []byte) {
	t.Helper()
	s, err := Open(cfg, nil, nil)
	require.NoError(t, err)
	present, err = get(s.meta, []byte(keyLIB))
	require.NoError(t, err)
	if earlier != nil {
		require.NoError(t, s.meta.Put([]byte(keyLIB), earlier, &opt.WriteOptions{Sync: true}))
	}
	require.NoError(t, s.Close())
	return present
}

// PutFormat gives a closed store another format.
func PutFormat(t *testing.T, cfg Config, version string) {
	t.Helper()
	s, err := Open(cfg, nil, nil)
	require.NoError(t, err)
	require.NoError(t, s.meta.Put([]byte(keyFormat), []byte(version), &opt.WriteOptions{Sync: true}))
	require.NoError(t, s.Close())
}
