package node

import (
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/bornode/bornode/block"
)

func seatsOf(accounts ...byte) (s block.Schedule) {
	for _, a := range accounts {
		s = append(s, block.Producer{Account: common.Address{a}})
	}
	return s
}

// With its own seat a producer needs a quorum of each schedule.
func TestCountProducers(t *testing.T) {
	for name, c := range map[string]struct {
		schedules []block.Schedule
		linked    []byte
		want      producerCount
	}{
		"alone":                 {[]block.Schedule{seatsOf(1)}, nil, producerCount{}},
		"no seat":               {[]block.Schedule{seatsOf(2, 3, 4)}, nil, producerCount{}},
		"of two":                {[]block.Schedule{seatsOf(1, 2)}, nil, producerCount{0, 1, 1}},
		"four, one linked":      {[]block.Schedule{seatsOf(1, 2, 3, 4)}, []byte{2}, producerCount{1, 2, 1}},
		"itself does not count": {[]block.Schedule{seatsOf(1, 2, 3, 4)}, []byte{1, 2}, producerCount{1, 2, 1}},
		"strangers do not":      {[]block.Schedule{seatsOf(1, 2, 3, 4)}, []byte{2, 9}, producerCount{1, 2, 1}},
		"four, two linked":      {[]block.Schedule{seatsOf(1, 2, 3, 4)}, []byte{2, 4}, producerCount{2, 2, 0}},
		"seven":                 {[]block.Schedule{seatsOf(1, 2, 3, 4, 5, 6, 7)}, []byte{2, 4}, producerCount{2, 4, 2}},
		"joint, in one of them": {[]block.Schedule{seatsOf(1, 2, 3, 4), seatsOf(4, 5, 6, 7)}, []byte{2, 3, 4, 5}, producerCount{2, 3, 1}},
		"joint: both count":     {[]block.Schedule{seatsOf(1, 2, 3, 4), seatsOf(1, 5, 6, 7)}, []byte{2, 3}, producerCount{0, 2, 2}},
	} {
		linked := make(map[common.Address]bool)
		for _, a := range c.linked {
			linked[common.Address{a}] = true
		}
		require.Equal(t, c.want, countProducers(c.schedules, common.Address{1}, linked), name)
	}
}

// A lack is told once for each change, after a second look, and so is its end; the gauge shows each look.
func TestTooFewLinkedProducersAreTold(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	reg := prometheus.NewRegistry()
	l, err := newProducerLinks(common.Address{1}, zap.New(core), reg)
	require.NoError(t, err)
	look := func(c producerCount, level string) {
		t.Helper()
		l.look(c)
		families, err := reg.Gather()
		require.NoError(t, err)
		require.Equal(t, "bornode_node_lacking_producer_links", families[0].GetName())
		require.InDelta(t, c.lacking, families[0].GetMetric()[0].GetGauge().GetValue(), 0)
		told := logs.TakeAll()
		if level == "" {
			require.Empty(t, told)
			return
		}
		require.Len(t, told, 1)
		require.Equal(t, level, told[0].Level.String())
		require.EqualValues(t, c.linked, told[0].ContextMap()["linked"])
		require.EqualValues(t, c.needed, told[0].ContextMap()["needed"])
	}
	one, none, enough := producerCount{1, 2, 1}, producerCount{0, 2, 2}, producerCount{2, 2, 0}
	look(none, "")
	look(enough, "") // links came up
	look(one, "")
	look(one, "warn")
	look(one, "")
	look(none, "warn")
	look(none, "")
	look(enough, "info")
	look(enough, "")
}
