package loopback

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAFreeAddressCanBeListenedOn(t *testing.T) {
	at, err := FreeAddr()
	require.NoError(t, err)
	require.True(t, at.Addr().IsLoopback())
	require.NotZero(t, at.Port())
	for range 2 { // again and again
		l, err := net.Listen("tcp", at.String())
		require.NoError(t, err)
		require.NoError(t, l.Close())
	}
}
