package blocksync

import (
	"fmt"
	"time"

	"github.com/bornode/bornode/transport"
)

// State is what a node is doing to be where its peers are.
type State uint8

const (
	InSync      State = iota // normal
	LIBCatchup               // fetching irreversible ranges
	HeadCatchup              // fetching the reversible branch
)

func (s State) String() string {
	switch s {
	case InSync:
		return "in_sync"
	case LIBCatchup:
		return "lib_catchup"
	case HeadCatchup:
		return "head_catchup"
	}
	return fmt.Sprintf("state(%d)", uint8(s))
}

// peerView is what the plan knows of a peer whose handshake was accepted.
type peerView struct {
	id       transport.PeerID
	pos      Position
	latency  time.Duration // one way
	since    time.Time     // when this peer was first seen ahead, without our catching up since; zero: it is not
	headHere bool          // its head is already in our tree, or on its way into it
	notRange time.Time     // not to be asked for ranges before
	notAsk   time.Time     // not to be asked for its branch before
	canRange bool
	rangeTo  uint64 // last height it can serve in a range
}

// decision is what the plan says to do.
type decision struct {
	state  State
	target uint64           // LIBCatchup: last height of the range
	ask    transport.PeerID // HeadCatchup: whom to ask
}

// planInput is everything the plan depends on.
type planInput struct {
	local   Position
	peers   []peerView
	slot    time.Duration
	current State
	target  uint64 // of the running lib_catchup
	now     time.Time
}

// plan decides what to do: irreversible ranges while the head is below some peer's LIB, then the branch of the best
// peer that is ahead, else nothing. Differences that the link's latency explains start nothing unless they last. With
// no peer that can help the answer is in_sync: the node goes on with what arrives and never waits for evidence that
// does not come.
func plan(in planInput) decision {
	if t := rangeTarget(in); t > 0 {
		return decision{state: LIBCatchup, target: t}
	}
	var best *peerView
	for i := range in.peers {
		p := &in.peers[i]
		if !wantsBranch(in, p) || best != nil && !p.pos.ahead(best.pos) {
			continue
		}
		best = p
	}
	if best == nil {
		return decision{state: InSync}
	}
	return decision{state: HeadCatchup, ask: best.id}
}

// rangeTarget is the highest LIB worth syncing to by ranges; 0: none. A running sync goes on until our LIB is there,
// a new one starts only from a head below the peer's LIB.
func rangeTarget(in planInput) uint64 {
	reach, target := in.local.LIB.Height, uint64(0)
	servable := false
	for i := range in.peers {
		p := &in.peers[i]
		if !p.canRange || in.now.Before(p.notRange) || p.rangeTo <= reach || in.current != LIBCatchup && !in.lasting(p) {
			continue
		}
		servable = servable || p.pos.First <= reach+1
		target = max(target, p.rangeTo)
	}
	if !servable || in.local.Head.Height >= target {
		return 0
	}
	return target
}

func wantsBranch(in planInput, p *peerView) bool {
	return !p.headHere && !in.now.Before(p.notAsk) && !in.local.ahead(p.pos) && in.lasting(p)
}

// lasting reports whether the difference to a peer is more than what is on its way to us: it is larger than the link's
// latency in slots, or has lasted for two slots and two round trips.
func (in *planInput) lasting(p *peerView) bool {
	return !near(in.local, p.pos, p.latency, in.slot) || !p.since.IsZero() && in.now.Sub(p.since) >= 2*in.slot+4*p.latency
}
