package client

import (
	"context"
	"fmt"
	"slices"

	"github.com/ethereum/go-ethereum/common"

	"github.com/bornode/bornode/contracts"
	"github.com/bornode/bornode/pubsub/seal"
)

// RegisterSealKey publishes Config.SealKey's public key as the account's: owners of topics seal to it from now on.
func (a *Admin) RegisterSealKey(ctx context.Context) error {
	if a.c.cfg.SealKey == nil {
		return ErrNoSealKey
	}
	data, err := contracts.SealKeyCall(a.c.cfg.SealKey.Public())
	if err != nil {
		return err
	}
	_, err = a.send(ctx, "publishing the seal key", data)
	return err
}

// SealKey is the published seal key of an account; empty: none.
func (a *Admin) SealKey(ctx context.Context, account common.Address) ([]byte, error) {
	ret, err := a.c.chain.view(ctx, contracts.SealKeyOfCall(account))
	if err != nil {
		return nil, err
	}
	return contracts.DecodeSealKeyOf(ret)
}

// NewEpoch starts a topic's next epoch with a random key, sealed to the readers, who may produce too, and to the account
// itself. Who is not among them can read what was written before, and nothing from now on. When it fails half-way the
// epoch may have begun: call AddReaders with the rest then.
func (a *Admin) NewEpoch(ctx context.Context, topic string, readers ...common.Address) (uint32, error) {
	info, err := a.c.chain.lookup(ctx, topic)
	if err != nil {
		return 0, err
	}
	epoch := info.KeyEpoch + 1
	return epoch, a.seal(ctx, info, epoch, seal.NewKey(), append([]common.Address{a.c.Account()}, readers...))
}

// AddReaders gives more readers the key of the topic's present epoch, and of all before it if past is set. The account
// must be able to open them itself.
func (a *Admin) AddReaders(ctx context.Context, topic string, past bool, readers ...common.Address) error {
	info, err := a.c.chain.lookup(ctx, topic)
	if err != nil {
		return err
	}
	a.c.chain.forget(topic)
	t, err := a.c.chain.Topic(ctx, topic)
	if err != nil {
		return err
	}
	first := info.KeyEpoch
	if past {
		first = 1
	}
	for epoch := max(first, 1); epoch <= info.KeyEpoch; epoch++ {
		k, err := a.c.chain.Key(ctx, t, epoch)
		if err != nil {
			return err
		}
		if err := a.seal(ctx, info, epoch, k, readers); err != nil {
			return err
		}
	}
	if info.KeyEpoch == 0 {
		return fmt.Errorf("topic %s has no key yet: start its first epoch with NewEpoch", topic)
	}
	return nil
}

// seal seals a key to readers and publishes that, in as many transactions as it takes.
func (a *Admin) seal(ctx context.Context, info contracts.TopicInfo, epoch uint32, k seal.Key, readers []common.Address) error {
	defer a.c.chain.forget(info.Name)
	var to []common.Address
	var sealed [][]byte
	for i, r := range readers {
		if slices.Contains(readers[:i], r) {
			continue
		}
		public, err := a.SealKey(ctx, r)
		if err != nil {
			return err
		}
		if len(public) == 0 {
			return errNoReader(r)
		}
		box, err := k.SealTo(public, seal.Context{Chain: a.c.chain.genesis, Topic: info.ID, Epoch: epoch, Reader: r},
			func(message []byte) ([]byte, error) { return a.c.cfg.Account.SignMessage(ctx, message) })
		if err != nil {
			return fmt.Errorf("the key for account %s: %w", r, err)
		}
		to, sealed = append(to, r), append(sealed, box)
	}
	for len(to) > 0 {
		n, size := 0, 0
		for n < len(to) && n < contracts.MaxReaders && (n == 0 || size+len(sealed[n]) <= SealedPerCall) {
			size += len(sealed[n])
			n++
		}
		data, err := contracts.SetKeysCall(info.ID, epoch, to[:n], sealed[:n])
		if err != nil {
			return err
		}
		if _, err := a.send(ctx, fmt.Sprintf("giving %d readers the key of epoch %d of topic %s", n, epoch, info.Name), data); err != nil {
			return err
		}
		to, sealed = to[n:], sealed[n:]
	}
	return nil
}
