package node

import (
	"errors"
	"fmt"
	"slices"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/rlp"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/consensus/dpos"
	"github.com/bornode/bornode/contracts"
	"github.com/bornode/bornode/internal/bls"
)

// This file decides; it knows no clock, chain or pool. duties.go does what is decided.

// Bounds of the evidence that waits.
const (
	maxProofs     = 32
	maxProofBytes = 8 << 20 // call data of all of them together
	maxProofTries = 5       // that come to nothing before one is given up
	// rankBlocks is how long a producer waits for each one that ranks before it in submitting evidence.
	rankBlocks = 8
)

// standing is how our account stands after a block.
type standing struct {
	height, epochBlocks uint64
	seconds             uint64 // of the block
	me                  contracts.Candidate
	elects              bool // the epoch that the next block lies in ends with an election
}

// epoch is that of the next block, the first that could hold a transaction of ours.
func (s *standing) epoch() uint64 { return s.height / s.epochBlocks }

func (s *standing) jailed() bool { return s.me.JailedUntil != 0 }

// reportDue: a candidate without a seat is to say once in an epoch that it is alive, unless no seat can follow from it.
// Stake and role are for the contract to judge.
func (s *standing) reportDue() bool {
	c := &s.me
	return s.elects && c.Place != 0 && !c.Resigned && !c.Guilty && !s.jailed() && c.Votes.Sign() > 0 && c.Seated&1 == 0 &&
		c.Reported != s.epoch()+1
}

func (s *standing) unjailDue() bool {
	return s.jailed() && !s.me.Guilty && s.seconds >= s.me.JailedUntil
}

// rank is how many producers of the schedule submit evidence before this one: by seat, beginning at another one for
// each slot. An account without a seat comes after all of them.
func rank(s block.Schedule, self common.Address, slot uint64) uint64 {
	n := uint64(len(s))
	at := s.Index(self)
	if at < 0 {
		return n
	}
	return (uint64(at) + n - slot%n) % n
}

// fault is evidence as consensus tells it, with the blocks that the contract wants to see: gathered at once, since
// blocks of losing branches are forgotten when LIB passes them.
type fault struct {
	dpos.Evidence
	blocks []contracts.EvidenceHeader // DoubleSeal: both; CrossVote: the path
}

var errForgotten = errors.New("a block that the evidence needs is forgotten already")

// gather makes a fault of evidence.
func gather(e dpos.Evidence, sealed func(common.Hash) (*block.SealedHeader, error)) (*fault, error) {
	var hashes []common.Hash
	switch e.Kind {
	case dpos.DoubleSeal:
		hashes = []common.Hash{e.Headers[0].Hash, e.Headers[1].Hash}
	case dpos.CrossVote:
		hashes = e.Path
	}
	f := &fault{Evidence: e}
	for _, h := range hashes {
		s, err := sealed(h)
		if err != nil {
			return nil, fmt.Errorf("read block %s for evidence: %w", h, err)
		}
		if s == nil {
			return nil, fmt.Errorf("%w: %s", errForgotten, h)
		}
		header, err := rlp.EncodeToBytes(s.Header)
		if err != nil {
			return nil, err
		}
		record, err := rlp.EncodeToBytes(s.Record)
		if err != nil {
			return nil, err
		}
		f.blocks = append(f.blocks, contracts.EvidenceHeader{Header: header, Record: record, Seal: s.Seal[:]})
	}
	return f, nil
}

// calls encodes a fault for the contract.
func (f *fault) calls() ([][]byte, error) {
	if f.Kind == dpos.DoubleSeal {
		if len(f.blocks) != 2 {
			return nil, fmt.Errorf("evidence of two seals with %d blocks", len(f.blocks))
		}
		data, err := contracts.SealEvidenceCall(f.blocks[0], f.blocks[1])
		return [][]byte{data}, err
	}
	key, err := bls.UncompressG1(f.Key)
	if err != nil {
		return nil, err
	}
	var votes [2]contracts.EvidenceVote
	for i, v := range f.Votes {
		sig, err := bls.UncompressG2(v.Signature)
		if err != nil {
			return nil, err
		}
		votes[i] = contracts.EvidenceVote{
			Kind: uint8(v.Kind), SourceSlot: v.Source.Slot, SourceHash: v.Source.Hash,
			TargetSlot: v.Target.Slot, TargetHash: v.Target.Hash, Signature: sig,
		}
	}
	switch f.Kind {
	case dpos.DoubleVote:
		data, err := contracts.PrevotesEvidenceCall(key, votes[0], votes[1])
		return [][]byte{data}, err
	case dpos.CrossVote:
		return contracts.CrossEvidenceCalls(key, votes[0], votes[1], f.blocks)
	}
	return nil, fmt.Errorf("evidence of unknown kind %d", f.Kind)
}

// proof is evidence on its way into a block.
type proof struct {
	Kind   uint8
	Guilty common.Address
	Slot   uint64
	Calls  [][]byte // one transaction each, in this order

	since  uint64  // height at which it was found
	next   int     // call to be sent
	flight *flight // what is on its way
	tries  int
	rest   uint64 // nothing is sent before this height
	told   bool   // found guilty already, at the head
}

func (p *proof) size() (n int) {
	for _, c := range p.Calls {
		n += len(c)
	}
	return n
}

// docket holds the evidence that waits: for one account no more than one of a kind, since one is enough.
type docket struct{ proofs []*proof }

func (d *docket) bytes() (n int) {
	for _, p := range d.proofs {
		n += p.size()
	}
	return n
}

// has reports whether evidence of this kind against this account waits already.
func (d *docket) has(kind uint8, guilty common.Address) bool {
	return slices.ContainsFunc(d.proofs, func(p *proof) bool { return p.Kind == kind && p.Guilty == guilty })
}

// add takes a proof in; false if it is known or there is no room.
func (d *docket) add(p *proof) bool {
	if len(p.Calls) == 0 || d.has(p.Kind, p.Guilty) || len(d.proofs) >= maxProofs || d.bytes()+p.size() > maxProofBytes {
		return false
	}
	d.proofs = append(d.proofs, p)
	return true
}

func (d *docket) remove(p *proof) {
	d.proofs = slices.DeleteFunc(d.proofs, func(x *proof) bool { return x == p })
}

// savedProof is a line of the file.
type savedProof struct {
	Kind   uint8
	Guilty common.Address
	Slot   uint64
	Calls  [][]byte
}

// encode is what is kept over a restart.
func (d *docket) encode() ([]byte, error) {
	lines := make([]savedProof, len(d.proofs))
	for i, p := range d.proofs {
		lines[i] = savedProof{p.Kind, p.Guilty, p.Slot, p.Calls}
	}
	return rlp.EncodeToBytes(lines)
}

// decodeDocket reads what encode made. What does not fit the bounds is left out.
func decodeDocket(b []byte, height uint64) (*docket, error) {
	if len(b) > maxProofBytes+maxProofs*1024 {
		return nil, fmt.Errorf("%d bytes of evidence", len(b))
	}
	var lines []savedProof
	if err := rlp.DecodeBytes(b, &lines); err != nil {
		return nil, err
	}
	d := new(docket)
	for _, x := range lines {
		d.add(&proof{Kind: x.Kind, Guilty: x.Guilty, Slot: x.Slot, Calls: x.Calls, since: height})
	}
	return d, nil
}
