package proof

import (
	"encoding/hex"
	"errors"
	"fmt"
)

// What was tampered with. Test with errors.Is; the *Tamper around it names the place.
var (
	ErrFlipped   = errors.New("bytes of the batch were changed")
	ErrDropped   = errors.New("a batch is missing")
	ErrReordered = errors.New("batches are not in their order")
	ErrForged    = errors.New("the batch was never committed")
	ErrForked    = errors.New("there are two histories")
	ErrOldEpoch  = errors.New("the batch is of an earlier leader's epoch")
	ErrRights    = errors.New("rights do not follow from the events of the chain")
	ErrOperation = errors.New("an operation is missing or was changed")
	ErrProof     = errors.New("the proof does not lead to the root")
	ErrFinality  = errors.New("the block is not shown to be final")
	ErrRecovered = errors.New("the recovery of the chain is refused")
)

// ErrDecode is wrapped by every error about bytes that are no valid encoding.
var ErrDecode = errors.New("invalid encoding")

// Tamper says what is wrong and where.
type Tamper struct {
	Kind      error // one of the above
	Topic     [32]byte
	Partition int32 // -1: the topic as a whole
	Offset    int64 // -1: the partition as a whole; of operations: their number
	Detail    string
}

func (t *Tamper) Error() string {
	s := "topic " + hex.EncodeToString(t.Topic[:8])
	if t.Partition >= 0 {
		s += fmt.Sprintf(", partition %d", t.Partition)
	}
	switch {
	case t.Offset >= 0 && errors.Is(t.Kind, ErrOperation):
		s += fmt.Sprintf(", operation %d", t.Offset)
	case t.Offset >= 0:
		s += fmt.Sprintf(", offset %d", t.Offset)
	}
	s += ": " + t.Kind.Error()
	if t.Detail != "" {
		s += ": " + t.Detail
	}
	return s
}

func (t *Tamper) Unwrap() error { return t.Kind }

func tamper(kind error, topic [32]byte, partition int32, offset int64, format string, args ...any) *Tamper {
	return &Tamper{Kind: kind, Topic: topic, Partition: partition, Offset: offset, Detail: fmt.Sprintf(format, args...)}
}
