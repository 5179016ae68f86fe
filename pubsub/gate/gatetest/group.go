package gatetest

import (
	"fmt"
	"net"
	"strconv"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// group answers as the coordinator of groups with one member.
func (b *Broker) group(req kmsg.Request, resp kmsg.Response) {
	b.Lock()
	defer b.Unlock()
	switch r := req.(type) {
	case *kmsg.FindCoordinatorRequest:
		b.coordinator(r, resp.(*kmsg.FindCoordinatorResponse))
	case *kmsg.DescribeClusterRequest:
		c := resp.(*kmsg.DescribeClusterResponse)
		for id := range b.listeners {
			n := kmsg.NewDescribeClusterResponseBroker()
			n.NodeID = int32(id)
			n.Host, n.Port = b.place(id)
			c.Brokers = append(c.Brokers, n)
		}
	case *kmsg.JoinGroupRequest:
		b.join(r, resp.(*kmsg.JoinGroupResponse))
	case *kmsg.SyncGroupRequest:
		if len(r.GroupAssignment) == 1 {
			b.plan = r.GroupAssignment[0].MemberAssignment
		}
		resp.(*kmsg.SyncGroupResponse).MemberAssignment = b.plan
	case *kmsg.HeartbeatRequest:
		if b.Expel {
			resp.(*kmsg.HeartbeatResponse).ErrorCode = kerr.UnknownMemberID.Code
		}
	case *kmsg.OffsetCommitRequest:
		c := resp.(*kmsg.OffsetCommitResponse)
		for _, rt := range r.Topics {
			t := kmsg.NewOffsetCommitResponseTopic()
			t.Topic = rt.Topic
			for _, rp := range rt.Partitions {
				p := kmsg.NewOffsetCommitResponseTopicPartition()
				p.Partition = rp.Partition
				if b.NoCommit != nil {
					p.ErrorCode = b.NoCommit(rt.Topic)
				}
				if p.ErrorCode == 0 {
					b.offsets[fmt.Sprintf("%s/%s/%d", r.Group, rt.Topic, rp.Partition)] = rp.Offset
				}
				t.Partitions = append(t.Partitions, p)
			}
			c.Topics = append(c.Topics, t)
		}
	case *kmsg.OffsetFetchRequest:
		b.offsetFetch(r, resp.(*kmsg.OffsetFetchResponse))
	}
}

func (b *Broker) place(id int) (string, int32) {
	host, port, _ := net.SplitHostPort(b.listeners[id].Addr().String())
	n, _ := strconv.Atoi(port)
	return host, int32(n)
}

func (b *Broker) coordinator(req *kmsg.FindCoordinatorRequest, resp *kmsg.FindCoordinatorResponse) {
	resp.NodeID = int32(b.Coordinator)
	resp.Host, resp.Port = b.place(b.Coordinator)
	for _, key := range req.CoordinatorKeys {
		c := kmsg.NewFindCoordinatorResponseCoordinator()
		c.Key, c.NodeID = key, resp.NodeID
		c.Host, c.Port = resp.Host, resp.Port
		resp.Coordinators = append(resp.Coordinators, c)
	}
}

func (b *Broker) join(req *kmsg.JoinGroupRequest, resp *kmsg.JoinGroupResponse) {
	if b.Expel {
		resp.ErrorCode = kerr.UnknownMemberID.Code
		return
	}
	if req.MemberID == "" && req.Version >= 4 {
		b.member = "member-1"
		resp.ErrorCode, resp.MemberID = kerr.MemberIDRequired.Code, b.member
		return
	}
	b.session++
	resp.Generation, resp.LeaderID, resp.MemberID = b.session, b.member, b.member
	resp.Protocol, resp.ProtocolType = kmsg.StringPtr(req.Protocols[0].Name), kmsg.StringPtr("consumer")
	m := kmsg.NewJoinGroupResponseMember()
	m.MemberID, m.ProtocolMetadata = b.member, req.Protocols[0].Metadata
	resp.Members = append(resp.Members, m)
}

func (b *Broker) offsetFetch(req *kmsg.OffsetFetchRequest, resp *kmsg.OffsetFetchResponse) {
	for _, rt := range req.Topics {
		t := kmsg.NewOffsetFetchResponseTopic()
		t.Topic = rt.Topic
		for _, n := range rt.Partitions {
			p := kmsg.NewOffsetFetchResponseTopicPartition()
			p.Partition, p.Offset = n, -1
			if o, ok := b.offsets[fmt.Sprintf("%s/%s/%d", req.Group, rt.Topic, n)]; ok {
				p.Offset = o
			}
			t.Partitions = append(t.Partitions, p)
		}
		resp.Topics = append(resp.Topics, t)
	}
}

// Commit sets what a group committed, as another member of it does.
func (b *Broker) Commit(group, topic string, partition int32, offset int64) {
	b.Lock()
	defer b.Unlock()
	b.offsets[fmt.Sprintf("%s/%s/%d", group, topic, partition)] = offset
}

// Committed is the offset that a group committed; false: none.
func (b *Broker) Committed(group, topic string, partition int32) (int64, bool) {
	b.Lock()
	defer b.Unlock()
	o, ok := b.offsets[fmt.Sprintf("%s/%s/%d", group, topic, partition)]
	return o, ok
}
