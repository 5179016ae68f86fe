package group

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/bornode/bornode/pubsub/acl"
)

// Reply waits for the answer; nil: ctx ended first.
type Reply func(ctx context.Context) kmsg.Response

// Serve takes a request of groups. What must happen in the order of a connection's requests happened when it returns;
// the rest is waited for in the Reply.
func (c *Coordinator) Serve(ctx context.Context, client Client, req kmsg.Request) Reply {
	switch req := req.(type) {
	case *kmsg.JoinGroupRequest:
		return c.one(ctx, client, acl.Read, req.Group, req)
	case *kmsg.SyncGroupRequest:
		return c.one(ctx, client, acl.Read, req.Group, req)
	case *kmsg.HeartbeatRequest:
		return c.one(ctx, client, acl.Read, req.Group, req)
	case *kmsg.LeaveGroupRequest:
		return c.one(ctx, client, acl.Read, req.Group, req)
	case *kmsg.OffsetCommitRequest:
		return c.commit(ctx, client, req)
	case *kmsg.OffsetFetchRequest:
		return c.fetch(client, req)
	case *kmsg.OffsetDeleteRequest:
		return c.deleteOffsets(ctx, client, req)
	case *kmsg.DescribeGroupsRequest:
		return c.describe(client, req)
	case *kmsg.DeleteGroupsRequest:
		return c.deleteGroups(ctx, client, req)
	case *kmsg.ListGroupsRequest:
		return c.list(client, req)
	}
	return done(Refuse(req, kerr.UnsupportedVersion))
}

func done(resp kmsg.Response) Reply { return func(context.Context) kmsg.Response { return resp } }

func (c *Coordinator) check(client Client, operation, resource uint8, name string) *kerr.Error {
	if c.deps.Check == nil {
		return nil
	}
	return c.deps.Check(client, operation, resource, name)
}

// sees tells whether something is listed for a client. It did not ask for that by name: nothing is refused to it.
func (c *Coordinator) sees(client Client, resource uint8, name string) bool {
	if c.deps.Sees == nil {
		return c.check(client, acl.Describe, resource, name) == nil
	}
	return c.deps.Sees(client, resource, name)
}

// one sends a request on one group to its shard, if the client may.
func (c *Coordinator) one(ctx context.Context, client Client, operation uint8, group string, req kmsg.Request) Reply {
	if err := c.check(client, operation, acl.Group, group); err != nil {
		return done(Refuse(req, err))
	}
	return c.send(ctx, client, group, req)
}

// later is one for what only reads: it asks the shard when its answer is about to be written, so that answers that nobody
// takes are not made.
func (c *Coordinator) later(client Client, operation uint8, group string, req kmsg.Request) Reply {
	if err := c.check(client, operation, acl.Group, group); err != nil {
		return done(Refuse(req, err))
	}
	return func(ctx context.Context) kmsg.Response { return c.send(ctx, client, group, req)(ctx) }
}

func (c *Coordinator) send(ctx context.Context, client Client, group string, req kmsg.Request) Reply {
	s := c.shard(Partition(group))
	if s == nil {
		return done(Refuse(req, kerr.NotCoordinator))
	}
	return s.send(ctx, client, req)
}

func (s *shard) send(ctx context.Context, client Client, req kmsg.Request) Reply {
	select {
	case <-s.ready:
	default:
		return done(Refuse(req, kerr.CoordinatorLoadInProgress))
	}
	reply := make(chan kmsg.Response, 1)
	if !s.put(ctx, call{client: client, req: req, reply: reply}) {
		return done(Refuse(req, kerr.NotCoordinator))
	}
	return func(ctx context.Context) kmsg.Response {
		select {
		case r := <-reply:
			return r
		case <-ctx.Done():
			return nil
		case <-s.done:
		}
		select {
		case r := <-reply:
			return r
		default: // it was not taken any more
			return Refuse(req, kerr.NotCoordinator)
		}
	}
}

// commit leaves out topics that the client may not read, and answers for them itself.
func (c *Coordinator) commit(ctx context.Context, client Client, req *kmsg.OffsetCommitRequest) Reply {
	var refused []kmsg.OffsetCommitResponseTopic
	ok := *req
	ok.Topics = nil
	if err := c.check(client, acl.Read, acl.Group, req.Group); err != nil {
		return done(Refuse(req, err))
	}
	for i := range req.Topics {
		if err := c.check(client, acl.Read, acl.Topic, req.Topics[i].Topic); err != nil {
			refused = append(refused, refuseTopic(&req.Topics[i], err.Code))
			continue
		}
		ok.Topics = append(ok.Topics, req.Topics[i])
	}
	inner := c.send(ctx, client, req.Group, &ok)
	return func(ctx context.Context) kmsg.Response {
		resp, _ := inner(ctx).(*kmsg.OffsetCommitResponse)
		if resp == nil {
			return nil
		}
		resp.Topics = append(resp.Topics, refused...)
		return resp
	}
}

// fetch asks the shard of every group; topics that the client may not describe have an error, or are left out where
// all topics were asked for.
func (c *Coordinator) fetch(client Client, req *kmsg.OffsetFetchRequest) Reply {
	groups := once(req.Groups, func(g kmsg.OffsetFetchRequestGroup) string { return g.Group })
	if req.Version < 8 {
		g := kmsg.NewOffsetFetchRequestGroup()
		g.Group = req.Group
		groups = []kmsg.OffsetFetchRequestGroup{g}
	}
	refusals := map[string]*kerr.Error{}
	topic := func(name string, listed bool) *kerr.Error {
		if listed {
			if c.sees(client, acl.Topic, name) {
				return nil
			}
			return kerr.TopicAuthorizationFailed
		}
		err, known := refusals[name]
		if !known {
			err = c.check(client, acl.Describe, acl.Topic, name)
			refusals[name] = err
		}
		return err
	}
	inner := make([]Reply, len(groups))
	for i := range groups {
		part := *req
		if part.Group = groups[i].Group; req.Version >= 8 {
			part.Groups = groups[i : i+1]
		}
		inner[i] = c.later(client, acl.Describe, part.Group, &part)
	}
	return func(ctx context.Context) kmsg.Response {
		out := req.ResponseKind().(*kmsg.OffsetFetchResponse)
		for i, reply := range inner {
			resp, _ := reply(ctx).(*kmsg.OffsetFetchResponse)
			if resp == nil {
				return nil
			}
			out.ErrorCode = resp.ErrorCode
			for _, g := range resp.Groups {
				g.Topics = hide(g.Topics, groups[i].Topics == nil, topic)
				out.Groups = append(out.Groups, g)
			}
			out.Topics = hideOlder(resp.Topics, req.Topics == nil, topic)
		}
		if req.Version >= 8 {
			out.ErrorCode = 0
		}
		return out
	}
}

// once leaves out what a request names again: each answer may be far larger than the name.
func once[T any](list []T, name func(T) string) (out []T) {
	seen := make(map[string]struct{}, len(list))
	for _, x := range list {
		if _, again := seen[name(x)]; !again {
			seen[name(x)] = struct{}{}
			out = append(out, x)
		}
	}
	return out
}

func hide(topics []kmsg.OffsetFetchResponseGroupTopic, all bool, check func(string, bool) *kerr.Error) []kmsg.OffsetFetchResponseGroupTopic {
	var out []kmsg.OffsetFetchResponseGroupTopic
	for _, t := range topics {
		err := check(t.Topic, all)
		if err != nil && all {
			continue
		}
		if err != nil {
			for i := range t.Partitions {
				p := &t.Partitions[i]
				none := ""
				p.Offset, p.LeaderEpoch, p.Metadata, p.ErrorCode = -1, -1, &none, err.Code
			}
		}
		out = append(out, t)
	}
	return out
}

func hideOlder(topics []kmsg.OffsetFetchResponseTopic, all bool, check func(string, bool) *kerr.Error) []kmsg.OffsetFetchResponseTopic {
	var out []kmsg.OffsetFetchResponseTopic
	for _, t := range topics {
		err := check(t.Topic, all)
		if err != nil && all {
			continue
		}
		if err != nil {
			for i := range t.Partitions {
				p := &t.Partitions[i]
				none := ""
				p.Offset, p.LeaderEpoch, p.Metadata, p.ErrorCode = -1, -1, &none, err.Code
			}
		}
		out = append(out, t)
	}
	return out
}

func (c *Coordinator) deleteOffsets(ctx context.Context, client Client, req *kmsg.OffsetDeleteRequest) Reply {
	if err := c.check(client, acl.Delete, acl.Group, req.Group); err != nil {
		return done(Refuse(req, err))
	}
	var refused []kmsg.OffsetDeleteResponseTopic
	ok := *req
	ok.Topics = nil
	for _, t := range req.Topics {
		err := c.check(client, acl.Read, acl.Topic, t.Topic)
		if err == nil {
			ok.Topics = append(ok.Topics, t)
			continue
		}
		r := kmsg.NewOffsetDeleteResponseTopic()
		r.Topic = t.Topic
		for _, p := range t.Partitions {
			r.Partitions = append(r.Partitions, kmsg.OffsetDeleteResponseTopicPartition{Partition: p.Partition, ErrorCode: err.Code})
		}
		refused = append(refused, r)
	}
	inner := c.send(ctx, client, req.Group, &ok)
	return func(ctx context.Context) kmsg.Response {
		resp, _ := inner(ctx).(*kmsg.OffsetDeleteResponse)
		if resp == nil {
			return nil
		}
		resp.Topics = append(resp.Topics, refused...)
		return resp
	}
}

func (c *Coordinator) describe(client Client, req *kmsg.DescribeGroupsRequest) Reply {
	groups := once(req.Groups, func(g string) string { return g })
	inner := make([]Reply, len(groups))
	for i := range groups {
		part := *req
		part.Groups = groups[i : i+1]
		inner[i] = c.later(client, acl.Describe, groups[i], &part)
	}
	return func(ctx context.Context) kmsg.Response {
		out := req.ResponseKind().(*kmsg.DescribeGroupsResponse)
		for _, reply := range inner {
			resp, _ := reply(ctx).(*kmsg.DescribeGroupsResponse)
			if resp == nil {
				return nil
			}
			out.Groups = append(out.Groups, resp.Groups...)
		}
		return out
	}
}

func (c *Coordinator) deleteGroups(ctx context.Context, client Client, req *kmsg.DeleteGroupsRequest) Reply {
	inner := make([]Reply, len(req.Groups))
	for i := range req.Groups {
		part := *req
		part.Groups = req.Groups[i : i+1]
		inner[i] = c.one(ctx, client, acl.Delete, req.Groups[i], &part)
	}
	return func(ctx context.Context) kmsg.Response {
		out := req.ResponseKind().(*kmsg.DeleteGroupsResponse)
		for _, reply := range inner {
			resp, _ := reply(ctx).(*kmsg.DeleteGroupsResponse)
			if resp == nil {
				return nil
			}
			out.Groups = append(out.Groups, resp.Groups...)
		}
		return out
	}
}

// list asks all shards and leaves out groups that the client may not describe.
func (c *Coordinator) list(client Client, req *kmsg.ListGroupsRequest) Reply {
	return func(ctx context.Context) kmsg.Response {
		out := req.ResponseKind().(*kmsg.ListGroupsResponse)
		for _, s := range c.led() {
			resp, _ := s.send(ctx, client, req)(ctx).(*kmsg.ListGroupsResponse)
			if resp == nil {
				return nil
			}
			if resp.ErrorCode == kerr.CoordinatorLoadInProgress.Code {
				out.ErrorCode = resp.ErrorCode
			}
			for _, g := range resp.Groups {
				if c.sees(client, acl.Group, g.Group) {
					out.Groups = append(out.Groups, g)
				}
			}
		}
		return out
	}
}
