package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bornode/bornode/bench"
	"github.com/bornode/bornode/bench/figures"
	"github.com/bornode/bornode/bench/forge"
	"github.com/bornode/bornode/internal/usage"
)

func benchCommand() *cobra.Command {
	var jsonPath string
	var scale float64
	var runs, seconds int
	cmd := &cobra.Command{Use: "bench", Short: "Measure imports, disk space, logs, networks, transports, joins and topics on this machine"}
	add := func(use, short string, measure func(*cobra.Command, *bench.Report) error) *cobra.Command {
		sub := &cobra.Command{Use: use, Short: short, Args: usage.RefuseArguments, RunE: func(c *cobra.Command, _ []string) error {
			r := &bench.Report{Machine: figures.Machine()}
			if err := measure(c, r); err != nil {
				return err
			}
			if jsonPath != "" {
				if err := writeJSON(jsonPath, r); err != nil {
					return err
				}
			}
			return r.Print(c.OutOrStdout())
		}}
		cmd.AddCommand(sub)
		return sub
	}
	imports := func(c *cobra.Command, r *bench.Report) (err error) {
		r.Imports, err = bench.Imports(c.Context(), scale, runs, progressTo(c))
		return err
	}
	network := func(c *cobra.Command, r *bench.Report) error {
		exe, err := os.Executable()
		if err != nil {
			return err
		}
		r.Network, err = bench.Network(c.Context(), exe, seconds, runs, progressTo(c))
		return err
	}
	add("import", "Import prepared histories, full and certified, and with go-ethereum", imports)
	add("network", "Load networks of four producers; rates, latencies, processor time", network)
	var kinds []string
	disk := add("disk", "Measure what blocks and transactions take on disk, part by part, beside go-ethereum", func(c *cobra.Command, r *bench.Report) (err error) {
		r.Disk, err = bench.Disk(c.Context(), scale, kinds, progressTo(c))
		return err
	})
	disk.Flags().StringSliceVar(&kinds, "history", nil, "only these: "+strings.Join([]string{forge.Transfers, forge.Tokens, forge.Empty}, ", "))
	add("logs", "Measure the index of logs (bytes, time to build, queries) beside go-ethereum's", func(c *cobra.Command, r *bench.Report) (err error) {
		r.Logs, err = bench.Logs(c.Context(), scale, runs, progressTo(c))
		return err
	})
	add("all", "Run import and network, one after the other", func(c *cobra.Command, r *bench.Report) error {
		if err := imports(c, r); err != nil {
			return err
		}
		return network(c, r)
	})
	cmd.AddCommand(benchTransport(&jsonPath), benchFar(), benchSync(&jsonPath), benchPubSub(&jsonPath), benchTransfer())
	f := cmd.PersistentFlags()
	f.StringVar(&jsonPath, "json", "", "also write the figures to this file")
	f.Float64Var(&scale, "scale", 1, "size of the histories")
	f.IntVar(&runs, "runs", 3, "interleaved runs of every import and every load on a network")
	f.IntVar(&seconds, "seconds", 10, "length of every load on a network")
	return cmd
}

func progressTo(c *cobra.Command) func(string) {
	return func(s string) { fmt.Fprintln(c.ErrOrStderr(), "bench:", s) }
}

func writeJSON(path string, v any) error {
	return writeFile(path, func(w io.Writer) error { return printJSON(w, v) })
}
