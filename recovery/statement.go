package recovery

import (
	"errors"
	"fmt"
	"slices"
	"unicode"
	"unicode/utf8"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/internal/bls"
)

// ErrInvalid is wrapped by every error about a statement, a report or a signature that no node may act on.
var ErrInvalid = errors.New("recovery is invalid")

// What opens the bytes that are hashed and signed.
const (
	StatementPrefix = "bornode-recovery-1"
	ReportPrefix    = "bornode-survivor-1"
)

// Block names a block with what a node needs in order to go on from it.
type Block struct {
	Height    uint64
	Slot      uint64
	Hash      common.Hash
	StateRoot common.Hash // after the block
}

// Point names the block as votes do.
func (b Block) Point() block.Point { return block.Point{Slot: b.Slot, Hash: b.Hash} }

func (b Block) String() string {
	return fmt.Sprintf("block %d of slot %d %s", b.Height, b.Slot, b.Hash)
}

// Base is the block that a recovered chain goes on from. It counts as justified and final by the recovery, as block 0 does.
type Base struct {
	Block
	FC *block.Certificate `rlp:"nilList"` // newest known proof of finality of base or an ancestor; nil: none but block 0
}

// Seat is one producer of the new schedule.
type Seat struct {
	Account common.Address
	SealKey common.Address // the account that seals recover to: Account, as long as keys cannot be rotated
	VoteKey block.BLSKey
	Proof   block.BLSSignature // of possession of VoteKey (block.PossessionDigest)
}

// Statement is R of rule 13: what the holders of the recovery keys sign, outside the chain.
type Statement struct {
	Genesis   common.Hash // block 0
	Number    uint64      // of the domain that it opens: 1 for the first recovery of a chain, else one more than the last
	Previous  common.Hash // hash of the recovery before; zero for the first
	Base      Base
	FirstSlot uint64 // the first block of the new domain has this slot or a later one
	Seats     []Seat // the new schedule, in its order
	Lost      []common.Address
	MayUndo   bool   // final blocks may be undone: a quorum or more of a schedule was lost
	Reason    string // for those who read it later; one line of text
	Time      uint64 // Unix seconds, by the clock of who prepared it
}

// Hash is keccak256 of "bornode-recovery-1" and the statement's encoding. It names the recovery everywhere: in what its keys
// sign, in block.Domain and in the record of the first block.
func (s *Statement) Hash() common.Hash {
	return crypto.Keccak256Hash([]byte(StatementPrefix), s.Encode())
}

// Domain is what votes and seals are bound to under this recovery.
func (s *Statement) Domain() block.Domain {
	return block.Domain{Genesis: s.Genesis, Recovery: s.Hash()}
}

// OldDomain is what votes and seals were bound to before it.
func (s *Statement) OldDomain() block.Domain {
	return block.Domain{Genesis: s.Genesis, Recovery: s.Previous}
}

// Schedule is the new schedule, as blocks and machines know it.
func (s *Statement) Schedule() block.Schedule {
	out := make(block.Schedule, len(s.Seats))
	for i := range s.Seats {
		out[i] = block.Producer{Account: s.Seats[i].Account, Key: s.Seats[i].VoteKey}
	}
	return out
}

// Clone is a copy that shares nothing with the statement but the certificate, which nobody changes.
func (s *Statement) Clone() *Statement {
	c := *s
	c.Seats, c.Lost = slices.Clone(s.Seats), slices.Clone(s.Lost)
	return &c
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, args...))
}

// Check checks all of a statement that needs neither a chain nor keys: bounds, order and what its parts say of each other.
// Whether its base and certificate are of a chain, and whether it was signed, is not asked. Errors wrap ErrInvalid.
func (s *Statement) Check() error {
	switch {
	case s.Genesis == common.Hash{}:
		return invalid("it names no chain")
	case s.Number == 0:
		return invalid("it opens domain 0, which is the chain's own")
	case (s.Number == 1) != (s.Previous == common.Hash{}):
		return invalid("domain %d has the predecessor %s: the first recovery has none, each later one names the one before", s.Number, s.Previous)
	case s.Base.Hash == common.Hash{} || s.Base.StateRoot == common.Hash{}:
		return invalid("its base lacks a hash or a state root")
	case (s.Base.Height == 0) != (s.Base.Slot == 0):
		return invalid("its base has height %d and slot %d", s.Base.Height, s.Base.Slot)
	case s.Base.Height == 0 && s.Base.Hash != s.Genesis:
		return invalid("its base is block 0 and not of its chain")
	case s.FirstSlot <= s.Base.Slot:
		return invalid("its first slot %d is not above slot %d of its base", s.FirstSlot, s.Base.Slot)
	case s.Time == 0:
		return invalid("it tells no time")
	}
	if err := checkReason(s.Reason); err != nil {
		return err
	}
	if fc := s.Base.FC; fc != nil && (fc.Kind != block.Precommit || fc.Target.Slot > s.Base.Slot || fc.Source != fc.Target) {
		return invalid("its certificate of %ss on slot %d proves no final block at or below its base", fc.Kind, fc.Target.Slot)
	}
	return s.checkProducers()
}

func checkReason(reason string) error {
	switch {
	case reason == "":
		return invalid("it tells no reason")
	case len(reason) > MaxReasonBytes:
		return invalid("its reason has %d bytes, %d are allowed", len(reason), MaxReasonBytes)
	case !utf8.ValidString(reason):
		return invalid("its reason is no text")
	}
	for _, r := range reason {
		if !unicode.IsPrint(r) {
			return invalid("its reason has characters that do not print, such as %q", r)
		}
	}
	return nil
}

// checkProducers checks the new schedule and the list of the lost.
func (s *Statement) checkProducers() error {
	if len(s.Seats) == 0 || len(s.Seats) > MaxSeats {
		return invalid("its schedule has %d seats, 1 to %d are allowed", len(s.Seats), MaxSeats)
	}
	if len(s.Lost) > MaxLost {
		return invalid("it holds %d producers lost, %d are allowed", len(s.Lost), MaxLost)
	}
	accounts, keys := make(map[common.Address]bool), make(map[block.BLSKey]bool)
	for i := range s.Seats {
		seat := &s.Seats[i]
		switch {
		case accounts[seat.Account] || keys[seat.VoteKey]:
			return invalid("its schedule names producer %s or its vote key twice", seat.Account)
		case seat.Account == common.Address{}:
			return invalid("seat %d of its schedule has no account", i)
		case seat.SealKey != seat.Account:
			return invalid("producer %s is to seal with %s: seal keys cannot be rotated yet, name the account", seat.Account, seat.SealKey)
		}
		accounts[seat.Account], keys[seat.VoteKey] = true, true
	}
	for i, a := range s.Lost {
		if i > 0 && s.Lost[i-1].Cmp(a) >= 0 {
			return invalid("producers held lost are not in rising order: %s", a)
		}
		if accounts[a] {
			return invalid("producer %s is held lost and has a seat in the new schedule", a)
		}
	}
	return nil
}

// CheckPossession checks that the owner of each seat holds its vote key: one pairing for each. Errors wrap ErrInvalid.
func (s *Statement) CheckPossession(chainID uint64) error {
	for i := range s.Seats {
		seat := &s.Seats[i]
		d := block.PossessionDigest(chainID, seat.Account, seat.VoteKey)
		if bls.ValidatePublicKey(seat.VoteKey) != nil || !bls.Verify(seat.VoteKey, d[:], seat.Proof) {
			return invalid("the proof of producer %s that it holds its vote key is wrong on chain %d", seat.Account, chainID)
		}
	}
	return nil
}
