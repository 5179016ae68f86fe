package gate

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/bornode/bornode/pubsub/batch"
	"github.com/bornode/bornode/pubsub/seal"
)

func off(c *Config) { c.Mode, c.Proofs = Off, nil }

func TestPlainTopicsPass(t *testing.T) {
	r := newRig(t, off)
	r.topic("acme.plain", false)
	r.produce(r.client(), "acme.plain", "one", "two", "three")
	require.Equal(t, []string{"one", "two", "three"}, r.consume("acme.plain", 0, 3))
	require.Equal(t, []string{"three"}, r.consume("acme.plain", 2, 1))
}

func TestEncryptedTopicsAreReadByThoseWithTheKeyAlone(t *testing.T) {
	for _, codec := range []kgo.CompressionCodec{kgo.NoCompression(), kgo.ZstdCompression(), kgo.Lz4Compression()} {
		r := newRig(t, off)
		r.topic("acme.secret", true)
		secret := strings.Repeat("nobody may read this", 20)
		r.produce(r.client(kgo.ProducerBatchCompression(codec)), "acme.secret", secret, "two")
		for _, raw := range r.broker.Batches("acme.secret", 0) {
			require.NotContains(t, string(raw), "nobody")
			require.True(t, seal.Sealed(raw))
		}
		require.Equal(t, []string{secret, "two"}, r.consume("acme.secret", 0, 2))
	}
}

func TestNothingIsSentInClear(t *testing.T) {
	r := newRig(t, off)
	r.topic("acme.secret", true)
	r.ledger.mu.Lock()
	clear(r.ledger.keys)
	r.ledger.mu.Unlock()
	c := r.client(kgo.RecordDeliveryTimeout(time.Minute), kgo.RecordRetries(3))
	err := c.ProduceSync(r.ctx, &kgo.Record{Topic: "acme.secret", Value: []byte("x")}).FirstErr()
	require.ErrorIs(t, err, kerr.TopicAuthorizationFailed)
	var none *seal.NoKeyError
	require.True(t, errors.As(r.failure(), &none))
	require.Equal(t, uint32(1), none.Epoch)

	r.ledger.mu.Lock()
	r.ledger.down = errors.New("the node is down")
	r.ledger.mu.Unlock()
	c = r.client(kgo.RecordRetries(2), kgo.DisableIdempotentWrite())
	require.Error(t, c.ProduceSync(r.ctx, &kgo.Record{Topic: "acme.secret", Value: []byte("x")}).FirstErr())
	require.Empty(t, r.broker.Batches("acme.secret", 0))
}

func TestAMissingKeyIsNamedToTheReader(t *testing.T) {
	r := newRig(t, off)
	top := r.topic("acme.secret", true)
	r.produce(r.client(), "acme.secret", "readable")
	r.ledger.rotate("acme.secret")
	r.produce(r.client(), "acme.secret", "later")
	require.Equal(t, []string{"readable", "later"}, r.consume("acme.secret", 0, 2), "both epochs")

	other := newRig(t, off) // a reader that was removed
	other.broker.Close()
	other.broker = r.broker
	other.ledger.topics["acme.secret"] = top
	r.ledger.mu.Lock()
	other.ledger.keys["acme.secret/1"] = r.ledger.keys["acme.secret/1"]
	r.ledger.mu.Unlock()
	require.Equal(t, []string{"readable"}, other.consume("acme.secret", 0, 1))
	c := other.client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"acme.secret": {0: kgo.NewOffset().At(1)}}))
	require.ErrorIs(t, c.PollFetches(other.ctx).Err(), kerr.TopicAuthorizationFailed)
	var none *seal.NoKeyError
	require.True(t, errors.As(other.failure(), &none))
	require.Equal(t, seal.NoKeyError{Topic: top.ID, Epoch: 2}, *none)
}

// lies are what a broker may do to an answer, and what must be found.
var lies = map[string]struct {
	lie    func(batches [][]byte) [][]byte
	what   string // for plain topics; empty: only those who have the key or a proof see it
	sealed string // for encrypted ones
	offset int64
}{
	"a flipped byte": {func(b [][]byte) [][]byte { b[1][len(b[1])-3] ^= 1; return b }, Flipped, Flipped, 1},
	"a changed batch with a good checksum": {func(b [][]byte) [][]byte {
		s := bytes.Clone(batch.Records(b[1]))
		s[len(s)-3] ^= 1
		b[1] = batch.WithRecords(b[1], s, 0)
		return b
	}, "", Forged, 1},
	"a left-out batch": {func(b [][]byte) [][]byte { return append(b[:1:1], b[2:]...) }, Gap, Gap, 2},
	"a left-out first": {func(b [][]byte) [][]byte { return b[1:] }, Gap, Gap, 1},
	"other order":      {func(b [][]byte) [][]byte { b[1], b[2] = b[2], b[1]; return b }, Gap, Gap, 2},
	"one twice":        {func(b [][]byte) [][]byte { return append(b[:2:2], b[1], b[2]) }, Backwards, Backwards, 1},
	"one in clear": {func(b [][]byte) [][]byte {
		b[1] = batch.WithRecords(b[1], []byte("forged"), 0)
		return b
	}, "", Unsealed, 1},
	"a control batch": {func(b [][]byte) [][]byte {
		h, _, _ := batch.Parse(b[1])
		h.Attributes |= batch.Control
		b[1] = batch.Encode(h, []byte("hides a record"))
		return b
	}, "", Unsealed, 1},
	"no batch at all": {func(b [][]byte) [][]byte { return [][]byte{bytes.Repeat([]byte{0xff}, 100)} }, Flipped, Flipped, 0},
}

func (r *rig) lie(lie func([][]byte) [][]byte) {
	r.broker.Lock()
	defer r.broker.Unlock()
	r.broker.Lie = func(_ string, _ int32, from int64, b []byte) []byte {
		if from != 0 {
			return b
		}
		var list [][]byte
		_ = batch.Each(bytes.Clone(b), func(_ batch.Header, raw []byte) error { list = append(list, raw); return nil })
		return bytes.Join(lie(list), nil)
	}
}

func TestLiesAreFound(t *testing.T) {
	for name, l := range lies {
		for _, encrypted := range []bool{false, true} {
			what := l.what
			if encrypted {
				what = l.sealed
			}
			if what == "" {
				continue
			}
			t.Run(fmt.Sprintf("%s/encrypted=%v", name, encrypted), func(t *testing.T) {
				r := newRig(t, off)
				r.topic("acme.t", encrypted)
				r.produce(r.client(), "acme.t", "one", "two", "three")
				r.lie(l.lie)
				c := r.client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"acme.t": {0: kgo.NewOffset().At(0)}}))
				ctx, cancel := context.WithCancel(r.ctx)
				polled := make(chan kgo.Fetches)
				go func() { polled <- c.PollFetches(ctx) }() // the client takes the error for one that passes
				r.tampering(what, l.offset)
				cancel()
				f := <-polled
				n := int64(0)
				f.EachRecord(func(rec *kgo.Record) {
					require.Equal(t, n, rec.Offset)
					n++
				})
				good := map[string]int64{Gap: l.offset - 1, Backwards: l.offset + 1} // what is before the lie
				if want, ok := good[what]; ok && want >= 0 {
					require.LessOrEqual(t, n, want)
				} else {
					require.LessOrEqual(t, n, l.offset)
				}
			})
		}
	}
}

func TestFollowFindsWhatTheChainDoesNotBind(t *testing.T) {
	r := newRig(t)
	top := r.topic("acme.t", false)
	r.produce(r.client(), "acme.t", "one", "two", "three")
	r.proofs.checkpoint(r.broker, top)
	require.Len(t, r.consume("acme.t", 0, 3), 3)
	require.Eventually(t, func() bool { return r.engine.Proved(top.ID, 0) == 3 }, patience, 20*time.Millisecond)
	r.lie(lies["a changed batch with a good checksum"].lie)
	c := r.client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"acme.t": {0: kgo.NewOffset().At(0)}}))
	_ = c.PollFetches(r.ctx)
	r.tampering(Unproved, 1)
	require.Equal(t, int64(1), r.engine.Proved(top.ID, 0))
}

func TestProvedDeliversNothingElse(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Mode = Proved })
	top := r.topic("acme.t", true)
	p := r.client()
	r.produce(p, "acme.t", "one", "two")
	r.proofs.checkpoint(r.broker, top)
	r.produce(p, "acme.t", "three")
	c := r.client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"acme.t": {0: kgo.NewOffset().At(0)}}))
	var got []string
	collect := func(n int) {
		for len(got) < n {
			c.PollFetches(r.ctx).EachRecord(func(rec *kgo.Record) { got = append(got, string(rec.Value)) })
			require.NoError(t, r.ctx.Err())
		}
	}
	collect(2)
	require.Equal(t, []string{"one", "two"}, got)
	r.proofs.checkpoint(r.broker, top)
	collect(3)
	require.Equal(t, []string{"one", "two", "three"}, got)
	require.Equal(t, int64(3), r.engine.Proved(top.ID, 0))
}

func TestTwoBatchesForOneOffsetAreTampering(t *testing.T) {
	r := newRig(t)
	r.topic("acme.t", false)
	r.produce(r.client(), "acme.t", "one", "two", "three")
	require.Len(t, r.consume("acme.t", 0, 3), 3) // no checkpoint yet
	r.lie(lies["a changed batch with a good checksum"].lie)
	c := r.client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"acme.t": {0: kgo.NewOffset().At(0)}}))
	_ = c.PollFetches(r.ctx)
	r.tampering(Equivocal, 1)
}

// receipts takes a receipt that is "good".
type receipts struct{ seen chan int64 }

func (c receipts) Receipt(t Topic, partition int32, base int64, h batch.Header, covered, receipt []byte) error {
	if string(receipt) != "good" {
		return errors.New("bad signature")
	}
	c.seen <- base
	return nil
}

func TestReceiptsAreCheckedBeforeTheAcknowledgement(t *testing.T) {
	seen := make(chan int64, 10)
	r := newRig(t, func(c *Config) { c.Receipts = receipts{seen} })
	r.topic("acme.t", true)
	answer := "good"
	r.broker.Receipt = func(string, int32, []byte) []byte { return []byte(answer) }
	r.produce(r.client(), "acme.t", "one", "two")
	require.Equal(t, int64(0), <-seen)
	require.Equal(t, int64(1), <-seen)
	r.broker.Lock()
	answer = "bad"
	r.broker.Unlock()
	c := r.client(kgo.RecordRetries(0))
	require.Error(t, c.ProduceSync(r.ctx, &kgo.Record{Topic: "acme.t", Value: []byte("x")}).FirstErr())
	r.tampering(BadReceipt, 2)
}

func TestRequestsArePipelined(t *testing.T) {
	r := newRig(t, off)
	r.topic("acme.t", true)
	slow := make(chan struct{})
	r.broker.Slow = slow
	c := r.client(kgo.ProducerLinger(0), kgo.MaxBufferedRecords(10000))
	errs := make(chan error, 500)
	for i := range 500 {
		c.Produce(r.ctx, &kgo.Record{Topic: "acme.t", Value: fmt.Append(nil, i)}, func(_ *kgo.Record, err error) { errs <- err })
	}
	r.broker.Lock()
	r.broker.Slow = nil
	r.broker.Unlock()
	close(slow)
	for range 500 {
		require.NoError(t, <-errs)
	}
	got := r.consume("acme.t", 0, 500)
	for i, v := range got {
		require.Equal(t, fmt.Sprint(i), v)
	}
}

func TestBigBatchesPass(t *testing.T) {
	r := newRig(t, off)
	r.topic("acme.t", true)
	big := strings.Repeat("0123456789abcdef", 6<<16) // 6 MiB
	c := r.client(kgo.ProducerBatchMaxBytes(8<<20-1000), kgo.ProducerBatchCompression(kgo.NoCompression()))
	r.produce(c, "acme.t", big, "small")
	rd := r.client(kgo.FetchMaxPartitionBytes(16<<20), kgo.FetchMaxBytes(32<<20),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"acme.t": {0: kgo.NewOffset().At(0)}}))
	var sizes []int
	for len(sizes) < 2 {
		rd.PollFetches(r.ctx).EachRecord(func(rec *kgo.Record) { sizes = append(sizes, len(rec.Value)) })
		require.NoError(t, r.ctx.Err())
	}
	require.Equal(t, []int{len(big), 5}, sizes)
}

func TestLoginIsRefusedAndRenewed(t *testing.T) {
	r := newRig(t, off)
	r.topic("acme.t", false)
	r.broker.Lifetime = 50 * time.Millisecond
	c := r.client(kgo.MetadataMaxAge(100*time.Millisecond), kgo.MetadataMinAge(20*time.Millisecond))
	r.produce(c, "acme.t", "one")
	before := r.broker.Logins()
	require.Eventually(t, func() bool {
		r.produce(c, "acme.t", "more")
		return r.broker.Logins() >= before+3
	}, patience, 20*time.Millisecond)

	r.ledger.mu.Lock()
	r.ledger.token = "wrong"
	r.ledger.mu.Unlock()
	_, err := r.engine.Dial(r.ctx, "tcp", r.broker.Addrs()[0])
	require.ErrorIs(t, err, ErrLogin)
	require.ErrorContains(t, err, "wrong token")
}

func TestAProxyServesUnmodifiedClients(t *testing.T) {
	r := newRig(t, off)
	r.topic("acme.secret", true)
	p, err := NewProxy(r.engine, "127.0.0.1:0", r.broker.Addrs()[:1])
	require.NoError(t, err)
	done := make(chan struct{})
	go func() { defer close(done); p.Run(r.ctx) }()
	c, err := kgo.NewClient(kgo.SeedBrokers(p.Addr()), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ConsumerGroup("acme.group"), kgo.ConsumeTopics("acme.secret"))
	require.NoError(t, err)
	defer c.Close()
	for i := range int32(2) { // the leaders are two brokers
		require.NoError(t, c.ProduceSync(r.ctx, &kgo.Record{Topic: "acme.secret", Partition: i, Value: fmt.Append(nil, i)}).FirstErr())
		require.True(t, seal.Sealed(r.broker.Batches("acme.secret", i)[0]))
	}
	got := map[string]bool{}
	for len(got) < 2 {
		c.PollFetches(r.ctx).EachRecord(func(rec *kgo.Record) { got[string(rec.Value)] = true })
		require.NoError(t, r.ctx.Err())
	}
	require.NoError(t, c.CommitUncommittedOffsets(r.ctx))
	offset, _ := r.broker.Committed("acme.group", "acme.secret", 0)
	require.Equal(t, int64(1), offset)
	md, err := kmsg.NewPtrMetadataRequest().RequestWith(r.ctx, c)
	require.NoError(t, err)
	require.Len(t, md.Brokers, 2)
	for _, b := range md.Brokers {
		require.NotContains(t, r.broker.Addrs(), fmt.Sprintf("%s:%d", b.Host, b.Port), "clients must not go past the proxy")
	}
	r.engine.Close()
	<-done
}

// contact is a client that meets the cluster through a proxy.
func (r *rig) contact(p *Proxy) {
	r.Helper()
	c, err := kgo.NewClient(kgo.SeedBrokers(p.Addr()))
	require.NoError(r, err)
	defer c.Close()
	md, err := kmsg.NewPtrMetadataRequest().RequestWith(r.ctx, c)
	require.NoError(r, err)
	require.Len(r, md.Brokers, 2)
}

// New clients come in though the only broker that the proxy was told of died: the others were named since.
func TestAProxyOutlivesItsSeed(t *testing.T) {
	r := newRig(t, off)
	p, err := NewProxy(r.engine, "127.0.0.1:0", r.broker.Addrs()[:1])
	require.NoError(t, err)
	r.contact(p)
	r.broker.Kill(0)
	r.contact(p)
	r.contact(p)
}

// A broker that takes connections and says nothing costs the first client time, and no other.
func TestAProxyRemembersWhoAnswered(t *testing.T) {
	r := newRig(t, off)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var taken atomic.Int32
	var wg sync.WaitGroup
	defer wg.Wait()
	defer l.Close()
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			taken.Add(1)
			defer c.Close()
		}
	})
	p, err := NewProxy(r.engine, "127.0.0.1:0", append([]string{l.Addr().String()}, r.broker.Addrs()...))
	require.NoError(t, err)
	r.contact(p)
	tried := taken.Load()
	require.NotZero(t, tried)
	r.contact(p)
	require.Equal(t, tried, taken.Load())
}

// What a client tries again after a socket's end it tries again here.
func TestConnectionsEndAsSocketsDo(t *testing.T) {
	r := newRig(t, off)
	c, err := r.engine.Dial(r.ctx, "tcp", r.broker.Addrs()[0])
	require.NoError(t, err)
	r.broker.Drop()
	for err == nil {
		_, err = c.Write([]byte{0})
	}
	require.ErrorIs(t, err, net.ErrClosed)
	_, err = c.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
	require.NoError(t, c.Close())
	_, err = c.Read(make([]byte, 1))
	require.ErrorIs(t, err, net.ErrClosed)
}

func TestAProxyStaysOnThisMachine(t *testing.T) {
	r := newRig(t, off)
	_, err := NewProxy(r.engine, "0.0.0.0:0", r.broker.Addrs())
	require.ErrorContains(t, err, "this machine alone")
}

func TestDeliveriesWaitWhenTooMuchIsUnproved(t *testing.T) {
	r := newRig(t)
	w := r.engine.watch
	at, top := place{common.Hash{9}, 0}, Topic{Name: "acme.t"}
	leaves := make([]Leaf, MaxPartitionBatches+10)
	for i := range leaves {
		leaves[i] = Leaf{Base: int64(i), Next: int64(i) + 1}
	}
	ctx := r.ctx
	done := make(chan int)
	go func() { n, _ := w.add(ctx, at, top, leaves); done <- n }()
	require.Eventually(t, func() bool { w.mu.Lock(); defer w.mu.Unlock(); return w.total == MaxPartitionBatches }, patience, time.Millisecond)
	r.proofs.mu.Lock()
	r.proofs.truth, r.proofs.upTo = map[int64]common.Hash{}, 100 // the leaves' hashes are zero
	r.proofs.mu.Unlock()
	require.Equal(t, len(leaves), <-done, "room came with the proof of 100")
}

// The wish for receipts is in the request whatever else is done with it, and changes nothing else.
func TestReceiptsAreAskedFor(t *testing.T) {
	tags := func(r *kmsg.ProduceRequest) map[uint32]string {
		m := map[uint32]string{}
		r.UnknownTags.Each(func(n uint32, b []byte) { m[n] = string(b) })
		return m
	}
	for name, c := range map[string]struct {
		version int16
		changed bool
		tag     string // of the client's own
		want    map[uint32]string
		anew    bool
	}{
		"at the end of the frame":     {version: 9, want: map[uint32]string{ReceiptTag: ""}},
		"with the client's own tags":  {version: 9, tag: "x", want: map[uint32]string{ReceiptTag: "", 7: "x"}, anew: true},
		"in a request that changed":   {version: 9, changed: true, want: map[uint32]string{ReceiptTag: ""}, anew: true},
		"not where there are no tags": {version: 8, want: map[uint32]string{}},
	} {
		t.Run(name, func(t *testing.T) {
			sent := kmsg.NewPtrProduceRequest()
			sent.Version, sent.Acks, sent.TimeoutMillis = c.version, -1, 7
			sent.Topics = []kmsg.ProduceRequestTopic{{Topic: "acme.a", Partitions: []kmsg.ProduceRequestTopicPartition{{Partition: 3, Records: []byte("batch\x00")}}}}
			if c.tag != "" {
				sent.UnknownTags.Set(7, []byte(c.tag))
			}
			frame := kmsg.NewRequestFormatter(kmsg.FormatterClientID("me")).AppendRequest(nil, sent, 5)
			h, err := parseHead(frame)
			require.NoError(t, err)
			req := kmsg.NewPtrProduceRequest()
			body, err := parseRequest(frame, h, req)
			require.NoError(t, err)
			out, anew := askReceipts(frame, req, c.changed)
			require.Equal(t, c.anew, anew)
			if anew {
				out = appendRequest(nil, frame, body, req)
			}
			got := kmsg.NewPtrProduceRequest()
			_, err = parseRequest(out, h, got)
			require.NoError(t, err)
			require.Len(t, out, 4+int(binary.BigEndian.Uint32(out)))
			require.Equal(t, c.want, tags(got))
			require.Equal(t, sent.Topics, got.Topics)
			require.Equal(t, sent.TimeoutMillis, got.TimeoutMillis)
		})
	}
}

// Only what the engine judges, or what holds no records and no addresses, passes.
func TestOtherRequestsDoNotPass(t *testing.T) {
	r := newRig(t, off)
	resp := kmsg.NewPtrApiVersionsResponse()
	resp.Version = 3
	for _, key := range []int16{kmsg.Fetch.Int16(), kmsg.ShareFetch.Int16()} {
		k := kmsg.NewApiVersionsResponseApiKey()
		k.ApiKey, k.MaxVersion = key, 1
		resp.ApiKeys = append(resp.ApiKeys, k)
	}
	h := head{key: kmsg.ApiVersions.Int16(), version: 3}
	out, err := apiVersions(h, nil, appendResponse(nil, h, resp))
	require.NoError(t, err)
	got := kmsg.NewPtrApiVersionsResponse()
	require.NoError(t, parseResponse(out, h, got))
	require.Len(t, got.ApiKeys, 1)
	frame := kmsg.NewRequestFormatter().AppendRequest(nil, kmsg.NewPtrShareFetchRequest(), 1)
	_, _, err = r.engine.session(nil, nil, time.Time{}, nil).request(frame)
	require.ErrorContains(t, err, "not passed on")
}

// Records beside an error are nobody's.
func TestRecordsBesideAnErrorAreDropped(t *testing.T) {
	r := newRig(t, off)
	r.topic("acme.t", false)
	h := head{key: kmsg.Fetch.Int16(), version: fetchVersion}
	resp := kmsg.NewPtrFetchResponse()
	p := kmsg.NewFetchResponseTopicPartition()
	p.ErrorCode, p.RecordBatches = kerr.UnknownServerError.Code, []byte("forged")
	resp.Topics = []kmsg.FetchResponseTopic{{Topic: "acme.t", Partitions: []kmsg.FetchResponseTopicPartition{p}}}
	out, err := r.engine.session(nil, nil, time.Time{}, nil).fetched(h, nil, appendResponse(nil, h, resp),
		map[string]asked{"acme.t": {offsets: map[int32]int64{0: 0}}}, 0)
	require.NoError(t, err)
	got := kmsg.NewPtrFetchResponse()
	require.NoError(t, parseResponse(out, h, got))
	require.Equal(t, kerr.UnknownServerError.Code, got.Topics[0].Partitions[0].ErrorCode)
	require.Empty(t, got.Topics[0].Partitions[0].RecordBatches)
}
