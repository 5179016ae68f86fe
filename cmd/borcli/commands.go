package main

import "github.com/spf13/cobra"

// commands are the program's commands.
func commands() []*cobra.Command {
	list := []*cobra.Command{
		accountCommand(), sendCommand(), txCommand(), blockCommand(), contractCommand(), walletCommand(),
		statusCommand(), finalityCommand(), scheduleCommand(), peersCommand(), syncCommand(),
		configCommand(), completionCommand(), versionCommand(),
	}
	list = append(list, tenantCommand(), topicCommand())
	return append(list, governanceCommands()...)
}
