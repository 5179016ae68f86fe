package testnet

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/big"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/ethclient"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/bornode/bornode/contracts"
	"github.com/bornode/bornode/pubsub/token"
)

// How long clients try without a right. Before reputation was a tenant's own, 41 s of one client's retries ended its
// account everywhere.
const (
	revokedShort = 75 * time.Second
	revokedLong  = 15 * time.Minute // BORNODE_STORMS=1
)

// debianPython is the interpreter that Debian's packages of Python libraries are for, whatever others are first in PATH.
const debianPython = "/usr/bin/python3"

// keptTenant is the tenant in which the clients keep their rights.
const keptTenant = "kept"

// revoked is a network with one account per client, each with rights in two tenants.
type revoked struct {
	*Network
	eth     *ethclient.Client
	clients []*revokedClient
}

// revokedClient counts what its library could do, by the first word of its lines.
type revokedClient struct {
	name    string
	account Account
	start   func(ctx context.Context, r *revoked, c *revokedClient) error // without end

	mu    sync.Mutex
	lines map[string]int
	last  []string // of what was refused
}

func (c *revokedClient) gone() string  { return DemoTenant + "." + c.name }
func (c *revokedClient) kept() string  { return keptTenant + "." + c.name }
func (c *revokedClient) group() string { return DemoTenant + ".readers-" + c.name }

// say takes a line: "gone", "kept" or "refused ...".
func (c *revokedClient) say(line string) {
	word, _, _ := strings.Cut(line, " ")
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lines[word]++
	if word != "gone" && word != "kept" {
		if c.last = append(c.last, line); len(c.last) > 20 {
			c.last = c.last[1:]
		}
	}
}

func (c *revokedClient) count(word string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lines[word]
}

func (c *revokedClient) state() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Sprintf("%s: %v\n%s", c.name, c.lines, strings.Join(c.last, "\n"))
}

// Stock clients whose rules in one tenant are revoked go on as they were made to, and stay usable for another tenant all
// the while; where they are refused they keep their accounts, too.
func TestRevokedClients(t *testing.T) {
	t.Parallel() // with one other network: it mostly waits
	r := newRevoked(t)
	lasts := revokedShort
	if os.Getenv("BORNODE_STORMS") != "" {
		lasts = revokedLong
	}
	all := func(what string, ok func(c *revokedClient) bool) {
		t.Helper()
		for _, c := range r.clients {
			soon(t, c.name+" "+what, func() bool { return ok(c) })
		}
	}
	all("uses both tenants", func(c *revokedClient) bool { return c.count("gone") > 0 && c.count("kept") > 0 })
	for _, c := range r.clients {
		r.rules(t, DemoTenant, contracts.RevokeCall, r.goneRules(c))
	}
	began := time.Now()
	all("is refused", func(c *revokedClient) bool { return c.count("refused") > 0 })
	for time.Since(began) < lasts {
		before := map[*revokedClient]int{}
		for _, c := range r.clients {
			before[c] = c.count("kept")
		}
		all("is served in the other tenant", func(c *revokedClient) bool { return c.count("kept") > before[c]+1 })
	}
	for _, c := range r.clients { // a new login, too
		fresh := r.client(t, c.account)
		require.NoError(t, fresh.ProduceSync(t.Context(), &kgo.Record{Topic: c.kept(), Value: []byte("new")}).FirstErr(), c.name)
		fresh.Close()
		t.Log(c.state())
	}
	r.charges(t, time.Since(began))
}

func newRevoked(t *testing.T) *revoked {
	r := &revoked{Network: governed(t, func(s *Spec) {
		s.Brokers = 3
		overTCP(s)
		patientBrokers(s)
		s.Set = append(s.Set, "pubsub.evidence.window=300ms")
	})}
	var err error
	r.eth, err = ethclient.DialContext(t.Context(), r.Nodes[0].HTTP)
	require.NoError(t, err)
	t.Cleanup(r.eth.Close)
	data, err := contracts.SetTenantCall(contracts.Tenant{Name: keptTenant, Owner: r.Accounts[0].Address, BytesPerSecond: 1 << 30, Connections: 1000, Topics: 100, Partitions: 100})
	require.NoError(t, err)
	_, err = r.decide(t.Context(), r.eth, data)
	require.NoError(t, err)
	r.clients = []*revokedClient{
		{name: "librdkafka", start: python("confluent")}, {name: "kcat", start: kcatRevoked}, {name: "franz-go", start: franzRevoked},
		{name: "kafkajs", start: script("node", "revoked.mjs")}, {name: "kafka-python", start: python("kafka-python")},
	}
	admin := kadm.NewClient(kafkaClient(t, r.Network))
	for i, c := range r.clients {
		c.account, c.lines = r.Accounts[i+1], map[string]int{}
		for _, topic := range []string{c.gone(), c.kept()} {
			soon(t, topic+" is made", func() bool { return topicMade(t.Context(), admin, 1, topic) })
		}
		knownToBrokers(t, r.Network, c.gone(), c.kept())
		r.rules(t, DemoTenant, contracts.GrantCall, r.goneRules(c))
		r.rules(t, keptTenant, contracts.GrantCall, []contracts.Acl{
			rule(contracts.ResourceTopic, c.kept(), c.account.Address, contracts.OperationWrite, contracts.PermissionAllow)})
	}
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	t.Cleanup(func() { stop(); running.Wait() })
	for _, c := range r.clients {
		running.Go(func() {
			if err := c.start(ctx, r, c); err != nil && ctx.Err() == nil {
				t.Errorf("%s ended: %v\n%s", c.name, err, c.state())
			}
		})
	}
	return r
}

// goneRules are those that a client loses.
func (r *revoked) goneRules(c *revokedClient) []contracts.Acl {
	on := func(resource uint8, name string, op uint8) contracts.Acl {
		return rule(resource, name, c.account.Address, op, contracts.PermissionAllow)
	}
	return []contracts.Acl{on(contracts.ResourceTopic, c.gone(), contracts.OperationWrite), on(contracts.ResourceTopic, c.gone(), contracts.OperationRead),
		on(contracts.ResourceGroup, c.group(), contracts.OperationRead)}
}

// rules has the owner of both tenants grant or revoke.
func (r *revoked) rules(t *testing.T, tenant string, call func(string, []contracts.Acl) ([]byte, error), list []contracts.Acl) {
	t.Helper()
	data, err := call(tenant, list)
	require.NoError(t, err)
	_, err = r.transact(t.Context(), r.eth, funded{r.Accounts[0]}, contracts.TopicsAddress, nil, data)
	require.NoError(t, err)
}

// charges checks what the ledger took from the clients' accounts: one refusal of a kind in a minute, in one tenant, and
// that none of them is blacklisted.
func (r *revoked) charges(t *testing.T, lasted time.Duration) {
	t.Helper()
	logs, err := r.eth.FilterLogs(t.Context(), ethereum.FilterQuery{FromBlock: new(big.Int), Addresses: []common.Address{contracts.TopicsAddress},
		Topics: [][]common.Hash{{contracts.EventStandingChanged}}})
	require.NoError(t, err)
	least := map[common.Address]int{}
	type minute struct {
		account common.Address
		at      uint64
	}
	lost := map[minute]int{}
	before := map[common.Address]*contracts.StandingChanged{}
	for i := range logs {
		e, err := contracts.DecodeTopicsEvent(&logs[i])
		require.NoError(t, err)
		s := e.(*contracts.StandingChanged)
		require.Equal(t, [32]byte(contracts.TenantID(DemoTenant)), s.Tenant, "in the other tenant nothing was lost")
		had := contracts.Reputation
		if b := before[s.Account]; b != nil {
			had -= int(contracts.RemainingLoss(contracts.Reputation-b.Reputation, b.Time, s.Time))
		}
		before[s.Account] = s
		lost[minute{s.Account, s.Time / 60}] += max(had-int(s.Reputation), 0)
		if l, ok := least[s.Account]; !ok || int(s.Reputation) < l {
			least[s.Account] = int(s.Reputation)
		}
	}
	const kinds = 4 // Read, Write, Describe, and one that a library may add
	for m, points := range lost {
		require.LessOrEqual(t, points, kinds*contracts.RefusedCosts, "%s in minute %d", m.account, m.at)
	}
	for _, c := range r.clients {
		l, ok := least[c.account.Address]
		require.True(t, ok, "%s was refused, and nothing was charged", c.name)
		require.GreaterOrEqual(t, l, contracts.MinReputation, c.name)
		t.Logf("%s: reputation in %s went down to %d in %s", c.name, DemoTenant, l, lasted.Round(time.Second))
	}
}

// client is franz-go with its own settings.
func (r *revoked) client(t *testing.T, a Account, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	auth := plain.Auth{User: a.Address.Hex(), Pass: tokenOf(t, r.Network, a, token.Data)}
	c, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(r.Brokers()...), kgo.SASL(auth.AsMechanism()), kgo.DialTLSConfig(brokersTLS(t, r.Network))}, opts...)...)
	require.NoError(t, err)
	return c
}

// runProgram runs a program until it ends, takes its lines, and gives how it ended.
func (c *revokedClient) runProgram(cmd *exec.Cmd) error {
	out, in := io.Pipe()
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = "clients", in, in, time.Second
	var reading sync.WaitGroup
	reading.Go(func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			c.say(lines.Text())
		}
		_, _ = io.Copy(io.Discard, out)
	})
	err := cmd.Run()
	_ = in.Close()
	reading.Wait()
	return err
}

// script runs one of the scripts in testnet/clients, which never end.
func script(program string, args ...string) func(context.Context, *revoked, *revokedClient) error {
	return func(ctx context.Context, r *revoked, c *revokedClient) error {
		tk := token.New(r.ChainID, c.account.Address, time.Now(), time.Hour, token.Data)
		if err := tk.Sign(c.account.Private()); err != nil {
			return err
		}
		cmd := exec.CommandContext(ctx, program, append(args, strings.Join(r.Brokers(), ","), r.TopicsCA(), c.account.Address.Hex(), c.gone(), c.kept(), c.group())...)
		cmd.Env = append(os.Environ(), "TOKEN="+tk.String())
		return c.runProgram(cmd)
	}
}

func python(library string) func(context.Context, *revoked, *revokedClient) error {
	return script(debianPython, "revoked.py", library)
}

// kcatRevoked runs kcat as a shell's loop would: one producer and one consumer that are started again when they end, and
// one producer per record where the client keeps its right.
func kcatRevoked(ctx context.Context, r *revoked, c *revokedClient) error {
	tk := token.New(r.ChainID, c.account.Address, time.Now(), time.Hour, token.Data)
	if err := tk.Sign(c.account.Private()); err != nil {
		return err
	}
	kcat := func(args ...string) *exec.Cmd {
		return exec.CommandContext(ctx, "kcat", append([]string{"-b", strings.Join(r.Brokers(), ","), "-X", "security.protocol=SASL_SSL",
			"-X", "ssl.ca.location=" + r.TopicsCA(), "-X", "sasl.mechanism=PLAIN", "-X", "sasl.username=" + c.account.Address.Hex(),
			"-X", "sasl.password=" + tk.String()}, args...)...)
	}
	var running sync.WaitGroup
	forever := func(run func() error, word string) {
		running.Go(func() {
			tick := time.NewTicker(200 * time.Millisecond)
			defer tick.Stop()
			for ctx.Err() == nil {
				if err := run(); err != nil {
					c.say("refused kcat " + err.Error())
				} else if word != "" {
					c.say(word)
				}
				<-tick.C
			}
		})
	}
	produce := func(topic string) func() error {
		return func() error {
			cmd := kcat("-P", "-t", topic)
			cmd.Stdin = strings.NewReader("x\n")
			return c.runProgram(cmd)
		}
	}
	forever(produce(c.kept()), "kept")
	forever(produce(c.gone()), "gone")
	forever(func() error { // one producer that stays, as long as it can
		cmd := kcat("-P", "-t", c.gone())
		lines, write := io.Pipe()
		cmd.Stdin = lines
		done := make(chan struct{})
		go func() {
			defer close(done)
			for tick := time.NewTicker(200 * time.Millisecond); ; <-tick.C {
				if _, err := io.WriteString(write, "x\n"); err != nil {
					return
				}
			}
		}()
		err := c.runProgram(cmd)
		_ = lines.Close()
		<-done
		return err
	}, "")
	forever(func() error { return c.runProgram(kcat("-q", "-f", "read %o\n", "-G", c.group(), c.gone())) }, "")
	running.Wait()
	return nil
}

// franzRevoked runs franz-go: two producers and a member of a group.
func franzRevoked(ctx context.Context, r *revoked, c *revokedClient) error {
	tk := token.New(r.ChainID, c.account.Address, time.Now(), time.Hour, token.Data)
	if err := tk.Sign(c.account.Private()); err != nil {
		return err
	}
	tls, err := trustTopicsCA(r.Network)
	if err != nil {
		return err
	}
	open := func(opts ...kgo.Opt) (*kgo.Client, error) {
		auth := plain.Auth{User: c.account.Address.Hex(), Pass: tk.String()}
		return kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(r.Brokers()...), kgo.SASL(auth.AsMechanism()), kgo.DialTLSConfig(tls)}, opts...)...)
	}
	var running sync.WaitGroup
	for topic, word := range map[string]string{c.gone(): "gone", c.kept(): "kept"} {
		p, err := open(kgo.DefaultProduceTopic(topic))
		if err != nil {
			return err
		}
		running.Go(func() {
			defer p.Close()
			for tick := time.NewTicker(200 * time.Millisecond); ctx.Err() == nil; <-tick.C {
				if err := p.ProduceSync(ctx, &kgo.Record{Value: []byte("x")}).FirstErr(); err != nil {
					c.say("refused " + topic + " " + err.Error())
				} else {
					c.say(word)
				}
			}
		})
	}
	reader, err := open(kgo.ConsumerGroup(c.group()), kgo.ConsumeTopics(c.gone()))
	if err != nil {
		return err
	}
	defer reader.Close()
	for ctx.Err() == nil {
		reader.PollFetches(ctx).EachError(func(topic string, _ int32, err error) { c.say("refused " + topic + " " + err.Error()) })
	}
	running.Wait()
	return nil
}
