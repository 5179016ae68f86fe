package gate

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/bornode/bornode/pubsub/batch"
	"github.com/bornode/bornode/pubsub/seal"
)

// Topic is what the chain says of a topic.
type Topic struct {
	Name       string
	ID         common.Hash
	Owner      common.Address
	Encrypted  bool
	KeyEpoch   uint32 // the one to encrypt under
	Partitions int32
}

// Topics answers from the chain, and may answer from a cache of a few seconds.
type Topics interface {
	// Topic is the topic of that name; ErrUnknownTopic when there is none.
	Topic(ctx context.Context, name string) (Topic, error)
}

// Keys has the keys of topics' epochs that were sealed to this client.
type Keys interface {
	// Key is one of them; *seal.NoKeyError when it was not sealed to this client.
	Key(ctx context.Context, t Topic, epoch uint32) (seal.Key, error)
}

// Tokens makes what brokers let this client in with.
type Tokens interface {
	// Token is a fresh one, with the time it ends.
	Token(ctx context.Context) (secret string, expires time.Time, err error)
}

// Leaf is a delivered batch.
type Leaf struct {
	Base, Next int64 // offsets: first, and first after
	Hash       common.Hash
}

// Proofs checks batches against the checkpoints on the chain.
type Proofs interface {
	// Leaf hashes a batch as the broker's trees do.
	Leaf(topic common.Hash, partition int32, h batch.Header, covered []byte) common.Hash
	// Check takes batches that follow each other and tells up to which offset they are proved: run[0].Base when no
	// checkpoint covers any of them yet. A *TamperError says which of them is not what the chain binds, a *DisputedError that
	// the checkpoint does not count; other errors say that nothing could be learned now, ErrPassedOver that it should have been.
	Check(ctx context.Context, t Topic, partition int32, run []Leaf) (provedTo int64, err error)
	// Doubts is asked every CheckInterval for what was learned since against checkpoints by which Check proved something.
	Doubts(ctx context.Context) []Doubt
}

// Doubt is something against what was called proved.
type Doubt struct {
	Topic     Topic
	Partition int32
	Err       error // a *DisputedError
}

// Receipts checks what brokers promise in the answers to Produce requests.
type Receipts interface {
	// Receipt is called with every acknowledged batch as it was sent (encrypted, if the topic is), and the broker's
	// signed receipt, nil if there was none. An error withholds the acknowledgement.
	Receipt(t Topic, partition int32, base int64, h batch.Header, covered, receipt []byte) error
}

// Mode is how much of what is fetched is checked.
type Mode uint8

const (
	// Follow delivers at once and checks every checkpoint when it comes.
	Follow Mode = iota
	// Proved delivers only what a checkpoint on the chain binds.
	Proved
	// Off checks neither proofs nor receipts; what can be seen in the answers alone is still checked.
	Off
)

// Config of an engine.
type Config struct {
	Chain  common.Hash // of block 0
	Topics Topics
	Keys   Keys
	Tokens Tokens // nil: brokers are not logged in to
	// TLS is what brokers are dialled with; nil dials them in clear, which is done on loopback only.
	TLS      *tls.Config
	Mode     Mode
	Proofs   Proofs   // nil only with Off
	Receipts Receipts // nil: receipts are passed on unread
	// Encrypt tells which topics are encrypted whatever the chain is said to say: nothing of them is sent or taken in clear.
	// Nil: none. A topic that this engine once knew as encrypted stays so without.
	Encrypt func(topic string) bool
	// Metrics is where the engine's figures (bornode_topics_gate_...) are registered; nil: nowhere.
	Metrics prometheus.Registerer
	// Failed is told of tampering and of missing keys, and without a topic of refused logins, once for each; it must not
	// block. It may be nil.
	Failed func(topic string, partition int32, err error)
	Log    *zap.Logger
}

// Engine is what stands between Kafka clients and brokers. It is made by New and ended by Close.
type Engine struct {
	cfg    Config
	ring   *seal.Ring
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup
	watch  *watch

	secrets secrets
	replays *replays
	resends resends
	m       *metrics

	mu     sync.Mutex // guards what follows and wg.Add
	closed bool
	said   map[string]bool // what Failed was told
	cutOff error           // of the newest try to reach a broker, if it failed
}

// New starts an engine without connections.
func New(cfg Config) (*Engine, error) {
	switch {
	case cfg.Topics == nil || cfg.Keys == nil:
		return nil, errors.New("a gate needs Topics and Keys")
	case cfg.Mode > Off:
		return nil, fmt.Errorf("unknown mode %d of verification", cfg.Mode)
	case cfg.Mode != Off && cfg.Proofs == nil:
		return nil, errors.New("verification needs Proofs: give a source of them, or turn it off")
	}
	if cfg.Log == nil {
		cfg.Log = zap.NewNop()
	}
	e := &Engine{cfg: cfg, ring: seal.NewRing(cfg.Chain), said: map[string]bool{},
		secrets: secrets{names: map[string]bool{}, epoch: map[common.Hash]uint32{}}, replays: newReplays(RememberedBatches),
		resends: resends{open: map[sender][]pending{}}}
	var err error
	if e.m, err = newMetrics(cfg.Metrics); err != nil {
		return nil, fmt.Errorf("registering the figures of a gate: %w", err)
	}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	if cfg.Mode != Off {
		e.watch = newWatch(e.ctx, cfg.Proofs, e.m, e.fail, cfg.Log)
		e.wg.Go(e.watch.run)
	}
	return e, nil
}

// Close ends every connection and waits until they are gone.
func (e *Engine) Close() {
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	e.cancel()
	e.wg.Wait()
}

// start runs f among what Close waits for.
func (e *Engine) start(f func()) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return ErrClosed
	}
	e.wg.Go(f)
	return nil
}

// Dial connects to the broker at addr through the engine: what kgo.Dialer wants. The connection speaks the Kafka
// protocol and is logged in already.
func (e *Engine) Dial(ctx context.Context, _, addr string) (net.Conn, error) {
	broker, until, err := e.dialBroker(ctx, addr)
	if err != nil {
		return nil, err
	}
	ours, theirs := net.Pipe()
	s := e.session(theirs, broker, until, nil)
	if err := e.start(s.run); err != nil {
		s.cancel(err)
		return nil, errors.Join(err, broker.Close())
	}
	return pipe{ours}, nil
}

// pipe fails as sockets do: io.ErrClosedPipe says nothing to Kafka clients, and ends what they would try again.
type pipe struct{ net.Conn }

func (p pipe) Write(b []byte) (int, error) {
	n, err := p.Conn.Write(b)
	if errors.Is(err, io.ErrClosedPipe) {
		err = net.ErrClosed
	}
	return n, err
}

func (p pipe) Read(b []byte) (int, error) {
	n, err := p.Conn.Read(b)
	if errors.Is(err, io.ErrClosedPipe) {
		err = net.ErrClosed
	}
	return n, err
}

// reached notes how a try to reach a broker ended. Clients try again for ever, and silently.
func (e *Engine) reached(addr string, err error) {
	if e.ctx.Err() != nil || errors.Is(err, context.Canceled) {
		return
	}
	e.mu.Lock()
	again := e.cutOff != nil && err != nil && e.cutOff.Error() == err.Error()
	e.cutOff = err
	e.mu.Unlock()
	switch {
	case errors.Is(err, ErrLogin), errors.Is(err, ErrToken):
		e.fail("", -1, err)
	case err != nil:
		e.m.failures.WithLabelValues("unreachable").Inc()
		if !again {
			e.cfg.Log.Warn("a broker cannot be reached", zap.String("broker", addr), zap.Error(err))
		}
	}
}

// Unreachable tells why no broker can be reached; nil: the newest try succeeded, or there was none. It wraps
// ErrUnreachable.
func (e *Engine) Unreachable() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.cutOff == nil || errors.Is(e.cutOff, ErrLogin) || errors.Is(e.cutOff, ErrToken) {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrUnreachable, e.cutOff)
}

// Proved is the offset up to which everything that was delivered of a partition is proved; 0 before the first proof and
// with verification off.
func (e *Engine) Proved(topic common.Hash, partition int32) int64 {
	if e.watch == nil {
		return 0
	}
	return e.watch.proved(place{topic, partition})
}

// fail logs and reports a failure, once for each text.
func (e *Engine) fail(topic string, partition int32, err error) {
	text := fmt.Sprintf("%s/%d: %v", topic, partition, err)
	e.mu.Lock()
	said := e.said[text]
	if !said {
		if len(e.said) >= MaxPartitions {
			clear(e.said)
		}
		e.said[text] = true
	}
	e.mu.Unlock()
	e.m.failed(err)
	if said {
		return
	}
	if topic == "" {
		e.cfg.Log.Error("no connection to a broker", zap.Error(err))
	} else {
		e.cfg.Log.Error("what a topic serves is refused", zap.String("topic", topic), zap.Int32("partition", partition), zap.Error(err))
	}
	if e.cfg.Failed != nil {
		e.cfg.Failed(topic, partition, err)
	}
}
