package pubsub

import (
	"slices"

	"github.com/ethereum/go-ethereum/common"

	"github.com/bornode/bornode/contracts"
)

// placement is what the leader of a partition knows of where it is and should be. Brokers are named by account.
type placement struct {
	self      common.Address
	partition int
	replicas  []common.Address // of the lease
	wanted    []common.Address // by the owner; empty: any
	count     int              // of replicas where the owner wants none in particular
	insync    []common.Address // replicas that have all that is committed, self with them; empty: this leader is not ready
	spare     []common.Address // live brokers that can be reached, those with the fewest partitions first
	gone      func(common.Address) bool
}

// move is the next step of a placement: at most one field is set.
type move struct {
	replicas []common.Address // of the lease to come, one more or one fewer
	added    common.Address   // among them; zero: one leaves
	to       common.Address   // the lease goes to this replica, since this broker is to keep the partition no more
}

// next is one safe step towards the target, if there is one now.
//
// Sets that follow each other differ by one broker, and a leader changes them only when it is ready in its epoch
// (replica/SPEC.md). Beyond that a majority of the present set and of the next one must be in sync, so that the
// partition goes on through the change. A broker that is gone counts against that majority: where the one that comes
// would be needed for it before it has a single record, the one that is gone leaves first. Only the second replica of
// all is waited for: there is no other way to two.
func (p *placement) next() move {
	n := len(p.replicas)
	p.insync = slices.DeleteFunc(slices.Clone(p.insync), func(a common.Address) bool { return a != p.self && p.gone(a) })
	if !slices.Contains(p.insync, p.self) || len(p.insync) < majority(n) {
		return move{}
	}
	target := p.target()
	if len(target) == 0 {
		return move{}
	}
	if !slices.Contains(target, p.self) {
		for _, a := range target {
			if slices.Contains(p.insync, a) {
				return move{to: a}
			}
		}
	}
	leaver := p.leaver(target)
	missing := slices.DeleteFunc(slices.Clone(target), p.keeps)
	if len(missing) > 0 {
		return p.admit(target, missing, leaver)
	}
	if leaver == (common.Address{}) || n-1 < p.wantedCount() || !p.allInSync(target) || len(without(p.insync, leaver)) < majority(n-1) {
		return move{}
	}
	return move{replicas: without(p.replicas, leaver)}
}

func (p *placement) keeps(a common.Address) bool { return slices.Contains(p.replicas, a) }

// admit makes room for a broker, or takes it in.
func (p *placement) admit(target, missing []common.Address, leaver common.Address) move {
	n, sync := len(p.replicas), len(p.insync)
	i := slices.IndexFunc(p.spare, func(a common.Address) bool { return slices.Contains(missing, a) })
	if i < 0 {
		return move{} // none of them can be reached
	}
	for _, a := range target {
		if p.keeps(a) && !slices.Contains(p.insync, a) {
			return move{} // one at a time: the one before has not everything yet
		}
	}
	if n < contracts.MaxReplicas && (sync >= majority(n+1) || n == 1) { // a second one is needed for every majority of two
		return move{replicas: p.with(p.spare[i]), added: p.spare[i]}
	}
	if leaver == (common.Address{}) || len(without(p.insync, leaver)) < majority(n-1) {
		return move{}
	}
	if p.gone(leaver) || n-1 >= min(p.wantedCount(), contracts.MaxReplicas-1) { // seven are the most
		return move{replicas: without(p.replicas, leaver)}
	}
	return move{}
}

// with puts a broker in order of the owner's wish, which is that in which they are to lead, or by turns.
func (p *placement) with(newcomer common.Address) []common.Address {
	if len(p.wanted) == 0 {
		return slices.Insert(slices.Clone(p.replicas), p.partition%(len(p.replicas)+1), newcomer)
	}
	list := append(slices.Clone(p.replicas), newcomer)
	slices.SortStableFunc(list, func(a, b common.Address) int { return p.rank(a) - p.rank(b) })
	return list
}

func (p *placement) rank(a common.Address) int {
	if i := slices.Index(p.wanted, a); i >= 0 {
		return i
	}
	return len(p.wanted)
}

func (p *placement) wantedCount() int {
	if len(p.wanted) > 0 {
		return len(p.wanted)
	}
	return p.count
}

// target is who should keep the partition, as far as there is anybody: whom the owner wants, then whoever keeps it, then
// others.
func (p *placement) target() (list []common.Address) {
	take := func(from []common.Address) {
		for _, a := range from {
			if len(list) < p.wantedCount() && !p.gone(a) && !slices.Contains(list, a) {
				list = append(list, a)
			}
		}
	}
	take(p.wanted)
	if len(p.wanted) == 0 {
		take([]common.Address{p.self})
	}
	take(p.insync)
	take(p.replicas)
	take(p.spare)
	return list
}

// leaver is the replica to take away first, one that is gone or behind if there is one; zero: none.
func (p *placement) leaver(target []common.Address) (leaver common.Address) {
	for _, a := range p.replicas {
		if a == p.self || slices.Contains(target, a) {
			continue
		}
		switch {
		case p.gone(a):
			return a
		case leaver == (common.Address{}) || !slices.Contains(p.insync, a):
			leaver = a
		}
	}
	return leaver
}

func (p *placement) allInSync(list []common.Address) bool {
	return !slices.ContainsFunc(list, func(a common.Address) bool { return !slices.Contains(p.insync, a) })
}

func majority(n int) int { return n/2 + 1 }

func without(list []common.Address, a common.Address) []common.Address {
	return slices.DeleteFunc(slices.Clone(list), func(x common.Address) bool { return x == a })
}
