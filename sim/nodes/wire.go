package nodes

import (
	"context"

	"github.com/bornode/bornode/block"
	blocksync "github.com/bornode/bornode/sync"
)

// ear is the driver as block synchronisation holds it, and tells the checkers of everything that came from others.
type ear struct {
	blocksync.Driver
	c *checkers
}

// CheckHeader implements blocksync.Driver. Only a header that is good was sealed by whom it names.
func (e *ear) CheckHeader(h *block.SealedHeader) error {
	err := e.Driver.CheckHeader(h)
	if err == nil {
		e.c.hearHeader(h)
	}
	return err
}

// AddBlock implements blocksync.Driver.
func (e *ear) AddBlock(ctx context.Context, b *block.Block) error {
	e.c.hearBlock(b)
	return e.Driver.AddBlock(ctx, b)
}

// AddRange implements blocksync.Driver.
func (e *ear) AddRange(ctx context.Context, blocks []*block.Block, mode blocksync.Mode) (blocksync.RangeResult, error) {
	for _, b := range blocks {
		e.c.hearBlock(b)
	}
	return e.Driver.AddRange(ctx, blocks, mode)
}

// AddVotes implements blocksync.Driver.
func (e *ear) AddVotes(vs []block.Vote) ([]blocksync.VoteVerdict, error) {
	e.c.hearVotes(vs)
	return e.Driver.AddVotes(vs)
}

// firstEar does the same with the votes that come in answers.
type firstEar struct {
	blocksync.FirstSync
	c *checkers
}

// HearAnswer implements blocksync.FirstSync.
func (e *firstEar) HearAnswer(ctx context.Context, a *block.SessionAnswer) error {
	votes := make([]block.Vote, len(a.Votes))
	for i := range a.Votes {
		votes[i] = a.Votes[i].Vote
	}
	e.c.hearVotes(votes)
	return e.FirstSync.HearAnswer(ctx, a)
}
