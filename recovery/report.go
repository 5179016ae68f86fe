package recovery

import (
	"fmt"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/internal/bls"
)

// Report is what a surviving producer holds, signed with its seal key: a base is chosen from the reports of all survivors.
type Report struct {
	Genesis    common.Hash
	Number     uint64      // of the domain in force there; 0: the chain was never recovered
	Recovery   common.Hash // in force there; zero: none
	Producer   common.Address
	Time       uint64 // Unix seconds, by the producer's clock
	LIB        Block
	FC         *block.Certificate `rlp:"nilList"` // of LIB; nil: LIB is block 0 or the base of Recovery
	Justified  Block              // of the highest slot that is known justified: LIB or above
	QC         *block.Certificate `rlp:"nilList"` // of Justified; nil: Justified is LIB
	Under      common.Hash        // newest recovery with a base below Justified, in whose domain QC was signed; zero: none. Not Recovery if its base is not here yet
	Schedules  []block.Schedule   // that count for votes on Justified, or on its children if it is the base of a recovery: two while a change of schedule is under way
	Precommit  block.Point        // target of the newest precommit that it signed; zero: none
	NewestSlot uint64             // highest slot that its log holds a vote or a seal for
	Incomplete bool               // the log may lack signatures above LIB: final blocks that it precommitted may be unknown to it
	Proof      block.BLSSignature // of possession of its vote key, for its seat in the new schedule; not checked here
	Seal       [block.SealLength]byte
}

// Digest is keccak256 of "bornode-survivor-1" and the report's encoding with an empty Seal: what its producer signs.
func (r *Report) Digest() common.Hash {
	x := *r
	x.Seal = [block.SealLength]byte{}
	return crypto.Keccak256Hash([]byte(ReportPrefix), x.Encode())
}

// Domain is what QC is bound to. Whether it is that of Justified's slot is asked of a chain.
func (r *Report) Domain() block.Domain {
	return block.Domain{Genesis: r.Genesis, Recovery: r.Under}
}

// Check checks a report by itself: its signature, that its producer has a seat in its schedules, and that its QC is one of
// them. Whether these are the network's schedules is asked of a chain. Errors wrap ErrInvalid.
func (r *Report) Check() error {
	if err := r.checkForm(); err != nil {
		return fmt.Errorf("report of producer %s: %w", r.Producer, err)
	}
	if err := block.SignedBy(r.Producer, r.Digest(), r.Seal[:]); err != nil {
		return invalid("report of producer %s: %s", r.Producer, err)
	}
	if r.QC != nil {
		if err := CheckCertificate(r.QC, r.Schedules, r.Domain()); err != nil {
			return fmt.Errorf("report of producer %s: %w", r.Producer, err)
		}
	}
	return nil
}

func (r *Report) checkForm() error {
	switch {
	case r.Genesis == common.Hash{} || r.Producer == common.Address{} || r.Time == 0:
		return invalid("it lacks a chain, a producer or a time")
	case (r.Number == 0) != (r.Recovery == common.Hash{}):
		return invalid("it names recovery %s for domain %d", r.Recovery, r.Number)
	case r.Number == 0 && r.Under != common.Hash{}:
		return invalid("its justified %s is told of recovery %s, and its chain was never recovered", r.Justified, r.Under)
	case len(r.Schedules) == 0 || len(r.Schedules) > maxSchedules:
		return invalid("%d schedules, 1 or %d are allowed", len(r.Schedules), maxSchedules)
	case !sits(r.Schedules, r.Producer):
		return invalid("the producer has no seat in its schedules")
	case r.Justified.Slot < r.LIB.Slot || r.Justified.Height < r.LIB.Height:
		return invalid("the justified %s lies below the last irreversible %s", r.Justified, r.LIB)
	case (r.QC == nil) != (r.Justified == r.LIB):
		return invalid("%s is told as justified without its certificate, or the last irreversible block with one", r.Justified)
	case r.QC != nil && (r.QC.Kind != block.Prevote || r.QC.Target != r.Justified.Point()):
		return invalid("the certificate of %ss on slot %d is not of the justified %s", r.QC.Kind, r.QC.Target.Slot, r.Justified)
	case r.FC != nil && (r.FC.Kind != block.Precommit || r.FC.Target != r.LIB.Point()):
		return invalid("the certificate of %ss on slot %d is not of the last irreversible %s", r.FC.Kind, r.FC.Target.Slot, r.LIB)
	case r.FC == nil && r.LIB.Height > 0 && r.Recovery == common.Hash{}:
		return invalid("the last irreversible %s is told without its certificate", r.LIB)
	}
	for _, s := range r.Schedules {
		if len(s) == 0 || len(s) > MaxSeats {
			return invalid("schedule of %d producers, 1 to %d are allowed", len(s), MaxSeats)
		}
	}
	return nil
}

func sits(schedules []block.Schedule, a common.Address) bool {
	for _, s := range schedules {
		if s.Index(a) >= 0 {
			return true
		}
	}
	return false
}

// CheckCertificate checks that a certificate holds a quorum of every schedule, and its aggregate, in a domain. Errors wrap
// ErrInvalid.
func CheckCertificate(c *block.Certificate, schedules []block.Schedule, d block.Domain) error {
	voters, err := c.Voters(schedules)
	if err != nil {
		return invalid("%s", err)
	}
	for i, s := range schedules {
		if c.Count(i) < s.Quorum() {
			return invalid("the certificate of %ss on slot %d has %d votes, %d are a quorum", c.Kind, c.Target.Slot, c.Count(i), s.Quorum())
		}
	}
	keys := make([][48]byte, len(voters))
	for i, p := range voters {
		keys[i] = p.Key
	}
	digest := d.VoteDigest(c.Link)
	if !bls.VerifyAggregate(keys, digest[:], c.Aggregate) {
		return invalid("the aggregate of the certificate of %ss on slot %d is wrong", c.Kind, c.Target.Slot)
	}
	return nil
}
