package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/big"
	"os"
	"path/filepath"
	"time"

	"github.com/ethereum/go-ethereum/consensus/beacon"
	"github.com/ethereum/go-ethereum/consensus/ethash"
	"github.com/ethereum/go-ethereum/core"
	"github.com/ethereum/go-ethereum/core/rawdb"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/ethdb"
	"github.com/ethereum/go-ethereum/ethdb/pebble"
	"github.com/ethereum/go-ethereum/rlp"

	"github.com/bornode/bornode/bench/forge"
	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/chain"
	"github.com/bornode/bornode/testnet/load"
)

// gethBatch is how many blocks `geth import` hands to the chain at once.
const gethBatch = 2500

// gethHistory is a history in the form of Ethereum's blocks: the same allocation, the same transactions in the same
// blocks, under go-ethereum's own header rules (proof of stake, so that a header costs it no seal).
type gethHistory struct {
	genesis *core.Genesis
	blocks  [][]byte
}

// makeHistories makes a history for both programs.
func makeHistories(ctx context.Context, p forge.Plan) (*history, *gethHistory, error) {
	h, err := makeHistory(ctx, p)
	if err != nil {
		return nil, nil, fmt.Errorf("bench: history of %s: %w", p.Kind, err)
	}
	g, err := makeGethHistory(h)
	if err != nil {
		return nil, nil, fmt.Errorf("bench: history of %s for go-ethereum: %w", p.Kind, err)
	}
	return h, g, nil
}

// makeGethHistory executes the transactions of h into a chain that go-ethereum takes.
func makeGethHistory(h *history) (*gethHistory, error) {
	params := h.gen.Parameters()
	g := &gethHistory{genesis: &core.Genesis{
		Config: h.gen.ChainConfig(), Alloc: h.gen.Alloc(), GasLimit: params.GasLimit, Timestamp: params.GenesisTime,
		BaseFee: new(big.Int), // the transactions of our histories pay nothing
	}}
	txs := make([][]*types.Transaction, len(h.blocks))
	for i, raw := range h.blocks {
		b, err := block.DecodeBlock(raw, 0)
		if err != nil {
			return nil, fmt.Errorf("block %d: %w", i+1, err)
		}
		txs[i] = b.Transactions
	}
	_, blocks, _ := core.GenerateChainWithGenesis(g.genesis, gethEngine(), len(txs), func(i int, b *core.BlockGen) {
		for _, tx := range txs[i] {
			b.AddTx(tx)
		}
	})
	for _, b := range blocks {
		raw, err := rlp.EncodeToBytes(b)
		if err != nil {
			return nil, err
		}
		g.blocks = append(g.blocks, raw)
	}
	return g, nil
}

func (g *gethHistory) encodedBytes() (sum int64) {
	for _, raw := range g.blocks {
		sum += int64(len(raw))
	}
	return sum
}

func gethEngine() *beacon.Beacon { return beacon.New(ethash.NewFaker()) }

// importOnceIntoGeth imports the history into an empty go-ethereum chain, which it removes afterwards.
func importOnceIntoGeth(ctx context.Context, g *gethHistory) (r importRun, err error) {
	dir, err := os.MkdirTemp("", "bornode-bench")
	if err != nil {
		return r, err
	}
	defer os.RemoveAll(dir)
	return importIntoGeth(ctx, dir, g, nil)
}

// importIntoGeth imports the history into an empty go-ethereum chain in a folder as `geth import` does: decoded one by one,
// inserted in batches, everything checked. It has the memory for caches that our node has by default. The clock stops when
// state and blocks are written and the database is closed. before, if not nil, is called before they are closed.
func importIntoGeth(ctx context.Context, dir string, g *gethHistory, before func(*core.BlockChain, ethdb.Database) error) (r importRun, err error) {
	ours := chain.DefaultConfig()
	kv, err := pebble.New(filepath.Join(dir, "chaindata"), ours.DatabaseCacheMiB, ours.Handles, "", false)
	if err != nil {
		return r, err
	}
	db, err := rawdb.Open(kv, rawdb.OpenOptions{Ancient: filepath.Join(dir, "chaindata", "ancient")})
	if err != nil {
		return r, errors.Join(err, kv.Close())
	}
	closeDB := db.Close
	defer func() { err = errors.Join(err, closeDB()) }()
	cfg := core.DefaultConfig().WithStateScheme(rawdb.PathScheme)
	cfg.TrieCleanLimit, cfg.TrieDirtyLimit, cfg.SnapshotLimit = ours.TrieCacheMiB, ours.WriteBufferMiB, ours.StateCacheMiB
	cfg.StateHistory, cfg.TrienodeHistory, cfg.SnapshotWait = ours.StateHistory, -1, false
	cfg.TrieJournalDirectory = filepath.Join(dir, "triedb")
	bc, err := core.NewBlockChain(db, g.genesis, gethEngine(), cfg)
	if err != nil {
		return r, err
	}
	begun, cpu := time.Now(), load.ProcessorTime()
	err = insertIntoGeth(ctx, bc, g.blocks)
	if err == nil {
		err = bc.TrieDB().Commit(bc.CurrentBlock().Root, false)
	}
	if err == nil && before != nil {
		err = before(bc, db)
	}
	bc.Stop()
	err = errors.Join(err, closeDB())
	closeDB = func() error { return nil }
	r.wall, r.cpu, r.recovered, r.flushes = time.Since(begun), load.ProcessorTime()-cpu, 0, 1
	return r, err
}

func insertIntoGeth(ctx context.Context, bc *core.BlockChain, raws [][]byte) error {
	for len(raws) > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		batch := raws[:min(len(raws), gethBatch)]
		raws = raws[len(batch):]
		blocks := make(types.Blocks, len(batch))
		for i, raw := range batch {
			s := rlp.NewStream(bytes.NewReader(raw), 0)
			blocks[i] = new(types.Block)
			if err := s.Decode(blocks[i]); err != nil && !errors.Is(err, io.EOF) {
				return err
			}
		}
		if n, err := bc.InsertChain(blocks); err != nil {
			return fmt.Errorf("go-ethereum's import ends at block %d: %w", blocks[min(n, len(blocks)-1)].NumberU64(), err)
		}
	}
	return nil
}
