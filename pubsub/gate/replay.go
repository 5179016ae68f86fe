package gate

import (
	"fmt"
	"sync"

	"github.com/bornode/bornode/pubsub/batch"
	"github.com/bornode/bornode/pubsub/seal"
)

// sealings knows at which offsets sealed batches were served. Everything of a sealed batch but its offset is its
// producer's, who seals every batch once: one that is served at a second offset was repeated by a broker.
type sealings struct {
	mu       sync.Mutex
	now, old map[sealing]int64
}

// sealing names one act of encryption.
type sealing struct {
	place
	session [16]byte
	counter uint64
}

// see notes a batch that opened, and is an error for one that was served at another offset before. Batches without a
// producer's id may be copied by brokers that save them: that they come again is no proof of anything.
func (x *sealings) see(at place, h batch.Header, raw []byte) error {
	if h.ProducerID < 0 {
		return nil
	}
	k := sealing{place: at}
	k.session, k.counter = seal.SessionOf(raw)
	x.mu.Lock()
	defer x.mu.Unlock()
	was, ok := x.now[k]
	if !ok {
		was, ok = x.old[k]
	}
	switch {
	case ok && was != h.BaseOffset:
		return fmt.Errorf("its producer wrote it once, and it was served at offset %d", was)
	case ok:
		return nil
	case len(x.now) >= MaxSealings || x.now == nil:
		x.now, x.old = map[sealing]int64{}, x.now
	}
	x.now[k] = h.BaseOffset
	return nil
}
