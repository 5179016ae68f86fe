package chain

import (
	"context"
	"testing"

	"github.com/bornode/bornode/block"
	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"
)

// dropCase is a node on a real block store with block p, a version v of the next slot and w on top of v.
type dropCase struct {
	*crashNode
	t       *testing.T
	p, v, w *block.Block
}

func newDropCase(t *testing.T) *dropCase {
	gen := newTestGenesis(t, nil)
	maker := newTestNode(t, gen)
	x := &dropCase{t: t, p: maker.build(0)}
	x.v = maker.build(0, maker.transfer(0, 1))
	x.w = maker.build(0)
	n, err := openLife(t.TempDir(), gen)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, n.close()) })
	x.crashNode = n
	for _, b := range []*block.Block{x.p, x.v, x.w} {
		x.add(b)
	}
	return x
}

func (x *dropCase) add(b *block.Block) {
	x.t.Helper()
	require.NoError(x.t, x.Add([]*block.Block{copyOf(b)}))
}

func (x *dropCase) head(b *block.Block) {
	x.t.Helper()
	res, err := x.SetHead(context.Background(), b.Hash())
	require.NoError(x.t, err)
	require.NoError(x.t, res.Reason)
	require.Equal(x.t, b.Hash(), x.Head().Hash())
}

// gone checks that the blocks are nowhere, and that they enter, execute and become final when they come again.
func (x *dropCase) gone(bs ...*block.Block) {
	x.t.Helper()
	for _, b := range bs {
		_, err := x.store.Block(b.Hash())
		require.Error(x.t, err, "block %d is on disk", b.Number())
		require.Nil(x.t, x.node(b.Hash()), "block %d is in the tree", b.Number())
		require.Nil(x.t, x.bodies.get(b.Hash()), "block %d has a body", b.Number())
		_, err = x.SetHead(context.Background(), b.Hash())
		require.ErrorIs(x.t, err, ErrUnknownBlock)
	}
	require.ErrorIs(x.t, x.Add([]*block.Block{copyOf(x.w)}), ErrUnknownBlock)
	for _, b := range bs {
		x.add(b)
		_, err := x.store.Block(b.Hash())
		require.NoError(x.t, err, "block %d came back and is not on disk", b.Number())
	}
	x.add(x.w)
	x.head(x.w)
	f := finalOf([]*block.Block{x.v, x.w})
	if x.Final().Number() == 0 {
		f = finalOf([]*block.Block{x.p, x.v, x.w})
	}
	require.NoError(x.t, x.Finalize(f))
}

func drop(bs ...*block.Block) block.FinalUpdate { return block.FinalUpdate{Drop: finalOf(bs).Hashes} }

func TestDroppedBlockComesBack(t *testing.T) {
	t.Run("with an update of LIB", func(t *testing.T) {
		x := newDropCase(t)
		x.head(x.p)
		f := drop(x.v)
		f.Hashes = finalOf([]*block.Block{x.p}).Hashes
		require.NoError(t, x.Finalize(f))
		x.gone(x.v, x.w)
	})
	t.Run("with an import", func(t *testing.T) {
		x := newDropCase(t)
		f := drop(x.v)
		f.Hashes = finalOf([]*block.Block{x.p}).Hashes
		require.NoError(t, x.ImportFinal(context.Background(), []*block.Block{copyOf(x.p)}, f))
		x.gone(x.v, x.w)
	})
	t.Run("on its own", func(t *testing.T) {
		x := newDropCase(t)
		x.head(x.p)
		require.NoError(t, x.Finalize(drop(x.v)))
		require.Zero(t, x.Final().Number())
		x.gone(x.v, x.w)
	})
	t.Run("under the head", func(t *testing.T) {
		x := newDropCase(t)
		x.head(x.w)
		x.SetSafe(x.v.Hash())
		require.NoError(t, x.Finalize(drop(x.v)))
		require.Equal(t, x.p.Hash(), x.Head().Hash(), "the head moves below what is deleted")
		require.Zero(t, x.Safe().Number())
		x.gone(x.v, x.w)
	})
}

// What is or becomes final is never dropped, whoever asks.
func TestFinalBlocksAreNotDropped(t *testing.T) {
	x := newDropCase(t)
	f := finalOf([]*block.Block{x.p, x.v})
	f.Drop = []common.Hash{x.p.Hash(), x.v.Hash()}
	require.NoError(t, x.Finalize(f))
	require.NoError(t, x.Finalize(drop(x.p, x.v)))
	require.Equal(t, x.v.Hash(), x.Final().Hash())
	x.head(x.w)
	for _, b := range []*block.Block{x.p, x.v, x.w} {
		_, err := x.store.Block(b.Hash())
		require.NoError(t, err)
	}
}

// Our own block waits, built and not yet executed, while the state layers are opened anew.
func TestBuiltBlockOutlivesARollback(t *testing.T) {
	n := newTestNode(t, newTestGenesis(t, nil))
	p := n.build(0, n.transfer(0, 1))
	b := n.buildOn(p.SealedHeader, 0, n.transfer(0, 1))
	require.NoError(t, n.acquire(context.Background()))
	require.NoError(t, n.rollback(context.Background(), p.SealedHeader, n.anyLayer()))
	n.release()
	res, err := n.SetHead(context.Background(), b.Hash())
	require.NoError(t, err)
	require.NoError(t, res.Reason)
	require.Equal(t, []common.Hash{b.Hash()}, res.Executed)
	n.build(0, n.transfer(0, 1))
}

// hookedStore lets a test step in between.
type hookedStore struct {
	Store
	asked     chan struct{} // gets a token when Add looks at the store
	append    chan struct{} // AppendFinal waits until it is closed
	beforePut func()
}

func (s *hookedStore) token() {
	select {
	case s.asked <- struct{}{}:
	default:
	}
}

func (s *hookedStore) LIB() (uint64, common.Hash) { s.token(); return s.Store.LIB() }

func (s *hookedStore) PutReversible(bs []*block.Block) error {
	if s.beforePut != nil {
		s.beforePut()
	}
	s.token()
	return s.Store.PutReversible(bs)
}

func (s *hookedStore) AppendFinal(bs []*block.Block, f block.FinalUpdate) error {
	<-s.append
	return s.Store.AppendFinal(bs, f)
}

// A child of a run whose blocks are executed, but not yet on disk, waits for them.
func TestChildOfARunUnderImport(t *testing.T) {
	x := newDropCase(t)
	require.NoError(t, x.Finalize(drop(x.p)))
	s := &hookedStore{Store: x.store, asked: make(chan struct{}, 1), append: make(chan struct{})}
	x.Chain.store = s
	heads := make(chan HeadEvent, 8)
	defer x.SubscribeHead(heads).Unsubscribe()
	imported, added := make(chan error, 1), make(chan error, 1)
	run := []*block.Block{copyOf(x.p), copyOf(x.v)}
	go func() { imported <- x.ImportFinal(context.Background(), run, finalOf(run)) }()
	for h := range heads {
		if h.Block.Hash() == x.v.Hash() {
			break
		}
	}
	go func() { added <- x.Add([]*block.Block{copyOf(x.w)}) }()
	<-s.asked
	close(s.append)
	require.NoError(t, <-added)
	require.NoError(t, <-imported)
	x.head(x.w)
}

// A block whose parent is dropped while it is on its way has an unknown parent.
func TestParentGoesWhileTheChildIsStored(t *testing.T) {
	x := newDropCase(t)
	require.NoError(t, x.Finalize(drop(x.w)))
	x.Chain.store = &hookedStore{Store: x.store, beforePut: func() { require.NoError(t, x.Finalize(drop(x.v))) }}
	require.ErrorIs(t, x.Add([]*block.Block{copyOf(x.w)}), ErrUnknownBlock)
}
