package store

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/pubsub/batch"
)

func TestWhatIsAppendedIsReadAndSurvivesARestart(t *testing.T) {
	fs := newDisk()
	s := open(t, fs, testConfig())
	var want [3][][]byte
	for i := range 300 {
		p := create(t, s, int32(i%3))
		raw := plain(i, 1+i%4, 50+i%700)
		a := add(t, p, 2, raw)
		require.Equal(t, a.Next, p.End())
		require.Equal(t, a.Base+int64(1+i%4), a.Next)
		want[i%3] = append(want[i%3], append([]byte(nil), raw...))
	}
	check := func(s *Store) {
		for n := range want {
			p := s.Partition(id(int32(n)))
			require.Equal(t, want[n], all(t, p))
			require.Equal(t, []EpochStart{{2, 0}}, p.Epochs())
		}
	}
	check(s)
	sealed(t, s)
	check(s)
	require.NoError(t, s.Close())
	s = open(t, fs, testConfig())
	check(s)
	require.Equal(t, s.Partition(id(1)).End(), s.Partition(id(1)).DurableEnd())
	require.Len(t, s.List(), 3)
}

func TestReadGivesWholeBatchesBelowUpTo(t *testing.T) {
	s := open(t, newDisk(), testConfig())
	p, q := create(t, s, 0), create(t, s, 1)
	for i := range 100 {
		add(t, p, 0, plain(i, 3, 400))
		add(t, q, 0, plain(i, 1, 100+i))
	}
	sealed(t, s)
	size := batch.HeaderBytes + 400
	for _, c := range []struct {
		from, upTo int64
		max        int
		first      int64
		n          int
	}{{0, 300, 10 * size, 0, 10}, {1, 300, 1, 0, 1}, {2, 300, 0, 0, 1}, {30, 36, 1 << 20, 30, 2}, {30, 35, 1 << 20, 30, 1},
		{30, 32, 1 << 20, 30, 0}, {299, 300, 1 << 20, 297, 1}, {300, 300, 1 << 20, 0, 0}, {5, 300, 3*size - 1, 3, 2}, {0, everything, 1 << 30, 0, 100}} {
		b, err := p.Read(c.from, c.max, c.upTo)
		require.NoError(t, err)
		n, next := 0, c.first
		require.NoError(t, batch.Each(b, func(h batch.Header, _ []byte) error {
			require.Equal(t, next, h.BaseOffset)
			next = h.NextOffset()
			n++
			return nil
		}))
		require.Equal(t, c.n, n, "%+v", c)
	}
	_, err := p.Read(301, 10, 1000)
	require.ErrorIs(t, err, ErrOutOfRange)
	_, err = p.Read(-1, 10, 1000)
	require.ErrorIs(t, err, ErrOutOfRange)
}
