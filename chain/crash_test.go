package chain

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/blockstore"
	"github.com/bornode/bornode/genesis"
	"github.com/bornode/bornode/internal/failpoint"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/rlp"
	"github.com/stretchr/testify/require"
)

// life is a scripted life of a node that goes through every durable write: switches short and deep, a run of final
// blocks, a block of its own, flushes, a clean stop. It can be started again at any point.
type life struct {
	Trunk, Fork []*block.Block // Trunk[i] has height i+1; Fork stands on trunk block forkAt
	gen         *testGenesis
}

const (
	forkAt    = 10
	forkLen   = 160
	voteAt    = 120 // from here on the trunk has a voted gas limit
	trunkSeen = 155 // before the run of final blocks; more than 128 above the fork
	trunkLen  = 300
)

func lifeGenesis(t testing.TB) *testGenesis {
	return newTestGenesis(t, func(g *testGenesis) {
		g.params.EpochBlocks = 40
		withMembers(g)
	})
}

func makeLife(t testing.TB) *life {
	l := &life{gen: lifeGenesis(t)}
	n := newTestNode(t, l.gen)
	l.Trunk = n.branch(n.Head(), forkAt, 0, 50)
	l.Trunk = append(l.Trunk, n.decideIn(n.transfer(0, 50), n.parameter(voteAt, genesis.GasLimit, "40000000"))) // on the trunk alone
	l.Trunk = append(l.Trunk, n.branch(n.Head(), trunkLen-len(l.Trunk), 0, 50)...)
	require.EqualValues(t, voted, l.Trunk[voteAt-1].Header.GasLimit)
	_, err := n.SetHead(context.Background(), l.Trunk[forkAt-1].Hash())
	require.NoError(t, err)
	l.Fork = n.branch(l.Trunk[forkAt-1].SealedHeader, forkLen, 1, 60)
	return l
}

type crashNode struct {
	*Chain
	store *blockstore.Store
}

// openLife opens the node of a life: small files, and the state is written every 128 blocks.
func openLife(dir string, gen *testGenesis) (*crashNode, error) {
	cfg := testConfig("")
	cfg.FlushBlocks = layersKept
	return openCrashNode(dir, gen, cfg)
}

func openCrashNode(dir string, gen *testGenesis, cfg Config) (*crashNode, error) {
	sc := blockstore.DefaultConfig()
	sc.Dir = filepath.Join(dir, "blocks")
	s, err := blockstore.Open(sc, nil, nil)
	if err != nil {
		return nil, err
	}
	cfg.Dir = filepath.Join(dir, "state")
	c, err := Open(context.Background(), cfg, gen, s, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("%w (store closed: %w)", err, s.Close())
	}
	return &crashNode{c, s}, nil
}

func (n *crashNode) close() error {
	if err := n.Close(); err != nil {
		return err
	}
	return n.store.Close()
}

// adopt adds blocks above LIB and makes the last of them the head. It reports false if they left the tree for good.
func (n *crashNode) adopt(bs []*block.Block) error {
	for _, b := range bs {
		lib := n.Final()
		if b.Number() <= lib.Number() {
			if h, err := n.CanonicalHash(b.Number()); err != nil || h != b.Hash() {
				return err // nil: a losing branch
			}
			continue
		}
		b = copyOf(b)
		if err := n.CheckBody(b, false); err != nil {
			return err
		}
		if err := n.Add([]*block.Block{b}); err != nil {
			return err
		}
	}
	last := bs[len(bs)-1]
	if last.Number() <= n.Final().Number() {
		return nil
	}
	res, err := n.SetHead(context.Background(), last.Hash())
	if err == nil {
		err = res.Reason
	}
	return err
}

func (n *crashNode) finalTo(trunk []*block.Block, height uint64, drop []*block.Block) error {
	var f block.FinalUpdate
	for h := n.Final().Number() + 1; h <= height; h++ {
		f.Hashes = append(f.Hashes, trunk[h-1].Hash())
	}
	if len(f.Hashes) == 0 {
		return nil
	}
	for _, b := range drop {
		f.Drop = append(f.Drop, b.Hash())
	}
	return n.Finalize(f)
}

func (l *life) live(dir string) error {
	n, err := openLife(dir, l.gen)
	if err != nil {
		return err
	}
	steps := []func() error{
		func() error { return n.adopt(l.Trunk[:20]) },
		func() error { return n.finalTo(l.Trunk, 8, nil) },
		func() error { return n.adopt(l.Fork[:3]) },
		func() error { return n.adopt(l.Trunk[:trunkSeen]) },
		func() error { return n.adopt(l.Fork) },
		func() error { return n.adopt(l.Trunk[:trunkSeen]) },
		func() error { return n.finalTo(l.Trunk, 100, l.Fork) },
		func() error { return n.importRest(l.Trunk) },
		n.buildOne,
	}
	for i, step := range steps {
		if err := step(); err != nil {
			return fmt.Errorf("step %d: %w", i, err)
		}
	}
	if err := n.close(); err != nil {
		return err
	}
	if n, err = openLife(dir, l.gen); err != nil {
		return err
	}
	return n.close()
}

func (n *crashNode) importRest(trunk []*block.Block) error {
	var run []*block.Block
	for h := n.Final().Number() + 1; h <= uint64(len(trunk)); h++ {
		b := copyOf(trunk[h-1])
		if err := n.CheckBody(b, true); err != nil {
			return err
		}
		run = append(run, b)
	}
	if len(run) == 0 {
		return nil
	}
	return n.ImportFinal(context.Background(), run, finalOf(run))
}

func (n *crashNode) buildOne() error {
	h := n.Head()
	if h.Number() > trunkLen {
		return nil
	}
	b, err := n.Build(context.Background(), BuildRequest{Parent: h.Hash(), Slot: h.Slot() + 1, Coinbase: testAccount(1000)})
	if err != nil {
		return err
	}
	if err := n.InsertBuilt(b, [65]byte{1}); err != nil {
		return err
	}
	res, err := n.SetHead(context.Background(), b.Block.Hash())
	if err == nil {
		err = res.Reason
	}
	return err
}

type lifeFile struct{ Trunk, Fork []*block.Block }

// TestCrashChild is the process that gets killed; without its variable it does nothing.
func TestCrashChild(t *testing.T) {
	dir := os.Getenv("BORNODE_CHAIN_CRASH")
	if dir == "" {
		return
	}
	raw, err := os.ReadFile(filepath.Join(filepath.Dir(dir), "life.rlp"))
	require.NoError(t, err)
	var f lifeFile
	require.NoError(t, rlp.DecodeBytes(raw, &f))
	l := &life{Trunk: f.Trunk, Fork: f.Fork, gen: lifeGenesis(t)}
	require.NoError(t, l.live(dir))
	_, _ = os.Stdout.WriteString("survived\n")
}

// TestKilledAnywhere kills the process at each fail point and lets the next one open the data directory, check it and
// live on to the same end.
func TestKilledAnywhere(t *testing.T) {
	l := makeLife(t)
	base := t.TempDir()
	raw, err := rlp.EncodeToBytes(&lifeFile{l.Trunk, l.Fork})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(base, "life.rlp"), raw, 0o600))
	want := expectedEnd(t, l)
	points := map[string][]int{
		"chain/genesis-stored": {1}, "chain/genesis-final": {1},
		"chain/add-before": {3}, "chain/add-after": {2, 170},
		"chain/commit-before": {1, 30, 200, 500}, "chain/commit-after": {1, 150, 320},
		"chain/switch-abandoned": {1, 7, 20, 160}, "chain/switch-executed": {22, 165, 300}, "chain/switch-adopted": {2},
		"chain/rollback-before": {1, 2}, "chain/rollback-after": {1, 2},
		"chain/finalize-before": {1, 2}, "chain/finalize-after": {1, 2},
		"chain/import-before": {1}, "chain/import-after": {1},
		"chain/flush-before": {1, 2}, "chain/flush-after": {1, 2},
		"chain/receipts-before": {5, 400}, "chain/receipts-after": {9},
		"chain/built-before": {1}, "chain/built-after": {1},
		"chain/close-before-journal": {1, 2}, "chain/close-after-journal": {1},
	}
	short := []string{"chain/genesis-stored", "chain/add-after", "chain/commit-before", "chain/switch-abandoned", "chain/rollback-after", "chain/finalize-after", "chain/import-after", "chain/flush-after", "chain/built-after"}
	for name, counts := range points {
		if !long() {
			if !slices.Contains(short, name) {
				continue
			}
		}
		if os.Getenv("BORNODE_STORMS") == "" {
			counts = counts[:1] // the further ones in storms
		}
		for _, k := range counts {
			t.Run(fmt.Sprintf("%s:%d", filepath.Base(name), k), func(t *testing.T) {
				dir := filepath.Join(base, fmt.Sprintf("%s-%d", filepath.Base(name), k))
				kill(t, dir, fmt.Sprintf("%s:%d", name, k))
				checkOpened(t, dir, l)
				require.NoError(t, l.live(dir))
				checkEnd(t, dir, l, want)
				require.NoError(t, os.RemoveAll(dir))
			})
		}
	}
}

func kill(t *testing.T, dir, point string) {
	cmd := exec.Command(os.Args[0], "-test.run=^TestCrashChild$", "-test.v=false")
	cmd.Env = append(os.Environ(), "BORNODE_CHAIN_CRASH="+dir, failpoint.Variable+"="+point)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit, "the child did not reach the fail point: %s", out)
	require.Equal(t, syscall.SIGKILL, exit.Sys().(syscall.WaitStatus).Signal(), "%s", out)
	require.False(t, bytes.Contains(out, []byte("survived")))
}

// checkOpened opens what a kill left: the head's state is there and the executed branch hangs together.
func checkOpened(t *testing.T, dir string, l *life) {
	n, err := openLife(dir, l.gen)
	require.NoError(t, err)
	defer func() { require.NoError(t, n.close()) }()
	h := n.Head()
	require.GreaterOrEqual(t, h.Number(), n.Final().Number())
	db, err := n.StateAt(h.Header)
	require.NoError(t, err)
	require.EqualValues(t, min(h.Number(), trunkLen), db.GetNonce(testAccount(0)), "one transfer a block")
	for x := h; x.Number() > 0; {
		p, err := n.Sealed(x.Parent())
		require.NoError(t, err)
		require.NotNil(t, p, "block %d", x.Number()-1)
		at, err := n.CanonicalHash(p.Number())
		require.NoError(t, err)
		require.Equal(t, p.Hash(), at)
		x = p
	}
}

func expectedEnd(t *testing.T, l *life) common.Hash {
	dir := filepath.Join(t.TempDir(), "whole")
	require.NoError(t, l.live(dir))
	n, err := openLife(dir, l.gen)
	require.NoError(t, err)
	defer func() { require.NoError(t, n.close()) }()
	require.EqualValues(t, trunkLen+1, n.Head().Number())
	return n.Head().Hash()
}

func checkEnd(t *testing.T, dir string, l *life, want common.Hash) {
	n, err := openLife(dir, l.gen)
	require.NoError(t, err)
	defer func() { require.NoError(t, n.close()) }()
	require.Equal(t, want, n.Head().Hash())
	require.EqualValues(t, trunkLen, n.Final().Number())
	for _, b := range []*block.Block{l.Trunk[0], l.Trunk[49], l.Trunk[150], l.Trunk[299]} {
		rs, err := n.Receipts(b.Hash())
		require.NoError(t, err)
		require.Len(t, rs, 1)
		found, err := n.Transaction(b.Transactions[0].Hash())
		require.NoError(t, err)
		require.NotNil(t, found, "transaction of block %d", b.Number())
		require.Equal(t, b.Hash(), found.Block)
	}
}
