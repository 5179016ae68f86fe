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

// Domain separates the votes of one chain from those of any other.
type Domain struct {
	ChainID uint64
	Genesis common.Hash
}

// VotePrefix and PossessionPrefix open the signed bytes of votes and of possession proofs.
const (
	VotePrefix       = "bornode-vote-1"
	PossessionPrefix = "bornode-pop-1"
)

// VoteDigest is keccak256 of abi.encodePacked("bornode-vote-1", uint64 chainId, bytes32 genesis, uint8 kind,
// uint64 sourceSlot, bytes32 sourceHash, uint64 targetSlot, bytes32 targetHash): the message that voters sign.
func (d Domain) VoteDigest(l Link) common.Hash {
	b := make([]byte, 0, len(VotePrefix)+8+32+1+80)
	b = append(b, VotePrefix...)
	b = binary.BigEndian.AppendUint64(b, d.ChainID)
	b = append(b, d.Genesis[:]...)
	b = append(b, byte(l.Kind))
	b = binary.BigEndian.AppendUint64(b, l.Source.Slot)
	b = append(b, l.Source.Hash[:]...)
	b = binary.BigEndian.AppendUint64(b, l.Target.Slot)
	b = append(b, l.Target.Hash[:]...)
	return crypto.Keccak256Hash(b)
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
