package sim_test

import (
	"fmt"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bornode/bornode/transport/rdma/fabric"
	"github.com/bornode/bornode/transport/rdma/fabrictest"
	"github.com/bornode/bornode/transport/rdma/sim"
)

var long = os.Getenv("BORNODE_LONG") != ""

// harness makes a network for each test of the suite.
func harness(seed uint64, f sim.Faults) fabrictest.Harness {
	return fabrictest.Harness{
		NewPair: func(testing.TB) (fabric.Device, fabric.Device) {
			n := sim.NewNetwork(seed, f)
			a := n.NewDevice("a")
			if seed%4 == 0 {
				return a, a
			}
			return a, n.NewDevice("b")
		},
		Long: long,
	}
}

// TestConformance runs the suite in real time.
func TestConformance(t *testing.T) {
	for i, f := range []sim.Faults{{}, {MapsRemote: true, Handshake: true}, {Handshake: true, EarlyWakes: 0.3, NoInline: true}, {PurgeOnClose: true}} {
		t.Run(f.String(), func(t *testing.T) { fabrictest.Run(t, harness(uint64(i), f)) })
	}
}

// TestConformanceOnVirtualTime runs the suite in bubbles, over seeds of delays and other faults that break nothing.
func TestConformanceOnVirtualTime(t *testing.T) {
	seeds := uint64(6)
	if long {
		seeds = 40
	}
	for seed := range seeds {
		f := sim.RandomFaults(seed)
		f.Breaks, f.BreakAfter = 0, 0
		f.Delay = time.Duration(1+seed*seed) * time.Microsecond
		for _, c := range fabrictest.Cases() {
			if c.Machine {
				continue
			}
			t.Run(fmt.Sprint(c.Name, "/", seed), func(t *testing.T) {
				t.Log("seed", seed, f)
				h := harness(seed, f)
				h.Long = false
				synctest.Test(t, func(t *testing.T) { c.Run(t, h) })
			})
		}
	}
}
