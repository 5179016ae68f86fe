package node

import (
	"context"

	"go.uber.org/zap"
)

// repairs is the block store as the owner of damaged blocks: the synchronisation mends them, readers wait for that.
type repairs struct{ n *Node }

// Damaged lists the irreversible blocks that are to be fetched again. Block 0 no peer sends: genesis makes it.
func (r repairs) Damaged() []uint64 {
	heights := r.n.store.Damaged()
	if len(heights) == 0 || heights[0] != 0 {
		return heights
	}
	if err := r.n.store.Replace(0, r.n.chain.Genesis()); err != nil {
		r.n.log.Error("block 0 is damaged and cannot be put in its place", zap.Error(err))
	}
	return heights[1:]
}

func (r repairs) RepairsWanted() <-chan struct{} { return r.n.store.RepairsWanted() }

func (r repairs) RepairImpossible(height uint64, cause error) {
	r.n.store.RepairImpossible(height, cause)
}

// ReadRepaired implements blocksync.Repairs and rpc.Repairs.
func (r repairs) ReadRepaired(ctx context.Context, read func() error) error {
	return r.n.store.ReadRepaired(ctx, read)
}
