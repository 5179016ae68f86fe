package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/bornode/bornode/blockstore"
	"github.com/bornode/bornode/config"
	"github.com/bornode/bornode/node"
)

func fsckCommand() *cobra.Command {
	var o blockstore.FsckOptions
	var blocks string
	cmd := offline("fsck", "Check every stored block and index", func() bool { return !o.Repair }, func(cmd *cobra.Command, c *config.Config, log *zap.Logger) (err error) {
		if blocks != "" && !o.Repair {
			return errors.New("--blocks restores damaged blocks: give it with --repair")
		}
		open := node.InspectStore
		if o.Repair {
			open = node.OpenStore
		}
		store, err := open(c, log)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, store.Close()) }()
		var bar *bar
		progress := func(p blockstore.FsckProgress) {
			if bar == nil {
				bar = newBar(cmd.ErrOrStderr(), "fsck", 0, p.Total)
			}
			bar.at(p.Done)
		}
		if o.Repair {
			if err := node.RestoreBlockZero(c, store, log); err != nil {
				return err
			}
		}
		r, err := store.Fsck(cmd.Context(), o, progress)
		if err == nil && blocks != "" {
			r, err = restoreBlocks(cmd.Context(), store, r, blocks, o, progress)
		}
		if err != nil {
			return err
		}
		return printReport(cmd.OutOrStdout(), &r, filepath.Join(c.Path(c.Store.Dir), blockstore.AsideDir), o.Repair)
	})
	cmd.Flags().BoolVar(&o.Repair, "repair", false, "rebuild damaged indexes and databases; without it nothing of the folder changes")
	cmd.Flags().BoolVar(&o.Transactions, "transactions", false, "also look up every transaction and receipt")
	cmd.Flags().StringVar(&blocks, "blocks", "", "with --repair: file written by bornode export on a sound node, from which damaged blocks are restored")
	return cmd
}

// restoreBlocks restores the damaged blocks of a report from an export file and checks again.
func restoreBlocks(ctx context.Context, store *blockstore.Store, r blockstore.Report, path string, o blockstore.FsckOptions, progress func(blockstore.FsckProgress)) (blockstore.Report, error) {
	damaged := make(map[uint64]bool)
	for _, p := range r.Problems {
		if p.Kind == blockstore.ProblemRecord {
			damaged[p.Height] = true
		}
	}
	if len(damaged) == 0 {
		return r, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return r, err
	}
	defer f.Close()
	file, err := blockstore.NewImportReader(bufio.NewReaderSize(f, 1<<20), 0)
	if err == nil {
		_, err = node.RestoreBlocks(store, file, damaged)
	}
	if err != nil {
		return r, fmt.Errorf("%s: %w", path, err)
	}
	return store.Fsck(ctx, o, progress)
}

func printReport(w io.Writer, r *blockstore.Report, asideDir string, repaired bool) error {
	for _, p := range r.Problems {
		fmt.Fprintf(w, "%s at height %d: %s\n", p.Kind, p.Height, p.Text)
	}
	verb := "a start sets aside"
	if repaired {
		verb = "set aside"
	}
	for _, m := range r.Moved {
		fmt.Fprintf(w, "%s %s to %s: %s\n", verb, m.Name, m.To, m.Why)
	}
	if len(r.Asides) > 0 {
		fmt.Fprintf(w, "%d folders in %s hold what starts have set aside, the oldest is %s; docs/storage.md says when they may be removed\n", len(r.Asides), asideDir, r.Asides[0])
	}
	fmt.Fprintf(w, "blocks %d to %d: %d irreversible in %d segments (%d bytes), %d reversible, %d transactions; %d problems, %d repaired\n",
		r.First, r.LIB, r.Blocks, r.Segments, r.Bytes, r.Reversible, r.Transactions, r.Found, r.Repaired)
	if r.Sound() {
		return nil
	}
	remedy := "bornode fsck --repair mends indexes, databases and headers and has the next run fetch damaged blocks from peers; with --blocks FILE, an export of a sound node, it restores them at once"
	if repaired {
		remedy = "no repair mends them: keep a copy of the folder, and have the node join again with an empty data folder and its keys"
		if slices.ContainsFunc(r.Problems, func(p blockstore.Problem) bool { return p.Kind == blockstore.ProblemRecord }) {
			remedy = "run the node, which fetches damaged blocks from peers, or restore them from an export of a sound node with bornode fsck --repair --blocks FILE"
		}
	}
	return fmt.Errorf("%d problems are left; %s", r.Found-r.Repaired, remedy)
}
