package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/version"

	"github.com/bornode/bornode/bench/figures"
	"github.com/bornode/bornode/bench/forge"
	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/chain"
	"github.com/bornode/bornode/consensus"
	"github.com/bornode/bornode/genesis"
	"github.com/bornode/bornode/node"
	"github.com/bornode/bornode/testnet/load"
)

// history is a chain to import: its genesis and its encoded blocks from height 1.
type history struct {
	kind   string
	gen    *genesis.Genesis
	blocks [][]byte
	totals forge.Totals
}

// plans are the histories at a scale; at 1 each is long enough that the state is written to disk within the import.
func plans(scale float64) []forge.Plan {
	n := func(x int) int { return max(int(float64(x)*scale), 4) }
	out := make([]forge.Plan, 0, 3)
	for _, k := range []struct {
		kind   string
		blocks int
	}{{forge.Transfers, 1200}, {forge.Payloads, 480}, {forge.Empty, 5000}} {
		p, _ := forge.PlanOf(k.kind) // its own kinds
		p.Blocks = n(k.blocks)
		out = append(out, p)
	}
	return out
}

func makeHistory(ctx context.Context, p forge.Plan) (*history, error) {
	dir, err := os.MkdirTemp("", "bornode-bench")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	h := &history{kind: p.Kind}
	h.gen, h.totals, err = forge.Make(ctx, dir, p, func(raw []byte) error {
		h.blocks = append(h.blocks, raw)
		return nil
	})
	return h, err
}

// ImportResult of one history in one mode, or of go-ethereum's import of the same transactions.
type ImportResult struct {
	History      string         `json:"history"`
	Mode         string         `json:"mode"` // full, certified, or go-ethereum and its version
	Runs         int            `json:"runs"`
	Blocks       int            `json:"blocks"`
	Transactions int            `json:"transactions"`
	Bytes        int64          `json:"bytes"` // of the encoded blocks in the importer's own form
	TPS          figures.Spread `json:"tx_per_s"`
	MBps         figures.Spread `json:"mb_per_s"`
	BlocksPerSec figures.Spread `json:"blocks_per_s"`
	CPUMicros    figures.Spread `json:"cpu_us_per_tx"`
	AgainstGeth  figures.Spread `json:"cpu_against_geth"`  // go-ethereum's CPU of the same round divided by this one's
	Recovered    uint64         `json:"senders_recovered"` // in the last run; not counted for go-ethereum
	Flushes      uint64         `json:"state_flushes"`     // times the state was written to disk in the last run
}

// importer is one way to import a history.
type importer struct {
	mode  string
	bytes int64
	run   func(context.Context) (importRun, error)
	runs  []importRun
}

// Imports measures imports without a network: decode, check, execute, store, write the state, index and close. Runs of
// both modes and of go-ethereum take turns.
func Imports(ctx context.Context, scale float64, runs int, progress func(string)) ([]ImportResult, error) {
	var out []ImportResult
	for _, p := range plans(scale) {
		progress(fmt.Sprintf("making a history of %d blocks of %s", p.Blocks, p.Kind))
		h, err := makeHistory(ctx, p)
		if err != nil {
			return nil, fmt.Errorf("bench: history of %s: %w", p.Kind, err)
		}
		importers, err := importersOf(h)
		if err != nil {
			return nil, fmt.Errorf("bench: history of %s for go-ethereum: %w", p.Kind, err)
		}
		for run := range runs {
			for _, x := range importers {
				progress(fmt.Sprintf("importing %s, %s, run %d of %d", p.Kind, x.mode, run+1, runs))
				r, err := x.run(ctx)
				if err != nil {
					return nil, fmt.Errorf("bench: import of %s, %s: %w", p.Kind, x.mode, err)
				}
				x.runs = append(x.runs, r)
			}
		}
		geth := importers[len(importers)-1]
		for _, x := range importers {
			out = append(out, x.summarize(h, geth))
		}
	}
	return out, nil
}

// importersOf gives the ways to import h; go-ethereum's is the last.
func importersOf(h *history) ([]*importer, error) {
	var out []*importer
	for _, m := range []consensus.Mode{consensus.Full, consensus.Certified} {
		out = append(out, &importer{mode: m.String(), bytes: h.totals.Bytes, run: func(ctx context.Context) (importRun, error) {
			return importOnce(ctx, h, m)
		}})
	}
	g, err := makeGethHistory(h)
	if err != nil {
		return nil, err
	}
	return append(out, &importer{mode: fmt.Sprintf("go-ethereum %d.%d.%d", version.Major, version.Minor, version.Patch), bytes: g.encodedBytes(), run: func(ctx context.Context) (importRun, error) {
		return importOnceIntoGeth(ctx, g)
	}}), nil
}

func (x *importer) summarize(h *history, geth *importer) ImportResult {
	var tps, mb, blocks, cpu, against []float64
	for i, r := range x.runs {
		s := r.wall.Seconds()
		tps = append(tps, float64(h.totals.Transactions)/s)
		mb = append(mb, float64(x.bytes)/1e6/s)
		blocks = append(blocks, float64(len(h.blocks))/s)
		against = append(against, float64(geth.runs[i].cpu)/float64(r.cpu))
		if h.totals.Transactions > 0 {
			cpu = append(cpu, float64(r.cpu.Microseconds())/float64(h.totals.Transactions))
		}
	}
	last := x.runs[len(x.runs)-1]
	return ImportResult{
		History: h.kind, Mode: x.mode, Runs: len(x.runs), Blocks: len(h.blocks), Transactions: h.totals.Transactions, Bytes: x.bytes,
		TPS: figures.Of(tps), MBps: figures.Of(mb), BlocksPerSec: figures.Of(blocks), CPUMicros: figures.Of(cpu), AgainstGeth: figures.Of(against),
		Recovered: last.recovered, Flushes: last.flushes,
	}
}

type importRun struct {
	wall, cpu          time.Duration
	recovered, flushes uint64
}

// importOnce imports a history into an empty node, which it removes afterwards.
func importOnce(ctx context.Context, h *history, mode consensus.Mode) (r importRun, err error) {
	dir, err := os.MkdirTemp("", "bornode-bench")
	if err != nil {
		return r, err
	}
	defer os.RemoveAll(dir)
	return importInto(ctx, dir, h, mode, nil)
}

// importInto imports a history into an empty folder of a node. The clock stops when the last block that its records prove
// final is durable and everything is closed, so that indexes and the state's journal are written. before, if not nil, is
// called before the storage is closed.
func importInto(ctx context.Context, dir string, h *history, mode consensus.Mode, before func(*chain.Chain) error) (r importRun, err error) {
	store, chain, err := forge.Open(ctx, dir, h.gen)
	if err != nil {
		return r, err
	}
	closeStorage := sync.OnceValue(func() error { return errors.Join(chain.Close(), store.Close()) })
	defer func() { err = errors.Join(err, closeStorage()) }()
	cfg := consensus.DefaultConfig()
	cfg.Dir = filepath.Join(dir, "consensus")
	driver, err := consensus.Open(cfg, consensus.Deps{Params: h.gen.Parameters(), Genesis: chain.Genesis().Hash(),
		Schedule: h.gen.Schedule(), Chain: chain, Store: store})
	if err != nil {
		return r, err
	}
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- driver.Run(running) }()
	stopDriver := sync.OnceFunc(func() { stop(); <-ended })
	defer func() {
		stopDriver()
		err = errors.Join(err, driver.Close())
	}()
	begun, cpu := time.Now(), load.ProcessorTime()
	if err := feed(ctx, driver, h, mode); err != nil {
		return r, err
	}
	stopDriver()
	if before != nil {
		if err := before(chain); err != nil {
			return r, err
		}
	}
	err = closeStorage()
	r.wall, r.cpu, r.recovered, r.flushes = time.Since(begun), load.ProcessorTime()-cpu, chain.SenderRecoveries(), chain.StateFlushes()
	return r, err
}

func feed(ctx context.Context, driver *consensus.Driver, h *history, mode consensus.Mode) error {
	left := h.blocks
	err := node.Feed(ctx, driver, mode, 1, func() (*block.Block, error) {
		if len(left) == 0 {
			return nil, io.EOF
		}
		raw := left[0]
		left = left[1:]
		return block.DecodeBlock(raw, 0)
	}, nil, nil)
	if err != nil {
		return err
	}
	if got, want := driver.Status().LIB.Height, uint64(len(h.blocks)-forge.Trailing); got < want {
		return fmt.Errorf("final up to %d, expected %d", got, want)
	}
	return nil
}
