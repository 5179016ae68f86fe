package testnet

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Exit codes of borcli; exitRefused is in borcli_test.go.
const (
	exitUsage       = 2
	exitUnreachable = 3
	exitNotFound    = 7
	exitVerify      = 9
)

// topicUser uses borcli's topic commands with a key, as a process each.
type topicUser struct {
	*testing.T
	n       *Network
	dir     string
	key     string
	account string
	extra   []string
}

func (u topicUser) command(ctx context.Context, args ...string) *exec.Cmd {
	u.Helper()
	file, err := borcli()
	require.NoError(u, err)
	cmd := exec.CommandContext(ctx, file, append(append([]string{"topic"}, args...), append([]string{"--node", u.n.Nodes[0].HTTP, "--key", u.key, "--yes"}, u.extra...)...)...)
	cmd.Env = append(os.Environ(), "HOME="+u.dir)
	return cmd
}

// run gives what a command writes, and its exit code.
func (u topicUser) run(input string, args ...string) (out, problem string, code int) {
	u.Helper()
	ctx, cancel := context.WithTimeout(u.Context(), patience)
	defer cancel()
	cmd := u.command(ctx, args...)
	cmd.Stdin = strings.NewReader(input)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	var failed *exec.ExitError
	if err := cmd.Run(); errors.As(err, &failed) {
		code = failed.ExitCode()
	} else {
		require.NoError(u, err)
	}
	return stdout.String(), stderr.String(), code
}

func (u topicUser) does(args ...string) string {
	u.Helper()
	out, problem, code := u.run("", args...)
	require.Zero(u, code, "borcli topic %q: %s", args, problem)
	return out
}

// fails runs a command that must end with this code, and a last line with these words.
func (u topicUser) fails(code int, words string, args ...string) {
	u.Helper()
	_, problem, got := u.run("", args...)
	require.Equal(u, code, got, "borcli topic %q: %s", args, problem)
	lines := strings.Split(strings.TrimSpace(problem), "\n")
	require.Contains(u, lines[len(lines)-1], words, "%q", args)
	require.True(u, strings.HasPrefix(lines[len(lines)-1], "borcli: "), "the last line is the sentence: %s", problem)
}

// with adds arguments to each command.
func (u topicUser) with(extra ...string) topicUser {
	u.extra = append(append([]string(nil), u.extra...), extra...)
	return u
}

// brokers talks to the network's brokers.
func (u topicUser) brokers() topicUser {
	return u.with("--genesis", filepath.Join(u.n.Dir, "genesis.json"), "--ca", u.n.TopicsCA())
}

func newTopicUser(t *testing.T, n *Network, a Account) topicUser {
	dir := t.TempDir()
	key := filepath.Join(dir, "account.key")
	require.NoError(t, os.WriteFile(key, []byte(a.Key+"\n"), 0o600))
	return topicUser{T: t, n: n, dir: dir, key: key, account: a.Address.Hex()}
}

// The commands that talk to brokers or make what their clients need, against a network of one node.
func TestTopicClientCommands(t *testing.T) {
	_, err := borcli()
	require.NoError(t, err)
	n := upNetwork(t, func(s *Spec) { s.Producers, s.Brokers, s.Direct = 1, 1, true })
	owner, reader := newTopicUser(t, n, n.Accounts[0]), newTopicUser(t, n, n.Accounts[1])
	for _, args := range [][]string{{"demo.orders", "--partitions", "2"}, {"demo.secret", "--encrypted"}, {"demo.votes", "--auditor", owner.account}} {
		owner.does(append(append([]string{"create"}, args...), "--replicas", "1", "--wait", "final")...)
	}
	t.Run("produce and consume", func(t *testing.T) { produceAndConsume(owner.on(t), reader.on(t)) })
	t.Run("unreachable", func(t *testing.T) { unreachableBrokers(owner.on(t)) })
	t.Run("token", func(t *testing.T) { tokenCommand(owner.on(t)) })
	t.Run("key", func(t *testing.T) { keyCommands(owner.on(t), reader.on(t)) })
	t.Run("pseudonym", func(t *testing.T) { pseudonymCommands(owner.on(t), reader.on(t)) })
	t.Run("proxy", func(t *testing.T) { proxyCommand(owner.on(t), reader.on(t)) })
}

func (u topicUser) on(t *testing.T) topicUser {
	u.T = t
	return u
}

func produceAndConsume(owner, reader topicUser) {
	o, r := owner.brokers(), reader.brokers()
	out, problem, code := o.run("one\ntwo\r\nthree\n", "produce", "demo.orders", "--record-key", "k", "--json")
	require.Zero(o, code, problem)
	var sent struct {
		Offset int64
		Broker string
	}
	require.NoError(o, json.NewDecoder(strings.NewReader(out)).Decode(&sent))
	require.True(o, strings.EqualFold(o.n.Nodes[0].Account.Hex(), sent.Broker), "%s signed", sent.Broker)
	read := func(args ...string) (values []string) {
		out := o.does(append([]string{"consume", "demo.orders", "--json"}, args...)...)
		for d := json.NewDecoder(strings.NewReader(out)); d.More(); {
			var x struct{ Value string }
			require.NoError(o, d.Decode(&x))
			values = append(values, x.Value)
		}
		return values
	}
	all := []string{"one", "two", "three"}
	require.Equal(o, all, read("--count", "3"))
	require.Equal(o, all, read("--count", "3", "--verify", "proved"))
	var first []string
	for range 20 { // a busy machine may take longer than that to join
		if first = append(first, read("--idle", "3s", "--group", "demo.first")...); len(first) > 0 {
			break
		}
	}
	require.Equal(o, all, first)
	require.Empty(o, read("--idle", "2s", "--group", "demo.first"), "the group remembers")

	o.fails(exitNotFound, "borcli topic list", "produce", "demo.nothing", "x", "--timeout", "2m")
	o.fails(exitNotFound, "borcli topic list", "consume", "demo.nothing", "--idle", "2m")
	r.fails(exitRefused, "borcli topic grant", "produce", "demo.orders", "x")
	r.fails(exitRefused, "borcli topic grant", "consume", "demo.orders", "--count", "1")
	owner.does("grant", reader.account, "read", "--topic", "demo.orders", "--wait", "final")
	require.Eventually(o, func() bool {
		out, _, code := r.run("", "consume", "demo.orders", "--count", "1")
		return code == 0 && strings.Contains(out, "one")
	}, patience, 100*time.Millisecond, "a broker follows the rules of final blocks")
	r.fails(exitRefused, "borcli topic grant", "consume", "demo.orders", "--group", "demo.second", "--count", "1")
	r.fails(exitRefused, "borcli topic grant", "produce", "demo.orders", "x")
	owner.fails(exitUsage, "--genesis", "consume", "demo.orders")
	o.fails(exitUsage, "--verify", "consume", "demo.orders", "--verify", "maybe")
	o.fails(exitRefused, "called plain", "produce", "demo.orders", "x", "--encrypt", "demo.")
	other := filepath.Join(owner.dir, "other.json")
	require.NoError(o, os.WriteFile(other, changedGenesis(o), 0o600))
	owner.fails(exitVerify, "genesis file", "consume", "demo.orders", "--count", "1", "--genesis", other, "--plain")
}

// changedGenesis is the genesis file of another network.
func changedGenesis(u topicUser) []byte {
	b, err := os.ReadFile(filepath.Join(u.n.Dir, "genesis.json"))
	require.NoError(u, err)
	var g map[string]json.RawMessage
	require.NoError(u, json.Unmarshal(b, &g))
	var at uint64
	require.NoError(u, json.Unmarshal(g["genesis_time"], &at))
	g["genesis_time"], err = json.Marshal(at + 1)
	require.NoError(u, err)
	b, err = json.Marshal(g)
	require.NoError(u, err)
	return b
}

func unreachableBrokers(owner topicUser) {
	o := owner.brokers().with("--brokers", "127.0.0.1:1", "--timeout", "30s")
	o.fails(exitUnreachable, "connection refused", "produce", "demo.orders", "x")
	o.fails(exitUnreachable, "borcli topic brokers", "consume", "demo.orders", "--idle", "30s")
	wrong := owner.with("--genesis", filepath.Join(owner.n.Dir, "genesis.json"), "--timeout", "30s") // the system's authorities
	wrong.fails(exitUnreachable, "name the authority of the brokers' certificates by --ca", "produce", "demo.orders", "x")
	wrong.fails(exitUnreachable, "unknown authority", "consume", "demo.orders", "--idle", "30s")
}

// kcatWith runs kcat with a password until it fails or is done; it waits for an answer so many seconds.
func kcatWith(u topicUser, password, seconds string) (string, error) {
	path, err := exec.LookPath("kcat")
	require.NoError(u, err, "`make deps` installs kcat")
	ctx, cancel := context.WithTimeout(u.Context(), patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, "-b", u.n.Brokers()[0], "-X", "security.protocol=SASL_SSL", "-X", "ssl.ca.location="+u.n.TopicsCA(),
		"-X", "sasl.mechanism=PLAIN", "-X", "sasl.username="+u.account, "-X", "sasl.password="+password, "-L", "-m", seconds, "-t", "demo.orders").CombinedOutput()
	return string(out), err
}

func tokenCommand(owner topicUser) {
	owner.fails(exitUsage, "up to 24h", "token", "--life", "25h")
	out, err := kcatWith(owner, strings.TrimSpace(owner.does("token")), "120")
	require.NoError(owner, err, out)
	require.Contains(owner, out, `topic "demo.orders" with 2 partitions`)
	short := strings.TrimSpace(owner.does("token", "--life", "1s"))
	require.Eventually(owner, func() bool {
		out, err = kcatWith(owner, short, "3")
		return err != nil && strings.Contains(out, "expired")
	}, patience, 500*time.Millisecond, "%s", out)
}

func keyCommands(owner, reader topicUser) {
	o, r := owner.brokers(), reader.brokers()
	mine, theirs := filepath.Join(owner.dir, "seal.json"), filepath.Join(reader.dir, "seal.json")
	o.fails(exitRefused, "borcli topic key next", "produce", "demo.secret", "x")
	owner.fails(exitRefused, "borcli topic register", "key", "next", "demo.secret")
	owner.does("register", mine, "--wait", "final")
	owner.does("key", "next", "demo.secret", "--wait", "final")
	o.fails(exitRefused, "--seal-key", "produce", "demo.secret", "x")
	o.does("produce", "demo.secret", "first", "--seal-key", mine)
	o.fails(exitRefused, "--seal-key", "consume", "demo.secret", "--count", "1")
	require.Contains(o, o.does("consume", "demo.secret", "--count", "1", "--seal-key", mine, "--encrypt", "*"), "first")
	o.fails(exitRefused, "was not made by the topic's owner", "consume", "demo.secret", "--count", "1", "--seal-key", mine, "--owner", "demo="+reader.account)

	owner.does("grant", reader.account, "read", "--topic", "demo.secret", "--wait", "final")
	owner.fails(exitRefused, "borcli topic register", "key", "give", "demo.secret", reader.account, "--seal-key", mine)
	reader.does("register", theirs, "--wait", "final", "--suite", "x25519")
	r.fails(exitRefused, "no key of epoch 1", "consume", "demo.secret", "--count", "1", "--seal-key", theirs)
	owner.fails(exitUsage, "--seal-key", "key", "give", "demo.secret", reader.account)
	owner.does("key", "give", "demo.secret", reader.account, "--seal-key", mine, "--wait", "final")
	require.Contains(o, r.does("consume", "demo.secret", "--count", "1", "--seal-key", theirs), "first")
	owner.does("key", "next", "demo.secret", "--wait", "final") // without the reader
	o.does("produce", "demo.secret", "second", "--seal-key", mine)
	r.fails(exitRefused, "no key of epoch 2", "consume", "demo.secret", "--count", "2", "--seal-key", theirs)
	owner.does("key", "give", "demo.secret", reader.account, "--seal-key", mine, "--wait", "final")
}

func pseudonymCommands(owner, reader topicUser) {
	key := filepath.Join(reader.dir, "nym.key")
	reader.fails(exitRefused, "has no auditor", "pseudonym", "request", "demo.orders", "--out", key)
	reader.fails(exitUsage, "--out", "pseudonym", "request", "demo.votes")
	request := filepath.Join(reader.dir, "request.txt")
	require.NoError(owner, os.WriteFile(request, []byte(reader.does("pseudonym", "request", "demo.votes", "--out", key, "--rights", "write,describe")), 0o600))
	reader.fails(exitRefused, "the auditor of topic demo.votes is", "pseudonym", "admit", "demo.votes", request)
	admit := func(life string) string {
		file := filepath.Join(reader.dir, life+".cert")
		require.NoError(owner, os.WriteFile(file, []byte(owner.does("pseudonym", "admit", "demo.votes", request, "--rights", "write,describe", "--life", life)), 0o600))
		return file
	}
	nym := reader.brokers()
	nym.key = key
	good := admit("1h")
	require.Contains(owner, nym.does("produce", "demo.votes", "yes", "--certificate", good), "offset 0")
	nym.fails(exitRefused, "borcli topic grant", "consume", "demo.votes", "--count", "1", "--certificate", good)
	nym.fails(exitRefused, "borcli topic grant", "produce", "demo.votes", "x")
	short := admit("1s")
	var problem string
	require.Eventually(owner, func() bool {
		var code int
		_, problem, code = nym.run("", "produce", "demo.votes", "x", "--certificate", short, "--timeout", "10s")
		return code == exitRefused && strings.Contains(problem, "expired")
	}, patience, 200*time.Millisecond, "%s", problem)
	require.NoError(owner, os.WriteFile(request, []byte("bpsr1.nothing"), 0o600))
	owner.fails(exitUsage, "request", "pseudonym", "admit", "demo.votes", request)
}

// An unmodified client reads an encrypted topic in a group through the proxy, which has the keys.
func proxyCommand(owner, reader topicUser) {
	owner.does("grant", reader.account, "read", "--group", "demo.", "--prefix", "--wait", "final")
	p := reader.brokers()
	p.fails(exitUsage, "this machine alone", "proxy", "--listen", "0.0.0.0:0")
	cmd := p.command(p.Context(), "proxy", "--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0", "--seal-key", filepath.Join(reader.dir, "seal.json"), "--json")
	out, err := cmd.StdoutPipe()
	require.NoError(p, err)
	var problem bytes.Buffer
	cmd.Stderr = &problem
	require.NoError(p, cmd.Start())
	defer func() { _ = cmd.Process.Kill() }()
	var told struct{ Listen, Metrics string }
	require.NoError(p, json.NewDecoder(bufio.NewReader(out)).Decode(&told))
	path, err := exec.LookPath("kcat")
	require.NoError(p, err, "`make deps` installs kcat")
	kcat := func(input string, args ...string) string {
		ctx, cancel := context.WithTimeout(p.Context(), patience)
		defer cancel()
		c := exec.CommandContext(ctx, path, append([]string{"-b", told.Listen}, args...)...)
		c.Stdin = strings.NewReader(input)
		got, err := c.Output()
		require.NoError(p, err, "%q", args)
		return string(got)
	}
	group := []string{"-q", "-e", "-X", "auto.offset.reset=earliest", "-G", "demo.kcat", "demo.secret"}
	require.Equal(p, "first\nsecond\n", kcat("", group...))
	require.Empty(p, kcat("", group...), "the group remembers")
	owner.does("grant", reader.account, "write", "--topic", "demo.secret", "--wait", "final")
	head := until(p.T, p.n, 0, "an answer", func(Status) bool { return true }).Head
	finalAbove(p.T, p.n, head, 0) // the broker goes by the rules of the block with the grant
	kcat("third\n", "-P", "-t", "demo.secret", "-z", "zstd", "-X", "enable.idempotence=true")
	require.Equal(p, "third\n", kcat("", group...))
	figures := &Node{Metrics: told.Metrics}
	require.InDelta(p, 1, metric(p.T, figures, "bornode_topics_gate_sealed_batches_total"), 0)
	require.Positive(p, metric(p.T, figures, "bornode_topics_gate_requests_total"))
	require.NoError(p, cmd.Process.Signal(syscall.SIGINT))
	require.NoError(p, cmd.Wait(), problem.String())
}
