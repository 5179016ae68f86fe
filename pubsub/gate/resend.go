package gate

import (
	"bytes"
	"sync"

	"github.com/ethereum/go-ethereum/common"

	"github.com/bornode/bornode/pubsub/batch"
	"github.com/bornode/bornode/pubsub/seal"
)

// resends holds what idempotent producers sent to encrypted topics and no broker acknowledged yet. A batch that is sent
// again goes out as the same bytes: the broker may have it already, and its receipt is for those. Beyond ResendBytes all
// is forgotten: then a batch is sealed anew, which brokers take for the same by its producer and sequence.
type resends struct {
	mu    sync.Mutex
	open  map[sender][]pending
	bytes int
}

type sender struct {
	at       place
	producer int64
	epoch    int16
}

type pending struct {
	sequence int32
	raw      []byte
}

func senderOf(topic common.Hash, partition int32, h *batch.Header) sender {
	return sender{place{topic, partition}, h.ProducerID, h.ProducerEpoch}
}

// note keeps a batch that is about to be sent. Those that the producer sent behind it are to be sealed after it.
func (r *resends) note(s sender, sequence int32, raw []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(raw) > ResendBytes {
		return
	}
	if r.bytes+len(raw) > ResendBytes {
		r.open, r.bytes = map[sender][]pending{}, 0
	}
	kept := r.open[s][:0]
	for _, p := range r.open[s] {
		if sequence-p.sequence > 0 { // sequences wrap
			kept = append(kept, p)
		} else {
			r.bytes -= len(p.raw)
		}
	}
	r.open[s] = append(kept, pending{sequence, bytes.Clone(raw)})
	r.bytes += len(raw)
}

// find is the batch of a sequence as it was sent before; nil: it was not.
func (r *resends) find(s sender, sequence int32) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.open[s] {
		if p.sequence == sequence {
			return p.raw
		}
	}
	return nil
}

// done forgets a batch that was acknowledged, and those before it: a broker takes none out of order.
func (r *resends) done(s sender, sequence int32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := r.open[s]
	kept := list[:0]
	for _, p := range list {
		if p.sequence-sequence > 0 {
			kept = append(kept, p)
		} else {
			r.bytes -= len(p.raw)
		}
	}
	if len(kept) == 0 {
		delete(r.open, s)
	} else {
		clear(list[len(kept):])
		r.open[s] = kept
	}
}

// again gives the bytes that were sent before for the plain batch raw, if there are any of the same content under the
// topic's present epoch.
func (e *Engine) again(s sender, h *batch.Header, raw []byte, t Topic, partition int32) []byte {
	was := e.resends.find(s, h.FirstSequence)
	if was == nil || seal.EpochOf(was) != t.KeyEpoch {
		return nil
	}
	plain, err := e.ring.Open(nil, was, t.ID, partition)
	if err != nil || !bytes.Equal(batch.Covered(plain), batch.Covered(raw)) {
		return nil
	}
	return was
}
