package blocksync

import (
	"errors"
	"fmt"
)

// meetRecoveries looks at the recoveries that a peer shows before its handshake is taken. A peer that goes by another one than this
// node is sent away: by now each has shown the other what it has. Nobody is to blame, so it may come again, also if it holds another
// block as final, which fork tells then; nil: it does not.
func (m *Manager) meetRecoveries(p *peer, h *Handshake, fork error) {
	p.meeting = true
	m.wg.Go(func() {
		same, err := m.deps.Recoveries.Meet(p.id, h.Recoveries)
		m.post(func() {
			p.meeting = false
			switch {
			case p.leaving:
			case err != nil:
				m.punish(p, Validation, fmt.Errorf("recovery in a handshake: %w", err))
			case !same:
				// What is final there may be undone here: the driver tells a mere claim from a certificate.
				m.certs.Put(&certificateJob{peer: p, fc: h.FC}, maxHandshakeBytes)
				m.punish(p, Recovered, errOtherRecovery)
			default:
				m.settleHandshake(p, h, fork)
			}
		})
	})
}

// otherRecoveryRemedy is what an operator does about a peer that goes by another recovery. Mostly one of the two nodes has not applied one yet.
const otherRecoveryRemedy = "one of the two may not have applied one yet: compare them with bornode recover show, and apply on both the newest that counts (docs/operations.md, Lost quorum)"

var errOtherRecovery = errors.New("peer and node go by different recoveries of the chain; " + otherRecoveryRemedy)
