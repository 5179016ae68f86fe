package kafka

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

// replying is a connection in a Reply of who.
func replying(b *budget, who string) *Conn {
	return &Conn{s: &Server{answers: b, metrics: newMetrics(nil, nil)}, current: &exchange{who: who}}
}

func TestAnswersAreCountedByWhatTheyHold(t *testing.T) {
	b := newBudget(1000, 500)
	c := replying(b, "a")
	require.Equal(t, 400, c.Grant(400))
	require.True(t, c.Keep(100))
	require.EqualValues(t, 100, b.inUse(1000), "what is not used is free again")
	require.True(t, c.Keep(300), "one batch may be more than was granted")
	require.EqualValues(t, 300, b.inUse(1000))

	other := replying(b, "a")
	require.False(t, other.Keep(300), "beyond the share of one principal")
	require.EqualValues(t, 300, b.inUse(1000))
	require.True(t, replying(b, "b").Keep(300), "another principal has room")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, other.Await(ctx, 300), context.Canceled)
	done := make(chan error, 1)
	go func() { done <- other.Await(t.Context(), 300) }()
	c.release(c.current)
	require.NoError(t, <-done)
	require.EqualValues(t, 600, b.inUse(1000))
	other.release(other.current)
	require.NoError(t, other.Await(t.Context(), 5000), "one that is larger than any share goes alone")
	require.EqualValues(t, 800, b.inUse(1000))
}
