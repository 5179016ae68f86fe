package contracts

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestQuietEpochKeepsTheSchedule(t *testing.T) {
	w := newWorld(t, 4, 0, nil)
	before := w.schedule()
	require.Equal(t, before, w.endEpoch())
	require.Equal(t, before, w.schedule())
	require.Equal(t, before, w.endEpoch(Missed{0, 100}, Missed{1, 100}), "nobody takes the seats")
	require.Equal(t, uint64(100), w.candidate(w.ops[0]).Missed)
}
