package consensus

import (
	"fmt"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/rlp"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/consensus/dpos"
)

// Payloads of the vote log: one byte of type, then the type's own bytes.
const (
	payloadRecord  byte = 1 // RLP of dpos.SignRecord
	payloadLost    byte = 2 // what was signed before is not fully known; ends with the next dpos.RecordFloor
	payloadSynced  byte = 3 // nothing: its entry says how much of the file is durable
	payloadVote    byte = 4 // RLP of another producer's block.Vote, verified
	payloadSession byte = 5 // RLP of another producer's block.SignedSession, verified
	payloadDomain  byte = 6 // hash of a recovery: marks of others that follow are bound to its domain, and those before are over
)

func lostMarker() []byte { return []byte{payloadLost} }

func encodeRecord(r dpos.SignRecord) []byte {
	if r.Kind == dpos.RecordForgot {
		return lostMarker() // what releases before it understand too
	}
	b, err := rlp.EncodeToBytes(&r)
	if err != nil {
		panic(fmt.Sprintf("consensus: encode sign record: %v", err)) // our own value; cannot fail
	}
	return append([]byte{payloadRecord}, b...)
}

func encodeMarkedVote(v *block.Vote) []byte { return append([]byte{payloadVote}, v.Encode()...) }

func encodeDomain(recovery common.Hash) []byte { return append([]byte{payloadDomain}, recovery[:]...) }

func encodeMarkedSession(s *block.SignedSession) []byte {
	return append([]byte{payloadSession}, s.Encode()...)
}

// logContents is what a vote log holds.
type logContents struct {
	records []dpos.SignRecord
	lost    bool        // it does not tell all that was signed, and the machine did not yet write down the floor that follows
	marks   *dpos.Marks // of others, all that the log has: they are bounded once the machine knows who sits
	domain  common.Hash // recovery that the marks are bound to; zero: none
}

// decodePayloads reads what the vote log held.
func decodePayloads(payloads [][]byte) (c logContents, err error) {
	c.marks = dpos.NewMarks()
	for i, p := range payloads {
		if len(p) == 0 {
			return c, fmt.Errorf("entry %d of the vote log is empty", i)
		}
		var err error
		switch p[0] {
		case payloadRecord:
			var r dpos.SignRecord
			if err = rlp.DecodeBytes(p[1:], &r); err == nil {
				c.records = append(c.records, r)
				c.lost = c.lost && r.Kind != dpos.RecordFloor
			}
		case payloadDomain:
			if len(p) != 1+common.HashLength {
				return c, fmt.Errorf("entry %d of the vote log names a recovery with %d bytes", i, len(p)-1)
			}
			c.domain, c.marks = common.BytesToHash(p[1:]), dpos.NewMarks()
		case payloadLost:
			c.lost = true
		case payloadVote:
			var v *block.Vote
			if v, err = block.DecodeVote(p[1:]); err == nil {
				c.marks.AddVote(*v, nil)
			}
		case payloadSession:
			var s *block.SignedSession
			if s, err = block.DecodeSignedSession(p[1:]); err == nil {
				c.marks.AddSession(*s, nil)
			}
		default:
			return c, fmt.Errorf("entry %d of the vote log has type %d: it was written by a newer version, run that one", i, p[0])
		}
		if err != nil {
			return c, fmt.Errorf("entry %d of the vote log: %w", i, err)
		}
	}
	return c, nil
}
