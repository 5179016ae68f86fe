package node

import (
	"errors"
	"fmt"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/genesis"
	"github.com/bornode/bornode/recovery"
)

// How far ahead of a clock a recovery may lie. A statement that lies further ahead would have the network wait for its first slot, and
// no statement beside it counts.
const (
	maxTimeAhead      = time.Hour      // its time, by the clock of the machine that signs or applies it
	maxFirstSlotAhead = 24 * time.Hour // the beginning of its first slot, by that clock and by its own time
)

// ErrAhead says that a recovery lies too far ahead of this machine's clock. Either that clock is wrong, or the preparer's was.
var ErrAhead = errors.New("the recovery is ahead of this machine's clock")

// CheckSignable checks all of a recovery that needs neither a threshold of signatures, a folder nor a clock: that it is of the genesis
// file's chain, its parts, the signatures that it has, its number, its first slot against its own time, and that its producers hold their
// keys. Whoever signs it checks what whoever applies it will. Errors wrap recovery.ErrInvalid.
func CheckSignable(s *recovery.Signed, gen *genesis.Genesis) error {
	zero, err := gen.Block()
	if err != nil {
		return err
	}
	if err := checkChain(&s.Statement, zero.Hash()); err != nil {
		return err
	}
	if err := s.CheckSignatures(); err != nil {
		return err
	}
	return checkLimits(&s.Statement, gen)
}

// checkLimits checks the number of a statement of this chain, its first slot against its own time, and that its producers hold their
// keys.
func checkLimits(s *recovery.Statement, gen *genesis.Genesis) error {
	if s.Number > maxApplied {
		return fmt.Errorf("%w: it opens domain %d, a chain has at most %d", recovery.ErrInvalid, s.Number, maxApplied)
	}
	p := gen.Parameters()
	if last := lastFirstSlot(&p, preparedAt(s)); s.FirstSlot > last {
		return fmt.Errorf("%w: its first slot %d begins more than a day after it was prepared (slot %d is the last one allowed)", recovery.ErrInvalid, s.FirstSlot, last)
	}
	return s.CheckPossession(p.ChainID)
}

func checkChain(s *recovery.Statement, zero common.Hash) error {
	if s.Genesis != zero {
		return fmt.Errorf("%w: it is of the chain with block 0 %s, the genesis file is of %s", recovery.ErrInvalid, s.Genesis, zero)
	}
	return nil
}

// CheckNotAhead checks a statement's time and first slot against the clock of the machine that signs or applies it: the time may be an
// hour ahead, the beginning of the first slot a day. How long ago it was prepared does not matter. Errors wrap ErrAhead.
func CheckNotAhead(s *recovery.Statement, gen *genesis.Genesis, now time.Time) error {
	if s.Time > uint64(now.Add(maxTimeAhead).Unix()) { //nolint:gosec // after 1970
		return fmt.Errorf("%w: it was prepared at %s by the clock of the machine that prepared it, here it is %s, and %v ahead is allowed", ErrAhead, inWords(preparedAt(s)), inWords(now), maxTimeAhead)
	}
	p := gen.Parameters()
	if last := lastFirstSlot(&p, now); s.FirstSlot > last {
		return fmt.Errorf("%w: its first slot %d begins at %s, here it is %s, and %v ahead is allowed (slot %d)", ErrAhead, s.FirstSlot, inWords(p.SlotStart(s.FirstSlot)), inWords(now), maxFirstSlotAhead, last)
	}
	return nil
}

func inWords(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 MST") }

func preparedAt(s *recovery.Statement) time.Time {
	return time.Unix(int64(s.Time), 0) //nolint:gosec // a time that is none gives a slot that is none
}

// lastFirstSlot is the last slot that a recovery may begin with by a clock's word: a slip of the finger must not end a network.
func lastFirstSlot(p *block.Parameters, now time.Time) uint64 {
	present, _ := p.SlotAt(now)
	return present + uint64(maxFirstSlotAhead/time.Millisecond)/p.SlotMillis //nolint:gosec // positive
}
