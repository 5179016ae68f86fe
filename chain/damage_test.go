package chain

import (
	"context"
	"errors"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/block"
)

// A block whose execution asks for the hash of a block that is damaged here is neither built wrongly nor called
// invalid: the fault is this node's, and once the block is readable again the same block is executed.
func TestHashOfADamagedBlock(t *testing.T) {
	contract := common.Address{0xb1}
	gen := newTestGenesis(t, func(g *testGenesis) {
		// slot0 = BLOCKHASH(NUMBER - 8)
		g.alloc[contract] = types.Account{Code: common.FromHex("0x60084303405f5500"), Balance: common.Big0}
	})
	n, other := newTestNode(t, gen), newTestNode(t, gen)
	var blocks []*block.Block
	for range 12 {
		blocks = append(blocks, n.build(0))
	}
	n.finalize(blocks[:10]...)
	other.give(blocks...)
	tx := n.tx(0, &contract, 0, nil, 100_000)
	good := other.buildOn(other.Head(), 0, tx)

	n.store.bad = make(map[uint64]error)
	damage := func(on bool) {
		n.store.mu.Lock()
		defer n.store.mu.Unlock()
		clear(n.store.bad)
		for _, b := range blocks[:10] {
			if on {
				n.store.bad[b.Number()] = block.ErrCorrupt{Height: b.Number(), Cause: errors.New("checksum differs")}
			}
		}
		n.headers.Purge()
	}
	damage(true)
	_, err := n.Build(context.Background(), BuildRequest{Parent: n.Head().Hash(), Slot: n.Head().Slot() + 1, Coinbase: good.Header.Coinbase, Txs: &listSource{txs: types.Transactions{tx}}})
	var corrupt block.ErrCorrupt
	require.ErrorAs(t, err, &corrupt)
	require.NoError(t, n.Add([]*block.Block{copyOf(good)}))
	res, err := n.SetHead(context.Background(), good.Hash())
	require.ErrorAs(t, err, &corrupt)
	require.NotErrorIs(t, err, ErrInvalidBlock)
	require.NoError(t, res.Reason)

	h, err := n.Chain.HeaderByHash(blocks[3].Hash())
	require.Nil(t, h)
	require.ErrorAs(t, err, &corrupt)
	n.bodies.remove(blocks[3].Hash())
	_, err = n.Receipts(blocks[3].Hash())
	require.Error(t, err)

	n.store.mu.Lock() // as at a start whose state is older
	n.store.final = append(n.store.final, blocks[10], blocks[11], good)
	n.store.mu.Unlock()
	parent := n.Head()
	err = n.catchUp(context.Background(), parent, good.SealedHeader)
	require.ErrorAs(t, err, &corrupt)
	require.ErrorContains(t, err, "bornode fsck --repair --blocks FILE")
	require.NotContains(t, err.Error(), "state directory")

	damage(false)
	res, err = n.SetHead(context.Background(), good.Hash())
	require.NoError(t, err)
	require.NoError(t, res.Reason)
	require.Equal(t, good.Hash(), n.Head().Hash())
}

// A certified run whose execution meets a damaged block is imported by the same call once the block is readable, also
// if the store has made the run final meanwhile.
func TestImportIsRepeatedAfterDamage(t *testing.T) {
	contract := common.Address{0xb1}
	gen := newTestGenesis(t, func(g *testGenesis) {
		// slot0 = BLOCKHASH(NUMBER - 8)
		g.alloc[contract] = types.Account{Code: common.FromHex("0x60084303405f5500"), Balance: common.Big0}
	})
	n, other := newTestNode(t, gen), newTestNode(t, gen)
	var blocks []*block.Block
	for range 12 {
		blocks = append(blocks, n.build(0))
	}
	n.finalize(blocks[:10]...)
	other.give(blocks...)
	good := other.buildOn(other.Head(), 0, n.tx(0, &contract, 0, nil, 100_000))
	run := []*block.Block{copyOf(blocks[10]), copyOf(blocks[11]), copyOf(good)}
	update := block.FinalUpdate{Hashes: []common.Hash{run[0].Hash(), run[1].Hash(), run[2].Hash()}}

	n.store.mu.Lock()
	n.store.bad = make(map[uint64]error)
	for _, b := range blocks[:10] {
		n.store.bad[b.Number()] = block.ErrCorrupt{Height: b.Number(), Cause: errors.New("checksum differs")}
	}
	n.store.mu.Unlock()
	n.headers.Purge()
	for range 2 {
		err := n.ImportFinal(context.Background(), run, update)
		var corrupt block.ErrCorrupt
		require.ErrorAs(t, err, &corrupt)
		require.NotErrorIs(t, err, ErrInvalidBlock)
		require.NotContains(t, err.Error(), "software", "nothing but the damage is wrong")
		require.Equal(t, blocks[9].Hash(), n.Final().Hash())
	}
	n.store.mu.Lock()
	clear(n.store.bad)
	n.store.mu.Unlock()
	require.NoError(t, n.ImportFinal(context.Background(), run, update))
	require.Equal(t, good.Hash(), n.Final().Hash())
	require.Equal(t, good.Hash(), n.Head().Hash())
}
