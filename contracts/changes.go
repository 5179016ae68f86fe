package contracts

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math/big"
	"slices"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
)

// Slots reads committed storage; go-ethereum's state.Reader is one. An error means that the slot could not be read.
type Slots interface {
	Storage(account common.Address, slot common.Hash) (common.Hash, error)
}

// Change is what a vote in Members decided: from the block of this height on a parameter has another value, or an
// upgrade is in force.
type Change struct {
	Height uint64
	Kind   uint8  // ProposeParameter or ProposeUpgrade
	Number uint64 // of the decision, from 1 on: it replaced an earlier one of the same kind, height and name
	Name   string // of at most MaxChangeName bytes
	Value  []byte // of at most MaxChangeValue bytes: see ParameterValue; an upgrade's digest
}

const changeSlots = 3 // of one Change in storage: height, kind and number; name; value

// ReadChanges is Members.changes without running the contract, sorted by Number, the oldest decision first: a program
// that reads storage says the same before and after the contract's code is replaced. At most MaxChanges are read. One
// whose name or value is longer than the contract allows comes without both, so that it has no effect.
func ReadChanges(s Slots) ([]Change, error) {
	array := slotHash(slotChanges)
	n, err := s.Storage(MembersAddress, array)
	if err != nil {
		return nil, fmt.Errorf("read the number of decided changes: %w", err)
	}
	count := MaxChanges
	if x := n.Big(); x.IsUint64() && x.Uint64() < MaxChanges {
		count = int(x.Uint64()) //nolint:gosec // below MaxChanges
	}
	changes := make([]Change, count)
	for i := range changes {
		if changes[i], err = readChange(s, element(array, i, changeSlots)); err != nil {
			return nil, fmt.Errorf("read decided change %d: %w", i, err)
		}
	}
	slices.SortStableFunc(changes, func(a, b Change) int { return cmp.Compare(a.Number, b.Number) })
	return changes, nil
}

func readChange(s Slots, at common.Hash) (c Change, err error) {
	head, err := s.Storage(MembersAddress, at)
	if err != nil {
		return c, err
	}
	c.Height, c.Kind, c.Number = binary.BigEndian.Uint64(head[24:]), head[23], binary.BigEndian.Uint64(head[15:])
	name, fits, err := readBytes(s, offset(at, 1), MaxChangeName)
	if err != nil || !fits {
		return c, err
	}
	value, fits, err := readBytes(s, offset(at, 2), MaxChangeValue)
	if err != nil || !fits {
		return c, err
	}
	c.Name, c.Value = string(name), value
	return c, nil
}

// readBytes reads a bytes or string value of at most limit bytes. fits is false for a longer or malformed one.
func readBytes(s Slots, slot common.Hash, limit int) (b []byte, fits bool, err error) {
	h, err := s.Storage(MembersAddress, slot)
	if err != nil {
		return nil, false, err
	}
	if h[31]&1 == 0 {
		if n := int(h[31] / 2); n < 32 && n <= limit {
			return append([]byte{}, h[:n]...), true, nil
		}
		return nil, false, nil
	}
	size := new(big.Int).Rsh(h.Big(), 1)
	if !size.IsUint64() || size.Uint64() > uint64(limit) { //nolint:gosec // a constant
		return nil, false, nil
	}
	n := int(size.Uint64()) //nolint:gosec // at most limit
	for i := 0; len(b) < n; i++ {
		part, err := s.Storage(MembersAddress, offset(crypto.Keccak256Hash(slot[:]), uint64(i))) //nolint:gosec // small
		if err != nil {
			return nil, false, err
		}
		b = append(b, part[:min(32, n-len(b))]...)
	}
	return b, true, nil
}

// ParameterValue is the value of a parameter as a proposal carries it: 8 bytes, the most significant first. See
// genesis.EncodeParameter, which knows names and bounds.
func ParameterValue(v uint64) []byte { return binary.BigEndian.AppendUint64(nil, v) }

// Settings are the rules of Producers that may change by vote.
type Settings struct {
	Seats        uint16
	MinProducers uint16
	JailTurns    uint16
	SlashPercent uint8
}

// settingsAt is where Settings begin in their slot, counted from its low end: after genesisTime, slotMillis and
// epochBlocks.
const settingsAt = 24

// StateWriter reads and writes storage; go-ethereum's StateDB is one.
type StateWriter interface {
	State
	SetState(account common.Address, slot, value common.Hash) common.Hash
}

// ReadSettings are the settings that Producers has now.
func ReadSettings(s State) Settings {
	h := s.GetState(ProducersAddress, slotHash(slotSettings))
	b := h[:32-settingsAt]
	return Settings{
		SlashPercent: b[1], JailTurns: binary.BigEndian.Uint16(b[2:]),
		MinProducers: binary.BigEndian.Uint16(b[4:]), Seats: binary.BigEndian.Uint16(b[6:]),
	}
}

// WriteSettings gives Producers other settings; all else in their slot stays.
func WriteSettings(s StateWriter, x Settings) {
	h := s.GetState(ProducersAddress, slotHash(slotSettings))
	b := h[:32-settingsAt]
	b[1] = x.SlashPercent
	binary.BigEndian.PutUint16(b[2:], x.JailTurns)
	binary.BigEndian.PutUint16(b[4:], x.MinProducers)
	binary.BigEndian.PutUint16(b[6:], x.Seats)
	s.SetState(ProducersAddress, slotHash(slotSettings), h)
}

// ReadMinStake is the least stake of a candidate, in wei.
func ReadMinStake(s State) *big.Int {
	h := s.GetState(ProducersAddress, slotHash(slotSettings+2))
	return new(big.Int).SetBytes(h[32-MaxStakeBits/8:])
}

// WriteMinStake gives Producers another least stake of a candidate, below 2^MaxStakeBits wei.
func WriteMinStake(s StateWriter, v *big.Int) {
	slot := slotHash(slotSettings + 2)
	h := s.GetState(ProducersAddress, slot)
	v.FillBytes(h[32-MaxStakeBits/8:])
	s.SetState(ProducersAddress, slot, h)
}
