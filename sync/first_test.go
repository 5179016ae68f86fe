package blocksync

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/transport/mem"
)

func TestEmptyNodeCatchesUp(t *testing.T) {
	forEachProvider(t, func(l *lab) {
		chain := newChain(3000, chainShape{})
		if l.mem != nil {
			l.mem.SetFaults("a", "b", mem.Faults{Latency: time.Millisecond})
		}
		a := l.node("a", chain)
		b := l.node("b", nil)
		b.dial(a.host)
		l.caughtUp(b, chain)
		s := b.m.Status()
		require.NotZero(l.t, s.FirstBlock)
		require.NotZero(l.t, s.Bytes)
		require.Greater(l.t, s.InSync, s.FirstBlock)
		require.Equal(l.t, a.Status().LIB, b.Status().LIB)
	})
}
