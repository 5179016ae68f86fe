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
	UsualClockError  = 100 * time.Millisecond // rule 12, unless the file says otherwise or slots are shorter
	MaxTurnSlots     = 10_000
	MaxEpochBlocks   = contracts.MaxEpochBlocks
	MinReversible    = 16
	MaxReversible    = 1 << 20
	MinBlockBytes    = block.MinBlockBytes
	MaxBlockBytes    = block.MaxBlockBytes
	MinGasLimit      = block.MinGasLimit
	MaxGasLimit      = block.MaxGasLimit
	MinMarketBaseFee = 7                     // below that integer division never lowers it
	MaxBaseFee       = 1_000_000_000_000_000 // wei: a higher one could end all voting, for who could pay a vote
	MaxProducers     = contracts.MaxCandidates
	MaxSeats         = block.MaxProducers
	MaxMembers       = contracts.MaxNodes
	MaxUpgrades      = 1024
	MaxUpgradeName   = contracts.MaxChangeName
	MaxCodeBytes     = 64 << 10 // of a system contract: no transaction deploys it, so the bound on deployment does not count
	stakeBytes       = contracts.MaxStakeBits / 8
	longestSetting   = 100 * 365 * 24 * time.Hour
)
