package pubsub

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/big"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/bornode/bornode/contracts"
	"github.com/bornode/bornode/pubsub/kafka"
	"github.com/bornode/bornode/pubsub/ledger"
	"github.com/bornode/bornode/pubsub/token"
)

// asking is a call of the owner of a tenant with a topic of many partitions.
func asking(t *testing.T, partitions int) *call {
	t.Helper()
	c, l, r := replacing(t, partitions)
	owner := common.Address{'O'}
	c.owner = owner
	c.other = common.BigToHash(big.NewInt(contracts.Reputation)).Bytes() // of everybody
	r.b.deps.Replicas = l
	r.b.m, _ = newMetrics(nil)
	r.b.topics = new(topicIndex)
	return &call{b: r.b, conn: new(kafka.Conn), s: new(kafka.Session), who: ledger.Principal{Account: owner}, v: c.view(t)}
}

// A topic that a request names many times is told of once: its answer is far larger than its name.
func TestARepeatedNameIsAnsweredOnce(t *testing.T) {
	x := asking(t, 100)
	r := kmsg.NewPtrMetadataRequest()
	r.Version = 12
	name, absent, id := "acme.t", "acme.none", uuidOf([32]byte{1})
	for range 1000 {
		r.Topics = append(r.Topics, kmsg.MetadataRequestTopic{Topic: &name}, kmsg.MetadataRequestTopic{Topic: &absent}, kmsg.MetadataRequestTopic{TopicID: id})
	}
	resp := x.b.metadata(x, r)(t.Context()).(*kmsg.MetadataResponse)
	require.Len(t, resp.Topics, 3)
	require.Len(t, resp.Topics[0].Partitions, 100)
	require.Equal(t, kerr.UnknownTopicOrPartition.Code, resp.Topics[1].ErrorCode)
	require.Equal(t, "acme.t", *resp.Topics[2].Topic, "by its id")

	c := kmsg.NewPtrDescribeConfigsRequest()
	for range 1000 {
		c.Resources = append(c.Resources, kmsg.DescribeConfigsRequestResource{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: name})
	}
	require.Len(t, x.b.describeConfigs(x, c)(t.Context()).(*kmsg.DescribeConfigsResponse).Resources, 1)
}

// handled is a handler of one kind of request.
type handled func(c *kafka.Conn, req kmsg.Request) kafka.Reply

func (h handled) Serve(_ context.Context, c *kafka.Conn, req kmsg.Request) kafka.Reply {
	return h(c, req)
}
func (handled) Closed(*kafka.Conn) {}

// A producer that wants no answers learns by the end of its connection that its broker does not take what it sends; it asks
// who does then. One that is only too fast is held back instead.
func TestAProducerWithoutAnswersLearnsOfRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		acks, want int16
		debt, ends bool
	}{
		"answered": {acks: 1, want: kerr.UnknownTopicOrPartition.Code}, "cut off": {ends: true}, "in debt": {debt: true},
	} {
		t.Run(name, func(t *testing.T) {
			x := asking(t, 1)
			x.b.quotas, x.b.conns = newQuotas(), newConns()
			server, err := kafka.NewUnbound(kafka.DefaultConfig(), handled(func(conn *kafka.Conn, req kmsg.Request) kafka.Reply {
				x.conn = conn
				if c.debt {
					resp := req.ResponseKind().(*kmsg.ProduceResponse)
					resp.Topics = []kmsg.ProduceResponseTopic{{Partitions: []kmsg.ProduceResponseTopicPartition{{ErrorCode: code(errInDebt), ErrorMessage: text(errInDebt.Error())}}}}
					x.cutOff(resp)
					return kafka.Now(resp)
				}
				return x.b.produce(x, req.(*kmsg.ProduceRequest))
			}), nil, zap.NewNop(), nil)
			require.NoError(t, err)
			near, far := net.Pipe()
			done := make(chan struct{})
			go func() { defer close(done); server.ServeConn(t.Context(), far) }()
			r := kmsg.NewPtrProduceRequest()
			r.Version, r.Acks, r.TimeoutMillis = 9, c.acks, 1000
			r.Topics = []kmsg.ProduceRequestTopic{{Topic: "acme.t", Partitions: []kmsg.ProduceRequestTopicPartition{{Partition: 7}}}}
			require.NoError(t, near.SetDeadline(time.Now().Add(time.Minute)))
			_, err = near.Write(kmsg.NewRequestFormatter().AppendRequest(nil, r, 1))
			require.NoError(t, err)
			if c.ends {
				_, err = near.Read(make([]byte, 1))
				require.ErrorIs(t, err, io.EOF)
			} else {
				head := make([]byte, 4+4+1) // length, correlation, tags
				_, err = io.ReadFull(near, head)
				require.NoError(t, err)
				body := make([]byte, int(binary.BigEndian.Uint32(head))-5)
				_, err = io.ReadFull(near, body)
				require.NoError(t, err)
				resp := kmsg.NewPtrProduceResponse()
				resp.Version = 9
				require.NoError(t, resp.ReadFrom(body))
				if !c.debt {
					require.Equal(t, c.want, resp.Topics[0].Partitions[0].ErrorCode)
				}
			}
			require.NoError(t, near.Close())
			<-done
		})
	}
}

// together is a submitter that takes calls when so many wait at one time, and a contract that refuses them.
type together struct {
	all  chan struct{}
	left atomic.Int32
}

func (s *together) Submit(ctx context.Context, _ string, _ []byte) error {
	if s.left.Add(-1) == 0 {
		close(s.all)
	}
	select {
	case <-s.all:
		return already{}
	case <-ctx.Done():
		return ctx.Err()
	}
}

type already struct{}

func (already) Error() string   { return "refused" }
func (already) Refusal() string { return "there is a topic of this name" }

// Topics of one request are made and deleted at one time: each waits for a final block.
func TestTopicsOfARequestDoNotWaitForEachOther(t *testing.T) {
	x := asking(t, 1)
	x.s.Token = &token.Token{Scope: token.Admin}
	x.b.admins = make(chan struct{}, maxAdmins)
	submit := func(n int32) *together {
		s := &together{all: make(chan struct{})}
		s.left.Store(n)
		x.b.deps.Submit, x.b.deps.Ledger = s, fixedLedger{view: x.v}
		return s
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	submit(adminsAtOnce)
	create := kmsg.NewPtrCreateTopicsRequest()
	for i := range adminsAtOnce {
		create.Topics = append(create.Topics, kmsg.CreateTopicsRequestTopic{Topic: fmt.Sprintf("acme.t%d", i), NumPartitions: 1, ReplicationFactor: 1})
	}
	made := x.b.createTopics(x, create)(ctx).(*kmsg.CreateTopicsResponse)
	require.Len(t, made.Topics, adminsAtOnce)
	for i := range made.Topics {
		require.Equal(t, create.Topics[i].Topic, made.Topics[i].Topic)
		require.Equal(t, kerr.TopicAlreadyExists.Code, made.Topics[i].ErrorCode)
	}
	submit(2)
	remove := kmsg.NewPtrDeleteTopicsRequest()
	remove.TopicNames = []string{"acme.t", "acme.t"}
	gone := x.b.deleteTopics(x, remove)(ctx).(*kmsg.DeleteTopicsResponse)
	require.Len(t, gone.Topics, 2)
	require.Equal(t, kerr.TopicAlreadyExists.Code, gone.Topics[1].ErrorCode)
}
