package node

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/bornode/bornode/contracts"
	"github.com/bornode/bornode/pubsub"
	topicproof "github.com/bornode/bornode/pubsub/proof"
	"github.com/bornode/bornode/pubsub/token"
)

// topic makes a topic as the tenant's owner.
func (s *stand) topic(ctx context.Context, name string, partitions int32, settings map[string]*string) common.Hash {
	s.t.Helper()
	made, err := kadm.NewClient(s.client(s.owner, token.Admin|token.Data)).CreateTopic(ctx, partitions, 1, settings, name)
	require.NoError(s.t, err)
	require.NoError(s.t, made.Err)
	return s.n.brokers.mirror.View().Topic(name).ID
}

// recorded keeps what evidence is told of.
type recorded struct {
	pubsub.Evidence
	ops []topicproof.Operation
}

func (r *recorded) Operated(_, _ [32]byte, op topicproof.Operation) { r.ops = append(r.ops, op) }

// A token allows what its scope says, and what is only tried tells a stranger nothing.
func TestScopesAndTrialsAreHeldTo(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.start()
	s.tenant("acme", 1<<30, 100)
	ctx := s.ctx()
	id := s.topic(ctx, "acme.orders", 2, nil)
	data, admin := s.client(s.owner, token.Data), s.client(s.owner, token.Admin)
	require.NoError(t, data.ProduceSync(ctx, &kgo.Record{Topic: "acme.orders", Value: []byte("x")}).FirstErr())

	gone, err := kadm.NewClient(data).DeleteRecords(ctx, kadm.Offsets{"acme.orders": {0: {Topic: "acme.orders", Partition: 0, At: -1}}})
	require.NoError(t, err)
	require.ErrorIs(t, gone.Error(), kerr.ClusterAuthorizationFailed, "records were deleted with a token that allows no administration")
	require.ErrorIs(t, admin.ProduceSync(ctx, &kgo.Record{Topic: "acme.orders", Value: []byte("x")}).FirstErr(), kerr.ClusterAuthorizationFailed)

	only := func(c *kgo.Client, name string) kmsg.CreateTopicsResponseTopic {
		r := kmsg.NewPtrCreateTopicsRequest()
		r.ValidateOnly, r.TimeoutMillis = true, 10_000
		in := kmsg.NewCreateTopicsRequestTopic()
		in.Topic, in.NumPartitions, in.ReplicationFactor = name, 1, 1
		r.Topics = append(r.Topics, in)
		resp, err := r.RequestWith(ctx, c)
		require.NoError(t, err)
		return resp.Topics[0]
	}
	stranger := s.client(newKey(t), token.Data)
	there, none := only(stranger, "acme.orders"), only(stranger, "acme.none")
	require.Equal(t, kerr.TopicAuthorizationFailed.Code, there.ErrorCode)
	there.Topic = none.Topic
	require.Equal(t, none, there, "the answers differ by whether there is a topic")
	require.Equal(t, kerr.TopicAlreadyExists.Code, only(data, "acme.orders").ErrorCode)
	require.Zero(t, only(data, "acme.none").ErrorCode)

	// By other ways than Kafka records are for the same readers, and on record.
	log := new(recorded)
	readers := pubsub.Readers{Auth: s.n.brokers.auth, Evidence: log}
	require.NoError(t, readers.MayRead(s.token(s.owner, token.Data), "10.0.0.1", id))
	require.Error(t, readers.MayRead(s.token(s.owner, token.Admin), "10.0.0.1", id))
	require.Error(t, readers.MayRead(s.token(newKey(t), token.Data), "10.0.0.1", id))
	require.Error(t, readers.MayRead("no token", "10.0.0.1", id))
	require.Error(t, readers.MayRead(s.token(s.owner, token.Data), "10.0.0.1", s.n.brokers.mirror.View().Topic("_bps.offsets").ID))
	require.Len(t, log.ops, 2)
	require.Equal(t, []bool{false, true}, []bool{log.ops[0].Refused(), log.ops[1].Refused()})
}

// What a pseudonym did is on the chain for everybody; where it came from is not.
func TestThePlaceOfAPseudonymIsNotOnRecord(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.cfg.PubSub.Evidence.Window = 50 * time.Millisecond
	s.start()
	s.tenant("acme", 1<<30, 100)
	ctx := s.ctx()
	auditor, ghost := newKey(t), newKey(t)
	name := addressOf(auditor).Hex()
	id := s.topic(ctx, "acme.orders", 1, map[string]*string{"bps.auditor": &name})
	cert := &token.Certificate{ChainID: standChain, Topic: id, Epoch: 1, Pseudonym: addressOf(ghost), Rights: token.Write, Expires: uint64(time.Now().Add(time.Hour).Unix())}
	require.NoError(t, cert.Sign(auditor))
	tk := token.New(standChain, addressOf(ghost), time.Now(), time.Hour, token.Data)
	tk.Certificate = cert
	require.NoError(t, tk.Sign(ghost))
	c, err := kgo.NewClient(kgo.SeedBrokers(s.addr), kgo.SASL(plain.Auth{User: addressOf(ghost).Hex(), Pass: tk.String()}.AsMechanism()))
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, c.ProduceSync(ctx, &kgo.Record{Topic: "acme.orders", Value: []byte("x")}).FirstErr())
	require.NoError(t, s.client(s.owner, token.Data).ProduceSync(ctx, &kgo.Record{Topic: "acme.orders", Value: []byte("y")}).FirstErr())

	seen := map[bool][]topicproof.Operation{} // by whether it is a pseudonym's
	s.until("both are on record", func() bool {
		clear(seen)
		for n := uint64(1); n <= s.n.chain.FinalHeader().Number.Uint64(); n++ {
			b, err := s.n.chain.BlockByNumber(n)
			require.NoError(t, err)
			for _, tx := range b.Transactions {
				call, err := contracts.DecodeCommit(tx.Data())
				if err != nil {
					continue
				}
				for _, o := range call.Operations {
					list, err := topicproof.DecodeOperations(o.Entries, int(o.Count))
					require.NoError(t, err)
					for _, op := range list {
						if common.Hash(o.Topic) == id && op.Kind == topicproof.KindWrite {
							seen[op.Pseudonym] = append(seen[op.Pseudonym], op)
						}
					}
				}
			}
		}
		return len(seen) == 2
	})
	require.False(t, seen[true][0].Host.IsValid(), "the address of a pseudonym is on the chain: %s", seen[true][0].Host)
	require.Equal(t, "127.0.0.1", seen[false][0].Host.String())
}

// As many connections as a tenant likes do not make it faster than it may be.
func TestConnectionsDoNotRaiseTheRate(t *testing.T) {
	if testing.Short() {
		return // it waits for seconds, as it should
	}
	t.Parallel()
	s := newStand(t)
	s.start()
	s.tenant("acme", 10_000, 100)
	ctx := s.ctx()
	s.topic(ctx, "acme.orders", 1, nil)
	refused := 0
	for range 4 { // each is held back by itself only
		c := s.client(s.owner, token.Data, kgo.DefaultProduceTopic("acme.orders"), kgo.RecordRetries(0), kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.DisableIdempotentWrite())
		var err error
		for err = kerr.NotLeaderForPartition; errors.Is(err, kerr.NotLeaderForPartition); { // a lease that ran out on a busy machine: nothing was taken
			err = c.ProduceSync(ctx, kgo.SliceRecord(make([]byte, 900_000))).FirstErr()
		}
		if err != nil {
			require.ErrorIs(t, err, kerr.NotEnoughReplicas)
			refused++
		}
	}
	require.Equal(t, 3, refused, "ninety seconds' worth were written at once and more was taken")
}
