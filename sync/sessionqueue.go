package blocksync

import (
	"context"
	"sync"
)

// sessionQueue holds the session work of each peer apart and takes turns between the peers: one that floods delays its own
// work, never another's. Safe for concurrent use; Put never waits.
type sessionQueue struct {
	mu    sync.Mutex
	jobs  map[*peer]*peerSessionJobs
	turns []*peer       // with jobs, whose turn comes first at the head
	ready chan struct{} // capacity 1: jobs may wait
}

// peerSessionJobs are the jobs of one peer that wait, oldest first.
type peerSessionJobs struct {
	jobs  []sized[*sessionJob]
	bytes int64
}

func newSessionQueue() *sessionQueue {
	return &sessionQueue{jobs: make(map[*peer]*peerSessionJobs), ready: make(chan struct{}, 1)}
}

// Put queues a job of a peer that takes so many bytes; false if too many of that peer's wait. One job of any size fits if none does.
func (q *sessionQueue) Put(j *sessionJob, bytes int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	own := q.jobs[j.peer]
	if own == nil {
		own = new(peerSessionJobs)
		q.jobs[j.peer] = own
		q.turns = append(q.turns, j.peer)
	}
	n, share := int64(bytes), int64(maxSessionBytes/len(q.turns))
	if len(own.jobs) > 0 && (len(own.jobs) >= maxPeerSessionJobs || own.bytes+n > share) {
		return false
	}
	own.jobs = append(own.jobs, sized[*sessionJob]{j, n})
	own.bytes += n
	select {
	case q.ready <- struct{}{}:
	default:
	}
	return true
}

// Each gives every job to fn, one at a time, until ctx ends.
func (q *sessionQueue) Each(ctx context.Context, fn func(*sessionJob)) {
	for ctx.Err() == nil {
		if j := q.takeTurn(); j != nil {
			fn(j)
			continue
		}
		select {
		case <-ctx.Done():
		case <-q.ready:
		}
	}
}

// takeTurn is the oldest job of the peer whose turn it is; nil: there is none.
func (q *sessionQueue) takeTurn() *sessionJob {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.turns) == 0 {
		return nil
	}
	p := q.turns[0]
	q.turns = q.turns[1:]
	own := q.jobs[p]
	first := own.jobs[0]
	own.jobs = own.jobs[1:]
	own.bytes -= first.size
	if len(own.jobs) > 0 {
		q.turns = append(q.turns, p)
	} else {
		delete(q.jobs, p)
	}
	return first.job
}
