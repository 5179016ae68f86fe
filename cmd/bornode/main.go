// Command bornode is the node and its tools.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/bornode/bornode/internal/exit"
	"github.com/bornode/bornode/internal/usage"
)

func main() { os.Exit(execute()) }

// execute runs the command line and returns the exit code. Whatever ends it, there is a line that says so.
func execute() int {
	ctx, stop := untilSignal(context.Background())
	err := root().ExecuteContext(ctx)
	cause := context.Cause(ctx)
	stop()
	if err == nil {
		return exit.OK
	}
	if ended := (errSignal{}); errors.Is(err, context.Canceled) && errors.As(cause, &ended) {
		err = ended
	}
	fmt.Fprintln(os.Stderr, "bornode:", exit.Sentence(err))
	return exit.Code(err)
}

func root() *cobra.Command {
	cmd := &cobra.Command{
		Use:           "bornode",
		Short:         "A permissioned blockchain node for data centres",
		SilenceUsage:  true,
		SilenceErrors: true,
		CompletionOptions: cobra.CompletionOptions{
			HiddenDefaultCmd: true,
		},
	}
	cmd.AddCommand(initCommand(), runCommand(), configCommand(), exportCommand(), importCommand(), fsckCommand(), backupCommand(), restoreCommand(), rebuildCommand(), recoverCommand(),
		genesisCommand(), testnetCommand(), simCommand(), benchCommand(), versionCommand())
	usage.ExplainMistakes(cmd)
	return cmd
}
