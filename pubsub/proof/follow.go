package proof

import (
	"context"
	"sync"

	"github.com/ethereum/go-ethereum/common"
)

// Hash is that of the newest header shown.
func (c *Chain) Hash() common.Hash { return c.state.hash }

// Follower collects for those who followed the chain some way themselves and keep their Chain: they need the runs since
// then alone. It remembers the newest ends of epochs, so that the chain is not read again from the start for each. It is
// safe for concurrent use.
type Follower struct {
	trust *Trust

	mu   sync.Mutex
	ends []chainState // after the runs of the newest ends of epochs, ascending
}

// NewFollower begins at the genesis block; a checkpoint of the trust is not looked at.
func NewFollower(t *Trust) *Follower {
	plain := *t
	plain.Checkpoint = nil
	return &Follower{trust: &plain}
}

// Collect is the function of that name for one whose Chain, begun at genesis, stands at the height after (0: at genesis).
// It gives the whole way from genesis where a part would not do: for a block at or below after, or when after is no end of
// a run.
func (f *Follower) Collect(ctx context.Context, src Source, after, height, head uint64) ([]Run, error) {
	if after >= height {
		after = 0
	}
	c := newCollector(ctx, f.trust, src, head)
	if s, ok := f.newest(after); ok {
		c.check.state = s
	}
	for {
		ended, more, err := c.advance(height)
		if err != nil {
			return nil, err
		}
		if !more {
			break
		}
		if ended {
			f.keep(c.check.state)
		}
	}
	if err := c.reach(height); err != nil {
		return nil, err
	}
	for i := range c.runs {
		run := c.runs[i].Headers
		switch {
		case run[0].Number() > after:
			return c.runs[i:], nil
		case run[len(run)-1].Number() > after:
			return f.Collect(ctx, src, 0, height, head)
		}
	}
	return c.runs, nil
}

// newest is the state after the newest end of an epoch that is not above a height.
func (f *Follower) newest(height uint64) (s chainState, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := len(f.ends) - 1; i >= 0; i-- {
		if f.ends[i].height <= height {
			return f.ends[i], true
		}
	}
	return s, false
}

func (f *Follower) keep(s chainState) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := len(f.ends); n > 0 && f.ends[n-1].height >= s.height {
		return
	}
	if len(f.ends) >= RememberedEpochs {
		f.ends = append(f.ends[:0], f.ends[len(f.ends)-RememberedEpochs/2:]...)
	}
	f.ends = append(f.ends, s)
}
