package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/bornode/bornode/blockstore"
	"github.com/bornode/bornode/config"
	"github.com/bornode/bornode/internal/usage"
	"github.com/bornode/bornode/node"
)

// offline is a command on the folder of a node that does not run. One that only looks changes nothing of the folder;
// looks is asked when the flags are known.
func offline(use, short string, looks func() bool, run func(cmd *cobra.Command, c *config.Config, log *zap.Logger) error) *cobra.Command {
	var dir string
	cmd := &cobra.Command{Use: use, Short: short, Args: usage.RefuseArguments, RunE: func(cmd *cobra.Command, _ []string) error {
		c, err := loadConfig(dir, cmd.Flags())
		if err != nil {
			return err
		}
		c.Log.Level = "warn"
		log, _, err := newLogger(c, cmd.ErrOrStderr())
		if err != nil {
			return err
		}
		if err := node.CheckFormats(c); err != nil {
			return err
		}
		lock := lockFolder
		if looks() {
			lock = watchFolder
		}
		unlock, err := lock(c.DataDir)
		if err != nil {
			return err
		}
		defer unlock()
		return run(cmd, c, log)
	}}
	cmd.Flags().StringVar(&dir, "dir", ".", "the node's folder")
	return cmd
}

func always() bool { return true }
func never() bool  { return false }

func exportCommand() *cobra.Command {
	var out string
	var from, to uint64
	cmd := offline("export", "Write irreversible blocks to a file", always, func(cmd *cobra.Command, c *config.Config, log *zap.Logger) (err error) {
		gen, err := node.LoadGenesis(c)
		if err != nil {
			return err
		}
		store, err := node.InspectStore(c, log)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, store.Close()) }()
		zero, err := gen.Block()
		if err != nil {
			return err
		}
		last, _ := store.LIB()
		if from > min(last, to) {
			return fmt.Errorf("export: there are no blocks from %d to %d: the last irreversible block is %d", from, min(last, to), last)
		}
		last = min(last, to)
		f, err := os.OpenFile(out, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
		if errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("export: %s exists: name another file by --out, or remove it", out)
		}
		if err != nil {
			return err
		}
		bar := newBar(cmd.ErrOrStderr(), "export", from, last)
		if err := store.Export(cmd.Context(), f, zero.Hash(), from, to, bar.at); err != nil {
			return errors.Join(err, f.Close(), os.Remove(out))
		}
		bar.done()
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "wrote blocks %d to %d to %s\n", from, last, out)
		return errors.Join(err, f.Close())
	})
	cmd.Flags().StringVar(&out, "out", "", "file to write; it must not exist")
	cmd.Flags().Uint64Var(&from, "from", 1, "first height")
	cmd.Flags().Uint64Var(&to, "to", math.MaxUint64, "last height; the last irreversible block if above it")
	_ = cmd.MarkFlagRequired("out")
	return cmd
}

func importCommand() *cobra.Command {
	var in, mode string
	cmd := offline("import", "Check, execute and store blocks from a file", never, func(cmd *cobra.Command, c *config.Config, log *zap.Logger) error {
		if mode != "" {
			c.Sync.Mode = mode
			if err := c.Sync.Validate(); err != nil {
				return err
			}
		}
		f, err := os.Open(in)
		if err != nil {
			return err
		}
		defer f.Close()
		info, err := f.Stat()
		if err != nil {
			return err
		}
		counted := &countingReader{r: f}
		reader, err := blockstore.NewImportReader(bufio.NewReaderSize(counted, 1<<20), 0)
		if err != nil {
			return fmt.Errorf("%s: %w", in, err)
		}
		bar := newBar(cmd.ErrOrStderr(), "import", 0, uint64(info.Size())) //nolint:gosec // not negative
		from, to, err := node.Import(cmd.Context(), c, reader, log, func(uint64) { bar.at(counted.n) })
		if err != nil && to <= from {
			return fmt.Errorf("%s: nothing was imported: %w", in, err)
		}
		if err != nil {
			return fmt.Errorf("%s: imported blocks %d to %d, then: %w", in, from+1, to, err)
		}
		bar.done()
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "last irreversible block was %d, is %d now\n", from, to)
		return err
	})
	cmd.Flags().StringVar(&in, "in", "", "file written by bornode export")
	cmd.Flags().StringVar(&mode, "mode", "", "full or certified; default: sync.mode of the configuration")
	_ = cmd.MarkFlagRequired("in")
	return cmd
}

type countingReader struct {
	r io.Reader
	n uint64
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += uint64(n) //nolint:gosec // not negative
	return n, err
}

// bar is a progress bar on a terminal, and silence elsewhere.
type bar struct {
	w           io.Writer
	label       string
	first, last uint64
	shown       time.Time
	tty         bool
}

func newBar(w io.Writer, label string, first, last uint64) *bar {
	b := &bar{w: w, label: label, first: first, last: last}
	if f, ok := w.(*os.File); ok {
		info, err := f.Stat()
		b.tty = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	return b
}

const barWidth = 40

func (b *bar) at(x uint64) {
	if !b.tty || b.last <= b.first || time.Since(b.shown) < 100*time.Millisecond {
		return
	}
	b.shown = time.Now()
	share := min(float64(x-min(x, b.first))/float64(b.last-b.first), 1)
	full := int(share * barWidth)
	fmt.Fprintf(b.w, "\r%s [%s%s] %3.0f %%", b.label, strings.Repeat("#", full), strings.Repeat(".", barWidth-full), 100*share)
}

func (b *bar) done() {
	if b.tty {
		fmt.Fprintf(b.w, "\r%s\r", strings.Repeat(" ", barWidth+len(b.label)+12))
	}
}
