package blocksync

import (
	"errors"
	"fmt"

	"github.com/ethereum/go-ethereum/rlp"
)

// ErrMessage is wrapped by every error about a peer's message that cannot be decoded or breaks a bound.
var ErrMessage = errors.New("invalid message")

// WireVersion is the first byte of every message of this package.
const WireVersion = 1

// MessageType is the type byte of a message on a link. Values up to 31 belong to this package.
type MessageType uint8

const (
	TypeHandshake          MessageType = 1
	TypeGoAway             MessageType = 2
	TypeTime               MessageType = 3
	TypeNotice             MessageType = 4
	TypeRequest            MessageType = 5
	TypeSyncRequest        MessageType = 6
	TypeSignedBlock        MessageType = 7
	TypePackedTransactions MessageType = 8
	TypeVotes              MessageType = 9
	TypeBlockHeader        MessageType = 10
	TypeError              MessageType = 11
	TypeSession            MessageType = 12
	TypeSessionAnswer      MessageType = 13
	TypeReceiptsRequest    MessageType = 14
	TypeReceipts           MessageType = 15
)

var messageNames = [...]string{
	TypeHandshake: "handshake", TypeGoAway: "go_away", TypeTime: "time", TypeNotice: "notice", TypeRequest: "request",
	TypeSyncRequest: "sync_request", TypeSignedBlock: "signed_block", TypePackedTransactions: "packed_transaction",
	TypeVotes: "vote", TypeBlockHeader: "block_header", TypeError: "error",
	TypeSession: "session", TypeSessionAnswer: "session_answer",
	TypeReceiptsRequest: "receipts_request", TypeReceipts: "receipts",
}

func (t MessageType) String() string {
	if int(t) < len(messageNames) && messageNames[t] != "" {
		return messageNames[t]
	}
	return fmt.Sprintf("type(%d)", uint8(t))
}

// encodeMessage is the version byte followed by the RLP of v. It panics on a value that cannot be encoded: ours only.
func encodeMessage(v any) []byte {
	b, err := rlp.EncodeToBytes(v)
	if err != nil {
		panic(fmt.Sprintf("blocksync: encode %T: %v", v, err))
	}
	return append([]byte{WireVersion}, b...)
}

// body checks length and version and returns what follows the version byte.
func body(t MessageType, payload []byte, limit int) ([]byte, error) {
	if len(payload) > limit {
		return nil, fmt.Errorf("%w: %s of %d bytes, %d allowed", ErrMessage, t, len(payload), limit)
	}
	if len(payload) == 0 {
		return nil, fmt.Errorf("%w: %s is empty", ErrMessage, t)
	}
	if payload[0] != WireVersion {
		return nil, fmt.Errorf("%w: %s of version %d, this node speaks %d", ErrMessage, t, payload[0], WireVersion)
	}
	return payload[1:], nil
}

func decodeMessage(t MessageType, payload []byte, limit int, v any) error {
	b, err := body(t, payload, limit)
	if err != nil {
		return err
	}
	if err := rlp.DecodeBytes(b, v); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrMessage, t, err)
	}
	return nil
}

func bound(t MessageType, field string, n, limit int) error {
	if n > limit {
		return fmt.Errorf("%w: %s: %s has %d entries, %d allowed", ErrMessage, t, field, n, limit)
	}
	return nil
}

// listOf frames already encoded items as one RLP list behind head, without encoding them again.
func listOf(head []byte, items [][]byte) []byte {
	size := len(head)
	for _, it := range items {
		size += len(it)
	}
	out := make([]byte, 0, 1+9+size)
	out = append(out, WireVersion)
	out = appendListHeader(out, size)
	out = append(out, head...)
	for _, it := range items {
		out = append(out, it...)
	}
	return out
}

func appendListHeader(b []byte, size int) []byte {
	if size < 56 {
		return append(b, 0xC0+byte(size))
	}
	n := 0
	for s := size; s > 0; s >>= 8 {
		n++
	}
	b = append(b, 0xF7+byte(n))
	for i := n - 1; i >= 0; i-- {
		b = append(b, byte(size>>(8*i)))
	}
	return b
}
