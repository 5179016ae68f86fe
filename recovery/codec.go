package recovery

import (
	"bytes"
	"fmt"

	"github.com/ethereum/go-ethereum/rlp"

	"github.com/bornode/bornode/internal/invariant"
)

// Encode is the statement's RLP: its one canonical form.
func (s *Statement) Encode() []byte { return encode(s) }

// Encode is the RLP of the statement and its signatures.
func (s *Signed) Encode() []byte { return encode(s) }

// Encode is the report's RLP.
func (r *Report) Encode() []byte { return encode(r) }

func encode(v any) []byte {
	b, err := rlp.EncodeToBytes(v)
	invariant.That(err == nil, "encode %T: %v", v, err)
	return b
}

// DecodeSigned decodes a statement with its signatures and checks both, but not whose they are (Signed.Verify). Errors wrap
// ErrInvalid.
func DecodeSigned(b []byte) (*Signed, error) {
	x := new(Signed)
	if err := decode(b, MaxSignedBytes, "statement", x); err != nil {
		return nil, err
	}
	return x, x.CheckSignatures()
}

// DecodeReport decodes a report and checks it by itself (Report.Check). Errors wrap ErrInvalid.
func DecodeReport(b []byte) (*Report, error) {
	x := new(Report)
	if err := decode(b, MaxReportBytes, "report", x); err != nil {
		return nil, err
	}
	return x, x.Check()
}

// decode reads exactly one value. Its size bounds all of its lists; their own bounds are checked with their contents.
func decode(b []byte, limit int, what string, v any) error {
	if len(b) > limit {
		return invalid("%s of %d bytes, %d are allowed", what, len(b), limit)
	}
	if err := rlp.Decode(bytes.NewReader(b), v); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrInvalid, what, err)
	}
	if _, _, rest, err := rlp.Split(b); err != nil || len(rest) > 0 {
		return invalid("%s has %d bytes too many", what, len(rest))
	}
	return nil
}
