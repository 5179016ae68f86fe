// Command borwallet keeps keys and signs with them.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/bornode/bornode/internal/usage"
	"github.com/bornode/bornode/wallet"
)

func main() {
	// Before anything is read: no secret may reach a core dump or a debugger.
	if err := wallet.Harden(); err != nil {
		fmt.Fprintln(os.Stderr, "borwallet:", err)
		os.Exit(1)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := root().ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "borwallet:", err)
		os.Exit(1)
	}
}

func root() *cobra.Command {
	cmd := &cobra.Command{
		Use:               "borwallet",
		Short:             "The wallet daemon: keeps keys encrypted and signs with them",
		SilenceUsage:      true,
		SilenceErrors:     true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
	}
	cmd.AddCommand(runCommand(), configCommand(), tokenCommand(), versionCommand())
	usage.ExplainMistakes(cmd)
	return cmd
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  usage.RefuseArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), version())
			return err
		},
	}
}
