package main

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/ethereum/go-ethereum/common"
	"github.com/spf13/cobra"

	"github.com/bornode/bornode/contracts"
)

func accessCommand() *cobra.Command {
	return group("access", "Which accounts may send transactions and deploy contracts",
		accessGroup("senders", "send transactions", contracts.RestrictSendersCall, contracts.AllowSenderCall),
		accessGroup("deployers", "deploy contracts", contracts.RestrictDeployersCall, contracts.AllowDeployerCall))
}

// accessGroup is the commands about one of the two lists.
func accessGroup(name, may string, restrict func(bool) ([]byte, error), allow func(common.Address, bool) ([]byte, error)) *cobra.Command {
	turn := func(use, short string, on bool) *cobra.Command {
		return command(use, short, func(ctx context.Context, a *app, _ []string) error {
			x, err := a.access(ctx, name)
			if err != nil {
				return err
			}
			if x.Restricted == on {
				return fail(exitRefused, "the list of %s is %s already", name, use)
			}
			data, err := restrict(on)
			if err != nil {
				return err
			}
			if on && len(x.Accounts) == 0 {
				a.note("no account is listed yet: %s", x.exempt())
			}
			return a.propose(ctx, fmt.Sprintf("list of %s %s", name, use), data)
		}, sends)
	}
	list := func(use, short string, on bool) *cobra.Command {
		return command(use+" ACCOUNT", short, func(ctx context.Context, a *app, args []string) error {
			who, err := parseAddress(args[0])
			if err != nil {
				return fail(exitUsage, "ACCOUNT: %v", err)
			}
			x, err := a.access(ctx, name)
			if err != nil {
				return err
			}
			if slices.Contains(x.Accounts, who) == on {
				return fail(exitRefused, "%s is %son the list of %s already", who, map[bool]string{false: "not "}[on], name)
			}
			data, err := allow(who, on)
			if err != nil {
				return err
			}
			return a.propose(ctx, fmt.Sprintf("%s %s as one of the %s", use, who, name), data)
		}, arguments(1, 1), sends)
	}
	return group(name, "Accounts that may "+may,
		command("list", "Show whether the list is on, and who is on it", func(ctx context.Context, a *app, _ []string) error {
			x, err := a.access(ctx, name)
			if err != nil {
				return err
			}
			return a.show(x, x.table)
		}),
		turn("on", "Propose that only listed accounts may "+may, true),
		turn("off", "Propose that every account may "+may, false),
		list("allow", "Propose to put an account on the list", true),
		list("deny", "Propose to take an account off the list", false))
}

// accessInfo is one of the lists.
type accessInfo struct {
	List       string           `json:"list"`
	Restricted bool             `json:"restricted"`
	Accounts   []common.Address `json:"accounts"`
}

func (x *accessInfo) exempt() string {
	if x.List == "senders" {
		return "only producers of the schedule and the admin may send then"
	}
	return "only the admin may deploy then"
}

func (x *accessInfo) table(w io.Writer) {
	state := "off: every account may"
	if x.Restricted {
		state = "on: only listed accounts may; beside them " + x.exempt()[len("only "):len(x.exempt())-len(" then")]
	}
	fmt.Fprintf(w, "the list of %s is %s\n", x.List, state)
	for _, account := range x.Accounts {
		fmt.Fprintln(w, account)
	}
}

func (a *app) access(ctx context.Context, list string) (*accessInfo, error) {
	at, err := a.newest(ctx)
	if err != nil {
		return nil, err
	}
	x := &accessInfo{List: list}
	var on contracts.RestrictionsOutput
	accounts := ofMembers(&x.Accounts, membersABI.PackSenders(), membersABI.UnpackSenders)
	if list == "deployers" {
		accounts = ofMembers(&x.Accounts, membersABI.PackDeployers(), membersABI.UnpackDeployers)
	}
	err = a.readAll(ctx, at, ofMembers(&on, membersABI.PackRestrictions(), membersABI.UnpackRestrictions), accounts)
	x.Restricted = on.Senders
	if list == "deployers" {
		x.Restricted = on.Deployers
	}
	return x, err
}

func adminCommand() *cobra.Command {
	return group("admin", "The account that decides alone, if there is one",
		command("show", "Show the admin", func(ctx context.Context, a *app, _ []string) error {
			c, err := a.council(ctx)
			if err != nil {
				return err
			}
			return a.show(map[string]common.Address{"admin": c.admin}, func(w io.Writer) {
				if c.admin == (common.Address{}) {
					fmt.Fprintln(w, "there is no admin: a quorum of the producers decides")
					return
				}
				fmt.Fprintln(w, c.admin)
			})
		}),
		command("set ACCOUNT|none", "Propose another admin, or none", func(ctx context.Context, a *app, args []string) error {
			var who common.Address
			var err error
			if args[0] != "none" {
				if who, err = parseAddress(args[0]); err != nil {
					return fail(exitUsage, "ACCOUNT: %v; none takes the admin away", err)
				}
			}
			data, err := contracts.SetAdminCall(who)
			if err != nil {
				return err
			}
			return a.propose(ctx, "admin "+args[0], data)
		}, arguments(1, 1), sends))
}
