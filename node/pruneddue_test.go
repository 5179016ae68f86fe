package node

import (
	"math"
	"math/big"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/blockstore"
	"github.com/bornode/bornode/internal/vfs/faultfs"
)

const (
	prunedBlocks  = 50
	prunedSpacing = 8640 // seconds between two blocks: ten in a day
)

// segmentsOfOne is a store of blocks that fill a segment each, and its disk.
func segmentsOfOne(t *testing.T) (*faultfs.Disk, blockstore.Config) {
	t.Helper()
	disk := faultfs.New()
	cfg := blockstore.DefaultConfig()
	cfg.FS, cfg.SegmentBytes = disk, 4<<10
	s, err := blockstore.Open(cfg, nil, nil)
	require.NoError(t, err)
	var chain []*block.Block
	var parent common.Hash
	for height := range uint64(prunedBlocks) {
		b := &block.Block{SealedHeader: &block.SealedHeader{}}
		b.Transactions = types.Transactions{types.NewTx(&types.LegacyTx{
			Nonce: height, GasPrice: big.NewInt(1), To: &common.Address{1}, Value: new(big.Int), Data: make([]byte, 5<<10),
			V: big.NewInt(27), R: big.NewInt(1), S: big.NewInt(1),
		})}
		b.Senders = []common.Address{{2}}
		b.Record = &block.Record{Version: block.RecordVersion, Slot: height, BodyDigest: block.BodyDigest(b.Transactions, b.Senders)}
		extra, withdrawals, requests := b.Record.Hash(), types.EmptyWithdrawalsHash, types.EmptyRequestsHash
		b.Header = &types.Header{
			ParentHash: parent, UncleHash: types.EmptyUncleHash, Number: new(big.Int).SetUint64(height), Difficulty: new(big.Int),
			GasLimit: 30_000_000, Time: 1_000_000 + height*prunedSpacing, Extra: extra[:], BaseFee: new(big.Int), ReceiptHash: types.EmptyReceiptsHash,
			WithdrawalsHash: &withdrawals, RequestsHash: &requests, BlobGasUsed: new(uint64), ExcessBlobGas: new(uint64), ParentBeaconRoot: &common.Hash{},
		}
		b.Seal[64] = 1
		chain, parent = append(chain, b), b.Hash()
	}
	require.NoError(t, s.AppendFinal(chain, block.FinalUpdate{}))
	require.Len(t, s.Segments(), prunedBlocks)
	require.NoError(t, s.Close())
	return disk, cfg
}

// What is due is due to the block, whichever of the settings, the state on disk and the readers of events wants most.
func TestNoBlockTooManyIsPruned(t *testing.T) {
	disk, cfg := segmentsOfOne(t)
	for name, c := range map[string]struct {
		keepBlocks, keepDays, least, floor, readUpTo uint64
		first                                        uint64
	}{
		"the newest ten":                         {keepBlocks: 10, floor: math.MaxUint64, readUpTo: noReader, first: 40},
		"more than there are":                    {keepBlocks: 60, floor: math.MaxUint64, readUpTo: noReader, first: 0},
		"a day, its first second included":       {keepDays: 1, floor: math.MaxUint64, readUpTo: noReader, first: 39},
		"days and blocks":                        {keepBlocks: 12, keepDays: 1, floor: math.MaxUint64, readUpTo: noReader, first: 38},
		"what a start needs at least":            {keepDays: 1, least: 20, floor: math.MaxUint64, readUpTo: noReader, first: 30},
		"what a start executes again":            {keepBlocks: 10, floor: 30, readUpTo: noReader, first: 30},
		"what the broker has not read":           {keepBlocks: 10, floor: math.MaxUint64, readUpTo: 19, first: 20},
		"nothing, since the broker read nothing": {keepBlocks: 10, floor: math.MaxUint64, readUpTo: 0, first: 1},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := cfg
			cfg.FS = disk.Copy()
			s, err := blockstore.Open(cfg, nil, nil)
			require.NoError(t, err)
			defer s.Close()
			h := &historyPruner{
				keepBlocks: c.keepBlocks, keepDays: c.keepDays, least: c.least, store: s, log: zap.NewNop(),
				replayFloor: func() (uint64, error) { return c.floor, nil },
			}
			h.readUpTo.Store(c.readUpTo)
			for more := true; more; {
				more, err = h.prune()
				require.NoError(t, err)
			}
			require.Equal(t, c.first, s.FirstHeight())
		})
	}
}

// While it is not known how old a block is, nothing goes for its age.
func TestNothingIsPrunedForItsAgeWhileATimeIsUnknown(t *testing.T) {
	disk, cfg := segmentsOfOne(t)
	s, err := blockstore.Open(cfg, nil, nil)
	require.NoError(t, err)
	var names []string
	for _, seg := range s.Segments()[1 : prunedBlocks-1] {
		names = append(names, seg.Name)
	}
	require.NoError(t, s.Close())
	for _, name := range names {
		require.NoError(t, disk.Corrupt(name, func(b []byte) []byte { b[len(b)/2] ^= 1; return b }))
	}
	s, err = blockstore.Open(cfg, nil, nil)
	require.NoError(t, err)
	defer s.Close()
	h := &historyPruner{keepDays: 1, store: s, log: zap.NewNop(), replayFloor: func() (uint64, error) { return math.MaxUint64, nil }}
	h.readUpTo.Store(noReader)
	_, err = h.prune()
	require.ErrorAs(t, err, new(blockstore.ErrCorrupt))
	require.Zero(t, s.FirstHeight())
}
