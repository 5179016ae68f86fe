package group

import (
	"bytes"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// sync handles SyncGroup: the leader brings the assignment, the others wait for it.
func (m *Machine) sync(ev Request, req *kmsg.SyncGroupRequest) {
	refuse := func(err *kerr.Error) { m.answer(ev.Token, Refuse(req, err)) }
	g := m.groups[req.Group]
	if g == nil {
		refuse(kerr.UnknownMemberID)
		return
	}
	mem, err := g.check(req.MemberID, req.InstanceID)
	switch {
	case err != nil:
		refuse(err)
	case mem.fresh || g.state == stateEmpty:
		refuse(kerr.UnknownMemberID)
	case req.Generation != g.generation:
		refuse(kerr.IllegalGeneration)
	case req.ProtocolType != nil && *req.ProtocolType != g.kind, req.Protocol != nil && *req.Protocol != g.protocol:
		refuse(kerr.InconsistentGroupProtocol)
	case g.state == statePreparing:
		refuse(kerr.RebalanceInProgress)
	case g.state == stateStable:
		g.alive(mem)
		m.answer(ev.Token, g.syncAnswer(req, mem))
	default:
		g.settle(ev, req, mem)
	}
}

// settle makes the member wait for the assignment; with the leader's request it goes to the log.
func (g *group) settle(ev Request, req *kmsg.SyncGroupRequest, mem *member) {
	if mem.id == g.leader && g.storing != g.generation {
		n := 0
		for _, a := range req.GroupAssignment {
			n += len(a.MemberAssignment)
		}
		if n > maxGroupMetadata {
			g.m.answer(ev.Token, Refuse(req, kerr.MessageTooLarge))
			return
		}
	}
	g.endSync(mem, kerr.RebalanceInProgress)
	mem.sync, mem.synced = &waiting{ev.Token, req}, true
	if mem.id != g.leader || g.storing == g.generation {
		return
	}
	for _, o := range g.members {
		o.assignment = nil
	}
	for _, a := range req.GroupAssignment {
		if o := g.members[a.MemberID]; o != nil {
			o.assignment = bytes.Clone(a.MemberAssignment) // not a piece of the request's frame
		}
	}
	generation := g.generation
	g.storing = generation
	g.store(func(err *kerr.Error) {
		if g.storing == generation {
			g.storing = 0
		}
		if g.state != stateCompleting || g.generation != generation {
			return
		}
		if err != nil {
			for _, o := range g.ordered() {
				g.endSync(o, err)
			}
			g.prepare()
			return
		}
		g.state = stateStable
		for _, o := range g.ordered() {
			if w := o.sync; w != nil {
				o.sync = nil
				g.alive(o)
				g.m.answer(w.token, g.syncAnswer(w.req, o))
			}
		}
	})
}

func (g *group) syncAnswer(req kmsg.Request, mem *member) *kmsg.SyncGroupResponse {
	resp := req.ResponseKind().(*kmsg.SyncGroupResponse)
	kind, protocol := g.kind, g.protocol
	resp.ProtocolType, resp.Protocol, resp.MemberAssignment = &kind, &protocol, mem.assignment
	if resp.MemberAssignment == nil {
		resp.MemberAssignment = []byte{}
	}
	return resp
}

// heartbeat handles Heartbeat.
func (m *Machine) heartbeat(ev Request, req *kmsg.HeartbeatRequest) {
	err := kerr.UnknownMemberID
	if g := m.groups[req.Group]; g != nil {
		err = g.beat(req)
	}
	if err != nil {
		m.answer(ev.Token, Refuse(req, err))
		return
	}
	m.answer(ev.Token, req.ResponseKind())
}

func (g *group) beat(req *kmsg.HeartbeatRequest) *kerr.Error {
	mem, err := g.check(req.MemberID, req.InstanceID)
	switch {
	case err != nil:
		return err
	case mem.fresh:
		return kerr.UnknownMemberID
	case req.Generation != g.generation:
		return kerr.IllegalGeneration
	}
	g.alive(mem)
	if g.state == statePreparing {
		return kerr.RebalanceInProgress
	}
	return nil
}

// leave handles LeaveGroup, of one member or (since version 3) of many.
func (m *Machine) leave(ev Request, req *kmsg.LeaveGroupRequest) {
	resp := req.ResponseKind().(*kmsg.LeaveGroupResponse)
	g, had := m.groups[req.Group], 0
	if g != nil {
		had = len(g.members)
	}
	out := func(id string, instance *string) int16 {
		if g == nil {
			return kerr.UnknownMemberID.Code
		}
		return g.out(id, instance)
	}
	if req.Version < 3 {
		resp.ErrorCode = out(req.MemberID, nil)
	}
	for _, l := range req.Members {
		r := kmsg.NewLeaveGroupResponseMember()
		r.MemberID, r.InstanceID, r.ErrorCode = l.MemberID, l.InstanceID, out(l.MemberID, l.InstanceID)
		resp.Members = append(resp.Members, r)
	}
	if g != nil && len(g.members) < had {
		g.after()
	} else if g != nil {
		g.tryComplete() // an id that is not used any more may have been all that was missing
	}
	m.answer(ev.Token, resp)
}

// out takes one member out; an operator may name a static one by its instance alone.
func (g *group) out(id string, instance *string) int16 {
	if _, ok := g.pending[id]; ok && instance == nil {
		delete(g.pending, id)
		return 0
	}
	if instance != nil && id == "" {
		id = g.static[*instance]
	}
	mem, err := g.check(id, instance)
	if err != nil {
		return err.Code
	}
	g.drop(mem, kerr.UnknownMemberID)
	return 0
}
