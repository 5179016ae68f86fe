package ledger

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ethereum/go-ethereum/core/types"
	"go.uber.org/zap"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/contracts"
)

// Mirror follows the contract. View, Changed, StaleFor and Poke may be called from anywhere.
type Mirror struct {
	source Source
	log    *zap.Logger
	facts  *facts
	view   atomic.Pointer[View]
	wake   chan struct{}

	mu       sync.Mutex
	changed  chan struct{}
	advanced time.Time
	stamp    time.Time // of the block of the newest view
}

// New makes a mirror that knows nothing until Run.
func New(source Source, log *zap.Logger) *Mirror {
	m := &Mirror{source: source, log: log, wake: make(chan struct{}, 1), changed: make(chan struct{}), advanced: time.Now(), stamp: time.Now()}
	m.facts = &facts{log: log, call: func(ctx context.Context, data []byte) ([]byte, uint64, error) {
		h := source.Final()
		ret, err := source.Call(ctx, h, contracts.TopicsAddress, data)
		return ret, h.Time, err
	}}
	return m
}

// View is the newest view; nil before the first.
func (m *Mirror) View() *View { return m.view.Load() }

// Changed is closed when there is a newer view than the one that View gives now or gave before this call.
func (m *Mirror) Changed() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.changed
}

// StaleFor is how long no final block came, or how old the newest one is: a chain that is synced anew, or was not followed
// for a while, gives many blocks, and says who might do what long ago.
func (m *Mirror) StaleFor() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return max(time.Since(m.advanced), time.Since(m.stamp))
}

// Poke says that there may be a new final block. It never blocks; without it the mirror looks by itself now and then.
func (m *Mirror) Poke() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// Run follows final blocks until ctx ends. Errors of the source are logged and tried again.
func (m *Mirror) Run(ctx context.Context) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		if err := m.follow(ctx); err != nil && ctx.Err() == nil {
			m.log.Error("the state of topics could not be followed; trying again", zap.Error(err))
			select {
			case <-time.After(retryAfter):
			case <-ctx.Done():
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-m.wake:
		case <-tick.C:
		}
	}
}

// follow makes the view of the newest final block.
func (m *Mirror) follow(ctx context.Context) error {
	for {
		h, v := m.source.Final(), m.View()
		if v != nil && h.Number.Uint64() <= v.Height {
			return nil
		}
		if v == nil || h.Number.Uint64()-v.Height > maxBehind {
			return m.reload(ctx, h)
		}
		if err := m.advance(ctx, v, h); err != nil {
			if !errors.Is(err, errUnfit) && !errors.Is(err, contracts.ErrReturn) && !errors.Is(err, block.ErrPruned) {
				return err
			}
			m.log.Error("the events of topics do not fit, or their blocks are not kept any more; the whole state is read again", zap.Error(err))
			return m.reload(ctx, h)
		}
	}
}

func (m *Mirror) reload(ctx context.Context, h *types.Header) error {
	m.facts.forget()
	v, err := load(ctx, m.source, h, m.facts)
	if err != nil {
		return fmt.Errorf("read the state of topics at block %s: %w", h.Number, err)
	}
	m.facts.forget() // what was asked meanwhile may be of a block before h
	m.publish(v, h)
	m.log.Info("state of topics read", zap.Uint64("height", v.Height), zap.Int("topics", v.TopicCount()), zap.Int("brokers", len(v.brokers)))
	return nil
}

func (m *Mirror) advance(ctx context.Context, v *View, h *types.Header) error {
	for from := v.Height + 1; from <= h.Number.Uint64(); {
		to := min(from+logRange-1, h.Number.Uint64())
		logs, err := m.source.Logs(ctx, from, to)
		if err != nil {
			return fmt.Errorf("events of topics in blocks %d to %d: %w", from, to, err)
		}
		if v, err = v.apply(h, logs); err != nil {
			return err
		}
		from = to + 1
	}
	m.publish(v, h)
	return nil
}

func (m *Mirror) publish(v *View, h *types.Header) {
	m.view.Store(v)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.advanced, m.stamp = time.Now(), time.Unix(int64(h.Time), 0) //nolint:gosec // seconds
	close(m.changed)
	m.changed = make(chan struct{})
}
