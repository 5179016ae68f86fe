package blocksync

import (
	"context"
	"sync/atomic"
)

// jobQueue is a channel bounded by count and by bytes. Putting never waits.
type jobQueue[T any] struct {
	ch    chan sized[T]
	bytes atomic.Int64
	limit int64
}

type sized[T any] struct {
	job  T
	size int64
}

func newJobQueue[T any](count int, bytes int64) *jobQueue[T] {
	return &jobQueue[T]{ch: make(chan sized[T], count), limit: bytes}
}

// Put queues a job of so many bytes; false if either bound is reached (one job of any size fits an empty queue).
func (q *jobQueue[T]) Put(job T, bytes int) bool {
	n := int64(bytes)
	if have := q.bytes.Add(n); have > q.limit && have > n {
		q.bytes.Add(-n)
		return false
	}
	select {
	case q.ch <- sized[T]{job, n}:
		return true
	default:
		q.bytes.Add(-n)
		return false
	}
}

// Each calls fn with every job, one at a time, until ctx ends. A job's bytes are free again after fn.
func (q *jobQueue[T]) Each(ctx context.Context, fn func(T)) {
	for {
		select {
		case <-ctx.Done():
			return
		case s := <-q.ch:
			fn(s.job)
			q.bytes.Add(-s.size)
		}
	}
}
