package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/bornode/bornode/bench/figures"
	"github.com/bornode/bornode/bench/forge"
	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/consensus"
	"github.com/bornode/bornode/genesis"
	"github.com/bornode/bornode/node"
)

// history is a chain to import: its genesis and its encoded blocks from height 1.
type history struct {
	kind   string
	gen    *genesis.Genesis
	blocks [][]byte
	totals forge.Totals
}

func plans(scale float64) []forge.Plan {
	n := func(x int) int { return max(int(float64(x)*scale), 4) }
	out := make([]forge.Plan, 0, 3)
	for _, k := range []struct {
		kind   string
		blocks int
	}{{forge.Transfers, 400}, {forge.Payloads, 200}, {forge.Empty, 5000}} {
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

// ImportResult of one history in one mode.
type ImportResult struct {
	History      string         `json:"history"`
	Mode         string         `json:"mode"`
	Runs         int            `json:"runs"`
	Blocks       int            `json:"blocks"`
	Transactions int            `json:"transactions"`
	Bytes        int64          `json:"bytes"`
	TPS          figures.Spread `json:"tx_per_s"`
	MBps         figures.Spread `json:"mb_per_s"`
	BlocksPerSec figures.Spread `json:"blocks_per_s"`
	CPUMicros    figures.Spread `json:"cpu_us_per_tx"`
	Recovered    uint64         `json:"senders_recovered"` // in the last run
}

// Imports measures imports without a network: decode, check, execute, store. Runs of all modes and histories are
// interleaved.
func Imports(ctx context.Context, scale float64, runs int, progress func(string)) ([]ImportResult, error) {
	var out []ImportResult
	for _, p := range plans(scale) {
		progress(fmt.Sprintf("making a history of %d blocks of %s", p.Blocks, p.Kind))
		h, err := makeHistory(ctx, p)
		if err != nil {
			return nil, fmt.Errorf("bench: history of %s: %w", p.Kind, err)
		}
		modes := []consensus.Mode{consensus.Full, consensus.Certified}
		results := make([]ImportResult, len(modes))
		measured := make([]struct{ tps, mb, blocks, cpu []float64 }, len(modes))
		for run := range runs {
			for i, m := range modes {
				progress(fmt.Sprintf("importing %s, %s, run %d of %d", p.Kind, m, run+1, runs))
				r, err := importOnce(ctx, h, m)
				if err != nil {
					return nil, fmt.Errorf("bench: import of %s, %s: %w", p.Kind, m, err)
				}
				s := r.wall.Seconds()
				f := &measured[i]
				f.tps = append(f.tps, float64(h.totals.Transactions)/s)
				f.mb = append(f.mb, float64(h.totals.Bytes)/1e6/s)
				f.blocks = append(f.blocks, float64(len(h.blocks))/s)
				if h.totals.Transactions > 0 {
					f.cpu = append(f.cpu, float64(r.cpu.Microseconds())/float64(h.totals.Transactions))
				}
				results[i].Recovered = r.recovered
			}
		}
		for i, m := range modes {
			f := measured[i]
			results[i].History, results[i].Mode, results[i].Runs = h.kind, m.String(), runs
			results[i].Blocks, results[i].Transactions, results[i].Bytes = len(h.blocks), h.totals.Transactions, h.totals.Bytes
			results[i].TPS, results[i].MBps, results[i].BlocksPerSec, results[i].CPUMicros = figures.Of(f.tps), figures.Of(f.mb), figures.Of(f.blocks), figures.Of(f.cpu)
		}
		out = append(out, results...)
	}
	return out, nil
}

type importRun struct {
	wall, cpu time.Duration
	recovered uint64
}

// importOnce imports a history into an empty node and stops the clock when the last block that its records prove
// final is durable.
func importOnce(ctx context.Context, h *history, mode consensus.Mode) (r importRun, err error) {
	dir, err := os.MkdirTemp("", "bornode-bench")
	if err != nil {
		return r, err
	}
	defer os.RemoveAll(dir)
	store, chain, err := forge.Open(ctx, dir, h.gen)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, chain.Close(), store.Close()) }()
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
	defer func() {
		stop()
		<-ended
		err = errors.Join(err, driver.Close())
	}()
	begun, cpu := time.Now(), cpuTime()
	if err := feed(ctx, driver, h, mode); err != nil {
		return r, err
	}
	r.wall, r.cpu, r.recovered = time.Since(begun), cpuTime()-cpu, chain.SenderRecoveries()
	return r, nil
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

// cpuTime is what this process has used, user and system.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
