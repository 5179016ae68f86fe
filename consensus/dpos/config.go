package dpos

import (
	"errors"

	"github.com/ethereum/go-ethereum/common"

	"github.com/bornode/bornode/block"
)

// Config is what a machine is made of. Params, Self, Signed and SilentUntilProven have no default.
type Config struct {
	Params block.Parameters
	Self   common.Address // who signs; zero: an observer, who signs nothing

	Recoveries []Recovery // that this node applied, oldest first (rule 13)

	MaxAhead   uint64 // slots by which a signature may be ahead of its signer's time (max_clock_error is at most one), for rule 11
	ClockBound uint64 // slots by which clocks of producers may differ, for rule 11

	Signed            []SignRecord // the WAL, in any order
	SilentUntilProven bool         // the WAL is missing: sign nothing until the chain proves a source from after the start

	NeverSigned bool // the key was never used before this start: no line is needed (rule 11)

	Bugs Bugs // for the checkers' tests only
}

// DefaultConfig is a Config for these parameters and signer.
func DefaultConfig(p block.Parameters, self common.Address) Config {
	return Config{Params: p, Self: self, MaxAhead: 1, ClockBound: 10}
}

// Validate reports the first setting that no machine can run with.
func (c *Config) Validate() error {
	switch p := &c.Params; {
	case p.SlotMillis == 0:
		return errors.New("dpos: SlotMillis is 0; a slot needs a length")
	case p.TurnSlots == 0:
		return errors.New("dpos: TurnSlots is 0; a turn needs a slot")
	case p.EpochBlocks == 0:
		return errors.New("dpos: EpochBlocks is 0; an epoch needs a block")
	case p.MaxReversible == 0:
		return errors.New("dpos: MaxReversible is 0; no block could be reversible")
	case p.SlotMillis > maxSlotMillis || p.TurnSlots > maxTurnSlots:
		return errors.New("dpos: SlotMillis or TurnSlots is beyond reason")
	}
	return checkRecoveries(c.Recoveries)
}

// Bugs plants faults, each dropping one rule, so that the simulator and the exhaustive model can prove that their
// checkers notice. No configuration file, flag or message reaches it: only code that builds a Config by hand does.
type Bugs struct {
	SkipSlotRule       bool // prevotes several blocks of one slot (rule 6, first)
	SkipLinkRule       bool // ignores the second of rule 6, in both directions
	SkipNewestPrevote  bool // precommits whatever its newest prevote is on (rule 5)
	PrecommitWithoutQC bool // precommits what it prevoted, at once (rule 5)
	SingleQuorum       bool // counts the new schedule alone while both count (rule 9)
	QuorumMinusOne     bool // q - 1 votes are a quorum (rule 4)
	ForgetWAL          bool // starts as if it had signed nothing (rule 11)
	VoteBeforeExecute  bool // prevotes what it has not executed (rule 3)
	ProduceTwice       bool // produces a slot again after a restart (rule 11)
	SkipFirstSync      bool // signs at once after a start, whatever others know (rule 11, first sync and line)
	SkipLine           bool // signs for slots that an earlier run may have signed for (rule 11)
	FewAnswers         bool // more than f answers are enough, not a quorum with itself (rule 11)
	IgnoreTold         bool // does not enter votes that it is told, nor falls silent for them (rule 11)
	IgnoreSessions     bool // does not fall silent for a session that its log lacks (rule 11)
	IgnoreJustified    bool // a forgetful one rests on any source once enough have answered (rule 11, J*)
	FloorOnly          bool // a forgetful one waits for a source above its floor, whatever others answer (rule 11, (ii))
	IgnoreStall        bool // neither slows down nor asks others to (rule 10)
	KeepOldDomain      bool // takes what was signed before a recovery as signed in its domain (rule 13)
	VolatileQC         bool // keeps the QC that a precommit rests on in memory only (rule 11)
}
