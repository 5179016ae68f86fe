package kafka

import (
	"context"
	"errors"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/bornode/bornode/pubsub/batch"
)

var kerrTest = kerr.TopicAuthorizationFailed

// memory is a broker of one node that keeps topics in memory; every topic has one partition.
type memory struct {
	host string
	port int32

	mu      sync.Mutex
	topics  map[string]*memoryTopic
	changed chan struct{}
	closed  int
	served  func(c *Conn, req kmsg.Request) (Reply, bool) // looked at first
	admit   func(c *Conn, s *Session) error
}

type memoryTopic struct {
	id      [16]byte
	batches [][]byte
	next    int64
}

func newMemory() *memory {
	return &memory{topics: map[string]*memoryTopic{}, changed: make(chan struct{})}
}

func (m *memory) Closed(*Conn) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed++
}

func (m *memory) Admit(c *Conn, s *Session) error {
	if m.admit != nil {
		return m.admit(c, s)
	}
	return nil
}

func (m *memory) topic(name string, id [16]byte) (string, *memoryTopic) {
	if name != "" {
		return name, m.topics[name]
	}
	for n, t := range m.topics {
		if t.id == id {
			return n, t
		}
	}
	return "", nil
}

func (m *memory) create(name string) *memoryTopic {
	t := &memoryTopic{id: [16]byte{15: byte(len(m.topics) + 1)}}
	m.topics[name] = t
	return t
}

func (m *memory) Serve(_ context.Context, c *Conn, req kmsg.Request) Reply {
	if m.served != nil {
		if r, ok := m.served(c, req); ok {
			return r
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch req := req.(type) {
	case *kmsg.MetadataRequest:
		return Now(m.metadata(req))
	case *kmsg.ProduceRequest:
		return m.produce(req)
	case *kmsg.FetchRequest:
		return func(ctx context.Context) kmsg.Response { return m.fetch(ctx, c, req) }
	case *kmsg.ListOffsetsRequest:
		return Now(m.offsets(req))
	case *kmsg.OffsetForLeaderEpochRequest:
		resp := req.ResponseKind().(*kmsg.OffsetForLeaderEpochResponse)
		for _, rt := range req.Topics {
			t := kmsg.NewOffsetForLeaderEpochResponseTopic()
			t.Topic = rt.Topic
			for range rt.Partitions {
				p := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
				p.LeaderEpoch, p.EndOffset = 0, m.topics[rt.Topic].next
				t.Partitions = append(t.Partitions, p)
			}
			resp.Topics = append(resp.Topics, t)
		}
		return Now(resp)
	case *kmsg.InitProducerIDRequest:
		resp := req.ResponseKind().(*kmsg.InitProducerIDResponse)
		resp.ProducerID = int64(c.ID())
		return Now(resp)
	case *kmsg.CreateTopicsRequest:
		resp := req.ResponseKind().(*kmsg.CreateTopicsResponse)
		for _, t := range req.Topics {
			x := kmsg.NewCreateTopicsResponseTopic()
			x.Topic, x.TopicID = t.Topic, m.create(t.Topic).id
			resp.Topics = append(resp.Topics, x)
		}
		return Now(resp)
	}
	return Now(Refuse(req, kerr.ClusterAuthorizationFailed, "this broker is a test"))
}

func (m *memory) metadata(req *kmsg.MetadataRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.MetadataResponse)
	b := kmsg.NewMetadataResponseBroker()
	b.NodeID, b.Host, b.Port = 1, m.host, m.port
	resp.Brokers, resp.ControllerID, resp.ClusterID = append(resp.Brokers, b), 1, kmsg.StringPtr("memory")
	add := func(name string, t *memoryTopic) {
		x := kmsg.NewMetadataResponseTopic()
		x.Topic = &name
		if t == nil {
			x.ErrorCode = kerr.UnknownTopicOrPartition.Code
		} else {
			x.TopicID = t.id
			p := kmsg.NewMetadataResponseTopicPartition()
			p.Leader, p.Replicas, p.ISR = 1, []int32{1}, []int32{1}
			x.Partitions = append(x.Partitions, p)
		}
		resp.Topics = append(resp.Topics, x)
	}
	if req.Topics == nil {
		for name, t := range m.topics {
			add(name, t)
		}
	}
	for _, r := range req.Topics {
		name := ""
		if r.Topic != nil {
			name = *r.Topic
		}
		n, t := m.topic(name, r.TopicID)
		if t == nil && req.AllowAutoTopicCreation && name != "" {
			t = m.create(name)
		}
		add(n, t)
	}
	return resp
}

func (m *memory) produce(req *kmsg.ProduceRequest) Reply {
	resp := req.ResponseKind().(*kmsg.ProduceResponse)
	for _, rt := range req.Topics {
		t := kmsg.NewProduceResponseTopic()
		t.Topic = rt.Topic
		for _, rp := range rt.Partitions {
			p := kmsg.NewProduceResponseTopicPartition()
			p.Partition = rp.Partition
			topic := m.topics[rt.Topic]
			h, size, err := batch.Parse(rp.Records)
			switch {
			case topic == nil || rp.Partition != 0:
				p.ErrorCode = kerr.UnknownTopicOrPartition.Code
			case err != nil || size != len(rp.Records):
				p.ErrorCode = kerr.CorruptMessage.Code
			default:
				batch.Assign(rp.Records, topic.next, 0)
				p.BaseOffset = topic.next
				topic.next += int64(h.LastOffsetDelta) + 1
				topic.batches = append(topic.batches, rp.Records)
			}
			t.Partitions = append(t.Partitions, p)
		}
		resp.Topics = append(resp.Topics, t)
	}
	close(m.changed)
	m.changed = make(chan struct{})
	if req.Acks == 0 {
		return nil
	}
	return Now(resp)
}

func (m *memory) fetch(ctx context.Context, c *Conn, req *kmsg.FetchRequest) kmsg.Response {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(req.MaxWaitMillis)*time.Millisecond)
	defer cancel()
	for {
		m.mu.Lock()
		resp, n := m.read(c, req)
		changed := m.changed
		m.mu.Unlock()
		if n >= int(req.MinBytes) {
			return resp
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return resp
		}
	}
}

func (m *memory) read(c *Conn, req *kmsg.FetchRequest) (*kmsg.FetchResponse, int) {
	resp := req.ResponseKind().(*kmsg.FetchResponse)
	n := 0
	for _, rt := range req.Topics {
		name, topic := m.topic(rt.Topic, rt.TopicID)
		t := kmsg.NewFetchResponseTopic()
		t.Topic, t.TopicID = name, rt.TopicID
		for _, rp := range rt.Partitions {
			p := kmsg.NewFetchResponseTopicPartition()
			p.Partition, p.RecordBatches = rp.Partition, []byte{}
			if topic == nil {
				p.ErrorCode = kerr.UnknownTopicID.Code
			} else {
				p.HighWatermark, p.LastStableOffset, p.LogStartOffset = topic.next, topic.next, 0
				for _, raw := range topic.batches {
					h, size, _ := batch.ParseHeader(raw)
					if h.NextOffset() > rp.FetchOffset && (n == 0 || n+size <= int(req.MaxBytes)) {
						c.Grant(size)
						p.RecordBatches = append(p.RecordBatches, raw...)
						n += size
					}
				}
			}
			t.Partitions = append(t.Partitions, p)
		}
		resp.Topics = append(resp.Topics, t)
	}
	return resp, n
}

func (m *memory) offsets(req *kmsg.ListOffsetsRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.ListOffsetsResponse)
	for _, rt := range req.Topics {
		t := kmsg.NewListOffsetsResponseTopic()
		t.Topic = rt.Topic
		for _, rp := range rt.Partitions {
			p := kmsg.NewListOffsetsResponseTopicPartition()
			p.Partition = rp.Partition
			if topic := m.topics[rt.Topic]; topic == nil {
				p.ErrorCode = kerr.UnknownTopicOrPartition.Code
			} else if p.Offset = 0; rp.Timestamp == -1 {
				p.Offset = topic.next
			}
			t.Partitions = append(t.Partitions, p)
		}
		resp.Topics = append(resp.Topics, t)
	}
	return resp
}

// passwords lets users in whose password is the right one; life is that of sessions, 0 for ever.
type passwords struct {
	mu      sync.Mutex
	life    time.Duration
	logins  int
	refused bool
	known   bool // guests have become more
}

func (p *passwords) Authenticate(mechanism, user, secret string) (*Session, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.logins++
	if secret != "right" || p.refused {
		return nil, errors.New("that is not the password")
	}
	s := &Session{Principal: "User:" + user + mechanism, Guest: user == "guest" && !p.known}
	if p.life > 0 {
		s.Expires = time.Now().Add(p.life)
	}
	return s, nil
}

// give changes the life of the next sessions.
func (p *passwords) give(life time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.life = life
}

func (p *passwords) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.logins
}

type rig struct {
	*Server
	h    *memory
	addr string
	logs *observer.ObservedLogs
	stop func()
}

// start runs a server on a free port of loopback, without TLS unless change adds it.
func start(t testing.TB, a Authenticator, change func(*Config)) *rig {
	t.Helper()
	cfg := DefaultConfig()
	cfg.Listen = []string{"plain://127.0.0.1:0"}
	if change != nil {
		change(&cfg)
	}
	core, logs := observer.New(zap.DebugLevel)
	r := &rig{h: newMemory(), logs: logs}
	s, err := New(cfg, r.h, a, zap.New(core), nil)
	require.NoError(t, err)
	r.Server, r.addr = s, s.Addrs()[0].String()
	host, port, err := net.SplitHostPort(r.addr)
	require.NoError(t, err)
	n, err := strconv.ParseInt(port, 10, 32)
	require.NoError(t, err)
	r.h.host, r.h.port = host, int32(n)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	r.stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(t, <-done)
	})
	t.Cleanup(r.stop)
	return r
}
