package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/bornode/bornode/bench/forge"
	"github.com/bornode/bornode/bench/join"
	"github.com/bornode/bornode/bench/wire"
	"github.com/bornode/bornode/internal/usage"
)

func benchSync(jsonPath *string) *cobra.Command {
	var o join.Options
	var routes []string
	var svgPath string
	cmd := &cobra.Command{
		Use:   "sync",
		Short: "Measure a node that joins, over TCP and over shared memory",
		Long: "Measure how long a joining node takes and what processor time it costs joiner and server, over every route.\n" +
			"Histories are made once and kept in --dir; a whole set is " + forge.Transfers + ":32, " + forge.Transfers + ":128, " +
			forge.Payloads + ":256, " + forge.Payloads + ":1024 and " + forge.Payloads + ":4096. docs/bench.md tells how to read the tables.",
		Args: usage.RefuseArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			exe, err := os.Executable()
			if err != nil {
				return err
			}
			if err := os.MkdirAll(o.Dir, 0o755); err != nil {
				return err
			}
			if o.Dir, err = filepath.Abs(o.Dir); err != nil {
				return err
			}
			o.Program, o.Transfer, o.Progress = []string{exe}, []string{"bench", "transfer"}, progressTo(c)
			if o.Routes, err = chosenRoutes(routes); err != nil {
				return err
			}
			links, err := bareLinks(c, exe, o.Rounds)
			if err != nil {
				return err
			}
			r, err := join.Measure(c.Context(), o)
			if err != nil {
				return err
			}
			r.Links = links
			return writeReport(c, *jsonPath, svgPath, r)
		},
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = "."
	}
	f := cmd.Flags()
	f.StringVar(&o.Dir, "dir", filepath.Join(cache, "bornode-bench"), "folder for histories and runs")
	f.StringSliceVar(&o.Histories, "history", []string{forge.Payloads + ":256", forge.Transfers + ":32"}, "histories, as kind:MiB")
	f.StringSliceVar(&o.Phases, "phase", []string{join.TransferOnly, join.WholeJoin}, "transfer, join")
	f.StringSliceVar(&o.Modes, "mode", []string{"certified"}, "modes of whole joins: certified, full")
	f.StringSliceVar(&routes, "route", nil, "only these routes")
	f.IntVar(&o.Rounds, "rounds", 3, "how often every run is repeated")
	f.StringVar(&svgPath, "svg", "", "also draw the figures to this file")
	return cmd
}

func chosenRoutes(names []string) (out []join.Route, err error) {
	all := join.Routes()
	if len(names) == 0 {
		return all, nil
	}
	for _, n := range names {
		found := false
		for _, r := range all {
			if r.Name == n {
				out, found = append(out, r), true
			}
		}
		if !found {
			err = errors.Join(err, fmt.Errorf("there is no route %q", n))
		}
	}
	return out, err
}

// bareLinks measures the bandwidth of links as nodes use them, to be printed beside the joins.
func bareLinks(c *cobra.Command, exe string, rounds int) (*wire.Report, error) {
	o := wire.Options{Rounds: rounds, Time: 300 * time.Millisecond, Steps: []string{"64KiB", "1MiB"},
		Far: []string{exe, "bench", "far"}, Stderr: c.ErrOrStderr(), Progress: progressTo(c)}
	all, _ := wire.Paths()
	for _, p := range all {
		if p.Level == wire.LinkUp && p.Wait != wire.Polled {
			o.Paths = append(o.Paths, p)
		}
	}
	r, err := wire.Measure(c.Context(), o)
	if err != nil {
		return nil, err
	}
	return r, r.Err()
}

// benchTransfer is the joiner of the transfer phase.
func benchTransfer() *cobra.Command {
	var dir string
	cmd := &cobra.Command{Use: "transfer", Hidden: true, Args: usage.RefuseArguments, RunE: func(c *cobra.Command, _ []string) error {
		return join.Transfer(c.Context(), dir, os.Stdin, c.OutOrStdout())
	}}
	cmd.Flags().StringVar(&dir, "dir", ".", "the joiner's folder")
	return cmd
}
