package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/x509"
	"errors"
	"io"
	"math/big"
	"os"
	"strings"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/twmb/franz-go/pkg/kerr"
	"go.uber.org/zap"

	"github.com/bornode/bornode/genesis"
	"github.com/bornode/bornode/pubsub/client"
	"github.com/bornode/bornode/pubsub/seal"
	"github.com/bornode/bornode/pubsub/token"
)

// topicClientCommands are those that talk to brokers, or make what clients of brokers need.
func topicClientCommands() []*cobra.Command {
	return []*cobra.Command{topicTokenCommand(), topicProxyCommand(), topicProduceCommand(), topicConsumeCommand(), topicKeyCommand(), topicPseudonymCommand()}
}

// brokerFlags say how brokers are reached and what is believed of them.
type brokerFlags struct {
	brokers     []string
	ca          string
	genesis     string
	verify      string
	sealKey     string
	certificate string
	provers     []string
	witnesses   int
	encrypt     []string
	owners      []string
	figures     *prometheus.Registry // of a proxy; nil: none
	plain       bool
}

func (q *brokerFlags) add(f *pflag.FlagSet) {
	f.StringSliceVar(&q.brokers, "brokers", nil, "addresses of brokers (host:port,...); empty: those on the chain")
	f.StringVar(&q.ca, "ca", "", "PEM file with the authority of the brokers' certificates; empty: the system's authorities")
	f.BoolVar(&q.plain, "plain", false, "talk to brokers on this machine without TLS")
	f.StringVar(&q.genesis, "genesis", "", "genesis file of the network, which all proofs go back to")
	f.StringVar(&q.verify, "verify", "follow", "follow (deliver at once, check when a checkpoint comes), proved (deliver only what is proved) or off")
	f.StringSliceVar(&q.provers, "provers", nil, "JSON-RPC addresses of more nodes, best of all brokers of the topic: they have proofs, and are asked whether they dispute what others prove")
	f.IntVar(&q.witnesses, "witnesses", 1, "how many of the nodes of --node and --provers must have found a checkpoint to be what their own logs give before it proves anything")
	f.StringSliceVar(&q.encrypt, "encrypt", nil, "topics that are encrypted whatever the node says: names, prefixes that end with a dot, or * for all")
	f.StringSliceVar(&q.owners, "owner", nil, "whose sealed keys are taken, by tenant (acme=0x...), whatever the node says of topics' owners")
	q.keys(f)
}

func (q *brokerFlags) keys(f *pflag.FlagSet) {
	f.StringVar(&q.sealKey, "seal-key", "", "file with the sealing key of the account (borcli topic register), for encrypted topics")
	f.StringVar(&q.certificate, "certificate", "", "file with the certificate of a pseudonym; --key is the pseudonym's key then")
}

// verifyModes are what --verify takes.
var verifyModes = map[string]client.Mode{"follow": client.Follow, "proved": client.Proved, "off": client.Off}

// open makes the client. An account is needed; its key stays in memory until the end.
func (q *brokerFlags) open(ctx context.Context, a *app, log *zap.Logger) (*client.Client, error) {
	mode, ok := verifyModes[q.verify]
	if !ok {
		return nil, fail(exitUsage, "--verify is %q: use follow, proved or off", q.verify)
	}
	cfg := client.Config{Brokers: q.brokers, Node: a.Node, Provers: q.provers, Witnesses: q.witnesses, CA: q.ca, Mode: mode, Log: log}
	cfg.Encrypt = q.encrypt
	if q.figures != nil {
		cfg.Metrics = q.figures
	}
	if q.witnesses < 0 || q.witnesses > 1+len(q.provers) {
		return nil, fail(exitUsage, "--witnesses is %d, and %d nodes are named: name more by --provers", q.witnesses, 1+len(q.provers))
	}
	var err error
	if cfg.Owners, err = parseOwners(q.owners); err != nil {
		return nil, err
	}
	if q.genesis != "" {
		if cfg.Genesis, err = genesis.Load(q.genesis); err != nil {
			return nil, fail(exitUsage, "--genesis: %v", err)
		}
	} else if mode != client.Off {
		return nil, fail(exitUsage, "proofs go back to the genesis file: name it by --genesis, or say --verify off to believe the node and the brokers")
	}
	if err := q.identity(ctx, a, &cfg); err != nil {
		return nil, err
	}
	if !q.plain && cfg.CA == "" {
		cfg.TLS = systemTLS()
	}
	if len(cfg.Brokers) == 0 {
		if cfg.Brokers, err = a.liveBrokers(ctx); err != nil {
			return nil, err
		}
	}
	c, err := client.Open(ctx, cfg)
	if err != nil {
		return nil, explainClient(err)
	}
	if a.ChainID != 0 && a.ChainID != c.ChainID() {
		c.Close()
		return nil, fail(exitUsage, "the node at %s is of chain %d, --chain-id asks for %d: use another node, or correct the setting", redacted(a.Node), c.ChainID(), a.ChainID)
	}
	return c, nil
}

// parseOwners reads tenant=account arguments.
func parseOwners(list []string) (map[string]common.Address, error) {
	owners := map[string]common.Address{}
	for _, x := range list {
		tenant, text, _ := strings.Cut(x, "=")
		who, err := parseAddress(text)
		if err != nil || tenant == "" {
			return nil, fail(exitUsage, "--owner is %q: write it as tenant=account", x)
		}
		owners[tenant] = who
	}
	return owners, nil
}

// identity reads who the client is.
func (q *brokerFlags) identity(ctx context.Context, a *app, cfg *client.Config) (err error) {
	if cfg.Account, err = a.lastingSigner(ctx); err != nil {
		return err
	}
	if q.certificate != "" {
		if cfg.Certificate, err = readCertificate(q.certificate); err != nil {
			return err
		}
	}
	if q.sealKey != "" {
		if cfg.SealKey, err = seal.LoadIdentity(q.sealKey); err != nil {
			return fail(exitUsage, "--seal-key: %v", err)
		}
	}
	return nil
}

// readSmall reads a file of little text.
func readSmall(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxConfigBytes))
	return strings.TrimSpace(string(b)), err
}

func readCertificate(path string) (*token.Certificate, error) {
	text, err := readSmall(path)
	if err != nil {
		return nil, fail(exitUsage, "--certificate: %v", err)
	}
	c, err := token.ParseCertificate(text)
	if err != nil {
		return nil, fail(exitUsage, "%s holds no certificate of a pseudonym: %v", path, err)
	}
	return c, nil
}

// liveBrokers are the addresses that brokers registered on the chain.
func (a *app) liveBrokers(ctx context.Context) (list []string, err error) {
	all, err := a.brokers(ctx)
	if err != nil {
		return nil, err
	}
	for _, b := range all {
		if b.Live {
			list = append(list, b.Address)
		}
	}
	if len(list) == 0 {
		return nil, fail(exitNotFound, "the chain knows no broker: name some by --brokers")
	}
	return list, nil
}

// walletSigner is an account of the wallet, as a client's.
type walletSigner struct {
	a   *app
	who account
}

func (s *walletSigner) Address() common.Address { return s.who.address() }

func (s *walletSigner) SignMessage(ctx context.Context, message []byte) ([]byte, error) {
	var sig hexutil.Bytes
	err := s.a.askWallet(ctx, &sig, "personal_sign", hexutil.Bytes(message), s.who.address())
	return sig, err
}

func (s *walletSigner) SignTransaction(ctx context.Context, tx *types.Transaction, chainID *big.Int) (*types.Transaction, error) {
	return s.who.sign(ctx, tx, chainID)
}

// lastingSigner is the account that signs as often as a client needs. A key file's key is kept until the program ends.
func (a *app) lastingSigner(ctx context.Context) (client.Signer, error) {
	who, err := a.account(ctx)
	if err != nil {
		return nil, err
	}
	k, ok := who.(*keyFile)
	if !ok {
		return &walletSigner{a, who}, nil
	}
	var kept *ecdsa.PrivateKey
	err = k.use(ctx, func(key *ecdsa.PrivateKey) (err error) {
		b := crypto.FromECDSA(key)
		defer clear(b)
		kept, err = crypto.ToECDSA(b)
		return err
	})
	if err != nil {
		return nil, err
	}
	return client.KeySigner(kept), nil
}

// oneLine is the text of an error that may be of several.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", ": ") }

// leaderChecker is a producer or a consumer.
type leaderChecker interface {
	CheckLeaders(ctx context.Context, topic string) error
}

// leaderless is the error that names partitions of a topic without a leader; nil if each has one, or nobody can be asked.
func leaderless(ctx context.Context, c leaderChecker, topic string) error {
	var none *client.NoLeaderError
	if err := c.CheckLeaders(ctx, topic); errors.As(err, &none) {
		return none
	}
	return nil
}

// explainClient gives errors of the client library their exit codes.
func explainClient(err error) error {
	var tampered *client.TamperError
	var none *client.NoKeyError
	var down *client.DowngradeError
	var disputed *client.DisputedError
	var unproved *client.UnprovedError
	var unknown x509.UnknownAuthorityError
	var unled *client.NoLeaderError
	var done *exitError
	switch {
	case err == nil || errors.As(err, &done):
		return err
	case errors.As(err, &unled): // its cause may be one of those below
		return fail(exitUnreachable, "%s: nothing of it can be read or written; borcli topic describe %s names its replicas: have the brokers of a majority of them started, with their disks (docs/operations.md, Brokers)", oneLine(err), unled.Topic)
	case errors.As(err, &tampered), errors.As(err, &disputed), errors.As(err, &unproved):
		return fail(exitVerify, "%v", err)
	case errors.Is(err, client.ErrWrongChain):
		return fail(exitVerify, "%v: use the genesis file of the node's network", err)
	case errors.Is(err, client.ErrNoSealKey):
		return fail(exitRefused, "%s; name your sealing key by --seal-key (borcli topic register makes one)", oneLine(err))
	case errors.As(err, &none) && none.Epoch == 0:
		return fail(exitRefused, "%s: borcli topic key next", oneLine(err))
	case errors.Is(err, client.ErrNoReader):
		return fail(exitRefused, "%s: borcli topic register", oneLine(err))
	case errors.As(err, &none), errors.As(err, &down), errors.Is(err, client.ErrLogin), errors.Is(err, client.ErrToken), errors.Is(err, client.ErrNotAuditor), errors.Is(err, client.ErrVoucher):
		return fail(exitRefused, "%s", oneLine(err))
	case errors.Is(err, client.ErrReverted):
		return fail(exitReverted, "%v", err)
	case errors.Is(err, client.ErrUnknownTopic):
		return fail(exitNotFound, "%v; borcli topic list shows them", err)
	case errors.Is(err, kerr.UnknownTopicOrPartition):
		return fail(exitNotFound, "%v; borcli topic list shows the topics there are", err)
	case errors.Is(err, kerr.TopicAuthorizationFailed), errors.Is(err, kerr.GroupAuthorizationFailed):
		return fail(exitRefused, "%v; borcli topic acls shows who may do what, and the owner of the topic or tenant says so by borcli topic grant", err)
	case errors.As(err, &unknown):
		return fail(exitUnreachable, "%v; name the authority of the brokers' certificates by --ca", err)
	case errors.Is(err, client.ErrUnreachable), errors.Is(err, client.ErrNotJoined):
		return fail(exitUnreachable, "%v; borcli topic brokers shows which brokers live, --brokers names others", err)
	case errors.Is(err, context.DeadlineExceeded):
		return fail(exitTimeout, "%v", err)
	case errors.Is(err, context.Canceled):
		return fail(exitOther, "interrupted")
	}
	return fail(exitOther, "%v", err)
}
