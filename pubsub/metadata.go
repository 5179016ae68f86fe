package pubsub

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/bornode/bornode/pubsub/kafka"
	"github.com/bornode/bornode/pubsub/ledger"
	"github.com/bornode/bornode/pubsub/replica"
)

// unset is what authorised operations are when nobody asked for them.
const unset = -2147483648

var (
	topicOps   = []uint8{opRead, opWrite, opCreate, opDelete, opAlter, opDescribe, opDescConf, opAltConf}
	clusterOps = []uint8{opCreate, opAlter, opDescribe, opCluster, opDescConf, opAltConf}
)

// operations are the bits of what the principal may do.
func (x *call) operations(ops []uint8, resource uint8, name string) (bits int32) {
	for _, op := range ops {
		if x.may(op, resource, name) {
			bits |= 1 << op
		}
	}
	return bits
}

func (b *Broker) metadata(x *call, r *kmsg.MetadataRequest) kafka.Reply {
	resp := r.ResponseKind().(*kmsg.MetadataResponse)
	resp.ClusterID = text(b.deps.ClusterID)
	resp.ControllerID = x.node(b.deps.Account)
	resp.AuthorizedOperations = unset
	if r.IncludeClusterAuthorizedOperations {
		resp.AuthorizedOperations = x.operations(clusterOps, onCluster, clusterName)
	}
	for _, n := range x.brokers() {
		resp.Brokers = append(resp.Brokers, kmsg.MetadataResponseBroker{NodeID: n.ID, Host: n.Host, Port: n.Port})
	}
	list := x.metadataTopics(r)
	return func(ctx context.Context) kmsg.Response { // large answers are made when they are written, as far as there is memory
		size := 0
		for i := range list {
			size += metadataTopicBytes
			if t := list[i].topic; t != nil {
				size += len(t.Partitions) * metadataPartitionBytes
			}
		}
		if size > smallMetadata && x.conn.Await(ctx, size) != nil {
			return nil
		}
		resp.Topics = make([]kmsg.MetadataResponseTopic, 0, len(list))
		for i := range list {
			resp.Topics = append(resp.Topics, x.metadataTopic(r, &list[i]))
		}
		return resp
	}
}

// judged is a topic that a Metadata request asks for.
type judged struct {
	in    kmsg.MetadataRequestTopic // what names it, if the request does
	topic *ledger.Topic             // nil: err says why it is not told of
	err   error
}

// metadataTopics judges what a request asks for, each topic once, however often it is named.
func (x *call) metadataTopics(r *kmsg.MetadataRequest) (list []judged) {
	if r.Topics == nil || r.Version == 0 && len(r.Topics) == 0 {
		for _, t := range x.v.Topics("") {
			if x.may(opDescribe, onTopic, t.Name) && t.Tenant != ownTenant {
				list = append(list, judged{topic: t})
			}
		}
		return list
	}
	names, ids := make(map[string]struct{}), make(map[[16]byte]struct{})
	for i := range r.Topics {
		in := &r.Topics[i]
		had := len(names) + len(ids)
		if in.Topic != nil {
			names[*in.Topic] = struct{}{}
		} else {
			ids[in.TopicID] = struct{}{}
		}
		if len(names)+len(ids) > had {
			list = append(list, x.judgeMetadata(in))
		}
	}
	return list
}

// judgeMetadata judges one topic that a request names.
func (x *call) judgeMetadata(in *kmsg.MetadataRequestTopic) judged {
	var t *ledger.Topic
	var err error
	if in.Topic != nil {
		t, err = x.topic(*in.Topic, opDescribe)
	} else if t, err = x.topicByUUID(in.TopicID, opDescribe); err != nil {
		err = kerr.UnknownTopicID
	}
	if err == nil {
		x.record(t, opDescribe, -1, -1, -1)
	}
	return judged{*in, t, err}
}

// metadataTopic answers for one topic.
func (x *call) metadataTopic(r *kmsg.MetadataRequest, j *judged) kmsg.MetadataResponseTopic {
	if j.err == nil {
		return x.describeTopic(r, j.topic)
	}
	out := kmsg.NewMetadataResponseTopic()
	out.ErrorCode, out.Topic, out.TopicID = code(j.err), j.in.Topic, j.in.TopicID
	return out
}

// describeTopic tells of a topic's partitions and who leads them.
func (x *call) describeTopic(r *kmsg.MetadataRequest, t *ledger.Topic) kmsg.MetadataResponseTopic {
	out := kmsg.NewMetadataResponseTopic()
	out.Topic, out.TopicID = text(t.Name), uuidOf(t.ID)
	out.IsInternal = t.Tenant == ownTenant
	out.AuthorizedOperations = unset
	if r.IncludeTopicAuthorizedOperations {
		out.AuthorizedOperations = x.operations(topicOps, onTopic, t.Name)
	}
	out.Partitions = make([]kmsg.MetadataResponseTopicPartition, len(t.Partitions))
	for i := range t.Partitions {
		l, p := &t.Partitions[i], &out.Partitions[i]
		*p = kmsg.NewMetadataResponseTopicPartition()
		p.Partition, p.Leader, p.LeaderEpoch = int32(i), x.node(l.Leader), l.Epoch //nolint:gosec // few
		if x.b.deps.Replicas.CutOff(replica.ID{Topic: t.ID, Partition: p.Partition}) {
			p.Leader = -1 // this broker leads as far as it knows; others know better
		}
		if p.Leader < 0 {
			p.ErrorCode = kerr.LeaderNotAvailable.Code
		}
		for _, a := range l.Replicas {
			n := x.v.BrokerByAccount(a)
			switch {
			case n == nil:
				continue
			case n.Live:
				p.ISR = append(p.ISR, n.ID)
			default:
				p.OfflineReplicas = append(p.OfflineReplicas, n.ID)
			}
			p.Replicas = append(p.Replicas, n.ID)
		}
	}
	return out
}

// brokers are the live ones with the addresses under which this client reaches them.
func (x *call) brokers() []ledger.Broker {
	var out []ledger.Broker
	for _, n := range x.v.Brokers() {
		if !n.Live {
			continue
		}
		if n.Account == x.b.deps.Account {
			n.Host, n.Port = x.ownAddress(n)
		}
		out = append(out, n)
	}
	return out
}

func (b *Broker) describeCluster(x *call, r *kmsg.DescribeClusterRequest) kafka.Reply {
	resp := r.ResponseKind().(*kmsg.DescribeClusterResponse)
	resp.ClusterID, resp.ControllerID, resp.EndpointType = b.deps.ClusterID, x.node(b.deps.Account), r.EndpointType
	resp.ClusterAuthorizedOperations = unset
	if r.IncludeClusterAuthorizedOperations {
		resp.ClusterAuthorizedOperations = x.operations(clusterOps, onCluster, clusterName)
	}
	for _, n := range x.brokers() {
		resp.Brokers = append(resp.Brokers, kmsg.DescribeClusterResponseBroker{NodeID: n.ID, Host: n.Host, Port: n.Port})
	}
	return kafka.Now(resp)
}
