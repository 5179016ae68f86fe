package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/bornode/bornode/blockstore"
	"github.com/bornode/bornode/config"
	"github.com/bornode/bornode/node"
)

func backupCommand() *cobra.Command {
	var dir string
	var o node.BackupOptions
	cmd := &cobra.Command{
		Use:   "backup DIR",
		Short: "Copy a node's blocks and settings, while it runs or not",
		Long: "Copy the irreversible blocks of a node with their proof, its settings, genesis file and public keys to DIR. The node may\n" +
			"run. What an earlier backup in DIR has already is not written again, and that backup stays whole until the new one is.\n" +
			"The state is not copied: a restored node rebuilds it from the blocks. The vote log is never copied.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := loadConfig(dir, nil)
			if err != nil {
				return err
			}
			c.Log.Level = "warn"
			log, _, err := newLogger(c, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			o.Dir, o.Settings = args[0], settingsFile(dir)
			take := func() (*blockstore.Cut, error) { return node.CutOfRunning(cmd.Context(), c) }
			how := "the node runs"
			if unlock, err := watchFolder(c.DataDir); err == nil {
				defer unlock()
				take = func() (*blockstore.Cut, error) { return node.CutOfStopped(c, log) }
				how = "the node does not run"
			}
			bar := newBar(cmd.ErrOrStderr(), "backup", 0, 1)
			o.Progress = bar.of
			m, err := node.Backup(cmd.Context(), c, o, take)
			if err != nil {
				return err
			}
			bar.done()
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s holds blocks 0 to %d %s in %d files (%s)\n", o.Dir, m.Height, m.Hash, len(m.Segments), how)
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&dir, "dir", ".", "the node's folder")
	f.BoolVar(&o.Secrets, "secrets", false, "copy the private keys too, as they are: whoever has the backup can act as the node")
	f.BoolVar(&o.Link, "link", false, "give full segment files a second name in DIR (same file system) instead of copying them: damage to one is damage to both")
	cmd.AddCommand(verifyBackupCommand())
	return cmd
}

func verifyBackupCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "verify DIR",
		Short: "Read a whole backup and check it",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			bar := newBar(cmd.ErrOrStderr(), "verify", 0, 1)
			m, err := node.VerifyBackup(args[0], bar.of)
			if err != nil {
				return err
			}
			bar.done()
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s is whole: blocks 0 to %d %s of chain %d, made %s; private keys: %t\n", args[0], m.Height, m.Hash, m.ChainID, m.Made.Format("2006-01-02 15:04:05 MST"), m.Secrets)
			return err
		},
	}
}

func restoreCommand() *cobra.Command {
	var o node.RestoreOptions
	cmd := &cobra.Command{
		Use:   "restore BACKUP",
		Short: "Make a node's folder of a backup",
		Long: "Check a backup and make a node's folder of it, which must be missing or empty. The folder is marked as a copy: a producer\n" +
			"that starts in it signs nothing until the chain proves that this is safe.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.Dir == "" {
				return errors.New("--dir names the folder to make")
			}
			o.Backup = args[0]
			c := config.Default()
			c.Log.Level = "warn"
			log, _, err := newLogger(c, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			bar := newBar(cmd.ErrOrStderr(), "restore", 0, 1)
			o.Progress = bar.of
			m, err := node.Restore(cmd.Context(), o, log)
			if err != nil {
				return err
			}
			bar.done()
			keys := "it has the node's keys: never run it beside the node that has them"
			if !m.Secrets {
				keys = "it has no keys: put those of the node into it before the first start, or it becomes another node"
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "restored blocks 0 to %d to %s; %s; then: bornode run --dir %s\n", m.Height, o.Dir, keys, o.Dir)
			return err
		},
	}
	cmd.Flags().StringVar(&o.Dir, "dir", "", "the node's folder to make")
	cmd.Flags().StringVar(&o.Settings, "settings", "", "settings file to take in place of the backup's")
	_ = cmd.MarkFlagRequired("dir")
	return cmd
}

// of shows a share of bytes.
func (b *bar) of(done, all int64) {
	b.last = uint64(max(all, 0)) //nolint:gosec // not negative
	b.at(uint64(max(done, 0)))   //nolint:gosec // likewise
}
