package client

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
)

// coordinator names the broker that all are told to be the groups'.
func (w *world) coordinator(id int) {
	w.kafka.Lock()
	defer w.kafka.Unlock()
	w.kafka.Coordinator = id
}

func (w *world) member(c *Client) *Consumer {
	w.t.Helper()
	x, err := c.Consumer(ConsumerConfig{Group: "acme.readers", Topics: []string{"acme.orders"},
		Options: []kgo.Opt{kgo.HeartbeatInterval(10 * time.Millisecond)}})
	require.NoError(w.t, err)
	return x
}

// waits has a reader wait for a moment in which nothing comes, and tells why that was.
func (w *world) waits(x *Consumer) error {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, 20*time.Millisecond)
	defer cancel()
	_, err := x.Records(ctx)
	require.ErrorIs(w.t, err, context.DeadlineExceeded)
	return err
}

// Most brokers are dead, also the one that the others call the group's coordinator: that is no error of a reader's until
// it gives up, and it goes on when another takes the group over.
func TestADeadCoordinatorIsWaitedFor(t *testing.T) {
	w := newWorldOf(t, 8)
	c := w.client(w.owner)
	w.topic(w.admin(c), "acme.orders", false)
	w.send(c, "acme.orders", "one", "two")
	w.coordinator(7)
	for id := 2; id < 8; id++ {
		w.kafka.Kill(id)
	}
	x := w.member(c)
	for !errors.Is(w.waits(x), ErrNotJoined) {
	}
	w.coordinator(1)
	require.Equal(t, []string{"one", "two"}, w.receive(x, 2))
	require.NotErrorIs(t, w.waits(x), ErrNotJoined)

	w.coordinator(0)
	w.kafka.Kill(1)
	err := x.Commit(w.ctx)
	for errors.Is(err, ErrRebalanced) { // a heartbeat was first to find it dead
		require.Equal(t, []string{"one", "two"}, w.receive(x, 2))
		err = x.Commit(w.ctx)
	}
	require.NoError(t, err)
	at, _ := w.kafka.Committed("acme.readers", "acme.orders", 0)
	require.Equal(t, int64(2), at)
}

// A member that was given up for dead does not take for committed what comes again.
func TestWhatTheGroupTookIsTold(t *testing.T) {
	w := newWorld(t)
	c := w.client(w.owner)
	w.topic(w.admin(c), "acme.orders", false)
	w.send(c, "acme.orders", "one", "two")
	x := w.member(c)
	expel := func(on bool) {
		w.kafka.Lock()
		w.kafka.Expel = on
		w.kafka.Unlock()
		for on && x.kafka.CommittedOffsets() != nil {
			_ = w.waits(x)
		}
	}
	require.Equal(t, []string{"one", "two"}, w.receive(x, 2))
	expel(true)
	err := x.Commit(w.ctx)
	require.ErrorIs(t, err, ErrRebalanced)
	require.ErrorContains(t, err, "topic acme.orders, partition 0, before offset 2")
	require.NoError(t, x.Commit(w.ctx), "it is told once")
	expel(false)
	require.Equal(t, []string{"one", "two"}, w.receive(x, 2))
	require.NoError(t, x.Commit(w.ctx))
	at, _ := w.kafka.Committed("acme.readers", "acme.orders", 0)
	require.Equal(t, int64(2), at)
	expel(true)
	require.NoError(t, x.Commit(w.ctx), "what is committed was not taken away")
	require.ErrorIs(t, w.waits(x), ErrNotJoined)
}
