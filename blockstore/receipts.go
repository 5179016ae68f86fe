package blockstore

import (
	"fmt"

	"github.com/ethereum/go-ethereum/common"
	"go.uber.org/zap"

	"github.com/bornode/bornode/block"
)

// Receipts are made by execution, and made again by it while the state before the block is kept. Where it is not, they
// come from a peer as damaged blocks do: the list of such heights, its readers who wait, and what checks what peers send.

// ReceiptsLost notes that the receipts of an irreversible block are not stored and that cause keeps this node from making
// them again; the synchronisation is told at once. The error is block.ErrNoReceipts, which ReadRepaired waits for. For a
// block that is not irreversible here it is cause: nothing proves which receipts a peer should send.
func (s *Store) ReceiptsLost(height uint64, hash common.Hash, cause error) error {
	final, known, err := s.finalHeight(hash)
	if err != nil || !known || final != height {
		return cause
	}
	if s.receiptless.note(height) {
		s.log.Warn("receipts of a stored block are missing and cannot be made again; the running node fetches them from a peer", zap.Uint64("height", height), zap.Error(cause))
	}
	return block.ErrNoReceipts{Height: height, Cause: cause}
}

// LostReceipts lists the irreversible blocks, lowest first, whose receipts are to be fetched from peers; at most
// maxDamagedHeights. Safe for concurrent use and cheap while there are none.
func (s *Store) LostReceipts() []uint64 { return s.receiptless.list(s.FirstHeight()) }

// ReceiptsImpossible is RepairImpossible for the receipts of a block.
func (s *Store) ReceiptsImpossible(height uint64, cause error) { s.receiptless.giveUp(height, cause) }

// ProvenReceipts are the stored receipts of an irreversible block in the form of block.EncodeReceipts, for a peer: they
// were compared with the block's header, and others are fetched again. Errors wrap ErrNotFound if this store has none.
func (s *Store) ProvenReceipts(height uint64, hash common.Hash) ([]byte, error) {
	b, err := s.BlockByHeight(height)
	if err != nil {
		return nil, err
	}
	if b.Hash() != hash {
		return nil, fmt.Errorf("receipts of block %d %s: %w: the irreversible block is %s", height, hash, ErrNotFound, b.Hash())
	}
	encoded, err := s.storedReceipts(height, hash)
	if err != nil {
		return nil, err
	}
	if _, err := block.DecodeProvenReceipts(b, encoded); err != nil {
		return nil, s.ReceiptsLost(height, hash, err)
	}
	return encoded, nil
}

// PutProvenReceipts stores receipts that a peer sent, if they are those of the irreversible block of a height: its header
// proves them. Who waits for them is answered. Errors wrap block.ErrWrongReceipts if they are not; any other is this
// node's trouble.
func (s *Store) PutProvenReceipts(height uint64, encoded []byte) error {
	b, err := s.BlockByHeight(height)
	if err != nil {
		return fmt.Errorf("store fetched receipts: %w", err)
	}
	rs, err := block.DecodeProvenReceipts(b, encoded)
	if err != nil {
		return err
	}
	return s.PutReceipts(b.Hash(), height, rs)
}
