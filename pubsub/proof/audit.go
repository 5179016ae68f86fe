package proof

import (
	"bytes"
	"fmt"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/rlp"

	"github.com/bornode/bornode/recovery"
)

// auditMagic opens the file; its last byte is the version.
const auditMagic = "bpsaudit\x02"

// Audit is an audit file: operations on a topic, the newest of which end in the state of the contract at a final block. It
// shows that none of them was left out or changed, and, where From is the zero state, that there are no others. Which
// broker put a batch on record is the word of whoever made the file.
type Audit struct {
	Genesis common.Hash // block 0 of the chain that is meant
	Runs    []Run       // of Chain
	Height  uint64      // of the block whose state is shown; its header is in the last run
	Topic   common.Hash
	State   StateProof
	From    LogState         // before the oldest batch
	Batches []OperationBatch // oldest first; none: the state alone is shown, and From is it
}

// Encode is the file's content.
func (a *Audit) Encode() ([]byte, error) {
	out := bytes.NewBufferString(auditMagic)
	if err := rlp.Encode(out, a); err != nil {
		return nil, fmt.Errorf("encode audit: %w", err)
	}
	if out.Len() > MaxBundleBytes {
		return nil, fmt.Errorf("an audit of %d bytes, %d allowed; take fewer of the operations", out.Len(), MaxBundleBytes)
	}
	return out.Bytes(), nil
}

// IsAudit reports whether a file claims to be an Audit.
func IsAudit(b []byte) bool { return bytes.HasPrefix(b, []byte(auditMagic)) }

// DecodeAudit reads an audit file. Errors wrap ErrDecode.
func DecodeAudit(b []byte) (*Audit, error) {
	if len(b) > MaxBundleBytes {
		return nil, fmt.Errorf("%w: audit of %d bytes, %d allowed", ErrDecode, len(b), MaxBundleBytes)
	}
	body, ok := bytes.CutPrefix(b, []byte(auditMagic))
	if !ok {
		return nil, fmt.Errorf("%w: not an audit of version 2", ErrDecode)
	}
	a := new(Audit)
	if err := rlp.DecodeBytes(body, a); err != nil {
		return nil, fmt.Errorf("%w: audit: %w", ErrDecode, err)
	}
	if len(a.Runs) > MaxRuns || len(a.Batches) > MaxAuditBatches {
		return nil, fmt.Errorf("%w: audit with %d runs and %d batches", ErrDecode, len(a.Runs), len(a.Batches))
	}
	return a, nil
}

// Audited is what an Audit proves.
type Audited struct {
	To         LogState // at the block
	Operations []Operation
	Block      common.Hash
	Time       uint64             // s, of the block
	Recoveries []*recovery.Signed // that the chain went on by up to there, oldest first
}

// Verify checks the whole way from the operations to the trusted start. at is where the contract keeps the log of a.Topic.
// Errors about the operations are *Tamper; all others wrap ErrProof, ErrFinality or ErrDecode.
func (a *Audit) Verify(t *Trust, at Place) (*Audited, error) {
	if a.Genesis != t.Genesis {
		return nil, fmt.Errorf("%w: it is of the chain with block 0 %s, not of %s", ErrProof, a.Genesis, t.Genesis)
	}
	h, recoveries, err := finalHeader(t, a.Runs, a.Height)
	if err != nil {
		return nil, err
	}
	to, err := a.State.Verify(h.Header.Root, at)
	if err != nil {
		return nil, err
	}
	list, err := CheckOperations(a.Topic, a.From, to, a.Batches)
	if err != nil {
		return nil, err
	}
	return &Audited{To: to, Operations: list, Block: h.Hash(), Time: h.Header.Time, Recoveries: recoveries}, nil
}
