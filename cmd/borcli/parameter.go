package main

import (
	"context"
	"fmt"
	"io"
	"math/big"
	"slices"
	"strings"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
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
func parameterValue(name, text string, market bool) ([]byte, error) {
	if !slices.Contains(genesis.Votable(), name) {
		return nil, fail(exitUsage, "%q is no parameter that a vote can change%s", name, didYouMean(name, genesis.Votable()))
	}
	number := strings.ReplaceAll(text, "_", "")
	if name == genesis.BaseFee || name == genesis.MinStake {
		v, err := parseAmount(text)
		if err != nil {
			return nil, fail(exitUsage, "VALUE: %v", err)
		}
		number = v.String()
	}
	value, err := genesis.EncodeParameter(name, number, market)
	if err != nil {
		return nil, fail(exitUsage, "VALUE: %v", err)
	}
	return value, nil
}

func (a *app) setParameter(ctx context.Context, name, text string, height uint64) error {
	r, err := a.rules(ctx)
	if err != nil {
		return err
	}
	value, err := parameterValue(name, text, r.Parameters.FeeMarket)
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
	return a.propose(ctx, fmt.Sprintf("%s %s from block %d on", name, parameterText(name, value), height), data)
}

// chainRules is the node's answer about what is in force and what was decided.
type chainRules struct {
	Number     hexutil.Uint64  `json:"number"` // the block that parameters are for
	Parameters chainParameters `json:"parameters"`
	Pending    []chainChange   `json:"pending"` // decided for a later block, oldest decision first
	Applied    []chainChange   `json:"applied"`
	Known      []chainUpgrade  `json:"known"` // upgrades that the node's genesis file describes
}

type chainParameters struct {
	GasLimit      hexutil.Uint64  `json:"gasLimit"`
	MaxBlockBytes hexutil.Uint64  `json:"maxBlockBytes"`
	BaseFee       hexutil.Uint64  `json:"baseFee"`
	FeeMarket     bool            `json:"feeMarket"`
	Seats         *hexutil.Uint64 `json:"seats,omitempty"`
	MinProducers  *hexutil.Uint64 `json:"minProducers,omitempty"`
	JailTurns     *hexutil.Uint64 `json:"jailTurns,omitempty"`
	SlashPercent  *hexutil.Uint64 `json:"slashPercent,omitempty"`
	MinStake      *hexutil.Big    `json:"minStake,omitempty"`
}

type chainChange struct {
	Kind    string         `json:"kind"` // parameter, upgrade
	Name    string         `json:"name"`
	Number  hexutil.Uint64 `json:"number"` // the first block it holds for
	Value   *hexutil.Big   `json:"value,omitempty"`
	Raw     hexutil.Bytes  `json:"raw"`
	Digest  *common.Hash   `json:"digest,omitempty"`
	Known   bool           `json:"known"` // false: an upgrade that the node stops before
	Invalid string         `json:"invalid,omitempty"`
}

type chainUpgrade struct {
	Name   string         `json:"name"`
	Number hexutil.Uint64 `json:"number"`
	Digest common.Hash    `json:"digest"`
}

func (a *app) rules(ctx context.Context) (*chainRules, error) {
	r := new(chainRules)
	return r, a.ask(ctx, r, "bor_parameters")
}

func (a *app) listParameters(ctx context.Context) error {
	r, err := a.rules(ctx)
	if err != nil {
		return err
	}
	return a.show(r, func(w io.Writer) {
		fmt.Fprintf(w, "parameters of block %d:\n", uint64(r.Number))
		lines(w, r.Parameters.pairs()...)
		if len(r.Pending)+len(r.Applied) > 0 {
			fmt.Fprintln(w, "\ndecided by vote:")
			changesTable(w, r, "")
		}
	})
}

// pairs names the parameters as borcli parameter set takes them.
func (p *chainParameters) pairs() []pair {
	number := func(v *hexutil.Uint64) string {
		if v == nil {
			return ""
		}
		return fmt.Sprint(uint64(*v))
	}
	fee := gwei(new(big.Int).SetUint64(uint64(p.BaseFee)))
	if p.FeeMarket {
		fee += ", the floor of a market"
	}
	out := []pair{{genesis.GasLimit, fmt.Sprint(uint64(p.GasLimit))}, {genesis.BlockBytes, fmt.Sprint(uint64(p.MaxBlockBytes))}, {genesis.BaseFee, fee},
		{genesis.Seats, number(p.Seats)}, {genesis.MinSeats, number(p.MinProducers)}, {genesis.JailTurns, number(p.JailTurns)}, {genesis.SlashPercent, number(p.SlashPercent)}}
	if p.MinStake != nil {
		out = append(out, pair{genesis.MinStake, ether(p.MinStake.ToInt())})
	}
	return out
}

// changesTable shows the decisions of a kind, or all.
func changesTable(w io.Writer, r *chainRules, kind string) {
	var rows [][]string
	add := func(list []chainChange, state string) {
		for i := range list {
			if c := &list[i]; kind == "" || c.Kind == kind {
				rows = append(rows, []string{fmt.Sprint(uint64(c.Number)), c.stateText(state), c.Kind, quoteOdd(c.Name), c.valueText()})
			}
		}
	}
	add(r.Applied, "in force")
	add(r.Pending, "pending")
	columns(w, []string{"FROM BLOCK", "STATE", "KIND", "NAME", "VALUE"}, rows)
}

func (c *chainChange) stateText(state string) string {
	switch {
	case c.Invalid != "":
		return "no effect: " + c.Invalid
	case c.Kind == "upgrade" && !c.Known:
		return state + "; this node does not know it and stops before it"
	}
	return state
}

func (c *chainChange) valueText() string {
	switch {
	case c.Digest != nil:
		return c.Digest.Hex()
	case c.Value == nil:
		return c.Raw.String()
	case c.Name == genesis.MinStake:
		return ether(c.Value.ToInt())
	case c.Name == genesis.BaseFee:
		return gwei(c.Value.ToInt())
	}
	return c.Value.ToInt().String()
}
