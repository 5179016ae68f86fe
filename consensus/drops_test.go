package consensus

import (
	"slices"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/block"
)

// versions makes n blocks of one slot on genesis; of two the tree prefers the later.
func (l *lab) versions(n int, slot uint64) (out []*block.Block) {
	for i := range n {
		a := l.schedule.Owner(slot, l.params.TurnSlots).Account
		b := assemble(&l.params, l.genesis, 1, slot, a, &block.Record{}, nil, nil)
		b.Header.MixDigest = common.Hash{byte(i), byte(i >> 8), 9}
		b = &block.Block{SealedHeader: &block.SealedHeader{Header: b.Header, Record: b.Record}}
		out = append(out, sealBy(b, l.signers[l.schedule.Index(a)]))
	}
	slices.SortFunc(out, func(a, b *block.Block) int { return b.Hash().Cmp(a.Hash()) })
	return out
}

func (l *lab) child(p *block.Block, slot uint64) *block.Block {
	a := l.schedule.Owner(slot, l.params.TurnSlots).Account
	return sealBy(assemble(&l.params, p.Hash(), p.Number()+1, slot, a, &block.Record{}, nil, nil), l.signers[l.schedule.Index(a)])
}

// A producer seals many versions of its slot; the next one builds on a version that this node has let go. LIB stands
// still all the while.
func TestEvictedBlockComesBack(t *testing.T) {
	inBubble(t, 4, func(l *lab) {
		m := l.observer()
		m.start(nil)
		l.slots(4)
		vs := l.versions(4, 1)
		for _, v := range vs {
			require.NoError(t, m.driver.AddBlock(m.ctx, v))
		}
		time.Sleep(slotTime)
		w := l.child(vs[0], 2)
		require.ErrorIs(t, m.driver.AddBlock(m.ctx, w), ErrUnknownParent, "the oldest version was evicted")
		require.Nil(t, m.chain.get(vs[0].Hash()), "and deleted, though LIB stands still")
		require.NoError(t, m.driver.AddBlock(m.ctx, vs[0]))
		require.NoError(t, m.driver.AddBlock(m.ctx, w))
		time.Sleep(slotTime)
		s := m.driver.Status()
		require.Equal(t, w.Hash(), s.Executed.Hash)
		require.NotNil(t, m.chain.get(vs[0].Hash()), "what is executed is on disk")
		require.Zero(t, s.LIB.Height)
	})
}

// The executor is busy: the block comes back before anyone was told to delete it.
func TestEvictedBlockComesBackBeforeItIsDeleted(t *testing.T) {
	inBubble(t, 4, func(l *lab) {
		m := l.observer()
		gate := make(chan struct{})
		m.start(func(_ *Config, d *Deps) { m.chain.beforeHead = func() { <-gate } })
		l.slots(4)
		vs := l.versions(4, 1)
		for _, v := range vs {
			require.NoError(t, m.driver.AddBlock(m.ctx, v))
		}
		w := l.child(vs[0], 2)
		require.ErrorIs(t, m.driver.AddBlock(m.ctx, w), ErrUnknownParent)
		require.NoError(t, m.driver.AddBlock(m.ctx, vs[0]))
		require.NoError(t, m.driver.AddBlock(m.ctx, w))
		close(gate)
		time.Sleep(slotTime)
		require.Equal(t, w.Hash(), m.driver.Status().Executed.Hash)
		require.NotNil(t, m.chain.get(vs[0].Hash()))
	})
}

// The block comes back while it is being deleted: it waits, and is stored anew.
func TestEvictedBlockComesBackWhileItIsDeleted(t *testing.T) {
	inBubble(t, 4, func(l *lab) {
		m := l.observer()
		begun, gate := make(chan struct{}, 1), make(chan struct{})
		m.start(func(_ *Config, d *Deps) {
			m.chain.beforeFinalize = func(f block.FinalUpdate) {
				begun <- struct{}{}
				<-gate
			}
		})
		l.slots(4)
		vs := l.versions(4, 1)
		for _, v := range vs {
			require.NoError(t, m.driver.AddBlock(m.ctx, v))
		}
		<-begun
		back := make(chan error, 1)
		go func() { back <- m.driver.AddBlock(m.ctx, vs[0]) }()
		time.Sleep(slotTime)
		require.Empty(t, back, "it waits")
		require.NotNil(t, m.chain.get(vs[0].Hash()))
		m.chain.beforeFinalize = nil
		close(gate)
		require.NoError(t, <-back)
		require.NotNil(t, m.chain.get(vs[0].Hash()))
		require.NoError(t, m.driver.AddBlock(m.ctx, l.child(vs[0], 2)))
		time.Sleep(slotTime)
		require.NotNil(t, m.chain.get(vs[0].Hash()))
	})
}

func TestVersionsOfASlotAreBounded(t *testing.T) {
	inBubble(t, 4, func(l *lab) {
		m := l.observer()
		m.start(nil)
		l.slots(4)
		for _, v := range l.versions(100, 1) {
			require.NoError(t, m.driver.AddBlock(m.ctx, v))
		}
		time.Sleep(slotTime)
		require.Less(t, len(must(m.chain.Reversible())), 8)
	})
}
