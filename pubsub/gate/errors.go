package gate

import (
	"errors"
	"fmt"

	"github.com/ethereum/go-ethereum/common"
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
	// ErrPassedOver is wrapped by errors of Proofs about batches that nobody proves though checkpoints came that should
	// bind them.
	ErrPassedOver = errors.New("no node proves it though newer checkpoints of the topic came")
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
	Rewritten  = "a checkpoint on the chain takes back what one before it bound"
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

// UnprovedError says that what was fetched has waited long for a proof and nobody gives one: brokers withhold it, or the chain
// or the nodes that are asked for proofs stand still. It is told once, and again when later batches wait as long after it was
// proved.
type UnprovedError struct {
	Topic     string
	Partition int32
	Offset    int64 // of the first batch that waits
	Cause     error // of the last try; may be nil
}

func (e *UnprovedError) Error() string {
	s := fmt.Sprintf("offset %d of partition %d of topic %s is not proved though it was served long ago: ask other brokers of the topic for proofs, "+
		"and do not rely on what was read from there on", e.Offset, e.Partition, e.Topic)
	if e.Cause != nil {
		s += ": " + e.Cause.Error()
	}
	return s
}

func (e *UnprovedError) Unwrap() error { return e.Cause }

// DisputedError says that a broker found a checkpoint on the chain, which another one showed as a proof, not to be what its
// own log gives. One of the two lies or lost its disk: which one, their logs tell. Nothing counts as proved by it.
type DisputedError struct {
	Topic      string
	Partition  int32
	Offset     int64 // from which on the logs differ; -1: not known
	Checkpoint uint64
	By         common.Address // who signed the dispute
	Node       string         // who showed it
	Withheld   bool           // no broker shows what the checkpoint stands for
}

func (e *DisputedError) Error() string {
	where := fmt.Sprintf("its log differs from offset %d on", e.Offset)
	switch {
	case e.Withheld:
		where = "no broker shows what it stands for"
	case e.Offset < 0:
		where = "its log differs"
	}
	return fmt.Sprintf("checkpoint %d of topic %s is disputed by broker %s (node %s) for partition %d: %s; compare the brokers' logs before you trust the topic",
		e.Checkpoint, e.Topic, e.By, e.Node, e.Partition, where)
}
