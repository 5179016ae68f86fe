package gate

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
)

// handWatch is a watch that the test drives, with a clock of its own.
func handWatch(t *testing.T, p Proofs) (w *watch, clock *time.Time, told func() []error) {
	m, err := newMetrics(prometheus.NewRegistry())
	require.NoError(t, err)
	var mu sync.Mutex
	var all []error
	w = newWatch(t.Context(), p, m, func(_ string, _ int32, err error) {
		mu.Lock()
		defer mu.Unlock()
		all = append(all, err)
	}, zap.NewNop())
	now := w.began
	w.now = func() time.Time { return now }
	return w, &now, func() []error {
		mu.Lock()
		defer mu.Unlock()
		out := all
		all = nil
		return out
	}
}

func TestWhatNobodyProvesIsTold(t *testing.T) {
	for name, x := range map[string]struct {
		err   error
		limit time.Duration
	}{
		"nobody has a proof":             {nil, UnprovedTime},
		"the nodes do not answer":        {errors.New("refused"), UnprovedTime},
		"newer checkpoints pass it over": {ErrPassedOver, PassedTime},
	} {
		p := &fakeProofs{truth: map[int64]common.Hash{0: {1}, 1: {2}, 2: {3}}, err: x.err}
		w, now, told := handWatch(t, p)
		top := Topic{Name: "acme.t", ID: common.Hash{9}}
		add := func(base int64) {
			n, err := w.add(t.Context(), place{top.ID, 0}, top, []Leaf{{base, base + 1, common.Hash{byte(base + 1)}}})
			require.NoError(t, err)
			require.Equal(t, 1, n)
		}
		add(0)
		*now = now.Add(x.limit)
		w.round()
		require.Empty(t, told(), "%s: not yet", name)
		add(1)
		*now = now.Add(time.Second)
		w.round()
		var late *UnprovedError
		all := told()
		require.Len(t, all, 1, name)
		require.ErrorAs(t, all[0], &late, name)
		require.Equal(t, UnprovedError{"acme.t", 0, 0, x.err}, *late, name)
		*now = now.Add(x.limit)
		w.round()
		require.Empty(t, told(), "%s: once", name)

		p.mu.Lock()
		p.upTo = 1
		p.mu.Unlock()
		w.round()
		all = told()
		require.Len(t, all, 1, "%s: what comes after waits too long too", name)
		require.ErrorAs(t, all[0], &late, name)
		require.EqualValues(t, 1, late.Offset, name)
		require.EqualValues(t, 1, w.proved(place{top.ID, 0}), name)
	}
}

func TestADisputeIsToldOnceAndProvesNothing(t *testing.T) {
	dispute := func(by byte, n uint64) *DisputedError {
		return &DisputedError{Topic: "acme.t", Offset: 0, Checkpoint: n, By: common.Address{by}}
	}
	p := &fakeProofs{err: dispute(1, 5)}
	w, _, told := handWatch(t, p)
	top := Topic{Name: "acme.t", ID: common.Hash{9}}
	at := place{top.ID, 0}
	leaf := Leaf{0, 1, common.Hash{1}}
	_, err := w.add(t.Context(), at, top, []Leaf{leaf})
	require.NoError(t, err)
	w.round()
	require.Equal(t, []error{dispute(1, 5)}, told())
	p.err = dispute(1, 6)
	w.round()
	require.Empty(t, told(), "the same broker, of the next checkpoint")
	p.err = dispute(2, 6)
	w.round()
	require.Equal(t, []error{dispute(2, 6)}, told())
	require.Zero(t, w.proved(at))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	n, err := w.await(ctx, at, []Leaf{leaf})
	require.NoError(t, err)
	require.Zero(t, n, "nothing is delivered as proved")

	p.mu.Lock()
	p.err, p.upTo, p.truth = nil, 1, map[int64]common.Hash{0: {1}}
	p.doubts = []Doubt{{top, 0, dispute(2, 7)}, {top, 0, dispute(3, 7)}, {Topic{Name: "acme.other", ID: common.Hash{8}}, 0, dispute(2, 7)}}
	p.mu.Unlock()
	w.round()
	require.Equal(t, []error{dispute(3, 7), dispute(2, 7)}, told(), "what was learned later is told")
	require.EqualValues(t, 1, w.proved(at))
}
