//go:build rdmalab && linux && cgo

package rdma

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/transport"
	"github.com/bornode/bornode/transport/conformance"
	"github.com/bornode/bornode/transport/rdma/fabric"
	"github.com/bornode/bornode/transport/rdma/verbs"
)

// The tests of this file need a machine with an RDMA device: `make rdma-lab` has one.

func openVerbs(t testing.TB) fabric.Device {
	t.Helper()
	fd, err := verbs.Open(verbs.DefaultConfig(), testLog(t))
	require.NoError(t, err)
	return fd
}

func TestConformanceVerbs(t *testing.T) {
	conformance.Run(t, harness(suiteConfig(), 0, func(testing.TB) func(testing.TB, string) fabric.Device {
		return func(t testing.TB, _ string) fabric.Device { return openVerbs(t) }
	}))
}

func TestTrafficVerbs(t *testing.T) {
	for name, cfg := range map[string]Config{"default": testConfig(), "tight": suiteConfig()} {
		t.Run(name, func(t *testing.T) {
			a, b := openDevice(t, openVerbs(t), cfg), openDevice(t, openVerbs(t), cfg)
			x, y := channels(t, a, b)
			registered := a.Stats().Registrations
			require.NoError(t, traffic(x, y, 2000, 3000))
			require.NoError(t, traffic(x, y, 200, transport.MaxSliceBytes))
			require.Equal(t, registered, a.Stats().Registrations, "memory was registered on the data path")
			healthy(t, a, b)
			t.Log(x.Counters())
			t.Logf("%+v", a.Stats())
		})
	}
}

// TestWindowVerbs: windows by real READs, of a copy that holds everything and of one that does not.
func TestWindowVerbs(t *testing.T) {
	for name, test := range map[string]func(*testing.T, *Device, *Device){"read": testReadWindow, "many": testReadMany} {
		t.Run(name, func(t *testing.T) {
			test(t, openDevice(t, openVerbs(t), testConfig()), openDevice(t, openVerbs(t), testConfig()))
		})
	}
	t.Run("small copy", func(t *testing.T) {
		testSmallCopy(t, openDevice(t, openVerbs(t), windowConfig()), openDevice(t, openVerbs(t), windowConfig()), 10)
	})
}
