package kafka

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/bornode/bornode/pubsub/batch"
)

func produceOf(version, acks int16, topic string, records []byte) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis = version, acks, 1000
	p := kmsg.NewProduceRequestTopicPartition()
	p.Records = records
	rt := kmsg.NewProduceRequestTopic()
	rt.Topic, rt.Partitions = topic, append(rt.Partitions, p)
	req.Topics = append(req.Topics, rt)
	return req
}

func someBatch(n int) []byte {
	return batch.Encode(batch.Header{LastOffsetDelta: 0, Count: 1, ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1}, make([]byte, n))
}

func TestApiVersionsOfAnUnknownVersionIsAnsweredInVersion0(t *testing.T) {
	r := start(t, &passwords{}, nil)
	c := dial(t, r)
	b := kbin.AppendInt32(kbin.AppendInt16(kbin.AppendInt16(nil, 18), 99), 5)
	c.frame(append(b, "what a later version says, who knows"...))
	id, body := c.read()
	require.Equal(t, int32(5), id)
	resp := kmsg.NewPtrApiVersionsResponse() // version 0
	require.NoError(t, resp.ReadFrom(body))
	require.Equal(t, kerr.UnsupportedVersion.Code, resp.ErrorCode)
	require.NotEmpty(t, resp.ApiKeys, "the client takes the version to try next from here")

	for v := range int16(5) {
		resp := c.versions(v) // answer() would fail on a flexible header
		require.Zero(t, resp.ErrorCode)
		got := map[int16]Version{}
		for _, k := range resp.ApiKeys {
			got[k.ApiKey] = Version{k.MinVersion, k.MaxVersion}
		}
		require.Equal(t, r.table.versions, got)
		require.Equal(t, Version{0, 11}, got[0], "librdkafka wants Produce from 0, or it stops compressing")
	}
}

func TestOldProduceIsRefusedByPartition(t *testing.T) {
	r := start(t, nil, nil)
	c := dial(t, r)
	for v := range int16(3) {
		resp := c.ask(produceOf(v, 1, "acme.a", someBatch(10))).(*kmsg.ProduceResponse)
		require.Equal(t, kerr.UnsupportedForMessageFormat.Code, resp.Topics[0].Partitions[0].ErrorCode)
	}
	c.versions(0)
	c.send(produceOf(2, 0, "acme.a", someBatch(10)))
	c.expectClosed()
}

func TestWhatIsUnknownIsAnswered(t *testing.T) {
	r := start(t, nil, nil)
	c := dial(t, r)

	old := kmsg.NewPtrFetchRequest() // known to the codec, below what is answered
	old.Version = 2
	ft := kmsg.NewFetchRequestTopic()
	ft.Topic, ft.Partitions = "acme.a", append(ft.Partitions, kmsg.NewFetchRequestTopicPartition())
	old.Topics = append(old.Topics, ft)
	fetched := c.ask(old).(*kmsg.FetchResponse)
	require.Equal(t, kerr.UnsupportedVersion.Code, fetched.Topics[0].Partitions[0].ErrorCode)
	require.NotNil(t, fetched.Topics[0].Partitions[0].RecordBatches, "null record sets confuse clients")

	txn := kmsg.NewPtrEndTxnRequest() // known to the codec, not here
	txn.Version = 3
	require.Equal(t, kerr.UnsupportedVersion.Code, c.ask(txn).(*kmsg.EndTxnResponse).ErrorCode)

	c.frame(kbin.AppendInt32(kbin.AppendInt16(kbin.AppendInt16(nil, 16), 77), 9)) // a version after the last one
	id, body := c.read()
	require.Equal(t, int32(9), id)
	listed := &kmsg.ListGroupsResponse{Version: 5}
	require.NoError(t, listed.ReadFrom(body[1:]))
	require.Equal(t, kerr.UnsupportedVersion.Code, listed.ErrorCode)

	c.frame(kbin.AppendInt32(kbin.AppendInt16(kbin.AppendInt16(nil, 31000), 0), 10)) // a key nobody knows
	id, body = c.read()
	require.Equal(t, int32(10), id)
	require.Equal(t, unsupportedVersion, int16(binary.BigEndian.Uint16(body[5:])))

	c.versions(3) // and the connection lives on
}

func TestAnswersLeaveInOrderWhileLaterRequestsAreWorkedOn(t *testing.T) {
	r := start(t, nil, func(c *Config) { c.QueuedRequests = 4 })
	served := make(chan int32, 100)
	first := make(chan struct{})
	r.h.served = func(_ *Conn, req kmsg.Request) (Reply, bool) {
		lo, ok := req.(*kmsg.ListOffsetsRequest)
		if !ok {
			return nil, false
		}
		served <- lo.ReplicaID
		return func(ctx context.Context) kmsg.Response {
			if lo.ReplicaID == 0 {
				select {
				case <-first:
				case <-ctx.Done():
				}
			}
			return req.ResponseKind()
		}, true
	}
	c := dial(t, r)
	const n = 20
	for k := range int32(n) {
		req := kmsg.NewPtrListOffsetsRequest()
		req.Version, req.ReplicaID = 4, k
		require.Equal(t, k+1, c.send(req))
	}
	// One waits for its answer, four are in the queue, and the reader holds one more: no other is served.
	for k := range int32(6) {
		require.Equal(t, k, <-served)
	}
	select {
	case k := <-served:
		t.Fatalf("request %d is served although the queue is full", k)
	default:
	}
	close(first)
	for k := range int32(n) {
		id, _ := c.read()
		require.Equal(t, k+1, id)
	}
}

func TestGarbageIsClosedWithALine(t *testing.T) {
	r := start(t, nil, nil)
	for name, b := range map[string][]byte{
		"a web browser":     []byte("GET / HTTP/1.1\r\nHost: broker\r\n\r\n"),
		"TLS on plain":      {0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00, 0x01, 0xfc, 0x03},
		"a negative length": {0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0},
		"an empty frame":    {0, 0, 0, 0, 0, 0, 0, 0},
		"a huge produce":    {0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 9},
		"a large metadata":  {0x01, 0, 0, 0, 0, 3, 0, 9},
		"no header":         {0, 0, 0, 9, 0, 3, 0, 9, 0, 0, 0, 1, 0x7f},
	} {
		before := r.logs.Len()
		c := dial(t, r)
		c.write(b)
		c.expectClosed()
		require.Eventually(t, func() bool { return r.logs.Len() > before }, 30*time.Second, time.Millisecond, name)
	}
	c := dial(t, r) // half a frame, then nothing more
	c.write([]byte{0, 0, 1, 0, 0, 3, 0, 1})
	require.NoError(t, c.Conn.(*net.TCPConn).CloseWrite())
	c.expectClosed()
	dial(t, r).versions(0)
}

// Slow clients get a bounded time, in each phase.
func TestSlowClientsAreClosed(t *testing.T) {
	t.Parallel()
	const short = 300 * time.Millisecond
	login := func(c *Config) { c.LoginTimeout = short }
	frame := func(c *Config) { c.FrameTimeout = short }
	idle := func(c *Config) { c.IdleTimeout = 10 * short } // a login on a busy machine is within it
	t.Run("no login", func(t *testing.T) {
		c := dial(t, start(t, &passwords{}, login))
		c.send(kmsg.NewPtrApiVersionsRequest()) // answered or not: it is no login
		_, err := io.Copy(io.Discard, c)
		require.NotErrorIs(t, err, os.ErrDeadlineExceeded, "the connection is still open")
	})
	for name, begun := range map[string][]byte{"half a length before the login": {0, 0}, "half a frame before the login": {0, 0, 0, 100, 0, 18, 0, 0, 0}} {
		t.Run(name, func(t *testing.T) {
			c := dial(t, start(t, &passwords{}, func(c *Config) { login(c); c.FrameTimeout = time.Hour }))
			c.write(begun)
			c.expectClosed()
		})
	}
	t.Run("idle", func(t *testing.T) {
		c := dial(t, start(t, &passwords{}, idle))
		require.Zero(t, c.logIn("me").ErrorCode)
		c.expectClosed()
	})
	t.Run("half a length", func(t *testing.T) {
		c := dial(t, start(t, nil, frame))
		c.write([]byte{0, 0})
		c.expectClosed()
	})
	t.Run("half a frame", func(t *testing.T) {
		c := dial(t, start(t, nil, frame))
		c.write([]byte{0, 0, 0, 100, 0, 18, 0, 0, 0})
		c.expectClosed()
	})
	t.Run("no handshake of TLS", func(t *testing.T) {
		f := newFiles(t)
		r := start(t, nil, func(c *Config) { login(c); f.configure(c) })
		c := dial(t, r)
		c.expectClosed()
	})
	t.Run("takes no answer", func(t *testing.T) {
		t.Parallel()
		r := start(t, nil, frame)
		r.h.served = func(c *Conn, req kmsg.Request) (Reply, bool) {
			resp := req.ResponseKind().(*kmsg.MetadataResponse)
			resp.ClusterID = kmsg.StringPtr(string(make([]byte, 30_000)))
			return func(context.Context) kmsg.Response {
				for range 400 {
					resp.Brokers = append(resp.Brokers, kmsg.MetadataResponseBroker{Host: string(make([]byte, 30_000))})
				}
				return resp
			}, true
		}
		c := dial(t, r)
		req := kmsg.NewPtrMetadataRequest()
		req.Version = 9
		c.send(req)
		require.Eventually(t, func() bool { return r.logs.FilterMessageSnippet("closed").Len() == 1 }, 60*time.Second, 10*time.Millisecond)
		_, _ = io.Copy(io.Discard, c) // what was on its way still comes
	})
}

func TestThrottledClientsAreNotRead(t *testing.T) {
	r := start(t, nil, nil)
	served := make(chan time.Time, 10)
	r.h.served = func(c *Conn, req kmsg.Request) (Reply, bool) {
		served <- time.Now()
		c.Throttle(400 * time.Millisecond)
		c.Throttle(time.Millisecond) // a shorter one changes nothing
		return Now(req.ResponseKind()), true
	}
	c := dial(t, r)
	req := kmsg.NewPtrMetadataRequest()
	for range 2 {
		c.send(req)
	}
	c.read() // at once
	c.read()
	one, two := <-served, <-served
	require.GreaterOrEqual(t, two.Sub(one), 400*time.Millisecond)
}
