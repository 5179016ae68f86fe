package conformance

import (
	"context"
	"encoding/binary"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/transport"
	"github.com/bornode/bornode/transport/link"
)

// Patience is how long the suite waits for what must happen. It is generous: machines are loaded.
const Patience = 60 * time.Second

// Harness is what the suite needs of the transport under test.
type Harness struct {
	// NewHost starts the host number i, always with the same identity for the same i. The suite closes it.
	NewHost func(t testing.TB, i int, cfg link.Config) transport.Host
	// Addr is where others reach the host; Break works on connections dialled there.
	Addr func(t testing.TB, h transport.Host) string
	// Break cuts the connections between two hosts without either closing them, and returns how many there were.
	Break func(a, b transport.Host) int
	// Connections counts the connections between two hosts.
	Connections func(a, b transport.Host) int
	// Raw opens an authenticated connection to the host as the peer number i and leaves the frames to the caller.
	Raw func(t testing.TB, i int, target transport.Host) (transport.PeerID, transport.Provider)
	// Ready waits until a new pair of links is carried by what is under test; nil: from the start.
	Ready func(t testing.TB, la, lb transport.Link)
	// Long makes the suite move more.
	Long bool
}

// Config is the link configuration that the suite's hosts start from: patient where a loaded machine could cause a
// time-out, quick where a test waits for a retry.
func Config() link.Config {
	c := link.DefaultConfig()
	c.IdleTimeout = 2 * Patience
	c.ResumeTimeout = 2 * Patience
	c.HelloTimeout = Patience
	c.CloseTimeout = Patience // when it is over the link ends, with messages or the reason unsent
	c.BackoffMin = 5 * time.Millisecond
	c.BackoffMax = 100 * time.Millisecond
	return c
}

// Run runs the suite.
func Run(t *testing.T, h Harness) {
	tests := []struct {
		name string
		run  func(*testing.T, Harness)
	}{
		{"Order", testOrder},
		{"LargeMessages", testLarge},
		{"WrapAround", testWrap},
		{"CreditsPerLane", testCredits},
		{"Reconnect", testReconnect},
		{"SimultaneousDial", testSimultaneousDial},
		{"Restart", testRestart},
		{"SessionLost", testSessionLost},
		{"Close", testClose},
		{"CloseHost", testCloseHost},
		{"FullQueue", testFullQueue},
		{"Cancel", testCancel},
		{"Gate", testGate},
		{"RecheckGate", testRecheckGate},
		{"Disconnect", testDisconnect},
		{"BadAddress", testBadAddress},
		{"Hostile", testHostile},
		{"Flood", testFlood},
		{"Goroutines", testGoroutines},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) { test.run(t, h) })
	}
}

func start(t testing.TB, h Harness, i int, cfg link.Config) transport.Host {
	t.Helper()
	host := h.NewHost(t, i, cfg)
	t.Cleanup(func() { require.NoError(t, host.Close()) })
	return host
}

// pair starts hosts 0 and 1; 0 dials 1.
func pair(t testing.TB, h Harness, cfg link.Config) (a, b transport.Host, la, lb transport.Link) {
	t.Helper()
	a, b = start(t, h, 0, cfg), start(t, h, 1, cfg)
	require.NoError(t, a.Dial(context.Background(), h.Addr(t, b)))
	la, lb = nextLink(t, a), nextLink(t, b)
	require.Equal(t, b.ID(), la.Peer())
	require.Equal(t, a.ID(), lb.Peer())
	if h.Ready != nil {
		h.Ready(t, la, lb)
	}
	return a, b, la, lb
}

func nextLink(t testing.TB, h transport.Host) transport.Link {
	t.Helper()
	select {
	case l, ok := <-h.Links():
		require.True(t, ok, "the host closed its links")
		return l
	case <-time.After(Patience):
		require.FailNow(t, "no link came up")
		return nil
	}
}

func ended(t testing.TB, l transport.Link) error {
	t.Helper()
	select {
	case <-l.Done():
		require.Error(t, l.Err())
		return l.Err()
	case <-time.After(Patience):
		require.FailNow(t, "the link did not end")
		return nil
	}
}

func patient(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	t.Cleanup(cancel)
	return ctx
}

// payload is a message that says who it is: lane, number, and a pattern over the rest.
func payload(lane transport.Lane, number, size int) []byte {
	if size < 9 {
		size = 9
	}
	b := make([]byte, size)
	b[0] = byte(lane)
	binary.BigEndian.PutUint64(b[1:], uint64(number))
	seed := byte(number*7 + int(lane))
	for i := 9; i < len(b); i++ {
		b[i] = seed + byte(i) + byte(i>>8)
	}
	return b
}

// check tells what is wrong with a received message that should be the one payload made.
func check(m transport.Message, lane transport.Lane, number, size int) error {
	want := payload(lane, number, size)
	if m.Lane != lane || m.Type != byte(number) || string(m.Payload) != string(want) {
		got := uint64(0)
		if len(m.Payload) >= 9 {
			got = binary.BigEndian.Uint64(m.Payload[1:])
		}
		return fmt.Errorf("lane %s: got number %d (type %d, %d bytes), want number %d of %d bytes", m.Lane, got, m.Type, len(m.Payload), number, len(want))
	}
	return nil
}

func message(lane transport.Lane, number, size int) transport.Message {
	return transport.Message{Lane: lane, Type: byte(number), Payload: payload(lane, number, size)}
}

// sizes cycles through what meets edges of slicing.
func sizes(number int) int {
	list := [...]int{9, 64, 1000, transport.MaxSliceBytes - 100, transport.MaxSliceBytes, transport.MaxSliceBytes + 1, 300, 200_000, 40, 12}
	return list[number%len(list)]
}

// exchange sends count messages on every lane in both directions at once and checks order and content.
func exchange(t testing.TB, la, lb transport.Link, from, count int, size func(int) int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 4*Patience)
	defer cancel()
	jobs := 4 * transport.Lanes
	errs := make(chan error, jobs)
	for _, dir := range [][2]transport.Link{{la, lb}, {lb, la}} {
		for lane := range transport.Lane(transport.Lanes) {
			go func() { errs <- sendAll(ctx, dir[0], lane, from, count, size) }()
			go func() { errs <- receiveAll(ctx, dir[1], lane, from, count, size) }()
		}
	}
	for range jobs {
		if err := <-errs; err != nil {
			cancel()
			require.NoError(t, err)
		}
	}
}

func sendAll(ctx context.Context, l transport.Link, lane transport.Lane, from, count int, size func(int) int) error {
	for i := from; i < from+count; i++ {
		if err := l.Send(ctx, message(lane, i, size(i))); err != nil {
			return fmt.Errorf("sending %d on lane %s: %w", i, lane, err)
		}
	}
	return nil
}

func receiveAll(ctx context.Context, l transport.Link, lane transport.Lane, from, count int, size func(int) int) error {
	for i := from; i < from+count; i++ {
		m, err := l.RecvLane(ctx, lane)
		if err != nil {
			return fmt.Errorf("receiving %d on lane %s: %w", i, lane, err)
		}
		if err := check(m, lane, i, size(i)); err != nil {
			return err
		}
	}
	return nil
}

// goroutines waits until no more than n run, and reports.
func goroutines(t testing.TB, n int) {
	t.Helper()
	require.Eventually(t, func() bool { return runtime.NumGoroutine() <= n }, Patience, 20*time.Millisecond, "goroutines are left")
}
