package block

import (
	"math/big"
	"time"
)

var one = big.NewInt(1)

// Parameters are the numbers of a chain that consensus and execution both need; they come from genesis and are
// covered by block 0's record. MaxBlockBytes, GasLimit and BaseFee may change by vote: those of a block are known only
// with the state of its parent (package chain), so a check before execution uses the bounds in limits.go.
type Parameters struct {
	ChainID       uint64
	GenesisTime   uint64 // seconds, Unix; slot 0 begins here
	SlotMillis    uint64
	TurnSlots     uint64 // consecutive slots of one producer
	EpochBlocks   uint64 // blocks of an epoch; epoch e ends with block (e+1)*EpochBlocks
	MaxReversible uint64 // blocks above the newest proven final one after which production slows
	MinProducers  uint64
	MaxBlockBytes uint64 // encoded block
	GasLimit      uint64 // of every block
	BaseFeeFixed  bool   // true: BaseFee is every block's; false: EIP-1559 market with BaseFee as floor
	BaseFee       uint64 // wei
	Patience      bool   // rule 8's patience
	// ClockErrorMillis is how far a producer's clock may be off (rule 12); 0: the usual. Use MaxClockError.
	ClockErrorMillis uint64
}

// Slot is the length of a slot.
func (p *Parameters) Slot() time.Duration { return time.Duration(p.SlotMillis) * time.Millisecond }

// usualClockError is the bound of rule 12 where genesis names none, in slots of at least that length.
const usualClockError = 100 * time.Millisecond

// MaxClockError is how far a producer's clock may be off (rule 12): a block is voted for and relayed from so long before
// its slot begins. It is at most a slot, and 100 ms or a slot where genesis names none.
func (p *Parameters) MaxClockError() time.Duration {
	if p.ClockErrorMillis == 0 {
		return min(usualClockError, p.Slot())
	}
	return min(time.Duration(p.ClockErrorMillis)*time.Millisecond, p.Slot()) //nolint:gosec // genesis is checked
}

// HeaderTime is the Time of a block of this slot, in seconds: genesis time + floor(slot*slotMillis/1000).
func (p *Parameters) HeaderTime(slot uint64) uint64 { return p.GenesisTime + slot*p.SlotMillis/1000 }

// SlotStart is when a slot begins.
func (p *Parameters) SlotStart(slot uint64) time.Time {
	return time.UnixMilli(int64(p.GenesisTime)*1000 + int64(slot*p.SlotMillis)) //nolint:gosec // genesis is checked
}

// SlotAt is the slot at a time; before genesis it is 0 and false.
func (p *Parameters) SlotAt(t time.Time) (uint64, bool) {
	d := t.UnixMilli() - int64(p.GenesisTime)*1000 //nolint:gosec // genesis is checked
	if d < 0 {
		return 0, false
	}
	return uint64(d) / p.SlotMillis, true
}

// EpochEnd reports whether the block of this height is the last of its epoch.
func (p *Parameters) EpochEnd(height uint64) bool { return height > 0 && height%p.EpochBlocks == 0 }
