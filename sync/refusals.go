package blocksync

import (
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/bornode/bornode/transport"
)

const (
	// refusalReminder is how often the log repeats that a node and a peer part for the same reason as before.
	refusalReminder = 10 * time.Minute
	// maxRefusals bounds the peers remembered as such.
	maxRefusals = 2 * transport.MaxPeers
)

// refusalKey is who parts from whom: a peer that this node sends away, or one that goes away.
type refusalKey struct {
	peer transport.PeerID
	away bool // the peer goes away
}

// refusal is what the log told of it.
type refusal struct {
	why   Reason
	told  time.Time
	times int // since then
}

// noteRefusal tells whether the log shall say that a peer parts for a reason that no try changes, and how often it parted since
// the log said so last: the two nodes dial each other for as long as that stays so. It is Run's goroutine's, as m.refusals is.
func (m *Manager) noteRefusal(id transport.PeerID, away bool, why Reason, now time.Time) (tell bool, times int) {
	if !stranger(why) {
		return true, 0
	}
	k := refusalKey{id, away}
	last, known := m.refusals.Get(k)
	if known && last.why == why && now.Sub(last.told) < refusalReminder {
		last.times++
		m.refusals.Update(k, last)
		return false, 0
	}
	m.refusals.Add(k, refusal{why: why, told: now})
	return true, last.times
}

// linkLevel is the level at which a link with a peer is logged: one with a peer that is refused each time is no news.
func (m *Manager) linkLevel(id transport.PeerID) zapcore.Level {
	if m.isRefused(id) {
		return zap.DebugLevel
	}
	return zap.InfoLevel
}

// isRefused reports whether a peer and this node parted for a reason that no try changes, and no handshake was taken since.
func (m *Manager) isRefused(id transport.PeerID) bool {
	return m.refusals.Has(refusalKey{id, false}) || m.refusals.Has(refusalKey{id, true})
}

// forgetRefusals is for a peer whose handshake is taken.
func (m *Manager) forgetRefusals(p *peer) {
	if !m.isRefused(p.id) {
		return
	}
	m.refusals.Delete(refusalKey{p.id, false})
	m.refusals.Delete(refusalKey{p.id, true})
	m.log.Info("peer that was refused before is taken", zap.String("peer", string(p.id)), zap.String("provider", p.link.Provider()), zap.Bool("incoming", p.link.Incoming()))
}
