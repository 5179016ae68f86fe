package blockstore_test

import (
	"bytes"
	"fmt"
	"math/big"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/trie"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/blockstore"
	"github.com/bornode/bornode/internal/vfs"
	"github.com/bornode/bornode/internal/vfs/faultfs"
)

// child makes a block on parent (nil: block 0). The tag tells siblings apart; txs transactions carry payload bytes
// each.
func child(parent *block.Block, tag byte, txs, payload int) *block.Block {
	var height, slot uint64
	var parentHash common.Hash
	if parent != nil {
		height, slot, parentHash = parent.Number()+1, parent.Slot()+1+uint64(tag), parent.Hash()
	}
	b := &block.Block{SealedHeader: &block.SealedHeader{}}
	for i := range txs {
		b.Transactions = append(b.Transactions, types.NewTx(&types.LegacyTx{
			Nonce: height<<16 | uint64(i), GasPrice: big.NewInt(1), Gas: 21000, To: &common.Address{tag}, Value: big.NewInt(1),
			Data: bytes.Repeat([]byte{byte(height), byte(i)}, payload/2), V: big.NewInt(27), R: big.NewInt(1), S: big.NewInt(1),
		}))
		b.Senders = append(b.Senders, common.Address{byte(i), tag})
	}
	b.Record = &block.Record{Version: block.RecordVersion, Slot: slot, BodyDigest: block.BodyDigest(b.Transactions, b.Senders)}
	extra := b.Record.Hash()
	withdrawals, requests := types.EmptyWithdrawalsHash, types.EmptyRequestsHash
	b.Header = &types.Header{
		ParentHash: parentHash, UncleHash: types.EmptyUncleHash, Coinbase: common.Address{tag, 7}, Number: new(big.Int).SetUint64(height),
		Difficulty: new(big.Int), GasLimit: 30_000_000, Time: slot, Extra: extra[:], BaseFee: new(big.Int),
		TxHash: types.DeriveSha(b.Transactions, trie.NewStackTrie(nil)), ReceiptHash: types.EmptyReceiptsHash,
		WithdrawalsHash: &withdrawals, RequestsHash: &requests, BlobGasUsed: new(uint64), ExcessBlobGas: new(uint64), ParentBeaconRoot: &common.Hash{},
	}
	b.Seal[0], b.Seal[64] = tag, 1
	return b
}

// line makes n blocks one on another; from nil it begins with block 0.
func line(from *block.Block, n int, tag byte, txs, payload int) []*block.Block {
	out := make([]*block.Block, n)
	for i := range out {
		out[i] = child(from, tag, txs, payload)
		from = out[i]
	}
	return out
}

func hashes(blocks ...*block.Block) []common.Hash {
	var out []common.Hash
	for _, b := range blocks {
		out = append(out, b.Hash())
	}
	return out
}

// proof makes a stand-in certificate on b; the store does not verify it.
func proof(kind block.VoteKind, b *block.Block) *block.Certificate {
	return &block.Certificate{Link: block.Link{Kind: kind, Source: b.Point(), Target: b.Point()}, Bitmaps: [][]byte{{7}}}
}

func final(blocks ...*block.Block) block.FinalUpdate {
	last := blocks[len(blocks)-1]
	return block.FinalUpdate{
		Hashes: hashes(blocks...), QC: proof(block.Prevote, last), FC: proof(block.Precommit, last),
		Root: fmt.Appendf(nil, "root of %s", last.Hash()),
	}
}

func receiptsOf(b *block.Block) types.Receipts {
	var out types.Receipts
	for i, tx := range b.Transactions {
		out = append(out, &types.Receipt{
			Status: 1, CumulativeGasUsed: uint64(i+1) * 21000, TxHash: tx.Hash(),
			Logs: []*types.Log{{Address: common.Address{1}, Topics: []common.Hash{{byte(i)}}, Data: []byte("log")}},
		})
	}
	return out
}

func config(fs vfs.FS) blockstore.Config {
	cfg := blockstore.DefaultConfig()
	cfg.FS, cfg.SegmentBytes, cfg.MetaBuffer, cfg.IndexBuffer, cfg.IndexCache = fs, 8<<10, 64<<10, 64<<10, 0
	return cfg
}

func open(t testing.TB, fs vfs.FS) *blockstore.Store {
	t.Helper()
	s, err := blockstore.Open(config(fs), nil, nil)
	require.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

func reopen(t testing.TB, s *blockstore.Store, disk *faultfs.Disk) *blockstore.Store {
	t.Helper()
	require.NoError(t, s.Close())
	return open(t, disk)
}

func requireSame(t testing.TB, want, got *block.Block) {
	t.Helper()
	require.Equal(t, want.Encode(), got.Encode())
}

// requireChain checks that the store serves exactly these irreversible blocks by every way in.
func requireChain(t testing.TB, s *blockstore.Store, blocks []*block.Block) {
	t.Helper()
	height, hash := s.LIB()
	last := blocks[len(blocks)-1]
	require.Equal(t, last.Number(), height)
	require.Equal(t, last.Hash(), hash)
	for _, b := range blocks {
		got, err := s.BlockByHeight(b.Number())
		require.NoError(t, err)
		requireSame(t, b, got)
		got, err = s.Block(b.Hash())
		require.NoError(t, err)
		requireSame(t, b, got)
		h, err := s.HeaderByHeight(b.Number())
		require.NoError(t, err)
		require.Equal(t, b.Hash(), h.Hash())
	}
	_, err := s.BlockByHeight(height + 1)
	require.ErrorIs(t, err, blockstore.ErrNotFound)
	next := blocks[0].Number()
	require.NoError(t, s.Range(next, height+10, 0, func(h uint64, raw []byte) error {
		require.Equal(t, next, h)
		require.Equal(t, blocks[h-blocks[0].Number()].Encode(), raw)
		next++
		return nil
	}))
	require.Equal(t, height+1, next)
}
