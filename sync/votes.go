package blocksync

import (
	"fmt"
	"hash/maphash"
	"time"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/internal/pause"
	"github.com/bornode/bornode/transport"
	"go.uber.org/zap"
)

type relayedVote struct {
	vote block.Vote
	key  uint64
}

// voteKey names a vote in the caches; the seed is secret, so collisions cannot be made.
func (m *Manager) voteKey(v *block.Vote) uint64 { return maphash.Comparable(m.seed, *v) }

// accountOf is the account of a peer's votes; it is the same one over all its links.
func (m *Manager) accountOf(id transport.PeerID) *voteAccount {
	a := m.accounts[id]
	if a == nil {
		if len(m.accounts) >= maxVoteAccounts {
			m.dropCalmAccounts()
		}
		a = newVoteAccount()
		m.accounts[id] = a
	}
	a.setRates(votesAllowed(m.deps.Driver.Status().Seats, m.slot))
	return a
}

// dropCalmAccounts forgets peers that are not linked and have nothing against them; if there is none, any that are not
// linked.
func (m *Manager) dropCalmAccounts() {
	now := time.Now()
	for _, all := range []bool{false, true} {
		for id, a := range m.accounts {
			if m.peers[id] == nil && (all || a.calm(now)) {
				delete(m.accounts, id)
			}
		}
		if len(m.accounts) < maxVoteAccounts {
			return
		}
	}
}

// admitVotes holds a message of votes back while its sender is over what it may send; the link's flow control then
// holds back the sender. false: the message is dropped. It runs on the goroutine that reads the peer's lane.
func (m *Manager) admitVotes(p *peer, size int, now time.Time) bool {
	wait, tell, spent := p.account.payBytes(size+voteMessageBytes, now)
	if spent {
		m.post(func() { m.sendFlooderAway(p) })
		return false
	}
	if tell {
		m.log.Warn("peer sends more votes than all producers together cast; it is read slowly", zap.String("peer", string(p.id)), zap.Stringer("votes", p.account))
	}
	return wait == 0 || pause.For(p.ctx, wait)
}

func (m *Manager) sendFlooderAway(p *peer) {
	m.punish(p, Flood, fmt.Errorf("votes: %s", p.account))
}

func (m *Manager) onVotes(p *peer, vs []block.Vote) {
	if !p.handshaken || p.leaving {
		return
	}
	p.counts.votesIn += uint64(len(vs))
	if !m.queueVotes(p, vs, true) {
		m.metrics.duplicate("vote")
		if p.dupVotes++; p.dupVotes >= dampAfter {
			p.dupVotes = 0
			m.damp(p, DampVotes)
		}
		return
	}
	p.dupVotes = 0
}

// queueVotes queues votes to be judged and reports whether one of them was new. Votes of a handshake are not relayed:
// they are their sender's own, and it sends them to everyone.
func (m *Manager) queueVotes(p *peer, vs []block.Vote, relay bool) (anyNew bool) {
	for i := range vs {
		k := m.voteKey(&vs[i])
		if relay {
			p.knownVotes.Add(k, struct{}{})
		}
		fresh, full := m.inbox.Put(p, receivedVote{vote: vs[i], key: k, relay: relay})
		if full {
			m.metrics.dropped("vote")
		}
		anyNew = anyNew || fresh
	}
	return anyNew
}

// voteWorker has the driver judge votes. While it verifies some, others gather, and are verified together.
func (m *Manager) voteWorker() {
	for {
		batch := m.inbox.Take(m.ctx)
		if batch == nil {
			return
		}
		votes := make([]block.Vote, len(batch))
		for i, r := range batch {
			votes[i] = r.vote
		}
		verdicts, err := m.deps.Driver.AddVotes(votes)
		if err == nil && len(verdicts) != len(votes) {
			err = fmt.Errorf("the driver judged %d of %d votes", len(verdicts), len(votes))
		}
		if err != nil {
			m.log.Debug("votes were not taken for now", zap.Error(err))
			m.metrics.dropped("vote")
			continue
		}
		for i, r := range batch {
			// A copy of a handshake's vote goes on to other peers when it comes by itself.
			if r.relay && verdicts[i].isLasting() {
				m.inbox.MarkSeen(r.key)
			}
		}
		m.post(func() { m.onVotesJudged(batch, verdicts) })
	}
}

// onVotesJudged queues the good votes to be relayed and charges the senders of those that no honest peer sends.
func (m *Manager) onVotesJudged(batch []*receivedVote, verdicts []VoteVerdict) {
	now := time.Now()
	for i, r := range batch {
		switch v := verdicts[i]; v {
		case VoteAccepted, VoteKnown:
			if r.relay {
				m.voteRelay = append(m.voteRelay, relayedVote{r.vote, r.key})
				m.scheduleFlush(voteRelayDelay)
			}
		case VoteIrrelevant:
		default:
			for _, p := range r.senders {
				m.chargeVote(p, &r.vote, v, now)
			}
		}
	}
}

// chargeVote charges a peer for a vote that is not the one of an honest peer, or not often. A bad vote in the name of
// the account that the peer itself signs for is the peer's own, whatever it has sent before.
func (m *Manager) chargeVote(p *peer, vote *block.Vote, v VoteVerdict, now time.Time) {
	if p.leaving || v == VoteFuture && m.explainedByClocks(p, vote.Target.Slot, now) {
		return
	}
	spent := p.account.charge(v, 1, now)
	if (v == VoteForged || v == VoteMalformed) && p.signsFor(vote.Voter) {
		m.punish(p, Validation, fmt.Errorf("its own vote on slot %d is %s", vote.Target.Slot, v))
		return
	}
	if spent {
		m.sendFlooderAway(p)
	}
}

// explainedByClocks reports whether a slot may be ahead of our clock without anybody's fault: clocks of honest nodes
// differ a little, and if the peer's differs more it said so when it was asked for the time. That covers a node whose
// own clock is wrong, for which all peers are ahead.
func (m *Manager) explainedByClocks(p *peer, slot uint64, now time.Time) bool {
	own := m.ownClock()
	ours, _ := m.deps.Params.SlotAt(time.Unix(0, int64(own+max(p.clock.Offset(own, now), 0))))
	return slot <= ours+voteClockSlots
}

func (m *Manager) onOwnVotes(vs []block.Vote) {
	keyed := make([]relayedVote, len(vs))
	for i := range vs {
		keyed[i] = relayedVote{vs[i], m.voteKey(&vs[i])}
		m.inbox.MarkSeen(keyed[i].key)
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
