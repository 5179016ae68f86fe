package contracts

import (
	"fmt"

	"github.com/ethereum/go-ethereum/common"
)

// Lengths of what evidence is made of.
const (
	sealBytes         = 65  // r, s, v
	rawKeyBytes       = 128 // a BLS key, uncompressed as EIP-2537 has it
	rawSignatureBytes = 256
)

// EvidenceHeader is a sealed header as Producers reads it.
type EvidenceHeader struct {
	Header []byte // RLP of the header
	Record []byte // RLP of its consensus record
	Seal   []byte // 65 bytes: r, s, v (v is 0 or 1); only evidence of two seals needs it
}

// EvidenceVote is a vote as Producers reads it: the generated binding under its own name. Kind is 1 for a prevote, 2
// for a precommit; Signature has 256 bytes (bls.UncompressG2 makes them of a vote's 96).
type EvidenceVote = VotesVote

// SealEvidenceCall is the call data that proves two blocks of one slot by one producer. The error names what has not
// the form that the contract wants; whether it convinces is the contract's to say.
func SealEvidenceCall(a, b EvidenceHeader) ([]byte, error) {
	for i, h := range []EvidenceHeader{a, b} {
		if len(h.Header) == 0 || len(h.Record) == 0 || len(h.Seal) != sealBytes {
			return nil, fmt.Errorf("evidence of two seals: block %d needs its header, its record and a seal of %d bytes, got %d, %d and %d bytes",
				i+1, sealBytes, len(h.Header), len(h.Record), len(h.Seal))
		}
	}
	return NewProducers().PackEvidenceSeal(a.Header, a.Seal, b.Header, b.Seal, a.Record, b.Record), nil
}

// PrevotesEvidenceCall is the call data that proves two prevotes on two blocks of one slot. key has 128 bytes
// (bls.UncompressG1 makes them of a producer's 48).
func PrevotesEvidenceCall(key []byte, a, b EvidenceVote) ([]byte, error) {
	if err := checkVotes(key, a, b); err != nil {
		return nil, err
	}
	return NewProducers().PackEvidenceVotes(key, a, b, nil, nil), nil
}

// CrossEvidenceCalls is the call data, one per transaction and to be executed in this order, that proves a precommit on
// B and a prevote on D across it. path leads from D, by parents, down to the first header that is not above B's slot.
// All calls but the last only make the contract remember a part of a path that is too long for one transaction; it
// does so for their sender alone, so one account must send them all.
func CrossEvidenceCalls(key []byte, precommit, prevote EvidenceVote, path []EvidenceHeader) ([][]byte, error) {
	if err := checkVotes(key, precommit, prevote); err != nil {
		return nil, err
	}
	if len(path) == 0 {
		return nil, fmt.Errorf("evidence of a precommit and a prevote: the headers from the prevote's block down past slot %d are missing", precommit.TargetSlot)
	}
	var calls [][]byte
	var headers, records [][]byte
	size := 0
	for i, h := range path {
		if len(h.Header) == 0 || len(h.Record) == 0 {
			return nil, fmt.Errorf("evidence of a precommit and a prevote: header %d of the path or its record is empty", i)
		}
		if more := len(h.Header) + len(h.Record); len(headers) > 0 && size+more > maxPathBytes {
			calls = append(calls, NewProducers().PackProvePath(headers, records))
			headers, records, size = nil, nil, more
		} else {
			size += more
		}
		headers, records = append(headers, h.Header), append(records, h.Record)
	}
	return append(calls, NewProducers().PackEvidenceVotes(key, precommit, prevote, headers, records)), nil
}

func checkVotes(key []byte, votes ...EvidenceVote) error {
	if len(key) != rawKeyBytes {
		return fmt.Errorf("evidence of two votes: the uncompressed key has %d bytes, %d are needed", len(key), rawKeyBytes)
	}
	for i, v := range votes {
		if len(v.Signature) != rawSignatureBytes {
			return fmt.Errorf("evidence of two votes: the uncompressed signature of vote %d has %d bytes, %d are needed", i+1, len(v.Signature), rawSignatureBytes)
		}
	}
	return nil
}

// Candidate is what Producers knows of an account.
type Candidate = BaseCandidate

// CandidateCall is the call data of Producers.candidate.
func CandidateCall(account common.Address) []byte { return NewProducers().PackCandidate(account) }

// DecodeCandidate reads what Producers.candidate returns; the key has 48 bytes, none if the account never registered.
// Errors wrap ErrReturn.
func DecodeCandidate(ret []byte) (Candidate, []byte, error) {
	out, err := NewProducers().UnpackCandidate(ret)
	if err != nil {
		return Candidate{}, nil, fmt.Errorf("%w: candidate: %w", ErrReturn, err)
	}
	if n := len(out.Key); n != 0 && n != 48 || out.Info.Votes == nil {
		return Candidate{}, nil, fmt.Errorf("%w: candidate with a key of %d bytes", ErrReturn, n)
	}
	return out.Info, out.Key, nil
}

// ReportStandbyCall is the call data by which a candidate without a seat shows that it is alive.
func ReportStandbyCall() []byte { return NewProducers().PackReportStandby() }

// UnjailCall is the call data by which a producer leaves jail after the delay.
func UnjailCall() []byte { return NewProducers().PackUnjail() }

// RegisterCall is the call data that registers a producer's BLS key: 48 bytes, the same point uncompressed (128), and
// the proof of possession, uncompressed (256).
func RegisterCall(key48, key128, proof []byte) ([]byte, error) {
	if len(key48) != 48 || len(key128) != rawKeyBytes || len(proof) != rawSignatureBytes {
		return nil, fmt.Errorf("registration: key, uncompressed key and proof have %d, %d and %d bytes; 48, %d and %d are needed",
			len(key48), len(key128), len(proof), rawKeyBytes, rawSignatureBytes)
	}
	return NewProducers().PackRegister(key48, key128, proof), nil
}
