package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// coordinator names the broker that all are told to be the groups'.
func (w *world) coordinator(id int) {
	w.kafka.Lock()
	defer w.kafka.Unlock()
	w.kafka.Coordinator = id
}

func (w *world) member(c *Client, topics ...string) *Consumer {
	w.t.Helper()
	x, err := c.Consumer(ConsumerConfig{Group: "acme.readers", Topics: append(topics, "acme.orders"),
		Options: []kgo.Opt{kgo.HeartbeatInterval(10 * time.Millisecond)}})
	require.NoError(w.t, err)
	return x
}

// reading is a world with a member of a group that has read two records.
func reading(t *testing.T) (*world, *Client, *Consumer) {
	w := newWorld(t)
	c := w.client(w.owner)
	w.topic(w.admin(c), "acme.orders", false)
	w.send(c, "acme.orders", "one", "two")
	x := w.member(c)
	require.Equal(t, []string{"one", "two"}, w.receive(x, 2))
	return w, c, x
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

// until waits for what another goroutine does.
func (w *world) until(done func() bool) {
	w.t.Helper()
	require.Eventually(w.t, done, patience, time.Millisecond)
}

func (w *world) expel(on bool) {
	w.kafka.Lock()
	defer w.kafka.Unlock()
	w.kafka.Expel = on
}

// committed is how far the group is.
func (w *world) committed() int64 {
	at, _ := w.kafka.Committed("acme.readers", "acme.orders", 0)
	return at
}

// Who reads seldom hears of the end of a session when it is a member again.
func TestALateReaderIsAMember(t *testing.T) {
	w := newWorld(t)
	c := w.client(w.owner)
	w.topic(w.admin(c), "acme.orders", false)
	w.send(c, "acme.orders", "one")
	x := w.member(c)
	require.Equal(t, []string{"one"}, w.receive(x, 1))
	require.NoError(t, x.Commit(w.ctx))
	w.expel(true)
	w.until(func() bool { id, _ := x.kafka.GroupMetadata(); return id == "" })
	w.expel(false)
	_, session := x.kafka.GroupMetadata()
	w.until(func() bool { _, now := x.kafka.GroupMetadata(); return now > session })
	w.until(func() bool { return !errors.Is(w.waits(x), ErrNotJoined) })
}

// A commit that had to wait while the group was divided anew is not sent as that of the member of the new session: what it
// commits may be another's then.
func TestACommitIsOfOneSession(t *testing.T) {
	w, _, x := reading(t)
	m := member{x: x}
	m.id, m.generation = x.kafka.GroupMetadata()
	old := offsets(x.kafka.UncommittedOffsets())
	x.kafka.ForceRebalance()
	w.until(func() bool { _, now := x.kafka.GroupMetadata(); return now > m.generation })
	w.kafka.Commit("acme.readers", "acme.orders", 0, 5)
	require.ErrorIs(t, m.commit(w.ctx, old), kerr.RebalanceInProgress)
	require.Equal(t, int64(5), w.committed())
}

func TestWhatIsCommittedStaysSo(t *testing.T) {
	w, c, x := reading(t)
	require.NoError(t, x.Commit(w.ctx))
	w.send(c, "acme.orders", "three", "four")
	require.Equal(t, []string{"three", "four"}, w.receive(x, 2))
	for _, s := range []struct{ proved, want int64 }{{0, 2}, {1, 2}, {2, 2}, {3, 3}, {2, 3}, {9, 4}} {
		require.NoError(t, x.commit(w.ctx, func(context.Context, string, int32) (int64, error) { return s.proved, nil }))
		require.Equal(t, s.want, w.committed(), "%d is proved", s.proved)
	}
}

// What stays refused is told at once, also when something else is refused for a while.
func TestARefusedCommitIsTold(t *testing.T) {
	w := newWorld(t)
	c := w.client(w.owner)
	a := w.admin(c)
	for _, topic := range []string{"acme.orders", "acme.bills"} {
		w.topic(a, topic, false)
		w.send(c, topic, "one")
	}
	x := w.member(c, "acme.bills")
	w.receive(x, 2)
	for _, refused := range []string{"acme.orders", "acme.bills"} {
		w.kafka.Lock()
		w.kafka.NoCommit = func(topic string) int16 {
			if topic == refused {
				return kerr.GroupAuthorizationFailed.Code
			}
			return kerr.UnknownTopicOrPartition.Code
		}
		w.kafka.Unlock()
		err := x.Commit(w.ctx)
		require.ErrorIs(t, err, kerr.GroupAuthorizationFailed)
		require.ErrorContains(t, err, refused)
		require.NotErrorIs(t, err, ErrRebalanced)
	}
}

func TestWhatPasses(t *testing.T) {
	for _, err := range []error{kerr.NotCoordinator, kerr.CoordinatorNotAvailable, kerr.UnknownMemberID, kerr.IllegalGeneration, io.EOF, net.ErrClosed,
		&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}} {
		require.True(t, passing(fmt.Errorf("asked: %w", err)), "%v", err)
		require.True(t, rejoins(&kgo.ErrGroupSession{Err: err}), "%v", err)
	}
	for _, err := range []error{kerr.GroupAuthorizationFailed, kerr.InvalidGroupID, kerr.FencedInstanceID, kerr.GroupMaxSizeReached, kerr.TopicAuthorizationFailed,
		kgo.ErrClientClosed, fmt.Errorf("%w: %w", ErrLogin, kerr.SaslAuthenticationFailed), fmt.Errorf("%w: %w", ErrToken, io.EOF),
		&net.OpError{Op: "remote error", Err: tls.AlertError(42)}} {
		require.False(t, passing(fmt.Errorf("asked: %w", err)), "%v", err)
		require.False(t, rejoins(&kgo.ErrGroupSession{Err: err}), "%v", err)
	}
}

// Commits from several goroutines, while another reads.
func TestCommitsAtOnce(t *testing.T) {
	w := newWorld(t)
	c := w.client(w.owner)
	w.topic(w.admin(c), "acme.orders", false)
	x := w.member(c)
	const all = 100
	done := make(chan error, 2)
	var want []string
	for range 2 {
		go func() {
			for w.committed() < all && w.ctx.Err() == nil {
				before := w.committed()
				if err := x.Commit(w.ctx); err != nil {
					done <- err
					return
				}
				if now := w.committed(); now < before {
					done <- fmt.Errorf("back from %d to %d", before, now)
					return
				}
			}
			done <- w.ctx.Err()
		}()
	}
	for i := range all {
		want = append(want, strconv.Itoa(i))
		w.send(c, "acme.orders", want[i])
		require.Equal(t, want[i:], w.receive(x, 1))
	}
	for range 2 {
		require.NoError(t, <-done)
	}
	w.send(c, "acme.orders", "more")
	w.receive(x, 1)
	x.Close()
	require.ErrorIs(t, x.Commit(w.ctx), ErrClosed)
	require.Equal(t, int64(all), w.committed())
}

// A member that was given up for dead does not take for committed what comes again.
func TestWhatTheGroupTookIsTold(t *testing.T) {
	w, _, x := reading(t)
	expel := func() {
		w.expel(true)
		for x.kafka.CommittedOffsets() != nil {
			_ = w.waits(x)
		}
	}
	expel()
	err := x.Commit(w.ctx)
	require.ErrorIs(t, err, ErrRebalanced)
	require.ErrorContains(t, err, "topic acme.orders, partition 0, before offset 2")
	require.NoError(t, x.Commit(w.ctx), "it is told once")
	w.expel(false)
	require.Equal(t, []string{"one", "two"}, w.receive(x, 2))
	require.NoError(t, x.Commit(w.ctx))
	at, _ := w.kafka.Committed("acme.readers", "acme.orders", 0)
	require.Equal(t, int64(2), at)
	expel()
	require.NoError(t, x.Commit(w.ctx), "what is committed was not taken away")
	require.ErrorIs(t, w.waits(x), ErrNotJoined)
}
