//go:build rdmalab && linux && cgo

package verbs

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap/zaptest"

	"github.com/bornode/bornode/transport/rdma/fabric"
	"github.com/bornode/bornode/transport/rdma/fabrictest"
)

// open opens the machine's device.
func open(t testing.TB, change func(*Config)) *device {
	t.Helper()
	cfg := DefaultConfig()
	if change != nil {
		change(&cfg)
	}
	d, err := Open(cfg, zaptest.NewLogger(t))
	require.NoError(t, err)
	return d.(*device)
}

func TestFabric(t *testing.T) {
	fabrictest.Run(t, fabrictest.Harness{
		NewPair: func(t testing.TB) (a, b fabric.Device) { return open(t, nil), open(t, nil) },
		Long:    os.Getenv("BORNODE_LONG") != "",
	})
}
