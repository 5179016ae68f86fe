package consensus

import (
	"fmt"

	"github.com/ethereum/go-ethereum/rlp"

	"github.com/bornode/bornode/consensus/dpos"
)

// Payloads of the vote log: one byte of type, then the type's own bytes.
const (
	payloadRecord byte = 1 // RLP of dpos.SignRecord
	payloadLost   byte = 2 // what was signed before is not fully known; ends with the next dpos.RecordFloor
)

func lostMarker() []byte { return []byte{payloadLost} }

func encodeRecord(r dpos.SignRecord) []byte {
	b, err := rlp.EncodeToBytes(&r)
	if err != nil {
		panic(fmt.Sprintf("consensus: encode sign record: %v", err)) // our own value; cannot fail
	}
	return append([]byte{payloadRecord}, b...)
}

// decodePayloads reads what the vote log held. lost says that the log does not tell all that was signed, and that the
// machine did not yet write down the floor that follows from it.
func decodePayloads(payloads [][]byte) (records []dpos.SignRecord, lost bool, err error) {
	for i, p := range payloads {
		switch p[0] {
		case payloadRecord:
			var r dpos.SignRecord
			if err := rlp.DecodeBytes(p[1:], &r); err != nil {
				return nil, false, fmt.Errorf("entry %d of the vote log: %w", i, err)
			}
			records = append(records, r)
			lost = lost && r.Kind != dpos.RecordFloor
		case payloadLost:
			lost = true
		default:
			return nil, false, fmt.Errorf("entry %d of the vote log has type %d: it was written by a newer version, run that one", i, p[0])
		}
	}
	return records, lost, nil
}
