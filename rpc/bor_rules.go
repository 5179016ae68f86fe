package rpc

import (
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"github.com/bornode/bornode/chain"
	"github.com/bornode/bornode/contracts"
	"github.com/bornode/bornode/genesis"
)

// parametersJSON are the parameters that producers may change by vote. Those of Producers are missing on a chain
// without that contract.
type parametersJSON struct {
	GasLimit      hexutil.Uint64  `json:"gasLimit"`
	MaxBlockBytes hexutil.Uint64  `json:"maxBlockBytes"`
	BaseFee       hexutil.Uint64  `json:"baseFee"` // of every block, or the floor of a market
	FeeMarket     bool            `json:"feeMarket"`
	Seats         *hexutil.Uint64 `json:"seats,omitempty"`
	MinProducers  *hexutil.Uint64 `json:"minProducers,omitempty"`
	JailTurns     *hexutil.Uint64 `json:"jailTurns,omitempty"`
	SlashPercent  *hexutil.Uint64 `json:"slashPercent,omitempty"`
	MinStake      *hexutil.Big    `json:"minStake,omitempty"`
}

// changeJSON is one decided change. Value is set for a parameter that this version knows, Digest for an upgrade.
type changeJSON struct {
	Kind    string         `json:"kind"` // parameter, upgrade
	Name    string         `json:"name"`
	Number  hexutil.Uint64 `json:"number"` // the first block it holds for
	Value   *hexutil.Big   `json:"value,omitempty"`
	Raw     hexutil.Bytes  `json:"raw"` // as the proposal had it
	Digest  *common.Hash   `json:"digest,omitempty"`
	Known   bool           `json:"known"`             // false: an upgrade that this node stops before
	Invalid string         `json:"invalid,omitempty"` // why it has no effect
}

type upgradeJSON struct {
	Name   string         `json:"name"`
	Number hexutil.Uint64 `json:"number"`
	Digest common.Hash    `json:"digest"`
}

type rulesJSON struct {
	Number     hexutil.Uint64 `json:"number"` // the block that parameters are for: the head's child
	Parameters parametersJSON `json:"parameters"`
	Pending    []changeJSON   `json:"pending"` // decided for a later block, oldest decision first
	Applied    []changeJSON   `json:"applied"` // decided and in force, superseded values included
	Known      []upgradeJSON  `json:"known"`   // upgrades that this node's genesis file describes
}

// Parameters are what producers voted for: the parameters of the next block, what was decided for later ones, and the
// upgrades that this node knows.
func (a *borAPI) Parameters() (*rulesJSON, error) {
	c := a.back.Chain
	head := c.CurrentHeader()
	next := head.Number.Uint64() + 1
	p, err := c.ParamsFor(head, next)
	if err != nil {
		return nil, err
	}
	decisions, err := c.Decisions(head)
	if err != nil {
		return nil, err
	}
	out := &rulesJSON{
		Number: hexutil.Uint64(next), Pending: []changeJSON{}, Applied: []changeJSON{}, Known: []upgradeJSON{},
		Parameters: parametersJSON{GasLimit: hexutil.Uint64(p.GasLimit), MaxBlockBytes: hexutil.Uint64(p.MaxBlockBytes), BaseFee: hexutil.Uint64(p.BaseFee), FeeMarket: !p.BaseFeeFixed},
	}
	for i := range decisions {
		d := &decisions[i]
		x := change(d, !p.BaseFeeFixed)
		switch {
		case d.InForce:
			out.Applied = append(out.Applied, x)
		case d.Height > next:
			out.Pending = append(out.Pending, x)
		}
	}
	for _, u := range c.Upgrades() {
		out.Known = append(out.Known, upgradeJSON{u.Name, hexutil.Uint64(u.Height), u.Digest()})
	}
	s, err := c.StateAt(head)
	if err != nil {
		return nil, err
	}
	if err := c.PrepareState(s, head, next); err != nil { // an upgrade that this node does not know: as of the head
		if s, err = c.StateAt(head); err != nil {
			return nil, err
		}
	}
	out.Parameters.settings(s)
	return out, s.Error()
}

func change(d *chain.Decision, market bool) changeJSON {
	x := changeJSON{Kind: "parameter", Name: d.Name, Number: hexutil.Uint64(d.Height), Raw: d.Value, Known: d.Known}
	if d.Invalid != nil {
		x.Invalid = d.Invalid.Error()
	}
	if d.Kind == contracts.ProposeUpgrade {
		digest := common.BytesToHash(d.Value)
		x.Kind, x.Digest = "upgrade", &digest
	} else if v, err := genesis.DecodeParameter(d.Name, d.Value, market); err == nil {
		x.Value = (*hexutil.Big)(v)
	}
	return x
}

func (p *parametersJSON) settings(s contracts.State) {
	x := contracts.ReadSettings(s)
	if x.Seats == 0 {
		return
	}
	n := func(v uint64) *hexutil.Uint64 { return (*hexutil.Uint64)(&v) }
	p.Seats, p.MinProducers = n(uint64(x.Seats)), n(uint64(x.MinProducers))
	p.JailTurns, p.SlashPercent = n(uint64(x.JailTurns)), n(uint64(x.SlashPercent))
	p.MinStake = (*hexutil.Big)(contracts.ReadMinStake(s))
}
