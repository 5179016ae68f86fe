package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/ethereum/go-ethereum/common"
	gethrpc "github.com/ethereum/go-ethereum/rpc"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/bornode/bornode/genesis"
	"github.com/bornode/bornode/pubsub/gate"
	"github.com/bornode/bornode/pubsub/proof"
	"github.com/bornode/bornode/pubsub/seal"
	"github.com/bornode/bornode/pubsub/token"
)

// Mode is how much of what is fetched is checked against the chain.
type Mode = gate.Mode

// The modes; Follow is the default.
const (
	Follow = gate.Follow // deliver at once, check every checkpoint when it comes
	Proved = gate.Proved // deliver only what a checkpoint binds
	Off    = gate.Off    // trust the brokers
)

// Config of a Client.
type Config struct {
	// Brokers are addresses (host:port) of some brokers; the others are learned from them.
	Brokers []string
	// Node is the JSON-RPC address of a node: http, ws or the path of its socket.
	Node string
	// Provers are JSON-RPC addresses of more nodes. Proofs of a topic come from its brokers alone: Node is asked first, then
	// these. All of them are also asked what they say of a checkpoint that one of them shows (DisputedError).
	Provers []string
	// Witnesses is how many of Node and Provers must have found a checkpoint to be what their own logs give before it proves
	// anything. 0 and 1: whoever gives the proof. With one more than there may be liars among them, a checkpoint that the
	// liars made up proves nothing; as many honest brokers of the topic must answer.
	Witnesses int
	// Genesis is the genesis file of the network, the root of all trust. It may be nil with Off only: then the node is
	// believed.
	Genesis *genesis.Genesis
	// Account is who the client is. Nil: the client can only look things up.
	Account Signer
	// Certificate makes Account a pseudonym: the auditor's word for it.
	Certificate *token.Certificate
	// SealKey opens the keys of encrypted topics that were sealed to Account.
	SealKey *seal.Identity
	// Owners are accounts whose sealed keys are taken, by tenant, whatever the node says of a topic's owner. A tenant
	// that is not named: the owner is who the node says.
	Owners map[string]common.Address
	// Encrypt names topics that are encrypted whatever the node says of them: names, prefixes that end with a dot
	// ("acme."), or EncryptAll. Nothing of them is sent or taken in clear.
	Encrypt []string
	// CA is the PEM file with the authority of the brokers' certificates; TLS is for all else and comes before CA. With
	// neither, brokers are talked to in clear, which is done on this machine alone.
	CA  string
	TLS *tls.Config
	// Mode is Follow if it is not set.
	Mode Mode
	Log  *zap.Logger // nil: silent
	// Metrics is where figures of Engine are registered; producers and consumers have none. It may be nil.
	Metrics prometheus.Registerer
}

// EncryptAll in Config.Encrypt stands for all topics.
const EncryptAll = "*"

// encrypts tells whether a topic is one of Config.Encrypt.
func (c *Config) encrypts(topic string) bool {
	for _, x := range c.Encrypt {
		if x == EncryptAll || x == topic || strings.HasSuffix(x, ".") && strings.HasPrefix(topic, x) {
			return true
		}
	}
	return false
}

// Client is one account's view of a network. It is safe for concurrent use.
type Client struct {
	cfg   Config
	tls   *tls.Config
	rpc   *gethrpc.Client
	chain *chain
	trust *proof.Trust // nil: without a genesis file
	log   *zap.Logger

	mu      sync.Mutex
	open    map[interface{ Close() }]bool
	provers map[string]*gethrpc.Client
	closed  bool
}

// Open connects to the node and makes sure that it is of the genesis file's network. ctx bounds this alone.
func Open(ctx context.Context, cfg Config) (*Client, error) {
	if cfg.Log == nil {
		cfg.Log = zap.NewNop()
	}
	switch {
	case cfg.Node == "":
		return nil, errors.New("no node: give Config.Node, the JSON-RPC address of one")
	case cfg.Genesis == nil && cfg.Mode != Off:
		return nil, errors.New("no genesis file: proofs begin there; give Config.Genesis, or set Config.Mode to Off to believe the node and the brokers")
	case cfg.Mode > Off:
		return nil, fmt.Errorf("unknown mode %d of verification", cfg.Mode)
	case cfg.Witnesses < 0 || cfg.Witnesses > 1+len(cfg.Provers):
		return nil, fmt.Errorf("%d witnesses are asked for, and %d nodes are named: name more in Config.Provers", cfg.Witnesses, 1+len(cfg.Provers))
	case cfg.Certificate != nil && (cfg.Account == nil || cfg.Certificate.Pseudonym != cfg.Account.Address()):
		return nil, fmt.Errorf("the certificate is for pseudonym %s: give its key as Config.Account", cfg.Certificate.Pseudonym)
	}
	c := &Client{cfg: cfg, log: cfg.Log, open: map[interface{ Close() }]bool{}, provers: map[string]*gethrpc.Client{}}
	var err error
	if c.tls, err = clientTLS(&cfg); err != nil {
		return nil, err
	}
	if cfg.Genesis != nil {
		if c.trust, err = proof.TrustGenesis(cfg.Genesis); err != nil {
			return nil, fmt.Errorf("the genesis file: %w", err)
		}
	}
	if c.rpc, err = gethrpc.DialOptions(ctx, cfg.Node, gethrpc.WithWebsocketMessageSizeLimit(AnswerBytes)); err != nil {
		return nil, fmt.Errorf("connecting to node %s: %w", cfg.Node, err)
	}
	c.chain = newChain(c.rpc, &cfg)
	if err := c.chain.identify(ctx, c.trust); err != nil {
		c.rpc.Close()
		return nil, err
	}
	return c, nil
}

func clientTLS(cfg *Config) (*tls.Config, error) {
	if cfg.TLS != nil || cfg.CA == "" {
		return cfg.TLS, nil
	}
	pem, err := os.ReadFile(cfg.CA)
	if err != nil {
		return nil, fmt.Errorf("reading the brokers' CA: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("the brokers' CA: no certificate in %s", cfg.CA)
	}
	return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS13}, nil
}

// Chain is the hash of block 0, and ChainID the number in transactions and tokens.
func (c *Client) Chain() common.Hash { return c.chain.genesis }

// ChainID is the number in transactions and tokens.
func (c *Client) ChainID() uint64 { return c.chain.id }

// Account is who the client is; the zero address when it has no account.
func (c *Client) Account() common.Address { return c.chain.me() }

// Engine makes an engine with the client's settings, for a proxy; failed is gate.Config.Failed. The caller closes it.
func (c *Client) Engine(failed func(topic string, partition int32, err error)) (*gate.Engine, error) {
	return c.engine(failed, nil, c.cfg.Metrics)
}

// engine makes one; observe is told of receipts that were found good.
func (c *Client) engine(failed func(string, int32, error), observe func(receipt), figures prometheus.Registerer) (*gate.Engine, error) {
	cfg := gate.Config{Chain: c.chain.genesis, Topics: c.chain, Keys: c.chain, TLS: c.tls, Mode: c.cfg.Mode, Failed: failed, Log: c.log,
		Encrypt: c.cfg.encrypts, Metrics: figures}
	if c.cfg.Account != nil {
		cfg.Tokens = c.chain
	}
	if c.cfg.Mode != Off {
		cfg.Proofs = newProofs(c)
		cfg.Receipts = &receipts{c: c, observe: observe}
	}
	return gate.New(cfg)
}

// hold has x closed with the client.
func (c *Client) hold(x interface{ Close() }) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return ErrClosed
	}
	c.open[x] = true
	return nil
}

func (c *Client) drop(x interface{ Close() }) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.open, x)
}

// Close ends the client with all its producers and consumers.
func (c *Client) Close() {
	c.mu.Lock()
	c.closed = true
	var all []interface{ Close() }
	for x := range c.open {
		all = append(all, x)
	}
	c.mu.Unlock()
	for _, x := range all {
		x.Close()
	}
	c.mu.Lock()
	for _, p := range c.provers {
		p.Close()
	}
	c.mu.Unlock()
	c.rpc.Close()
}
