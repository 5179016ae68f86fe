package gate

import (
	"bytes"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/bornode/bornode/pubsub/batch"
	"github.com/bornode/bornode/pubsub/seal"
)

func sealedAt(session byte, counter uint64) seal.Place {
	return seal.Place{Session: [16]byte{session}, Counter: counter}
}

func TestEachBatchHasOnePlace(t *testing.T) {
	r := newReplays(100)
	at := place{common.Hash{1}, 0}
	verdicts := func(steps ...[3]uint64) (out []verdict) { // session, counter, offset
		for _, s := range steps {
			v, _ := r.judge(at, sealedAt(byte(s[0]), s[1]), int64(s[2]))
			out = append(out, v)
		}
		return out
	}
	log := [][3]uint64{{1, 0, 0}, {1, 3, 1}, {2, 0, 2}, {1, 3, 3}, {1, 4, 4}, {2, 0, 5}}
	want := []verdict{fresh, fresh, fresh, repeated, fresh, repeated}
	require.Equal(t, want, verdicts(log...))
	require.Equal(t, want, verdicts(log...), "whoever reads it again sees the same")
	require.Equal(t, []verdict{fresh}, verdicts([3]uint64{1, 1, 0}), "a reader who begins further ahead saw nothing of it")
	require.Equal(t, []verdict{late, late}, verdicts([3]uint64{1, 2, 9}, [3]uint64{1, 2, 9}), "older than what stands before it")
	at.partition = 1
	require.Equal(t, []verdict{fresh}, verdicts(log[3]), "partitions are apart: a batch is bound to its own")
}

func TestReplaysAreSeenWithinTheBound(t *testing.T) {
	r := newReplays(10)
	at := place{common.Hash{1}, 0}
	for i := range uint64(1000) {
		v, _ := r.judge(at, sealedAt(1, i), int64(i))
		require.Equal(t, fresh, v)
		v, _ = r.judge(at, sealedAt(byte(2+i%200), i), int64(i)) // sessions come and go
		require.Equal(t, fresh, v)
	}
	require.LessOrEqual(t, len(r.seen)+len(r.older)+len(r.tops)+len(r.past), 40)
	v, _ := r.judge(at, sealedAt(1, 5), 1000)
	require.Equal(t, late, v, "forgotten, and still known to be older than the newest")
}

func TestAReplayedBatchIsShownOnce(t *testing.T) {
	r := newRig(t, off)
	r.topic("acme.t", true)
	r.produce(r.client(), "acme.t", "one", "two", "three")
	r.broker.Lock()
	r.broker.Lie = func(_ string, _ int32, from int64, b []byte) []byte { // the log, and a copy of its middle behind it
		var list [][]byte
		_ = batch.Each(bytes.Clone(b), func(_ batch.Header, raw []byte) error { list = append(list, raw); return nil })
		if from == 0 {
			copied := bytes.Clone(list[1])
			batch.Assign(copied, 3, 0)
			return bytes.Join(append(list, copied), nil)
		}
		return b
	}
	r.broker.Unlock()
	c := r.client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"acme.t": {0: kgo.NewOffset().At(0)}}), kgo.KeepControlRecords())
	var values []string
	for len(values) < 3 {
		c.PollFetches(r.ctx).EachRecord(func(rec *kgo.Record) { values = append(values, string(rec.Value)) })
		require.NoError(t, r.ctx.Err())
	}
	require.Equal(t, []string{"one", "two", "three"}, values)
	require.InDelta(t, 1, r.figure("bornode_topics_gate_repeated_batches_total"), 0)
	r.broker.Lock()
	r.broker.Lie = nil
	r.broker.Unlock()
	r.produce(r.client(), "acme.t", "gone", "five") // offset 3, which the client thinks to have, and 4
	for len(values) < 4 {
		c.PollFetches(r.ctx).EachRecord(func(rec *kgo.Record) { values = append(values, string(rec.Value)) })
		require.NoError(t, r.ctx.Err())
	}
	require.Equal(t, "five", values[3], "the client went on behind the repeated batch")
}

func TestAnOldBatchBehindNewerOnesIsTampering(t *testing.T) {
	r := newRig(t, off)
	r.topic("acme.t", true)
	r.produce(r.client(), "acme.t", "one", "two", "three")
	require.Len(t, r.consume("acme.t", 1, 2), 2) // the first one was never read
	first := bytes.Clone(r.broker.Batches("acme.t", 0)[0])
	r.broker.Lock()
	r.broker.Lie = func(_ string, _ int32, from int64, b []byte) []byte {
		if from == 3 {
			batch.Assign(first, 3, 0)
			return first
		}
		return b
	}
	r.broker.Unlock()
	c := r.client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"acme.t": {0: kgo.NewOffset().At(3)}}))
	go c.PollFetches(r.ctx)
	r.tampering(Replayed, 3)
}

// The broker has the batch and its answer is lost: the producer sends it again.
func TestWhatIsSentAgainIsTheSameBytes(t *testing.T) {
	seen := make(chan int64, 10)
	r := newRig(t, func(c *Config) { c.Receipts = receipts{seen} })
	top := r.topic("acme.t", true)
	s := r.engine.session(nil, nil, time.Time{}, nil)
	defer s.cancel(nil)
	other := r.engine.session(nil, nil, time.Time{}, nil)
	defer other.cancel(nil)
	plain := func(producer int64, sequence int32, what string) []byte {
		return batch.Encode(batch.Header{LeaderEpoch: -1, ProducerID: producer, FirstSequence: sequence, Count: 1}, []byte(what))
	}
	send := func(s *session, raw []byte) []byte {
		s.sealed = nil
		out, err := s.encrypt(r.ctx, top, 0, raw)
		require.NoError(t, err)
		return out
	}
	one, two := send(s, plain(7, 0, "one")), send(s, plain(7, 1, "two"))
	require.Equal(t, one, send(other, plain(7, 0, "one")), "through another connection")
	require.Equal(t, two, send(s, plain(7, 1, "two")))
	require.NotEqual(t, one, send(s, plain(7, 0, "other")), "another content takes another nonce")
	again := send(s, plain(7, 1, "two"))
	require.Greater(t, seal.PlaceOf(again).Counter, seal.PlaceOf(two).Counter, "what follows a batch that was sealed anew is too")
	require.NotEqual(t, send(s, plain(-1, -1, "x")), send(s, plain(-1, -1, "x")), "producers without an id send twice")
	h, _, err := batch.ParseHeader(again)
	require.NoError(t, err)
	r.engine.resends.done(senderOf(top.ID, 0, &h), h.FirstSequence)
	require.Empty(t, r.engine.resends.open)
	require.Zero(t, r.engine.resends.bytes)
	for i := range int32(100) {
		r.engine.resends.note(senderOf(top.ID, 0, &h), i, make([]byte, ResendBytes/10))
	}
	require.LessOrEqual(t, r.engine.resends.bytes, ResendBytes)
}

func TestATopicIsNeverDowngraded(t *testing.T) {
	lie := func(r *rig, name string, f func(*Topic)) {
		r.ledger.mu.Lock()
		defer r.ledger.mu.Unlock()
		top := r.ledger.topics[name]
		f(&top)
		r.ledger.topics[name] = top
	}
	t.Run("known", func(t *testing.T) {
		r := newRig(t, off)
		r.topic("acme.secret", true)
		r.produce(r.client(), "acme.secret", "one")
		lie(r, "acme.secret", func(top *Topic) { top.Encrypted, top.KeyEpoch = false, 0 })
		r.produce(r.client(), "acme.secret", "two")
		for _, raw := range r.broker.Batches("acme.secret", 0) {
			require.True(t, seal.Sealed(raw))
		}
		var down *DowngradeError
		require.ErrorAs(t, r.failure(), &down)
		require.Equal(t, []string{"one", "two"}, r.consume("acme.secret", 0, 2))
	})
	t.Run("another topic of the name", func(t *testing.T) {
		r := newRig(t, off)
		r.topic("acme.secret", true)
		r.produce(r.client(), "acme.secret", "one")
		lie(r, "acme.secret", func(top *Topic) { top.ID, top.Encrypted, top.KeyEpoch = common.Hash{9}, false, 0 })
		err := r.client(kgo.RecordRetries(1)).ProduceSync(r.ctx, &kgo.Record{Topic: "acme.secret", Value: []byte("x")}).FirstErr()
		require.ErrorIs(t, err, kerr.TopicAuthorizationFailed)
		require.Len(t, r.broker.Batches("acme.secret", 0), 1)
	})
	t.Run("an older epoch", func(t *testing.T) {
		r := newRig(t, off)
		r.topic("acme.secret", true)
		r.produce(r.client(), "acme.secret", "one")
		r.ledger.rotate("acme.secret") // a reader was taken out
		r.produce(r.client(), "acme.secret", "two")
		lie(r, "acme.secret", func(top *Topic) { top.KeyEpoch = 1 })
		r.produce(r.client(), "acme.secret", "three")
		for i, epoch := range []uint32{1, 2, 2} {
			require.Equal(t, epoch, seal.EpochOf(r.broker.Batches("acme.secret", 0)[i]))
		}
	})
	t.Run("told", func(t *testing.T) {
		r := newRig(t, off, func(c *Config) { c.Encrypt = func(name string) bool { return name == "acme.secret" } })
		r.topic("acme.secret", false)
		r.topic("acme.plain", false)
		r.produce(r.client(), "acme.plain", "one")
		err := r.client(kgo.RecordRetries(1)).ProduceSync(r.ctx, &kgo.Record{Topic: "acme.secret", Value: []byte("x")}).FirstErr()
		require.ErrorIs(t, err, kerr.TopicAuthorizationFailed)
		require.Empty(t, r.broker.Batches("acme.secret", 0))
		var down *DowngradeError
		require.ErrorAs(t, r.failure(), &down)
	})
	t.Run("told to a reader", func(t *testing.T) {
		r := newRig(t, off, func(c *Config) { c.Encrypt = func(name string) bool { return true } })
		r.broker.Create("acme.secret", 2)
		r.ledger.create("acme.secret", true)
		lie(r, "acme.secret", func(top *Topic) { top.Encrypted = false }) // with an epoch: keys are there
		r.produce(r.client(), "acme.secret", "one")
		r.lie(func(b [][]byte) [][]byte {
			b[0] = batch.WithRecords(b[0], []byte("forged"), 0)
			return b
		})
		c := r.client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"acme.secret": {0: kgo.NewOffset().At(0)}}))
		go c.PollFetches(r.ctx)
		var down *DowngradeError
		require.ErrorAs(t, r.failure(), &down)
		r.tampering(Unsealed, 0)
	})
}
