package metrics

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

func TestATakenNameIsAnError(t *testing.T) {
	reg := prometheus.NewRegistry()
	for i := range 2 {
		f := New(reg, "part")
		f.Counter("things_total", "Things.").Inc()
		f.CounterVec("kinds_total", "Kinds.", "kind").WithLabelValues("a").Inc()
		f.Gauge("now", "Now.").Set(1)
		require.Equal(t, i == 0, f.Err() == nil, "%v", f.Err())
	}
	got, err := reg.Gather()
	require.NoError(t, err)
	var names []string
	for _, m := range got {
		names = append(names, m.GetName())
	}
	require.Equal(t, []string{"bornode_part_kinds_total", "bornode_part_now", "bornode_part_things_total"}, names)

	f := New(nil, "part")
	f.Gauge("now", "Now.").Set(1)
	require.NoError(t, f.Err())
}
