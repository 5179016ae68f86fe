package usage

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bornode/bornode/internal/nearest"
)

// ExplainMistakes completes the tree below root: a command that only has commands below it refuses an argument that is
// none of them, where cobra prints the help and ends with code 0; so does `help` of an unknown command; and errors of
// flags are those of DescribeFlagError. Call it when all commands are in the tree.
func ExplainMistakes(root *cobra.Command) {
	root.SetFlagErrorFunc(DescribeFlagError)
	root.SetHelpCommand(&cobra.Command{Use: "help [COMMAND...]", Short: "Show what a command does", Args: cobra.ArbitraryArgs,
		RunE: func(_ *cobra.Command, args []string) error { return showHelp(root, args) }})
	requireCommands(root)
}

func requireCommands(c *cobra.Command) {
	if c.HasSubCommands() && !c.Runnable() {
		c.Args, c.DisableFlagsInUseLine = cobra.ArbitraryArgs, true
		c.RunE = func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return c.Help()
			}
			return RefuseCommand(c, args[0])
		}
	}
	for _, child := range c.Commands() {
		requireCommands(child)
	}
}

func showHelp(at *cobra.Command, names []string) error {
	for _, name := range names {
		var next *cobra.Command
		for _, child := range at.Commands() {
			if child.Name() == name {
				next = child
			}
		}
		if next == nil {
			return RefuseCommand(at, name)
		}
		at = next
	}
	at.InitDefaultHelpFlag()
	return at.Help()
}

// RefuseCommand is the error for a name that is no command below c.
func RefuseCommand(c *cobra.Command, name string) error {
	var known []string
	for _, child := range c.Commands() {
		if !child.Hidden {
			known = append(known, child.Name())
		}
	}
	return fmt.Errorf("%s has no command %q; %s", c.CommandPath(), name, nearest.Hint(name, known))
}

// RefuseArguments is the check of a command that takes no arguments; cobra's says "unknown command" of one.
func RefuseArguments(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return fmt.Errorf("%s takes no argument, %q is one; see %s --help", c.CommandPath(), args[0], c.CommandPath())
}

// DescribeFlagError puts an error of pflag into words: the nearest flag instead of an unknown one, and what kind of
// value a flag takes instead of the name of the Go function that could not parse it.
func DescribeFlagError(c *cobra.Command, err error) error {
	see := fmt.Sprintf("; see %s --help", c.CommandPath())
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) {
		var known []string
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				known = append(known, f.Name)
			}
		})
		if near := nearest.Name(unknown.GetSpecifiedName(), known); near != "" {
			return fmt.Errorf("%w; did you mean --%s?%s", err, near, strings.Replace(see, "; ", " ", 1))
		}
		return fmt.Errorf("%w%s", err, see)
	}
	var invalid *pflag.InvalidValueError
	if !errors.As(err, &invalid) {
		return fmt.Errorf("%w%s", err, see)
	}
	name, value := invalid.GetFlag().Name, invalid.GetValue()
	kind := describeKind(invalid.GetFlag().Value.Type())
	switch {
	case errors.Is(err, strconv.ErrRange):
		return fmt.Errorf("--%s cannot be %q: the number is too large or too small%s", name, value, see)
	case kind == "":
		return fmt.Errorf("--%s cannot be %q: %w%s", name, value, invalid.Unwrap(), see)
	}
	return fmt.Errorf("--%s cannot be %q: it takes %s%s", name, value, kind, see)
}

// describeKind says what a flag of a type takes; "" for a type whose own error says it.
func describeKind(flagType string) string {
	switch flagType {
	case "bool":
		return "true or false"
	case "int", "int8", "int16", "int32", "int64":
		return "a whole number"
	case "uint", "uint8", "uint16", "uint32", "uint64":
		return "a whole number from 0 on"
	case "float32", "float64":
		return "a number"
	case "duration":
		return "a duration such as 500ms, 10s or 2h"
	case "intSlice", "uintSlice":
		return "whole numbers with commas between them"
	}
	return ""
}
