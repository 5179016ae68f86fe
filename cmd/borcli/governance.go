package main

import "github.com/spf13/cobra"

// governanceCommands are the commands about producers, members, proposals, parameters and upgrades.
func governanceCommands() []*cobra.Command { return nil }
