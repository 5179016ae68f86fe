package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/consensus"
	"github.com/bornode/bornode/node"
)

// Spread is a figure over several runs.
type Spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

func spread(x []float64) Spread {
	if len(x) == 0 {
		return Spread{}
	}
	s := slices.Sorted(slices.Values(x))
	return Spread{Median: s[len(s)/2], Min: s[0], Max: s[len(s)-1]}
}

// ImportResult of one history in one mode.
type ImportResult struct {
	History      string `json:"history"`
	Mode         string `json:"mode"`
	Runs         int    `json:"runs"`
	Blocks       int    `json:"blocks"`
	Transactions int    `json:"transactions"`
	Bytes        int    `json:"bytes"`
	TPS          Spread `json:"tx_per_s"`
	MBps         Spread `json:"mb_per_s"`
	BlocksPerSec Spread `json:"blocks_per_s"`
	CPUMicros    Spread `json:"cpu_us_per_tx"`
	Recovered    uint64 `json:"senders_recovered"` // in the last run
}

// Imports measures imports without a network: decode, check, execute, store. Runs of all modes and histories are
// interleaved.
func Imports(ctx context.Context, scale float64, runs int, progress func(string)) ([]ImportResult, error) {
	var out []ImportResult
	for _, p := range plans(scale) {
		progress(fmt.Sprintf("making a history of %d blocks of %s", p.blocks, p.kind))
		h, err := makeHistory(ctx, p)
		if err != nil {
			return nil, fmt.Errorf("bench: history of %s: %w", p.kind, err)
		}
		modes := []consensus.Mode{consensus.Full, consensus.Certified}
		results := make([]ImportResult, len(modes))
		figures := make([]struct{ tps, mb, blocks, cpu []float64 }, len(modes))
		for run := range runs {
			for i, m := range modes {
				progress(fmt.Sprintf("importing %s, %s, run %d of %d", p.kind, m, run+1, runs))
				r, err := importOnce(ctx, h, m)
				if err != nil {
					return nil, fmt.Errorf("bench: import of %s, %s: %w", p.kind, m, err)
				}
				s := r.wall.Seconds()
				f := &figures[i]
				f.tps = append(f.tps, float64(h.transactions)/s)
				f.mb = append(f.mb, float64(h.bytes)/1e6/s)
				f.blocks = append(f.blocks, float64(len(h.blocks))/s)
				if h.transactions > 0 {
					f.cpu = append(f.cpu, float64(r.cpu.Microseconds())/float64(h.transactions))
				}
				results[i].Recovered = r.recovered
			}
		}
		for i, m := range modes {
			f := figures[i]
			results[i].History, results[i].Mode, results[i].Runs = h.kind, m.String(), runs
			results[i].Blocks, results[i].Transactions, results[i].Bytes = len(h.blocks), h.transactions, h.bytes
			results[i].TPS, results[i].MBps, results[i].BlocksPerSec, results[i].CPUMicros = spread(f.tps), spread(f.mb), spread(f.blocks), spread(f.cpu)
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
	store, chain, err := openChain(ctx, dir, h.gen)
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
	if got, want := driver.Status().LIB.Height, uint64(len(h.blocks)-trailing); got < want {
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
