package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.uber.org/zap"

	"github.com/bornode/bornode/config"
	"github.com/bornode/bornode/internal/telemetry"
	"github.com/bornode/bornode/internal/usage"
	"github.com/bornode/bornode/node"
)

// settingsFile is the settings file of a node's folder.
func settingsFile(dir string) string {
	if v := os.Getenv("BORNODE_CONFIG"); v != "" {
		return v
	}
	return filepath.Join(dir, config.FileName)
}

// loadConfig reads the configuration of a node's folder with the flags that were set.
func loadConfig(dir string, flags *pflag.FlagSet) (*config.Config, error) {
	path := settingsFile(dir)
	c, err := config.Load(path, os.Environ(), flags)
	if errors.Is(err, fs.ErrNotExist) && node.UnfinishedRestore(dir) {
		return nil, fmt.Errorf("a restore to %s did not end: nothing there is of use, remove the folder and restore again", dir)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no %s; make the node's folder with: bornode init --dir %s", path, dir)
	}
	if err != nil {
		return nil, err
	}
	if (flags == nil || !flags.Changed("data_dir")) && c.DataDir == config.Default().DataDir {
		c.DataDir = dir
	}
	return c, nil
}

func runCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run a node",
		Long:  "Run the node of a folder made by `bornode init`. Every setting of bornode.toml can be given as a flag.",
		Args:  usage.RefuseArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := loadConfig(dir, cmd.Flags())
			if err != nil {
				return err
			}
			log, end, err := newLogger(c, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			if err := node.CheckFormats(c); err != nil {
				return err
			}
			unlock, err := lockFolder(c.DataDir)
			if err != nil {
				return err
			}
			defer unlock()
			words := openLastWords(c.DataDir, log)
			defer func() {
				if crash := recover(); crash != nil { // its trace belongs into the file
					panic(crash)
				}
				words.close()
			}()
			end.words.Store(words)
			reg := telemetry.NewRegistry()
			if c.Metrics.Listen != "" {
				ctx, cancel := context.WithCancel(cmd.Context())
				_, wait, err := telemetry.Serve(ctx, c.Metrics, reg)
				if err != nil {
					cancel()
					return err
				}
				defer wait()
				defer cancel()
			}
			return runNode(cmd, c, log, reg)
		},
	}
	cmd.Flags().StringVar(&dir, "dir", ".", "the node's folder")
	config.AddFlags(cmd.Flags())
	return cmd
}

// runNode opens a node and runs it until the command's context ends, which is an orderly end at every moment, before the
// node is open too.
func runNode(cmd *cobra.Command, c *config.Config, log *zap.Logger, reg *prometheus.Registry) error {
	n, err := node.New(cmd.Context(), c, log, reg)
	switch {
	case err != nil && cmd.Context().Err() != nil && errors.Is(err, context.Canceled):
		log.Info("bornode ends: it was told to before it was open")
	case err != nil:
		return err
	default:
		if err := n.Run(cmd.Context()); err != nil {
			return err
		}
	}
	if !log.Core().Enabled(zap.InfoLevel) { // the node's own last line is not shown
		fmt.Fprintln(cmd.ErrOrStderr(), "bornode: ended in order")
	}
	return nil
}

// lockFolder keeps a second process off a node's data.
func lockFolder(dir string) (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("%s is in use by another bornode: stop it first", dir)
	}
	return func() { _ = f.Close() }, nil
}

// watchFolder keeps other processes from using a node's data while it is looked at, and changes nothing of it: without
// a lock file nobody has ever used it.
func watchFolder(dir string) (unlock func(), err error) {
	f, err := os.Open(filepath.Join(dir, "lock"))
	if errors.Is(err, fs.ErrNotExist) {
		return func() {}, nil
	}
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("%s is in use by another bornode: stop it first", dir)
	}
	return func() { _ = f.Close() }, nil
}

func configCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "config",
		Short: "Print the commented configuration with its defaults",
		Args:  usage.RefuseArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := cmd.OutOrStdout().Write(config.Commented(config.Default()))
			return err
		},
	}
}
