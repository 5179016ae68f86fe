package genesis

import (
	"time"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/contracts"
)

// Bounds of what a genesis file may say.
const (
	MaxFileBytes     = 256 << 20
	MaxChainID       = 4503599627370476 // the largest that wallets take
	MinSlot          = 10 * time.Millisecond
	MaxSlot          = time.Minute
	MaxTurnSlots     = 10_000
	MaxEpochBlocks   = contracts.MaxEpochBlocks
	MinReversible    = 16
	MaxReversible    = 1 << 20
	MinBlockBytes    = 64 << 10
	MaxBlockBytes    = block.MaxBlockBytes
	MinGasLimit      = 5_000_000
	MaxGasLimit      = 1 << 40
	MinMarketBaseFee = 7 // below that integer division never lowers it
	MaxProducers     = contracts.MaxCandidates
	MaxSeats         = block.MaxProducers
	MaxMembers       = contracts.MaxNodes
	MaxUpgrades      = 1024
	longestSetting       = 100 * 365 * 24 * time.Hour
)
