package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

// A mistyped command fails, in groups as well: a script that goes on after `bornode testnet dwn` takes nothing for done.
func TestMistypedCommandsFail(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"testnt"}, `bornode has no command "testnt"; did you mean "testnet"?`},
		{[]string{"testnet", "dwn"}, `bornode testnet has no command "dwn"; did you mean "down"?`},
		{[]string{"genesis", "show"}, `bornode genesis has no command "show"; known are upgrades`},
		{[]string{"bench", "everything"}, `bornode bench has no command "everything"; known are all, disk, import, logs, network, pubsub, sync, transport`},
		{[]string{"help", "strat"}, `bornode has no command "strat"; known are`},
		{[]string{"fsck", "node0"}, `bornode fsck takes no argument, "node0" is one; see bornode fsck --help`},
		{[]string{"fsck", "--repare"}, `unknown flag: --repare; did you mean --repair? see bornode fsck --help`},
		{[]string{"testnet", "kill", "--node", "three"}, `--node cannot be "three": it takes a whole number; see bornode testnet kill --help`},
	} {
		var out bytes.Buffer
		cmd := root()
		cmd.SetOut(&out)
		cmd.SetArgs(c.args)
		require.ErrorContains(t, cmd.Execute(), c.want, "%q", c.args)
		require.Empty(t, out.String(), "%q", c.args)
	}
}
