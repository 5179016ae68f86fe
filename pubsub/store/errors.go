package store

import (
	"errors"
	"fmt"
)

// Errors of appends and reads; callers test with errors.Is and answer with Kafka's code named here.
var (
	ErrOutOfOrder     = errors.New("sequence number out of order")                                      // OUT_OF_ORDER_SEQUENCE_NUMBER
	ErrProducerFenced = errors.New("a newer producer with this id has appeared")                        // INVALID_PRODUCER_EPOCH
	ErrProducers      = errors.New("too many producers with ids write at once; try again later")        // NOT_ENOUGH_REPLICAS
	ErrFenced         = errors.New("the leader epoch is older than the one promised to a newer leader") // NOT_LEADER_OR_FOLLOWER
	ErrGap            = errors.New("the batch does not continue this log")
	ErrOutOfRange     = errors.New("offset is not in this log") // OFFSET_OUT_OF_RANGE
	ErrCommitted      = errors.New("refused to remove records below the high watermark")
	ErrDeleted        = errors.New("the partition was deleted")
	ErrFull           = errors.New("the disk of the topic store has no room; free some, appends go on by themselves then") // KAFKA_STORAGE_ERROR
	ErrFailed         = errors.New("the topic store cannot write; look for the disk's trouble, appends go on by themselves when writing works again")
	ErrClosed         = errors.New("the topic store is closed")
	ErrLimit          = errors.New("a limit of the topic store is reached")
)

// DamageError says that bytes that were durable cannot be read back. Find it with errors.As.
type DamageError struct {
	File  string // below the store's directory
	Pos   int64
	Cause error

	rebuilt int // of an index file: how often it had been rebuilt before the damage was met
}

func (e *DamageError) Error() string {
	return fmt.Sprintf("topic store file %s is damaged at byte %d: %v; the partition is copied again from another replica",
		e.File, e.Pos, e.Cause)
}

func (e *DamageError) Unwrap() error { return e.Cause }

func damaged(file string, pos int64, format string, args ...any) error {
	return &DamageError{File: file, Pos: pos, Cause: fmt.Errorf(format, args...)}
}

func isDamage(err error) bool {
	d := (*DamageError)(nil)
	return errors.As(err, &d)
}
