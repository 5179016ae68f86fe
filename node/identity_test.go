package node

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/bornode/bornode/internal/telemetry"
)

// A node whose identity file is lost comes up under another name, which nobody knows: it says so, and which file to
// restore. A new folder has nothing to say.
func TestLostIdentityIsTold(t *testing.T) {
	c := folder(t)
	starts := func() (*Node, *observer.ObservedLogs, func() error) {
		core, logs := observer.New(zap.WarnLevel)
		n, err := New(t.Context(), c, zap.New(core), telemetry.NewRegistry())
		require.NoError(t, err)
		return n, logs.FilterMessageSnippet("no identity key"), n.close
	}
	_, told, stop := starts()
	require.Zero(t, told.Len(), "a new folder")
	require.NoError(t, stop())

	p := newPair(t)
	n, end := p.run(p.producer)
	p.until("a block is final", func() bool { lib, _ := n.store.LIB(); return lib > 0 })
	end()
	c = p.producer
	c.Consensus.NewKey = false
	_, told, stop = starts()
	require.Zero(t, told.Len(), "the file is there")
	require.NoError(t, stop())
	require.NoError(t, os.Remove(c.Path(c.Keys.Identity)))
	n, told, stop = starts()
	require.Equal(t, 1, told.Len())
	require.Equal(t, string(n.host.ID()), told.All()[0].ContextMap()["new_id"])
	require.NoError(t, stop())
}
