package dpos

import (
	"fmt"
	"slices"

	"github.com/ethereum/go-ethereum/common"

	"github.com/bornode/bornode/block"
)

// VoteVerdict says what a vote is worth here, and with it what its sender did.
type VoteVerdict uint8

const (
	// VoteAccepted: the vote counts, or may count once its block is known. Only such a vote is worth passing on.
	VoteAccepted VoteVerdict = iota
	// VoteKnown: the same vote, with the same signature, was accepted before.
	VoteKnown
	// VoteIrrelevant: the vote cannot matter here, and an honest peer may well send it: at or below the last
	// irreversible block, our own come back, or of a voter whom this node, being behind, may not know yet.
	VoteIrrelevant
	// VoteFuture: the target's slot begins further ahead of the time than max_clock_error (rule 12).
	VoteFuture
	// VoteOverShare: the block is not known, and the voter has its share of votes on unknown blocks already.
	VoteOverShare
	// VoteRefuted: the chain says that the voter has no seat on this known block, or that the link is not the one that
	// votes on it have. A peer that lacks the block cannot see that.
	VoteRefuted
	// VoteStranger: the voter has a seat in no schedule that can count the target.
	VoteStranger
	// VoteMalformed: no vote can look like this.
	VoteMalformed
	// VoteForged: the signature is not the voter's.
	VoteForged
)

var voteVerdictNames = [...]string{"accepted", "known", "irrelevant", "future", "over_share", "refuted", "stranger", "malformed", "forged"}

func (v VoteVerdict) String() string {
	if int(v) < len(voteVerdictNames) {
		return voteVerdictNames[v]
	}
	return fmt.Sprintf("verdict(%d)", uint8(v))
}

// JudgedVote is JudgeVotes' answer for one vote.
type JudgedVote struct {
	Verdict VoteVerdict
	Key     block.BLSKey // of an accepted vote: the key that its signature must verify under
	// OtherKeys are the voter's keys in other schedules that may count an unknown target: while a change of keys is
	// under way only the block tells which one counts, and a vote under any of them is genuine.
	OtherKeys []block.BLSKey
}

// VerifiedVote is a vote whose signature was verified by itself, or in a batch that speaks for each of its parts, under
// this key.
type VerifiedVote struct {
	block.Vote
	Key block.BLSKey
}

// JudgeVotes says what votes are worth as the tree and the clock stand, without a look at their signatures, and under
// which keys the acceptable ones must verify. It changes nothing and costs a few look-ups a vote, so it comes before
// any work or memory is spent on them. Verified ones are to be given as a VerifiedVotesEvent.
func (m *Machine) JudgeVotes(vs []block.Vote) []JudgedVote {
	out := make([]JudgedVote, len(vs))
	for i := range vs {
		out[i] = m.judgeVote(&vs[i])
	}
	return out
}

func (m *Machine) judgeVote(v *block.Vote) JudgedVote {
	refuse := func(why VoteVerdict) JudgedVote { return JudgedVote{Verdict: why} }
	root := m.tree.root
	switch {
	case !wellFormed(v) || v.Signature == (block.BLSSignature{}):
		return refuse(VoteMalformed)
	case v.Target.Slot <= root.Slot:
		return refuse(VoteIrrelevant)
	case m.future(v.Target.Slot):
		return refuse(VoteFuture)
	case v.Voter == m.cfg.Self && (m.own.cast(v.Link) || m.own.older(v.Link)):
		return refuse(VoteIrrelevant)
	}
	n := m.tree.nodes[v.Target.Hash]
	if n == nil {
		return m.judgeUnknown(v)
	}
	if !m.inForce(n.own) {
		return refuse(VoteIrrelevant) // bound to a domain that is over
	}
	if !n.own.sits(v.Voter) {
		if m.seated(v) == nil {
			return refuse(VoteStranger)
		}
		return refuse(VoteRefuted)
	}
	if m.linked(v.Link, n) != nil {
		return refuse(VoteRefuted)
	}
	if w := m.pool.index[v.Voter]; w != nil {
		if o := verifiedIn(w.known, v.Link); o != nil {
			return refuse(sameVote(o, v))
		}
	}
	return JudgedVote{Key: keyIn(n.own.count, v.Voter)}
}

// judgeUnknown judges a vote on a block that is not in the tree. An honest producer casts one vote of a kind per slot,
// and two prove its guilt: more than that are not worth a verification. Of all slots the newest are kept.
func (m *Machine) judgeUnknown(v *block.Vote) JudgedVote {
	keys := m.VoteKeys(v.Voter)
	if len(keys) == 0 {
		// Between the LIB and a target less than an epoch above it lies one change of regime at most, and whoever counts
		// after that is in the LIB's own regime already.
		if v.Target.Slot-m.tree.root.Slot < m.p.EpochBlocks && m.awaitsBase() == nil {
			return JudgedVote{Verdict: VoteStranger}
		}
		return JudgedVote{Verdict: VoteIrrelevant}
	}
	if w := m.pool.index[v.Voter]; w != nil {
		if o := verifiedIn(w.unknown, v.Link); o != nil {
			return JudgedVote{Verdict: sameVote(o, v)}
		}
		if !w.hasRoom(v) {
			return JudgedVote{Verdict: VoteOverShare}
		}
	}
	return JudgedVote{Key: keys[0], OtherKeys: keys[1:]}
}

// VoteKeys are the different vote keys that an account has in the schedules at the head and at the last irreversible
// block, those that count there before those that are to come; none for a stranger.
func (m *Machine) VoteKeys(a common.Address) (keys []block.BLSKey) {
	add := func(s block.Schedule) {
		if i := s.Index(a); i >= 0 && !slices.Contains(keys, s[i].Key) {
			keys = append(keys, s[i].Key)
		}
	}
	for _, r := range m.comingRegimes() {
		for _, s := range r.count {
			add(s)
		}
		add(r.cur)
		add(r.other)
	}
	return keys
}

// seated are schedules that hold the voter's key, for a block whose own are not known; nil for a stranger.
func (m *Machine) seated(v *block.Vote) []block.Schedule {
	return m.schedulesOf(&pooled{Vote: *v})
}

// wellFormed reports whether a vote has the form of its kind.
func wellFormed(v *block.Vote) bool {
	if v.Voter == (common.Address{}) {
		return false
	}
	switch v.Kind {
	case block.Prevote:
		return v.Source.Slot < v.Target.Slot
	case block.Precommit:
		return v.Source == v.Target
	}
	return false
}

// verifiedIn is the verified vote of the list on the link; nil if there is none.
func verifiedIn(list []*pooled, l block.Link) *pooled {
	for _, o := range list {
		if o.Link == l && o.alone {
			return o
		}
	}
	return nil
}

// sameVote compares a vote with the voter's verified one on the same link: a key has one signature on a message.
func sameVote(o *pooled, v *block.Vote) VoteVerdict {
	if o.Signature != v.Signature {
		return VoteForged
	}
	return VoteKnown
}

// hasRoom reports whether the voter's share of votes on unknown blocks has room for this one.
func (w *voter) hasRoom(v *block.Vote) bool {
	same, older := 0, len(w.unknown) < maxUnknownPerVoter
	for _, o := range w.unknown {
		if o.Kind == v.Kind && o.Target.Slot == v.Target.Slot {
			same++
		}
		older = older || o.Target.Slot < v.Target.Slot
	}
	return same < maxUnknownPerSlot && older
}

// verifiedVotes pools votes whose signatures were verified.
func (m *Machine) verifiedVotes(vs []VerifiedVote) error {
	if len(vs) > MaxVotesPerEvent {
		return fmt.Errorf("%w: %d votes at once, %d allowed", ErrInvalid, len(vs), MaxVotesPerEvent)
	}
	for i := range vs {
		if v := &vs[i]; m.plausible(&v.Vote) {
			m.addVote(&pooled{Vote: v.Vote, good: true, alone: true, key: v.Key})
		}
	}
	return nil
}

// checkKey takes back that the vote is verified if its block counts the voter under another key than it was verified
// under, which only the block tells.
func (x *pooled) checkKey() {
	if x.alone && x.key != keyIn(x.node.own.count, x.Voter) {
		x.good, x.alone = false, false
	}
}
