package pubsub

import (
	"context"
	"crypto/rand"

	"github.com/ethereum/go-ethereum/common"
	"go.uber.org/zap"

	"github.com/bornode/bornode/contracts"
	"github.com/bornode/bornode/internal/pause"
)

// tie ties a store that is new to the chain, and returns when the final state is as new as the store. Whatever this broker
// did with an earlier store it did on older states: it neither repeats what it promised there, nor takes itself for a
// replica that has everything. Clocks do not tell, and a chain that is read anew does not either; a transaction does that
// was made after the store. false: ctx ended before.
func (b *Broker) tie(ctx context.Context) bool {
	for told := false; ; {
		changed := b.deps.Ledger.Changed()
		v := b.deps.Ledger.View()
		_, ok := b.deps.Store.Made()
		switch {
		case ok && v != nil && v.Height >= b.deps.Store.Floor():
			return true
		case !ok && v != nil:
			if !told {
				told = true
				b.deps.Log.Info("the broker's store is new: it waits for a transaction of its own to be final")
			}
			if !b.mark(ctx) && !pause.For(ctx, madeAgain) {
				return false
			}
			continue
		}
		select {
		case <-ctx.Done():
			return false
		case <-changed:
		}
	}
}

// mark has a transaction become final that was never sent before, and notes the height that is final then.
func (b *Broker) mark(ctx context.Context) bool {
	var nobody common.Address // chosen anew each time: the same call could be one of long ago
	_, _ = rand.Read(nobody[:])
	err := b.submit(ctx, "mark a new store", contracts.ReputationCall(common.Hash{}, nobody)) // changes nothing
	if err == nil {
		err = b.deps.Store.SetMade(b.deps.Final())
	}
	if err != nil && ctx.Err() == nil {
		b.deps.Log.Warn("the broker's new store is not tied to the chain yet; it is tried again", zap.Error(err))
	}
	return err == nil
}
