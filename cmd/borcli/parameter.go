package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"slices"
	"strings"

	"github.com/ethereum/go-ethereum/common"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bornode/bornode/contracts"
	"github.com/bornode/bornode/genesis"
)

func parameterCommand() *cobra.Command {
	var height uint64
	return group("parameter", "Settings of the chain that the producers may change",
		command("list", "Show the parameters of the next block, and what was decided", func(ctx context.Context, a *app, _ []string) error {
			return a.listParameters(ctx)
		}),
		command("set NAME VALUE", "Propose another value from a block on", func(ctx context.Context, a *app, args []string) error {
			return a.setParameter(ctx, args[0], args[1], height)
		}, arguments(2, 2), sends, heightFlag(&height), long("Propose another value of a parameter from a block on. Parameters: "+strings.Join(genesis.Votable(), ", ")+".\n"+
			"Amounts (base_fee, min_stake) have a unit: 2gwei, 500ether. A change takes effect "+fmt.Sprint(contracts.ChangeNotice)+" blocks after the\n"+
			"vote is complete at the earliest; a --height that is nearer then makes the last approval fail."),
			example("borcli parameter set gas_limit 200000000", "borcli parameter set min_stake 500ether --height 120000")))
}

// heightFlag adds --height, 0 for the nearest that leaves time to vote.
func heightFlag(height *uint64) option {
	return flags(func(f *pflag.FlagSet) {
		f.Uint64Var(height, "height", 0, fmt.Sprintf("block from which it counts; 0: %d blocks from now, the notice of %d and time to vote", contracts.ChangeNotice+voteTimeBlocks, contracts.ChangeNotice))
	})
}

// changeHeight is the height of a change: as asked for, if it can be met, else the nearest that leaves time to vote.
func (a *app) changeHeight(ctx context.Context, height uint64) (uint64, error) {
	at, err := a.newest(ctx)
	if err != nil {
		return 0, err
	}
	head := uint64(at.Number)
	if height == 0 {
		return head + contracts.ChangeNotice + voteTimeBlocks, nil
	}
	if height <= head+contracts.ChangeNotice {
		return 0, fail(exitUsage, "--height %d is too near: the chain is at block %d and a change has %d blocks of notice from the last approval on; give %d or more", height, head, contracts.ChangeNotice, head+contracts.ChangeNotice+voteTimeBlocks)
	}
	return height, nil
}

// parameterValue encodes a value as proposals carry it. Amounts may have a unit.
func parameterValue(name, text string) ([]byte, *big.Int, error) {
	if !slices.Contains(genesis.Votable(), name) {
		return nil, nil, fail(exitUsage, "%q is no parameter that a vote can change%s", name, didYouMean(name, genesis.Votable()))
	}
	number := strings.ReplaceAll(text, "_", "")
	if name == genesis.BaseFee || name == genesis.MinStake {
		v, err := parseAmount(text)
		if err != nil {
			return nil, nil, fail(exitUsage, "VALUE: %v", err)
		}
		number = v.String()
	}
	value, err := genesis.EncodeParameter(name, number, false)
	if err != nil {
		return nil, nil, fail(exitUsage, "VALUE: %v", err)
	}
	return value, new(big.Int).SetBytes(value), nil
}

func (a *app) setParameter(ctx context.Context, name, text string, height uint64) error {
	value, number, err := parameterValue(name, text)
	if err != nil {
		return err
	}
	if height, err = a.changeHeight(ctx, height); err != nil {
		return err
	}
	data, err := contracts.ParameterCall(height, name, value)
	if err != nil {
		return err
	}
	return a.propose(ctx, fmt.Sprintf("%s %s from block %d on", name, number, height), data)
}

// changeInfo is a decided change.
type changeInfo struct {
	Height uint64 `json:"height"`
	Kind   string `json:"kind"` // parameter or upgrade
	Name   string `json:"name"`
	Value  string `json:"value"` // a number, or an upgrade's digest
	State  string `json:"state"` // pending: its height is still to come; reached
}

func (a *app) changes(ctx context.Context) ([]changeInfo, error) {
	at, err := a.newest(ctx)
	if err != nil {
		return nil, err
	}
	var list []contracts.MembersChange
	if err := a.readAll(ctx, at, ofMembers(&list, membersABI.PackChanges(), membersABI.UnpackChanges)); err != nil {
		return nil, err
	}
	out := make([]changeInfo, len(list))
	for i, c := range list {
		x := changeInfo{Height: c.Height, Name: quoteOdd(c.Name), State: "pending", Kind: "parameter", Value: new(big.Int).SetBytes(c.Value).String()}
		if c.Kind == contracts.ProposeUpgrade {
			x.Kind, x.Value = "upgrade", common.BytesToHash(c.Value).Hex()
		}
		if c.Height <= uint64(at.Number) {
			x.State = "reached"
		}
		out[i] = x
	}
	return out, nil
}

func changesTable(w io.Writer, list []changeInfo) {
	rows := make([][]string, len(list))
	for i, c := range list {
		rows[i] = []string{fmt.Sprint(c.Height), c.State, c.Kind, c.Name, c.Value}
	}
	columns(w, []string{"FROM BLOCK", "STATE", "KIND", "NAME", "VALUE"}, rows)
}

// listParameters shows what the node says of its parameters, and all decisions.
func (a *app) listParameters(ctx context.Context) error {
	var now map[string]json.RawMessage
	if err := a.ask(ctx, &now, "bor_parameters"); err != nil {
		return err
	}
	list, err := a.changes(ctx)
	if err != nil {
		return err
	}
	return a.show(struct {
		Node    map[string]json.RawMessage `json:"node"`
		Changes []changeInfo               `json:"changes"`
	}{now, list}, func(w io.Writer) {
		parametersTable(w, now)
		if len(list) > 0 {
			fmt.Fprintln(w)
			changesTable(w, list)
		}
	})
}
