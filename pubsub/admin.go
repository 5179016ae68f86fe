package pubsub

import (
	"context"
	"errors"
	"strings"

	"github.com/ethereum/go-ethereum/common"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/errgroup"

	"github.com/bornode/bornode/contracts"
	"github.com/bornode/bornode/pubsub/kafka"
	"github.com/bornode/bornode/pubsub/ledger"
	"github.com/bornode/bornode/pubsub/proof"
	"github.com/bornode/bornode/pubsub/token"
)

// This file sends what clients administer to the ledger, for the account whose token they showed.

// outcome is the end of one administrative call as Kafka tells it.
type outcome struct {
	code    int16
	message *string
}

func (o outcome) reason() string {
	if o.code == none || o.message == nil {
		return ""
	}
	return proof.CutReason(*o.message)
}

func failed(e *kerr.Error, message string) outcome { return outcome{e.Code, text(message)} }

// dispatchAdmin serves the requests that change the ledger; false: it is none of them.
func (b *Broker) dispatchAdmin(x *call, req kmsg.Request) (kafka.Reply, bool) {
	switch r := req.(type) {
	case *kmsg.CreateTopicsRequest:
		return b.createTopics(x, r), true
	case *kmsg.DeleteTopicsRequest:
		return b.deleteTopics(x, r), true
	case *kmsg.CreatePartitionsRequest:
		return b.createPartitions(x, r), true
	case *kmsg.AlterConfigsRequest:
		return b.alterConfigs(x, r), true
	case *kmsg.IncrementalAlterConfigsRequest:
		return b.incrementalAlterConfigs(x, r), true
	case *kmsg.CreateACLsRequest:
		return b.createACLs(x, r), true
	case *kmsg.DeleteACLsRequest:
		return b.deleteACLs(x, r), true
	case *kmsg.DeleteRecordsRequest:
		return b.deleteRecords(x, r), true
	}
	return nil, false
}

// relay has the contract make a call for the session's account; it returns when the call is final and seen in the view.
func (x *call) relay(ctx context.Context, kind string, data []byte, seen func(v *ledger.View) bool) outcome {
	t := x.s.Token
	if t == nil || t.Scope&token.Admin == 0 {
		return failed(kerr.ClusterAuthorizationFailed, errNoAdmin.Error())
	}
	select {
	case x.b.admins <- struct{}{}:
		defer func() { <-x.b.admins }()
	default:
		return failed(kerr.ThrottlingQuotaExceeded, "too many administrative requests are under way at this broker; try again")
	}
	ctx, cancel := context.WithTimeout(ctx, adminWait)
	defer cancel()
	args := contracts.Token{Account: t.Account, Issued: t.Issued, Expires: t.Expires, Scope: t.Scope, Nonce: t.Nonce}
	if err := x.b.deps.Submit.Submit(ctx, kind, contracts.RelayCall(args, t.Signature[:], data)); err != nil {
		return x.b.refusedBy(err)
	}
	x.b.awaitView(ctx, seen)
	return outcome{}
}

// awaitView returns when a view shows a change, or ctx ends: clients ask at once for what they made.
func (b *Broker) awaitView(ctx context.Context, seen func(v *ledger.View) bool) {
	for {
		changed := b.deps.Ledger.Changed()
		if v := b.deps.Ledger.View(); v != nil && seen(v) {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// refusals are Kafka's errors for the contract's reasons, by a part of their text.
var refusals = []struct {
	part string
	err  *kerr.Error
}{
	{"there is a topic of this name", kerr.TopicAlreadyExists},
	{"no such topic", kerr.UnknownTopicOrPartition},
	{"no such tenant", kerr.InvalidTopicException},
	{"topic's name", kerr.InvalidTopicException},
	{"fewer live brokers", kerr.InvalidReplicationFactor},
	{"1 to 7 replicas", kerr.InvalidReplicationFactor},
	{"as many partitions; their number never falls", kerr.InvalidPartitions},
	{"1 to 1024 partitions", kerr.InvalidPartitions},
	{"new partitions in one call", kerr.InvalidPartitions},
	{"partitions left", kerr.PolicyViolation},
	{"as many topics as it may", kerr.PolicyViolation},
	{"configuration has more", kerr.InvalidConfig},
	{"owner", kerr.TopicAuthorizationFailed},
	{"reputation in this tenant is below", kerr.ClusterAuthorizationFailed},
	{"token", kerr.ClusterAuthorizationFailed},
}

// refusedBy tells a client why its call did not reach the ledger.
func (b *Broker) refusedBy(err error) outcome {
	var r interface{ Refusal() string }
	switch {
	case errors.As(err, &r):
		for _, x := range refusals {
			if strings.Contains(r.Refusal(), x.part) {
				return failed(x.err, r.Refusal())
			}
		}
		return failed(kerr.InvalidRequest, r.Refusal())
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return failed(kerr.RequestTimedOut, "the change is not final yet; it may still come: look before you try again")
	}
	return failed(kerr.CoordinatorNotAvailable, err.Error())
}

// each runs the calls of one request one after the other: the second may need the first.
func each[T any](list []T, f func(i int, in *T)) {
	for i := range list {
		f(i, &list[i])
	}
}

// eachAtOnce runs calls of one request that need nothing of each other, some of them at one time: each waits for a final
// block, and clients do not wait for a hundred of these.
func eachAtOnce[T any](list []T, f func(i int, in *T)) {
	var g errgroup.Group
	g.SetLimit(adminsAtOnce)
	for i := range list {
		g.Go(func() error { f(i, &list[i]); return nil })
	}
	_ = g.Wait() // none fails
}

func (b *Broker) createTopics(x *call, r *kmsg.CreateTopicsRequest) kafka.Reply {
	resp := r.ResponseKind().(*kmsg.CreateTopicsResponse)
	return func(ctx context.Context) kmsg.Response {
		resp.Topics = make([]kmsg.CreateTopicsResponseTopic, len(r.Topics))
		eachAtOnce(r.Topics, func(i int, in *kmsg.CreateTopicsRequestTopic) {
			out := kmsg.NewCreateTopicsResponseTopic()
			out.Topic = in.Topic
			o := x.createTopic(ctx, r, in)
			out.ErrorCode, out.ErrorMessage = o.code, o.message
			if t := b.deps.Ledger.View().Topic(in.Topic); t != nil && o.code == none && !r.ValidateOnly {
				out.TopicID, out.NumPartitions = uuidOf(t.ID), int32(len(t.Partitions)) //nolint:gosec // few
				out.ReplicationFactor = int16(len(t.Partitions[0].Replicas))            //nolint:gosec // few
			}
			resp.Topics[i] = out
		})
		return resp
	}
}

func (x *call) createTopic(ctx context.Context, r *kmsg.CreateTopicsRequest, in *kmsg.CreateTopicsRequestTopic) outcome {
	settings := make(map[string]string)
	for _, c := range in.Configs {
		if c.Value != nil {
			settings[c.Name] = *c.Value
		}
	}
	encrypted, auditor, err := ownSettings(settings)
	if err == nil {
		err = checkSettings(settings)
	}
	if err != nil {
		return failed(kerr.InvalidConfig, err.Error())
	}
	partitions, replicas := in.NumPartitions, in.ReplicationFactor
	if len(in.ReplicaAssignment) > 0 {
		return failed(kerr.InvalidReplicaAssignment, "the ledger places replicas; give a number of partitions and a replication factor")
	}
	if partitions == -1 {
		partitions = 1
	}
	if live := len(x.brokers()); replicas == -1 {
		replicas = int16(min(3, live)) //nolint:gosec // at most 3
	} else if int(replicas) > live {
		return failed(kerr.InvalidReplicationFactor, "there are fewer live brokers than replicas were asked for")
	}
	switch {
	case partitions < 1:
		return failed(kerr.InvalidPartitions, "a topic has 1 to 1024 partitions")
	case replicas < 1:
		return failed(kerr.InvalidReplicationFactor, "a partition has 1 to 7 replicas")
	case tenantOf(in.Topic) == "" || tenantOf(in.Topic) == ownTenant:
		return failed(kerr.InvalidTopicException, "a topic's name is its tenant's, a dot and more, like acme.orders")
	case r.ValidateOnly:
		return x.validTopic(in.Topic)
	}
	data, err := contracts.CreateTopicCall(contracts.NewTopic{Name: in.Topic, Partitions: uint32(partitions), Replicas: uint16(replicas), //nolint:gosec // positive
		Config: settings, Auditor: auditor, Encrypted: encrypted})
	if err != nil {
		return failed(kerr.InvalidRequest, err.Error())
	}
	return x.relay(ctx, "create topic", data, func(v *ledger.View) bool { return v.Topic(in.Topic) != nil })
}

// validTopic answers for a topic that is not to be created really; only who may create it learns whether there is one.
func (x *call) validTopic(name string) outcome {
	switch {
	case !x.ownsTenant(tenantOf(name)) && !x.may(opCreate, onTopic, name):
		return failed(kerr.TopicAuthorizationFailed, "only the tenant's owner, and who it allows CREATE on all its topics, creates topics")
	case x.v.Topic(name) != nil:
		return failed(kerr.TopicAlreadyExists, "there is a topic of this name")
	}
	return outcome{}
}

func (b *Broker) deleteTopics(x *call, r *kmsg.DeleteTopicsRequest) kafka.Reply {
	resp := r.ResponseKind().(*kmsg.DeleteTopicsResponse)
	topics := r.Topics
	for _, name := range r.TopicNames {
		topics = append(topics, kmsg.DeleteTopicsRequestTopic{Topic: text(name)})
	}
	return func(ctx context.Context) kmsg.Response {
		resp.Topics = make([]kmsg.DeleteTopicsResponseTopic, len(topics))
		eachAtOnce(topics, func(i int, in *kmsg.DeleteTopicsRequestTopic) {
			out := kmsg.NewDeleteTopicsResponseTopic()
			out.Topic, out.TopicID = in.Topic, in.TopicID
			var t *ledger.Topic
			var err error
			if in.Topic != nil {
				t, err = x.ownTopic(*in.Topic, opDelete)
			} else {
				t, err = x.topicByUUID(in.TopicID, opDelete)
			}
			if err != nil {
				out.ErrorCode = code(err)
			} else {
				o := x.relay(ctx, "delete topic", contracts.DeleteTopicCall(t.ID), func(v *ledger.View) bool { return v.TopicByID(t.ID) == nil })
				out.ErrorCode, out.ErrorMessage, out.TopicID = o.code, o.message, uuidOf(t.ID)
				x.administered(t, opDelete, o)
			}
			resp.Topics[i] = out
		})
		return resp
	}
}

// ownTopic finds a topic that the session's account changes: the contract judges whether it may, but who may not see a
// topic does not learn of it.
func (x *call) ownTopic(name string, op uint8) (*ledger.Topic, error) {
	t := x.v.Topic(name)
	if t != nil && (t.Owner == x.s.Account || x.ownsTenant(t.Tenant)) {
		return t, nil
	}
	return x.topic(name, op)
}

func (x *call) ownsTenant(name string) bool {
	t := x.v.Tenant(name)
	return t != nil && t.Owner == x.s.Account && t.Owner != (common.Address{})
}

func (b *Broker) createPartitions(x *call, r *kmsg.CreatePartitionsRequest) kafka.Reply {
	resp := r.ResponseKind().(*kmsg.CreatePartitionsResponse)
	return func(ctx context.Context) kmsg.Response {
		each(r.Topics, func(_ int, in *kmsg.CreatePartitionsRequestTopic) {
			out := kmsg.NewCreatePartitionsResponseTopic()
			out.Topic = in.Topic
			o := x.addPartitions(ctx, r.ValidateOnly, in)
			out.ErrorCode, out.ErrorMessage = o.code, o.message
			resp.Topics = append(resp.Topics, out)
		})
		return resp
	}
}

func (x *call) addPartitions(ctx context.Context, only bool, in *kmsg.CreatePartitionsRequestTopic) outcome {
	t, err := x.ownTopic(in.Topic, opAlter)
	switch {
	case err != nil:
		return outcome{code: code(err)}
	case in.Assignment != nil:
		return failed(kerr.InvalidReplicaAssignment, "the ledger places replicas; give the number of partitions alone")
	case int(in.Count) <= len(t.Partitions):
		return failed(kerr.InvalidPartitions, "the topic has as many partitions; their number never falls")
	case only:
		return outcome{}
	}
	o := x.relay(ctx, "add partitions", contracts.AddPartitionsCall(t.ID, uint32(in.Count)), //nolint:gosec // positive
		func(v *ledger.View) bool {
			n := v.TopicByID(t.ID)
			return n == nil || len(n.Partitions) >= int(in.Count)
		})
	x.administered(t, opAlter, o)
	return o
}
