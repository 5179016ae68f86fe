package client

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/contracts"
)

// A partition that nobody leads is no empty one: who asks is told which it is, whatever the brokers' metadata say.
func TestPartitionsWithoutLeader(t *testing.T) {
	w := newWorldOf(t, 2)
	c := w.client(w.owner)
	_, err := w.admin(c).CreateTopic(w.ctx, contracts.NewTopic{Name: "acme.orders", Partitions: 4, Replicas: 1})
	require.NoError(t, err)
	w.kafka.Create("acme.orders", 4)
	p, err := c.Producer()
	require.NoError(t, err)
	x := w.consumer(c, "acme.orders")
	require.NoError(t, p.CheckLeaders(w.ctx, "acme.orders"))
	require.NoError(t, x.CheckLeaders(w.ctx, "acme.orders"))
	for _, named := range []bool{false, true} {
		w.kafka.Lock()
		w.kafka.LostLead, w.kafka.Leaderless = named, func(_ string, p int32) bool { return p == 1 || p == 2 }
		w.kafka.Unlock()
		var none *NoLeaderError
		require.ErrorAs(t, x.CheckLeaders(w.ctx, "acme.orders"), &none)
		require.Equal(t, []int32{1, 2}, none.Partitions)
		require.ErrorContains(t, p.CheckLeaders(w.ctx, "acme.orders"), "partitions 1, 2 of topic acme.orders have no leader")
	}
	w.kafka.Lock()
	w.kafka.Leaderless = nil
	w.kafka.Unlock()
	require.NoError(t, x.CheckLeaders(w.ctx, "acme.orders"))
	w.kafka.Kill(1)
	var none *NoLeaderError
	require.ErrorAs(t, p.CheckLeaders(w.ctx, "acme.orders"), &none)
	require.Equal(t, []int32{1, 3}, none.Partitions)
	require.ErrorContains(t, none, "broker 1 is to lead it and does not answer")
	require.Error(t, p.CheckLeaders(w.ctx, "acme.nothing"))
	w.kafka.Kill(0)
	err = p.CheckLeaders(w.ctx, "acme.orders")
	require.Error(t, err)
	require.NotErrorAs(t, err, &none, "nobody could be asked")
}
