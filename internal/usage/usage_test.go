package usage

import (
	"bytes"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

func program() *cobra.Command {
	root := &cobra.Command{Use: "tool", SilenceErrors: true, SilenceUsage: true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true}}
	group := &cobra.Command{Use: "net", Short: "Networks"}
	leaf := &cobra.Command{Use: "up", Short: "Start", Args: RefuseArguments, RunE: func(*cobra.Command, []string) error { return nil }}
	leaf.Flags().Int("node", 0, "a node")
	leaf.Flags().Uint64("height", 0, "a height")
	leaf.Flags().Float64("scale", 0, "a scale")
	leaf.Flags().Bool("json", false, "print JSON")
	leaf.Flags().Duration("slot", time.Second, "a slot")
	leaf.Flags().IntSlice("nodes", nil, "nodes")
	group.AddCommand(leaf, &cobra.Command{Use: "proxy", Hidden: true, Run: func(*cobra.Command, []string) {}})
	root.AddCommand(group)
	ExplainMistakes(root)
	return root
}

func TestMistakesFail(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"nte"}, `tool has no command "nte"; did you mean "net"?`},
		{[]string{"net", "down"}, `tool net has no command "down"; known are up`},
		{[]string{"help", "other"}, `tool has no command "other"; known are help, net`},
		{[]string{"help", "net", "other"}, `tool net has no command "other"; known are up`},
		{[]string{"net", "up", "x"}, `tool net up takes no argument, "x" is one; see tool net up --help`},
		{[]string{"net", "up", "--nod", "1"}, `unknown flag: --nod; did you mean --node? see tool net up --help`},
		{[]string{"net", "up", "--colour"}, `unknown flag: --colour; see tool net up --help`},
		{[]string{"net", "up", "-z"}, `unknown shorthand flag: 'z' in -z; see tool net up --help`},
		{[]string{"net", "up", "--node"}, `flag needs an argument: --node; see tool net up --help`},
		{[]string{"net", "up", "--node", "x"}, `--node cannot be "x": it takes a whole number; see tool net up --help`},
		{[]string{"net", "up", "--node", "99999999999999999999"}, `--node cannot be "99999999999999999999": the number is too large or too small; see tool net up --help`},
		{[]string{"net", "up", "--height", "-1"}, `--height cannot be "-1": it takes a whole number from 0 on; see tool net up --help`},
		{[]string{"net", "up", "--scale", "x"}, `--scale cannot be "x": it takes a number; see tool net up --help`},
		{[]string{"net", "up", "--json=maybe"}, `--json cannot be "maybe": it takes true or false; see tool net up --help`},
		{[]string{"net", "up", "--slot", "5"}, `--slot cannot be "5": it takes a duration such as 500ms, 10s or 2h; see tool net up --help`},
		{[]string{"net", "up", "--nodes", "1,x"}, `--nodes cannot be "1,x": it takes whole numbers with commas between them; see tool net up --help`},
	} {
		root := program()
		root.SetArgs(c.args)
		require.EqualError(t, root.Execute(), c.want, "%q", c.args)
	}
}

func TestGroupsAndHelpPrint(t *testing.T) {
	for _, args := range [][]string{{}, {"net"}, {"help", "net"}, {"net", "--help"}, {"help", "net", "up"}} {
		var out bytes.Buffer
		root := program()
		root.SetOut(&out)
		root.SetArgs(args)
		require.NoError(t, root.Execute(), "%q", args)
		require.Contains(t, out.String(), "Usage:", "%q", args)
		require.NotContains(t, out.String(), "proxy", "%q", args)
	}
}
