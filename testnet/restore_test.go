package testnet

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/genesis"
	"github.com/bornode/bornode/internal/exit"
)

// provable is what every node logs that saw a producer contradict itself.
const provable = "broke a rule provably"

// unslashed checks that no node saw two signatures that contradict each other.
func unslashed(t *testing.T, n *Network) {
	t.Helper()
	for _, x := range n.Nodes {
		log, err := os.ReadFile(x.LogFile())
		require.NoError(t, err)
		require.NotContains(t, string(log), provable, "node %d", x.Index)
	}
}

// signerState is what bor_signer tells of a node.
type signerState struct {
	Votes   bool   `json:"votes"`
	Why     string `json:"why"`
	Session string `json:"session"`
}

// votesAgain waits until a node's signer casts votes.
func votesAgain(t *testing.T, n *Network, node int) {
	t.Helper()
	c := client(t, n, node)
	until(t, n, node, "its signer votes", func(Status) bool {
		var s signerState
		return c.Client().CallContext(t.Context(), &s, "bor_signer") == nil && s.Votes
	})
}

// loggedSince is what a node has logged behind a number of bytes.
func loggedSince(t *testing.T, x *Node, from int64) string {
	t.Helper()
	log, err := os.ReadFile(x.LogFile())
	require.NoError(t, err)
	return string(log[from:])
}

// Rounds of the storms: with storms, in long runs, else.
func rounds(storm, long_, short int) int {
	switch {
	case os.Getenv("BORNODE_STORMS") != "":
		return storm
	case long():
		return long_
	}
	return short
}

// stormSeed is STORM_SEED, or 1.
func stormSeed(t *testing.T) uint64 {
	v := os.Getenv("STORM_SEED")
	if v == "" {
		return 1
	}
	seed, err := strconv.ParseUint(v, 10, 64)
	require.NoError(t, err)
	return seed
}

// restorable is a network of four producers with a witness, and copies of its producers' folders of random moments.
type restorable struct {
	t      *testing.T
	n      *Network
	w      *witness
	r      *rand.Rand
	copies []string // of each node's folder: a backup of the program, or a folder that was copied while the node stood
	raw    []bool   // the second
	at     []uint64 // final height at the copy
}

func newRestorable(t *testing.T) *restorable {
	peer := newBadPeer(t)
	n := upNetwork(t, func(s *Spec) {
		s.Producers, s.Observers, s.Brokers, s.Direct = 4, 0, 0, true
		s.Members = []genesis.Member{{PeerID: string(peer.key.ID()), Roles: genesis.RoleObserver}}
	})
	seed := stormSeed(t)
	t.Logf("seed %d", seed)
	f := &restorable{t: t, n: n, w: newWitness(t, n, peer), r: rand.New(rand.NewPCG(seed, 0x7265)), copies: make([]string, 4), raw: make([]bool, 4), at: make([]uint64, 4)}
	finalAbove(t, n, 5, 0, 1, 2, 3)
	for i := range 4 {
		f.copyNode(i)
	}
	return f
}

// copyNode takes another copy of a node: mostly a backup while it runs, sometimes its folder while it stands still.
func (f *restorable) copyNode(i int) {
	x := f.n.Nodes[i]
	at := until(f.t, f.n, i, "an answer", func(s Status) bool { return s.Final > 0 })
	f.copies[i], f.raw[i], f.at[i] = filepath.Join(f.t.TempDir(), "copy"), f.r.IntN(3) == 0, at.Final
	if !f.raw[i] {
		runCommandOf(f.t, binary, "backup", f.copies[i], "--dir", x.Dir)
		return
	}
	require.NoError(f.t, f.n.Kill(f.t.Context(), i))
	copyFolder(f.t, x.Dir, f.copies[i])
	require.NoError(f.t, f.n.Restart(f.t.Context(), i))
	votesAgain(f.t, f.n, i)
}

// putBack makes a folder from a node's copy. Its keys are the node's.
func (f *restorable) putBack(i int, dir string) {
	keys := filepath.Join(f.t.TempDir(), "keys")
	copyFolder(f.t, filepath.Join(f.n.Nodes[i].Dir, "keys"), keys)
	if dir == f.n.Nodes[i].Dir {
		require.NoError(f.t, os.RemoveAll(dir))
	}
	if f.raw[i] {
		copyFolder(f.t, f.copies[i], dir)
		return
	}
	runCommandOf(f.t, binary, "restore", f.copies[i], "--dir", dir)
	require.NoError(f.t, os.RemoveAll(filepath.Join(dir, "keys")))
	copyFolder(f.t, keys, filepath.Join(dir, "keys"))
}

// restore loses a node at once and puts it back from its copy, while the others run.
func (f *restorable) restore(i int) {
	x := f.n.Nodes[i]
	require.NoError(f.t, f.n.Kill(f.t.Context(), i))
	f.w.readLog(f.t, x)
	log, err := os.ReadFile(x.LogFile())
	require.NoError(f.t, err)
	f.putBack(i, x.Dir)
	require.NoError(f.t, os.MkdirAll(filepath.Dir(x.LogFile()), 0o755))
	require.NoError(f.t, os.WriteFile(x.LogFile(), log, 0o644)) // the log of the process goes on
	require.NoError(f.t, f.n.Restart(f.t.Context(), i))
	votesAgain(f.t, f.n, i)
	require.Contains(f.t, loggedSince(f.t, x, int64(len(log))), "the signer casts no vote", "it says that it is silent")
}

// A producer whose folder is put back from a copy of a random moment, while the others run, contradicts nothing that it signed
// since, and votes again by itself.
func TestProducersAreRestoredFromOlderCopies(t *testing.T) {
	t.Parallel() // it mostly waits
	f := newRestorable(t)
	for round := range rounds(100, 6, 2) {
		i := f.r.IntN(4)
		at := until(t, f.n, i, "an answer", func(Status) bool { return true })
		finalAbove(t, f.n, at.Final+uint64(f.r.IntN(12)), i)
		f.restore(i)
		if f.r.IntN(2) == 0 {
			f.copyNode(i) // else the copy grows older
		}
		if round%10 == 9 {
			f.w.requireHonest(t, f.n)
		}
	}
	at := until(t, f.n, 0, "an answer", func(Status) bool { return true })
	finalAbove(t, f.n, at.Final+5, 0, 1, 2, 3)
	f.w.requireHonest(t, f.n)
	sameChain(t, f.n, 0, 1, 2, 3)
}

// A producer that is put back from a copy and reaches no other casts no vote, and signs no block of a slot that it may have
// signed for.
func TestARestoredProducerAloneCastsNoVote(t *testing.T) {
	t.Parallel()
	f := newRestorable(t)
	for range rounds(20, 2, 1) {
		i := f.r.IntN(4)
		x := f.n.Nodes[i]
		at := until(t, f.n, i, "an answer", func(Status) bool { return true })
		finalAbove(t, f.n, at.Final+uint64(5+f.r.IntN(12)), i)
		require.NoError(t, f.n.Kill(t.Context(), i))
		f.w.readLog(t, x)
		alone := filepath.Join(t.TempDir(), "alone")
		f.putBack(i, alone)
		votes := func() int {
			f.w.mu.Lock()
			defer f.w.mu.Unlock()
			return len(f.w.votes[x.Account])
		}
		before := votes()
		out := f.runSilently(alone, 15*time.Second)
		require.NotContains(t, out, "the signer signs from now on")
		f.w.readLog(t, &Node{Dir: alone})
		require.Equal(t, before, votes(), "nothing was added to what it had signed")
		require.NoError(t, f.n.Restart(t.Context(), i))
		votesAgain(t, f.n, i)
	}
	f.w.requireHonest(t, f.n)
	sameChain(t, f.n, 0, 1, 2, 3)
}

// runAside runs a node with addresses of its own on a folder until it ends, and returns what it said and its exit code.
func (f *restorable) runAside(dir string) (string, int) {
	ctx, cancel := context.WithTimeout(f.t.Context(), patience)
	defer cancel()
	cmd := f.besideCommand(ctx, dir)
	out, _ := cmd.CombinedOutput() // the error is the exit code, or that it was ended
	return string(out), cmd.ProcessState.ExitCode()
}

// runSilently runs a node without peers on a folder until it has said that its signer casts no vote and so much time has passed
// since, and returns what it said.
func (f *restorable) runSilently(dir string, length time.Duration) string {
	f.t.Helper()
	ctx, interrupt := context.WithCancel(f.t.Context())
	defer interrupt()
	cmd := f.besideCommand(ctx, dir, "--p2p.peers", "")
	name := filepath.Join(f.t.TempDir(), "said")
	file, err := os.Create(name)
	require.NoError(f.t, err)
	defer file.Close()
	cmd.Stdout, cmd.Stderr = file, file
	require.NoError(f.t, cmd.Start())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = cmd.Wait() }() // the error is that it was interrupted
	said := func() string {
		b, err := os.ReadFile(name)
		require.NoError(f.t, err)
		return string(b)
	}
	soon(f.t, "the signer casts no vote", func() bool { return strings.Contains(said(), "the signer casts no vote") })
	watched := time.NewTimer(length)
	defer watched.Stop()
	select {
	case <-watched.C:
	case <-ended:
		require.Fail(f.t, "it ended by itself", said())
	}
	interrupt()
	<-ended
	return said()
}

// besideCommand is a command that runs a node with addresses of its own on a folder; the end of ctx interrupts it.
func (f *restorable) besideCommand(ctx context.Context, dir string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, binary, append([]string{"run", "--dir", dir, "--rpc.http_addr", "127.0.0.1:0", "--rpc.ws_addr", "127.0.0.1:0",
		"--metrics.listen", "127.0.0.1:0", "--p2p.tcp.listen", "/ip4/127.0.0.1/tcp/0", "--rpc.ipc_path", filepath.Join(f.t.TempDir(), "ipc")}, args...)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = patience
	return cmd
}

// Copies of a running producer that are started beside it at random moments, on other addresses, end by themselves with one
// sentence. The original goes on, and nothing contradicts itself.
func TestCopiesAreStartedBesideTheOriginal(t *testing.T) {
	t.Parallel()
	f := newRestorable(t)
	for range rounds(50, 3, 1) {
		i := f.r.IntN(4)
		twin := filepath.Join(t.TempDir(), "twin")
		f.putBack(i, twin)
		if f.r.IntN(2) == 0 { // what it has signed until now is in the copy's log, and its session
			raw, err := os.ReadFile(filepath.Join(f.n.Nodes[i].Dir, "consensus", "votes.log"))
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(twin, "consensus", "votes.log"), raw, 0o600))
		}
		out, code := f.runAside(twin)
		require.Equal(t, exit.Instance, code, out)
		require.Contains(t, out, "another running instance signs for this producer")
		f.w.readLog(t, &Node{Dir: twin})
		require.True(t, f.n.Nodes[i].Process.Alive())
		votesAgain(t, f.n, i)
	}
	at := until(t, f.n, 0, "an answer", func(Status) bool { return true })
	finalAbove(t, f.n, at.Final+5, 0, 1, 2, 3)
	f.w.requireHonest(t, f.n)
	sameChain(t, f.n, 0, 1, 2, 3)
}

// All producers killed at once under load go on by themselves, and nothing final, and no accepted transaction, is lost.
func TestAllProducersAreKilledAtOnce(t *testing.T) {
	t.Parallel()
	n := upNetwork(t, func(s *Spec) { s.Producers, s.Observers, s.Brokers, s.Direct = 4, 1, 0, true })
	for range rounds(30, 10, 2) {
		before := until(t, n, 0, "an answer", func(Status) bool { return true })
		finalAbove(t, n, before.Final+8, 0, 1, 2, 3)
		accepted := loadInBackground(t, n, 50, 4*time.Second, 4) // by the observer, which stays
		told := until(t, n, 0, "an answer", func(Status) bool { return true })
		finalAbove(t, n, told.Final+2, 0, 1, 2, 3)
		for i := range 4 {
			require.NoError(t, n.Kill(t.Context(), i))
		}
		for i := range 4 {
			require.NoError(t, n.startNode(n.Nodes[i]))
		}
		told = until(t, n, 4, "an answer", func(Status) bool { return true })
		finalAbove(t, n, told.Final+3, 0, 1, 2, 3)
		t.Logf("final again %.1f slots after the last link of two producers", time.Since(lastLink(t, n, 0, 1, 2, 3)).Seconds()/n.Slot().Seconds())
		r := accepted()
		require.Zero(t, r.Missing)
		require.Zero(t, r.Twice)
		unslashed(t, n)
	}
	sameChain(t, n, 0, 1, 2, 3, 4)
}

// lastLink is when the newest link between some nodes came up, by their logs.
func lastLink(t *testing.T, n *Network, nodes ...int) (last time.Time) {
	t.Helper()
	among := make(map[string]bool)
	for _, i := range nodes {
		among[n.Nodes[i].PeerID] = true
	}
	for _, i := range nodes {
		text, err := os.ReadFile(n.Nodes[i].LogFile())
		require.NoError(t, err)
		for line := range strings.Lines(string(text)) {
			var said struct {
				At   time.Time `json:"ts"`
				What string    `json:"msg"`
				Peer string
			}
			if err := json.Unmarshal([]byte(line), &said); err == nil && said.What == "link is up" && among[said.Peer] && said.At.After(last) {
				last = said.At
			}
		}
	}
	require.NotZero(t, last)
	return last
}
