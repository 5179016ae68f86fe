package conformance

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/transport"
)

func (h Harness) count(short, long int) int {
	if h.Long {
		return long
	}
	return short
}

func testOrder(t *testing.T, h Harness) {
	_, _, la, lb := pair(t, h, Config())
	require.True(t, lb.Incoming())
	require.False(t, la.Incoming())
	exchange(t, la, lb, 0, h.count(100, 2000), sizes)
	s := la.Stats()
	for lane, l := range s.Lanes {
		require.EqualValues(t, h.count(100, 2000), l.MessagesReceived, "lane %d", lane)
		require.EqualValues(t, h.count(100, 2000), l.MessagesSent, "lane %d", lane)
	}
	require.Zero(t, s.FramesResent)

	// Recv gives the lanes by priority: all four are there before it is asked.
	for lane := transport.Lanes - 1; lane >= 0; lane-- {
		require.NoError(t, la.Send(patient(t), message(transport.Lane(lane), lane, 100)))
	}
	require.Eventually(t, func() bool {
		n := 0
		for _, l := range lb.Stats().Lanes {
			n += l.UnreadMessages
		}
		return n == transport.Lanes
	}, Patience, time.Millisecond)
	for lane := range transport.Lane(transport.Lanes) {
		m, err := lb.Recv(patient(t))
		require.NoError(t, err)
		require.NoError(t, check(m, lane, int(lane), 100))
	}
	// An empty payload is a message too.
	require.NoError(t, la.Send(patient(t), transport.Message{Lane: transport.LaneTopics, Type: 9}))
	m, err := lb.Recv(patient(t))
	require.NoError(t, err)
	require.Equal(t, uint8(9), m.Type)
	require.Empty(t, m.Payload)
}

func testLarge(t *testing.T, h Harness) {
	_, _, la, lb := pair(t, h, Config())
	for lane := range transport.Lane(transport.Lanes) {
		limit := transport.MaxMessageBytes(lane)
		require.ErrorIs(t, la.Send(patient(t), transport.Message{Lane: lane, Payload: make([]byte, limit+1)}), transport.ErrTooLarge)
		require.False(t, la.TrySend(transport.Message{Lane: lane, Payload: make([]byte, limit+1)}))
		size := func(int) int { return limit }
		errs := make(chan error, 1)
		go func() { errs <- sendAll(patient(t), la, lane, 0, 2, size) }()
		require.NoError(t, receiveAll(patient(t), lb, lane, 0, 2, size))
		require.NoError(t, <-errs)
	}
	require.Error(t, la.Send(patient(t), transport.Message{Lane: transport.Lanes}))
}

func testWrap(t *testing.T, h Harness) {
	cfg := Config()
	cfg.FirstSequence = 1<<32 - 60
	_, _, la, lb := pair(t, h, cfg)
	// More than any lane's window, so that credit has to come back over the wrap too.
	exchange(t, la, lb, 0, 200, func(i int) int { return 9 + 300*i })
	require.NoError(t, la.Err())
	require.NoError(t, lb.Err())
}

// testCredits: a lane that nobody reads takes a bounded amount and holds back nothing but itself.
func testCredits(t *testing.T, h Harness) {
	_, _, la, lb := pair(t, h, Config())
	const size = 100_000
	for lane := transport.LaneTransactions; lane < transport.Lanes; lane++ {
		bound := transport.UnreadBytes(lane) + int(transport.LaneWindow(lane).Bytes) + transport.SendQueue(lane).Bytes + 2*size
		sent := 0
		short, cancel := context.WithCancel(context.Background())
		blocked := make(chan int)
		go func() {
			n := 0
			for ; la.Send(short, message(lane, n, size)) == nil; n++ {
			}
			blocked <- n
		}()
		// Stuck: the receiver holds what it may, and the queue is full.
		require.Eventually(t, func() bool {
			s, r := la.Stats().Lanes[lane], lb.Stats().Lanes[lane]
			return s.QueuedBytes >= transport.SendQueue(lane).Bytes && r.UnreadBytes > transport.UnreadBytes(lane)
		}, Patience, time.Millisecond)

		// Consensus passes, both ways.
		for i := range 20 {
			require.NoError(t, la.Send(patient(t), message(transport.LaneConsensus, i, 500)))
			m, err := lb.RecvLane(patient(t), transport.LaneConsensus)
			require.NoError(t, err)
			require.NoError(t, check(m, transport.LaneConsensus, i, 500))
		}
		cancel()
		sent = <-blocked
		require.LessOrEqual(t, sent*size, bound)
		require.NoError(t, receiveAll(patient(t), lb, lane, 0, sent, func(int) int { return size }))
	}
}

func testFullQueue(t *testing.T, h Harness) {
	_, _, la, lb := pair(t, h, Config())
	lane := transport.LaneTransactions
	n := 0
	require.Eventually(t, func() bool {
		for la.TrySend(message(lane, n, 1000)) {
			n++
		}
		return lb.Stats().Lanes[lane].UnreadBytes > transport.UnreadBytes(lane)
	}, Patience, time.Millisecond)
	// Whether the queue has room again depends on how far credit reached; fill what is left.
	require.Eventually(t, func() bool {
		if la.TrySend(message(lane, n, 1000)) {
			n++
			return false
		}
		return true
	}, Patience, time.Microsecond)
	require.True(t, la.TrySend(message(transport.LaneConsensus, 0, 9)), "another lane has room")
	require.NoError(t, receiveAll(patient(t), lb, lane, 0, n, func(int) int { return 1000 }))
}

func testCancel(t *testing.T, h Harness) {
	_, _, la, lb := pair(t, h, Config())
	ctx, cancel := context.WithCancel(context.Background())
	errs := make(chan error, 2)
	go func() {
		_, err := la.Recv(ctx)
		errs <- err
	}()
	go func() {
		var err error
		for i := 0; err == nil; i++ {
			err = la.Send(ctx, message(transport.LaneTopics, i, 100_000))
		}
		errs <- err
	}()
	require.Eventually(t, func() bool {
		return la.Stats().Lanes[transport.LaneTopics].QueuedBytes >= transport.SendQueue(transport.LaneTopics).Bytes
	}, Patience, time.Millisecond)
	cancel()
	require.ErrorIs(t, <-errs, context.Canceled)
	require.ErrorIs(t, <-errs, context.Canceled)
	require.NoError(t, la.Err(), "a cancelled call does not hurt the link")
	require.NoError(t, lb.Send(patient(t), message(0, 1, 10)))
	m, err := la.Recv(patient(t))
	require.NoError(t, err)
	require.NoError(t, check(m, 0, 1, 10))
}

func testGoroutines(t *testing.T, h Harness) {
	before := runtime.NumGoroutine()
	cfg := Config()
	a, b := h.NewHost(t, 0, cfg), h.NewHost(t, 1, cfg)
	for range 3 {
		require.NoError(t, a.Dial(context.Background(), b.Addrs()[0]))
		la, lb := nextLink(t, a), nextLink(t, b)
		exchange(t, la, lb, 0, 10, sizes)
		a.Forget(b.ID())
		require.NoError(t, la.Close("done"))
		ended(t, lb)
	}
	require.NoError(t, a.Dial(context.Background(), b.Addrs()[0]))
	nextLink(t, a)
	require.NoError(t, a.Close())
	require.NoError(t, b.Close())
	goroutines(t, before+2) // the runtime's and the harness's own come and go
}
