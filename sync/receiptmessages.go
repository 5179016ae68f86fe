package blocksync

import (
	"fmt"

	"github.com/ethereum/go-ethereum/common"
)

// ReceiptsRequest asks for the receipts of an irreversible block. Only for a peer that set ServeReceipts.
type ReceiptsRequest struct {
	ReqIndex uint64
	Height   uint64
	Hash     common.Hash
}

func (r *ReceiptsRequest) Encode() []byte { return encodeMessage(r) }

// DecodeReceiptsRequest decodes a receipts_request.
func DecodeReceiptsRequest(b []byte) (*ReceiptsRequest, error) {
	r := new(ReceiptsRequest)
	return r, decodeMessage(TypeReceiptsRequest, b, maxControlBytes, r)
}

// ReceiptsPiece is a part of the receipts of a block, as block.EncodeReceipts encodes them. The pieces of an answer come
// in order; each but the last has receiptsPieceBytes.
type ReceiptsPiece struct {
	ReqIndex uint64
	Height   uint64
	Total    uint64 // bytes of all pieces
	Bytes    []byte
}

func (r *ReceiptsPiece) Encode() []byte { return encodeMessage(r) }

// DecodeReceiptsPiece decodes a piece; the receipts in it are not looked at.
func DecodeReceiptsPiece(b []byte) (*ReceiptsPiece, error) {
	r := new(ReceiptsPiece)
	if err := decodeMessage(TypeReceipts, b, receiptsPieceBytes+maxControlBytes, r); err != nil {
		return nil, err
	}
	if n := len(r.Bytes); n == 0 || n > receiptsPieceBytes || uint64(n) > r.Total {
		return nil, fmt.Errorf("%w: receipts: a piece of %d bytes of %d", ErrMessage, n, r.Total)
	}
	return r, nil
}
