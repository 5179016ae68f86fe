package testnet

import (
	"crypto/tls"
	be "encoding/binary"
	"io"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/bornode/bornode/pubsub/batch"
	"github.com/bornode/bornode/pubsub/token"
)

// direct is a connection to one broker on which a test says every byte itself.
type direct struct {
	net.Conn
	t    *testing.T
	next int32
}

// connect opens a connection and logs in with SASL/PLAIN; it gives the error code of the login.
func connect(t *testing.T, n *Network, broker, user, secret string) (*direct, int16) {
	nc, err := tls.Dial("tcp", broker, brokersTLS(t, n))
	require.NoError(t, err)
	t.Cleanup(func() { _ = nc.Close() })
	require.NoError(t, nc.SetDeadline(time.Now().Add(patience)))
	c := &direct{Conn: nc, t: t}
	h := kmsg.NewPtrSASLHandshakeRequest()
	h.Version, h.Mechanism = 1, "PLAIN"
	require.Zero(t, c.ask(h).(*kmsg.SASLHandshakeResponse).ErrorCode)
	a := kmsg.NewPtrSASLAuthenticateRequest()
	a.Version, a.SASLAuthBytes = 2, []byte("\x00"+user+"\x00"+secret)
	return c, c.ask(a).(*kmsg.SASLAuthenticateResponse).ErrorCode
}

func (c *direct) ask(req kmsg.Request) kmsg.Response {
	c.next++
	require.NoError(c.t, c.SetDeadline(time.Now().Add(patience))) // for each anew: a thousand at once take their time
	_, err := c.Write(kmsg.NewRequestFormatter(kmsg.FormatterClientID("direct")).AppendRequest(nil, req, c.next))
	require.NoError(c.t, err)
	var head [8]byte
	_, err = io.ReadFull(c, head[:])
	require.NoError(c.t, err)
	require.Equal(c.t, c.next, int32(be.BigEndian.Uint32(head[4:]))) //nolint:gosec // its bits
	b := make([]byte, be.BigEndian.Uint32(head[:])-4)
	_, err = io.ReadFull(c, b)
	require.NoError(c.t, err)
	resp := req.ResponseKind()
	if resp.IsFlexible() {
		b = b[1:]
	}
	require.NoError(c.t, resp.ReadFrom(b))
	return resp
}

// oneBatch is a batch with one record of size bytes, good for a broker, which does not look into records.
func oneBatch(size int, change func(*batch.Header)) []byte {
	h := batch.Header{Count: 1, ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1, FirstTimestamp: 1, MaxTimestamp: 1}
	if change != nil {
		change(&h)
	}
	return batch.Encode(h, oneRecord(make([]byte, size)))
}

// oneRecord is the section of records of a batch with one record without a key.
func oneRecord(value []byte) []byte {
	body := append(be.AppendVarint([]byte{0, 0, 0, 1}, int64(len(value))), value...)
	body = append(body, 0)
	return append(be.AppendVarint(nil, int64(len(body))), body...)
}

func produceCode(c *direct, version, acks int16, topic string, partition int32, records []byte) int16 {
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis = version, acks, 10_000
	req.Topics = []kmsg.ProduceRequestTopic{{Topic: topic, Partitions: []kmsg.ProduceRequestTopicPartition{{Partition: partition, Records: records}}}}
	return c.ask(req).(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode
}

func fetchCode(c *direct, version int16, topic string, id [16]byte, partition, epoch int32, offset int64) int16 {
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.MaxWaitMillis, req.MinBytes = version, 10, 1
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.CurrentLeaderEpoch, p.FetchOffset, p.PartitionMaxBytes = partition, epoch, offset, 1<<20
	req.Topics = []kmsg.FetchRequestTopic{{Topic: topic, TopicID: id, Partitions: []kmsg.FetchRequestTopicPartition{p}}}
	return c.ask(req).(*kmsg.FetchResponse).Topics[0].Partitions[0].ErrorCode
}

func createCode(c *direct, name string, partitions int32, replicas int16) int16 {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version, req.TimeoutMillis = 7, 60_000
	req.Topics = []kmsg.CreateTopicsRequestTopic{{Topic: name, NumPartitions: partitions, ReplicationFactor: replicas}}
	return c.ask(req).(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode
}

func joinCode(c *direct, group string) int16 {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Version, req.Group, req.SessionTimeoutMillis, req.RebalanceTimeoutMillis, req.ProtocolType = 5, group, 10_000, 10_000, "consumer"
	req.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range"}}
	return c.ask(req).(*kmsg.JoinGroupResponse).ErrorCode
}

func coordinatorCode(c *direct, kind int8, key string) int16 {
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.Version, req.CoordinatorType, req.CoordinatorKeys = 4, kind, []string{key}
	return c.ask(req).(*kmsg.FindCoordinatorResponse).Coordinators[0].ErrorCode
}

func commitCode(c *direct, group, topic string) int16 {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Version, req.Group, req.Generation, req.MemberID = 7, group, 3, "nobody"
	req.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: topic, Partitions: []kmsg.OffsetCommitRequestTopicPartition{{}}}}
	return c.ask(req).(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode
}

func producerIDCode(c *direct, transaction *string) int16 {
	req := kmsg.NewPtrInitProducerIDRequest()
	req.Version, req.TransactionalID = 4, transaction
	return c.ask(req).(*kmsg.InitProducerIDResponse).ErrorCode
}

func deleteRecordsCode(c *direct, topic string, offset int64) int16 {
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.Version, req.TimeoutMillis = 2, 10_000
	req.Topics = []kmsg.DeleteRecordsRequestTopic{{Topic: topic, Partitions: []kmsg.DeleteRecordsRequestTopicPartition{{Offset: offset}}}}
	return c.ask(req).(*kmsg.DeleteRecordsResponse).Topics[0].Partitions[0].ErrorCode
}

// refusals: what is not allowed or cannot be is told with Kafka's own error.
func refusals(t *testing.T, n *Network) {
	owner, stranger := n.Accounts[0], n.Accounts[1]
	login := func(broker string, a Account, scope uint8) *direct {
		c, code := connect(t, n, broker, a.Address.Hex(), tokenOf(t, n, a, scope))
		require.Zero(t, code)
		return c
	}
	const topic = "demo.errors"
	// Who leads partition 0, and who does not.
	any := login(n.Brokers()[0], owner, token.Data)
	meta := kmsg.NewPtrMetadataRequest()
	meta.Version, meta.Topics = 12, []kmsg.MetadataRequestTopic{{Topic: kmsg.StringPtr(topic)}}
	known := any.ask(meta).(*kmsg.MetadataResponse)
	leader := known.Topics[0].Partitions[0].Leader
	id := known.Topics[0].TopicID
	var lead, other *direct
	for _, b := range known.Brokers {
		addr := net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port)))
		if b.NodeID == leader {
			lead = login(addr, owner, token.Data)
		} else if other == nil {
			other = login(addr, owner, token.Data)
		}
	}
	leadAddr := lead.RemoteAddr().String()
	foreign, admin := login(leadAddr, stranger, token.Data|token.Admin), login(leadAddr, owner, token.Data|token.Admin)

	soon(t, "the leader is in office", func() bool { return produceCode(lead, 9, -1, topic, 0, oneBatch(10, nil)) == 0 })
	corrupt := oneBatch(100, nil)
	corrupt[len(corrupt)-1] ^= 1
	for _, x := range []struct {
		what string
		got  int16
		want *kerr.Error // nil: it is no refusal
	}{
		{"a good batch", produceCode(lead, 9, -1, topic, 0, oneBatch(10, nil)), nil},
		{"produce without the right", produceCode(foreign, 9, -1, topic, 0, oneBatch(10, nil)), kerr.TopicAuthorizationFailed},
		{"produce without the right to what does not exist", produceCode(foreign, 9, -1, "demo.none", 0, oneBatch(10, nil)), kerr.TopicAuthorizationFailed},
		{"produce to what does not exist", produceCode(lead, 9, -1, "demo.none", 0, oneBatch(10, nil)), kerr.UnknownTopicOrPartition},
		{"produce to no such partition", produceCode(lead, 9, -1, topic, 99, oneBatch(10, nil)), kerr.UnknownTopicOrPartition},
		{"produce to who does not lead", produceCode(other, 9, -1, topic, 0, oneBatch(10, nil)), kerr.NotLeaderForPartition},
		{"produce to the brokers' own topic", produceCode(lead, 9, -1, "_bps.offsets", 0, oneBatch(10, nil)), kerr.TopicAuthorizationFailed},
		{"produce with two acknowledgements", produceCode(lead, 9, 2, topic, 0, oneBatch(10, nil)), kerr.InvalidRequiredAcks},
		{"produce with a wrong checksum", produceCode(lead, 9, -1, topic, 0, corrupt), kerr.CorruptMessage},
		{"produce nothing", produceCode(lead, 9, -1, topic, 0, nil), kerr.CorruptMessage},
		{"produce two batches", produceCode(lead, 9, -1, topic, 0, append(oneBatch(10, nil), oneBatch(10, nil)...)), kerr.InvalidRecord},
		{"produce in a transaction", produceCode(lead, 9, -1, topic, 0, oneBatch(10, func(h *batch.Header) { h.Attributes = batch.Transactional })), kerr.InvalidRecord},
		{"produce what is no record", produceCode(lead, 9, -1, topic, 0, batch.WithRecords(oneBatch(10, nil), make([]byte, 100), 0)), kerr.InvalidRecord},
		{"produce with a codec that it has not", produceCode(lead, 9, -1, topic, 0, batch.WithRecords(oneBatch(10, nil), oneRecord(nil), 4)), kerr.InvalidRecord},
		{"produce with a codec that nobody has", produceCode(lead, 9, -1, topic, 0, batch.WithRecords(oneBatch(10, nil), oneRecord(nil), 6)), kerr.UnsupportedCompressionType},
		{"produce for tomorrow", produceCode(lead, 9, -1, topic, 0, oneBatch(10, func(h *batch.Header) { h.MaxTimestamp = time.Now().Add(24 * time.Hour).UnixMilli() })), kerr.InvalidTimestamp},
		{"produce too much", produceCode(lead, 9, -1, topic, 0, oneBatch(20<<20, nil)), kerr.MessageTooLarge},
		{"produce as before Kafka 0.11", produceCode(lead, 2, -1, topic, 0, oneBatch(10, nil)), kerr.UnsupportedForMessageFormat},
		{"a first sequence", produceCode(lead, 9, -1, topic, 0, oneBatch(10, sequence(0))), nil},
		{"a gap in the sequence", produceCode(lead, 9, -1, topic, 0, oneBatch(10, sequence(7))), kerr.OutOfOrderSequenceNumber},
		{"the same sequence again", produceCode(lead, 9, -1, topic, 0, oneBatch(10, sequence(0))), nil},

		{"fetch", fetchCode(lead, 12, topic, id, 0, -1, 0), nil},
		{"fetch by id", fetchCode(lead, 13, "", id, 0, -1, 0), nil},
		{"fetch without the right", fetchCode(foreign, 12, topic, id, 0, -1, 0), kerr.TopicAuthorizationFailed},
		{"fetch by id without the right", fetchCode(foreign, 13, "", id, 0, -1, 0), kerr.UnknownTopicID},
		{"fetch by an unknown id", fetchCode(lead, 13, "", [16]byte{1}, 0, -1, 0), kerr.UnknownTopicID},
		{"fetch behind the end", fetchCode(lead, 12, topic, id, 0, -1, 1_000_000), kerr.OffsetOutOfRange},
		{"fetch of a later leader", fetchCode(lead, 12, topic, id, 0, 1_000_000, 0), kerr.UnknownLeaderEpoch},
		{"fetch from who does not lead", fetchCode(other, 12, topic, id, 0, -1, 0), kerr.NotLeaderForPartition},

		{"a topic without a tenant", createCode(admin, "nodot", 1, 1), kerr.InvalidTopicException},
		{"a topic of no tenant", createCode(admin, "nobody.things", 1, 1), kerr.InvalidTopicException},
		{"a topic that exists", createCode(admin, topic, 1, 1), kerr.TopicAlreadyExists},
		{"a topic with too many replicas", createCode(admin, "demo.e1", 1, 7), kerr.InvalidReplicationFactor},
		{"a topic without partitions", createCode(admin, "demo.e2", 0, 1), kerr.InvalidPartitions},
		{"a topic with a token for data", createCode(lead, "demo.e3", 1, 1), kerr.ClusterAuthorizationFailed},
		{"a topic of another's tenant", createCode(foreign, "demo.e4", 1, 1), kerr.TopicAuthorizationFailed},

		{"a group without a tenant", joinCode(lead, "nodot"), kerr.InvalidGroupID},
		{"the coordinator of a group without a tenant", coordinatorCode(lead, 0, "nodot"), kerr.InvalidGroupID},
		{"the coordinator of another's group", coordinatorCode(foreign, 0, "demo.readers"), kerr.GroupAuthorizationFailed},
		{"the coordinator of transactions", coordinatorCode(lead, 1, "demo.tx"), kerr.TransactionalIDAuthorizationFailed},
		{"a commit to another's group", commitCode(foreign, "demo.readers", topic), kerr.GroupAuthorizationFailed},
		{"a producer id", producerIDCode(lead, nil), nil},
		{"a producer id for transactions", producerIDCode(lead, kmsg.StringPtr("demo.tx")), kerr.TransactionalIDAuthorizationFailed},
		{"records deleted without the right", deleteRecordsCode(foreign, topic, 1), kerr.TopicAuthorizationFailed},
		{"records deleted behind the end", deleteRecordsCode(admin, topic, 1_000_000), kerr.OffsetOutOfRange},
		{"a group of another's tenant", joinCode(foreign, "demo.readers"), kerr.GroupAuthorizationFailed},
	} {
		want := int16(0)
		if x.want != nil {
			want = x.want.Code
		}
		require.Equal(t, want, x.got, "%s: got %v", x.what, kerr.ErrorForCode(x.got))
	}

	// Logins.
	expired := token.New(n.ChainID, owner.Address, time.Now().Add(-2*time.Hour), time.Hour, token.Data)
	long := token.New(n.ChainID, owner.Address, time.Now(), 25*time.Hour, token.Data)
	elsewhere := token.New(n.ChainID+1, owner.Address, time.Now(), time.Hour, token.Data)
	for _, tk := range []*token.Token{expired, long, elsewhere} {
		require.NoError(t, tk.Sign(owner.Private()))
		_, code := connect(t, n, leadAddr, owner.Address.Hex(), tk.String())
		require.Equal(t, kerr.SaslAuthenticationFailed.Code, code)
	}
	for _, secret := range []string{"password", tokenOf(t, n, owner, token.Data) + "A", tokenOf(t, n, stranger, token.Data)} {
		_, code := connect(t, n, leadAddr, owner.Address.Hex(), secret)
		require.Equal(t, kerr.SaslAuthenticationFailed.Code, code)
	}
}

// sequence makes a batch one of an idempotent producer.
func sequence(first int32) func(*batch.Header) {
	return func(h *batch.Header) { h.ProducerID, h.ProducerEpoch, h.FirstSequence = 4711, 0, first }
}
