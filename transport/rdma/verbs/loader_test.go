//go:build linux && cgo

package verbs

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/transport/rdma/fabric"
)

// TestLoader: a library that is missing, or is another, is an error that says so.
func TestLoader(t *testing.T) {
	require.ErrorContains(t, loadFrom("libbornode-no-such.so.1"), "libbornode-no-such.so.1")
	require.ErrorContains(t, loadFrom("libc.so.6"), "ibv_get_device_list")
	names, err := drivable()
	if err != nil {
		require.ErrorIs(t, err, fabric.ErrUnavailable)
		require.Empty(t, names)
	}
}
