package group

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Refuse is the answer that nothing of the request was done. It knows every request of groups.
func Refuse(req kmsg.Request, err *kerr.Error) kmsg.Response {
	resp := req.ResponseKind()
	switch r := resp.(type) {
	case *kmsg.JoinGroupResponse:
		return refuseJoin(req, err, req.(*kmsg.JoinGroupRequest).MemberID)
	case *kmsg.SyncGroupResponse:
		r.ErrorCode, r.MemberAssignment = err.Code, []byte{}
		if r.Version < 5 {
			return r
		}
		empty := ""
		r.ProtocolType, r.Protocol = &empty, &empty
	case *kmsg.HeartbeatResponse:
		r.ErrorCode = err.Code
	case *kmsg.LeaveGroupResponse:
		r.ErrorCode = err.Code
	case *kmsg.OffsetCommitResponse:
		refuseCommit(req.(*kmsg.OffsetCommitRequest), r, err)
	case *kmsg.OffsetFetchResponse:
		refuseFetch(req.(*kmsg.OffsetFetchRequest), r, err)
	case *kmsg.OffsetDeleteResponse:
		r.ErrorCode = err.Code
	case *kmsg.ListGroupsResponse:
		r.ErrorCode = err.Code
	case *kmsg.DescribeGroupsResponse:
		for _, name := range req.(*kmsg.DescribeGroupsRequest).Groups {
			g := kmsg.NewDescribeGroupsResponseGroup()
			g.Group, g.ErrorCode = name, err.Code
			r.Groups = append(r.Groups, g)
		}
	case *kmsg.DeleteGroupsResponse:
		for _, name := range req.(*kmsg.DeleteGroupsRequest).Groups {
			r.Groups = append(r.Groups, kmsg.DeleteGroupsResponseGroup{Group: name, ErrorCode: err.Code})
		}
	}
	return resp
}

func refuseCommit(req *kmsg.OffsetCommitRequest, r *kmsg.OffsetCommitResponse, err *kerr.Error) {
	for i := range req.Topics {
		r.Topics = append(r.Topics, refuseTopic(&req.Topics[i], err.Code))
	}
}

func refuseTopic(t *kmsg.OffsetCommitRequestTopic, code int16) kmsg.OffsetCommitResponseTopic {
	rt := kmsg.NewOffsetCommitResponseTopic()
	rt.Topic = t.Topic
	for j := range t.Partitions {
		p := kmsg.NewOffsetCommitResponseTopicPartition()
		p.Partition, p.ErrorCode = t.Partitions[j].Partition, code
		rt.Partitions = append(rt.Partitions, p)
	}
	return rt
}

func refuseFetch(req *kmsg.OffsetFetchRequest, r *kmsg.OffsetFetchResponse, err *kerr.Error) {
	r.ErrorCode = err.Code
	for i := range req.Groups {
		g := kmsg.NewOffsetFetchResponseGroup()
		g.Group, g.ErrorCode = req.Groups[i].Group, err.Code
		r.Groups = append(r.Groups, g)
	}
	if req.Version < 2 { // knows errors of partitions alone
		var none *group
		for i := range req.Topics {
			t := none.some(req.Topics[i].Topic, req.Topics[i].Partitions)
			for j := range t.Partitions {
				t.Partitions[j].ErrorCode = err.Code
			}
			r.Topics = append(r.Topics, olderTopics([]kmsg.OffsetFetchResponseGroupTopic{t})...)
		}
	}
}

// describe handles DescribeGroups.
func (m *Machine) describe(ev Request, req *kmsg.DescribeGroupsRequest) {
	resp := req.ResponseKind().(*kmsg.DescribeGroupsResponse)
	for _, name := range req.Groups {
		r := kmsg.NewDescribeGroupsResponseGroup()
		r.Group = name
		g := m.groups[name]
		if g == nil {
			r.State = stateDead
			if req.Version >= 6 {
				text := "no group " + name + " is known here"
				r.ErrorCode, r.ErrorMessage = kerr.GroupIDNotFound.Code, &text
			}
			resp.Groups = append(resp.Groups, r)
			continue
		}
		r.State, r.ProtocolType = g.state, g.kind
		settled := g.state == stateStable
		if settled || g.state == stateCompleting {
			r.Protocol = g.protocol
		}
		for _, mem := range g.ordered() {
			d := kmsg.NewDescribeGroupsResponseGroupMember()
			d.MemberID, d.ClientID, d.ClientHost = mem.id, mem.client, mem.host
			if mem.instance != "" {
				instance := mem.instance
				d.InstanceID = &instance
			}
			if settled {
				d.ProtocolMetadata, d.MemberAssignment = mem.metadataOf(g.protocol), mem.assignment
			}
			r.Members = append(r.Members, d)
		}
		resp.Groups = append(resp.Groups, r)
	}
	m.answer(ev.Token, resp)
}

// list handles ListGroups.
func (m *Machine) list(ev Request, req *kmsg.ListGroupsRequest) {
	resp := req.ResponseKind().(*kmsg.ListGroupsResponse)
	for _, name := range m.sorted() {
		g := m.groups[name]
		if len(req.StatesFilter) > 0 && !containsFold(req.StatesFilter, g.state) ||
			len(req.TypesFilter) > 0 && !containsFold(req.TypesFilter, "classic") {
			continue
		}
		r := kmsg.NewListGroupsResponseGroup()
		r.Group, r.ProtocolType, r.GroupState, r.GroupType = name, g.kind, g.state, "classic"
		resp.Groups = append(resp.Groups, r)
	}
	m.answer(ev.Token, resp)
}

// deleteGroup handles DeleteGroups of one group.
func (m *Machine) deleteGroup(ev Request, req *kmsg.DeleteGroupsRequest) {
	if len(req.Groups) != 1 {
		m.answer(ev.Token, Refuse(req, kerr.InvalidRequest))
		return
	}
	g := m.groups[req.Groups[0]]
	switch {
	case g == nil:
		m.answer(ev.Token, Refuse(req, kerr.GroupIDNotFound))
		return
	case g.state != stateEmpty || len(g.pending) > 0:
		m.answer(ev.Token, Refuse(req, kerr.NonEmptyGroup))
		return
	case m.full():
		m.answer(ev.Token, Refuse(req, kerr.CoordinatorNotAvailable))
		return
	}
	var all []place
	for _, topic := range sortedKeys(g.offsets) {
		for _, p := range sortedKeys(g.offsets[topic]) {
			all = append(all, place{g.name, topic, p})
		}
	}
	g.erase(all, true, func(err *kerr.Error) {
		if err != nil {
			m.answer(ev.Token, Refuse(req, err))
			return
		}
		resp := req.ResponseKind().(*kmsg.DeleteGroupsResponse)
		resp.Groups = []kmsg.DeleteGroupsResponseGroup{{Group: g.name}}
		m.answer(ev.Token, resp)
	})
}

// deleteOffsets handles OffsetDelete: offsets of topics that no member reads.
func (m *Machine) deleteOffsets(ev Request, req *kmsg.OffsetDeleteRequest) {
	resp := req.ResponseKind().(*kmsg.OffsetDeleteResponse)
	g := m.groups[req.Group]
	switch {
	case g == nil:
		m.answer(ev.Token, Refuse(req, kerr.GroupIDNotFound))
		return
	case g.state != stateEmpty && g.kind != "consumer":
		m.answer(ev.Token, Refuse(req, kerr.NonEmptyGroup))
		return
	case m.full():
		m.answer(ev.Token, Refuse(req, kerr.CoordinatorNotAvailable))
		return
	}
	read := g.reads()
	var gone []place
	for i := range req.Topics {
		t := &req.Topics[i]
		rt := kmsg.NewOffsetDeleteResponseTopic()
		rt.Topic = t.Topic
		for _, p := range t.Partitions {
			rp := kmsg.NewOffsetDeleteResponseTopicPartition()
			rp.Partition = p.Partition
			if read(t.Topic) {
				rp.ErrorCode = kerr.GroupSubscribedToTopic.Code
			} else if _, ok := g.offsets[t.Topic][p.Partition]; ok {
				gone = append(gone, place{g.name, t.Topic, p.Partition})
			}
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	if len(gone) == 0 {
		m.answer(ev.Token, resp)
		return
	}
	g.erase(gone, false, func(err *kerr.Error) {
		if err != nil {
			m.answer(ev.Token, Refuse(req, err))
			return
		}
		m.answer(ev.Token, resp)
	})
}

// reads tells for a topic whether a member subscribes to it; of one whose subscription cannot be read it is assumed.
func (g *group) reads() func(topic string) bool {
	var topics []string
	unknown := false
	for _, mem := range g.members {
		for _, p := range mem.protocols {
			var meta kmsg.ConsumerMemberMetadata
			if meta.ReadFrom(p.Metadata) != nil {
				unknown = true
				continue
			}
			topics = append(topics, meta.Topics...)
		}
	}
	return func(topic string) bool { return unknown || slices.Contains(topics, topic) }
}
