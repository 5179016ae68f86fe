package block

import (
	"errors"
	"fmt"

	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/params"
	"github.com/ethereum/go-ethereum/rlp"
	"github.com/ethereum/go-ethereum/trie"
)

// ErrWrongReceipts is wrapped by every error about receipts that are not those of the block.
var ErrWrongReceipts = errors.New("receipts are not those of the block")

// receiptsGasPerByte is a lower bound: a byte of a log's data costs 8 gas, its address, topics and lengths cost more.
const receiptsGasPerByte = 4

// receiptsGasPerLog is a lower bound too: a fifth of a transaction's gas may be refunded.
const receiptsGasPerLog = params.LogGas * 4 / 5

// MaxReceiptsBytes is more than the receipts of a block can take in EncodeReceipts' form: whoever fetches them reserves no more.
func MaxReceiptsBytes(h *types.Header) uint64 { return h.GasUsed/receiptsGasPerByte + 64 }

// EncodeReceipts is the form in which receipts are stored and sent: status, cumulative gas and logs. The rest follows
// from the block.
func EncodeReceipts(rs types.Receipts) ([]byte, error) {
	stored := make([]*types.ReceiptForStorage, len(rs))
	for i, r := range rs {
		stored[i] = (*types.ReceiptForStorage)(r)
	}
	return rlp.EncodeToBytes(stored)
}

// DecodeReceipts is the reverse of EncodeReceipts; nothing that follows from the block is filled in.
func DecodeReceipts(b []byte) (types.Receipts, error) {
	var stored []*types.ReceiptForStorage
	if err := rlp.DecodeBytes(b, &stored); err != nil {
		return nil, err
	}
	rs := make(types.Receipts, len(stored))
	for i, r := range stored {
		rs[i] = (*types.Receipt)(r)
	}
	return rs, nil
}

// DecodeProvenReceipts are the receipts of a block as a peer or the disk gives them in EncodeReceipts' form, checked as by
// CheckReceipts. They are counted before they are decoded, which may take 120 times their bytes in memory. Errors wrap
// ErrWrongReceipts.
func DecodeProvenReceipts(b *Block, encoded []byte) (types.Receipts, error) {
	if err := countReceipts(b, encoded); err != nil {
		return nil, fmt.Errorf("%w: block %d: %w", ErrWrongReceipts, b.Number(), err)
	}
	rs, err := DecodeReceipts(encoded)
	if err != nil {
		return nil, fmt.Errorf("%w: block %d: %w", ErrWrongReceipts, b.Number(), err)
	}
	return rs, CheckReceipts(b, rs)
}

// countReceipts checks that encoded receipts are as many as the block has transactions, and have no more logs than its gas pays for.
func countReceipts(b *Block, encoded []byte) error {
	receipts, _, err := rlp.SplitList(encoded)
	if err != nil {
		return err
	}
	n, err := rlp.CountValues(receipts)
	if err != nil || n != len(b.Transactions) {
		return errors.Join(err, fmt.Errorf("%d receipts, it has %d transactions", n, len(b.Transactions)))
	}
	logs := uint64(0)
	for len(receipts) > 0 {
		var receipt, list []byte
		if receipt, receipts, err = rlp.SplitList(receipts); err != nil {
			return err
		}
		for range 2 { // status and gas
			if _, _, receipt, err = rlp.Split(receipt); err != nil {
				return err
			}
		}
		if list, _, err = rlp.SplitList(receipt); err != nil {
			return err
		}
		if n, err = rlp.CountValues(list); err != nil {
			return err
		}
		if logs += uint64(n); logs > b.Header.GasUsed/receiptsGasPerLog { //nolint:gosec // a count
			return fmt.Errorf("more logs than %d gas pay for", b.Header.GasUsed)
		}
	}
	return nil
}

// CheckReceipts fills in the type, the bloom and the transaction's hash of each receipt, and compares all of them with
// the header's receipts root and bloom, which prove status, cumulative gas and logs. Errors wrap ErrWrongReceipts.
func CheckReceipts(b *Block, rs types.Receipts) error {
	if len(rs) != len(b.Transactions) {
		return fmt.Errorf("%w: block %d has %d transactions, not %d", ErrWrongReceipts, b.Number(), len(b.Transactions), len(rs))
	}
	for i, r := range rs {
		r.Type, r.TxHash = b.Transactions[i].Type(), b.Transactions[i].Hash()
		r.Bloom = types.CreateBloom(r)
	}
	if root := types.DeriveSha(rs, trie.NewStackTrie(nil)); root != b.Header.ReceiptHash {
		return fmt.Errorf("%w: their root is %s, the header of block %d says %s", ErrWrongReceipts, root, b.Number(), b.Header.ReceiptHash)
	}
	if types.MergeBloom(rs) != b.Header.Bloom {
		return fmt.Errorf("%w: their log bloom differs from that of the header of block %d", ErrWrongReceipts, b.Number())
	}
	return nil
}
