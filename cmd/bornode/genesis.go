package main

import (
	"fmt"
	"text/tabwriter"

	"github.com/ethereum/go-ethereum/common"
	"github.com/spf13/cobra"

	"github.com/bornode/bornode/genesis"
	"github.com/bornode/bornode/internal/usage"
	"github.com/bornode/bornode/node"
)

func genesisCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "genesis", Short: "Read a genesis file"}
	cmd.AddCommand(upgradesCommand())
	return cmd
}

func upgradesCommand() *cobra.Command {
	var path string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "upgrades",
		Short: "Print the upgrades that a genesis file describes, with the digests to vote for",
		Long: "Print name, height and digest of each upgrade that a genesis file describes. The description alone has no\n" +
			"effect: an upgrade is in force from its height on if the producers voted for its digest before.\n" +
			"Voted digests that the file says are withdrawn are marked so.",
		Args: usage.RefuseArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			gen, err := genesis.Load(path)
			if err != nil {
				return err
			}
			type row struct {
				Name   string `json:"name"`
				Height uint64 `json:"height"`
				Digest string `json:"digest"`
				Off    bool   `json:"withdrawn,omitempty"`
			}
			rows := []row{}
			for _, u := range gen.Upgrades() {
				if off := u.Withdrawn; off != (common.Hash{}) {
					rows = append(rows, row{u.Name, u.Height, off.Hex(), true})
					continue
				}
				rows = append(rows, row{u.Name, u.Height, u.Digest().Hex(), false})
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), rows)
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "name\theight\tdigest")
			for _, r := range rows {
				if r.Off {
					r.Digest += " withdrawn"
				}
				fmt.Fprintf(w, "%s\t%d\t%s\n", r.Name, r.Height, r.Digest)
			}
			return w.Flush()
		},
	}
	cmd.Flags().StringVar(&path, "genesis", node.GenesisFile, "the genesis file")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
