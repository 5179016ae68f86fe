package replica

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"
)

// syncer waits for the disk on behalf of all partitions, and tells each what is durable of it.
type syncer struct {
	m    *Manager
	wake chan struct{}

	mu    sync.Mutex
	next  map[*part]toSync
	order []*part
}

type toSync struct {
	mark Mark
	snap snapshot
}

func newSyncer(m *Manager) *syncer {
	return &syncer{m: m, wake: make(chan struct{}, 1), next: map[*part]toSync{}}
}

// add is called with the part's lock held: a part's snapshots come in their order.
func (s *syncer) add(p *part, m Mark, snap snapshot) {
	s.mu.Lock()
	if _, ok := s.next[p]; !ok {
		s.order = append(s.order, p)
	}
	s.next[p] = toSync{m, snap}
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *syncer) take() ([]*part, map[*part]toSync) {
	s.mu.Lock()
	defer s.mu.Unlock()
	order, next := s.order, s.next
	s.order, s.next = nil, map[*part]toSync{}
	return order, next
}

func (s *syncer) run(ctx context.Context) {
	var failing time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.wake:
		}
		order, next := s.take()
		for _, p := range order {
			w := next[p]
			for {
				err := s.m.deps.Store.Durable(ctx, w.mark)
				if err == nil {
					failing = time.Time{}
					break
				}
				if ctx.Err() != nil {
					return
				}
				failing = s.failed(ctx, failing, err)
			}
			p.mu.Lock()
			if !p.gone {
				p.core.synced(w.snap)
			}
			p.mu.Unlock()
		}
	}
}

// failed waits a little after the disk failed, and gives this broker's leases up if that lasts.
func (s *syncer) failed(ctx context.Context, since time.Time, err error) time.Time {
	s.m.metrics.counters[eventFsync].Inc()
	now := time.Now()
	if since.IsZero() {
		since = now
		s.m.log.Warn("the topics' log does not reach the disk; it is tried again", zap.Error(err))
	} else if now.Sub(since) > s.m.cfg.Lost {
		for _, p := range s.m.all() {
			p.mu.Lock()
			switch p.core.role {
			case fencing, fetching, entering, leading:
				if len(p.core.lease.Replicas) > 1 {
					p.core.fail("the disk takes nothing", err)
				}
			}
			p.mu.Unlock()
		}
	}
	t := time.NewTimer(syncPause)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
	return since
}
