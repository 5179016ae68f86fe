package blocksync

import (
	"fmt"
	"hash/maphash"
	"slices"
	"time"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/transport"
	"go.uber.org/zap"
)

type relayedVote struct {
	vote block.Vote
	key  uint64
}

// voteJob hands votes, or a handshake's certificates, to the driver.
type voteJob struct {
	peer   *peer
	votes  []block.Vote
	keys   []uint64
	qc, fc *block.Certificate
}

// voteKey names a vote in the caches; the seed is secret, so collisions cannot be made.
func (m *Manager) voteKey(v *block.Vote) uint64 { return maphash.Comparable(m.seed, *v) }

func (m *Manager) onVotes(p *peer, vs []block.Vote) {
	if !p.handshaken || p.leaving {
		return
	}
	p.counts.votesIn += uint64(len(vs))
	j := &voteJob{peer: p}
	for i := range vs {
		k := m.voteKey(&vs[i])
		p.knownVotes.Add(k, struct{}{})
		if m.seenVotes.Add(k, struct{}{}) {
			j.votes, j.keys = append(j.votes, vs[i]), append(j.keys, k)
		}
	}
	if len(j.votes) == 0 {
		m.metrics.duplicate("vote")
		if p.dupVotes++; p.dupVotes >= dampAfter {
			p.dupVotes = 0
			m.damp(p, DampVotes)
		}
		return
	}
	p.dupVotes = 0
	if !m.voteJob.Put(j, len(j.votes)*256) {
		m.metrics.dropped("vote")
		for _, k := range j.keys {
			m.seenVotes.Delete(k)
		}
	}
}

func (m *Manager) voteWorker() {
	m.voteJob.Each(m.ctx, func(j *voteJob) {
		for _, c := range []*block.Certificate{j.qc, j.fc} {
			if c == nil {
				continue
			}
			err := m.deps.Driver.AddCertificate(c)
			if m.deps.verdict(err) == VerdictInvalid {
				m.post(func() { m.punish(j.peer, Validation, fmt.Errorf("certificate in handshake: %w", err)) })
				return
			}
		}
		if len(j.votes) == 0 {
			return
		}
		good, bad, v, err := m.addVotes(j)
		m.post(func() { m.onVotesAdded(j, good, bad, v, err) })
	})
}

// addVotes gives votes to the driver; if one of them is bad each is tried alone, so that a bad one cannot keep the
// others from being relayed. good are those to relay.
func (m *Manager) addVotes(j *voteJob) (good []relayedVote, bad []block.Vote, v Verdict, err error) {
	err = m.deps.Driver.AddVotes(j.votes)
	v = m.deps.verdict(err)
	for i := range j.votes {
		one := v
		if v == VerdictInvalid {
			if len(j.votes) > 1 {
				one = m.deps.verdict(m.deps.Driver.AddVotes(j.votes[i : i+1]))
			}
			if one == VerdictInvalid {
				bad = append(bad, j.votes[i])
			}
		}
		if len(j.keys) > 0 && (one == VerdictOK || one == VerdictUnknownParent || one == VerdictFuture) {
			good = append(good, relayedVote{j.votes[i], j.keys[i]})
		}
	}
	return good, bad, v, err
}

// onVotesAdded queues accepted votes for relaying; votes from handshakes have no keys and are not relayed. Votes are
// relayed before their signatures are verified, so one bad vote proves nothing against the peer that passed it on,
// unless it is the peer's own; many do.
func (m *Manager) onVotesAdded(j *voteJob, good []relayedVote, bad []block.Vote, v Verdict, err error) {
	if len(good) > 0 {
		m.voteRelay = append(m.voteRelay, good...)
		m.scheduleFlush(voteRelayDelay)
	}
	switch v {
	case VerdictInvalid:
		now := time.Now()
		if now.Sub(j.peer.badFrom) > time.Minute {
			j.peer.badFrom, j.peer.badVotes = now, 0
		}
		j.peer.badVotes += len(bad)
		own := slices.ContainsFunc(bad, func(b block.Vote) bool { return j.peer.signsFor(b.Voter) })
		if own || j.peer.badVotes > maxBadVotes {
			m.punish(j.peer, Validation, fmt.Errorf("votes: %w", err))
		}
	case VerdictOverloaded:
		for _, k := range j.keys {
			m.seenVotes.Delete(k)
		}
		m.log.Debug("votes were not taken for now", zap.Error(err))
	}
}

func (m *Manager) onOwnVotes(vs []block.Vote) {
	keyed := make([]relayedVote, len(vs))
	for i := range vs {
		keyed[i] = relayedVote{vs[i], m.voteKey(&vs[i])}
		m.seenVotes.Add(keyed[i].key, struct{}{})
	}
	lib := m.deps.Driver.Status().LIB
	payload := EncodeVotes(vs)
	for _, p := range m.peers {
		// A vote that is sent again (a resend after a stall) goes to everyone again: what was queued may be lost.
		if p.wants(lib) && p.send(transport.LaneConsensus, TypeVotes, payload) {
			p.counts.votesOut += uint64(len(vs))
			for _, k := range keyed {
				p.knownVotes.Add(k.key, struct{}{})
			}
		}
	}
}

// flushVotes relays what was accepted, once, to the peers not known to have it. What a full lane does not take is kept
// for the next tick, the newest of it.
func (m *Manager) flushVotes(now time.Time) {
	if len(m.voteRelay) == 0 {
		return
	}
	lib := m.deps.Driver.Status().LIB
	all := m.voteRelay
	var left []relayedVote
	for len(all) > 0 {
		batch := all[:min(len(all), maxVotes)]
		all = all[len(batch):]
		full := false
		for _, p := range m.peers {
			if p.wants(lib) && !p.dampedNow(DampVotes, now) && !p.relayVotes(batch) {
				full = true
			}
		}
		if full {
			left = append(left, batch...)
		}
	}
	m.voteRelay = left[max(0, len(left)-maxVoteRelay):]
}

// relayVotes sends the peer those votes it is not known to have; false if its lane is full.
func (p *peer) relayVotes(votes []relayedVote) bool {
	var out []block.Vote
	for _, r := range votes {
		if !p.knownVotes.Has(r.key) {
			out = append(out, r.vote)
		}
	}
	if len(out) == 0 {
		return true
	}
	if !p.send(transport.LaneConsensus, TypeVotes, EncodeVotes(out)) {
		return false
	}
	p.counts.votesOut += uint64(len(out))
	for _, r := range votes {
		p.knownVotes.Add(r.key, struct{}{})
	}
	return true
}

func (m *Manager) scheduleFlush(after time.Duration) {
	if !m.flushSet {
		m.flushSet = true
		m.flushTimer.Reset(after)
	}
}

func (m *Manager) flush() {
	m.flushVotes(time.Now())
	m.flushTransactions()
}
