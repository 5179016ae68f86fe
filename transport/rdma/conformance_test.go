package rdma

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/transport/conformance"
	"github.com/bornode/bornode/transport/rdma/fabric"
	"github.com/bornode/bornode/transport/rdma/sim"
)

// suiteConfig is tight, so that the suite meets its edges.
func suiteConfig() Config {
	c := testConfig()
	c.ControlRingBytes, c.BulkRingBytes, c.Entries = MinRingBytes, 2*MinRingBytes, 16
	c.MaxChannels = 16
	c.PoolBytes = 64 << 20
	c.FirstPosition = (valueMask+1)*unit - 1<<20 // the value of an immediate wraps soon
	return c
}

func simNetwork(seed uint64, f sim.Faults) func(t testing.TB) func(testing.TB, string) fabric.Device {
	return func(t testing.TB) func(testing.TB, string) fabric.Device {
		n := sim.NewNetwork(seed, f)
		t.Cleanup(func() { require.Zero(t, n.Counters().Misuses, "rules of the fabric were broken") })
		return func(_ testing.TB, name string) fabric.Device { return n.NewDevice(name) }
	}
}

func TestConformanceSim(t *testing.T) {
	for i, f := range []sim.Faults{{}, {MapsRemote: true, Handshake: true}} {
		t.Run(f.String(), func(t *testing.T) {
			conformance.Run(t, harness(suiteConfig(), 0, simNetwork(uint64(i), f)))
		})
	}
}

// TestConformanceFaults runs the suite over seeds of faults that break nothing by themselves and take no time; for those
// that do see TestSeeds.
func TestConformanceFaults(t *testing.T) {
	for seed := range uint64(pick(1, 3)) {
		f := sim.RandomFaults(seed)
		f.Delay, f.Breaks, f.BreakAfter = 0, 0, 0
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Log(f)
			conformance.Run(t, harness(suiteConfig(), 100*time.Millisecond, simNetwork(seed, f)))
		})
	}
}

func TestConformanceSHM(t *testing.T) {
	conformance.Run(t, harness(suiteConfig(), 0, func(testing.TB) func(testing.TB, string) fabric.Device {
		return func(t testing.TB, _ string) fabric.Device { return openSHM(t) }
	}))
}
