package testnet

import (
	"context"
	"io/fs"
	"math/big"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/internal/vfs"
	"github.com/bornode/bornode/internal/vfs/faultfs"
	"github.com/bornode/bornode/internal/vfs/faultmount"
	"github.com/bornode/bornode/testnet/load"
)

// powerNode is a node whose folder lies on a mounted disk that can lose its power.
type powerNode struct {
	n     *Network
	x     *Node
	mount *faultmount.Mount
}

// moveToMount stops a node, copies its folder to a disk of memory, mounts that over the folder and starts the node.
func moveToMount(t *testing.T, n *Network, i int) *powerNode {
	t.Helper()
	x := n.Nodes[i]
	require.NoError(t, n.Stop(t.Context(), i))
	disk := faultfs.New()
	require.NoError(t, filepath.WalkDir(x.Dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(x.Dir, path)
		switch {
		case err != nil || d.Type()&^fs.ModeDir != 0: // sockets
			return err
		case d.IsDir():
			return disk.Mkdir(name)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return vfs.ReplaceFile(disk, name, data)
	}))
	p := &powerNode{n: n, x: x}
	p.plugIn(t, disk)
	t.Cleanup(func() { // after a failure: in order the test has done it
		if p.mount != nil {
			_ = n.Kill(context.Background(), i)
			p.unplug(t)
		}
	})
	require.NoError(t, n.Restart(t.Context(), i))
	return p
}

func (p *powerNode) plugIn(t *testing.T, disk *faultfs.Disk) {
	t.Helper()
	m, err := faultmount.New(p.x.Dir, disk)
	require.NoError(t, err)
	p.mount = m
}

// unplug ends the mount and keeps the log, which the end of the test reads, in the folder below.
func (p *powerNode) unplug(t *testing.T) {
	t.Helper()
	text, err := os.ReadFile(p.x.LogFile())
	require.NoError(t, err)
	require.NoError(t, p.mount.Unmount())
	p.mount = nil
	require.NoError(t, os.WriteFile(p.x.LogFile(), text, 0o600))
}

// cutPower takes what the disk holds at one moment of its life, ends the process, and plugs the node in with what
// a power cut left.
func cutPower(t *testing.T, rng *rand.Rand, nodes ...*powerNode) {
	t.Helper()
	left := make([]*faultfs.Disk, len(nodes))
	for k, p := range nodes {
		left[k] = p.mount.Disk().Crash(rng.Uint64N(1000)) // seed 0 keeps nothing but what was synced
	}
	for k, p := range nodes {
		require.NoError(t, p.n.Kill(t.Context(), p.x.Index))
		p.unplug(t)
		p.plugIn(t, left[k])
	}
	for _, p := range nodes {
		require.NoError(t, p.n.startNode(p.x))
	}
	for _, p := range nodes {
		until(t, p.n, p.x.Index, "in sync after a power cut", func(s Status) bool { return s.Synced })
	}
}

// TestPowerCuts: the unchanged program, with every library that writes files for it, on disks of which a power cut keeps only
// what was synced, and of the rest any part. A node comes back by itself each time; what any node has called final stays
// final, also when all producers lose power in the same moment; nobody signs twice.
func TestPowerCuts(t *testing.T) {
	cuts := 4
	switch {
	case os.Getenv("BORNODE_STORMS") != "":
		cuts = 200
	case long():
		cuts = 8
	}
	n := upNetwork(t, func(s *Spec) { s.Slot, s.Set = 100*time.Millisecond, append(s.Set, "chain.flush_blocks=128") })
	finalAbove(t, n, 5, 0, 1, 2, 3)
	var nodes []*powerNode
	for i := range n.Nodes {
		nodes = append(nodes, moveToMount(t, n, i))
		until(t, n, i, "in sync on its new disk", func(s Status) bool { return s.Synced })
	}
	ctx, cancel := context.WithCancel(t.Context())
	loaded := make(chan struct{})
	go func() {
		defer close(loaded)
		opts, err := n.loadOptions(LoadOptions{Kind: load.Contract, Rate: 40, Duration: 2 * time.Second, Drain: time.Second})
		for err == nil && ctx.Err() == nil {
			_, _ = load.Run(ctx, opts) // whoever it talks to may lose power
		}
	}()
	seed := uint64(time.Now().UnixNano()) //nolint:gosec // any
	t.Logf("seed %d, %d cuts", seed, cuts)
	rng := rand.New(rand.NewPCG(seed, 1))
	final := make(map[uint64]common.Hash)
	noteFinal := func() (highest uint64) {
		for i := range n.Nodes {
			c := client(t, n, i)
			s := until(t, n, i, "an answer", func(Status) bool { return true })
			h, err := c.HeaderByNumber(t.Context(), new(big.Int).SetUint64(s.Final))
			require.NoError(t, err)
			if known, ok := final[s.Final]; ok {
				require.Equal(t, known, h.Hash(), "block %d was final", s.Final)
			}
			final[s.Final], highest = h.Hash(), max(highest, s.Final)
		}
		return highest
	}
	for cut := range cuts {
		victims := []*powerNode{nodes[rng.IntN(len(nodes))]}
		if cut%4 == 3 {
			victims = nodes
		}
		highest := noteFinal()
		cutPower(t, rng, victims...)
		finalAbove(t, n, highest+uint64(rng.IntN(8)), 0, 1, 2, 3) //nolint:gosec // not negative
	}
	cancel()
	<-loaded
	noteFinal()
	sameChain(t, n, 0, 1, 2, 3)
	c := client(t, n, 0)
	for height, hash := range final {
		h, err := c.HeaderByNumber(t.Context(), new(big.Int).SetUint64(height))
		require.NoError(t, err)
		require.Equal(t, hash, h.Hash(), "block %d was final", height)
	}
	for _, x := range n.Nodes {
		require.Zero(t, metric(t, x, "bornode_consensus_evidence_total"), "somebody signed twice")
	}
	for i := range n.Nodes {
		require.NoError(t, n.Stop(t.Context(), i))
		out, err := bornode(t, nil, "fsck", "--dir", n.Nodes[i].Dir)
		require.NoError(t, err, out)
		nodes[i].unplug(t)
	}
}
