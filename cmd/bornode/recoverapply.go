package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/bornode/bornode/config"
	"github.com/bornode/bornode/genesis"
	"github.com/bornode/bornode/node"
	"github.com/bornode/bornode/recovery"
)

func recoverApplyCommand() *cobra.Command {
	var agreed string
	var ahead, mayUndo bool
	cmd := offline("apply FILE...", "Have a node go on by a recovery", never, func(cmd *cobra.Command, c *config.Config, log *zap.Logger) error {
		return applyRecovery(cmd, c, log, cmd.Flags().Args(), agreed, ahead, mayUndo)
	})
	cmd.Args = cobra.MinimumNArgs(1)
	cmd.Long = `Have the node of a folder, which must not run, go on by a recovery: on every node, producers and observers alike, and in the
folder of a node that joins. Several copies of the file count together. Nothing is deleted: what lies above the base is set aside.

A recovery that too few recovery keys signed, that contradicts what is final here, or that has a rival with the same predecessor is
refused with exit code 7; of two rivals, neither of which was applied, --hash names the one that all operators agreed on. So is one
that is ahead of this machine's clock, prepared more than an hour ahead or with a first slot that begins more than a day ahead; how long ago it
was prepared does not matter. And so is one that says that no final block is undone, where this folder holds a justified block above the
base: it may be final, for no report told of it.`
	cmd.Flags().StringVar(&agreed, "hash", "", "hash of the recovery, as agreed with the other operators")
	cmd.Flags().BoolVar(&mayUndo, "may-undo", false, "apply it though this folder holds a justified block above the base: the operators agreed to go on without that block")
	cmd.Flags().BoolVar(&ahead, allowAhead, false, allowAheadUsage)
	return cmd
}

// refusals are why a node does not go by a recovery that was signed: operators have to decide.
var refusals = []error{recovery.ErrInvalid, node.ErrOtherHistory, node.ErrRivalRecovery, node.ErrReportedLess} //nolint:gochecknoglobals // a constant table

func applyRecovery(cmd *cobra.Command, c *config.Config, log *zap.Logger, paths []string, agreed string, ahead, mayUndo bool) error {
	s, err := readSigned(paths)
	if err != nil {
		return err
	}
	var named common.Hash
	if agreed != "" {
		b, err := hexutil.Decode(agreed)
		if err != nil || len(b) != common.HashLength {
			return fmt.Errorf("--hash %q is no hash: give 0x and 64 hexadecimal digits", agreed)
		}
		if named = common.BytesToHash(b); named != s.Hash() {
			return refusal{fmt.Errorf("the file holds recovery %s, and --hash is %s: nothing was applied, ask for the file that the operators agreed on", s.Hash(), named)}
		}
	}
	gen, err := node.LoadGenesis(c)
	if err != nil {
		return err
	}
	if err := checkNotAhead(&s.Statement, gen, time.Now(), ahead); err != nil {
		return refusal{fmt.Errorf("nothing was applied to %s: %w", c.DataDir, err)}
	}
	done, err := node.ApplyRecovery(cmd.Context(), c, s, node.ApplyOptions{Named: named, MayUndo: mayUndo}, log)
	if slices.ContainsFunc(refusals, func(why error) bool { return errors.Is(err, why) }) {
		return refusal{fmt.Errorf("nothing was applied to %s: %w", c.DataDir, err)}
	}
	if err != nil {
		return err
	}
	return describeApplied(cmd.OutOrStdout(), c.DataDir, s, &done)
}

// The flag that lets a recovery be ahead of this machine's clock.
const (
	allowAhead      = "allow-ahead"
	allowAheadUsage = "take a recovery that is ahead of this machine's clock: the operators agreed that its time and first slot are meant"
)

// checkNotAhead checks a recovery against the clock, unless the operator allows it to be ahead.
func checkNotAhead(s *recovery.Statement, gen *genesis.Genesis, now time.Time, allowed bool) error {
	if allowed {
		return nil
	}
	if err := node.CheckNotAhead(s, gen, now); err != nil {
		return fmt.Errorf("%w; set this machine's clock if it is wrong, else have the recovery prepared again by a machine whose clock is right (--%s takes this one as it is)", err, allowAhead)
	}
	return nil
}

// describeApplied says what an application did, and what comes next.
func describeApplied(w io.Writer, dir string, s *recovery.Signed, done *node.AppliedRecovery) error {
	if done.Already {
		_, err := fmt.Fprintf(w, "recovery %s was applied to %s before: nothing was done\n", done.Hash, dir)
		return err
	}
	fmt.Fprintf(w, "recovery %s is applied to %s: from the next start on it goes on from %s in domain %d\n", done.Hash, dir, s.Statement.Base.Block, done.Number)
	switch {
	case done.SetAside != "" && !done.HasBase:
		fmt.Fprintf(w, "all %d blocks that are not final here, and the vote log, are copied to %s: without the base it is not known which of them stay\n", done.Undone, done.SetAside)
	case done.SetAside != "":
		fmt.Fprintf(w, "%d blocks above the base and the vote log are copied to %s; transactions of these blocks can be sent again\n", done.Undone, done.SetAside)
	}
	if done.Continued && done.Later == (common.Hash{}) {
		fmt.Fprintln(w, "the final chain here goes on by it already, only the file was missing: nothing is set aside")
	}
	if done.Later != (common.Hash{}) {
		fmt.Fprintf(w, "THE NODE DOES NOT START YET: the final chain here goes on by recovery %s, which comes after this one; apply it too. Nothing is set aside. If that one is a rival of this one, this one was the wrong one: move its file out of the folder's recovery, and apply the other\n", done.Later)
	}
	if !done.HasBase {
		fmt.Fprintln(w, "THE BASE IS NOT HERE: the node waits until it has the blocks up to it from others that have applied the recovery; as long as a single folder holds them, its loss ends the chain: copy that folder first")
	}
	if done.Unproven {
		fmt.Fprintln(w, "NOT KNOWN: the blocks that would show whether the final blocks here lead to the base are pruned; compare the hash of its last irreversible block with a node that holds the base, or set the folder aside and join anew")
	}
	_, err := fmt.Fprintln(w, "start it when the recovery is applied on the other nodes too")
	return err
}
