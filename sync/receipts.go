package blocksync

import (
	"errors"
	"fmt"
	"time"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/internal/pause"
	"github.com/bornode/bornode/transport"
	"go.uber.org/zap"
)

// onReceiptsPiece takes a part of the receipts that were asked for. What belongs to no request came too late.
func (m *Manager) onReceiptsPiece(p *peer, piece *ReceiptsPiece) {
	k := repairKey{height: piece.Height, receipts: true}
	r := m.repairs[k]
	if r == nil || r.busy || r.peer != p.id || r.req != piece.ReqIndex {
		return
	}
	if r.total == 0 {
		r.total = piece.Total
	}
	have := uint64(len(r.received))
	if r.total > r.most || piece.Total != r.total || uint64(len(piece.Bytes)) != min(receiptsPieceBytes, r.total-have) {
		m.punish(p, Validation, fmt.Errorf("receipts of block %d: a piece of %d bytes behind %d of %d, where they have at most %d in pieces of %d",
			k.height, len(piece.Bytes), have, piece.Total, r.most, receiptsPieceBytes))
		return
	}
	r.received, r.since = append(r.received, piece.Bytes...), time.Now()
	if uint64(len(r.received)) == r.total {
		m.checkRepair(k, r, p, r.received)
	}
}

func (m *Manager) onReceiptsRequest(p *peer, r *ReceiptsRequest) {
	if !p.handshaken || p.leaving || p.active[r.ReqIndex] != nil || m.deps.Receipts == nil {
		return
	}
	m.serve(p, &serveJob{req: r.ReqIndex, receipts: r})
}

// answerReceipts sends stored receipts that the block's header proves. Nothing is waited for: two nodes without the same
// receipts would wait for each other.
func (m *Manager) answerReceipts(p *peer, j *serveJob) error {
	q := j.receipts
	encoded, err := m.deps.Receipts.ProvenReceipts(q.Height, q.Hash)
	if err != nil {
		if _, damaged := m.damagedHeight(err); damaged {
			return m.unreadable(p, j, q.Height, err)
		}
		if errors.Is(err, block.ErrWrongReceipts) {
			m.log.Warn("stored receipts cannot be served", zap.Uint64("height", q.Height), zap.Error(err))
		}
		return m.refuseRequest(p, j, CodeUnknown, q.Height, "the receipts are not stored here")
	}
	total := uint64(len(encoded))
	for len(encoded) > 0 {
		n := min(len(encoded), receiptsPieceBytes)
		piece := ReceiptsPiece{ReqIndex: j.req, Height: q.Height, Total: total, Bytes: encoded[:n]}
		encoded = encoded[n:]
		if wait := m.limiter.Reserve(n, time.Now()); wait > 0 && !pause.For(p.ctx, wait) {
			return p.ctx.Err()
		}
		if err := p.link.Send(p.ctx, transport.Message{Lane: transport.LaneCatchUp, Type: uint8(TypeReceipts), Payload: piece.Encode()}); err != nil {
			return err
		}
	}
	return nil
}
