package pubsub

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/bornode/bornode/contracts"
	"github.com/bornode/bornode/pubsub/batch"
	"github.com/bornode/bornode/pubsub/ledger"
	"github.com/bornode/bornode/pubsub/replica"
	"github.com/bornode/bornode/pubsub/seal"
	"github.com/bornode/bornode/pubsub/store"
)

func sample(attributes int16, count int32) []byte { return sampleAt(0, attributes, count) }

// sampleAt is a batch of records without key and value, all of one time in ms.
func sampleAt(ms int64, attributes int16, count int32) []byte {
	var records []byte
	for i := range count {
		body := append(binary.AppendVarint([]byte{0, 0}, int64(i)), 1, 1, 0)
		records = append(binary.AppendVarint(records, int64(len(body))), body...)
	}
	return batch.Encode(batch.Header{Attributes: attributes, LastOffsetDelta: count - 1, FirstTimestamp: ms, MaxTimestamp: ms,
		ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1, Count: count}, records)
}

func TestOnlyOneWholeBatchIsTaken(t *testing.T) {
	x, out := &call{b: &Broker{batches: batch.NewChecker(1)}, now: time.UnixMilli(100_000_000)}, new(kmsg.ProduceResponseTopicPartition)
	plain := &ledger.Topic{}
	take := func(topic *ledger.Topic, raw []byte) int16 {
		_, err := x.checkBatch(topic, raw, out)
		return code(err)
	}
	good := sample(0, 2)
	require.Equal(t, none, take(plain, good))
	require.Equal(t, kerr.InvalidRecord.Code, take(plain, append(sample(0, 1), sample(0, 1)...)), "two batches")
	require.Equal(t, kerr.CorruptMessage.Code, take(plain, nil))
	require.Equal(t, kerr.CorruptMessage.Code, take(plain, good[:len(good)-1]))
	flipped := sample(0, 2)
	flipped[len(flipped)-1] ^= 1
	require.Equal(t, kerr.CorruptMessage.Code, take(plain, flipped))
	for name, attributes := range map[string]int16{"transactional": batch.Transactional, "control": batch.Control, "append time": batch.AppendTime} {
		require.Equal(t, kerr.InvalidRecord.Code, take(plain, sample(attributes, 1)), name)
	}
	gaps := batch.Encode(batch.Header{LastOffsetDelta: 5, ProducerID: -1, FirstSequence: -1, Count: 2}, nil)
	require.Equal(t, kerr.InvalidRecord.Code, take(plain, gaps))
	require.Equal(t, kerr.InvalidRecord.Code, take(&ledger.Topic{Encrypted: true}, good), "in the clear")
	require.Equal(t, kerr.MessageTooLarge.Code, take(&ledger.Topic{Config: map[string]string{setMaxMessage: "1024"}}, make([]byte, 1025)))
	require.Equal(t, kerr.UnsupportedCompressionType.Code, take(plain, batch.WithRecords(good, batch.Records(good), 5)))
	require.Equal(t, kerr.InvalidRecord.Code, take(plain, batch.WithRecords(good, batch.Records(good), 4)), "it says zstd")
	require.Equal(t, kerr.InvalidRecord.Code, take(plain, batch.WithRecords(good, append(batch.Records(good), 0), 0)))
	zeros, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	body := append(binary.AppendVarint([]byte{0, 0, 0, 1}, 1<<26), make([]byte, 1<<26+1)...)
	bomb := append(binary.AppendVarint(nil, int64(len(body))), body...)
	require.Equal(t, kerr.MessageTooLarge.Code, take(plain, batch.WithRecords(sample(0, 1), zeros.EncodeAll(bomb, nil), 4)))
}

func TestRecordTimesOutsideATopicsBoundsAreRefused(t *testing.T) {
	const now = 100_000_000
	x := &call{b: &Broker{batches: batch.NewChecker(1)}, now: time.UnixMilli(now)}
	take := func(topic *ledger.Topic, ms int64) int16 {
		_, err := x.checkBatch(topic, sampleAt(ms, 0, 2), new(kmsg.ProduceResponseTopicPartition))
		return code(err)
	}
	for name, c := range map[string]struct {
		config         map[string]string
		taken, refused []int64
	}{
		"defaults":  {nil, []int64{-1, 0, 1, now, now + 3_600_000}, []int64{now + 3_600_001, math.MaxInt64 - 10}},
		"a minute":  {map[string]string{setTimeBefore: "60000", setTimeAfter: "0"}, []int64{-1, now - 60_000, now}, []int64{0, now - 60_001, now + 1}},
		"all times": {map[string]string{setTimeAfter: "9223372036854775807"}, []int64{0, math.MaxInt64 - 10}, nil},
	} {
		require.NoError(t, checkSettings(c.config))
		for _, ms := range c.taken {
			require.Equal(t, none, take(&ledger.Topic{Config: c.config}, ms), "%s: %d", name, ms)
		}
		for _, ms := range c.refused {
			require.Equal(t, kerr.InvalidTimestamp.Code, take(&ledger.Topic{Config: c.config}, ms), "%s: %d", name, ms)
		}
	}
	sealer := seal.NewSealer(common.Hash{1}, common.Hash{2}, 0, seal.NewKey())
	for ms, want := range map[int64]int16{now: none, now + 3_600_001: kerr.InvalidTimestamp.Code} {
		raw, err := sealer.Seal(nil, sampleAt(ms, 0, 2), 0)
		require.NoError(t, err)
		_, err = x.checkBatch(&ledger.Topic{Encrypted: true}, raw, new(kmsg.ProduceResponseTopicPartition))
		require.Equal(t, want, code(err), "encrypted, %d", ms)
	}
	described := map[string]string{}
	for _, c := range configsOf(&ledger.Topic{Config: map[string]string{setTimeAfter: "5"}}, nil) {
		described[c.Name] = *c.Value
	}
	require.Equal(t, "5", described[setTimeAfter])
	require.Equal(t, "9223372036854775807", described[setTimeBefore])
	require.Equal(t, "CreateTime", described[setTimeType])
}

func TestSettingsThatAreNotServedAreRefused(t *testing.T) {
	require.NoError(t, checkSettings(map[string]string{setRetentionMS: "-1", setRetentionBytes: "1000", setMaxMessage: "2048", setCleanup: "delete", setCompression: "producer", setUnclean: "true"}))
	for key, value := range map[string]string{setCleanup: "compact", setRetentionMS: "soon", setMaxMessage: "999999999", setCompression: "gzip", setUnclean: "yes", setTimeType: "LogAppendTime", setTimeBefore: "-1", "min.insync.replicas": "2"} {
		require.ErrorContains(t, checkSettings(map[string]string{key: value}), key)
	}
	all := map[string]string{setEncrypted: "true", setAuditor: "0x00000000000000000000000000000000000000aa", setRetentionMS: "1"}
	encrypted, auditor, err := ownSettings(all)
	require.NoError(t, err)
	require.True(t, encrypted)
	require.Equal(t, byte(0xaa), auditor[19])
	require.Equal(t, map[string]string{setRetentionMS: "1"}, all)
	_, _, err = ownSettings(map[string]string{setAuditor: "somebody"})
	require.ErrorContains(t, err, setAuditor)
}

func TestWhatATopicKeeps(t *testing.T) {
	require.Equal(t, store.Retention{}, retention(&ledger.Topic{}), "everything")
	require.Equal(t, store.Retention{Bytes: 7, Age: 1500 * time.Millisecond}, retention(&ledger.Topic{Config: map[string]string{setRetentionMS: "1500", setRetentionBytes: "7"}}))
	require.Equal(t, store.Retention{}, retention(&ledger.Topic{Config: map[string]string{setRetentionMS: "9223372036854775807", setRetentionBytes: "nonsense"}}), "nothing is removed by mistake")
}

func TestFiltersOfRulesPickWhatKafkasDo(t *testing.T) {
	rule := contracts.Acl{Resource: onTopic, Pattern: contracts.PatternPrefixed, Name: "acme.or", Principal: "User:*", Host: "*", Operation: opRead, Permission: contracts.PermissionAllow}
	everything := func() filter {
		return filter{resource: kmsg.ACLResourceTypeAny, pattern: kmsg.ACLResourcePatternTypeAny, operation: kmsg.ACLOperationAny, permission: kmsg.ACLPermissionTypeAny}
	}
	for name, c := range map[string]struct {
		change func(*filter)
		want   bool
	}{
		"everything":      {func(*filter) {}, true},
		"its name":        {func(f *filter) { f.name = text("acme.or") }, true},
		"another name":    {func(f *filter) { f.name = text("acme.orders") }, false},
		"what it matches": {func(f *filter) { f.name, f.pattern = text("acme.orders"), kmsg.ACLResourcePatternTypeMatch }, true},
		"literal":         {func(f *filter) { f.pattern = kmsg.ACLResourcePatternTypeLiteral }, false},
		"groups":          {func(f *filter) { f.resource = kmsg.ACLResourceTypeGroup }, false},
		"denials":         {func(f *filter) { f.permission = kmsg.ACLPermissionTypeDeny }, false},
		"another host":    {func(f *filter) { f.host = text("10.0.0.1") }, false},
	} {
		f := everything()
		c.change(&f)
		require.Equal(t, c.want, f.matches(&rule), name)
	}
}

func TestErrorsOfThePartsHaveKafkasNames(t *testing.T) {
	for err, want := range map[error]*kerr.Error{
		replica.ErrLost: kerr.KafkaStorageError, replica.ErrNotLeader: kerr.NotLeaderForPartition, replica.ErrNotReady: kerr.NotLeaderForPartition, store.ErrFenced: kerr.NotLeaderForPartition,
		replica.ErrNoQuorum: kerr.NotEnoughReplicas, replica.ErrNoQuorumAfter: kerr.NotEnoughReplicasAfterAppend, store.ErrOutOfOrder: kerr.OutOfOrderSequenceNumber,
		store.ErrProducerFenced: kerr.InvalidProducerEpoch, store.ErrProducers: kerr.NotEnoughReplicas, store.ErrOutOfRange: kerr.OffsetOutOfRange, store.ErrFull: kerr.KafkaStorageError,
		batch.ErrCorrupt: kerr.CorruptMessage, context.DeadlineExceeded: kerr.RequestTimedOut, kerr.InvalidRecord: kerr.InvalidRecord,
	} {
		require.Equal(t, want.Code, code(fmt.Errorf("here: %w", err)), "%v", err)
	}
	require.Equal(t, none, code(nil))
}

func TestTenantsAreTheFirstPartOfNames(t *testing.T) {
	for name, want := range map[string]string{"acme.orders": "acme", "acme.a.b": "acme", "acme": "", "acme.": "", "": "", ".x": ""} {
		require.Equal(t, want, tenantOf(name), name)
	}
	a, b := sample(0, 3), sample(0, 2)
	batch.Assign(a, 10, 1)
	batch.Assign(b, 13, 1)
	require.Equal(t, int64(15), endOffset(append(a, b...), 10))
	require.Equal(t, int64(7), endOffset(nil, 7))
}

// silentLedger is one whose chain stands still.
type silentLedger struct{ age time.Duration }

func (silentLedger) View() *ledger.View        { return nil }
func (silentLedger) Changed() <-chan struct{}  { return nil }
func (l silentLedger) StaleFor() time.Duration { return l.age }

// What was revoked since the last final block is not known: after a while nobody is served.
func TestABrokerThatLostTheChainSendsClientsAway(t *testing.T) {
	cfg := DefaultConfig()
	b := &Broker{cfg: cfg, deps: Deps{Ledger: silentLedger{cfg.LedgerAge + time.Second}}}
	r := kmsg.NewPtrProduceRequest()
	r.Version, r.Topics = 9, []kmsg.ProduceRequestTopic{{Topic: "acme.a", Partitions: []kmsg.ProduceRequestTopicPartition{{Partition: 3}}}}
	resp := b.dispatch(t.Context(), &call{b: b}, r)(t.Context()).(*kmsg.ProduceResponse)
	require.Equal(t, kerr.BrokerNotAvailable.Code, resp.Topics[0].Partitions[0].ErrorCode)
	require.True(t, kerr.BrokerNotAvailable.Retriable, "clients try the other brokers")
	cfg.Enabled, cfg.Advertise, cfg.LedgerAge = true, "localhost:1", time.Second
	require.ErrorContains(t, cfg.Validate(), "ledger_age")
}
