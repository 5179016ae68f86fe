package bench

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/ethereum/go-ethereum/core"
	"github.com/ethereum/go-ethereum/core/filtermaps"
	"github.com/ethereum/go-ethereum/ethdb"
	"github.com/ethereum/go-ethereum/version"

	"github.com/bornode/bornode/bench/forge"
	"github.com/bornode/bornode/blockstore"
	"github.com/bornode/bornode/chain"
	"github.com/bornode/bornode/consensus"
	"github.com/bornode/bornode/rpc"
)

// Parts of what a node keeps on disk, the same for both programs.
const (
	PartBlocks       = "blocks"
	PartHeights      = "height index"
	PartHashes       = "hash index"
	PartTransactions = "transaction index"
	PartReceipts     = "receipts"
	PartLogs         = "log index"
	PartOther        = "other"
	PartState        = "state"
	PartHistory      = "state history"
	PartHistoryIndex = "state history index"
)

// DiskParts are the parts in the order of the report.
var DiskParts = []string{PartBlocks, PartHeights, PartHashes, PartTransactions, PartReceipts, PartLogs, PartOther, PartState, PartHistory, PartHistoryIndex}

// The first parts of DiskParts: what the block store keeps of blocks, and what grows with blocks alone.
const (
	partsOfChain = 5
	withoutState = 7
)

// DiskResult is how a node's folder grows with one kind of history.
type DiskResult struct {
	History      string             `json:"history"`
	Program      string             `json:"program"` // bornode, or go-ethereum and its version
	Blocks       int                `json:"blocks"`  // that the growth is measured over
	Transactions int                `json:"transactions"`
	Unit         string             `json:"unit"`  // transaction, or block of a history without any
	Bytes        map[string]float64 `json:"bytes"` // per unit, by part
	Total        float64            `json:"total"`
	Chain        float64            `json:"total_of_blocks"`     // blocks, their indexes and receipts
	Blockwise    float64            `json:"total_without_state"` // without state, state history and its index
}

// firstPart is how many blocks of a history a folder has before the growth is measured: more than pathdb keeps layers in
// memory (128), so that both measurements end with the same number of them.
const firstPart = 140

// diskPlans are the histories at a scale.
func diskPlans(scale float64) []forge.Plan {
	n := func(x int) int { return firstPart + max(int(float64(x)*scale), 8) }
	return []forge.Plan{
		{Kind: forge.Transfers, Txs: 100, Accounts: 1000, Blocks: n(400)},
		{Kind: forge.Tokens, Txs: 100, Accounts: 1000, Blocks: n(200)},
		{Kind: forge.Empty, Blocks: n(3000)},
	}
}

// Disk measures what a block or transaction adds to the folders of a node and of go-ethereum: the first part of a history
// is imported into one folder, all of it into another, both are closed and their databases compacted, and the growth of
// each part is the difference.
// only names the kinds of histories; none: all.
func Disk(ctx context.Context, scale float64, only []string, progress func(string)) ([]DiskResult, error) {
	var out []DiskResult
	for _, kind := range only {
		if !slices.ContainsFunc(diskPlans(scale), func(p forge.Plan) bool { return p.Kind == kind }) {
			return nil, fmt.Errorf("bench: there is no history of %q to measure disk space with; use %s, %s or %s", kind, forge.Transfers, forge.Tokens, forge.Empty)
		}
	}
	for _, p := range diskPlans(scale) {
		if len(only) > 0 && !slices.Contains(only, p.Kind) {
			continue
		}
		progress(fmt.Sprintf("making a history of %d blocks of %s", p.Blocks, p.Kind))
		h, g, err := makeHistories(ctx, p)
		if err != nil {
			return nil, err
		}
		for _, x := range []struct {
			program string
			measure func(ctx context.Context, dir string, blocks int) (map[string]int64, error)
		}{
			{"bornode", func(ctx context.Context, dir string, blocks int) (map[string]int64, error) {
				return growOurs(ctx, dir, &history{kind: h.kind, gen: h.gen, blocks: h.blocks[:blocks]})
			}},
			{fmt.Sprintf("go-ethereum %d.%d.%d", version.Major, version.Minor, version.Patch), func(ctx context.Context, dir string, blocks int) (map[string]int64, error) {
				return growGeth(ctx, dir, &gethHistory{genesis: g.genesis, blocks: g.blocks[:blocks]})
			}},
		} {
			progress(fmt.Sprintf("measuring %s, %s", p.Kind, x.program))
			sizes := make([]map[string]int64, 2)
			for i, blocks := range []int{firstPart, len(h.blocks) - forge.Trailing} {
				if sizes[i], err = inFolder(func(dir string) (map[string]int64, error) { return x.measure(ctx, dir, blocks) }); err != nil {
					return nil, fmt.Errorf("bench: %d blocks of %s, %s: %w", blocks, p.Kind, x.program, err)
				}
			}
			out = append(out, growth(p, x.program, len(h.blocks)-forge.Trailing-firstPart, sizes[0], sizes[1]))
		}
	}
	return out, nil
}

func inFolder(measure func(dir string) (map[string]int64, error)) (map[string]int64, error) {
	dir, err := os.MkdirTemp("", "bornode-bench")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	return measure(dir)
}

func growth(p forge.Plan, program string, blocks int, before, after map[string]int64) DiskResult {
	r := DiskResult{History: p.Kind, Program: program, Blocks: blocks, Transactions: blocks * p.Txs, Unit: "transaction", Bytes: make(map[string]float64)}
	units := float64(r.Transactions)
	if p.Txs == 0 {
		r.Unit, units = "block", float64(blocks)
	}
	for i, part := range DiskParts {
		x := float64(after[part]-before[part]) / units
		r.Bytes[part] = x
		r.Total += x
		if i < partsOfChain {
			r.Chain += x
		}
		if i < withoutState {
			r.Blockwise += x
		}
	}
	return r
}

// growOurs imports into a folder of our node and gives the sizes of its parts.
func growOurs(ctx context.Context, dir string, h *history) (map[string]int64, error) {
	logs := filepath.Join(dir, "log_index")
	_, err := importInto(ctx, dir, h, consensus.Certified, func(c *chain.Chain) error { return rpc.BuildLogIndex(ctx, logs, c, nil) })
	if err != nil {
		return nil, err
	}
	cfg := blockstore.DefaultConfig()
	cfg.Dir = filepath.Join(dir, "blocks")
	store, err := blockstore.Open(cfg, nil, nil)
	if err != nil {
		return nil, err
	}
	derived, err := store.CompactDerived()
	if err := errors.Join(err, store.Close()); err != nil {
		return nil, err
	}
	parts := map[string]int64{PartHashes: derived.Hashes, PartReceipts: derived.Receipts, PartTransactions: derived.Transactions}
	if err := addKeyValueParts(ctx, filepath.Join(dir, "state", "kv"), parts, nil); err != nil {
		return nil, err
	}
	derivedBytes := parts[PartHashes] + parts[PartReceipts] + parts[PartTransactions]
	err = addFiles(dir, parts, ourPart)
	parts[PartOther] -= derivedBytes
	parts[PartState] -= parts[PartHistoryIndex]
	return parts, err
}

// ourPart says which part a file of our node's folder is counted with, and "" for a file that it does not know: a new kind of
// file must be told apart, not counted with others. derived/ counts with the rest; what its tables hold is taken off there.
func ourPart(name string) string {
	for _, x := range []struct{ prefix, part string }{
		{"blocks/segments/", PartBlocks},
		{"blocks/index/", PartHeights},
		{"blocks/derived/", PartOther},
		{"blocks/meta/", PartOther},
		{"blocks/SUPER.", PartOther},
		{"blocks/LOCK", PartOther},
		{"blocks/FORMAT", PartOther},
		{"consensus/", PartOther},
		{"log_index", PartLogs},
		{"state/ancient/", PartHistory},
		{"state/kv/", PartState},
		{"state/FORMAT", PartState},
		{"FORMAT", PartOther},
	} {
		if strings.HasPrefix(name, x.prefix) {
			return x.part
		}
	}
	return ""
}

// growGeth does the same with go-ethereum, as a node of it keeps a chain whose blocks are final: they are in its files of
// old blocks, and logs are in its index.
func growGeth(ctx context.Context, dir string, g *gethHistory) (map[string]int64, error) {
	_, err := importIntoGeth(ctx, dir, g, func(bc *core.BlockChain, db ethdb.Database) error {
		head := bc.CurrentBlock()
		maps, err := startFilterMaps(bc, db)
		if err != nil {
			return err
		}
		maps.Stop()
		bc.SetFinalized(head)
		freezer, ok := db.(interface{ Freeze() error })
		if !ok {
			return errors.New("go-ethereum's database cannot move final blocks to its files of old blocks")
		}
		return freezer.Freeze()
	})
	if err != nil {
		return nil, err
	}
	parts := make(map[string]int64)
	if err := addKeyValueParts(ctx, filepath.Join(dir, "chaindata"), parts, map[string]string{"h": PartBlocks, "b": PartBlocks, "r": PartReceipts, "H": PartHashes, "l": PartTransactions, "fm-": PartLogs}); err != nil {
		return nil, err
	}
	known := int64(0)
	for _, x := range parts {
		known += x
	}
	err = addFiles(dir, parts, func(name string) string {
		switch base := filepath.Base(name); {
		case strings.HasPrefix(name, "chaindata/ancient/state/"):
			return PartHistory
		case !strings.HasPrefix(name, "chaindata/ancient/"):
			return PartState
		case strings.HasSuffix(base, "idx"), strings.HasPrefix(base, "hashes."):
			return PartHeights
		case strings.HasPrefix(base, "receipts."):
			return PartReceipts
		case strings.HasPrefix(base, "headers."), strings.HasPrefix(base, "bodies."):
			return PartBlocks
		}
		return PartOther
	})
	parts[PartState] -= known
	return parts, err
}

// startFilterMaps builds go-ethereum's index of logs of the whole chain, as its node does in the background. The caller stops it.
func startFilterMaps(bc *core.BlockChain, db ethdb.Database) (*filtermaps.FilterMaps, error) {
	head := bc.CurrentBlock()
	view := filtermaps.NewChainView(bc, head.Number.Uint64(), head.Hash())
	f, err := filtermaps.NewFilterMaps(db, view, 0, 0, filtermaps.DefaultParams, filtermaps.Config{})
	if err != nil {
		return nil, err
	}
	f.Start()
	f.SetTarget(view, 0, head.Number.Uint64())
	f.WaitIdle()
	return f, nil
}

// addKeyValueParts compacts a closed state database and adds where its bytes are by the prefixes of go-ethereum's schema:
// the index of old states, and those that more names. What is left is the state.
func addKeyValueParts(ctx context.Context, dir string, parts map[string]int64, more map[string]string) error {
	o := &pebble.Options{FormatMajorVersion: pebble.FormatFlushableIngest, Logger: quiet{}}
	for i := range 6 {
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	db, err := pebble.Open(dir, o)
	if err != nil {
		return err
	}
	err = db.Compact(ctx, []byte{0}, []byte{0xff, 0xff, 0xff, 0xff}, false)
	prefixes := map[string]string{"m": PartHistoryIndex}
	for p, part := range more {
		prefixes[p] = part
	}
	for p, part := range prefixes {
		end := []byte(p)
		end[len(end)-1]++
		var n uint64
		if err == nil {
			n, err = db.EstimateDiskUsage([]byte(p), end)
		}
		parts[part] += int64(n) //nolint:gosec // bytes on a disk
	}
	return errors.Join(err, db.Close())
}

// quiet keeps the database's log from the terminal.
type quiet struct{}

func (quiet) Infof(string, ...any)           {}
func (quiet) Errorf(string, ...any)          {}
func (quiet) Fatalf(format string, a ...any) { panic(fmt.Sprintf(format, a...)) }

// addFiles adds the files below dir to the parts that partOf says. A file of no part is an error.
func addFiles(dir string, parts map[string]int64, partOf func(name string) string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		part := partOf(filepath.ToSlash(name))
		if part == "" {
			return fmt.Errorf("file %s belongs to no part that this measurement knows", path)
		}
		parts[part] += info.Size()
		return nil
	})
}
