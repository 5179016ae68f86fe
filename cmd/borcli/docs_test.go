package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

const docsFile = "../../docs/borcli.md"

// docs/borcli.md is written from the commands themselves.
func TestDocs(t *testing.T) {
	want := document(root("~"))
	if os.Getenv("BORNODE_UPDATE") != "" {
		require.NoError(t, os.WriteFile(docsFile, []byte(want), 0o644))
	}
	got, err := os.ReadFile(docsFile)
	require.NoError(t, err)
	require.Equal(t, want, string(got), "run `make docs`")
}

// Every command says what it does; every leaf can be completed; examples are of the command they stand at.
func TestCommandsDescribeThemselves(t *testing.T) {
	everyCommand(root("~"), func(c *cobra.Command) {
		require.NotEmpty(t, c.Short, c.CommandPath())
		require.False(t, strings.HasSuffix(c.Short, "."), c.CommandPath())
		if c.Example != "" {
			require.Contains(t, c.Example, c.CommandPath(), "examples of %s", c.CommandPath())
		}
		c.Flags().VisitAll(func(f *pflag.Flag) { require.NotEmpty(t, f.Usage, "--%s of %s", f.Name, c.CommandPath()) })
		for _, secret := range []string{"password", "passphrase", "mnemonic", "private-key", "token"} {
			f := c.Flags().Lookup(secret)
			require.True(t, f == nil || f.Value.Type() == "bool", "%s takes a secret as an argument", c.CommandPath())
		}
	})
}

func everyCommand(c *cobra.Command, visit func(*cobra.Command)) {
	visit(c)
	for _, x := range c.Commands() {
		if !x.Hidden && x.Name() != "help" {
			everyCommand(x, visit)
		}
	}
}

func document(r *cobra.Command) string {
	var b strings.Builder
	b.WriteString("# borcli\n\nThe command line of a chain. This page is written from the program (`make docs`); `borcli COMMAND --help` says the same.\n\n" +
		"It talks JSON-RPC to a node (`--node`) and, where something is signed, to [borwallet](wallet.md) (`--wallet`) or uses a key\n" +
		"file (`--key`: a geth keystore, a raw hexadecimal key or a node's `keys/producer.json`, of mode 0600). It keeps no state.\n\n")
	b.WriteString("## Settings\n\nA flag beats the environment, which beats the file `~/" + configName + "` (another one: `--config`, `" + envPrefix +
		"CONFIG`). Unknown keys and variables\nare errors. `borcli config` prints a file with the defaults.\n\n| flag | environment | file | default | |\n|---|---|---|---|---|\n")
	s := defaultSettings("~")
	for _, f := range settingFields(&s) {
		fmt.Fprintf(&b, "| `--%s` | `%s` | `%s` | %s | %s |\n", f.flag(), f.env(), f.key, fmt.Sprint(f.value.Interface()), f.comment)
	}
	b.WriteString("\n`--from` need not be given when there is just one account: that of `--key`, or the only unlocked one of the wallet.\n\n" +
		"Results go to standard output, as tables or with `--json` as JSON; everything else goes to standard error. In JSON, amounts are\n" +
		"wei in decimal strings. On the command line an amount has a unit: `1.5ether`, `20gwei`, `5wei`. `producers`, `members` and\n" +
		"`topics` stand for the addresses of the system contracts. An address in mixed case must have the right checksum.\n\n")
	b.WriteString("## Exit codes\n\n| code | |\n|---|---|\n")
	for code, what := range exitCodes {
		fmt.Fprintf(&b, "| %d | %s |\n", code, what)
	}
	b.WriteString("\n## Sending\n\nA command that sends a transaction fills in nonce, gas (a fifth above the node's estimate) and fees (the node's tip and twice\n" +
		"the base fee), asks on a terminal before it signs (`--yes`: not), prints the hash, and waits until the transaction is in a block\n" +
		"or, with `--wait final`, can never be undone; a node that is started again meanwhile is asked again for a minute. A call that\n" +
		"would be reverted is not sent. A transaction that could cost more than `--most-fee` is not signed, whatever the node suggests, nor\n" +
		"one for another chain than `--chain-id`. Where another transaction of the account takes the nonce first, it is made again with\n" +
		"the next one. Such commands also take:\n\n")
	sender := command("x", "x", nil, sends)
	writeFlags(&b, sender.Flags(), nil)
	own := sender.Flags()
	b.WriteString("## Commands\n\n")
	for _, c := range r.Commands() {
		if c.Hidden || c.Name() == "help" {
			continue
		}
		fmt.Fprintf(&b, "### %s\n\n%s.\n\n", c.CommandPath(), c.Short)
		everyCommand(c, func(x *cobra.Command) {
			if !x.HasSubCommands() {
				writeCommand(&b, x, c, own)
			}
		})
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}

// writeCommand writes a leaf; top is the command that its section is about.
func writeCommand(b *strings.Builder, c, top *cobra.Command, sending *pflag.FlagSet) {
	sendsToo := c.Flags().Lookup("gas-price") != nil
	if c != top {
		fmt.Fprintf(b, "**`%s`**: %s.", c.UseLine(), lowerFirst(c.Short))
	} else {
		fmt.Fprintf(b, "`%s`", c.UseLine())
	}
	if sendsToo {
		b.WriteString(" Sends a transaction.")
	}
	b.WriteString("\n\n")
	if c.Long != "" && c.Long != c.Short {
		b.WriteString(c.Long + "\n\n")
	}
	skip := sending
	if !sendsToo {
		skip = nil
	}
	writeFlags(b, c.LocalNonPersistentFlags(), skip)
	if c.Example != "" {
		fmt.Fprintf(b, "```\n%s\n```\n\n", strings.ReplaceAll(strings.TrimPrefix(c.Example, "  "), "\n  ", "\n"))
	}
}

func writeFlags(b *strings.Builder, f *pflag.FlagSet, skip *pflag.FlagSet) {
	n := 0
	f.VisitAll(func(x *pflag.Flag) {
		if x.Name == "help" || skip != nil && skip.Lookup(x.Name) != nil {
			return
		}
		n++
		fmt.Fprintf(b, "- `--%s`: %s", x.Name, x.Usage)
		if x.DefValue != "" && x.DefValue != "false" && x.DefValue != "0" && x.DefValue != "[]" {
			fmt.Fprintf(b, " (default `%s`)", x.DefValue)
		}
		b.WriteString("\n")
	})
	if n > 0 {
		b.WriteString("\n")
	}
}

func lowerFirst(s string) string {
	if len(s) > 1 && s[1] >= 'A' && s[1] <= 'Z' {
		return s
	}
	return strings.ToLower(s[:1]) + s[1:]
}
