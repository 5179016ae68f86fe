package pubsub

import (
	"bytes"
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/bornode/bornode/internal/pause"
	"github.com/bornode/bornode/pubsub/kafka"
	"github.com/bornode/bornode/pubsub/ledger"
	"github.com/bornode/bornode/pubsub/replica"
	"github.com/bornode/bornode/pubsub/store"
)

// reading is one partition of a fetch that may be read.
type reading struct {
	in    *kmsg.FetchRequestTopicPartition
	out   *kmsg.FetchResponseTopicPartition
	topic *ledger.Topic
	id    store.ID
}

// fetch judges a request before it returns and reads, and waits if need be, in its Reply.
func (b *Broker) fetch(x *call, r *kmsg.FetchRequest) kafka.Reply {
	resp := r.ResponseKind().(*kmsg.FetchResponse)
	if r.SessionID != 0 {
		resp.ErrorCode = kerr.FetchSessionIDNotFound.Code // sessions are not kept: clients go on without
		return kafka.Now(resp)
	}
	resp.Topics = make([]kmsg.FetchResponseTopic, len(r.Topics))
	var parts []reading
	failed := false
	for i := range r.Topics {
		in, out := &r.Topics[i], &resp.Topics[i]
		out.Topic, out.TopicID = in.Topic, in.TopicID
		out.Partitions = make([]kmsg.FetchResponseTopicPartition, len(in.Partitions))
		t, err := x.fetchTopic(r, in)
		for j := range in.Partitions {
			o := &out.Partitions[j]
			emptyFetch(o, in.Partitions[j].Partition)
			if err != nil {
				o.ErrorCode, failed = code(err), true
				continue
			}
			parts = append(parts, reading{in: &in.Partitions[j], out: o, topic: t,
				id: store.ID{Topic: t.ID, Partition: in.Partitions[j].Partition}})
		}
	}
	return func(ctx context.Context) kmsg.Response {
		f := &fetching{x: x, r: r, parts: parts, failed: failed}
		f.run(ctx)
		resp.ThrottleMillis = f.throttle
		return resp
	}
}

func emptyFetch(o *kmsg.FetchResponseTopicPartition, partition int32) {
	*o = kmsg.NewFetchResponseTopicPartition()
	o.Partition, o.HighWatermark, o.LastStableOffset, o.LogStartOffset = partition, -1, -1, -1
	o.RecordBatches = []byte{} // zero-length, not null: clients stumble over null
}

// fetchTopic judges a topic of a request.
func (x *call) fetchTopic(r *kmsg.FetchRequest, in *kmsg.FetchRequestTopic) (t *ledger.Topic, err error) {
	if r.Version >= 13 {
		t, err = x.topicByUUID(in.TopicID, opRead)
	} else {
		t, err = x.topic(in.Topic, opRead)
	}
	if err != nil {
		return nil, err
	}
	if t.Tenant == ownTenant {
		return nil, kerr.TopicAuthorizationFailed
	}
	if err := x.join(t.Tenant); err != nil {
		return nil, err
	}
	return t, nil
}

// fetching is a fetch in its Reply.
type fetching struct {
	x        *call
	r        *kmsg.FetchRequest
	parts    []reading
	failed   bool // a partition has an error: it is told at once
	room     int  // bytes granted; 0: none yet
	throttle int32
}

// run reads until there is enough, an error or no time left.
func (f *fetching) run(ctx context.Context) {
	b := f.x.b
	if debt := f.debt(); debt > 0 { // the tenant used more than it may: it gets nothing until that is paid
		f.throttle = f.x.throttle(debt)
		return
	}
	wait := min(time.Duration(max(f.r.MaxWaitMillis, 0))*time.Millisecond, maxFetchWait)
	deadline, end := time.NewTimer(wait), time.Now().Add(wait)
	defer deadline.Stop()
	ids := make([]store.ID, len(f.parts))
	for i := range f.parts {
		ids[i] = f.parts[i].id
	}
	w := b.waiters.add(ids) // before the first look: nothing is missed
	defer b.waiters.remove(w)
	for looks := 0; ; looks++ {
		n := f.read()
		if n >= int(f.r.MinBytes) || f.room > 0 && n >= f.room || f.failed || len(f.parts) == 0 && len(f.r.Topics) > 0 {
			break
		}
		f.own()
		select {
		case <-w.woken:
			if f.r.MinBytes > 1 && !pause.For(ctx, min(gatherTime(looks), time.Until(end))) { // it may need many commits
				break
			}
			continue
		case <-deadline.C:
		case <-ctx.Done():
		case <-b.life.Done():
		}
		break
	}
	f.fit(ctx)
	f.settle()
}

// gatherTime is the rest before another look: every look reads again all that the one before found, so a fetch that asks
// for more than comes must not look at each commit.
func gatherTime(looks int) time.Duration {
	return min(gatherRecords<<min(looks, 16), gatherLongest)
}

// fit has memory counted for what was read. A batch goes out whole, however little was granted; where that is too much
// for now, it is let go of and read again when there is room, or not at all: the client asks again.
func (f *fetching) fit(ctx context.Context) {
	total := 0
	for i := range f.parts {
		total += len(f.parts[i].out.RecordBatches)
	}
	if f.x.conn.Keep(total) {
		return
	}
	for i := range f.parts {
		f.parts[i].out.RecordBatches = []byte{}
	}
	ctx, cancel := context.WithTimeout(ctx, maxRoomWait)
	defer cancel()
	if f.x.conn.Await(ctx, total) != nil {
		return
	}
	f.room = total
	f.read()
}

// read fills every partition with what there is, within the request's bytes. It returns how many it found.
func (f *fetching) read() (total int) {
	if f.room == 0 {
		if !f.anything() {
			for i := range f.parts {
				f.look(&f.parts[i], 0, false)
			}
			return 0
		}
		f.room = maxFetchBytes
		if f.r.Version >= 3 && f.r.MaxBytes > 0 {
			f.room = min(f.room, int(f.r.MaxBytes))
		}
		f.room = f.x.conn.Grant(f.room) // memory is taken when there is something to read: most fetches only wait
	}
	for i := range f.parts {
		total += f.look(&f.parts[i], f.room-total, total == 0)
	}
	return total
}

// look reads one partition and keeps its error.
func (f *fetching) look(p *reading, room int, first bool) int {
	n, err := f.x.readPartition(p, room, first)
	if err != nil {
		p.out.ErrorCode, f.failed = code(err), true
	}
	return n
}

// anything reports whether a partition has committed records for the fetch.
func (f *fetching) anything() bool {
	for i := range f.parts {
		p := &f.parts[i]
		if f.x.b.deps.Replicas.HighWatermark(replica.ID(p.id)) > p.in.FetchOffset {
			return true
		}
	}
	return false
}

// readPartition reads one partition. first allows one batch even if it is larger than room.
func (x *call) readPartition(p *reading, room int, first bool) (int, error) {
	emptyFetch(p.out, p.in.Partition)
	_, part, _, err := x.led(p.topic, p.in.Partition, p.in.CurrentLeaderEpoch)
	if err != nil {
		if code(err) == kerr.NotLeaderForPartition.Code && p.in.Partition >= 0 && int(p.in.Partition) < len(p.topic.Partitions) {
			l := &p.topic.Partitions[p.in.Partition]
			p.out.CurrentLeader.LeaderID, p.out.CurrentLeader.LeaderEpoch = x.node(l.Leader), l.Epoch
		}
		return 0, err
	}
	high, start := x.b.deps.Replicas.HighWatermark(replica.ID(p.id)), part.Start()
	p.out.HighWatermark, p.out.LastStableOffset, p.out.LogStartOffset = high, high, start
	from := p.in.FetchOffset
	if from < start || from > part.End() {
		return 0, kerr.OffsetOutOfRange
	}
	limit := min(room, int(p.in.PartitionMaxBytes))
	if from >= high || limit <= 0 && !first {
		return 0, nil
	}
	pieces, err := part.Pieces(from, max(limit, 1), high)
	if err != nil {
		return 0, err
	}
	raw := joined(pieces)
	if !first && len(raw) > limit { // one batch larger than what is left: the next fetch has it first
		return 0, nil
	}
	if len(raw) > 0 {
		p.out.RecordBatches = raw
	}
	return len(raw), nil
}

// joined makes one of pieces. A single one stays the log's own bytes: those who are up to date are sent what came last
// without a copy of it.
func joined(pieces [][]byte) []byte {
	if len(pieces) == 1 {
		return pieces[0]
	}
	return bytes.Join(pieces, nil)
}

// own copies what was read, so that a fetch that goes on waiting does not hold the log's memory.
func (f *fetching) own() {
	for i := range f.parts {
		if o := f.parts[i].out; len(o.RecordBatches) > 0 {
			o.RecordBatches = bytes.Clone(o.RecordBatches)
		}
	}
}

// debt is how long the tenants of the request have to wait.
func (f *fetching) debt() (d time.Duration) {
	for i := range f.parts {
		if i == 0 || f.parts[i].topic != f.parts[i-1].topic {
			tenant := f.parts[i].topic.Tenant
			d = max(d, f.x.b.quotas.takeOut(f.x.b.deps.Now(), tenant, f.x.rate(tenant), 0))
		}
	}
	return d
}

// settle charges and records what the answer holds.
func (f *fetching) settle() {
	b, now := f.x.b, f.x.b.deps.Now()
	for i := range f.parts {
		p := &f.parts[i]
		n := len(p.out.RecordBatches)
		if n == 0 {
			if p.out.ErrorCode != none {
				b.m.failed.WithLabelValues("fetch", codeName(p.out.ErrorCode)).Inc()
			}
			continue
		}
		b.m.bytesOut.Add(float64(n))
		b.quotas.takeOut(now, p.topic.Tenant, f.x.rate(p.topic.Tenant), n)
		f.x.record(p.topic, opRead, p.id.Partition, p.in.FetchOffset, endOffset(p.out.RecordBatches, p.in.FetchOffset+1)-1)
	}
}
