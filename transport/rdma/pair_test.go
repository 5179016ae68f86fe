package rdma

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"github.com/bornode/bornode/transport"
	"github.com/bornode/bornode/transport/conformance"
	"github.com/bornode/bornode/transport/rdma/fabric"
	"github.com/bornode/bornode/transport/rdma/shm"
	"github.com/bornode/bornode/transport/rdma/sim"
)

// testConfig is a small device's. A missing receive entry is an error, so that credits are proved to be enough.
func testConfig() Config {
	c := DefaultConfig()
	c.RNRRetry = false
	c.MaxChannels = 4
	c.PoolBytes = 64 << 20
	return c
}

func openDevice(t testing.TB, fd fabric.Device, cfg Config) *Device {
	t.Helper()
	d, err := Open(fd, cfg, testLog(t), nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

func testLog(t testing.TB) *zap.Logger {
	if _, bench := t.(*testing.B); bench || !testing.Verbose() {
		return zap.NewNop()
	}
	return zaptest.NewLogger(t)
}

// simPair gives two devices of a simulated network.
func simPair(t testing.TB, seed uint64, f sim.Faults, cfg Config) (a, b *Device, n *sim.Network) {
	t.Helper()
	n = sim.NewNetwork(seed, f)
	t.Cleanup(func() { require.Zero(t, n.Counters().Misuses, "rules of the fabric were broken") }) // after both are closed
	return openDevice(t, n.NewDevice("a"), cfg), openDevice(t, n.NewDevice("b"), cfg), n
}

func openSHM(t testing.TB) fabric.Device {
	t.Helper()
	fd, err := shm.Open(shm.DefaultConfig(), zap.NewNop())
	require.NoError(t, err)
	return fd
}

func patient(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), conformance.Patience)
	t.Cleanup(cancel)
	return ctx
}

// join connects two channels.
func join(ctx context.Context, x, y *Channel) error {
	errs := make(chan error, 1)
	go func() { errs <- x.Connect(ctx, y.Local(), true) }()
	err := y.Connect(ctx, x.Local(), false)
	return errors.Join(err, <-errs)
}

// channels makes a connected pair.
func channels(t testing.TB, a, b *Device) (x, y *Channel) {
	t.Helper()
	ctx := patient(t)
	x, err := a.NewChannel(ctx, "b")
	require.NoError(t, err)
	t.Cleanup(func() { _ = x.Close() })
	y, err = b.NewChannel(ctx, "a")
	require.NoError(t, err)
	t.Cleanup(func() { _ = y.Close() })
	require.NoError(t, join(ctx, x, y))
	return x, y
}

// testFrame is a whole message that says who it is.
func testFrame(lane transport.Lane, number, size int) transport.Frame {
	b := make([]byte, size)
	r := rand.New(rand.NewPCG(uint64(number), uint64(lane)))
	for i := range b {
		if i%64 == 0 || i == size-1 {
			b[i] = byte(r.Uint32())
		}
	}
	return transport.Frame{Payload: b, Header: transport.Header{
		Lane: lane, Flags: transport.FlagFirst | transport.FlagLast, Type: byte(number % 255), // 255 marks the end
		Length: uint32(size), Total: uint32(size), Sequence: uint32(number),
	}}
}

func readFrame(c *Channel) (transport.Frame, error) {
	h, err := c.ReadHeader()
	if err != nil {
		return transport.Frame{}, err
	}
	f := transport.Frame{Header: h, Payload: make([]byte, h.Length)}
	if h.Length > 0 {
		err = c.ReadPayload(f.Payload)
	}
	return f, err
}

// pour sends frames of lanes 0 and 2, several in a batch.
func pour(c *Channel, seed uint64, count, most int) error {
	r := rand.New(rand.NewPCG(seed, 3))
	var next [transport.Lanes]int
	for sent := 0; sent < count; {
		var batch []transport.Frame
		for range 1 + r.IntN(4) {
			lane := transport.Lane(2 * r.IntN(2))
			batch = append(batch, testFrame(lane, next[lane], pourSize(seed, lane, next[lane], most)))
			next[lane]++
			sent++
		}
		if err := c.WriteFrames(batch); err != nil {
			return err
		}
	}
	last := testFrame(transport.LaneConsensus, next[0], 0)
	last.Header.Type = 255
	end := testFrame(transport.LaneCatchUp, next[2], 0)
	end.Header.Type = 255
	return c.WriteFrames([]transport.Frame{last, end})
}

func pourSize(seed uint64, lane transport.Lane, number, most int) int {
	r := rand.New(rand.NewPCG(seed, uint64(lane)<<32|uint64(number)))
	return r.IntN(1 + r.IntN(1+most))
}

// drink takes what pour sends and checks it.
func drink(c *Channel, seed uint64, most int) error {
	var next [transport.Lanes]int
	for ends := 0; ends < 2; {
		f, err := readFrame(c)
		if err != nil {
			return err
		}
		lane := f.Header.Lane
		if int(f.Header.Sequence) != next[lane] {
			return fmt.Errorf("lane %s: frame %d, want %d", lane, f.Header.Sequence, next[lane])
		}
		next[lane]++
		if f.Header.Type == 255 && f.Header.Length == 0 {
			ends++
			continue
		}
		want := testFrame(lane, int(f.Header.Sequence), pourSize(seed, lane, int(f.Header.Sequence), most))
		if string(want.Payload) != string(f.Payload) {
			return fmt.Errorf("lane %s: frame %d has a wrong payload of %d bytes, want %d", lane, f.Header.Sequence, len(f.Payload), len(want.Payload))
		}
	}
	return nil
}

// traffic pours both ways at once.
func traffic(x, y *Channel, count, most int) error {
	errs := make(chan error, 4)
	go func() { errs <- pour(x, 1, count, most) }()
	go func() { errs <- pour(y, 2, count, most) }()
	go func() { errs <- drink(y, 1, most) }()
	go func() { errs <- drink(x, 2, most) }()
	var all error
	for range 4 {
		if err := <-errs; err != nil {
			all = errors.Join(all, err)
			_ = x.Close()
			_ = y.Close()
		}
	}
	return all
}

// healthy checks what must be 0 whatever happened.
func healthy(t testing.TB, devices ...*Device) {
	t.Helper()
	for _, d := range devices {
		s := d.Stats()
		require.Zero(t, s.RNR)
		require.Zero(t, s.CQOverruns)
		require.Zero(t, s.Rescued)
		require.Zero(t, s.ProtocolErrors)
	}
}

func fabrics() map[string]func(t testing.TB, cfg Config) (a, b *Device) {
	simulated := func(f sim.Faults) func(testing.TB, Config) (*Device, *Device) {
		return func(t testing.TB, cfg Config) (*Device, *Device) {
			a, b, _ := simPair(t, 1, f, cfg)
			return a, b
		}
	}
	return map[string]func(testing.TB, Config) (*Device, *Device){
		"sim":        simulated(sim.Faults{}),
		"sim mapped": simulated(sim.Faults{MapsRemote: true, Handshake: true}),
		"sim slow":   simulated(sim.Faults{Delay: 100 * time.Microsecond, NoInline: true, EarlyWakes: 0.2}),
		"shm": func(t testing.TB, cfg Config) (*Device, *Device) {
			return openDevice(t, openSHM(t), cfg), openDevice(t, openSHM(t), cfg)
		},
	}
}

// eachFabric runs a test on every fabric.
func eachFabric(t *testing.T, cfg Config, test func(t *testing.T, a, b *Device)) {
	for name, pair := range fabrics() {
		t.Run(name, func(t *testing.T) {
			a, b := pair(t, cfg)
			test(t, a, b)
		})
	}
}

func TestTraffic(t *testing.T) {
	eachFabric(t, testConfig(), func(t *testing.T, a, b *Device) {
		x, y := channels(t, a, b)
		registered := a.Stats().Registrations
		require.NoError(t, traffic(x, y, pick(2000, 30_000), 3000))
		require.NoError(t, traffic(x, y, pick(200, 3000), transport.MaxSliceBytes))
		require.Equal(t, registered, a.Stats().Registrations, "memory was registered on the data path")
		healthy(t, a, b)
		t.Log(x.Counters())
		t.Logf("%+v", a.Stats())
	})
}
