package pubsub

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/bornode/bornode/internal/vfs"
)

// producerBits is where the broker's number lies in a producer id: what one broker gives out, no other does.
const producerBits = 40

var errProducersUsedUp = errors.New("this broker has given out all its producer ids; run it under another account")

// producerIDs gives out producer ids that no broker gives twice, restarts included: a block of them is written to disk
// before the first of it is used.
type producerIDs struct {
	mu          sync.Mutex
	file        string
	next, limit uint64 // of the count below producerBits; next == limit: the block is used up
}

// producersSince is when counting began. A broker without a file (a new one, or one that lost its disk) begins at the
// milliseconds since then: above all that it gave out before, since it gives out fewer than one in a millisecond.
var producersSince = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// openProducerIDs reads where the last run's block ended.
func openProducerIDs(file string, now time.Time) (*producerIDs, error) {
	p := &producerIDs{file: file, next: uint64(max(0, now.Sub(producersSince).Milliseconds()))}
	p.limit = p.next
	b, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return p, nil
	}
	if err != nil {
		return nil, err
	}
	if len(b) != 12 || crc32.ChecksumIEEE(b[:8]) != binary.BigEndian.Uint32(b[8:]) {
		return nil, fmt.Errorf("%s is damaged: it must hold the end of the producer ids given out; restore it, or delete it if the clock of this host is right", file)
	}
	p.next = max(p.next, binary.BigEndian.Uint64(b))
	p.limit = p.next
	return p, nil
}

// take gives the next id of a broker.
func (p *producerIDs) take(broker int32) (int64, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.next == p.limit {
		if p.limit+producerBlock >= 1<<producerBits || broker < 0 || broker >= 1<<(62-producerBits) {
			return 0, errProducersUsedUp
		}
		if err := p.write(p.limit + producerBlock); err != nil {
			return 0, err
		}
		p.limit += producerBlock
	}
	id := int64(broker)<<producerBits | int64(p.next) //nolint:gosec // below 1<<producerBits
	p.next++
	return id, nil
}

// write makes the end of a block durable.
func (p *producerIDs) write(limit uint64) error {
	var b [12]byte
	binary.BigEndian.PutUint64(b[:], limit)
	binary.BigEndian.PutUint32(b[8:], crc32.ChecksumIEEE(b[:8]))
	return vfs.ReplaceFileAt(p.file, b[:])
}
