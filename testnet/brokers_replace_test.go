package testnet

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
)

// replicas are the nodes that keep a partition of the storm's topic, the leader first; nil: not known now.
func (s *storm) replicas(partition int32) (nodes []int) {
	m, err := s.admin.Metadata(s.ctx, stormTopic)
	if err != nil {
		return nil
	}
	p := m.Topics[stormTopic].Partitions[partition]
	at := make(map[int32]int)
	for _, b := range m.Brokers {
		at[b.NodeID] = s.node(b.Host, b.Port)
	}
	if _, ok := at[p.Leader]; !ok {
		return nil
	}
	nodes = []int{at[p.Leader]}
	for _, id := range p.Replicas {
		if i, ok := at[id]; ok && id != p.Leader {
			nodes = append(nodes, i)
		} else if !ok {
			nodes = append(nodes, -1) // one that is not among the live ones
		}
	}
	return nodes
}

// A broker that does not come back loses its partitions to the fourth one, while records are written, and an owner moves
// a partition back to it: nothing that was acknowledged is lost.
func TestAnotherBrokerTakesThePlaceOfADeadOne(t *testing.T) {
	const partitions = 6
	s := newStorm(t, partitions, func(s *Spec) {
		s.Brokers = 4
		s.Set = append(s.Set, "pubsub.replace_after=5s")
	})
	dead, _ := s.leads(0)
	s.strike(func() { require.NoError(t, s.n.Kill(s.ctx, dead)) })
	t.Logf("a broker killed: every partition takes records %v later", s.flows(partitions))
	started := time.Now()
	s.eventually("every partition has three replicas without the dead broker", func() bool {
		for p := range int32(partitions) {
			if r := s.replicas(p); len(r) != 3 || slices.Contains(r, dead) || slices.Contains(r, -1) {
				return false
			}
		}
		return true
	})
	s.whole(dead)
	t.Logf("another one has its place and all records %v after the kill", time.Since(started))
	changes := 0.0
	for _, x := range s.n.Nodes {
		if x.Index != dead {
			changes += metric(t, x, "bornode_topics_broker_replica_changes_total")
		}
	}
	require.NotZero(t, changes)

	// It comes back and has nothing to keep but what its owner gives it.
	require.NoError(t, s.n.Restart(s.ctx, dead))
	s.whole()
	var away []int
	s.eventually("its leader is known", func() bool { away = s.replicas(1); return len(away) == 3 })
	require.NotContains(t, away, dead)
	number := func(node int) string { return strconv.Itoa(int(s.brokerNumber(node))) }
	owner := holder(t, s.n.Accounts[0], s.n.Nodes[(dead+1)%4])
	_, problem, code := owner.run("topic", "replicas", stormTopic, "1", "--add", number(dead), "--remove", number(away[0]))
	require.Zero(t, code, problem)
	s.eventually("the partition is where its owner wants it, without the one that led it", func() bool {
		r := s.replicas(1)
		return len(r) == 3 && slices.Contains(r, dead) && !slices.Contains(r, away[0])
	})
	s.strike(func() {})
	s.flows(partitions)
	s.check()
}

// brokerNumber is the number that the chain gave to a node as a broker.
func (s *storm) brokerNumber(node int) int32 {
	s.t.Helper()
	var m kadm.Metadata
	s.eventually("the broker is known", func() bool {
		var err error
		m, err = s.admin.Metadata(s.ctx)
		return err == nil && len(m.Brokers) == len(s.n.Brokers())
	})
	for _, b := range m.Brokers {
		if s.node(b.Host, b.Port) == node {
			return b.NodeID
		}
	}
	require.FailNow(s.t, "no broker", fmt.Sprint(node))
	return 0
}
