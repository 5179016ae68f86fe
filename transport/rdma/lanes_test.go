package rdma

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/transport"
	"github.com/bornode/bornode/transport/conformance"
	"github.com/bornode/bornode/transport/rdma/fabric"
	"github.com/bornode/bornode/transport/rdma/sim"
)

// TestA4BytesBefore: with the bulk ring full of slices, a lane-0 frame that arrives waits behind at most one slice and
// the burst limit.
func TestA4BytesBefore(t *testing.T) {
	cfg := testConfig()
	x, y := channels(t, openDevice(t, openSHM(t), cfg), openDevice(t, openSHM(t), cfg))
	var bulk []transport.Frame
	for under := 0; ; {
		f := testFrame(transport.LaneCatchUp, len(bulk), transport.MaxSliceBytes)
		if under += len(f.Payload) + transport.HeaderBytes; under > x.Limits().UnacknowledgedBytes {
			break
		}
		bulk = append(bulk, f)
	}
	require.Greater(t, len(bulk), 4)
	for at := range bulk[:len(bulk)-1] { // the frame comes while this one is read
		require.NoError(t, x.WriteFrames(bulk))
		for range at {
			_, err := readFrame(y)
			require.NoError(t, err)
		}
		require.NoError(t, x.WriteFrames([]transport.Frame{testFrame(transport.LaneConsensus, at, 500)}))
		before, read := 0, at
		for {
			f, err := readFrame(y)
			require.NoError(t, err)
			if f.Header.Lane == transport.LaneConsensus {
				break
			}
			before += len(f.Payload)
			read++
		}
		require.LessOrEqual(t, before, transport.MaxSliceBytes+transport.BurstBytes)
		for ; read < len(bulk); read++ {
			_, err := readFrame(y)
			require.NoError(t, err)
		}
	}
}

// TestA4BatchOrder: of a batch whose bulk does not fit the ring, lane 0 goes out before anybody waits.
func TestA4BatchOrder(t *testing.T) {
	eachFabric(t, testConfig(), func(t *testing.T, a, b *Device) {
		x, y := channels(t, a, b)
		var batch []transport.Frame
		for i := range 2 * a.cfg.BulkRingBytes / transport.MaxSliceBytes {
			batch = append(batch, testFrame(transport.LaneCatchUp, i, transport.MaxSliceBytes))
		}
		bulk := len(batch)
		batch = append(batch, testFrame(transport.LaneConsensus, 7, 100))
		wrote := make(chan error, 1)
		go func() { wrote <- x.WriteFrames(batch) }()
		waitFor(t, func() bool { return x.Counters()["room_waits"] > 0 })
		waitFor(t, func() bool { return y.Counters()["immediates"] > 1 })
		f, err := readFrame(y)
		require.NoError(t, err)
		require.Equal(t, transport.LaneConsensus, f.Header.Lane)
		for i := range bulk {
			f, err := readFrame(y)
			require.NoError(t, err)
			require.EqualValues(t, i, f.Header.Sequence)
		}
		require.NoError(t, <-wrote)
	})
}

// TestA4NeverFull: what the link may have under way on lanes 1-3 always fits the ring, also in the smallest frames, so
// the writer is always free for lane 0.
func TestA4NeverFull(t *testing.T) {
	for _, bulkRing := range []int{MinRingBytes, DefaultConfig().BulkRingBytes} {
		for name, open := range hostileFabrics() {
			t.Run(name, func(t *testing.T) {
				cfg := testConfig()
				cfg.BulkRingBytes = bulkRing
				device := open(t)
				n := &directNet{open: func(_ testing.TB, name string) fabric.Device { return device(name) }, cfg: cfg,
					hosts: make(map[transport.PeerID]*directHost)}
				a, b := n.newHost(t, hostName(0), conformance.Config()), n.newHost(t, hostName(1), conformance.Config())
				t.Cleanup(func() { require.NoError(t, errors.Join(a.Close(), b.Close())) })
				la, lb := dial(t, a, b)
				for _, size := range []int{0, 1, 33, 2000, transport.MaxSliceBytes, 1 << 20} {
					count := min(20_000, (8<<20)/(size+1)+1)
					errs := make(chan error, 2)
					sizes := make([]int, count)
					for i := range sizes {
						sizes[i] = size
					}
					go func() { errs <- say(patient(t), la, transport.LaneTopics, sizes) }()
					go func() { errs <- hear(patient(t), lb, transport.LaneTopics, sizes) }()
					require.NoError(t, errors.Join(<-errs, <-errs), "size %d", size)
				}
				require.Zero(t, la.Path().Counters["room_waits"])
				if !a.dev.Caps().MapsRemote {
					require.LessOrEqual(t, a.dev.all()[0].Limits().UnacknowledgedBytes, transport.UnacknowledgedBytes,
						"a NIC works in order: what was posted before is waited for")
				}
				healthy(t, a.dev, b.dev)
			})
		}
	}
}

// TestA5A6ManyPeers: N peers send all at once, both ways, over one device: no registration while they do, no missing
// receive entry, no overrun, no lost event.
func TestA5A6ManyPeers(t *testing.T) {
	const peers = 12
	for name, open := range hostileFabrics() {
		t.Run(name, func(t *testing.T) {
			device := open(t)
			cfg := suiteConfig()
			cfg.MaxChannels = peers
			hub := openDevice(t, device("hub"), cfg)
			type pair struct{ x, y *Channel }
			var pairs []pair
			var all []*Device
			for range peers {
				d := openDevice(t, device("peer"), cfg)
				x, y := channels(t, hub, d)
				pairs, all = append(pairs, pair{x, y}), append(all, d)
			}
			before := hub.Stats()
			errs := make(chan error, peers)
			for _, p := range pairs {
				go func() { errs <- traffic(p.x, p.y, pick(300, 3000), 10_000) }()
			}
			for range peers {
				require.NoError(t, <-errs)
			}
			require.Equal(t, before.Registrations, hub.Stats().Registrations)
			require.Equal(t, before.PoolBytes, hub.Stats().PoolBytes)
			healthy(t, append(all, hub)...)
		})
	}
}

// TestNoAllocations: carrying frames allocates nothing.
func TestNoAllocations(t *testing.T) {
	if raceDetector {
		return // it allocates by itself
	}
	x, y := channels(t, openDevice(t, openSHM(t), testConfig()), openDevice(t, openSHM(t), testConfig()))
	buf := make([]byte, transport.MaxSliceBytes)
	for _, size := range []int{64, 3000, transport.MaxSliceBytes} {
		batch := []transport.Frame{testFrame(0, 0, size), testFrame(2, 0, size)}
		got := testing.AllocsPerRun(500, func() {
			if x.WriteFrames(batch) != nil {
				t.Error(x.Err())
			}
			for range batch {
				h, err := y.ReadHeader()
				if err == nil {
					err = y.ReadPayload(buf[:h.Length])
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
		require.Less(t, got, 0.5, "size %d", size) // a wake-up of the other poller may
	}
}

// TestWrapOfRequests: the numbers of work requests pass 2^32.
func TestWrapOfRequests(t *testing.T) {
	a, b, _ := simPair(t, 1, sim.Faults{}, testConfig())
	x, err := a.NewChannel(context.Background(), "b")
	require.NoError(t, err)
	y, err := b.NewChannel(context.Background(), "a")
	require.NoError(t, err)
	x.flow.posted = 1<<32 - 50
	x.flow.completed.Store(x.flow.posted)
	require.NoError(t, join(patient(t), x, y))
	require.NoError(t, traffic(x, y, 2000, 1000))
	x.tx.Lock() // credits may still be on their way
	defer x.tx.Unlock()
	require.Less(t, x.flow.posted, uint32(1<<31))
}
