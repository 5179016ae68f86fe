package block

import (
	"encoding/binary"
	"fmt"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
)

// VoteKind tells the two votes of DESIGN §7 apart.
type VoteKind uint8

const (
	Prevote   VoteKind = 1
	Precommit VoteKind = 2
)

func (k VoteKind) String() string {
	switch k {
	case Prevote:
		return "prevote"
	case Precommit:
		return "precommit"
	}
	return fmt.Sprintf("votekind(%d)", uint8(k))
}

// Point names a block by slot and hash. Votes are compared by slot, never by height. The zero Point names no block.
type Point struct {
	Slot uint64
	Hash common.Hash
}

// BLSKey is a compressed BLS12-381 public key in G1, BLSSignature a compressed signature in G2.
type (
	BLSKey       [48]byte
	BLSSignature [96]byte
)

// Link is what a vote says: kind and the link source -> target. For a precommit source and target are the same block
// (it stands for the link B -> B+, half a slot above B).
type Link struct {
	Kind   VoteKind
	Source Point
	Target Point
}

// Vote is one producer's signature on a link.
type Vote struct {
	Link
	Voter     common.Address
	Signature BLSSignature
}

// Domain is what votes and seals are bound to: a chain by the hash of its block 0, and in it the recovery that is in
// force, by its hash. Recovery is zero until a chain was recovered.
type Domain struct {
	Genesis  common.Hash
	Recovery common.Hash
}

// What opens the signed bytes of votes, seals and possession proofs.
const (
	VotePrefix       = "bornode-vote-2"
	SealPrefix       = "bornode-seal-2"
	PossessionPrefix = "bornode-pop-1"
)

// open begins the bytes of something that is signed in this domain.
func (d Domain) open(prefix string) []byte {
	b := make([]byte, 0, len(prefix)+2*common.HashLength+81)
	b = append(b, prefix...)
	b = append(b, d.Genesis[:]...)
	return append(b, d.Recovery[:]...)
}

// VoteDigest is keccak256 of abi.encodePacked("bornode-vote-2", bytes32 genesis, bytes32 recovery, uint8 kind,
// uint64 sourceSlot, bytes32 sourceHash, uint64 targetSlot, bytes32 targetHash): the message that voters sign.
func (d Domain) VoteDigest(l Link) common.Hash {
	b := append(d.open(VotePrefix), byte(l.Kind))
	b = binary.BigEndian.AppendUint64(b, l.Source.Slot)
	b = append(b, l.Source.Hash[:]...)
	b = binary.BigEndian.AppendUint64(b, l.Target.Slot)
	b = append(b, l.Target.Hash[:]...)
	return crypto.Keccak256Hash(b)
}

// SealDigest is keccak256 of abi.encodePacked("bornode-seal-2", bytes32 genesis, bytes32 recovery, bytes32 blockHash): the
// message that a block's producer signs.
func (d Domain) SealDigest(hash common.Hash) common.Hash {
	return crypto.Keccak256Hash(append(d.open(SealPrefix), hash[:]...))
}

// PossessionDigest is keccak256 of abi.encodePacked("bornode-pop-1", uint64 chainId, address account, bytes key48):
// what the owner of a BLS key signs to prove that he holds it (no genesis hash: genesis itself holds such proofs).
func PossessionDigest(chainID uint64, account common.Address, key BLSKey) common.Hash {
	b := make([]byte, 0, len(PossessionPrefix)+8+20+48)
	b = append(b, PossessionPrefix...)
	b = binary.BigEndian.AppendUint64(b, chainID)
	b = append(b, account[:]...)
	b = append(b, key[:]...)
	return crypto.Keccak256Hash(b)
}

// Certificate is a quorum of votes on one link: one bitmap per schedule that counts (two while a change of schedule
// is under way), bit i of bitmap s standing for seat i of schedule s, and one aggregate of the distinct voters.
type Certificate struct {
	Link
	Bitmaps   [][]byte
	Aggregate BLSSignature
}

// Has reports whether seat i of schedule s voted.
func (c *Certificate) Has(s, i int) bool {
	return s < len(c.Bitmaps) && i/8 < len(c.Bitmaps[s]) && c.Bitmaps[s][i/8]&(1<<(i%8)) != 0
}

// Count is the number of seats set in the bitmap of schedule s.
func (c *Certificate) Count(s int) int {
	n := 0
	if s < len(c.Bitmaps) {
		for i := 0; i < len(c.Bitmaps[s])*8; i++ {
			if c.Has(s, i) {
				n++
			}
		}
	}
	return n
}

// HoldsQuorums reports whether the certificate is of so many schedules, and its bitmaps hold a quorum of each. Signatures are not looked at.
func (c *Certificate) HoldsQuorums(schedules []Schedule) bool {
	if len(c.Bitmaps) != len(schedules) {
		return false
	}
	for i, s := range schedules {
		if c.Count(i) < s.Quorum() {
			return false
		}
	}
	return true
}

// NewCertificate builds a certificate without aggregate for the given voters under the given schedules.
func NewCertificate(l Link, schedules []Schedule, voted func(common.Address) bool) *Certificate {
	c := &Certificate{Link: l, Bitmaps: make([][]byte, len(schedules))}
	for s, sched := range schedules {
		c.Bitmaps[s] = make([]byte, (len(sched)+7)/8)
		for i, p := range sched {
			if voted(p.Account) {
				c.Bitmaps[s][i/8] |= 1 << (i % 8)
			}
		}
	}
	return c
}

// Voters lists the distinct producers whose votes the certificate holds, in schedule order. It fails if the bitmaps
// do not fit the schedules (count, length, bits beyond the last seat).
func (c *Certificate) Voters(schedules []Schedule) ([]Producer, error) {
	if len(c.Bitmaps) != len(schedules) {
		return nil, fmt.Errorf("certificate on slot %d has %d bitmaps, %d schedules count", c.Target.Slot, len(c.Bitmaps), len(schedules))
	}
	seen := make(map[common.Address]bool)
	var out []Producer
	for s, sched := range schedules {
		if len(c.Bitmaps[s]) != (len(sched)+7)/8 {
			return nil, fmt.Errorf("certificate on slot %d: bitmap %d has %d bytes for %d seats", c.Target.Slot, s, len(c.Bitmaps[s]), len(sched))
		}
		for i := range len(c.Bitmaps[s]) * 8 {
			if !c.Has(s, i) {
				continue
			}
			if i >= len(sched) {
				return nil, fmt.Errorf("certificate on slot %d: bitmap %d names seat %d of %d", c.Target.Slot, s, i, len(sched))
			}
			if !seen[sched[i].Account] {
				seen[sched[i].Account] = true
				out = append(out, sched[i])
			}
		}
	}
	return out, nil
}
