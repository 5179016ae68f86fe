package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	gethrpc "github.com/ethereum/go-ethereum/rpc"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bornode/bornode/contracts"
	"github.com/bornode/bornode/internal/usage"
)

// surroundings are what the program gets from its process.
type surroundings struct {
	in      io.Reader
	out     io.Writer
	errOut  io.Writer
	environ []string
	home    string
	inTTY   bool // standard input is a terminal
	errTTY  bool // standard error is one
}

// app is one run of the program. It is used by one goroutine.
type app struct {
	surroundings
	settings
	root  *cobra.Command
	flags *pflag.FlagSet // of the command that runs

	nodeClient   *gethrpc.Client
	walletClient *gethrpc.Client
	abis         []*abi.ABI // of the contracts at hand, for reasons of reverts
	stdin        *lineReader
	signed       *common.Hash // of the last transaction that the node took or may have taken; nil: none
}

type appKey struct{}

// execute runs one command line and returns the exit code. All output goes to the surroundings.
func execute(ctx context.Context, args []string, s surroundings) int {
	a := &app{surroundings: s, stdin: newLineReader(s.in), abis: []*abi.ABI{contracts.ProducersABI(), contracts.MembersABI(), contracts.TopicsABI()}}
	defer a.close()
	cmd := root(s.home)
	a.root = cmd
	cmd.SetArgs(protectNegative(cmd, args))
	cmd.SetIn(s.in)
	cmd.SetOut(s.out)
	cmd.SetErr(s.errOut)
	err := cmd.ExecuteContext(context.WithValue(ctx, appKey{}, a))
	if err == nil {
		return exitOK
	}
	e := a.explain(err)
	if a.flags == nil { // the command line was refused before the settings were read
		a.JSON = asksForJSON(args, s.environ, s.home)
	}
	if a.JSON {
		out := map[string]any{"error": e.msg, "exit": e.code}
		if a.signed != nil {
			out["hash"] = a.signed
		}
		_ = writeJSON(s.errOut, out)
	} else {
		fmt.Fprintln(s.errOut, "borcli:", clean(e.msg))
	}
	return e.code
}

// negative marks arguments such as -5 until the flags are parsed: no flag is a digit. What stands behind a flag that
// takes a value is that flag's, and needs no mark.
const negative = "\x1f"

func protectNegative(root *cobra.Command, args []string) []string {
	lone := loneFlags(root)
	out := make([]string, len(args))
	ofFlag := false
	for i, x := range args {
		if out[i] = x; len(x) > 1 && x[0] == '-' && x[1] >= '0' && x[1] <= '9' && !ofFlag {
			out[i] = negative + x
		}
		name, isFlag := strings.CutPrefix(x, "--")
		ofFlag = isFlag && name != "" && !strings.Contains(name, "=") && !lone[name]
	}
	return out
}

// loneFlags are the names of the flags that take no value from the next argument.
func loneFlags(cmd *cobra.Command) map[string]bool {
	lone := map[string]bool{"help": true}
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		for _, set := range []*pflag.FlagSet{c.Flags(), c.PersistentFlags()} {
			set.VisitAll(func(f *pflag.Flag) {
				if f.NoOptDefVal != "" {
					lone[f.Name] = true
				}
			})
		}
		for _, child := range c.Commands() {
			visit(child)
		}
	}
	visit(cmd)
	return lone
}

// asksForJSON reports whether a command line that cannot be read wants its error as JSON: by a flag, else by the
// environment or the settings file.
func asksForJSON(args, environ []string, home string) bool {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	addSettingFlags(flags, home)
	if end := slices.Index(args, "--"); end >= 0 {
		args = args[:end]
	}
	for i, x := range args {
		name, value, given := strings.Cut(x, "=")
		switch {
		case name == "--json" && !given:
			return true
		case name == "--json":
			asks, err := strconv.ParseBool(value)
			return asks || err != nil
		case name == "--config" && given:
			_ = flags.Set("config", value)
		case name == "--config" && i+1 < len(args):
			_ = flags.Set("config", args[i+1])
		}
	}
	settings, err := loadSettings(flags, environ, home)
	return err == nil && settings.JSON
}

func root(home string) *cobra.Command {
	cmd := group("borcli", "Accounts, transactions, contracts and government of a chain", commands()...)
	cmd.Long = "borcli talks to a node (--node) and, for signatures, to a wallet (--wallet) or a key file (--key).\n\n" +
		"Every setting is a flag, an environment variable (--chain-id is " + envPrefix + "CHAIN_ID) and a line of\n" +
		"~/" + configName + " (borcli config prints one).\n\nExit codes:\n"
	for code, what := range exitCodes {
		cmd.Long += fmt.Sprintf("  %d  %s\n", code, what)
	}
	cmd.Long = strings.TrimRight(cmd.Long, "\n")
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	cmd.CompletionOptions.DisableDefaultCmd = true
	cmd.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return fail(exitUsage, "%v", usage.DescribeFlagError(c, err))
	})
	cmd.SetHelpCommand(helpCommand())
	addSettingFlags(cmd.PersistentFlags(), home)
	_ = cmd.RegisterFlagCompletionFunc("wait", cobra.FixedCompletions([]cobra.Completion{waitNone, waitIncluded, waitFinal}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// option changes a command as it is made.
type option func(*cobra.Command)

// command is a leaf of the tree. run gets the app with its settings read; what it prints goes through a.show.
func command(use, short string, run func(ctx context.Context, a *app, args []string) error, options ...option) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, DisableFlagsInUseLine: true}
	arguments(0, 0)(cmd)
	cmd.RunE = func(c *cobra.Command, args []string) error {
		a := c.Context().Value(appKey{}).(*app)
		if err := a.configure(c); err != nil {
			return err
		}
		return run(c.Context(), a, args)
	}
	for _, o := range options {
		o(cmd)
	}
	check := cmd.Args
	cmd.Args = func(c *cobra.Command, args []string) error {
		unmark(args)
		if err := check(c, args); err != nil {
			return fail(exitUsage, "%s: %v; use it as: %s", c.CommandPath(), err, c.UseLine())
		}
		return nil
	}
	return cmd
}

// unmark gives arguments such as -5 back as they were written.
func unmark(args []string) {
	for i := range args {
		args[i] = strings.TrimPrefix(args[i], negative)
	}
}

// group is a command that only has commands below it.
func group(use, short string, children ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Args: func(_ *cobra.Command, args []string) error { unmark(args); return nil }, RunE: func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return c.Help()
		}
		return noCommand(c, args[0])
	}}
	cmd.AddCommand(children...)
	return cmd
}

func noCommand(c *cobra.Command, name string) error {
	return fail(exitUsage, "%v", usage.RefuseCommand(c, name))
}

// helpCommand is cobra's, but for an unknown command it fails like the command itself.
func helpCommand() *cobra.Command {
	return &cobra.Command{Use: "help [COMMAND...]", Short: "Show what a command does", Args: cobra.ArbitraryArgs, RunE: func(c *cobra.Command, args []string) error {
		at := c.Root()
		for _, name := range args {
			i := slices.IndexFunc(at.Commands(), func(x *cobra.Command) bool { return x.Name() == name })
			if i < 0 {
				return noCommand(at, name)
			}
			at = at.Commands()[i]
		}
		at.InitDefaultHelpFlag()
		return at.Help()
	}}
}

// arguments asks for a number of arguments: exactly least, or up to most (-1: any).
func arguments(least, most int) option {
	return func(c *cobra.Command) {
		c.Args = func(_ *cobra.Command, args []string) error {
			n := len(args)
			if n >= least && (n <= most || most < 0) {
				return nil
			}
			want := plural(least, "argument")
			switch {
			case most == 0:
				want = "no argument"
			case most < 0:
				want = "at least " + want
			case most != least:
				want = strconv.Itoa(least) + " to " + plural(most, "argument")
			}
			hint := ""
			if n > 1 && slices.ContainsFunc(units, func(u unit) bool { return u.name == strings.ToLower(args[n-1]) }) {
				hint = "; write " + args[n-2] + args[n-1] + " without a blank"
			}
			given := strconv.Itoa(n) + " are given"
			if n == 1 {
				given = "1 is given"
			}
			return fmt.Errorf("it takes %s, %s%s", want, given, hint)
		}
	}
}

// long adds a description, example a block of examples (one command a line).
func long(text string) option { return func(c *cobra.Command) { c.Long = text } }

func example(commandLines ...string) option {
	return func(c *cobra.Command) { c.Example = "  " + strings.Join(commandLines, "\n  ") }
}

// flags lets a command add flags of its own.
func flags(add func(f *pflag.FlagSet)) option { return func(c *cobra.Command) { add(c.Flags()) } }

// configure reads the settings for a command.
func (a *app) configure(c *cobra.Command) error {
	a.flags = c.Flags()
	if j, err := a.flags.GetBool("json"); err == nil {
		a.JSON = j // an error about the settings is printed as asked
	}
	s, err := loadSettings(a.flags, a.environ, a.home)
	if s != nil {
		a.settings = *s
	}
	return err
}

func (a *app) close() {
	for _, c := range []*gethrpc.Client{a.nodeClient, a.walletClient} {
		if c != nil {
			c.Close()
		}
	}
}

// rpc is the connection to the node.
func (a *app) rpc(ctx context.Context) (*gethrpc.Client, error) {
	if a.nodeClient != nil {
		return a.nodeClient, nil
	}
	c, err := dial(ctx, a.Node)
	if err != nil {
		return nil, a.explain(err)
	}
	a.nodeClient = c
	return c, nil
}

// ask calls a method of the node.
func (a *app) ask(ctx context.Context, result any, method string, args ...any) error {
	c, err := a.rpc(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, requestTimeout, errSlow)
	defer cancel()
	if err := c.CallContext(ctx, result, method, args...); err != nil {
		return a.explain(err)
	}
	return nil
}

// call runs a contract's view method at the newest block. A revert is told with its reason.
func (a *app) call(ctx context.Context, to common.Address, data []byte) ([]byte, error) {
	return a.callAt(ctx, common.Address{}, to, data, "latest")
}

func (a *app) callAt(ctx context.Context, from, to common.Address, data []byte, block string) ([]byte, error) {
	var out hexutil.Bytes
	args := map[string]any{"to": to, "input": hexutil.Bytes(data)}
	if from != (common.Address{}) {
		args["from"] = from
	}
	if err := a.ask(ctx, &out, "eth_call", args, block); err != nil {
		return nil, err
	}
	return out, nil
}
