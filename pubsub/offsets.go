package pubsub

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/bornode/bornode/pubsub/kafka"
	"github.com/bornode/bornode/pubsub/ledger"
	"github.com/bornode/bornode/pubsub/replica"
)

// Timestamps with a meaning of their own in ListOffsets.
const (
	latest        = -1
	earliest      = -2
	largestTime   = -3
	earliestLocal = -4
)

func (b *Broker) listOffsets(x *call, r *kmsg.ListOffsetsRequest) kafka.Reply {
	resp := r.ResponseKind().(*kmsg.ListOffsetsResponse)
	resp.Topics = make([]kmsg.ListOffsetsResponseTopic, len(r.Topics))
	for i := range r.Topics {
		in, out := &r.Topics[i], &resp.Topics[i]
		out.Topic = in.Topic
		out.Partitions = make([]kmsg.ListOffsetsResponseTopicPartition, len(in.Partitions))
		t, err := x.topic(in.Topic, opDescribe)
		if err == nil {
			x.record(t, opDescribe, -1, -1, -1)
		}
		for j := range in.Partitions {
			p, o := &in.Partitions[j], &out.Partitions[j]
			*o = kmsg.NewListOffsetsResponseTopicPartition()
			o.Partition, o.Offset, o.Timestamp, o.LeaderEpoch = p.Partition, -1, -1, -1
			if err != nil {
				o.ErrorCode = code(err)
				continue
			}
			o.ErrorCode = code(x.listOffset(t, p, o))
		}
	}
	return kafka.Now(resp)
}

// listOffset finds one offset. Nothing above the high watermark is told.
func (x *call) listOffset(t *ledger.Topic, in *kmsg.ListOffsetsRequestTopicPartition, out *kmsg.ListOffsetsResponseTopicPartition) error {
	id, p, epoch, err := x.led(t, in.Partition, in.CurrentLeaderEpoch)
	if err != nil {
		return err
	}
	high := x.b.deps.Replicas.HighWatermark(replica.ID(id))
	switch {
	case in.Timestamp == latest:
		out.Offset = high
	case in.Timestamp == earliest, in.Timestamp == earliestLocal:
		out.Offset = p.Start()
	case in.Timestamp == largestTime:
		out.Offset, out.Timestamp, err = p.Newest(high)
	case in.Timestamp < 0:
		return kerr.InvalidRequest
	default:
		var offset, at int64
		if offset, at, err = p.OffsetAt(in.Timestamp); err == nil && offset < high {
			out.Offset, out.Timestamp = offset, at
		}
	}
	if out.Offset >= 0 {
		out.LeaderEpoch = epoch
	}
	return err
}

func (b *Broker) offsetForLeaderEpoch(x *call, r *kmsg.OffsetForLeaderEpochRequest) kafka.Reply {
	resp := r.ResponseKind().(*kmsg.OffsetForLeaderEpochResponse)
	for i := range r.Topics {
		in := &r.Topics[i]
		out := kmsg.NewOffsetForLeaderEpochResponseTopic()
		out.Topic = in.Topic
		t, err := x.topic(in.Topic, opDescribe)
		for j := range in.Partitions {
			p := &in.Partitions[j]
			o := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
			o.Partition, o.LeaderEpoch, o.EndOffset = p.Partition, -1, -1
			if err != nil {
				o.ErrorCode = code(err)
			} else if id, part, epoch, e := x.led(t, p.Partition, p.CurrentLeaderEpoch); e != nil {
				o.ErrorCode = code(e)
			} else if p.LeaderEpoch == epoch {
				o.LeaderEpoch, o.EndOffset = epoch, b.deps.Replicas.HighWatermark(replica.ID(id))
			} else {
				o.LeaderEpoch, o.EndOffset = part.EndOf(p.LeaderEpoch)
			}
			out.Partitions = append(out.Partitions, o)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return kafka.Now(resp)
}

// deleteRecords forgets records below an offset, here and, by the leader's log start, at its replicas.
func (b *Broker) deleteRecords(x *call, r *kmsg.DeleteRecordsRequest) kafka.Reply {
	resp := r.ResponseKind().(*kmsg.DeleteRecordsResponse)
	for i := range r.Topics {
		in := &r.Topics[i]
		out := kmsg.NewDeleteRecordsResponseTopic()
		out.Topic = in.Topic
		t, err := x.topic(in.Topic, opDelete)
		if err == nil && t.Tenant == ownTenant {
			err = kerr.TopicAuthorizationFailed
		}
		for j := range in.Partitions {
			p := &in.Partitions[j]
			o := kmsg.NewDeleteRecordsResponseTopicPartition()
			o.Partition, o.LowWatermark = p.Partition, -1
			if err != nil {
				o.ErrorCode = code(err)
			} else {
				o.ErrorCode = code(x.deleteBefore(t, p, &o))
			}
			out.Partitions = append(out.Partitions, o)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return kafka.Now(resp)
}

func (x *call) deleteBefore(t *ledger.Topic, in *kmsg.DeleteRecordsRequestTopicPartition, out *kmsg.DeleteRecordsResponseTopicPartition) error {
	id, p, _, err := x.led(t, in.Partition, -1)
	if err != nil {
		return err
	}
	high, offset := x.b.deps.Replicas.HighWatermark(replica.ID(id)), in.Offset
	if offset == -1 {
		offset = high
	}
	if offset < 0 || offset > high {
		return kerr.OffsetOutOfRange
	}
	if err := x.b.deps.Replicas.DeleteBefore(replica.ID(id), offset); err != nil {
		return err
	}
	if out.LowWatermark = p.Start(); out.LowWatermark < offset { // what was written a moment ago is not in the evidence yet
		return kerr.RequestTimedOut
	}
	x.record(t, opDelete, id.Partition, 0, offset-1)
	return nil
}

// initProducerID gives an idempotent producer its id. Transactions are not served.
func (b *Broker) initProducerID(x *call, r *kmsg.InitProducerIDRequest) kafka.Reply {
	resp := r.ResponseKind().(*kmsg.InitProducerIDResponse)
	resp.ProducerID, resp.ProducerEpoch = -1, -1
	self := x.node(b.deps.Account)
	switch {
	case r.TransactionalID != nil:
		resp.ErrorCode = kerr.TransactionalIDAuthorizationFailed.Code
		return kafka.Now(resp)
	case self < 0:
		resp.ErrorCode = kerr.CoordinatorLoadInProgress.Code // not registered yet
		return kafka.Now(resp)
	}
	return func(context.Context) kmsg.Response { // a new block of ids is written to disk
		id, err := b.producers.take(self)
		if err != nil {
			b.deps.Log.Error("no producer id is given out: " + err.Error())
			resp.ErrorCode = kerr.CoordinatorNotAvailable.Code
			return resp
		}
		resp.ProducerID, resp.ProducerEpoch = id, 0
		return resp
	}
}
