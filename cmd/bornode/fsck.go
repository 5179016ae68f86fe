package main

import (
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
	"github.com/bornode/bornode/internal/exit"
	"github.com/bornode/bornode/node"
)

// checkOptions are the flags of fsck.
type checkOptions struct {
	blockstore.FsckOptions
	full, asJSON bool
	blocks       string // file of blocks to restore from
}

func fsckCommand() *cobra.Command {
	var o checkOptions
	cmd := offline("fsck", "Check everything in a node's folder", func() bool { return !o.Repair }, func(cmd *cobra.Command, c *config.Config, log *zap.Logger) error {
		if o.blocks != "" && !o.Repair {
			return errors.New("--blocks restores damaged blocks: give it with --repair")
		}
		o.Transactions = o.Transactions || o.full
		return checkFolder(cmd, c, o, log)
	})
	cmd.Long = `Check everything in the folder of a node that does not run: blocks and their indexes, state, vote log, log index,
waiting transactions and evidence, topics, genesis and key files.

Without --repair not one byte of the folder changes. The exit code is 0 if the folder is in order, 3 if something of it is
damaged or lost, 4 if the disk gives errors, and 1 if the folder could not be checked: a node uses it, or a setting is wrong.`
	cmd.Flags().BoolVar(&o.Repair, "repair", false, "rebuild damaged indexes and databases of blocks; without it nothing of the folder changes")
	cmd.Flags().BoolVar(&o.Transactions, "transactions", false, "also look up every transaction and receipt")
	cmd.Flags().BoolVar(&o.full, "full", false, "also read the whole state from its root, and look up every transaction and receipt")
	cmd.Flags().BoolVar(&o.asJSON, "json", false, "print one JSON document instead of sentences")
	cmd.Flags().StringVar(&o.blocks, "blocks", "", "with --repair: file written by bornode export on a sound node, from which damaged blocks are restored")
	return cmd
}

// checkFolder runs the check: first the blocks, which the rest is compared with.
func checkFolder(cmd *cobra.Command, c *config.Config, o checkOptions, log *zap.Logger) (err error) {
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
	r, err := store.Fsck(cmd.Context(), o.FsckOptions, progress)
	if err == nil && o.blocks != "" {
		r, err = restoreBlocks(cmd, c, store, r, o.blocks, o.FsckOptions, progress)
	}
	if err != nil {
		return err
	}
	rest, err := node.CheckFolder(cmd.Context(), c, store, o.full, log)
	if err != nil {
		return err
	}
	rest.JudgeReceipts(c, &r)
	if o.asJSON {
		text, err := rest.WriteJSON(&r)
		if err != nil {
			return err
		}
		fmt.Fprintf(cmd.OutOrStdout(), "%s\n", text)
	} else {
		printReport(cmd.OutOrStdout(), &r, filepath.Join(c.Path(c.Store.Dir), blockstore.AsideDir), o.Repair)
		printFindings(cmd.OutOrStdout(), &rest)
	}
	return problemsLeft(&r, &rest, c.DataDir, o.Repair)
}

// restoreBlocks restores the damaged blocks of a report from an export file and checks again. Blocks that wait for one which
// the file lacks are told, and left.
func restoreBlocks(cmd *cobra.Command, c *config.Config, store *blockstore.Store, r blockstore.Report, path string, o blockstore.FsckOptions, progress func(blockstore.FsckProgress)) (blockstore.Report, error) {
	if len(r.Damaged) == 0 {
		return r, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return r, err
	}
	defer f.Close()
	_, err = node.RestoreBlocks(c, store, f, r.Damaged)
	var waits blockstore.ErrNeighbourFirst
	if errors.As(err, &waits) {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s lacks block %d, or holds another one: block %d and damaged ones below it cannot be placed without it; export them in one file, up to that block\n", path, waits.First, waits.Height)
		err = nil
	}
	if err != nil {
		return r, fmt.Errorf("%s: %w", path, err)
	}
	return store.Fsck(cmd.Context(), o, progress)
}

func printReport(w io.Writer, r *blockstore.Report, asideDir string, repaired bool) {
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
}

// printFindings tells what was found beside the blocks.
func printFindings(w io.Writer, r *node.FolderReport) {
	harmless := 0
	for _, f := range r.Findings {
		kind := "problem"
		if f.Harmless {
			kind = "notice"
			harmless++
		}
		fmt.Fprintf(w, "%s: %s\n", kind, f)
	}
	of := "of no stored block"
	if r.State.Found {
		of = fmt.Sprintf("of block %d", r.State.Height)
	}
	fmt.Fprintf(w, "state %s, %s: %d keys, %d accounts and %d slots read; %d problems beside the blocks, %d notices\n",
		r.State.Root, of, r.State.Keys, r.State.Accounts, r.State.Slots, len(r.Findings)-harmless, harmless)
}

// problemsLeft is nil if the folder is in order. Its exit code is exit.Damage.
func problemsLeft(r *blockstore.Report, rest *node.FolderReport, dir string, repaired bool) error {
	var causes []error
	remedy := "each line above says what to do"
	if !r.Sound() {
		causes = append(causes, fmt.Errorf("%d problems of the blocks are left", r.Found-r.Repaired))
		remedy = remedyOfBlocks(r, repaired)
	}
	others := 0
	for _, f := range rest.Findings {
		if !f.Harmless {
			others++
		}
	}
	if others > 0 {
		causes = append(causes, fmt.Errorf("%d problems beside the blocks are left", others))
	}
	if len(causes) == 0 {
		return nil
	}
	cause := causes[0]
	if len(causes) > 1 {
		cause = fmt.Errorf("%w, %w", causes[0], causes[1])
	}
	return &exit.Fault{What: "the folder is not in order", File: dir, Cause: cause, Remedy: remedy}
}

func remedyOfBlocks(r *blockstore.Report, repaired bool) string {
	switch {
	case !repaired:
		return "bornode fsck --repair mends indexes, databases and headers and has the next run fetch damaged blocks from peers; with --blocks FILE, an export of a sound node, it restores them at once"
	case slices.ContainsFunc(r.Problems, func(p blockstore.Problem) bool { return p.Kind == blockstore.ProblemRecord }):
		return "run the node, which fetches damaged blocks from peers, or restore them from an export of a sound node with bornode fsck --repair --blocks FILE"
	}
	return "no repair mends them: keep a copy of the folder, and have the node join again with an empty data folder and its keys"
}
