package testnet

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// damageFile turns a bit of a file at a part of its length.
func damageFile(t *testing.T, name string, part float64) {
	t.Helper()
	b, err := os.ReadFile(name)
	require.NoError(t, err)
	b[int(float64(len(b))*part)] ^= 0x10
	require.NoError(t, os.WriteFile(name, b, 0o600))
}

// segments are the files of a node's topics' log.
func (s *storm) segments(node int) []string {
	s.t.Helper()
	names, err := filepath.Glob(filepath.Join(s.n.Dir, "node"+strconv.Itoa(node), "topics", "log", "*.log"))
	require.NoError(s.t, err)
	require.NotEmpty(s.t, names)
	slices.Sort(names)
	return names
}

// A segment of a broker that is down is damaged: the node starts, makes blocks, and copies again what it lost. Then
// it has everything that was acknowledged, also when the leader that it copied from is gone.
func TestADamagedSegmentCostsACopyThatIsFetchedAgain(t *testing.T) {
	const partitions = 3
	s := newStorm(t, partitions)
	hurt, _ := s.leads(0)
	s.strikeCopied(partitions, func() { require.NoError(t, s.n.Kill(s.ctx, hurt)) })
	s.flows(partitions)
	logs := s.segments(hurt)
	for _, part := range []float64{0.2, 0.5, 0.7} {
		damageFile(t, logs[len(logs)-1], part)
	}
	require.NoError(t, s.n.Restart(s.ctx, hurt))
	finalAbove(t, s.n, uint64(metric(t, s.n.Nodes[(hurt+1)%3], "bornode_chain_final_height_blocks")), hurt)
	s.whole()
	require.NotZero(t, metric(t, s.n.Nodes[hurt], "bornode_topics_store_lost_partitions_total"))
	aside, err := filepath.Glob(logs[len(logs)-1] + ".damaged-*")
	require.NoError(t, err)
	require.Len(t, aside, 1, "the damaged file is kept")

	other := (hurt + 1) % 3
	s.strikeCopied(partitions, func() { require.NoError(t, s.n.Kill(s.ctx, other)) })
	s.flows(partitions)
	s.stop()
	s.wg.Wait()
	s.readBack()
}
