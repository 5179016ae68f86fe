package rdma

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/transport"
	"github.com/bornode/bornode/transport/conformance"
	"github.com/bornode/bornode/transport/rdma/fabric"
	"github.com/bornode/bornode/transport/rdma/sim"
)

// Tests here run in bubbles on virtual time. Nobody may spin there: time stands still as long as anybody runs.

// bubble makes hosts on a simulated network.
func bubble(t testing.TB, seed uint64, f sim.Faults, cfg Config, hosts int) ([]*directHost, *sim.Network) {
	n := sim.NewNetwork(seed, f)
	cfg.Spin = 0
	d := &directNet{cfg: cfg, hosts: make(map[transport.PeerID]*directHost),
		open: func(_ testing.TB, name string) fabric.Device { return n.NewDevice(name) }}
	list := make([]*directHost, hosts)
	link := conformance.Config()
	link.Heartbeat = 3 * time.Second
	// One who only waits, for a hello or for credits, does not notice that its peer has gone.
	link.HelloTimeout, link.IdleTimeout = 10*time.Second, 10*time.Second
	for i := range list {
		list[i] = d.newHost(t, hostName(i), link)
	}
	t.Cleanup(func() {
		for _, h := range list {
			require.NoError(t, h.Close())
		}
		require.Zero(t, n.Counters().Misuses, "rules of the fabric were broken")
	})
	return list, n
}

func dial(t testing.TB, from, to *directHost) (here, there transport.Link) {
	t.Helper()
	require.NoError(t, from.Dial(context.Background(), to.Addrs()[0]))
	return <-from.Links(), <-to.Links()
}

// breakingFaults are those of the seed, with breaks that let a connection get somewhere.
func breakingFaults(seed uint64) sim.Faults {
	f := sim.RandomFaults(seed)
	if f.BreakAfter > 0 {
		f.BreakAfter += 20
	}
	f.Breaks /= 2
	return f
}

// TestSeeds: whatever the fabric does, the links carry every message once and in order.
func TestSeeds(t *testing.T) {
	first, last := seedRange(80, 800)
	var broken uint64
	for seed := first; seed < last; seed++ {
		f := breakingFaults(seed)
		synctest.Test(t, func(t *testing.T) {
			cfg := suiteConfig()
			cfg.Entries = []int{4, 7, 64}[seed%3]
			hosts, n := bubble(t, seed, f, cfg, 2)
			la, lb := dial(t, hosts[0], hosts[1])
			if err := babble(la, lb, seed); err != nil {
				if begunAlone(la) || begunAlone(lb) {
					return
				}
				t.Fatalf("seed %d, %s: %v", seed, f, err)
			}
			require.NoError(t, la.Err())
			require.NoError(t, lb.Err())
			c := n.Counters()
			broken += c.Breaks
			require.Zero(t, c.RNR, "seed %d: receiver not ready", seed)
			require.Zero(t, c.Overruns, "seed %d", seed)
			healthy(t, hosts[0].dev, hosts[1].dev)
		})
		if t.Failed() {
			return
		}
	}
	require.True(t, broken > 0 || last == first+1)
}

// begunAlone tells that a break while the hellos were exchanged left a side with a link that the other knew nothing of:
// the next connection ended it, and nothing ever came over it.
func begunAlone(l transport.Link) bool {
	received := uint64(0)
	for _, lane := range l.Stats().Lanes {
		received += lane.MessagesReceived
	}
	return errors.Is(l.Err(), transport.ErrSessionLost) && received == 0
}

// babble sends on all lanes both ways at once.
func babble(la, lb transport.Link, seed uint64) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	const jobs = 2 * 2 * transport.Lanes
	errs := make(chan error, jobs)
	for i, dir := range [][2]transport.Link{{la, lb}, {lb, la}} {
		for lane := range transport.Lane(transport.Lanes) {
			r := rand.New(rand.NewPCG(seed, uint64(i)<<8|uint64(lane)))
			sizes := make([]int, r.IntN(60))
			for j := range sizes {
				sizes[j] = r.IntN([]int{10, 3000, 200_000}[r.IntN(3)])
			}
			go func() { errs <- say(ctx, dir[0], lane, sizes) }()
			go func() { errs <- hear(ctx, dir[1], lane, sizes) }()
		}
	}
	var all error
	for range jobs {
		if err := <-errs; err != nil {
			all = errors.Join(all, err)
			cancel()
		}
	}
	return all
}

func say(ctx context.Context, l transport.Link, lane transport.Lane, sizes []int) error {
	for i, n := range sizes {
		f := testFrame(lane, i, n)
		if err := l.Send(ctx, transport.Message{Lane: lane, Type: byte(i), Payload: f.Payload}); err != nil {
			return fmt.Errorf("lane %s, message %d: %w", lane, i, err)
		}
	}
	return nil
}

func hear(ctx context.Context, l transport.Link, lane transport.Lane, sizes []int) error {
	for i, n := range sizes {
		m, err := l.RecvLane(ctx, lane)
		if err != nil {
			return fmt.Errorf("lane %s, waiting for message %d: %w", lane, i, err)
		}
		if want := testFrame(lane, i, n); string(want.Payload) != string(m.Payload) || m.Type != byte(i) {
			return fmt.Errorf("lane %s: message %d is another one: type %d, %d bytes", lane, i, m.Type, len(m.Payload))
		}
	}
	return nil
}

// TestIdle: 20 peers that only exchange heartbeats wake a device less than 50 times a second (A7).
func TestIdle(t *testing.T) {
	for _, mapped := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			const peers, seconds = 20, 300
			cfg := suiteConfig()
			cfg.MaxChannels = peers
			hosts, _ := bubble(t, 1, sim.Faults{MapsRemote: mapped}, cfg, peers+1)
			for _, h := range hosts[1:] {
				dial(t, hosts[0], h)
			}
			time.Sleep(10 * time.Second) // virtual: until all is quiet
			before := hosts[0].dev.Stats()
			time.Sleep(seconds * time.Second)
			after := hosts[0].dev.Stats()
			woken := after.Wakeups + after.GuardTicks + after.ReaderWakeups - before.Wakeups - before.GuardTicks - before.ReaderWakeups
			t.Logf("%.1f wake-ups a second: %+v", float64(woken)/seconds, after)
			require.Less(t, float64(woken)/seconds, 50.0)
			require.NotZero(t, woken)
		})
	}
}

// seedRange lets one seed be run again: BORNODE_SEED=74 go test -run TestSeeds -count 100.
func seedRange(short, whenLong int) (first, last uint64) {
	if one, err := strconv.ParseUint(os.Getenv("BORNODE_SEED"), 10, 64); err == nil {
		return one, one + 1
	}
	return 0, uint64(pick(short, whenLong))
}
