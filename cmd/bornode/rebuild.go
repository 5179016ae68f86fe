package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/bornode/bornode/blockstore"
	"github.com/bornode/bornode/config"
	"github.com/bornode/bornode/node"
)

func rebuildCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "rebuild", Short: "Rebuild what is made from the blocks; the old is set aside"}
	state := offline("state", "Have the next start execute all blocks again", never, func(cmd *cobra.Command, c *config.Config, log *zap.Logger) error {
		to, blocks, err := node.RebuildState(c, log)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "the state is in %s; the next start executes %d blocks again and tells how far it is. Remove that folder when the node is in sync again\n", to, blocks)
		return err
	})
	index := offline("index", "Rebuild the height index and the log index", never, func(cmd *cobra.Command, c *config.Config, log *zap.Logger) error {
		var bar *bar
		moved, r, err := node.RebuildIndex(cmd.Context(), c, log, func(p blockstore.FsckProgress) {
			if bar == nil {
				bar = newBar(cmd.ErrOrStderr(), "rebuild", 0, p.Total)
			}
			bar.at(p.Done)
		})
		if bar != nil {
			bar.done()
		}
		if err != nil {
			return fmt.Errorf("%w; what was set aside is in %s", err, strings.Join(moved, ", "))
		}
		if !r.Sound() {
			return fmt.Errorf("the index is rebuilt but for damaged blocks (%d problems are left): run bornode fsck; the old one is in %s", r.Found-r.Repaired, strings.Join(moved, ", "))
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "the height index of blocks %d to %d is rebuilt, the log index by the next run; the old ones are in %s\n", r.First, r.LIB, strings.Join(moved, ", "))
		return err
	})
	derived := offline("derived", "Rebuild the indexes of hashes and transactions; receipts come back by execution", never, func(cmd *cobra.Command, c *config.Config, log *zap.Logger) error {
		to, err := node.RebuildDerived(c, log)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "the old derived data are in %s; the next run completes the index of transactions. Receipts are made again when somebody asks, as far back as states are kept (chain.state_history); bornode rebuild state brings all of them back\n", to)
		return err
	})
	cmd.AddCommand(state, index, derived)
	return cmd
}
