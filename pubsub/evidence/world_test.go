package evidence

import (
	"context"
	"crypto/ecdsa"
	"errors"
	"fmt"
	"math/bits"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/bornode/bornode/contracts"
	"github.com/bornode/bornode/pubsub/batch"
	"github.com/bornode/bornode/pubsub/proof"
)

var topicA = [32]byte{0xa}

// tenantA is where operations count.
var tenantA = [32]byte{7}

// memLog is a broker's log in memory.
type memLog struct {
	mu    sync.Mutex
	start map[ID]int64
	raw   map[ID][][]byte
	until int64 // 0: all is committed
}

func newLog() *memLog { return &memLog{start: map[ID]int64{}, raw: map[ID][][]byte{}} }

func (l *memLog) Bounds(id ID) (start, committed int64, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	list, ok := l.raw[id]
	if !ok {
		return 0, 0, false
	}
	if len(list) == 0 {
		return l.start[id], l.start[id], true
	}
	h, _, _ := batch.Parse(list[len(list)-1])
	if l.until > 0 {
		return l.start[id], l.until, true
	}
	return l.start[id], h.NextOffset(), true
}

func (l *memLog) Batches(id ID, from, upTo int64, f func(h batch.Header, raw []byte) error) error {
	l.mu.Lock()
	list := append([][]byte(nil), l.raw[id]...)
	start := l.start[id]
	l.mu.Unlock()
	if from < start {
		return errors.New("out of range")
	}
	for _, raw := range list {
		h, _, err := batch.Parse(raw)
		if err != nil {
			return err
		}
		if h.NextOffset() <= from || h.BaseOffset >= upTo {
			continue
		}
		if err := f(h, raw); err != nil {
			return err
		}
	}
	return nil
}

func (l *memLog) add(id ID, raw []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.raw[id] = append(l.raw[id], raw)
}

// retain drops the first n batches.
func (l *memLog) retain(id ID, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h, _, _ := batch.Parse(l.raw[id][n])
	l.raw[id], l.start[id] = l.raw[id][n:], h.BaseOffset
}

// fakeChain is the contract as evidence sees it; every commit is final at once.
type fakeChain struct {
	t  *testing.T
	mu sync.Mutex

	height  uint64
	topics  []Topic
	marks   map[[32]byte]Mark
	commits map[common.Address]uint64
	states  map[[32]byte]proof.LogState
	batches map[[32]byte][]proof.OperationBatch
	refused map[common.Address]int
	brokers []*node
	fail    func(data []byte) error // before the commit counts
	after   func() error            // after it counted
	stolen  bool                    // somebody's checkpoint has another root
}

func newChain(t *testing.T) *fakeChain {
	return &fakeChain{t: t, marks: map[[32]byte]Mark{}, commits: map[common.Address]uint64{}, states: map[[32]byte]proof.LogState{},
		batches: map[[32]byte][]proof.OperationBatch{}, refused: map[common.Address]int{}, height: 100}
}

func (c *fakeChain) Topics() []Topic {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]Topic(nil), c.topics...)
}
func (c *fakeChain) Topic(id [32]byte) (Topic, bool) {
	for _, t := range c.Topics() {
		if t.ID == id {
			return t, true
		}
	}
	return Topic{}, false
}
func (c *fakeChain) Mark(_ context.Context, topic [32]byte) (Mark, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.marks[topic], nil
}
func (c *fakeChain) Commits(_ context.Context, a common.Address) (uint64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.commits[a], nil
}

func (c *fakeChain) submit(who common.Address, data []byte) error {
	if c.fail != nil {
		if err := c.fail(data); err != nil {
			return err
		}
	}
	c.mu.Lock()
	call, err := contracts.DecodeCommit(data)
	require.NoError(c.t, err)
	if number := call.Number; number != c.commits[who]+1 {
		c.mu.Unlock()
		return fmt.Errorf("commit %d, expected %d", number, c.commits[who]+1)
	}
	c.height++
	c.commits[who]++
	var final []proof.Checkpointed
	for _, x := range call.Checkpoints {
		if m := c.marks[x.Topic]; x.Seq == m.Seq+1 {
			if c.stolen {
				x.Root[0]++
			}
			c.marks[x.Topic] = Mark{x.Seq, x.Leaves, x.Root}
			final = append(final, proof.Checkpointed{Topic: x.Topic, Seq: x.Seq, Root: x.Root, Leaves: x.Leaves, Broker: who})
		}
	}
	for _, x := range call.Operations {
		require.Equal(c.t, contracts.FoldOperations(c.states[x.Topic].Root, c.states[x.Topic].Height, x.Entries, x.Count), c.states[x.Topic].Next(c.height, x.Entries, x.Count).Root)
		c.states[x.Topic] = c.states[x.Topic].Next(c.height, x.Entries, x.Count)
		c.batches[x.Topic] = append(c.batches[x.Topic], proof.OperationBatch{Height: c.height, Broker: who, Count: x.Count, Entries: x.Entries})
	}
	for _, x := range call.Standings {
		c.refused[x.Account] += bits.OnesCount16(x.Refused)
	}
	brokers, height, after := c.brokers, c.height, c.after
	c.mu.Unlock()
	for _, b := range brokers {
		require.NoError(c.t, b.use(func(e *Evidence) error { return e.Final(height, final) }))
	}
	if after != nil {
		return after()
	}
	return nil
}

// operations are what an auditor gets.
func (c *fakeChain) operations(topic [32]byte) []proof.Operation {
	c.mu.Lock()
	defer c.mu.Unlock()
	list, err := proof.CheckOperations(topic, proof.LogState{}, c.states[topic], c.batches[topic])
	require.NoError(c.t, err)
	return list
}

// node is one broker.
type node struct {
	name    string
	key     *ecdsa.PrivateKey
	account common.Address
	log     *memLog
	dir     string
	stop    func()

	e  *Evidence // the test's own
	mu sync.RWMutex
	up *Evidence // what the chain and the others reach: nil once the broker is being stopped
}

// reach opens the broker to the chain and the others; with nil it waits until none of them is with it any more.
func (n *node) reach(e *Evidence) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.up = e
}

// use calls f with the evidence, if the broker is there, and keeps it there meanwhile.
func (n *node) use(f func(e *Evidence) error) error {
	n.mu.RLock()
	defer n.mu.RUnlock()
	if n.up == nil {
		return nil
	}
	return f(n.up)
}

// close ends evidence that was opened and not run.
func (n *node) close(t *testing.T) {
	n.reach(nil)
	require.NoError(t, n.e.db.Close())
}

type peers struct{ c *fakeChain }

func (p peers) Ask(ctx context.Context, peer string, kind uint8, q []byte) ([]byte, error) {
	answer, err := []byte(nil), errors.New("no link")
	for _, b := range p.c.brokers {
		if b.name == peer {
			_ = b.use(func(e *Evidence) error {
				answer, err = e.Answer(ctx, kind, q)
				return nil
			})
		}
	}
	return answer, err
}

func newNode(t *testing.T, c *fakeChain, name string) *node {
	key, err := crypto.GenerateKey()
	require.NoError(t, err)
	n := &node{name: name, key: key, account: crypto.PubkeyToAddress(key.PublicKey), log: newLog(), dir: t.TempDir()}
	c.brokers = append(c.brokers, n)
	return n
}

var quick = Config{Checkpoint: 100 * time.Millisecond, Window: 20 * time.Millisecond, Receipt: time.Millisecond}

// open opens the evidence without running it.
func (n *node) open(t *testing.T, c *fakeChain, cfg Config) {
	e, err := Open(cfg, Deps{Dir: n.dir, Self: n.name, Account: n.account, Chain: common.Hash{1}, Log: n.log, Peers: peers{c}, Ledger: c,
		Submit: func(_ context.Context, kind string, data []byte) error { return c.submit(n.account, data) },
		Sign:   func(d common.Hash) ([]byte, error) { return crypto.Sign(d[:], n.key) },
		Logger: zap.NewNop(), Registry: prometheus.NewRegistry()})
	require.NoError(t, err)
	n.e = e
	n.reach(e)
}

func (n *node) start(t *testing.T, c *fakeChain, cfg Config) {
	n.open(t, c, cfg)
	n.run(t)
}

func (n *node) run(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	e := n.e
	go func() { done <- e.Run(ctx) }()
	stopped := false
	n.stop = func() {
		if !stopped {
			stopped = true
			n.reach(nil)
			cancel()
			require.NoError(t, <-done)
		}
	}
	t.Cleanup(n.stop)
}

func makeBatch(base int64, epoch int32, count int, text string) []byte {
	return batch.Encode(batch.Header{BaseOffset: base, LeaderEpoch: epoch, LastOffsetDelta: int32(count - 1), Count: int32(count),
		ProducerID: -1, FirstSequence: -1}, []byte(text+strings.Repeat(".", count)))
}

// produce commits n batches of 3 records each on all these brokers.
func produce(id ID, n int, brokers ...*node) {
	for range n {
		_, base, ok := brokers[0].log.Bounds(id)
		if !ok {
			base = 0
		}
		raw := makeBatch(base, 1, 3, fmt.Sprintf("at %d", base))
		for _, b := range brokers {
			b.log.add(id, raw)
			_ = b.use(func(e *Evidence) error {
				e.Committed(id)
				return nil
			})
		}
	}
}

func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	require.Eventually(t, f, 60*time.Second, 5*time.Millisecond, what)
}
