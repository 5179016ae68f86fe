package recovery

import (
	"slices"

	"github.com/ethereum/go-ethereum/common"

	"github.com/bornode/bornode/block"
)

// Signature is that of one recovery key on the hash of a statement.
type Signature struct {
	Signer common.Address
	Seal   [block.SealLength]byte // R, S, V with low S over Statement.Hash
}

// Signed is a statement with signatures, in rising order of their signers. Signatures are no part of the hash: one recovery may
// go round with different ones.
type Signed struct {
	Statement  Statement
	Signatures []Signature
}

// Hash is that of the statement.
func (s *Signed) Hash() common.Hash { return s.Statement.Hash() }

// Signers lists who signed, by name; whether the signatures are good is not asked.
func (s *Signed) Signers() []common.Address {
	out := make([]common.Address, len(s.Signatures))
	for i := range s.Signatures {
		out[i] = s.Signatures[i].Signer
	}
	return out
}

// DefaultThreshold is how many of k recovery keys have to sign unless genesis says otherwise: the smallest t > 2k/3.
func DefaultThreshold(k int) int { return 2*k/3 + 1 }

// CheckKeys checks a network's list of recovery keys and their threshold t: distinct keys, and 2k/3 < t <= k, so that over a
// third of them signed both of two recoveries. Errors wrap ErrInvalid.
func CheckKeys(keys []common.Address, threshold int) error {
	if len(keys) == 0 || len(keys) > MaxKeys {
		return invalid("%d recovery keys, 1 to %d are allowed", len(keys), MaxKeys)
	}
	if threshold < DefaultThreshold(len(keys)) || threshold > len(keys) {
		return invalid("threshold %d of %d recovery keys, %d to %d are allowed", threshold, len(keys), DefaultThreshold(len(keys)), len(keys))
	}
	seen := make(map[common.Address]bool, len(keys))
	for _, k := range keys {
		if k == (common.Address{}) || seen[k] {
			return invalid("recovery key %s is empty or stands twice", k)
		}
		seen[k] = true
	}
	return nil
}

// Verify checks the statement by itself (Statement.Check), every signature, and that at least threshold distinct ones are of
// the given recovery keys. Good signatures of other accounts are allowed and do not count. Errors wrap ErrInvalid.
func (s *Signed) Verify(keys []common.Address, threshold int) error {
	if err := CheckKeys(keys, threshold); err != nil {
		return err
	}
	if err := s.CheckSignatures(); err != nil {
		return err
	}
	if n := len(s.SignersOf(keys)); n < threshold {
		return invalid("%d of the %d recovery keys signed recovery %s, %d have to", n, len(keys), s.Hash(), threshold)
	}
	return nil
}

// CheckSignatures checks the statement by itself, and that each signature is its signer's; how many there are, and whose, is
// not asked. Errors wrap ErrInvalid.
func (s *Signed) CheckSignatures() error {
	if err := s.Statement.Check(); err != nil {
		return err
	}
	if len(s.Signatures) > MaxSignatures {
		return invalid("%d signatures, %d are allowed", len(s.Signatures), MaxSignatures)
	}
	hash := s.Hash()
	for i := range s.Signatures {
		x := &s.Signatures[i]
		if i > 0 && s.Signatures[i-1].Signer.Cmp(x.Signer) >= 0 {
			return invalid("signatures are not in rising order of their signers: %s", x.Signer)
		}
		if err := block.SignedBy(x.Signer, hash, x.Seal[:]); err != nil {
			return invalid("signature of %s on recovery %s: %s", x.Signer, hash, err)
		}
	}
	return nil
}

// SignersOf lists the signers that are among the keys, in rising order.
func (s *Signed) SignersOf(keys []common.Address) (out []common.Address) {
	for i := range s.Signatures {
		if slices.Contains(keys, s.Signatures[i].Signer) {
			out = append(out, s.Signatures[i].Signer)
		}
	}
	return out
}

// AddSignature adds a signature in its place. A signer that is there already keeps its first one. It fails if the signature is
// not the signer's, or there are too many; errors wrap ErrInvalid.
func (s *Signed) AddSignature(x Signature) error {
	hash := s.Hash()
	if err := block.SignedBy(x.Signer, hash, x.Seal[:]); err != nil {
		return invalid("signature of %s on recovery %s: %s", x.Signer, hash, err)
	}
	at, there := slices.BinarySearchFunc(s.Signatures, x.Signer, func(o Signature, a common.Address) int { return o.Signer.Cmp(a) })
	if there {
		return nil
	}
	if len(s.Signatures) >= MaxSignatures {
		return invalid("more than %d signatures", MaxSignatures)
	}
	s.Signatures = slices.Insert(s.Signatures, at, x)
	return nil
}

// Merge adds the signatures of another copy of the same statement. Errors wrap ErrInvalid.
func (s *Signed) Merge(o *Signed) error {
	if s.Hash() != o.Hash() {
		return invalid("statements %s and %s are not the same: their signatures do not go together", s.Hash(), o.Hash())
	}
	for _, x := range o.Signatures {
		if err := s.AddSignature(x); err != nil {
			return err
		}
	}
	return nil
}

// DomainAt is what a block of this slot, and every vote on it, is bound to on a chain with these recoveries, oldest first.
func DomainAt(genesis common.Hash, list []*Signed, slot uint64) block.Domain {
	for i := len(list) - 1; i >= 0; i-- {
		if list[i].Statement.Base.Slot < slot {
			return block.Domain{Genesis: genesis, Recovery: list[i].Hash()}
		}
	}
	return block.Domain{Genesis: genesis}
}
