package main

import (
	"context"
	"encoding/json"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/bornode/bornode/config"
	"github.com/bornode/bornode/contracts"
	"github.com/bornode/bornode/genesis"
	"github.com/bornode/bornode/internal/telemetry"
	"github.com/bornode/bornode/node"
	"github.com/bornode/bornode/testnet"
)

// walkPatience only ends a test that has failed already.
const walkPatience = 3 * time.Minute

// oneProducer runs a network of one node inside the test and returns the node's folder.
func oneProducer(t *testing.T) (dir, socket string) {
	t.Helper()
	const chainID = 4712
	dir, err := os.MkdirTemp("", "bor") // short: a socket's path is bounded
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	keys, err := node.MakeKeys(dir, true, chainID)
	require.NoError(t, err)
	g, err := genesis.New(genesis.Options{
		ChainID: chainID, GenesisTime: uint64(time.Now().Unix()), Slot: 50 * time.Millisecond, TurnSlots: 1, EpochBlocks: 20, //nolint:gosec // after 1970
		Producers: []genesis.Producer{{Account: keys.Account, BLSKey: [48]byte(keys.BLSKey), Proof: [96]byte(keys.Proof)}},
		Members:   []genesis.Member{{PeerID: keys.PeerID, Account: keys.Account, Roles: genesis.RoleProducer}},
		Alloc:     map[common.Address]*big.Int{keys.Account: ethers(10_000)},
		Settings:  genesis.ProducerSettings{EvidenceWindow: time.Second, WithdrawDelay: 2 * time.Second, MinStake: ethers(100)},
		Upgrades:  []genesis.Upgrade{{Height: 1_000_000, Name: "next", Parameters: map[string]string{"gas_limit": "200000000"}}},
	})
	require.NoError(t, err)
	require.NoError(t, g.Write(filepath.Join(dir, node.GenesisFile)))
	c := config.Default()
	c.DataDir, c.Genesis, c.Keys.Producer = dir, node.GenesisFile, node.ProducerFile
	c.Consensus.NewKey = true
	c.RPC.HTTPAddr, c.RPC.WSAddr = "", ""
	socket = filepath.Join(dir, "ipc")
	c.RPC.IPCPath = socket
	c.P2P.TCP.Listen = []string{"/ip4/127.0.0.1/tcp/0"}
	n, err := node.New(t.Context(), c, zap.NewNop(), telemetry.NewRegistry())
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx) }()
	t.Cleanup(func() { stop(); require.NoError(t, <-ended) })
	return dir, socket
}

// walk runs command lines against a real network.
type walk struct {
	t    *testing.T
	node string
	dir  string
}

func (w *walk) do(key string, args ...string) string {
	w.t.Helper()
	if key != "" {
		args = append(args, "--key", key)
	}
	o := borcli(w.t, w.node, w.dir, args...)
	require.Equal(w.t, exitOK, o.code, "%v: %s", args, o.err)
	return o.out
}

// settle runs a command that later ones build on: it waits until its transaction is final, since a switch of branches may take
// it out of the block that it stands in.
func (w *walk) settle(key string, args ...string) string {
	w.t.Helper()
	return w.do(key, append(args, "--wait", "final")...)
}

// until repeats a command until its output holds the words.
func (w *walk) until(words, key string, args ...string) string {
	w.t.Helper()
	if key != "" {
		args = append(args, "--key", key)
	}
	out := ""
	shown := assert.Eventually(w.t, func() bool {
		o := borcli(w.t, w.node, w.dir, args...)
		out = o.out + o.err
		return o.code == exitOK && strings.Contains(squeeze(out), words)
	}, walkPatience, 100*time.Millisecond)
	require.True(w.t, shown, "%v never shows %q: %s", args, words, out)
	return out
}

// exportAndVerify exports the running chain and verifies the file, whole and with a change.
func (w *walk) exportAndVerify(genesisFile string) {
	w.t.Helper()
	dir := w.t.TempDir()
	file := filepath.Join(dir, "chain.bor")
	var x exported
	require.NoError(w.t, json.Unmarshal([]byte(w.do("", "chain", "export", "--out", file, "--json")), &x))
	require.EqualValues(w.t, 1, x.First)
	var v verified
	args := []string{"chain", "verify", "--in", file, "--genesis", genesisFile, "--dir", dir, "--json"}
	require.NoError(w.t, json.Unmarshal([]byte(w.do("", args...)), &v))
	require.Equal(w.t, x.Last, v.Proven)
	require.Equal(w.t, x.Last, v.Executed)
	require.Equal(w.t, x.Hash, v.Hash)

	again := borcli(w.t, w.node, w.dir, "chain", "export", "--out", file)
	require.Equal(w.t, exitUsage, again.code)
	require.Contains(w.t, again.err, "exists already")

	part := filepath.Join(dir, "part.bor")
	require.NoError(w.t, json.Unmarshal([]byte(w.do("", "chain", "export", "--out", part, "--from", "3", "--to", "8", "--json")), &x))
	require.GreaterOrEqual(w.t, x.Last, uint64(8))
	w.do("", "chain", "verify", "--in", part, "--genesis", genesisFile, "--checkpoint", strconv.FormatUint(x.Last, 10)+":"+x.Hash.Hex())

	b, err := os.ReadFile(file)
	require.NoError(w.t, err)
	b[len(b)/2] ^= 1
	require.NoError(w.t, os.WriteFile(file, b, 0o600))
	o := borcli(w.t, w.node, w.dir, args...)
	require.Equal(w.t, exitVerify, o.code, "%s", o.err)
	far := borcli(w.t, w.node, w.dir, "chain", "export", "--out", filepath.Join(dir, "far"), "--to", "99999999")
	require.Equal(w.t, exitNotFound, far.code)
	require.Contains(w.t, far.err, "wait, or give --to")
}

// On a real chain of one producer: stake comes back after its delay, a proposal takes effect at once, and the export of
// the running node verifies.
func TestWalkOneProducer(t *testing.T) {
	dir, socket := oneProducer(t)
	w := &walk{t, socket, t.TempDir()}
	key := filepath.Join(dir, node.ProducerFile)
	w.until("active", "", "producer", "list") // the socket answers
	w.do(key, "producer", "stake", "5ether")
	require.Contains(t, w.do(key, "producer", "withdraw", "5ether"), "5 ether is leaving")
	w.until("can be paid now", key, "producer", "show")
	require.Contains(t, w.do(key, "producer", "withdraw", "--pay"), "paid 5 ether")

	peer := peerID(200)
	require.Contains(t, w.do(key, "member", "add", peer, "--wait", "final"), "has taken effect")
	require.Contains(t, w.do("", "member", "list"), peer)
	require.Contains(t, w.do(key, "upgrade", "propose", "--genesis", filepath.Join(dir, node.GenesisFile)), "is decided: upgrade next")
	require.Contains(t, squeeze(w.do("", "upgrade", "list")), "1000000 pending upgrade next")
	w.withdraws(key, filepath.Join(dir, node.GenesisFile))
	w.topics(key)
	var rules chainRules
	require.NoError(t, json.Unmarshal([]byte(w.do("", "parameter", "list", "--json")), &rules))
	height := strconv.FormatUint(uint64(rules.Number)+contracts.ChangeNotice+200, 10) // time for a slow machine to get it into a block
	require.Contains(t, w.do(key, "parameter", "set", "gas_limit", "200000000", "--height", height), "is decided: set gas_limit to 200000000")
	require.Contains(t, squeeze(w.do("", "parameter", "list")), "gas_limit 300000000")
	w.until(height+" in force parameter gas_limit 200000000", "", "parameter", "list")
	w.until("gas_limit 200000000 max_block_bytes", "", "parameter", "list")
	other := genesisOf(t)
	o := borcli(t, socket, w.dir, "upgrade", "propose", "--genesis", other, "--key", key)
	require.Equal(t, exitUsage, o.code)
	require.Contains(t, o.err, "of another network")
	w.exportAndVerify(filepath.Join(dir, node.GenesisFile))
}

// topics makes the node's account a broker and has it create a topic, as a chain with all its rules does.
func (w *walk) topics(key string) {
	w.t.Helper()
	var members []memberInfo
	require.NoError(w.t, json.Unmarshal([]byte(w.do("", "member", "list", "--json")), &members))
	owner := members[0].Account.Hex()
	require.Contains(w.t, w.do(key, "member", "roles", members[0].PeerID, "producer,broker"), "has taken effect")
	w.do(key, "contract", "send", "topics", "registerBroker", "127.0.0.1", "9092", hexutil.Encode([]byte(members[0].PeerID)))
	require.Contains(w.t, squeeze(w.do("", "topic", "brokers")), "1 127.0.0.1:9092 yes "+owner)
	require.Contains(w.t, w.do(key, "tenant", "set", "acme", "--owner", owner), "has taken effect: tenant acme of "+owner)
	require.Contains(w.t, w.do(key, "topic", "create", "acme.orders", "--partitions", "256", "--wait", "final"), "has the id "+contracts.TopicID("acme.orders", 1).Hex())
	require.Contains(w.t, squeeze(w.do("", "tenant", "show", "acme")), "topics 1 of 100 partitions 256 of 1000")
	require.Contains(w.t, squeeze(w.do("", "topic", "describe", "acme.orders")), "255 1 1 1")
	require.Contains(w.t, w.do(key, "member", "roles", members[0].PeerID, "producer"), "has taken effect")
	require.Contains(w.t, squeeze(w.do("", "topic", "brokers")), "1 127.0.0.1:9092 no "+owner)
}

// withdraws has an upgrade voted that the node has no description of, which takes --force, and withdrawn again.
func (w *walk) withdraws(key, file string) {
	w.t.Helper()
	b, err := os.ReadFile(file)
	require.NoError(w.t, err)
	var fields map[string]json.RawMessage
	require.NoError(w.t, json.Unmarshal(b, &fields))
	fields["upgrades"] = json.RawMessage(`[{"height": 1000000, "name": "unheard"}, {"height": 1000000, "name": "lost", "withdrawn": "` + common.Hash{1}.Hex() + `"}]`)
	b, err = json.Marshal(fields)
	require.NoError(w.t, err)
	other := filepath.Join(w.t.TempDir(), "other.json")
	require.NoError(w.t, os.WriteFile(other, b, 0o600))
	refused := func(code int, words string, args ...string) {
		w.t.Helper()
		o := borcli(w.t, w.node, w.dir, append(args, "--key", key)...)
		require.Equal(w.t, code, o.code, "%s", o.err)
		require.Contains(w.t, o.err, words)
	}
	refused(exitRefused, "the node does not know upgrade unheard", "upgrade", "propose", "--genesis", other)
	require.Contains(w.t, w.do(key, "upgrade", "propose", "--genesis", other, "--force"), "is decided: upgrade unheard")
	require.Contains(w.t, squeeze(w.do("", "upgrade", "list")), "does not know it and stops before it upgrade unheard")
	refused(exitNotFound, "no upgrade unheard was decided for block 999999", "upgrade", "withdraw", "--name", "unheard", "--height", "999999")
	refused(exitUsage, "--name and --height", "upgrade", "withdraw", "--name", "unheard")
	require.Contains(w.t, w.do(key, "upgrade", "withdraw", "--name", "unheard", "--height", "1000000"), "is decided: withdraw upgrade unheard from block 1000000 on")
	require.Contains(w.t, squeeze(w.do("", "upgrade", "list")), "no effect: the upgrade was withdrawn upgrade unheard")
	refused(exitRefused, "was withdrawn before", "upgrade", "withdraw", "--name", "unheard", "--height", "1000000")
}

// genesisOf is the genesis file of some other network.
func genesisOf(t *testing.T) string {
	t.Helper()
	return makeHistory(t).genesis
}

// A network of four real nodes takes a fifth producer by commands alone, and verifies from outside.
func TestWalkFourProducers(t *testing.T) {
	if testing.Short() {
		return // it builds and starts processes
	}
	dir := t.TempDir()
	binary := filepath.Join(dir, "bornode")
	out, err := exec.Command("go", "build", "-o", binary, "../bornode").CombinedOutput()
	require.NoError(t, err, "%s", out)
	s := testnet.DefaultSpec()
	s.Dir, s.Binary, s.BasePort, s.Slot, s.EpochBlocks = filepath.Join(dir, "net"), binary, 0, 200*time.Millisecond, 30
	n, err := testnet.Up(t.Context(), s)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, n.Down(context.Background())) })
	w := &walk{t, n.Nodes[0].HTTP, t.TempDir()}
	key := func(i int) string { return filepath.Join(n.Nodes[i].Dir, node.ProducerFile) }
	genesisFile := filepath.Join(s.Dir, "genesis.json")

	// A new node's keys, and money for its account.
	fifth := filepath.Join(dir, "fifth")
	init := exec.Command(binary, "init", "--dir", fifth, "--producer", "--genesis", genesisFile)
	text, err := init.Output()
	require.NoError(t, err)
	var keys node.PublicKeys
	require.NoError(t, json.Unmarshal(text, &keys))
	public := filepath.Join(dir, "public.json")
	require.NoError(t, os.WriteFile(public, text, 0o600))
	account, fifthKey := keys.Account.Hex(), filepath.Join(fifth, node.ProducerFile)
	w.settle(key(1), "send", account, "2000ether")

	require.Contains(t, w.settle(key(0), "member", "add", keys.PeerID, "--roles", "producer", "--account", account), "approved by 1 of 3")
	w.settle(key(1), "proposal", "approve", "0")
	require.Contains(t, w.settle(key(2), "proposal", "approve", "0"), "has taken effect")
	w.settle(fifthKey, "producer", "register", "--keys", public, "--stake", "1000ether")
	w.settle(fifthKey, "producer", "vote", account, "600ether")
	w.settle(key(3), "producer", "stake", "500ether")
	w.settle(key(3), "producer", "vote", account, "500ether")

	// It reports by hand in each epoch until an election takes it.
	require.Eventually(t, func() bool {
		borcli(t, w.node, w.dir, "producer", "report", "--key", fifthKey)
		list := squeeze(borcli(t, w.node, w.dir, "producer", "list").out)
		return strings.Contains(list, account+" 4 active") || strings.Contains(list, account+" - elected")
	}, walkPatience, 200*time.Millisecond)
	w.until(account+" 4 active 1100 ether 1000 ether", "", "producer", "list")
	w.exportAndVerify(genesisFile)
}
