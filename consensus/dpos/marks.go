package dpos

import (
	"slices"
	"sort"

	"github.com/ethereum/go-ethereum/common"

	"github.com/bornode/bornode/block"
)

const (
	// markedVotes is how many votes of one kind and producer Marks keep: half of what an answer tells.
	markedVotes = block.MaxToldVotes / 2
	// maxMarked is how many producers Marks keep: all that have a seat, and some that had one or wait for one.
	maxMarked = 4 * block.MaxProducers
)

// Marks are what a node keeps of other producers' signatures so that it can tell them after a start what they signed
// (rule 11): the newest sessions, and the newest votes of each kind, those above the LIB and the newest one. Whoever adds
// to them verified the signatures. They are on the node's disk, so that a restart of all loses none. One goroutine owns
// them; nothing in them depends on the order of a map.
type Marks struct {
	order []common.Address // by first arrival
	of    map[common.Address]*marked
}

type marked struct {
	sessions []block.SignedSession // rising
	votes    [2][]block.Vote       // prevotes and precommits by rising slot
}

// NewMarks are none.
func NewMarks() *Marks { return &Marks{of: make(map[common.Address]*marked)} }

// Has reports whether something of an account is kept.
func (k *Marks) Has(a common.Address) bool { return k.of[a] != nil }

// Bound has the oldest accounts without a seat leave beyond the bound: marks that were read from a log, before it was known who sits.
func (k *Marks) Bound(sits func(common.Address) bool) {
	over := len(k.order) - maxMarked
	k.order = slices.DeleteFunc(k.order, func(a common.Address) bool {
		if over <= 0 || sits(a) {
			return false
		}
		over--
		delete(k.of, a)
		return true
	})
}

// entry is the account's, made if there is room. Beyond the bound the oldest account without a seat leaves; for another
// one without a seat there is no room. Without sits there is no bound.
func (k *Marks) entry(a common.Address, sits func(common.Address) bool) *marked {
	if x := k.of[a]; x != nil {
		return x
	}
	if sits != nil && len(k.order) >= maxMarked {
		i := slices.IndexFunc(k.order, func(o common.Address) bool { return !sits(o) })
		if i < 0 || !sits(a) {
			return nil
		}
		delete(k.of, k.order[i])
		k.order = slices.Delete(k.order, i, i+1)
	}
	x := new(marked)
	k.of[a] = x
	k.order = append(k.order, a)
	return x
}

// AddSession keeps a session and reports whether it is new and was kept. sits says who has a seat; nil
// while that is not known yet: Bound follows.
func (k *Marks) AddSession(s block.SignedSession, sits func(common.Address) bool) bool {
	x := k.entry(s.Producer, sits)
	if x == nil || slices.ContainsFunc(x.sessions, func(o block.SignedSession) bool { return o.Session == s.Session }) {
		return false
	}
	i := sort.Search(len(x.sessions), func(i int) bool { return s.Session.Less(x.sessions[i].Session) })
	if i == 0 && len(x.sessions) == block.MaxToldSessions {
		return false // older than all that is kept
	}
	x.sessions = slices.Insert(x.sessions, i, s)
	x.sessions = x.sessions[max(0, len(x.sessions)-block.MaxToldSessions):]
	return true
}

// AddVote keeps a verified vote and reports whether it is new and was kept.
func (k *Marks) AddVote(v block.Vote, sits func(common.Address) bool) bool {
	x := k.entry(v.Voter, sits)
	if x == nil {
		return false
	}
	list := &x.votes[0]
	if v.Kind == block.Precommit {
		list = &x.votes[1]
	}
	i := sort.Search(len(*list), func(i int) bool { return (*list)[i].Target.Slot >= v.Target.Slot })
	for j := i; j < len(*list) && (*list)[j].Target.Slot == v.Target.Slot; j++ {
		if (*list)[j].Link == v.Link {
			return false
		}
	}
	if i == 0 && len(*list) == markedVotes {
		return false
	}
	*list = slices.Insert(*list, i, v)
	*list = (*list)[max(0, len(*list)-markedVotes):]
	return true
}

// Trim forgets votes at or below the LIB, but for the newest of each kind.
func (k *Marks) Trim(lib uint64) {
	for _, a := range k.order {
		x := k.of[a]
		for i, list := range x.votes {
			n := sort.Search(len(list), func(i int) bool { return list[i].Target.Slot > lib })
			if n = min(n, max(len(list)-1, 0)); n > 0 {
				x.votes[i] = append([]block.Vote(nil), list[n:]...)
			}
		}
	}
}

// Sessions are the newest of an account, but for one.
func (k *Marks) Sessions(a common.Address, but block.Session) (out []block.SignedSession) {
	if x := k.of[a]; x != nil {
		for _, s := range x.sessions {
			if s.Session != but {
				out = append(out, s)
			}
		}
	}
	return out
}

// Votes are the newest of an account, newest first, at most block.MaxToldVotes.
func (k *Marks) Votes(a common.Address) (out []block.Vote) {
	if x := k.of[a]; x != nil {
		out = append(append(out, x.votes[0]...), x.votes[1]...)
		sortVotes(out)
	}
	return out
}

// Accounts are those of which there is something, by first arrival.
func (k *Marks) Accounts() []common.Address { return slices.Clone(k.order) }
