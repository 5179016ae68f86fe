package pubsub

import (
	"context"

	"github.com/bornode/bornode/pubsub/batch"
	"github.com/bornode/bornode/pubsub/replica"
	"github.com/bornode/bornode/pubsub/store"
)

// Logs is a store as package replica sees it: the two name the same things by types of their own.
type Logs struct{ Store *store.Store }

// Open implements replica.Store. The broker makes logs, with their retention, before it gives leases to the replicas.
func (l Logs) Open(id replica.ID, create bool) (replica.Log, error) {
	p := l.Store.Partition(store.ID(id))
	if p == nil && create {
		var err error
		if p, err = l.Store.Create(store.ID(id), store.Retention{}); err != nil {
			return nil, err
		}
	}
	if p == nil {
		return nil, nil //nolint:nilnil // replica.Store wants it so
	}
	return log{p}, nil
}

// Delete implements replica.Store.
func (l Logs) Delete(id replica.ID) error { return l.Store.Delete(store.ID(id)) }

// Durable implements replica.Store.
func (l Logs) Durable(ctx context.Context, m replica.Mark) error {
	return l.Store.Durable(ctx, store.Mark(m))
}

type log struct{ p *store.Partition }

func (l log) Append(epoch int32, raw []byte, now int64) (replica.Appended, error) {
	a, err := l.p.Append(epoch, raw, now)
	return replica.Appended{Base: a.Base, Next: a.Next, Mark: replica.Mark(a.Mark), Duplicate: a.Duplicate, Time: a.Time}, err
}

func (l log) Accept(raw []byte) (replica.Mark, error) {
	m, err := l.p.Accept(raw)
	return replica.Mark(m), err
}

func (l log) Read(from int64, maxBytes int, upTo int64) ([]byte, error) {
	return l.p.Read(from, maxBytes, upTo)
}

func (l log) Batches(from, upTo int64, f func(h batch.Header, raw []byte) error) error {
	return l.p.Batches(from, upTo, f)
}

func (l log) Start() int64               { return l.p.Start() }
func (l log) End() int64                 { return l.p.End() }
func (l log) Position() (int32, int64)   { return l.p.Position() }
func (l log) Promised() int32            { return l.p.Promised() }
func (l log) DeleteBefore(o int64) error { return l.p.DeleteBefore(o) }
func (l log) SetCommitted(o int64)       { l.p.SetCommitted(o) }
func (l log) Committed() int64           { return l.p.Committed() }

func (l log) Epochs() []replica.EpochStart {
	in := l.p.Epochs()
	out := make([]replica.EpochStart, len(in))
	for i, e := range in {
		out[i] = replica.EpochStart(e)
	}
	return out
}

func (l log) Promise(epoch int32) (replica.Mark, error) {
	m, err := l.p.Promise(epoch)
	return replica.Mark(m), err
}

func (l log) Enter(epoch int32) (replica.Mark, error) {
	m, err := l.p.Enter(epoch)
	return replica.Mark(m), err
}

func (l log) Truncate(end int64) (replica.Mark, error) {
	m, err := l.p.Truncate(end)
	return replica.Mark(m), err
}

func (l log) Reset(start int64) (replica.Mark, error) {
	m, err := l.p.Reset(start)
	return replica.Mark(m), err
}
