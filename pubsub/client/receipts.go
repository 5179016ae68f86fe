package client

import (
	"context"
	"errors"
	"fmt"

	"github.com/ethereum/go-ethereum/common"

	"github.com/bornode/bornode/pubsub/batch"
	"github.com/bornode/bornode/pubsub/gate"
	"github.com/bornode/bornode/pubsub/proof"
)

// Receipt is a broker's signed word that it gave a batch its place: Placed says which, By who signed.
type Receipt struct {
	proof.Receipt
	Placed proof.Placed
	By     common.Address
}

// receipt is one that was found good, with the name of its topic.
type receipt struct {
	topic   string
	receipt *Receipt
}

// receipts is the engine's Receipts.
type receipts struct {
	c       *Client
	observe func(receipt) // may be nil
}

// Receipt is gate.Receipts. A broker need not give receipts; one that it gives must be a broker's for this batch.
func (r *receipts) Receipt(t gate.Topic, partition int32, base int64, h batch.Header, covered, raw []byte) error {
	if raw == nil {
		return nil
	}
	got, err := proof.DecodeReceipt(raw)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), CallTimeout)
	defer cancel()
	h.BaseOffset = base
	placed := proof.Placed{Topic: t.ID, Partition: partition, Leaf: proof.LeafOf(&h, covered)}
	for fresh := range 2 { // the answer does not say under which epoch: the lease does, and may have changed
		if fresh == 1 {
			r.c.chain.forget(t.Name)
		}
		info, err := r.c.chain.info(ctx, t.Name)
		if err != nil {
			return fmt.Errorf("who leads the partition cannot be asked: %w", err)
		}
		if int(partition) >= len(info.Leases) {
			continue
		}
		now := int32(info.Leases[partition].Epoch) //nolint:gosec // checked by its decoder
		for _, epoch := range []int32{now, now - 1, now + 1} {
			placed.Leaf.Epoch = epoch
			by, err := got.Signer(r.c.chain.genesis, &placed)
			if err != nil {
				continue
			}
			ok, err := r.c.chain.isBroker(ctx, by)
			if err != nil {
				return err
			}
			if ok {
				if r.observe != nil {
					r.observe(receipt{t.Name, &Receipt{*got, placed, by}})
				}
				return nil
			}
		}
	}
	return errors.New("no broker signed it for this batch in this place")
}
