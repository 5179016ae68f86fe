package chain

import (
	"context"
	"math/big"
	"testing"

	"github.com/bornode/bornode/block"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/holiman/uint256"
	"github.com/stretchr/testify/require"
)

// forge copies a block and lets change spoil it; the header names the record again afterwards.
func forge(b *block.Block, change func(*block.Block)) *block.Block {
	x := copyOf(b)
	change(x)
	x.Header.Extra = x.Record.Hash().Bytes()
	return copyOf(x) // a fresh hash
}

func TestWrongHeadersAreRefused(t *testing.T) {
	gen := newTestGenesis(t, nil)
	maker, n := newTestNode(t, gen), newTestNode(t, gen)
	first := maker.build(0, maker.transfer(0, 50))
	good := maker.build(1, maker.transfer(0, 50), maker.transfer(1, 51))
	n.give(first)
	one := uint64(1)
	cases := map[string]struct {
		change func(*block.Block)
		says   string
	}{
		"time": {func(b *block.Block) { b.Header.Time++ }, "time is"},
		"slot": {func(b *block.Block) {
			b.Record.Slot = first.Slot()
			b.Header.Time = gen.params.HeaderTime(first.Slot())
		}, "is not above its parent's slot"},
		"uncles":          {func(b *block.Block) { b.Header.UncleHash = common.Hash{1} }, "uncle hash"},
		"difficulty":      {func(b *block.Block) { b.Header.Difficulty = big.NewInt(1) }, "difficulty"},
		"nonce":           {func(b *block.Block) { b.Header.Nonce[7] = 1 }, "nonce"},
		"gas limit":       {func(b *block.Block) { b.Header.GasLimit++ }, "gas limit is"},
		"gas used above":  {func(b *block.Block) { b.Header.GasUsed = b.Header.GasLimit + 1 }, "above the limit"},
		"gas used":        {func(b *block.Block) { b.Header.GasUsed++ }, "gas used is"},
		"base fee":        {func(b *block.Block) { b.Header.BaseFee = big.NewInt(7) }, "base fee"},
		"mix digest":      {func(b *block.Block) { b.Header.MixDigest[0]++ }, "mix digest"},
		"withdrawals":     {func(b *block.Block) { b.Header.WithdrawalsHash = &common.Hash{} }, "withdrawals hash"},
		"blob gas":        {func(b *block.Block) { b.Header.BlobGasUsed = &one }, "blob gas"},
		"excess blob gas": {func(b *block.Block) { b.Header.ExcessBlobGas = &one }, "excess blob gas"},
		"beacon root":     {func(b *block.Block) { b.Header.ParentBeaconRoot = &common.Hash{1} }, "beacon root"},
		"requests":        {func(b *block.Block) { b.Header.RequestsHash = &common.Hash{1} }, "requests hash"},
		"bloom":           {func(b *block.Block) { b.Header.Bloom[3] = 1 }, "log bloom"},
		"receipts":        {func(b *block.Block) { b.Header.ReceiptHash[0]++ }, "receipt root"},
		"state root":      {func(b *block.Block) { b.Header.Root[0]++ }, "state root"},
		"coinbase":        {func(b *block.Block) { b.Header.Coinbase = testAccount(3) }, ""}, // pays nobody at base fee 0: consensus' business
		"next schedule":   {func(b *block.Block) { b.Record.Next = gen.schedule }, "does not end an epoch"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			x := forge(good, c.change)
			require.NoError(t, n.CheckBody(x, false))
			require.NoError(t, n.Add([]*block.Block{x}))
			res, err := n.SetHead(context.Background(), x.Hash())
			require.NoError(t, err)
			if c.says == "" {
				require.NoError(t, res.Reason)
				_, err = n.SetHead(context.Background(), first.Hash())
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, res.Reason, ErrInvalidBlock)
			require.ErrorContains(t, res.Reason, c.says)
			require.Equal(t, x.Hash(), res.Failed)
			require.Equal(t, first.Hash(), n.Head().Hash(), "the head stays on the last good block")
		})
	}
	n.give(good)
}

func TestWrongBodiesAreRefused(t *testing.T) {
	gen := newTestGenesis(t, nil)
	n := newTestNode(t, gen)
	b := n.build(0, n.transfer(0, 50), n.transfer(1, 51))
	body := func(b *block.Block) { b.Record.BodyDigest = block.BodyDigest(b.Transactions, b.Senders) }
	blob := types.MustSignNewTx(testKey(0), n.signer, &types.BlobTx{
		ChainID: uint256.NewInt(7777), Nonce: 2, Gas: 21_000, BlobHashes: []common.Hash{{1}},
		Sidecar: nil, GasFeeCap: uint256.NewInt(1), BlobFeeCap: uint256.NewInt(1),
	})
	cases := map[string]struct {
		change  func(*block.Block)
		says    string
		trusted bool // found although senders are trusted
	}{
		"digest":       {func(b *block.Block) { b.Record.BodyDigest[0]++ }, "body digest", true},
		"tx root":      {func(b *block.Block) { b.Header.TxHash[0]++ }, "transaction root", false},
		"sender":       {func(b *block.Block) { b.Senders[1] = testAccount(9); body(b) }, "the body says", false},
		"sender count": {func(b *block.Block) { b.Senders = b.Senders[:1] }, "1 senders for 2", true},
		"blob": {func(b *block.Block) {
			b.Transactions[1], b.Senders[1] = blob, testAccount(0)
			b.Header.TxHash = block.TxRoot(b.Transactions)
			body(b)
		}, "blob transaction", true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			x := copyOf(b)
			c.change(x)
			x.Header.Extra = x.Record.Hash().Bytes()
			for _, trust := range []bool{false, true} {
				err := n.CheckBody(x, trust)
				if trust && !c.trusted {
					require.NoError(t, err)
					continue
				}
				require.ErrorIs(t, err, ErrInvalidBody)
				require.ErrorContains(t, err, c.says)
			}
		})
	}
	x := copyOf(b)
	x.Record.Slot++
	require.ErrorContains(t, n.CheckBody(x, true), "is not the hash")

	small := newTestNode(t, newTestGenesis(t, func(g *testGenesis) { g.params.MaxBlockBytes = uint64(len(b.Encode())) - 1 }))
	require.NoError(t, small.CheckBody(copyOf(b), false), "before execution only the bound of all chains is known")
	require.NoError(t, small.Add([]*block.Block{copyOf(b)}))
	res, err := small.SetHead(context.Background(), b.Hash())
	require.NoError(t, err)
	require.ErrorIs(t, res.Reason, ErrInvalidBlock)
	require.ErrorContains(t, res.Reason, "bytes")

	to := testAccount(5)
	x = copyOf(b)
	x.Transactions, x.Senders = types.Transactions{n.tx(0, &to, 0, make([]byte, block.MaxBlockBytes), 1)}, x.Senders[:1]
	require.ErrorContains(t, n.CheckBody(x, true), "allowed on any chain")
}

func TestEncodedSize(t *testing.T) {
	n := newTestNode(t, newTestGenesis(t, nil))
	var txs []*types.Transaction
	for _, size := range []int{0, 1, 30, 200, 400, 70_000} {
		to := testAccount(5)
		txs = append(txs, n.tx(0, &to, 0, make([]byte, size), 1_000_000))
	}
	txs = append(txs, types.MustSignNewTx(testKey(1), n.signer, &types.LegacyTx{Gas: 30_000, To: &common.Address{}, GasPrice: big.NewInt(1)}))
	for i := range len(txs) + 1 {
		b := &block.Block{SealedHeader: n.Head(), Transactions: txs[:i], Senders: make([]common.Address, i)}
		require.EqualValues(t, len(b.Encode()), encodedSize(b))
		require.EqualValues(t, len(b.Encode()), encodedSize(copyOf(b)))
	}
}

func TestDescendantsOfAnInvalidBlockFail(t *testing.T) {
	gen := newTestGenesis(t, nil)
	maker, n := newTestNode(t, gen), newTestNode(t, gen)
	first := maker.build(0)
	good := maker.build(0, maker.transfer(0, 50))
	n.give(first)
	bad := forge(good, func(b *block.Block) { b.Header.Root[0]++ })
	child := forge(good, func(b *block.Block) {
		b.Header.ParentHash = bad.Hash()
		b.Header.Number = big.NewInt(3)
		b.Record.Slot++
	})
	require.NoError(t, n.Add([]*block.Block{bad, child}))
	for range 2 { // found, then remembered
		res, err := n.SetHead(context.Background(), child.Hash())
		require.NoError(t, err)
		require.Equal(t, bad.Hash(), res.Failed)
		require.ErrorIs(t, res.Reason, ErrInvalidBlock)
		require.Equal(t, first.Hash(), n.Head().Hash())
	}
	orphan := forge(good, func(b *block.Block) { b.Header.ParentHash = common.Hash{5} })
	require.ErrorIs(t, n.Add([]*block.Block{orphan}), ErrUnknownBlock)
	_, err := n.SetHead(context.Background(), orphan.Hash())
	require.ErrorIs(t, err, ErrUnknownBlock)
	n.give(good)
	require.Equal(t, good.Hash(), n.Head().Hash())
}

func TestImportFinalOfAnInvalidRun(t *testing.T) {
	gen := newTestGenesis(t, nil)
	maker, n := newTestNode(t, gen), newTestNode(t, gen)
	a := maker.build(0)
	b := forge(maker.build(0, maker.transfer(0, 50)), func(b *block.Block) { b.Header.Root[0]++ })
	run := []*block.Block{a, b}
	err := n.ImportFinal(context.Background(), run, finalOf(run))
	require.ErrorIs(t, err, ErrInvalidBlock)
	require.ErrorContains(t, err, "certified block does not execute")
	require.Zero(t, n.FinalHeader().Number.Sign())
	require.Error(t, n.ImportFinal(context.Background(), run[1:], finalOf(run[1:])), "does not continue LIB")
	require.Error(t, n.ImportFinal(context.Background(), run, finalOf(run[:1])))
}
