package pubsub

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/bornode/bornode/pubsub/group"
	"github.com/bornode/bornode/pubsub/kafka"
)

// dispatchGroups serves the requests of consumer groups; false: it is none of them.
func (b *Broker) dispatchGroups(ctx context.Context, x *call, req kmsg.Request) (kafka.Reply, bool) {
	switch r := req.(type) {
	case *kmsg.FindCoordinatorRequest:
		return b.findCoordinator(x, r), true
	case *kmsg.JoinGroupRequest, *kmsg.SyncGroupRequest, *kmsg.HeartbeatRequest, *kmsg.LeaveGroupRequest, *kmsg.OffsetCommitRequest,
		*kmsg.OffsetFetchRequest, *kmsg.OffsetDeleteRequest, *kmsg.DescribeGroupsRequest, *kmsg.ListGroupsRequest, *kmsg.DeleteGroupsRequest:
		c := group.Client{Principal: x.s.Principal, Host: x.conn.Remote(), ID: x.conn.ClientID(), Session: x}
		if x.who.Pseudonym { // members of a group see each other's hosts
			c.Host = ""
		}
		return kafka.Reply(b.groups.Serve(ctx, c, req)), true
	}
	return nil, false
}

// findCoordinator names the broker that leads the partition of a group. Transactions have no coordinator.
func (b *Broker) findCoordinator(x *call, r *kmsg.FindCoordinatorRequest) kafka.Reply {
	resp := r.ResponseKind().(*kmsg.FindCoordinatorResponse)
	keys := r.CoordinatorKeys
	if r.Version < 4 {
		keys = []string{r.CoordinatorKey}
	}
	list := make([]kmsg.FindCoordinatorResponseCoordinator, len(keys))
	for i, key := range keys {
		list[i] = x.coordinator(key, r.CoordinatorType)
	}
	if r.Version >= 4 {
		resp.Coordinators = list
		return kafka.Now(resp)
	}
	c := list[0]
	resp.ErrorCode, resp.ErrorMessage, resp.NodeID, resp.Host, resp.Port = c.ErrorCode, c.ErrorMessage, c.NodeID, c.Host, c.Port
	return kafka.Now(resp)
}

func (x *call) coordinator(key string, kind int8) kmsg.FindCoordinatorResponseCoordinator {
	out := kmsg.NewFindCoordinatorResponseCoordinator()
	out.Key, out.NodeID, out.Port = key, -1, -1
	fail := func(e *kerr.Error, why string) kmsg.FindCoordinatorResponseCoordinator {
		out.ErrorCode, out.ErrorMessage = e.Code, text(why)
		return out
	}
	switch {
	case kind != 0:
		return fail(kerr.TransactionalIDAuthorizationFailed, "transactions are not served")
	case tenantOf(key) == "":
		return fail(kerr.InvalidGroupID, "a group's name is its tenant's, a dot and more, like acme.readers")
	case !x.may(opDescribe, onGroup, key) && !x.may(opRead, onGroup, key):
		x.refused(nil, key, opDescribe, onGroup, "group")
		return fail(kerr.GroupAuthorizationFailed, "the ledger's rules of access do not let the principal use the group")
	}
	t := x.v.Topic(offsetsTopic)
	if t == nil {
		return fail(kerr.CoordinatorNotAvailable, "the brokers have not made "+offsetsTopic+" yet")
	}
	p := group.Partition(key)
	if int(p) >= len(t.Partitions) {
		return fail(kerr.CoordinatorNotAvailable, "the brokers have not made "+offsetsTopic+" yet")
	}
	n := x.v.BrokerByAccount(t.Partitions[p].Leader)
	if n == nil || !n.Live {
		return fail(kerr.CoordinatorNotAvailable, "the group's coordinator is being replaced")
	}
	out.NodeID, out.Host, out.Port = n.ID, n.Host, n.Port
	if n.Account == x.b.deps.Account {
		out.Host, out.Port = x.ownAddress(*n)
	}
	return out
}
