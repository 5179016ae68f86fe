package replica

import (
	"context"

	"github.com/bornode/bornode/pubsub/batch"
	"github.com/bornode/bornode/pubsub/store"
)

// The words of the store.
type (
	ID         = store.ID
	Mark       = store.Mark
	Appended   = store.Appended
	EpochStart = store.EpochStart
)

// Log is the log of one partition. Methods may be called concurrently; those that change it are called one at a time.
// Changes become durable in the order of the calls, over all logs of a store.
type Log interface {
	// Append adds one checked batch of a producer, under the leader's epoch; raw is the log's afterwards. now is in ms.
	Append(epoch int32, raw []byte, now int64) (Appended, error)
	// Accept adds one batch that has its offset and epoch; it must continue at End.
	Accept(raw []byte) (Mark, error)
	// Read gives whole batches from the one that holds from, up to the offset upTo, of maxBytes or one larger batch.
	Read(from int64, maxBytes int, upTo int64) ([]byte, error)
	// Pieces is Read in pieces that follow each other, which may be the log's own bytes: they are not changed.
	Pieces(from int64, maxBytes int, upTo int64) ([][]byte, error)
	Batches(from, upTo int64, f func(h batch.Header, raw []byte) error) error
	Start() int64
	End() int64
	// Position is the epoch last entered and End.
	Position() (epoch int32, end int64)
	// Epochs are the epochs of the batches in the log, ascending.
	Epochs() []EpochStart
	Promise(epoch int32) (Mark, error)
	Promised() int32
	Enter(epoch int32) (Mark, error)
	Truncate(end int64) (Mark, error)
	// Reset empties the log and has it go on at start.
	Reset(start int64) (Mark, error)
	DeleteBefore(offset int64) error
	SetCommitted(offset int64)
	Committed() int64
	// Mend deals with the error of a read that met damage. lost: the log was cut at the damaged batch, and has no epoch
	// entered any more.
	Mend(damage error) (lost bool, m Mark, err error)
}

// Store holds the logs of a broker.
type Store interface {
	// Open gives a log; create makes it where there is none. Without create an unknown one is nil.
	Open(id ID, create bool) (Log, error)
	Delete(id ID) error
	// Durable waits until everything up to the mark is on disk.
	Durable(ctx context.Context, m Mark) error
}

// Disk is a Store of a broker's real store.
func Disk(s *store.Store) Store { return disk{s} }

type disk struct{ *store.Store }

func (d disk) Open(id ID, create bool) (Log, error) {
	if p := d.Partition(id); p != nil {
		return p, nil
	}
	if !create {
		return nil, nil //nolint:nilnil // said so
	}
	p, err := d.Create(id, store.Retention{})
	if err != nil {
		return nil, err
	}
	return p, nil
}
