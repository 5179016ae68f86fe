package main

import "github.com/spf13/cobra"

// commands are the program's commands, without those that only gather others.
func commands() []*cobra.Command {
	list := []*cobra.Command{configCommand(), versionCommand(), sendCommand()}
	return append(list, governanceCommands()...)
}
