package gate

import (
	"errors"
	"fmt"
)

var (
	// ErrUnknownTopic is what Topics answers about a name that is no topic.
	ErrUnknownTopic = errors.New("no such topic on the chain")
	// ErrLogin is wrapped by errors of brokers that do not take the token.
	ErrLogin = errors.New("the broker refused the login")
	// ErrToken is wrapped by errors about tokens that cannot be made here.
	ErrToken = errors.New("no token for the login can be made")
	// ErrUnreachable is wrapped by errors about brokers to which there is no connection.
	ErrUnreachable = errors.New("no broker can be reached")
	// ErrClosed says that the engine was closed.
	ErrClosed = errors.New("the gate is closed")
)

// Kinds of TamperError.What.
const (
	Flipped    = "its bytes were changed"
	Gap        = "batches before it were left out"
	Backwards  = "it comes again or out of order"
	Equivocal  = "two different batches were served for it"
	Forged     = "it is not in clear what one with the key wrote"
	Replayed   = "a batch of before stands there again; its records are not shown"
	Unsealed   = "it is not encrypted though the topic is"
	Unproved   = "it differs from what the checkpoint on the chain binds"
	BadReceipt = "its receipt is not the broker's for what was sent"
)

// TamperError says that a broker served what it must not have: evidence that it or one before it lies.
type TamperError struct {
	Topic     string
	Partition int32
	Offset    int64  // of the first batch that is wrong
	What      string // one of the kinds
	Cause     error  // may be nil
}

func (e *TamperError) Error() string {
	s := fmt.Sprintf("tampering: offset %d of partition %d of topic %s: %s", e.Offset, e.Partition, e.Topic, e.What)
	if e.Cause != nil {
		s += ": " + e.Cause.Error()
	}
	return s
}

func (e *TamperError) Unwrap() error { return e.Cause }
