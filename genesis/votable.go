package genesis

import (
	"errors"
	"fmt"
	"math/big"
	"slices"

	"github.com/bornode/bornode/contracts"
)

// Parameters that a vote or an upgrade may change.
const (
	GasLimit      = "gas_limit"
	BlockBytes    = "max_block_bytes"
	BaseFee       = "base_fee"
	Seats         = "seats"
	MinSeats      = "min_producers"
	JailTurns     = "jail_turns"
	SlashPercent  = "slash_percent"
	MinStake      = "min_stake"
	valueBytes    = 8
	maxJailTurns  = 1<<16 - 1
	wholePercents = 100
)

// votable is one such parameter: how many bytes its value has in a proposal, the most significant first, and between
// which bounds it must lie. The bounds are rules of consensus: a value outside has no effect on any node.
type votable struct {
	name      string
	bytes     int
	low, high *big.Int
}

func parameters() []votable {
	n := func(v int64) *big.Int { return big.NewInt(v) }
	mostStake := new(big.Int).Sub(new(big.Int).Lsh(n(1), contracts.MaxStakeBits), n(1))
	return []votable{
		{BaseFee, valueBytes, n(0), n(MaxBaseFee)},
		{GasLimit, valueBytes, n(MinGasLimit), n(MaxGasLimit)},
		{JailTurns, valueBytes, n(1), n(maxJailTurns)},
		{BlockBytes, valueBytes, n(MinBlockBytes), n(MaxBlockBytes)},
		{MinSeats, valueBytes, n(1), n(MaxSeats)},
		{MinStake, stakeBytes, n(1), mostStake},
		{Seats, valueBytes, n(1), n(MaxSeats)},
		{SlashPercent, valueBytes, n(0), n(wholePercents)},
	}
}

// Votable names the parameters that may change, sorted.
func Votable() []string {
	var names []string
	for _, p := range parameters() {
		names = append(names, p.name)
	}
	slices.Sort(names)
	return names
}

// ErrParameter is wrapped by every error about a parameter that no vote can give the chain.
var ErrParameter = errors.New("parameter")

func parameter(name string, market bool) (votable, error) {
	for _, p := range parameters() {
		if p.name == name {
			if market && name == BaseFee {
				p.low = big.NewInt(MinMarketBaseFee)
			}
			return p, nil
		}
	}
	return votable{}, fmt.Errorf("%w %q cannot change by vote; those that can are %v", ErrParameter, clip(name), Votable())
}

func (p *votable) check(v *big.Int) error {
	if v.Cmp(p.low) < 0 || v.Cmp(p.high) > 0 {
		return fmt.Errorf("%w %s: %s lies outside %s to %s", ErrParameter, p.name, v, p.low, p.high)
	}
	return nil
}

// ParseParameter reads a parameter's value: a decimal or 0x-hexadecimal number, of wei where the parameter is an
// amount. market says that the chain's fees are a market. Errors wrap ErrParameter.
func ParseParameter(name, text string, market bool) (*big.Int, error) {
	p, err := parameter(name, market)
	if err != nil {
		return nil, err
	}
	v, err := amountOf(name, text)
	if err != nil {
		return nil, fmt.Errorf("%w %s: %q is no number", ErrParameter, name, clip(text))
	}
	return v, p.check(v)
}

// EncodeParameter is the value, as ParseParameter reads it, in the form that a proposal carries.
func EncodeParameter(name, text string, market bool) ([]byte, error) {
	v, err := ParseParameter(name, text, market)
	if err != nil {
		return nil, err
	}
	p, err := parameter(name, market)
	return v.FillBytes(make([]byte, p.bytes)), err
}

// DecodeParameter reads what EncodeParameter makes. An error means that the value has no effect on the chain.
func DecodeParameter(name string, value []byte, market bool) (*big.Int, error) {
	p, err := parameter(name, market)
	if err != nil {
		return nil, err
	}
	if len(value) != p.bytes {
		return nil, fmt.Errorf("%w %s: the value has %d bytes, not %d", ErrParameter, name, len(value), p.bytes)
	}
	v := new(big.Int).SetBytes(value)
	return v, p.check(v)
}
