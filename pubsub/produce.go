package pubsub

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/bornode/bornode/pubsub/batch"
	"github.com/bornode/bornode/pubsub/evidence"
	"github.com/bornode/bornode/pubsub/kafka"
	"github.com/bornode/bornode/pubsub/ledger"
	"github.com/bornode/bornode/pubsub/proof"
	"github.com/bornode/bornode/pubsub/replica"
	"github.com/bornode/bornode/pubsub/seal"
	"github.com/bornode/bornode/pubsub/store"
)

// receiptTag is the tagged field of a Produce request that asks for receipts (its value is empty), and of a partition in
// the answer that holds the broker's. Who does not ask does not check: nothing is signed for him.
const receiptTag = 1000

// asksReceipts says whether the client wants receipts. It needs tags: version 9 or newer.
func asksReceipts(r *kmsg.ProduceRequest) (asks bool) {
	r.UnknownTags.Each(func(tag uint32, _ []byte) { asks = asks || tag == receiptTag })
	return asks && r.Acks != 0
}

// appended is a batch whose replicas are waited for.
type appended struct {
	out     *kmsg.ProduceResponseTopicPartition
	pending replica.Pending
	topic   *ledger.Topic
	id      store.ID
	count   int64
	receipt evidence.Signing // nil: not asked for, or of a batch that was there before
}

// produce appends one batch for each partition before it returns, and waits for the replicas in its Reply.
func (b *Broker) produce(x *call, r *kmsg.ProduceRequest) kafka.Reply {
	resp := r.ResponseKind().(*kmsg.ProduceResponse)
	resp.Topics = make([]kmsg.ProduceResponseTopic, len(r.Topics))
	var waits []appended
	var debt time.Duration
	receipts := asksReceipts(r)
	for i := range r.Topics {
		in, out := &r.Topics[i], &resp.Topics[i]
		out.Topic, out.TopicID = in.Topic, in.TopicID
		out.Partitions = make([]kmsg.ProduceResponseTopicPartition, len(in.Partitions))
		t, err := x.produceTopic(r, in)
		for j := range in.Partitions {
			o := &out.Partitions[j]
			*o = kmsg.NewProduceResponseTopicPartition()
			o.Partition, o.BaseOffset, o.LogAppendTime = in.Partitions[j].Partition, -1, -1
			if err != nil {
				if o.ErrorCode = code(err); err == errInDebt {
					o.ErrorMessage = text(err.Error())
				}
				continue
			}
			w, e := x.append(r.Acks, t, &in.Partitions[j], o)
			if e != nil {
				x.produceFailed(t, o, e)
				continue
			}
			if receipts && b.deps.Evidence != nil {
				w.receipt = b.sign(&w, in.Partitions[j].Records)
			}
			waits = append(waits, w)
		}
		if t != nil {
			n := 0
			for j := range in.Partitions {
				n += len(in.Partitions[j].Records)
			}
			b.m.bytesIn.Add(float64(n))
			debt = max(debt, b.quotas.takeIn(x.now, t.Tenant, x.rate(t.Tenant), n))
		}
	}
	resp.ThrottleMillis = x.throttle(debt)
	if r.Acks == 0 {
		for i := range waits {
			x.settle(b.life, &waits[i])
		}
		x.cutOff(resp)
		return nil
	}
	wait := min(time.Duration(max(r.TimeoutMillis, 1))*time.Millisecond, maxProduceWait)
	return func(ctx context.Context) kmsg.Response {
		ctx, cancel := context.WithTimeout(ctx, wait)
		defer cancel()
		for i := range waits {
			x.settle(ctx, &waits[i])
		}
		return resp
	}
}

// cutOff ends the connection of a producer that wants no answers and of whose batches one was refused: else it would go
// on to send them to a broker that does not lead, say, until it asks for metadata by itself. One in debt is only held back.
func (x *call) cutOff(resp *kmsg.ProduceResponse) {
	for i := range resp.Topics {
		for j := range resp.Topics[i].Partitions {
			if o := &resp.Topics[i].Partitions[j]; o.ErrorCode != none && (o.ErrorMessage == nil || *o.ErrorMessage != errInDebt.Error()) {
				x.conn.Close()
				return
			}
		}
	}
}

// produceTopic judges a topic of a request.
func (x *call) produceTopic(r *kmsg.ProduceRequest, in *kmsg.ProduceRequestTopic) (t *ledger.Topic, err error) {
	if r.Version >= 13 {
		t, err = x.topicByUUID(in.TopicID, opWrite)
	} else {
		t, err = x.topic(in.Topic, opWrite)
	}
	switch {
	case err != nil:
		return nil, err
	case r.Version < 3:
		return nil, kerr.UnsupportedForMessageFormat
	case r.TransactionID != nil:
		return nil, kerr.TransactionalIDAuthorizationFailed
	case r.Acks < -1 || r.Acks > 1:
		return nil, kerr.InvalidRequiredAcks
	case t.Tenant == ownTenant:
		return nil, kerr.TopicAuthorizationFailed
	}
	if err := x.join(t.Tenant); err != nil {
		return nil, err
	}
	// Connections that are held back one by one would let a tenant write as fast as it has connections.
	if debt := x.b.quotas.takeIn(x.now, t.Tenant, x.rate(t.Tenant), 0); debt > maxThrottle {
		x.throttle(debt)
		return nil, errInDebt
	}
	return t, nil
}

// errInDebt has the one code of "nothing was written, try again" that all clients know.
var errInDebt = fmt.Errorf("the tenant writes faster than it may: %w", kerr.NotEnoughReplicas)

// append is the ordered part of one partition's produce.
func (x *call) append(acks int16, t *ledger.Topic, in *kmsg.ProduceRequestTopicPartition, out *kmsg.ProduceResponseTopicPartition) (w appended, err error) {
	id, p, _, err := x.led(t, in.Partition, -1)
	if err != nil {
		return w, err
	}
	h, err := x.checkBatch(t, in.Records, out)
	if err != nil {
		return w, err
	}
	pending, err := x.b.deps.Replicas.Append(x.b.life, replica.ID(id), in.Records, acks)
	if err != nil {
		return w, err
	}
	out.LogStartOffset = p.Start()
	x.b.m.recordsIn.Add(float64(h.Count))
	return appended{out: out, pending: pending, topic: t, id: id, count: int64(h.LastOffsetDelta) + 1}, nil
}

// checkBatch judges the records of a partition: exactly one batch, whole, of a kind that this broker keeps.
func (x *call) checkBatch(t *ledger.Topic, records []byte, out *kmsg.ProduceResponseTopicPartition) (batch.Header, error) {
	refuse := func(why string, k *kerr.Error) (batch.Header, error) {
		out.ErrorMessage = text(why)
		return batch.Header{}, k
	}
	if len(records) > maxMessage(t) {
		return refuse("the batch is larger than max.message.bytes of the topic; send smaller batches or raise it", kerr.MessageTooLarge)
	}
	h, size, err := batch.Parse(records)
	switch {
	case err != nil:
		out.ErrorMessage = text(err.Error())
		return h, err
	case size != len(records):
		return refuse("a partition's records are one batch in a request", kerr.InvalidRecord)
	case h.Attributes&(batch.Transactional|batch.Control) != 0:
		return refuse("transactions are not served", kerr.InvalidRecord)
	case h.Attributes&batch.AppendTime != 0:
		return refuse("producers give records their time; the batch says that the broker did", kerr.InvalidRecord)
	case t.Encrypted && !seal.Sealed(records):
		return refuse("the topic is encrypted and the batch is not; produce through the client library or `borcli topic proxy`", kerr.InvalidRecord)
	case t.Encrypted: // what is in it, readers with the key judge
		err = batch.CheckHeader(&h, times(t, x.now))
	default:
		err = x.b.batches.Check(&h, records, times(t, x.now))
	}
	if err != nil {
		out.ErrorMessage = text(err.Error())
	}
	return h, err
}

// produceFailed fills the answer of a partition that took nothing.
func (x *call) produceFailed(t *ledger.Topic, out *kmsg.ProduceResponseTopicPartition, err error) {
	out.ErrorCode = code(err)
	if errors.Is(err, replica.ErrLost) {
		out.ErrorMessage = text("the partition's replicas lost their disks; its owner sets " + setUnclean + " to go on with what is left")
	}
	if out.ErrorCode == kerr.NotLeaderForPartition.Code && int(out.Partition) < len(t.Partitions) && out.Partition >= 0 {
		l := &t.Partitions[out.Partition]
		out.CurrentLeader.LeaderID, out.CurrentLeader.LeaderEpoch = x.node(l.Leader), l.Epoch
	}
	x.b.m.failed.WithLabelValues("produce", codeName(out.ErrorCode)).Inc()
}

// sign begins a batch's receipt while the disks of the replicas work. raw was stamped by the log unless it is a duplicate:
// then its header says what its client pleased, and the log is asked later.
func (b *Broker) sign(w *appended, raw []byte) evidence.Signing {
	if w.pending.Duplicate() {
		return func(ctx context.Context) []byte {
			return b.deps.Evidence.Receipt(ctx, evidence.ID(w.id), w.out.BaseOffset)
		}
	}
	h, _, err := batch.ParseHeader(raw)
	if err != nil {
		return nil
	}
	return b.deps.Evidence.Sign(proof.Placed{Topic: w.id.Topic, Partition: w.id.Partition, Leaf: proof.LeafOf(&h, batch.Covered(raw))})
}

// settle waits for one batch and fills its answer.
func (x *call) settle(ctx context.Context, w *appended) {
	base, _, err := w.pending.Wait(ctx)
	if err != nil { // the batch may be in the log all the same
		x.record(w.topic, opWrite, w.id.Partition, -1, -1)
		x.produceFailed(w.topic, w.out, err)
		return
	}
	w.out.BaseOffset = base
	x.record(w.topic, opWrite, w.id.Partition, base, base+w.count-1)
	if w.receipt != nil {
		if receipt := w.receipt(ctx); receipt != nil {
			w.out.UnknownTags.Set(receiptTag, receipt)
		}
	}
}
