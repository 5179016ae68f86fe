package client

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/bornode/bornode/contracts"
	"github.com/bornode/bornode/internal/leaks"
	"github.com/bornode/bornode/pubsub/batch"
	"github.com/bornode/bornode/pubsub/proof"
	"github.com/bornode/bornode/pubsub/seal"
	"github.com/bornode/bornode/pubsub/token"
)

func TestMain(m *testing.M) {
	leaks.Main(m, goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"), goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"))
}

func TestTopicsComeAndGo(t *testing.T) {
	w := newWorld(t)
	a := w.admin(w.client(w.owner))
	id := w.topic(a, "acme.orders", false)
	info, err := a.Topic(w.ctx, "acme.orders")
	require.NoError(t, err)
	require.Equal(t, id, info.ID)
	require.NoError(t, a.AddPartitions(w.ctx, "acme.orders", 3))
	require.NoError(t, a.Configure(w.ctx, "acme.orders", map[string]string{"retention.ms": "1000"}))
	all, err := a.Topics(w.ctx, "acme")
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.Len(t, all[0].Leases, 3)
	rule := contracts.Acl{Resource: 2, Pattern: 4, Name: "acme.", Principal: contracts.UserPrincipal(common.Address{1}), Host: "*", Operation: 3, Permission: 3}
	require.NoError(t, a.Grant(w.ctx, "acme", rule))
	rules, err := a.Acls(w.ctx, "acme")
	require.NoError(t, err)
	require.Equal(t, []contracts.Acl{rule}, rules)
	require.NoError(t, a.Revoke(w.ctx, "acme", rule))
	require.NoError(t, a.DeleteTopic(w.ctx, "acme.orders"))
	_, err = a.Topic(w.ctx, "acme.orders")
	require.ErrorIs(t, err, ErrUnknownTopic)

	stranger := w.admin(w.client(nil))
	_, err = stranger.CreateTopic(w.ctx, contracts.NewTopic{Name: "acme.mine", Partitions: 1, Replicas: 1})
	require.ErrorIs(t, err, ErrReverted)
	require.ErrorContains(t, err, "acme.mine")
}

// A node that is restarted after it took a transaction is asked about it again.
func TestARestartedNodeIsAskedAgain(t *testing.T) {
	w := newWorld(t)
	node, err := url.Parse(w.url)
	require.NoError(t, err)
	pass := httputil.NewSingleHostReverseProxy(node)
	var away atomic.Int32 // for so many questions yet
	h := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
		if away.Load() > 0 {
			away.Add(-1)
			panic(http.ErrAbortHandler)
		}
		body, err := io.ReadAll(req.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		if bytes.Contains(body, []byte("eth_sendRawTransaction")) {
			away.Store(3)
		}
		req.Body = io.NopCloser(bytes.NewReader(body))
		pass.ServeHTTP(rw, req)
	}))
	defer h.Close()
	w.url = h.URL
	w.topic(w.admin(w.client(w.owner)), "acme.orders", false)
	require.Zero(t, away.Load())
}

// Connections that end in the login or right after it are a dying broker's, and no reason to give up.
func TestDyingBrokersAreTriedAgain(t *testing.T) {
	w := newWorld(t)
	c := w.client(w.owner)
	w.topic(w.admin(c), "acme.orders", false)
	dies := func() {
		w.kafka.Lock()
		w.kafka.Cut = []int{0, 1, 2, 3, 0, 1, 2, 3} // in the login and after it
		w.kafka.Unlock()
		w.kafka.Drop()
	}
	dies()
	w.send(c, "acme.orders", "one")
	dies()
	x := w.consumer(c, "acme.orders")
	require.Equal(t, []string{"one"}, w.receive(x, 1))
	dies()
	w.send(c, "acme.orders", "two")
	require.Equal(t, []string{"two"}, w.receive(x, 1))
}

func TestRecordsComeOnceAndInOrder(t *testing.T) {
	w := newWorld(t)
	c := w.client(w.owner)
	w.topic(w.admin(c), "acme.orders", false)
	sent := w.send(c, "acme.orders", "one", "two", "three")
	require.Equal(t, int64(2), sent[2].Offset)
	x, err := c.Consumer(ConsumerConfig{Group: "acme.readers", Topics: []string{"acme.orders"}})
	require.NoError(t, err)
	require.Equal(t, []string{"one", "two", "three"}, w.receive(x, 3))
	require.NoError(t, x.Commit(w.ctx))
	at, _ := w.kafka.Committed("acme.readers", "acme.orders", 0)
	require.Equal(t, int64(3), at)
	ctx, cancel := context.WithTimeout(w.ctx, 50*time.Millisecond)
	defer cancel()
	_, err = x.Records(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	x.Close()
	_, err = x.Records(w.ctx)
	require.ErrorIs(t, err, ErrClosed)
}

func TestEpochsDecideWhoReads(t *testing.T) {
	w := newWorld(t)
	owner, reader := w.client(w.owner), w.client(nil)
	a, ra := w.admin(owner), w.admin(reader)
	w.topic(a, "acme.secret", true)

	p, err := owner.Producer(kgo.RecordRetries(1))
	require.NoError(t, err)
	_, err = p.Send(w.ctx, &Record{Topic: "acme.secret", Value: []byte("x")})
	var none *NoKeyError
	require.ErrorAs(t, err, &none)
	require.ErrorIs(t, err, kerr.TopicAuthorizationFailed)
	p.Close()

	require.NoError(t, a.RegisterSealKey(w.ctx))
	_, err = a.NewEpoch(w.ctx, "acme.secret", reader.Account())
	require.ErrorContains(t, err, "RegisterSealKey")
	require.NoError(t, ra.RegisterSealKey(w.ctx))
	epoch, err := a.NewEpoch(w.ctx, "acme.secret", reader.Account())
	require.NoError(t, err)
	require.Equal(t, uint32(1), epoch)
	w.send(owner, "acme.secret", "first")
	require.True(t, seal.Sealed(w.kafka.Batches("acme.secret", 0)[0]))
	x := w.consumer(reader, "acme.secret")
	require.Equal(t, []string{"first"}, w.receive(x, 1))

	_, err = a.NewEpoch(w.ctx, "acme.secret") // without the reader
	require.NoError(t, err)
	w.send(owner, "acme.secret", "second")
	_, err = x.Records(w.ctx)
	require.ErrorAs(t, err, &none)
	require.Equal(t, uint32(2), none.Epoch)

	require.NoError(t, a.AddReaders(w.ctx, "acme.secret", true, reader.Account()))
	y, got := w.consumer(reader, "acme.secret"), []string{}
	for len(got) < 2 { // that a key is missing is remembered for a moment
		rs, err := y.Records(w.ctx)
		require.True(t, err == nil || errors.As(err, &none), "%v", err)
		for _, r := range rs {
			got = append(got, string(r.Value))
		}
	}
	require.Equal(t, []string{"first", "second"}, got)
}

func TestKeysOfOthersThanTheOwnerAreNotTaken(t *testing.T) {
	w := newWorld(t)
	owner := w.client(w.owner)
	a := w.admin(owner)
	w.topic(a, "acme.secret", true)
	require.NoError(t, a.RegisterSealKey(w.ctx))
	_, err := a.NewEpoch(w.ctx, "acme.secret")
	require.NoError(t, err)
	pinned := w.client(w.owner, func(c *Config) {
		c.SealKey = owner.cfg.SealKey
		c.Owners = map[string]common.Address{"acme": {9}}
	})
	p, err := pinned.Producer(kgo.RecordRetries(1))
	require.NoError(t, err)
	_, err = p.Send(w.ctx, &Record{Topic: "acme.secret", Value: []byte("x")})
	require.ErrorIs(t, err, ErrVoucher)
	require.Empty(t, w.kafka.Batches("acme.secret", 0))
}

func TestReceiptsComeWithTheRecord(t *testing.T) {
	w := newWorld(t)
	c := w.client(w.owner)
	id := w.topic(w.admin(c), "acme.orders", false)
	signer := w.broker
	block0, err := w.genesis.Block()
	require.NoError(t, err)
	w.kafka.Receipt = func(_ string, partition int32, raw []byte) []byte {
		h, _, _ := batch.ParseHeader(raw)
		h.LeaderEpoch = 1 // of the lease
		placed := proof.Placed{Topic: id, Partition: partition, Leaf: proof.LeafOf(&h, batch.Covered(raw))}
		rs, err := proof.SignReceipts(block0.Hash(), 5, []proof.Placed{placed}, func(d common.Hash) ([]byte, error) { return crypto.Sign(d[:], signer) })
		if err != nil {
			return nil
		}
		return rs[0].Encode()
	}
	sent := w.send(c, "acme.orders", "one", "two")
	require.NotNil(t, sent[1].Receipt)
	require.Equal(t, crypto.PubkeyToAddress(w.broker.PublicKey), sent[1].Receipt.By)
	require.Equal(t, int64(1), sent[1].Receipt.Placed.Leaf.Base)

	w.kafka.Lock()
	signer = newKey(t)
	w.kafka.Unlock()
	p, err := c.Producer()
	require.NoError(t, err)
	_, err = p.Send(w.ctx, &Record{Topic: "acme.orders", Value: []byte("x")})
	var tampered *TamperError
	require.ErrorAs(t, err, &tampered)
	require.Equal(t, int64(2), tampered.Offset)
}

func TestPseudonymsAreAdmittedByTheAuditor(t *testing.T) {
	w := newWorld(t)
	auditor, user := w.client(w.owner), w.client(nil)
	a := w.admin(auditor)
	id := w.topic(a, "acme.votes", false)
	nym := KeySigner(newKey(t))
	req, err := user.RequestPseudonym(w.ctx, "acme.votes", nym, token.Read|token.Write)
	require.NoError(t, err)
	back, err := ParseRequest(req.Text())
	require.NoError(t, err)
	require.Equal(t, req, back)
	cert, err := auditor.Admit(w.ctx, "acme.votes", back, token.Read, time.Now().Add(time.Hour))
	require.NoError(t, err)
	require.Equal(t, [32]byte(id), cert.Topic)
	require.NoError(t, cert.Valid(time.Now(), chainID))

	for name, spoil := range map[string]func(*Request){
		"account": func(r *Request) { r.Account = common.Address{1} }, "pseudonym": func(r *Request) { r.Pseudonym = common.Address{1} },
		"rights": func(r *Request) { r.Rights = 7 }, "topic": func(r *Request) { r.Topic = common.Hash{1} }, "epoch": func(r *Request) { r.Epoch++ },
		"signature": func(r *Request) { r.AccountSignature = nil },
	} {
		bad := *back
		spoil(&bad)
		_, err := auditor.Admit(w.ctx, "acme.votes", &bad, token.Read, time.Now().Add(time.Hour))
		require.ErrorIs(t, err, ErrRequest, name)
	}
	_, err = user.Admit(w.ctx, "acme.votes", back, token.Read, time.Now().Add(time.Hour))
	require.ErrorContains(t, err, "the auditor of topic")

	c, err := Open(w.ctx, Config{Brokers: w.kafka.Addrs(), Node: w.url, Genesis: w.genesis, Account: nym, Certificate: cert})
	require.NoError(t, err)
	defer c.Close()
	tok, err := c.NewToken(w.ctx, time.Minute, token.Data)
	require.NoError(t, err)
	require.NoError(t, tok.Verify(time.Now(), chainID))
	require.Equal(t, nym.Address(), tok.Account)
	w.send(c, "acme.votes", "yes")
	_, err = c.Admin()
	require.ErrorContains(t, err, "pseudonym")

	require.NoError(t, a.RevokePseudonym(w.ctx, "acme.votes", nym.Address()))
	_, err = auditor.Admit(w.ctx, "acme.votes", back, token.Read, time.Now().Add(time.Hour))
	require.ErrorContains(t, err, "revoked")
	require.NoError(t, a.NextPseudonyms(w.ctx, "acme.votes"))
	_, err = auditor.Admit(w.ctx, "acme.votes", back, token.Read, time.Now().Add(time.Hour))
	require.ErrorContains(t, err, "epoch")
}

func TestAnotherNetworkIsRefused(t *testing.T) {
	w, other := newWorld(t), newWorld(t)
	_, err := Open(w.ctx, Config{Brokers: w.kafka.Addrs(), Node: w.url, Genesis: other.genesis})
	require.ErrorIs(t, err, ErrWrongChain)
	_, err = Open(w.ctx, Config{Node: w.url})
	require.ErrorContains(t, err, "genesis")
}

func TestTamperingIsToldOnceWithItsPlace(t *testing.T) {
	w := newWorld(t)
	c := w.client(w.owner)
	w.topic(w.admin(c), "acme.orders", false)
	w.send(c, "acme.orders", "one", "two")
	w.kafka.Lock()
	w.kafka.Lie = func(_ string, _ int32, from int64, b []byte) []byte {
		if from > 1 || len(b) == 0 {
			return b
		}
		out := append([]byte(nil), b...)
		out[len(out)-2] ^= 1
		return out
	}
	w.kafka.Unlock()
	x := w.consumer(c, "acme.orders")
	var tampered *TamperError
	for {
		_, err := x.Records(w.ctx)
		if errors.As(err, &tampered) {
			break
		}
		require.NoError(t, err)
	}
	require.Equal(t, int64(1), tampered.Offset)
	require.Equal(t, "acme.orders", tampered.Topic)
}

// sending sends a record and gives how that ends.
func sending(ctx context.Context, p *Producer) <-chan error {
	sent := make(chan error, 1)
	go func() {
		_, err := p.Send(ctx, &Record{Topic: "acme.orders", Value: []byte("x")})
		sent <- err
	}()
	return sent
}

// refused waits until the producer's login was refused.
func (w *world) refused(p *Producer) {
	w.t.Helper()
	w.until(func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.failures[partitionKey{"", -1}] != nil
	})
}

func TestARefusedLoginIsTold(t *testing.T) {
	w := newWorld(t)
	c := w.client(w.owner)
	w.topic(w.admin(c), "acme.orders", false)
	w.kafka.Lock()
	w.kafka.Token = "another"
	w.kafka.Unlock()
	x := w.consumer(c, "acme.orders")
	_, err := x.Records(w.ctx)
	require.ErrorIs(t, err, ErrLogin)
	p, err := c.Producer()
	require.NoError(t, err)
	ctx, giveUp := context.WithCancel(w.ctx)
	defer giveUp()
	sent := sending(ctx, p)
	w.refused(p) // it is tried again and again: the token may be good again
	giveUp()
	require.ErrorIs(t, <-sent, ErrLogin)
}

// A record that is on its way when the login ends for good may be there or not: who gives up is told, and does not wait.
func TestWhoGivesUpARecordOnItsWayIsTold(t *testing.T) {
	w := newWorld(t)
	c := w.client(w.owner)
	w.topic(w.admin(c), "acme.orders", false)
	p, err := c.Producer()
	require.NoError(t, err)
	slow := make(chan struct{})
	defer close(slow)
	w.kafka.Lock()
	w.kafka.Slow = slow
	w.kafka.Unlock()
	ctx, giveUp := context.WithCancel(w.ctx)
	defer giveUp()
	sent := sending(ctx, p)
	w.until(func() bool { w.kafka.Lock(); defer w.kafka.Unlock(); return w.kafka.Held > 0 })
	w.kafka.Lock()
	w.kafka.Token = "another"
	w.kafka.Unlock()
	w.kafka.Drop()
	w.refused(p)
	giveUp()
	select {
	case err := <-sent:
		require.ErrorIs(t, err, ErrLogin)
		require.ErrorIs(t, err, context.Canceled)
	case <-w.ctx.Done():
		require.Fail(t, "it still waits")
	}
}

func FuzzParseRequest(f *testing.F) {
	f.Add("bpsr1.e30")
	f.Fuzz(func(t *testing.T, s string) {
		r, err := ParseRequest(s)
		if err != nil {
			require.ErrorIs(t, err, ErrRequest)
			return
		}
		require.Error(t, r.Check())
	})
}

func TestATopicToldToBeEncryptedIsNotSentInClear(t *testing.T) {
	w := newWorld(t)
	w.topic(w.admin(w.client(w.owner)), "acme.secret", false)
	w.topic(w.admin(w.client(w.owner)), "acme.orders", false)
	for _, told := range []string{"acme.secret", "acme.s.", EncryptAll} {
		c := w.client(w.owner, func(c *Config) { c.Encrypt = []string{told} })
		p, err := c.Producer(kgo.RecordRetries(1))
		require.NoError(t, err)
		topic := "acme.secret"
		if told == "acme.s." {
			w.topic(w.admin(c), "acme.s.more", false)
			topic = "acme.s.more"
		}
		_, err = p.Send(w.ctx, &Record{Topic: topic, Value: []byte("x")})
		var down *DowngradeError
		require.ErrorAs(t, err, &down, told)
		require.Empty(t, w.kafka.Batches(topic, 0))
		if told != EncryptAll {
			_, err = p.Send(w.ctx, &Record{Topic: "acme.orders", Value: []byte("x")})
			require.NoError(t, err)
		}
	}
}
