package group

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/bornode/bornode/contracts"
	"github.com/bornode/bornode/pubsub/batch"
)

// ErrRecord is wrapped by every error about a record of the topic TopicName that cannot be read.
var ErrRecord = errors.New("no record of consumer groups")

const (
	recordVersion = 1
	offsetVersion = 2 // of an offset; 1 does not say of which topic of the name it is
	kindOffset    = 1
	kindGroup     = 2
)

// Partition is the partition of TopicName that keeps the group: the contract's rule, since it takes offsets of a group
// from the leader of that partition alone.
func Partition(group string) int32 { return contracts.GroupPartition(contracts.GroupID(group)) }

// Record is one record of the log. A nil value says that the key is gone.
type Record struct{ Key, Value []byte }

// place names an offset.
type place struct {
	group, topic string
	partition    int32
}

// committed is an offset as the log has it.
type committed struct {
	offset   int64
	epoch    int32 // of the topic's leader, -1 unknown
	metadata string
	time     int64 // ms
	at       int64 // offset of its record in the log
	born     int64 // height at which the topic was made, since another one may get its name; 0: unknown
}

// stored is a group as the log has it.
type stored struct {
	generation             int32
	kind, protocol, leader string
	emptySince             int64 // ms; 0: it has members
	at                     int64
	members                []storedMember
}

type storedMember struct {
	id, instance, client, host string
	session, rebalance         time.Duration
	protocols                  []kmsg.JoinGroupRequestProtocol
	assignment                 []byte
}

func offsetKey(p place) []byte {
	b := []byte{recordVersion, kindOffset}
	b = kbin.AppendString(b, p.group)
	b = kbin.AppendString(b, p.topic)
	return kbin.AppendInt32(b, p.partition)
}

func groupKey(name string) []byte {
	return kbin.AppendString([]byte{recordVersion, kindGroup}, name)
}

// encodeOffset encodes c; at is -1 in a record that is no copy.
func encodeOffset(c committed, at int64) []byte {
	b := []byte{offsetVersion}
	b = kbin.AppendInt64(b, at)
	b = kbin.AppendInt64(b, c.offset)
	b = kbin.AppendInt32(b, c.epoch)
	b = kbin.AppendString(b, c.metadata)
	b = kbin.AppendInt64(b, c.time)
	return kbin.AppendInt64(b, c.born)
}

func encodeGroup(s stored, at int64) []byte {
	b := []byte{recordVersion}
	b = kbin.AppendInt64(b, at)
	b = kbin.AppendInt32(b, s.generation)
	b = kbin.AppendString(b, s.kind)
	b = kbin.AppendString(b, s.protocol)
	b = kbin.AppendString(b, s.leader)
	b = kbin.AppendInt64(b, s.emptySince)
	b = kbin.AppendArrayLen(b, len(s.members))
	for i := range s.members {
		m := &s.members[i]
		for _, t := range [...]string{m.id, m.instance, m.client, m.host} {
			b = kbin.AppendString(b, t)
		}
		b = kbin.AppendInt32(b, int32(m.session.Milliseconds()))
		b = kbin.AppendInt32(b, int32(m.rebalance.Milliseconds()))
		b = kbin.AppendArrayLen(b, len(m.protocols))
		for _, p := range m.protocols {
			b = kbin.AppendString(b, p.Name)
			b = kbin.AppendBytes(b, p.Metadata)
		}
		b = kbin.AppendBytes(b, m.assignment)
	}
	return b
}

// movedGroup is the value of a group's record for a copy of it; at is where the record was.
func movedGroup(value []byte, at int64) []byte {
	b := slices.Clone(value)
	binary.BigEndian.PutUint64(b[1:], uint64(at))
	return b
}

// decodeKey reads a key; topic is empty in the key of a group. The error wraps ErrRecord.
func decodeKey(key []byte) (p place, isGroup bool, err error) {
	r := kbin.Reader{Src: key}
	version, kind := r.Int8(), r.Int8()
	if !r.Ok() || version != recordVersion || kind != kindOffset && kind != kindGroup {
		return p, false, fmt.Errorf("%w: key of version %d and kind %d; a newer program wrote it", ErrRecord, version, kind)
	}
	p.group = r.String()
	if kind == kindOffset {
		p.topic, p.partition = r.String(), r.Int32()
	}
	if r.Complete() != nil || len(r.Src) > 0 || p.group == "" || kind == kindOffset && (p.topic == "" || p.partition < 0) {
		return p, false, fmt.Errorf("%w: key of %d bytes", ErrRecord, len(key))
	}
	return p, kind == kindGroup, nil
}

// decodeOffset reads a value; the record is at offset own in the log. The error wraps ErrRecord.
func decodeOffset(value []byte, own int64) (committed, error) {
	r := kbin.Reader{Src: value}
	version := r.Int8()
	c := committed{at: r.Int64(), offset: r.Int64(), epoch: r.Int32(), metadata: r.String(), time: r.Int64()}
	if version == offsetVersion {
		c.born = r.Int64()
	}
	if r.Complete() != nil || len(r.Src) > 0 || version < 1 || version > offsetVersion || c.born < 0 || c.offset < 0 || c.at < -1 || c.at >= own && own >= 0 {
		return c, fmt.Errorf("%w: an offset of version %d in %d bytes", ErrRecord, version, len(value))
	}
	if c.at < 0 {
		c.at = own
	}
	return c, nil
}

func decodeGroup(value []byte, own int64) (stored, error) {
	r := kbin.Reader{Src: value}
	version := r.Int8()
	s := stored{at: r.Int64(), generation: r.Int32(), kind: r.String(), protocol: r.String(), leader: r.String(), emptySince: r.Int64()}
	for n := r.ArrayLen(); n > 0 && r.Ok(); n-- {
		m := storedMember{id: r.String(), instance: r.String(), client: r.String(), host: r.String(),
			session: time.Duration(r.Int32()) * time.Millisecond, rebalance: time.Duration(r.Int32()) * time.Millisecond}
		for k := r.ArrayLen(); k > 0 && r.Ok(); k-- {
			m.protocols = append(m.protocols, kmsg.JoinGroupRequestProtocol{Name: r.String(), Metadata: r.Bytes()})
		}
		m.assignment = r.Bytes()
		s.members = append(s.members, m)
	}
	if r.Complete() != nil || len(r.Src) > 0 || version != recordVersion || s.generation < 0 || s.at < -1 || s.at >= own && own >= 0 {
		return s, fmt.Errorf("%w: a group of version %d in %d bytes", ErrRecord, version, len(value))
	}
	if s.at < 0 {
		s.at = own
	}
	return s, nil
}

// encodeBatch puts records into one record batch without a base offset.
func encodeBatch(records []Record, now time.Time) []byte {
	var body []byte
	for i, rec := range records {
		r := kmsg.Record{OffsetDelta: int32(i), Key: rec.Key, Value: rec.Value}
		r.Length = int32(len(r.AppendTo(nil)) - 1) // a length of 0 takes one byte
		body = r.AppendTo(body)
	}
	ms := now.UnixMilli()
	return batch.Encode(batch.Header{
		LeaderEpoch: -1, LastOffsetDelta: int32(len(records) - 1), FirstTimestamp: ms, MaxTimestamp: ms,
		ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1, Count: int32(len(records)),
	}, body)
}

// eachRecord calls f for every record of whole batches. Batches without records, which mark a new leader, pass. The
// error wraps ErrRecord, batch.ErrCorrupt or is f's.
func eachRecord(raw []byte, f func(offset int64, r Record) error) error {
	return batch.Each(raw, func(h batch.Header, one []byte) error {
		if h.Attributes&batch.Control != 0 {
			return nil
		}
		body := batch.Records(one)
		if h.Attributes&batch.CodecMask != 0 {
			return fmt.Errorf("%w: a compressed batch at offset %d", ErrRecord, h.BaseOffset)
		}
		for i := int32(0); i < h.Count; i++ {
			n, w := kbin.Varint(body)
			if w <= 0 || n < 0 || int64(n) > int64(len(body)-w) {
				return fmt.Errorf("%w: record %d of the batch at offset %d does not end", ErrRecord, i, h.BaseOffset)
			}
			var r kmsg.Record
			if err := r.ReadFrom(body[:w+int(n)]); err != nil {
				return fmt.Errorf("%w: record %d of the batch at offset %d: %w", ErrRecord, i, h.BaseOffset, err)
			}
			body = body[w+int(n):]
			if err := f(h.BaseOffset+int64(i), Record{r.Key, r.Value}); err != nil {
				return err
			}
		}
		return nil
	})
}
