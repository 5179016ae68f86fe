package recovery

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"github.com/bornode/bornode/block"
)

// Forms of the files that operators exchange. Certificates are the hex of their RLP; the hash of a statement is there for the
// reader's eye, and is compared with what the rest gives.
type (
	blockJSON struct {
		Height    uint64      `json:"height"`
		Slot      uint64      `json:"slot"`
		Hash      common.Hash `json:"hash"`
		StateRoot common.Hash `json:"state_root"`
	}
	pointJSON struct {
		Slot uint64      `json:"slot"`
		Hash common.Hash `json:"hash"`
	}
	seatJSON struct {
		Account common.Address `json:"account"`
		SealKey common.Address `json:"seal_key"`
		VoteKey hexutil.Bytes  `json:"vote_key"`
		Proof   hexutil.Bytes  `json:"proof"`
	}
	producerJSON struct {
		Account common.Address `json:"account"`
		VoteKey hexutil.Bytes  `json:"vote_key"`
	}
	signatureJSON struct {
		Signer    common.Address `json:"signer"`
		Signature hexutil.Bytes  `json:"signature"`
	}
	signedJSON struct {
		Kind       string           `json:"kind"`
		Hash       common.Hash      `json:"hash"`
		Genesis    common.Hash      `json:"genesis"`
		Domain     uint64           `json:"domain"`
		Previous   common.Hash      `json:"previous"`
		Base       blockJSON        `json:"base"`
		FC         hexutil.Bytes    `json:"final_certificate,omitempty"`
		FirstSlot  uint64           `json:"first_slot"`
		Schedule   []seatJSON       `json:"schedule"`
		Lost       []common.Address `json:"lost"`
		MayUndo    bool             `json:"may_undo"`
		Reason     string           `json:"reason"`
		Time       uint64           `json:"time"`
		Signatures []signatureJSON  `json:"signatures"`
	}
	reportJSON struct {
		Kind       string           `json:"kind"`
		Genesis    common.Hash      `json:"genesis"`
		Domain     uint64           `json:"domain"`
		Recovery   common.Hash      `json:"recovery"`
		Producer   common.Address   `json:"producer"`
		Time       uint64           `json:"time"`
		LIB        blockJSON        `json:"irreversible"`
		FC         hexutil.Bytes    `json:"irreversible_certificate,omitempty"`
		Justified  blockJSON        `json:"justified"`
		QC         hexutil.Bytes    `json:"justified_certificate,omitempty"`
		Under      common.Hash      `json:"justified_under"`
		Schedules  [][]producerJSON `json:"schedules"`
		Precommit  pointJSON        `json:"newest_precommit"`
		NewestSlot uint64           `json:"newest_signed_slot"`
		Incomplete bool             `json:"incomplete"`
		Proof      hexutil.Bytes    `json:"proof"`
		Seal       hexutil.Bytes    `json:"signature"`
	}
)

// What the kind of a file says.
const (
	kindSigned = "bornode recovery"
	kindReport = "bornode survivor report"
)

// MarshalJSON is the file form of a statement with its signatures.
func (s *Signed) MarshalJSON() ([]byte, error) {
	x := &s.Statement
	out := signedJSON{
		Kind: kindSigned, Hash: s.Hash(), Genesis: x.Genesis, Domain: x.Number, Previous: x.Previous, Base: blockJSON(x.Base.Block), FC: encodeCertificate(x.Base.FC),
		FirstSlot: x.FirstSlot, Schedule: make([]seatJSON, len(x.Seats)), Lost: append([]common.Address{}, x.Lost...), MayUndo: x.MayUndo,
		Reason: x.Reason, Time: x.Time, Signatures: make([]signatureJSON, len(s.Signatures)),
	}
	for i := range x.Seats {
		p := &x.Seats[i]
		out.Schedule[i] = seatJSON{p.Account, p.SealKey, p.VoteKey[:], p.Proof[:]}
	}
	for i := range s.Signatures {
		out.Signatures[i] = signatureJSON{s.Signatures[i].Signer, s.Signatures[i].Seal[:]}
	}
	return json.Marshal(&out)
}

// UnmarshalJSON reads the file form and checks it as DecodeSigned does. Errors wrap ErrInvalid.
func (s *Signed) UnmarshalJSON(b []byte) error {
	var in signedJSON
	if err := readJSON(b, kindSigned, &in, &in.Kind); err != nil {
		return err
	}
	fc, err := decodeCertificate("final_certificate", in.FC)
	if err != nil {
		return err
	}
	out := Signed{Statement: Statement{
		Genesis: in.Genesis, Number: in.Domain, Previous: in.Previous, Base: Base{Block(in.Base), fc}, FirstSlot: in.FirstSlot,
		Lost: in.Lost, MayUndo: in.MayUndo, Reason: in.Reason, Time: in.Time,
	}}
	for i := range in.Schedule {
		p, seat := &in.Schedule[i], Seat{Account: in.Schedule[i].Account, SealKey: in.Schedule[i].SealKey}
		if err := copyExactly("vote_key", seat.VoteKey[:], p.VoteKey); err != nil {
			return err
		}
		if err := copyExactly("proof", seat.Proof[:], p.Proof); err != nil {
			return err
		}
		out.Statement.Seats = append(out.Statement.Seats, seat)
	}
	for i := range in.Signatures {
		x := Signature{Signer: in.Signatures[i].Signer}
		if err := copyExactly("signature", x.Seal[:], in.Signatures[i].Signature); err != nil {
			return err
		}
		out.Signatures = append(out.Signatures, x)
	}
	if h := out.Hash(); h != in.Hash {
		return invalid("the file names recovery %s and its statement is %s: it was changed, ask for it again", in.Hash, h)
	}
	if err := out.CheckSignatures(); err != nil {
		return err
	}
	*s = out
	return nil
}

// MarshalJSON is the file form of a report.
func (r *Report) MarshalJSON() ([]byte, error) {
	out := reportJSON{
		Kind: kindReport, Genesis: r.Genesis, Domain: r.Number, Recovery: r.Recovery, Producer: r.Producer, Time: r.Time, LIB: blockJSON(r.LIB),
		FC: encodeCertificate(r.FC), Justified: blockJSON(r.Justified), QC: encodeCertificate(r.QC), Under: r.Under, Precommit: pointJSON(r.Precommit),
		NewestSlot: r.NewestSlot, Incomplete: r.Incomplete, Proof: r.Proof[:], Seal: r.Seal[:],
	}
	for _, s := range r.Schedules {
		list := make([]producerJSON, len(s))
		for i := range s {
			list[i] = producerJSON{s[i].Account, s[i].Key[:]}
		}
		out.Schedules = append(out.Schedules, list)
	}
	return json.Marshal(&out)
}

// UnmarshalJSON reads the file form and checks it as DecodeReport does. Errors wrap ErrInvalid.
func (r *Report) UnmarshalJSON(b []byte) error {
	var in reportJSON
	if err := readJSON(b, kindReport, &in, &in.Kind); err != nil {
		return err
	}
	fc, err := decodeCertificate("irreversible_certificate", in.FC)
	if err != nil {
		return err
	}
	qc, err := decodeCertificate("justified_certificate", in.QC)
	if err != nil {
		return err
	}
	out := Report{
		Genesis: in.Genesis, Number: in.Domain, Recovery: in.Recovery, Producer: in.Producer, Time: in.Time, LIB: Block(in.LIB), FC: fc,
		Justified: Block(in.Justified), QC: qc, Under: in.Under, Precommit: block.Point(in.Precommit), NewestSlot: in.NewestSlot,
		Incomplete: in.Incomplete,
	}
	for _, list := range in.Schedules {
		s := make(block.Schedule, len(list))
		for i := range list {
			s[i].Account = list[i].Account
			if err := copyExactly("vote_key", s[i].Key[:], list[i].VoteKey); err != nil {
				return err
			}
		}
		out.Schedules = append(out.Schedules, s)
	}
	if err := errors.Join(copyExactly("proof", out.Proof[:], in.Proof), copyExactly("signature", out.Seal[:], in.Seal)); err != nil {
		return err
	}
	if err := out.Check(); err != nil {
		return err
	}
	*r = out
	return nil
}

// readJSON reads one document of a kind. What it does not know, and what follows it, is refused: it would not be signed.
func readJSON(b []byte, kind string, into any, told *string) error {
	if len(b) > MaxFileBytes {
		return invalid("a file of %d bytes, %d are allowed", len(b), MaxFileBytes)
	}
	var head struct {
		Kind string `json:"kind"`
	}
	if err := json.Unmarshal(b, &head); err != nil {
		return fmt.Errorf("%w: it is no file of bornode recover: %w", ErrInvalid, err)
	}
	if head.Kind != kind {
		return invalid("it is of kind %.40q, and %q is needed", head.Kind, kind)
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if *told != kind {
		return invalid("its kind stands twice")
	}
	return nil
}

func copyExactly(key string, to, from []byte) error {
	if len(from) != len(to) {
		return invalid("%s has %d bytes, %d are needed", key, len(from), len(to))
	}
	copy(to, from)
	return nil
}

func encodeCertificate(c *block.Certificate) hexutil.Bytes {
	if c == nil {
		return nil
	}
	return c.Encode()
}

func decodeCertificate(key string, b hexutil.Bytes) (*block.Certificate, error) {
	if len(b) == 0 {
		return nil, nil //nolint:nilnil // no certificate is a value
	}
	c, err := block.DecodeCertificate(b)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrInvalid, key, err)
	}
	return c, nil
}
