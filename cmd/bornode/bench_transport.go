package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bornode/bornode/bench/wire"
	"github.com/bornode/bornode/internal/usage"
)

func benchTransport(jsonPath *string) *cobra.Command {
	var o wire.Options
	var paths []string
	var svgPath string
	cmd := &cobra.Command{
		Use:   "transport",
		Short: "Measure the ways between two processes: TCP, shared memory, RDMA",
		Long: "Measure raw TCP sockets, links over libp2p's TCP, and RDMA channels with and without links on them, between this\n" +
			"process and a second one. Paths take turns, and all is repeated; docs/bench.md tells how to read the tables.\n\n" +
			"Measurements: " + strings.Join(wire.StepNames(), ", ") + ".",
		Args: usage.RefuseArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			exe, err := os.Executable()
			if err != nil {
				return err
			}
			o.Far, o.Stderr, o.Progress = []string{exe, "bench", "far"}, c.ErrOrStderr(), progressTo(c)
			var missing []string
			if o.Paths, missing = wire.Paths(); len(paths) > 0 {
				o.Paths = nil
				for _, s := range paths {
					p, err := wire.ParsePath(s)
					if err != nil {
						return err
					}
					o.Paths = append(o.Paths, p)
				}
			}
			r, err := wire.Measure(c.Context(), o)
			if err != nil {
				return err
			}
			r.Missing = missing
			return writeReport(c, *jsonPath, svgPath, r)
		},
	}
	f := cmd.Flags()
	f.IntVar(&o.Rounds, "rounds", 3, "how often every measurement is repeated")
	f.DurationVar(&o.Time, "time", 300*time.Millisecond, "length of one measurement")
	f.IntVar(&o.MaxPeers, "peers", 64, "most peers at once")
	f.StringSliceVar(&paths, "path", nil, "only these, as provider/level/wait (raw-tcp/socket/slept); default: all that work here")
	f.StringSliceVar(&o.Steps, "only", nil, "only these measurements")
	f.StringVar(&svgPath, "svg", "", "also draw the figures to this file")
	return cmd
}

// benchFar is the other end of a measured path.
func benchFar() *cobra.Command {
	return &cobra.Command{Use: "far", Hidden: true, Args: usage.RefuseArguments, RunE: func(c *cobra.Command, _ []string) error {
		return wire.Far(c.Context(), os.Stdin, c.OutOrStdout())
	}}
}

// report is what the benchmarks of two processes give.
type report interface {
	Print(w io.Writer) error
	WriteSVG(w io.Writer) error
	Err() error
}

// writeReport prints the tables and writes JSON and charts where a path is given.
func writeReport(c *cobra.Command, jsonPath, svgPath string, r report) error {
	if jsonPath != "" {
		if err := writeJSON(jsonPath, r); err != nil {
			return err
		}
	}
	if svgPath != "" {
		if err := writeFile(svgPath, r.WriteSVG); err != nil {
			return err
		}
	}
	return errors.Join(r.Print(c.OutOrStdout()), r.Err())
}

func writeFile(path string, write func(io.Writer) error) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := write(f); err != nil {
		_ = f.Close()
		return fmt.Errorf("%s: %w", path, err)
	}
	return f.Close()
}
