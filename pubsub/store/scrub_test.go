package store

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// scrubAll reads everything in small steps.
func scrubAll(t *testing.T, s *Store) (problems int, bytes int64) {
	t.Helper()
	var from ScrubPosition
	for range 10_000 {
		r, err := s.Scrub(t.Context(), from, 3000)
		require.NoError(t, err)
		problems, bytes = problems+r.Problems, bytes+r.Bytes
		if r.End {
			return problems, bytes
		}
		require.NotEqual(t, from, r.Next, "it goes on")
		from = r.Next
	}
	t.Fatal("no end")
	return 0, 0
}

// Damage in a full segment that nobody reads is found in the background, in every partition that has batches there, and
// told as that of any read; what is whole is no problem.
func TestScrubFindsDamageInFullSegments(t *testing.T) {
	fs, _ := several(t, 1)
	s := open(t, fs, testConfig())
	problems, whole := scrubAll(t, s)
	require.Zero(t, problems)
	require.NotZero(t, whole)
	require.NoError(t, s.Close())

	require.NoError(t, fs.Corrupt(logName(2), func(b []byte) []byte { b[len(b)/2] ^= 4; return b }))
	s = open(t, fs, testConfig())
	var told []ID
	s.OnDamage(func(id ID, err error) {
		require.True(t, isDamage(err))
		told = append(told, id)
	})
	problems, rest := scrubAll(t, s)
	require.Equal(t, 1, problems)
	require.Len(t, told, 1)
	require.Less(t, rest, whole)
	for problems > 0 { // as its owner does: first the index file is rebuilt, then the partition is cut
		_, _, err := s.Partition(told[0]).Mend(mustDamage(t, s, told[0]))
		require.NoError(t, err)
		synced(t, s)
		problems, _ = scrubAll(t, s)
		require.LessOrEqual(t, len(told), 20)
	}
}

// mustDamage is the error of a read of a damaged partition.
func mustDamage(t *testing.T, s *Store, id ID) error {
	t.Helper()
	p := s.Partition(id)
	for at := p.Start(); ; {
		b, err := p.Read(at, 1, p.DurableEnd())
		if err != nil {
			return err
		}
		require.NotEmpty(t, b)
		at, err = eachOf(b, noBatch)
		require.NoError(t, err)
	}
}
