package client

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	gethrpc "github.com/ethereum/go-ethereum/rpc"

	"github.com/bornode/bornode/contracts"
	"github.com/bornode/bornode/pubsub/gate"
	"github.com/bornode/bornode/pubsub/proof"
	"github.com/bornode/bornode/pubsub/seal"
	"github.com/bornode/bornode/pubsub/token"
)

// chain is what the client knows of the contract, by JSON-RPC, at final state. It remembers topics for a short while. It
// is the engine's Topics, Keys and Tokens.
type chain struct {
	rpc     *gethrpc.Client
	cfg     *Config
	genesis common.Hash
	id      uint64

	mu      sync.Mutex
	topics  map[string]known
	missing map[string]time.Time // keys that were not there
	brokers knownBrokers
	marks   map[common.Hash]mark
	tok     *token.Token
}

// mark is the newest checkpoint of a topic.
type mark struct {
	info contracts.CheckpointInfo
	at   time.Time
}

type known struct {
	info contracts.TopicInfo
	err  error // ErrUnknownTopic
	at   time.Time
}

type knownBrokers struct {
	list []contracts.Broker
	at   time.Time
}

func newChain(rpc *gethrpc.Client, cfg *Config) *chain {
	return &chain{rpc: rpc, cfg: cfg, topics: map[string]known{}, missing: map[string]time.Time{}, marks: map[common.Hash]mark{}}
}

func (c *chain) me() (a common.Address) {
	if c.cfg.Account != nil {
		a = c.cfg.Account.Address()
	}
	return a
}

// identify learns which chain the node is of.
func (c *chain) identify(ctx context.Context, trust *proof.Trust) error {
	var id hexutil.Uint64
	if err := c.ask(ctx, &id, "eth_chainId"); err != nil {
		return err
	}
	var block struct {
		Hash common.Hash `json:"hash"`
	}
	if err := c.ask(ctx, &block, "eth_getBlockByNumber", "0x0", false); err != nil {
		return err
	}
	c.id, c.genesis = uint64(id), block.Hash
	if trust != nil && (trust.Genesis != c.genesis || trust.Params.ChainID != c.id) {
		return fmt.Errorf("%w: block 0 of the node at %s is %s, of the file %s", ErrWrongChain, c.cfg.Node, c.genesis, trust.Genesis)
	}
	return nil
}

func (c *chain) ask(ctx context.Context, result any, method string, args ...any) error {
	ctx, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	if err := c.rpc.CallContext(ctx, result, method, args...); err != nil {
		return fmt.Errorf("asking node %s for %s: %w", c.cfg.Node, method, err)
	}
	return nil
}

// view calls a view of Topics at final state.
func (c *chain) view(ctx context.Context, data []byte) ([]byte, error) {
	var out hexutil.Bytes
	call := map[string]any{"to": contracts.TopicsAddress, "data": hexutil.Bytes(data)}
	if err := c.ask(ctx, &out, "eth_call", call, "finalized"); err != nil {
		return nil, err
	}
	return out, nil
}

// info is a topic by its name, remembered for a short while.
func (c *chain) info(ctx context.Context, name string) (contracts.TopicInfo, error) {
	c.mu.Lock()
	k, ok := c.topics[name]
	c.mu.Unlock()
	age := time.Since(k.at)
	if ok && age < TopicFresh {
		return k.info, k.err
	}
	info, err := c.lookup(ctx, name)
	if err != nil && !errors.Is(err, ErrUnknownTopic) {
		if ok && k.err == nil && age < TopicStale {
			return k.info, nil
		}
		return info, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.topics) >= KnownTopics {
		clear(c.topics)
	}
	c.topics[name] = known{info, err, time.Now()}
	return info, err
}

// lookup is info without memory.
func (c *chain) lookup(ctx context.Context, name string) (info contracts.TopicInfo, err error) {
	ret, err := c.view(ctx, contracts.TopicIDCall(name))
	if err != nil {
		return info, err
	}
	id, err := contracts.DecodeTopicID(ret)
	if err != nil {
		return info, err
	}
	if id == (common.Hash{}) {
		return info, fmt.Errorf("%w: %s", ErrUnknownTopic, name)
	}
	if ret, err = c.view(ctx, contracts.TopicCall(id)); err != nil {
		return info, err
	}
	if info, err = contracts.DecodeTopic(ret); err != nil {
		return info, err
	}
	if info.Deleted || info.Name != name { // deleted between the two calls
		return info, fmt.Errorf("%w: %s", ErrUnknownTopic, name)
	}
	return info, nil
}

// forget has the next question about a topic answered by the node.
func (c *chain) forget(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.topics, name)
	clear(c.missing)
}

// Topic is gate.Topics.
func (c *chain) Topic(ctx context.Context, name string) (gate.Topic, error) {
	info, err := c.info(ctx, name)
	return gate.Topic{Name: info.Name, ID: info.ID, Owner: info.Owner, Encrypted: info.Encrypted, KeyEpoch: info.KeyEpoch,
		Partitions: int32(len(info.Leases))}, err
}

// Key is gate.Keys: the key that was sealed to this account, made by the topic's owner.
func (c *chain) Key(ctx context.Context, t gate.Topic, epoch uint32) (k seal.Key, err error) {
	none := &seal.NoKeyError{Topic: t.ID, Epoch: epoch}
	if epoch == 0 {
		return k, none
	}
	if c.cfg.SealKey == nil {
		return k, errors.Join(none, ErrNoSealKey)
	}
	name := fmt.Sprintf("%s/%d", t.ID, epoch)
	c.mu.Lock()
	late, missing := c.missing[name]
	c.mu.Unlock()
	if missing && time.Since(late) < KnownMissing {
		return k, none
	}
	ret, err := c.view(ctx, contracts.SealedKeyCall(t.ID, epoch, c.me()))
	if err != nil {
		return k, err
	}
	sealed, err := contracts.DecodeSealedKey(ret)
	if err != nil {
		return k, err
	}
	if len(sealed) == 0 {
		c.mu.Lock()
		if len(c.missing) >= KnownTopics {
			clear(c.missing)
		}
		c.missing[name] = time.Now()
		c.mu.Unlock()
		return k, none
	}
	k, maker, err := c.cfg.SealKey.Open(sealed, seal.Context{Chain: c.genesis, Topic: t.ID, Epoch: epoch, Reader: c.me()})
	if err != nil {
		return k, err
	}
	if !c.mayVouch(t, maker) {
		return seal.Key{}, errors.Join(none, &VoucherError{Topic: t.Name, Epoch: epoch, Maker: maker, Owner: t.Owner})
	}
	return k, nil
}

// mayVouch tells whether sealed keys of a topic may come from an account.
func (c *chain) mayVouch(t gate.Topic, maker common.Address) bool {
	tenant, _, _ := strings.Cut(t.Name, ".")
	if owner, pinned := c.cfg.Owners[tenant]; pinned {
		return maker == owner
	}
	return maker == t.Owner
}

// Token is gate.Tokens.
func (c *chain) Token(ctx context.Context) (string, time.Time, error) {
	c.mu.Lock()
	t := c.tok
	c.mu.Unlock()
	if t != nil && time.Until(t.ExpiresAt()) > TokenLife*3/4 {
		return t.String(), t.ExpiresAt(), nil
	}
	t, err := c.newToken(ctx, time.Now(), TokenLife, token.Data)
	if err != nil {
		return "", time.Time{}, err
	}
	c.mu.Lock()
	c.tok = t
	c.mu.Unlock()
	return t.String(), t.ExpiresAt(), nil
}

func (c *chain) newToken(ctx context.Context, now time.Time, life time.Duration, scope uint8) (*token.Token, error) {
	if c.cfg.Account == nil {
		return nil, ErrNoAccount
	}
	t := token.New(c.id, c.me(), now, life, scope)
	t.Certificate = c.cfg.Certificate
	sig, err := c.cfg.Account.SignMessage(ctx, t.Message())
	if err != nil {
		return nil, fmt.Errorf("signing a token: %w", err)
	}
	if err := t.SetSignature(sig); err != nil {
		return nil, fmt.Errorf("signing a token: %w", err)
	}
	if err := t.Verify(now, c.id); err != nil {
		return nil, err
	}
	return t, nil
}

// isBroker tells whether an account is a broker's, of those that ever registered.
func (c *chain) isBroker(ctx context.Context, a common.Address) (bool, error) {
	c.mu.Lock()
	b := c.brokers
	c.mu.Unlock()
	has := func() bool {
		for _, x := range b.list {
			if x.Account == a {
				return true
			}
		}
		return false
	}
	if has() {
		return true, nil
	}
	if time.Since(b.at) < TopicFresh {
		return false, nil
	}
	list, err := c.allBrokers(ctx)
	if err != nil {
		return false, err
	}
	b = knownBrokers{list, time.Now()}
	c.mu.Lock()
	c.brokers = b
	c.mu.Unlock()
	return has(), nil
}

func (c *chain) allBrokers(ctx context.Context) ([]contracts.Broker, error) {
	ret, err := c.view(ctx, contracts.BrokersCall())
	if err != nil {
		return nil, err
	}
	return contracts.DecodeBrokers(ret)
}

// newestCheckpoint is a topic's newest checkpoint; number 0: none.
func (c *chain) newestCheckpoint(ctx context.Context, topic common.Hash) (contracts.CheckpointInfo, error) {
	c.mu.Lock()
	m, ok := c.marks[topic]
	c.mu.Unlock()
	if ok && time.Since(m.at) < CheckpointFresh {
		return m.info, nil
	}
	ret, err := c.view(ctx, contracts.CheckpointCall(topic))
	if err != nil {
		return contracts.CheckpointInfo{}, err
	}
	info, err := contracts.DecodeCheckpoint(ret)
	if err != nil {
		return info, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.marks) >= KnownTopics {
		clear(c.marks)
	}
	c.marks[topic] = mark{info, time.Now()}
	return info, nil
}
