package gate

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/ethereum/go-ethereum/common"

	"github.com/bornode/bornode/pubsub/seal"
)

// DowngradeError says that a topic is called plain that was encrypted before, or that the client was told to encrypt.
// Nothing is sent or taken in clear then.
type DowngradeError struct{ Topic string }

func (e *DowngradeError) Error() string {
	return fmt.Sprintf("topic %s is called plain now, and it was encrypted or is to be: nothing of it is sent or taken in clear; "+
		"if it really was made anew without encryption, start this client again and do not tell it to encrypt the topic", e.Topic)
}

// secrets remembers which topics are encrypted: whoever answers for the chain is believed that a topic is, never that one
// is no more, and epochs of keys never fall.
type secrets struct {
	mu    sync.Mutex
	names map[string]bool
	epoch map[common.Hash]uint32 // newest seen
}

// topic is what the chain says of a topic, and what is known better. Errors: those of Topics, *DowngradeError.
func (e *Engine) topic(ctx context.Context, name string) (Topic, error) {
	t, err := e.cfg.Topics.Topic(ctx, name)
	if err != nil {
		return t, err
	}
	told := e.cfg.Encrypt != nil && e.cfg.Encrypt(name)
	down, full := e.secrets.correct(&t, name, told)
	switch {
	case full:
		return t, fmt.Errorf("no room to remember that topic %s is encrypted: %d are remembered; use more than one client", name, MaxPartitions)
	case down && t.KeyEpoch == 0:
		return t, &DowngradeError{name}
	case down:
		e.fail(name, -1, &DowngradeError{name})
	}
	return t, nil
}

// correct puts into t what is known better. down: the topic was called plain and is not.
func (s *secrets) correct(t *Topic, name string, told bool) (down, full bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.names[name]
	newest, keyed := s.epoch[t.ID]
	if !t.Encrypted && !told && !known && !keyed {
		return false, false
	}
	if !known || !keyed && t.KeyEpoch > 0 {
		if len(s.names) >= MaxPartitions || len(s.epoch) >= MaxPartitions {
			return false, true
		}
		s.names[name] = true
	}
	down = !t.Encrypted
	t.Encrypted, t.KeyEpoch = true, max(t.KeyEpoch, newest)
	if t.KeyEpoch > newest {
		s.epoch[t.ID] = t.KeyEpoch
	}
	return down, false
}

// key is that of an epoch, asked for once.
func (e *Engine) key(ctx context.Context, t Topic, epoch uint32) (seal.Key, error) {
	if k, ok := e.ring.Key(t.ID, epoch); ok {
		return k, nil
	}
	k, err := e.cfg.Keys.Key(ctx, t, epoch)
	if err != nil {
		return k, err
	}
	return k, e.ring.Add(t.ID, epoch, k)
}

// sealer is this connection's of the topic's present epoch: what it seals for a partition comes to the broker in the order
// of its counters. Errors: *seal.NoKeyError, or the ledger could not be asked.
func (s *session) sealer(ctx context.Context, t Topic) (*seal.Sealer, error) {
	if x := s.sealers[t.ID]; x != nil && x.Epoch() >= t.KeyEpoch {
		return x, nil
	}
	k, err := s.e.key(ctx, t, t.KeyEpoch)
	if err != nil {
		return nil, err
	}
	if s.sealers == nil || len(s.sealers) >= SessionTopics {
		s.sealers = map[common.Hash]*seal.Sealer{}
	}
	x := seal.NewSealer(s.e.cfg.Chain, t.ID, t.KeyEpoch, k)
	s.sealers[t.ID] = x
	return x, nil
}

// open decrypts a batch into dst, fetching its key once if need be.
func (e *Engine) open(ctx context.Context, dst, raw []byte, t Topic, partition int32) ([]byte, error) {
	out, err := e.ring.Open(dst, raw, t.ID, partition)
	var none *seal.NoKeyError
	if !errors.As(err, &none) || none.Other {
		return out, err
	}
	if _, err := e.key(ctx, t, none.Epoch); err != nil {
		return nil, err
	}
	return e.ring.Open(dst, raw, t.ID, partition)
}
