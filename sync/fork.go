package blocksync

import (
	"time"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/transport"
	"go.uber.org/zap"
)

// forkSearchBlocks is how far from a peer's last irreversible block a certificate is looked for that shows it the fork.
const forkSearchBlocks = 256

// onForkedPeer takes a handshake of a peer whose last irreversible block is another one than ours. What it shows goes to
// the driver, which tells a mere claim from a quorum's certificate. The peer is sent away, but it shall see the fork too,
// which it cannot by our newest certificate: it is shown one for a block that is old enough for it to know that its own
// chain lacks that block, and a peer below us may ask for our blocks for a moment.
func (m *Manager) onForkedPeer(p *peer, h *Handshake, cause error) {
	if p.forked != nil {
		return
	}
	p.forked, p.forkedUntil = cause, time.Now()
	p.handshaken, p.hello, p.seenGen = true, h, h.Generation
	m.certs.Put(&certificateJob{peer: p, fc: h.FC}, maxHandshakeBytes)
	lib := m.deps.Driver.Status().LIB
	if h.LIB.Height < lib.Height {
		p.forkedUntil = p.forkedUntil.Add(forkGrace)
	}
	m.wg.Go(func() {
		fc := m.certificateAtOrBelow(lib.Height, h.LIB)
		m.post(func() {
			if fc != nil {
				out := m.handshake(p)
				out.FC = fc
				p.send(transport.LaneConsensus, TypeHandshake, out.Encode())
			}
			m.sendForkedAway(p, time.Now())
		})
	})
}

// sendForkedAway ends the link with a peer of another history when it had time to see that.
func (m *Manager) sendForkedAway(p *peer, now time.Time) {
	if p.forked != nil && !now.Before(p.forkedUntil) {
		m.punish(p, Forked, p.forked)
	}
}

// certificateAtOrBelow is the newest certificate in our irreversible records for a block of a slot not above the peer's
// last irreversible one's; nil if there is none near it.
func (m *Manager) certificateAtOrBelow(lib uint64, peer Ref) *block.Certificate {
	high := min(lib, peer.Height+forkSearchBlocks)
	low := max(peer.Height, forkSearchBlocks) - forkSearchBlocks
	for height := high; height > low; height-- {
		h, err := m.deps.Blocks.HeaderByHeight(height)
		if err != nil {
			m.log.Debug("no certificate for a forked peer", zap.Error(err))
			return nil
		}
		if fc := h.Record.FC; fc != nil && fc.Target.Slot <= peer.Slot {
			return fc
		}
	}
	return nil
}
