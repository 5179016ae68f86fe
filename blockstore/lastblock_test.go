package blockstore_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/blockstore"
	"github.com/bornode/bornode/internal/vfs/faultfs"
)

// A start restores the last irreversible block whatever happened to its segment: a node cannot ask a peer for it before it
// runs. It is so behind both ways in which a block becomes irreversible, and the copies of older ones go.
func TestStartRestoresTheLastIrreversibleBlock(t *testing.T) {
	for name, finalize := range map[string]func(t *testing.T, s *blockstore.Store, run []*block.Block){
		"appended": func(t *testing.T, s *blockstore.Store, run []*block.Block) {
			require.NoError(t, s.AppendFinal(run, final(run...)))
		},
		"reversible before": func(t *testing.T, s *blockstore.Store, run []*block.Block) {
			require.NoError(t, s.PutReversible(run))
			require.NoError(t, s.Finalize(final(run...)))
		},
		"one by one in one group": func(t *testing.T, s *blockstore.Store, run []*block.Block) {
			require.NoError(t, s.PutReversible(run[:2]))
			var waits []func() error
			for _, b := range run {
				waits = append(waits, s.AppendFinalAsync([]*block.Block{b}, final(b)))
			}
			for _, wait := range waits {
				require.NoError(t, wait())
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			disk0, chain := damaged(t)
			s := open(t, disk0)
			run := []*block.Block{child(chain[damageBlocks-1], 1, 1, 10)}
			run = append(run, child(run[0], 1, 1, 10))
			run = append(run, child(run[1], 1, 1, 10))
			finalize(t, s, run)
			last := run[2]
			segs := s.Segments()
			active := segs[len(segs)-1]
			e, err := s.Entry(last.Number())
			require.NoError(t, err)
			require.NoError(t, s.Close())
			for how, hurt := range map[string]func(disk *faultfs.Disk){
				"a flipped bit": func(disk *faultfs.Disk) { require.NoError(t, disk.Corrupt(active.Name, flip(int(e.Offset)+60))) },
				"a cut": func(disk *faultfs.Disk) {
					require.NoError(t, disk.Corrupt(active.Name, func(b []byte) []byte { return b[:e.Offset+9] }))
				},
				"a lost file": func(disk *faultfs.Disk) { disk.Lose(active.Name) },
				"all indexes": func(disk *faultfs.Disk) { disk.Lose("index/"); disk.Lose("derived/"); disk.Lose(active.Name) },
			} {
				disk := disk0.Copy()
				hurt(disk)
				s := open(t, disk)
				require.NotContains(t, s.Damaged(), last.Number(), how)
				got, err := s.BlockByHeight(last.Number())
				require.NoError(t, err, how)
				requireSame(t, last, got)
				got, err = s.Block(last.Hash())
				require.NoError(t, err, how)
				requireSame(t, last, got)
				reversible, err := s.Reversible()
				require.NoError(t, err)
				require.Empty(t, reversible, "the copy is no reversible block")
				more := child(last, 1, 1, 10)
				require.NoError(t, s.AppendFinal([]*block.Block{more}, final(more)), how)
				s = reopen(t, s, disk)
				require.NoError(t, s.Close())
			}
		})
	}
}
