package client

import (
	"errors"
	"fmt"

	"github.com/ethereum/go-ethereum/common"

	"github.com/bornode/bornode/pubsub/gate"
	"github.com/bornode/bornode/pubsub/seal"
)

var (
	// ErrWrongChain says that the node is of another network than the genesis file.
	ErrWrongChain = errors.New("the node is of another chain than the genesis file")
	// ErrNoAccount says that something needs the account's key and there is none.
	ErrNoAccount = errors.New("no account: give Config.Account")
	// ErrNoSealKey says that an encrypted topic needs a seal key and there is none.
	ErrNoSealKey = errors.New("no seal key: give Config.SealKey")
	// ErrNoReader is wrapped by errors about accounts to which no key can be sealed.
	ErrNoReader = errors.New("the account has published no seal key")
	// ErrNotAuditor is wrapped by errors about pseudonyms that nobody, or another account, admits.
	ErrNotAuditor = errors.New("not the topic's auditor")
	// ErrReverted is wrapped by errors of transactions that the contract refused.
	ErrReverted = errors.New("the contract refused the transaction")
	// ErrVoucher says that a sealed key carries a signature that is not the topic owner's.
	ErrVoucher = errors.New("the sealed key was not made by the topic's owner")
	// ErrRequest is wrapped by errors about requests for pseudonyms.
	ErrRequest = errors.New("the request for a pseudonym is not good")
	// ErrClosed says that the producer, consumer or client was closed.
	ErrClosed = errors.New("closed")
)

// Errors of the engine below, under this package's name.
type (
	// TamperError says what a broker served that it must not have.
	TamperError = gate.TamperError
	// NoKeyError says which key of a topic is missing.
	NoKeyError = seal.NoKeyError
	// DowngradeError says that a topic is called plain that is to be encrypted.
	DowngradeError = gate.DowngradeError
	// DisputedError says which broker disputes a checkpoint that others showed.
	DisputedError = gate.DisputedError
	// UnprovedError says what nobody proves.
	UnprovedError = gate.UnprovedError
)

// ErrLogin is wrapped by errors about brokers that do not take the account's token.
var ErrLogin = gate.ErrLogin

// ErrToken is wrapped by errors about tokens that cannot be made: the certificate ended, or the wallet does not sign.
var ErrToken = gate.ErrToken

// ErrUnreachable is wrapped by errors about brokers to which there is no connection.
var ErrUnreachable = gate.ErrUnreachable

// ErrUnknownTopic is what errors about topics that do not exist wrap.
var ErrUnknownTopic = gate.ErrUnknownTopic

// VoucherError says who made a sealed key.
type VoucherError struct {
	Topic        string
	Epoch        uint32
	Maker, Owner common.Address
}

func (e *VoucherError) Error() string {
	return fmt.Sprintf("%v: the key of epoch %d of topic %s was made by %s, the owner is %s; ask the owner to seal it anew",
		ErrVoucher, e.Epoch, e.Topic, e.Maker, e.Owner)
}

func (e *VoucherError) Unwrap() error { return ErrVoucher }
