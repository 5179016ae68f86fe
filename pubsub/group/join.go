package group

import (
	"bytes"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// join handles JoinGroup.
func (m *Machine) join(ev Request, req *kmsg.JoinGroupRequest) {
	refuse := func(err *kerr.Error, id string) { m.answer(ev.Token, refuseJoin(req, err, id)) }
	if err := m.checkJoin(req); err != nil {
		refuse(err, req.MemberID)
		return
	}
	g := m.groups[req.Group]
	if g == nil {
		if req.MemberID != "" {
			refuse(kerr.UnknownMemberID, req.MemberID)
			return
		}
		if g = m.create(req.Group); g == nil {
			refuse(kerr.GroupMaxSizeReached, "")
			return
		}
		g.wakeAt(m.now.Add(idleGroup))
	}
	if req.MemberID == "" {
		g.joinUnknown(ev, req)
	} else {
		g.joinKnown(ev, req)
	}
}

// checkJoin finds what is wrong with a request by itself.
func (m *Machine) checkJoin(req *kmsg.JoinGroupRequest) *kerr.Error {
	session := time.Duration(req.SessionTimeoutMillis) * time.Millisecond
	switch {
	case req.Group == "" || len(req.Group) > maxGroupName:
		return kerr.InvalidGroupID
	case session < m.cfg.MinSession || session > m.cfg.MaxSession:
		return kerr.InvalidSessionTimeout
	case req.InstanceID != nil && (*req.InstanceID == "" || len(*req.InstanceID) > maxInstanceName), len(req.ProtocolType) > 255, len(req.Protocols) > maxProtocols:
		return kerr.InvalidRequest
	}
	if protocolBytes(req.Protocols) > maxMemberMetadata {
		return kerr.MessageTooLarge
	}
	seen := map[string]bool{}
	for _, p := range req.Protocols {
		if p.Name == "" || len(p.Name) > 255 || seen[p.Name] {
			return kerr.InvalidRequest
		}
		seen[p.Name] = true
	}
	return nil
}

func protocolBytes(ps []kmsg.JoinGroupRequestProtocol) (n int) {
	for _, p := range ps {
		n += len(p.Name) + len(p.Metadata)
	}
	return n
}

// ownProtocols are copies: those of a request are pieces of its frame, which may be far larger and would stay as long as the
// member does, counted by nobody.
func ownProtocols(ps []kmsg.JoinGroupRequestProtocol) []kmsg.JoinGroupRequestProtocol {
	own := slices.Clone(ps)
	for i := range own {
		own[i].Metadata = bytes.Clone(own[i].Metadata)
	}
	return own
}

// rebalanceTimeout is how long the member may take to join again. Version 0 knew the session alone.
func rebalanceTimeout(req *kmsg.JoinGroupRequest, longest time.Duration) time.Duration {
	ms := req.RebalanceTimeoutMillis
	if req.Version == 0 || ms <= 0 {
		ms = req.SessionTimeoutMillis
	}
	return min(time.Duration(ms)*time.Millisecond, longest)
}

// hasRoom tells whether one more member, with n bytes of protocols, may be in the group.
func (g *group) hasRoom(n int, without *member) bool {
	used, count := g.metadata()+n, len(g.members)+1
	if without != nil {
		used, count = used-without.bytes, count-1
	}
	return count <= g.m.cfg.Members && used <= maxGroupMetadata
}

// joinUnknown is the join of a member without an id: a new one, or a static one that was started again.
func (g *group) joinUnknown(ev Request, req *kmsg.JoinGroupRequest) {
	var old *member
	prefix := clip(ev.Client.ID, maxClientID)
	if req.InstanceID != nil {
		prefix = *req.InstanceID
		old = g.members[g.static[*req.InstanceID]]
	}
	id := prefix + "-" + g.m.newID()
	switch {
	case !g.supports(req.ProtocolType, req.Protocols, old):
		g.m.answer(ev.Token, refuseJoin(req, kerr.InconsistentGroupProtocol, ""))
	case !g.hasRoom(protocolBytes(req.Protocols), old):
		g.m.answer(ev.Token, refuseJoin(req, kerr.GroupMaxSizeReached, ""))
	case old != nil:
		g.replace(ev, req, old, id)
	case req.InstanceID == nil && req.Version >= 4: // the client joins again with the id; who never does costs little
		if len(g.pending) >= maxPending {
			g.m.answer(ev.Token, refuseJoin(req, kerr.GroupMaxSizeReached, ""))
			return
		}
		lapses := g.m.now.Add(time.Duration(req.SessionTimeoutMillis) * time.Millisecond)
		g.pending[id] = lapses
		g.wakeAt(lapses)
		g.m.answer(ev.Token, refuseJoin(req, kerr.MemberIDRequired, id))
	default:
		g.add(ev, req, id)
	}
}

// joinKnown is the join of a member that has an id.
func (g *group) joinKnown(ev Request, req *kmsg.JoinGroupRequest) {
	refuse := func(err *kerr.Error) { g.m.answer(ev.Token, refuseJoin(req, err, req.MemberID)) }
	if _, ok := g.pending[req.MemberID]; ok && req.InstanceID == nil {
		switch {
		case !g.supports(req.ProtocolType, req.Protocols, nil):
			refuse(kerr.InconsistentGroupProtocol)
		case !g.hasRoom(protocolBytes(req.Protocols), nil):
			refuse(kerr.GroupMaxSizeReached)
		default:
			delete(g.pending, req.MemberID)
			g.add(ev, req, req.MemberID)
		}
		return
	}
	mem, err := g.check(req.MemberID, req.InstanceID)
	switch {
	case err != nil:
		refuse(err)
	case !g.supports(req.ProtocolType, req.Protocols, mem):
		refuse(kerr.InconsistentGroupProtocol)
	case !g.hasRoom(protocolBytes(req.Protocols), mem):
		refuse(kerr.GroupMaxSizeReached)
	case g.state == stateCompleting && mem.says(req.Protocols), // it did not get our answer
		g.state == stateStable && mem.id != g.leader && mem.says(req.Protocols):
		g.alive(mem)
		g.m.answer(ev.Token, g.joinAnswer(req, mem))
	default:
		g.rejoin(ev, req, mem)
	}
}

// says tells whether the member's protocols are still these.
func (mem *member) says(ps []kmsg.JoinGroupRequestProtocol) bool {
	if len(ps) != len(mem.protocols) {
		return false
	}
	for i, p := range ps {
		if p.Name != mem.protocols[i].Name || string(p.Metadata) != string(mem.protocols[i].Metadata) {
			return false
		}
	}
	return true
}

// add makes a member and starts or joins a rebalance.
func (g *group) add(ev Request, req *kmsg.JoinGroupRequest, id string) {
	g.joins++
	mem := &member{
		id: id, client: clip(ev.Client.ID, maxClientID), host: clip(ev.Client.Host, maxClientID), number: g.joins, fresh: true,
	}
	if req.InstanceID != nil {
		mem.instance = *req.InstanceID
		g.static[mem.instance] = id
	}
	if len(g.members) == 0 {
		g.kind = req.ProtocolType
	}
	g.members[id] = mem
	if g.leader == "" {
		g.leader = id
	}
	g.joined = true
	g.rejoin(ev, req, mem)
	if mem.join != nil {
		mem.deadline = g.m.now.Add(newMemberTimeout)
		g.wakeAt(mem.deadline)
	}
}

// rejoin makes the member wait for the next generation. An earlier request of its own has no reader any more.
func (g *group) rejoin(ev Request, req *kmsg.JoinGroupRequest, mem *member) {
	g.endJoin(mem, kerr.RebalanceInProgress)
	g.update(req, mem)
	mem.join = &waiting{ev.Token, req}
	if g.state == statePreparing {
		g.tryComplete()
		return
	}
	g.prepare()
}

func (g *group) update(req *kmsg.JoinGroupRequest, mem *member) {
	mem.session = time.Duration(req.SessionTimeoutMillis) * time.Millisecond
	mem.rebalance = rebalanceTimeout(req, g.m.cfg.MaxSession)
	mem.protocols, mem.bytes = ownProtocols(req.Protocols), protocolBytes(req.Protocols)
	if len(g.members) == 1 {
		g.kind = req.ProtocolType
	}
}

// replace gives a static member that was started again a new id. What still speaks with the old one is fenced. A
// settled group goes on as it is when the member says the same as before.
func (g *group) replace(ev Request, req *kmsg.JoinGroupRequest, mem *member, id string) {
	g.endJoin(mem, kerr.FencedInstanceID)
	g.endSync(mem, kerr.FencedInstanceID)
	old, same := mem.id, mem.says(req.Protocols)
	delete(g.members, old)
	mem.id, mem.client, mem.host = id, clip(ev.Client.ID, maxClientID), clip(ev.Client.Host, maxClientID)
	g.members[id], g.static[mem.instance] = mem, id
	if g.leader == old {
		g.leader = id
	}
	if g.state != stateStable || !same {
		g.rejoin(ev, req, mem)
		return
	}
	g.update(req, mem)
	g.alive(mem)
	g.store(func(err *kerr.Error) {
		if g.members[id] != mem || g.state != stateStable {
			g.m.answer(ev.Token, refuseJoin(req, kerr.RebalanceInProgress, id))
			return
		}
		if err != nil {
			g.m.answer(ev.Token, refuseJoin(req, err, ""))
			return
		}
		resp := g.joinAnswer(req, mem)
		if g.leader == id && req.Version >= 9 {
			resp.SkipAssignment = true
		} else if g.leader == id { // it must not assign anew: to it somebody else leads
			resp.LeaderID, resp.Members = old, nil
		}
		g.m.answer(ev.Token, resp)
	})
}

// joinAnswer tells a member of the generation; its leader learns of all members.
func (g *group) joinAnswer(req kmsg.Request, mem *member) *kmsg.JoinGroupResponse {
	resp := req.ResponseKind().(*kmsg.JoinGroupResponse)
	kind, protocol := g.kind, g.protocol
	resp.Generation, resp.ProtocolType, resp.Protocol = g.generation, &kind, &protocol
	resp.LeaderID, resp.MemberID = g.leader, mem.id
	if mem.id != g.leader {
		return resp
	}
	for _, o := range g.ordered() {
		r := kmsg.NewJoinGroupResponseMember()
		r.MemberID, r.ProtocolMetadata = o.id, o.metadataOf(g.protocol)
		if o.instance != "" {
			instance := o.instance
			r.InstanceID = &instance
		}
		resp.Members = append(resp.Members, r)
	}
	return resp
}

func refuseJoin(req kmsg.Request, err *kerr.Error, id string) *kmsg.JoinGroupResponse {
	resp := req.ResponseKind().(*kmsg.JoinGroupResponse)
	resp.ErrorCode, resp.MemberID, resp.Generation = err.Code, id, -1
	if resp.Version < 7 {
		empty := ""
		resp.Protocol = &empty
	}
	return resp
}

// clip cuts what a client says about itself.
func clip(s string, n int) string { return s[:min(len(s), n)] }
