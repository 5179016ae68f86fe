package testnet

import (
	"encoding/json"
	"fmt"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/config"
	"github.com/bornode/bornode/genesis"
	"github.com/bornode/bornode/node"
	"github.com/bornode/bornode/recovery"
)

// recoveredEpoch is an epoch's length that the network reaches after its recovery only.
const recoveredEpoch = 80

// lostQuorum is a network that loses half of its four producers and has two more nodes with producers' keys.
type lostQuorum struct {
	t         *testing.T
	n         *Network
	w         *witness
	dir       string
	keys      []string // recovery keys, of which a copy is kept apart
	final     uint64   // height that was final before the loss
	lastFinal common.Hash
}

func newLostQuorum(t *testing.T) *lostQuorum {
	peer := newBadPeer(t)
	n := upNetwork(t, func(s *Spec) {
		s.Producers, s.Observers, s.Brokers, s.Direct = 6, 1, 0, true
		s.Settings.Seats, s.EpochBlocks = 4, recoveredEpoch
		s.Members = []genesis.Member{{PeerID: string(peer.key.ID()), Roles: genesis.RoleObserver}}
	})
	f := &lostQuorum{t: t, n: n, w: newWitness(t, n, peer), dir: t.TempDir()}
	for _, i := range []int{0, 1, 2, 4, 5} {
		b, err := os.ReadFile(filepath.Join(n.Nodes[i].Dir, node.ProducerFile))
		require.NoError(t, err)
		key := f.path("key" + n.Nodes[i].Account.Hex())
		require.NoError(t, os.WriteFile(key, b, 0o600))
		f.keys = append(f.keys, key)
	}
	finalAbove(t, n, 10, 0, 1, 2, 3, 4, 5, 6)
	return f
}

func (f *lostQuorum) path(name string) string { return filepath.Join(f.dir, name) }

// recover runs a command of bornode recover and gives what it said and its exit code.
func (f *lostQuorum) recover(args ...string) (said string, code int) {
	cmd := exec.CommandContext(f.t.Context(), binary, append([]string{"recover"}, args...)...)
	out, _ := cmd.CombinedOutput() // the error is the exit code
	f.t.Logf("bornode recover %v: exit %d\n%s", args, cmd.ProcessState.ExitCode(), out)
	return string(out), cmd.ProcessState.ExitCode()
}

// succeed runs one that must not fail.
func (f *lostQuorum) succeed(args ...string) string {
	f.t.Helper()
	said, code := f.recover(args...)
	require.Zero(f.t, code, "%v: %s", args, said)
	return said
}

// lose kills the producers 2 and 3, sees that blocks go on and none becomes final, and stops the rest.
func (f *lostQuorum) lose() {
	for _, i := range []int{2, 3} {
		require.NoError(f.t, f.n.Kill(f.t.Context(), i))
	}
	stuck := f.n.stuckFinal(f.t)
	later := until(f.t, f.n, 0, "further blocks", func(s Status) bool { return s.Head >= stuck.Head+10 })
	require.Equal(f.t, stuck.Final, later.Final, "nothing becomes final without a quorum")
	for i, x := range f.n.Nodes {
		if x.Process.Alive() {
			s := until(f.t, f.n, i, "an answer", func(Status) bool { return true })
			if s.Final > f.final {
				f.final, f.lastFinal = s.Final, s.LIB
			}
			require.NoError(f.t, f.n.Stop(f.t.Context(), i))
		}
	}
}

// prepare collects the survivors' reports and makes the statement.
func (f *lostQuorum) prepare() (path string, r *recovery.Signed) {
	path = f.path("recovery.json")
	args := []string{"prepare", "--dir", f.n.Nodes[0].Dir, "--reason", "a fire in the second data centre", "--out", path}
	for _, i := range []int{0, 1} {
		report := f.path(f.n.Nodes[i].Account.Hex() + ".report")
		f.succeed("report", "--dir", f.n.Nodes[i].Dir, "--out", report)
		args = append(args, "--report", report)
	}
	said, code := f.recover(args[:len(args)-2]...)
	require.Equal(f.t, 7, code, "one report of four: a quorum is missing")
	require.Contains(f.t, said, "--may-undo")
	for _, i := range []int{4, 5} {
		keys, err := exec.CommandContext(f.t.Context(), binary, "init", "--dir", f.n.Nodes[i].Dir, "--producer", "--genesis", f.n.genesisFile()).Output()
		require.NoError(f.t, err)
		name := f.path(f.n.Nodes[i].Account.Hex() + ".public")
		require.NoError(f.t, os.WriteFile(name, keys, 0o600))
		args = append(args, "--with", name)
	}
	said = f.succeed(args...)
	require.Contains(f.t, said, "no final block is undone")
	b, err := os.ReadFile(path)
	require.NoError(f.t, err)
	r = new(recovery.Signed)
	require.NoError(f.t, json.Unmarshal(b, r))
	s := &r.Statement
	require.GreaterOrEqual(f.t, s.Base.Height, f.final, "nothing that was final is above the base")
	require.ElementsMatch(f.t, []common.Address{f.n.Nodes[2].Account, f.n.Nodes[3].Account}, s.Lost)
	require.Len(f.t, s.Seats, 4)
	require.Less(f.t, s.Base.Height, uint64(recoveredEpoch))
	require.False(f.t, s.MayUndo)
	return path, r
}

// sign signs with as many recovery keys as have to.
func (f *lostQuorum) sign(path string, hash common.Hash) {
	for _, key := range f.keys {
		f.succeed("sign", path, "--key", key, "--genesis", f.n.genesisFile(), "--hash", hash.Hex())
	}
	require.Contains(f.t, f.succeed("show", path, "--genesis", f.n.genesisFile()), "it can be applied")
}

// apply applies the recovery in the folders of nodes and starts them.
func (f *lostQuorum) apply(path string, hash common.Hash, nodes ...int) {
	for _, i := range nodes {
		said := f.succeed("apply", path, "--dir", f.n.Nodes[i].Dir, "--hash", hash.Hex())
		require.Contains(f.t, said, hash.Hex())
	}
	for _, i := range nodes {
		require.NoError(f.t, f.n.Restart(f.t.Context(), i))
	}
}

// finalHash is the block that was final last before the loss.
func (f *lostQuorum) finalHash(i int) common.Hash {
	h, err := client(f.t, f.n, i).HeaderByNumber(f.t.Context(), new(big.Int).SetUint64(f.final))
	require.NoError(f.t, err)
	return h.Hash()
}

// Two of four producers are lost for good. The operators of the network go on with the two that are left and two new ones, and
// nothing that was final is lost. The lost ones come back with their old folders: they are told, and get nothing final.
func TestHalfOfTheProducersAreLost(t *testing.T) {
	t.Parallel() // it mostly waits
	f := newLostQuorum(t)
	f.lose()
	path, r := f.prepare()
	_, code := f.recover("apply", path, "--dir", f.n.Nodes[0].Dir, "--hash", r.Hash().Hex())
	require.NotZero(t, code, "nobody signed it")
	f.sign(path, r.Hash())
	f.apply(path, r.Hash(), 0, 1, 4, 5, 6)
	finalAbove(t, f.n, r.Statement.Base.Height+20, 0, 1, 4, 5, 6)
	require.Equal(t, f.lastFinal, f.finalHash(0), "what was final before the loss is final now")
	sameChain(t, f.n, 0, 1, 4, 5, 6)
	for _, i := range []int{0, 1, 4, 5} {
		votesAgain(t, f.n, i)
	}

	f.verifyExport(path)

	was := f.sizes(2, 3)
	for _, i := range []int{2, 3} {
		require.NoError(t, f.n.Restart(t.Context(), i))
	}
	for k, i := range []int{2, 3} {
		until(t, f.n, i, "an alarm about the recovery", func(Status) bool { return f.alarmed(i, r.Hash()) })
		require.Contains(t, loggedSince(t, f.n.Nodes[i], was[k]), r.Hash().Hex())
	}
	at := until(t, f.n, 0, "an answer", func(Status) bool { return true })
	finalAbove(t, f.n, at.Final+10, 0, 1, 4, 5)
	for _, i := range []int{2, 3} {
		s := until(t, f.n, i, "an answer", func(Status) bool { return true })
		require.LessOrEqual(t, s.Final, r.Statement.Base.Height, "nothing becomes final for the lost ones")
	}
	f.w.requireHonest(t, f.n)

	f.rival(path)
	for _, i := range []int{2, 3} {
		require.NoError(t, f.n.Stop(t.Context(), i))
	}
	f.empty(3)
	f.apply(path, r.Hash(), 2, 3)
	at = until(t, f.n, 0, "an answer", func(Status) bool { return true })
	finalAbove(t, f.n, at.Final+5, 0, 1, 2, 3, 4, 5, 6)
	finalAbove(t, f.n, recoveredEpoch+5, 0, 1, 2, 3, 4, 5, 6) // an election among those who go on
	sameChain(t, f.n, 0, 1, 2, 3, 4, 5, 6)
	f.w.requireHonest(t, f.n)
}

// verifyExport checks files of blocks of before and behind the base, whole and in part, with the recovery and without.
func (f *lostQuorum) verifyExport(recovery string) {
	f.t.Helper()
	x := operatorOf(f.t, f.n.Nodes[0], f.n.Nodes[0])
	whole, part := f.path("whole.bor"), f.path("part.bor")
	var last struct {
		Last uint64      `json:"last"`
		Hash common.Hash `json:"hash"`
	}
	x.does(&last, "chain", "export", "--out", whole)
	x.does(nil, "chain", "export", "--out", part, "--from", fmt.Sprint(last.Last-5), "--to", fmt.Sprint(last.Last))
	verify := func(in string, more ...string) []string {
		return append([]string{"chain", "verify", "--in", in, "--genesis", f.n.genesisFile()}, more...)
	}
	var found struct {
		Proven, Trusted uint64
	}
	x.does(&found, verify(whole, "--recovery", recovery)...)
	require.Equal(f.t, last.Last, found.Proven)
	x.fails(exitUsage, "give its file", verify(whole)...)
	known := fmt.Sprintf("%d:%s", last.Last, last.Hash)
	x.does(&found, verify(part, "--recovery", recovery, "--checkpoint", known)...)
	require.Equal(f.t, last.Last, found.Trusted)
	x.fails(exitVerify, "give all its recoveries", verify(part, "--checkpoint", known)...)
}

// rival signs a second recovery with logs that forget the first, as a third of the operators would have to. A node that goes by the
// first refuses it, and the pair names who signed both.
func (f *lostQuorum) rival(path string) {
	b, err := os.ReadFile(path)
	require.NoError(f.t, err)
	x := new(recovery.Signed)
	require.NoError(f.t, json.Unmarshal(b, x))
	x.Signatures, x.Statement.Reason = nil, "another one"
	b, err = json.Marshal(x)
	require.NoError(f.t, err)
	rival := f.path("rival.json")
	require.NoError(f.t, os.WriteFile(rival, b, 0o600))
	args := []string{"sign", rival, "--genesis", f.n.genesisFile(), "--hash", x.Hash().Hex(), "--key"}
	_, code := f.recover(append(args, f.keys[0])...)
	require.Equal(f.t, 7, code, "the key's log knows the first one")
	for i, key := range f.keys {
		f.succeed(append(args, key, "--log", f.path(fmt.Sprint("forgetful", i)))...)
	}
	said, code := f.recover("show", path, rival)
	require.Equal(f.t, 7, code)
	require.Contains(f.t, said, fmt.Sprintf("%d keys signed both", len(f.keys)))

	x6 := f.n.Nodes[6]
	require.NoError(f.t, f.n.Stop(f.t.Context(), 6))
	said, code = f.recover("apply", rival, "--dir", x6.Dir, "--hash", x.Hash().Hex())
	require.Equal(f.t, 7, code, said)
	require.Contains(f.t, said, "another recovery with the same predecessor")
	require.NoError(f.t, f.n.Restart(f.t.Context(), 6))
	until(f.t, f.n, 6, "it follows the first one still", func(s Status) bool { return s.Synced && s.Final > f.final })
}

// empty leaves a stopped node its keys and settings alone: it joins from block 0.
func (f *lostQuorum) empty(i int) {
	entries, err := os.ReadDir(f.n.Nodes[i].Dir)
	require.NoError(f.t, err)
	for _, e := range entries {
		switch e.Name() {
		case "keys", config.FileName, filepath.Base(f.n.Nodes[i].LogFile()):
		default:
			require.NoError(f.t, os.RemoveAll(filepath.Join(f.n.Nodes[i].Dir, e.Name())))
		}
	}
}

// sizes are those of nodes' log files.
func (f *lostQuorum) sizes(nodes ...int) (out []int64) {
	for _, i := range nodes {
		st, err := os.Stat(f.n.Nodes[i].LogFile())
		require.NoError(f.t, err)
		out = append(out, st.Size())
	}
	return out
}

// alarmed reports whether a node raises an alarm that names a recovery.
func (f *lostQuorum) alarmed(i int, hash common.Hash) bool {
	var list []json.RawMessage
	if client(f.t, f.n, i).Client().CallContext(f.t.Context(), &list, "bor_alarms") != nil {
		return false
	}
	for _, a := range list {
		if strings.Contains(string(a), hash.Hex()) {
			return true
		}
	}
	return false
}
