package gate

import (
	"encoding/binary"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// ReceiptTag is the tagged field of a Produce request (from version 9 on) that asks for receipts, with an empty value, and
// of a partition in the answer that carries the broker's.
const ReceiptTag = 1000

// receiptAsk are the tags of a request that has no others.
var receiptAsk = binary.AppendUvarint(binary.AppendUvarint([]byte{1}, ReceiptTag), 0)

// askReceipts puts the tag into a request: at the end of its frame if that can be, else req is changed, to be encoded anew.
func askReceipts(frame []byte, req *kmsg.ProduceRequest, changed bool) ([]byte, bool) {
	n := len(frame)
	if !req.IsFlexible() {
		return frame, changed
	}
	if changed || req.UnknownTags.Len() > 0 || n == 0 || frame[n-1] != 0 {
		req.UnknownTags.Set(ReceiptTag, nil)
		return frame, true
	}
	frame = append(frame[:n-1], receiptAsk...)
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-4)) //nolint:gosec // its length fitted before
	return frame, false
}
