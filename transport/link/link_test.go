package link

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/transport"
)

func TestConfig(t *testing.T) {
	c := DefaultConfig()
	require.NoError(t, c.Validate())
	for i, change := range []func(*Config){
		func(c *Config) { c.Heartbeat = 0 },
		func(c *Config) { c.IdleTimeout = c.Heartbeat },
		func(c *Config) { c.ResumeTimeout = 0 },
		func(c *Config) { c.HelloTimeout = -1 },
		func(c *Config) { c.CloseTimeout = 0 },
		func(c *Config) { c.BackoffMax = c.BackoffMin - 1 },
		func(c *Config) { c.MaxPeers = 0 },
	} {
		c := DefaultConfig()
		change(&c)
		require.Error(t, c.Validate(), i)
		_, err := NewPeers(c, "a", nil, nil, nil)
		require.Error(t, err)
	}
}

func TestDeque(t *testing.T) {
	var d deque[int]
	next, want := 0, 0
	for i := range 10_000 {
		if rand.N(2) == 0 || d.len() == 0 {
			d.push(next)
			next++
		} else {
			require.Equal(t, want, *d.at(0))
			require.Equal(t, want+d.len()-1, *d.at(d.len() - 1))
			require.Equal(t, want, d.pop(), i)
			want++
		}
		require.Equal(t, next-want, d.len())
	}
}

func TestAdvance(t *testing.T) {
	require.EqualValues(t, 1<<32+3, advance(1<<32-2, 3), "over the wrap")
	require.EqualValues(t, 1<<33, advance(1<<33, 1<<32-5), "behind: ignored")
	require.EqualValues(t, 7, advance(7, 7))
}

// TestConsensusWaitsForOneBurst is A4: whenever a lane-0 message is sent, at most one slice and BurstBytes of other
// lanes go out before it.
func TestConsensusWaitsForOneBurst(t *testing.T) {
	a, b := newTestPeers(t, testConfig(), "a"), newTestPeers(t, testConfig(), "b")
	pa, pb := testPipes("test")
	batches := make(chan []transport.Frame)
	pa.step = make(chan struct{})
	go func() { pa.step <- struct{}{} }() // the hello passes
	pa.wrote = func(f []transport.Frame) {
		if f[0].Header.Type == transport.ControlHello && f[0].Header.Flags&transport.FlagControl != 0 {
			return
		}
		select {
		case batches <- append([]transport.Frame(nil), f...):
		case <-pa.closed:
		}
	}
	attachBoth(t, a, b, pa, pb)
	la, lb := <-a.Links(), <-b.Links()
	go func() { // the peer reads all, so that credit never holds anything back
		for {
			if _, err := lb.Recv(context.Background()); err != nil {
				return
			}
		}
	}()
	for lane := transport.LaneTransactions; lane < transport.Lanes; lane++ {
		go func() {
			for la.Send(context.Background(), transport.Message{Lane: lane, Payload: make([]byte, 300_000)}) == nil {
			}
		}()
	}
	bound := transport.BurstBytes + transport.MaxSliceBytes + transport.HeaderBytes
	var sent uint64
	var served [transport.Lanes]int
	for round := range 300 {
		batch := <-batches // the writer is inside its write of this batch, until the next step
		waited := lower(batch, &served)
		if round%3 != 0 {
			pa.step <- struct{}{}
			continue
		}
		sent++
		require.NoError(t, la.Send(within(t), transport.Message{Payload: binary.BigEndian.AppendUint64(nil, sent)}))
		for found := false; !found; {
			pa.step <- struct{}{}
			next := <-batches
			for _, f := range next {
				if f.Header.Flags&transport.FlagControl != 0 {
					continue
				}
				if f.Header.Lane == transport.LaneConsensus {
					require.Equal(t, sent, binary.BigEndian.Uint64(f.Payload))
					found = true
					break
				}
				waited += transport.HeaderBytes + len(f.Payload)
			}
			require.LessOrEqual(t, waited, bound)
			lower(next, &served)
		}
		pa.step <- struct{}{}
	}
	for lane := transport.LaneTransactions; lane < transport.Lanes; lane++ {
		require.Positive(t, served[lane], "lane %d starved", lane)
	}
	require.Greater(t, served[1], served[2])
	require.NoError(t, pa.Close())
}

func lower(batch []transport.Frame, served *[transport.Lanes]int) int {
	n := 0
	for _, f := range batch {
		if f.Header.Flags&transport.FlagControl == 0 && f.Header.Lane != transport.LaneConsensus {
			n += transport.HeaderBytes + len(f.Payload)
			served[f.Header.Lane] += len(f.Payload)
		}
	}
	return n
}

// TestChangeOfProvider moves a link under load from one provider to others, some of which break: nothing is lost,
// nothing doubled, order kept. Half of the providers want checksums.
func TestChangeOfProvider(t *testing.T) {
	a, b := newTestPeers(t, testConfig(), "a"), newTestPeers(t, testConfig(), "b")
	x, y := testPipes("first")
	attachBoth(t, a, b, x, y)
	la, lb := <-a.Links(), <-b.Links()
	const count = 3000
	errs := make(chan error, 2*transport.Lanes*2)
	for _, dir := range [][2]transport.Link{{la, lb}, {lb, la}} {
		for lane := range transport.Lane(transport.Lanes) {
			go func() { errs <- feed(dir[0], lane, count) }()
			go func() { errs <- expect(dir[1], lane, count) }()
		}
	}
	for i := range 40 {
		name := fmt.Sprintf("provider-%d", i)
		x, y := testPipes(name)
		x.checksum, y.checksum = i%2 == 0, i%2 == 0
		left := 20 + rand.N(200)
		if i%4 == 3 {
			var mu sync.Mutex
			x.budget = func() bool { mu.Lock(); defer mu.Unlock(); left--; return left > 0 }
		}
		attachBoth(t, a, b, x, y)
		require.Eventually(t, func() bool {
			s := la.Stats()
			return !la.(*Link).up() || s.Reconnects == uint64(i+1) && s.Writes > 0
		}, patience, 1e5)
		if la.(*Link).up() {
			require.Equal(t, name, la.Provider())
		}
	}
	x, y = testPipes("last")
	attachBoth(t, a, b, x, y)
	for range cap(errs) {
		require.NoError(t, <-errs)
	}
	require.NoError(t, la.Err())
	require.EqualValues(t, 41, la.Stats().Reconnects)
	require.Empty(t, a.Links())
}

func feed(l transport.Link, lane transport.Lane, count int) error {
	for i := range count {
		b := make([]byte, 8+i%5000)
		binary.BigEndian.PutUint64(b, uint64(i))
		if err := l.Send(context.Background(), transport.Message{Lane: lane, Payload: b}); err != nil {
			return err
		}
	}
	return nil
}

func expect(l transport.Link, lane transport.Lane, count int) error {
	for i := range count {
		m, err := l.RecvLane(context.Background(), lane)
		if err != nil {
			return err
		}
		if len(m.Payload) != 8+i%5000 || binary.BigEndian.Uint64(m.Payload) != uint64(i) {
			return fmt.Errorf("lane %s: message %d has %d bytes and number %d", lane, i, len(m.Payload), binary.BigEndian.Uint64(m.Payload))
		}
	}
	return nil
}

// TestUnacknowledged: lanes 1-3 together never have more under way than the pipe's bound.
func TestUnacknowledged(t *testing.T) {
	a, b := newTestPeers(t, testConfig(), "a"), newTestPeers(t, testConfig(), "b")
	x, y := testPipes("test")
	y.step = make(chan struct{}) // the peer's acknowledgements wait
	total := make(chan int, 1)
	total <- 0
	x.wrote = func(f []transport.Frame) {
		var served [transport.Lanes]int
		total <- <-total + lower(f, &served)
	}
	go func() { y.step <- struct{}{} }() // its hello passes
	attachBoth(t, a, b, x, y)
	la, lb := <-a.Links(), <-b.Links()
	for lane := transport.LaneTransactions; lane < transport.Lanes; lane++ {
		require.NoError(t, la.Send(within(t), transport.Message{Lane: lane, Payload: make([]byte, 400_000)}))
	}
	sum := func() int { n := <-total; total <- n; return n }
	require.Eventually(t, func() bool { return sum() > transport.UnacknowledgedBytes-2000 }, patience, 1e6)
	require.NoError(t, la.Send(within(t), transport.Message{Payload: []byte("passes")}))
	m, err := lb.Recv(within(t))
	require.NoError(t, err)
	require.Equal(t, "passes", string(m.Payload))
	require.LessOrEqual(t, sum(), transport.UnacknowledgedBytes)
	go func() {
		for {
			select {
			case y.step <- struct{}{}:
			case <-y.closed:
				return
			}
		}
	}()
	for range 3 {
		_, err := lb.Recv(within(t))
		require.NoError(t, err)
	}
}

// TestHelloBeyondSent: a peer that resumes and claims frames it cannot have is refused.
func TestHelloBeyondSent(t *testing.T) {
	a, b := newTestPeers(t, testConfig(), "a"), newTestPeers(t, testConfig(), "b")
	x, y := testPipes("test")
	attachBoth(t, a, b, x, y)
	la, lb := <-a.Links(), <-b.Links()
	h := lb.(*Link).hello()
	h.Lanes[2].Received = 1
	x, y = testPipes("test")
	errs := make(chan error, 1)
	go func() { errs <- a.Attach(context.Background(), "b", false, x) }()
	_, err := y.ReadHeader()
	require.NoError(t, err)
	require.NoError(t, y.WriteFrames([]transport.Frame{control(transport.ControlHello, h.Encode())}))
	require.ErrorIs(t, <-errs, transport.ErrProtocol)
	<-la.Done()
	require.ErrorIs(t, la.Err(), transport.ErrProtocol)
}

// TestTableIsBounded: neither links nor connections being set up can pile up.
func TestTableIsBounded(t *testing.T) {
	cfg := testConfig()
	cfg.MaxPeers = 2
	a := newTestPeers(t, cfg, "a")
	for i := range 3 {
		b := newTestPeers(t, testConfig(), transport.PeerID(fmt.Sprintf("b%d", i)))
		x, y := testPipes("test")
		errs := make(chan error, 1)
		go func() { errs <- b.Attach(context.Background(), "a", false, y) }()
		err := a.Attach(context.Background(), b.self, true, x)
		if i < 2 {
			require.NoError(t, err)
			<-a.Links()
		} else {
			require.ErrorContains(t, err, "max_peers")
		}
		<-errs
	}
	a = newTestPeers(t, testConfig(), "z") // does not lead: it waits for hellos that never come
	errs := make(chan error, MaxSetups)
	var pipes []*testPipe
	for range MaxSetups {
		x, y := testPipes("test")
		pipes = append(pipes, y)
		go func() { errs <- a.Attach(context.Background(), "b", true, x) }()
	}
	require.Eventually(t, func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.table["b"] != nil && len(a.table["b"].pending) == MaxSetups
	}, patience, 1e6)
	x, _ := testPipes("test")
	require.ErrorContains(t, a.Attach(context.Background(), "b", true, x), "at once")
	for _, p := range pipes {
		require.NoError(t, p.Close())
		require.Error(t, <-errs)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	require.Empty(t, a.table, "nothing is kept of peers that failed")
}

func TestMetrics(t *testing.T) {
	reg := prometheus.NewRegistry()
	a, err := NewPeers(testConfig(), "a", nil, nil, reg)
	require.NoError(t, err)
	b := newTestPeers(t, testConfig(), "b")
	x, y := testPipes("test")
	attachBoth(t, a, b, x, y)
	la, lb := <-a.Links(), <-b.Links()
	require.NoError(t, la.Send(within(t), transport.Message{Lane: 1, Payload: make([]byte, 12345)}))
	_, err = lb.Recv(within(t))
	require.NoError(t, err)
	families, err := reg.Gather()
	require.NoError(t, err)
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			got[f.GetName()] += m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	require.Equal(t, 1.0, got["bornode_link_peers"])
	require.Equal(t, 12345.0, got["bornode_link_sent_bytes_total"])
	require.Equal(t, 1.0, got["bornode_link_sent_messages_total"])
	require.NoError(t, a.Close())
	_, err = NewPeers(testConfig(), "a", nil, nil, reg)
	require.Error(t, err, "metrics of two hosts in one registry")
}
