package group

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/bornode/bornode/internal/pause"
)

// gathered are the values of the registry's metrics; of histograms their counts.
func gathered(t *testing.T, reg *prometheus.Registry) map[string]float64 {
	families, err := reg.Gather()
	require.NoError(t, err)
	out := map[string]float64{}
	for _, f := range families {
		m := f.GetMetric()[0]
		out[f.GetName()] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
	}
	return out
}

// What an operator sees: who is there, what moved, and what the log did not take.
func TestMetricsCountGroups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, reg := &memLog{delay: time.Millisecond}, prometheus.NewRegistry()
		c := New(DefaultConfig(), Deps{Log: log, Logger: zap.NewNop(), Registry: reg})
		defer c.Close()
		c.Lead(Partition(testGroup), 1)
		synctest.Wait()
		g := &rig{c: c, done: map[int32]int64{}}
		has := func(name string, want float64) {
			t.Helper()
			require.EqualValues(t, want, gathered(t, reg)["bornode_topics_groups_"+name], name)
		}
		has("partitions_count", 1)
		has("taken_over_total", 1)
		has("load_seconds", 1)
		has("groups_count", 0)

		join := kmsg.NewPtrJoinGroupRequest()
		join.Version, join.Group, join.ProtocolType, join.SessionTimeoutMillis, join.RebalanceTimeoutMillis = 3, testGroup, "consumer", 10_000, 10_000
		join.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range"}}
		require.Zero(t, g.serve(t.Context(), "x", join).(*kmsg.JoinGroupResponse).ErrorCode)
		commit := kmsg.NewPtrOffsetCommitRequest()
		commit.Version, commit.Group, commit.Generation = 2, testGroup+"2", -1
		commit.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: "acme.a", Partitions: []kmsg.OffsetCommitRequestTopicPartition{{Offset: 5}, {Partition: 1, Offset: 7}}}}
		if Partition(testGroup) != Partition(testGroup+"2") {
			c.Lead(Partition(testGroup+"2"), 1)
			synctest.Wait()
		}
		code := func() int16 {
			return g.serve(t.Context(), "x", commit).(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode
		}
		require.Zero(t, code())
		has("groups_count", 2)
		has("members_count", 1)
		has("offsets_count", 2)
		has("committed_offsets_total", 2)
		has("rebalances_total", 1)
		log.set(kerr.NotEnoughReplicas)
		require.NotZero(t, code())
		has("append_errors_total", 1)
		has("committed_offsets_total", 2)
		log.set(nil)

		pause.For(t.Context(), time.Minute) // nothing is heard of the member
		has("members_count", 0)
		has("lapsed_members_total", 1)
		c.Resign(Partition(testGroup))
		c.Resign(Partition(testGroup + "2"))
		has("partitions_count", 0)
		has("groups_count", 0)
	})
}
