package blocksync

import (
	"context"
	"slices"
	"sync"

	"github.com/bornode/bornode/block"
)

// receivedVote is a vote on its way to the driver.
type receivedVote struct {
	vote    block.Vote
	key     uint64
	relay   bool    // goes on to other peers if it proves good
	senders []*peer // who sent it in this turn
}

// voteInbox holds the votes of each peer apart until the driver has judged them, and takes turns between the peers: one
// that floods delays its own votes, never another's. It remembers which votes were judged, so that copies of them cost
// nothing. A copy that comes while another peer's waits is kept too, since that one may wait long. Safe for concurrent
// use.
type voteInbox struct {
	mu    sync.Mutex
	seen  *recent[uint64, struct{}]
	queue map[*peer]*peerVotes
	turns []*peer       // with votes in the queue, whose turn comes first at the head
	ready chan struct{} // capacity 1: votes may wait
}

// peerVotes are the votes of one peer that wait, oldest first.
type peerVotes struct {
	votes  []receivedVote
	queued map[uint64]struct{}
}

func newVoteInbox() *voteInbox {
	return &voteInbox{seen: newRecent[uint64, struct{}](maxSeenVotes), queue: make(map[*peer]*peerVotes), ready: make(chan struct{}, 1)}
}

// Put queues a vote. fresh is false if it was judged before or waits already; full says that it was dropped because too
// many of the peer's wait.
func (b *voteInbox) Put(p *peer, v receivedVote) (fresh, full bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.seen.Has(v.key) {
		return false, false
	}
	q := b.queue[p]
	if q == nil {
		q = &peerVotes{queued: make(map[uint64]struct{})}
		b.queue[p] = q
		b.turns = append(b.turns, p)
	}
	if _, waits := q.queued[v.key]; waits {
		return false, false
	}
	if len(q.votes) >= maxQueuedVotes {
		return true, true
	}
	q.votes, q.queued[v.key] = append(q.votes, v), struct{}{}
	select {
	case b.ready <- struct{}{}:
	default:
	}
	return true, false
}

// Take waits for votes and gives the next turn of them: a few of each peer, each vote once. It is nil when ctx has
// ended.
func (b *voteInbox) Take(ctx context.Context) []*receivedVote {
	for {
		if batch := b.nextTurn(); len(batch) > 0 {
			return batch
		}
		select {
		case <-b.ready:
		case <-ctx.Done():
			return nil
		}
	}
}

func (b *voteInbox) nextTurn() []*receivedVote {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.turns) > 0 {
		if batch := b.takeTurn(); len(batch) > 0 {
			return batch
		}
	}
	return nil
}

// takeTurn takes a few votes of each peer, as many as the driver takes at once; who had no turn is first next time.
func (b *voteInbox) takeTurn() (batch []*receivedVote) {
	at := make(map[uint64]*receivedVote)
	var again []*peer
	for len(b.turns) > 0 && len(batch)+votesPerTurn <= maxVotes {
		p := b.turns[0]
		b.turns = b.turns[1:]
		q := b.queue[p]
		n := min(len(q.votes), votesPerTurn)
		for _, v := range q.votes[:n] {
			delete(q.queued, v.key)
			switch o := at[v.key]; {
			case b.seen.Has(v.key):
			case o != nil:
				o.senders, o.relay = append(o.senders, p), o.relay || v.relay
			default:
				v.senders = []*peer{p}
				batch, at[v.key] = append(batch, &v), &v
			}
		}
		if q.votes = q.votes[n:]; len(q.votes) == 0 {
			delete(b.queue, p)
		} else {
			again = append(again, p)
		}
	}
	b.turns = append(slices.Clip(b.turns), again...)
	return batch
}

// MarkSeen notes votes that need not be judged again.
func (b *voteInbox) MarkSeen(keys ...uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, k := range keys {
		b.seen.Add(k, struct{}{})
	}
}

// Forget drops what waits of a peer.
func (b *voteInbox) Forget(p *peer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.queue, p)
	b.turns = slices.DeleteFunc(b.turns, func(o *peer) bool { return o == p })
}
