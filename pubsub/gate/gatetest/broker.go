package gatetest

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/bornode/bornode/pubsub/batch"
)

// Broker is one broker, or several of one cluster (Hosts). Fields are set before the first connection, or under Lock.
type Broker struct {
	sync.Mutex
	// Token is the secret that is wanted at login; empty: no login is wanted, any is taken.
	Token string
	// Lifetime is told to clients at login; 0: for ever.
	Lifetime time.Duration
	// Lie changes what a Fetch from an offset serves.
	Lie func(topic string, partition int32, from int64, batches []byte) []byte
	// Receipt makes the receipt of an appended batch.
	Receipt func(topic string, partition int32, raw []byte) []byte
	// Leaderless names partitions that no broker leads; nil: there are none.
	Leaderless func(topic string, partition int32) bool
	// LostLead says that metadata names a leader of those all the same.
	LostLead bool
	// Slow delays answers to Produce until it is closed.
	Slow chan struct{}
	// Held is how many wait for it.
	Held int
	// Coordinator is the broker that all are told to be the groups'.
	Coordinator int
	// Expel has the groups know no member, nor take one.
	Expel bool
	// Cut has for each of the next connections at which of its requests it ends, counted from 0, as when a broker dies.
	Cut []int
	// NoCommit has the code with which a partition's offsets are refused; 0: they are not.
	NoCommit func(topic string) int16

	tag       uint32
	listeners []net.Listener
	conns     map[net.Conn]int32 // to which broker
	closed    bool
	wg        sync.WaitGroup
	topics    map[string][]*log
	offsets   map[string]int64 // committed, by group/topic/partition
	member    string
	session   int32
	plan      []byte // assignment of the only member
	logins    int
	producers int64
	moved     chan struct{}
}

type log struct {
	raw  [][]byte
	next int64
}

// New starts a cluster of n brokers on the loopback interface. receiptTag is the tagged field of receipts, and of
// requests that ask for them.
func New(n int, receiptTag uint32) (*Broker, error) {
	listen := func() (net.Listener, error) { return net.Listen("tcp", "127.0.0.1:0") }
	return NewOn(receiptTag, slices.Repeat([]func() (net.Listener, error){listen}, n)...)
}

// NewOn is New with a broker on each of these listeners.
func NewOn(receiptTag uint32, listen ...func() (net.Listener, error)) (*Broker, error) {
	b := &Broker{tag: receiptTag, conns: map[net.Conn]int32{}, topics: map[string][]*log{}, offsets: map[string]int64{}, moved: make(chan struct{})}
	for id, open := range listen {
		l, err := open()
		if err != nil {
			return nil, err
		}
		b.listeners = append(b.listeners, l)
		b.wg.Go(func() { b.accept(l, int32(id)) })
	}
	return b, nil
}

// Addrs are the brokers' addresses; the one of index i has the id i.
func (b *Broker) Addrs() (out []string) {
	for _, l := range b.listeners {
		out = append(out, l.Addr().String())
	}
	return out
}

// Create adds a topic.
func (b *Broker) Create(topic string, partitions int) {
	b.Lock()
	defer b.Unlock()
	for range partitions {
		b.topics[topic] = append(b.topics[topic], &log{})
	}
}

// Batches are what was appended to a partition.
func (b *Broker) Batches(topic string, partition int32) [][]byte {
	b.Lock()
	defer b.Unlock()
	return append([][]byte(nil), b.topics[topic][partition].raw...)
}

// Logins is how often a client logged in.
func (b *Broker) Logins() int {
	b.Lock()
	defer b.Unlock()
	return b.logins
}

// Drop ends all connections.
func (b *Broker) Drop() {
	b.Lock()
	defer b.Unlock()
	for c := range b.conns {
		_ = c.Close()
	}
}

// Kill ends one broker. The others still name it, as they do until they notice.
func (b *Broker) Kill(id int) {
	b.Lock()
	defer b.Unlock()
	_ = b.listeners[id].Close()
	for c, to := range b.conns {
		if int(to) == id {
			_ = c.Close()
		}
	}
}

// Close ends everything and waits for it.
func (b *Broker) Close() {
	b.Lock()
	b.closed = true
	for _, l := range b.listeners {
		_ = l.Close()
	}
	close(b.moved)
	b.moved = make(chan struct{})
	b.Unlock()
	b.Drop()
	b.wg.Wait()
}

func (b *Broker) accept(l net.Listener, id int32) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		b.Lock()
		if b.closed {
			b.Unlock()
			_ = c.Close()
			return
		}
		b.conns[c] = id
		b.wg.Go(func() { b.serve(c, id) })
		b.Unlock()
	}
}

// serve answers the requests of one connection in order.
func (b *Broker) serve(c net.Conn, id int32) {
	defer func() {
		b.Lock()
		delete(b.conns, c)
		b.Unlock()
		_ = c.Close()
	}()
	b.Lock()
	in, left := b.Token == "", 0 // requests until the connection is cut
	if len(b.Cut) > 0 {
		left, b.Cut = b.Cut[0]+1, b.Cut[1:]
	}
	b.Unlock()
	for {
		head := make([]byte, 4)
		if _, err := io.ReadFull(c, head); err != nil {
			return
		}
		frame := make([]byte, binary.BigEndian.Uint32(head))
		if _, err := io.ReadFull(c, frame); err != nil {
			return
		}
		key, version, corr := int16(binary.BigEndian.Uint16(frame)), int16(binary.BigEndian.Uint16(frame[2:])), frame[4:8]
		req := kmsg.RequestForKey(key)
		req.SetVersion(version)
		r := kbin.Reader{Src: frame[8:]}
		r.NullableString()
		if req.IsFlexible() {
			kmsg.SkipTags(&r)
		}
		if err := req.ReadFrom(r.Src); err != nil {
			panic(fmt.Sprintf("request %s v%d: %v", kmsg.NameForKey(key), version, err))
		}
		if left--; left == 0 {
			return
		}
		resp := req.ResponseKind()
		resp.SetVersion(version)
		if a, ok := req.(*kmsg.SASLAuthenticateRequest); ok {
			in = b.login(a, resp.(*kmsg.SASLAuthenticateResponse))
		} else if !in && key != int16(kmsg.SASLHandshake) && key != int16(kmsg.ApiVersions) {
			return
		}
		b.answer(req, resp, id)
		if p, ok := req.(*kmsg.ProduceRequest); ok && p.Acks == 0 {
			continue
		}
		out := append([]byte{0, 0, 0, 0}, corr...)
		if resp.IsFlexible() && key != int16(kmsg.ApiVersions) {
			out = append(out, 0)
		}
		out = resp.AppendTo(out)
		binary.BigEndian.PutUint32(out, uint32(len(out)-4))
		if _, err := c.Write(out); err != nil {
			return
		}
	}
}

func (b *Broker) login(req *kmsg.SASLAuthenticateRequest, resp *kmsg.SASLAuthenticateResponse) bool {
	b.Lock()
	defer b.Unlock()
	b.logins++
	resp.SessionLifetimeMillis = b.Lifetime.Milliseconds()
	if b.Token != "" && !strings.Contains(string(req.SASLAuthBytes), "auth=Bearer "+b.Token+"\x01") {
		resp.ErrorCode, resp.ErrorMessage = kerr.SaslAuthenticationFailed.Code, kmsg.StringPtr("wrong token")
		return false
	}
	return true
}

// answer fills the response.
func (b *Broker) answer(req kmsg.Request, resp kmsg.Response, id int32) {
	switch r := req.(type) {
	case *kmsg.ApiVersionsRequest:
		versions(resp.(*kmsg.ApiVersionsResponse))
	case *kmsg.MetadataRequest:
		b.metadata(r, resp.(*kmsg.MetadataResponse))
	case *kmsg.ProduceRequest:
		b.produce(r, resp.(*kmsg.ProduceResponse))
	case *kmsg.FetchRequest:
		b.fetch(r, resp.(*kmsg.FetchResponse))
	case *kmsg.ListOffsetsRequest:
		b.listOffsets(r, resp.(*kmsg.ListOffsetsResponse))
	case *kmsg.InitProducerIDRequest:
		b.Lock()
		b.producers++
		resp.(*kmsg.InitProducerIDResponse).ProducerID = b.producers
		b.Unlock()
	default:
		b.group(req, resp)
	}
}

func versions(resp *kmsg.ApiVersionsResponse) {
	for key, span := range map[kmsg.Key][2]int16{kmsg.ApiVersions: {0, 3}, kmsg.Metadata: {0, 12}, kmsg.Produce: {3, 11}, kmsg.Fetch: {4, 16},
		kmsg.ListOffsets: {1, 7}, kmsg.InitProducerID: {0, 4}, kmsg.SASLHandshake: {0, 1}, kmsg.SASLAuthenticate: {0, 2},
		kmsg.FindCoordinator: {0, 4}, kmsg.JoinGroup: {0, 7}, kmsg.SyncGroup: {0, 5}, kmsg.Heartbeat: {0, 4}, kmsg.LeaveGroup: {0, 4},
		kmsg.OffsetCommit: {2, 8}, kmsg.OffsetFetch: {1, 7}, kmsg.DescribeCluster: {0, 0}} {
		k := kmsg.NewApiVersionsResponseApiKey()
		k.ApiKey, k.MinVersion, k.MaxVersion = int16(key), span[0], span[1]
		resp.ApiKeys = append(resp.ApiKeys, k)
	}
}

func (b *Broker) metadata(req *kmsg.MetadataRequest, resp *kmsg.MetadataResponse) {
	b.Lock()
	defer b.Unlock()
	for id, l := range b.listeners {
		m := kmsg.NewMetadataResponseBroker()
		host, port, _ := net.SplitHostPort(l.Addr().String())
		n, _ := strconv.Atoi(port)
		m.NodeID, m.Host, m.Port = int32(id), host, int32(n)
		resp.Brokers = append(resp.Brokers, m)
	}
	want := map[string]bool{}
	for _, t := range req.Topics {
		want[*t.Topic] = true
	}
	if req.Topics == nil {
		for name := range b.topics {
			want[name] = true
		}
	}
	for name := range want {
		t := kmsg.NewMetadataResponseTopic()
		t.Topic = kmsg.StringPtr(name)
		copy(t.TopicID[:], name)
		if b.topics[name] == nil {
			t.ErrorCode = kerr.UnknownTopicOrPartition.Code
		}
		for i := range b.topics[name] {
			p := kmsg.NewMetadataResponseTopicPartition()
			p.Partition, p.Leader = int32(i), int32(i%len(b.listeners))
			p.Replicas, p.ISR = []int32{p.Leader}, []int32{p.Leader}
			if b.leaderless(name, p.Partition) && !b.LostLead {
				p.Leader, p.ErrorCode = -1, kerr.LeaderNotAvailable.Code
			}
			t.Partitions = append(t.Partitions, p)
		}
		resp.Topics = append(resp.Topics, t)
	}
}

func (b *Broker) leaderless(topic string, partition int32) bool {
	return b.Leaderless != nil && b.Leaderless(topic, partition)
}

func (b *Broker) produce(req *kmsg.ProduceRequest, resp *kmsg.ProduceResponse) {
	b.Lock()
	slow := b.Slow
	b.Held++
	b.Unlock()
	if slow != nil {
		<-slow
	}
	b.Lock()
	b.Held--
	defer b.Unlock()
	asked := false
	req.UnknownTags.Each(func(tag uint32, _ []byte) { asked = asked || tag == b.tag })
	for _, rt := range req.Topics {
		t := kmsg.NewProduceResponseTopic()
		t.Topic = rt.Topic
		for _, rp := range rt.Partitions {
			p := kmsg.NewProduceResponseTopicPartition()
			p.Partition = rp.Partition
			p.BaseOffset, p.ErrorCode = b.append(rt.Topic, rp.Partition, rp.Records)
			if p.ErrorCode == 0 && b.Receipt != nil && asked {
				l := b.topics[rt.Topic][rp.Partition]
				p.UnknownTags.Set(b.tag, b.Receipt(rt.Topic, rp.Partition, l.raw[len(l.raw)-1]))
			}
			t.Partitions = append(t.Partitions, p)
		}
		resp.Topics = append(resp.Topics, t)
	}
	close(b.moved)
	b.moved = make(chan struct{})
}

func (b *Broker) append(topic string, partition int32, records []byte) (int64, int16) {
	if int(partition) >= len(b.topics[topic]) {
		return -1, kerr.UnknownTopicOrPartition.Code
	}
	if b.leaderless(topic, partition) {
		return -1, kerr.NotLeaderForPartition.Code
	}
	l := b.topics[topic][partition]
	raw := append([]byte(nil), records...)
	h, size, err := batch.Parse(raw)
	if err != nil || size != len(raw) {
		return -1, kerr.CorruptMessage.Code
	}
	base := l.next
	batch.Assign(raw, base, 0)
	l.raw, l.next = append(l.raw, raw), base+int64(h.LastOffsetDelta)+1
	return base, 0
}

func (b *Broker) fetch(req *kmsg.FetchRequest, resp *kmsg.FetchResponse) {
	late := time.After(time.Duration(req.MaxWaitMillis) * time.Millisecond)
	for {
		b.Lock()
		moved, done := b.moved, b.closed
		resp.Topics = nil
		found := false
		for _, rt := range req.Topics {
			t := kmsg.NewFetchResponseTopic()
			t.Topic = rt.Topic
			for _, rp := range rt.Partitions {
				p := b.read(rt.Topic, &rp)
				found = found || p.ErrorCode != 0 || len(p.RecordBatches) > 0
				t.Partitions = append(t.Partitions, p)
			}
			resp.Topics = append(resp.Topics, t)
		}
		b.Unlock()
		if found || done || req.MinBytes == 0 {
			return
		}
		select {
		case <-moved:
		case <-late:
			return
		}
	}
}

func (b *Broker) read(topic string, rp *kmsg.FetchRequestTopicPartition) kmsg.FetchResponseTopicPartition {
	p := kmsg.NewFetchResponseTopicPartition()
	p.Partition, p.RecordBatches = rp.Partition, []byte{}
	if int(rp.Partition) >= len(b.topics[topic]) {
		p.ErrorCode = kerr.UnknownTopicOrPartition.Code
		return p
	}
	if b.leaderless(topic, rp.Partition) {
		p.ErrorCode = kerr.NotLeaderForPartition.Code
		return p
	}
	l := b.topics[topic][rp.Partition]
	p.HighWatermark, p.LastStableOffset, p.LogStartOffset = l.next, l.next, 0
	for _, raw := range l.raw {
		h, _, _ := batch.ParseHeader(raw)
		if h.NextOffset() > rp.FetchOffset && (len(p.RecordBatches) == 0 || len(p.RecordBatches)+len(raw) <= int(rp.PartitionMaxBytes)) {
			p.RecordBatches = append(p.RecordBatches, raw...)
		}
	}
	if b.Lie != nil {
		p.RecordBatches = b.Lie(topic, rp.Partition, rp.FetchOffset, p.RecordBatches)
	}
	return p
}

func (b *Broker) listOffsets(req *kmsg.ListOffsetsRequest, resp *kmsg.ListOffsetsResponse) {
	b.Lock()
	defer b.Unlock()
	for _, rt := range req.Topics {
		t := kmsg.NewListOffsetsResponseTopic()
		t.Topic = rt.Topic
		for _, rp := range rt.Partitions {
			p := kmsg.NewListOffsetsResponseTopicPartition()
			p.Partition = rp.Partition
			switch {
			case b.leaderless(rt.Topic, rp.Partition):
				p.ErrorCode = kerr.NotLeaderForPartition.Code
			case rp.Timestamp == -1:
				p.Offset = b.topics[rt.Topic][rp.Partition].next
			default:
				p.Offset = 0
			}
			t.Partitions = append(t.Partitions, p)
		}
		resp.Topics = append(resp.Topics, t)
	}
}
