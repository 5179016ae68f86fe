package store

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/pubsub/batch"
)

// tail reads a partition from its start until a record says that it is the last, and checks that nothing is missing.
func tail(ctx context.Context, p *Partition, last int64) error {
	for at := int64(0); at < last; {
		changed := p.Changed()
		b, err := p.Read(at, 20<<10, everything)
		if err != nil {
			return err
		}
		if len(b) == 0 {
			select {
			case <-changed:
				continue
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if err := batch.Each(b, func(h batch.Header, _ []byte) error {
			if h.BaseOffset != at {
				return ErrGap
			}
			at = h.NextOffset()
			return nil
		}); err != nil {
			return err
		}
		p.SetCommitted(at)
	}
	return nil
}

// TestReadersAndWritersAtOnce has writers that wait for the group sync, readers at the tail and from the start, partitions
// that come and go, and the keeper's work that moves what the readers read.
func TestReadersAndWritersAtOnce(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	fs := newDisk()
	s := open(t, fs, testConfig())
	const parts, batches = 4, 300
	var wg sync.WaitGroup
	fail := make(chan error, 100)
	run := func(f func() error) {
		wg.Go(func() {
			if err := f(); err != nil {
				fail <- err
			}
		})
	}
	for n := range int32(parts) {
		p := create(t, s, n)
		run(func() error {
			for i := range batches {
				a, err := p.Append(0, made(i, 1, 50+i, 1, int64(n), 0, int32(i)), 1)
				if err == nil {
					err = s.Durable(ctx, a.Mark)
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
		run(func() error { return tail(ctx, p, batches) })
	}
	done := make(chan struct{})
	run(func() error {
		busy, err := s.Create(id(99), Retention{Bytes: 1000})
		for i := 0; err == nil; i++ {
			select {
			case <-done:
				return nil
			default:
			}
			var a Appended
			if a, err = busy.Append(0, plain(i, 1, 3000), 1); err == nil {
				err = s.Durable(ctx, a.Mark)
			}
			busy.SetCommitted(a.Next)
			s.Tick(time.Now())
			if i%20 == 19 && err == nil {
				if err = s.Delete(id(99)); err == nil {
					busy, err = s.Create(id(99), Retention{Bytes: 1000})
				}
			}
		}
		return err
	})
	for n := range int32(parts) { // readers from the start, again and again, while its segments are emptied
		p := s.Partition(id(n))
		run(func() error {
			for {
				select {
				case <-done:
					return nil
				default:
				}
				if err := tail(ctx, p, min(p.End(), batches)); err != nil {
					return err
				}
			}
		})
	}
	run(func() error {
		defer close(done)
		for n := range int32(parts) {
			if err := tail(ctx, s.Partition(id(n)), batches); err != nil {
				return err
			}
		}
		return nil
	})
	wg.Wait()
	close(fail)
	for err := range fail {
		require.NoError(t, err)
	}
	var want [parts][][]byte
	for n := range want {
		want[n] = all(t, s.Partition(id(int32(n))))
		require.Len(t, want[n], batches)
	}
	left := disk{fs.Crash(0)}
	require.NoError(t, s.Close())
	s = open(t, left, testConfig())
	for n := range want {
		require.Equal(t, want[n], all(t, s.Partition(id(int32(n)))))
	}
}
