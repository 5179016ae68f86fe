package txpool

import (
	"errors"

	"github.com/ethereum/go-ethereum/core"
	gethpool "github.com/ethereum/go-ethereum/core/txpool"
)

// Errors of Add, besides those of go-ethereum's pool. The texts of well-known cases begin as Ethereum clients write
// them ("nonce too low", "insufficient funds", "replacement transaction underpriced"), since wallets read them.
var (
	ErrFull          = errors.New("txpool is full")
	ErrAccountFull   = errors.New("account limit exceeded")
	ErrNonceTooFar   = errors.New("nonce too high")
	ErrNotAllowed    = errors.New("sender is not allowed")
	ErrUnreadable    = errors.New("the lists of accounts are not readable") // an answer of Allowed that judges nobody
	ErrBlob          = errors.New("transaction type not supported: blob transactions are not accepted on this chain")
	ErrClosed        = errors.New("transaction pool is closed")
	ErrAlreadyKnown  = gethpool.ErrAlreadyKnown
	ErrNonceTooLow   = core.ErrNonceTooLow
	ErrUnderpriced   = gethpool.ErrReplaceUnderpriced
	ErrInsufficient  = core.ErrInsufficientFunds
	errFeeBelowFloor = errors.New("max fee per gas less than block base fee")

	errUnreadableState   = errors.New("the pool cannot read the state of block") // its number follows
	errGappedDelegated   = errors.New("gapped-nonce tx from delegated accounts")
	errAuthorityReserved = errors.New("authority already reserved")
)

// Overloaded reports whether the transaction may be accepted when tried again later: nothing is wrong with it.
func Overloaded(err error) bool {
	return errors.Is(err, ErrFull) || errors.Is(err, ErrAccountFull) || errors.Is(err, errUnreadableState)
}

// label is the bounded metric label of a refusal.
func label(err error) string {
	for _, x := range []struct {
		err  error
		name string
	}{
		{ErrAlreadyKnown, "known"}, {ErrFull, "full"}, {ErrAccountFull, "account_full"}, {ErrNonceTooFar, "nonce_too_far"},
		{core.ErrNonceTooLow, "nonce_too_low"}, {core.ErrInsufficientFunds, "insufficient_funds"},
		{gethpool.ErrReplaceUnderpriced, "underpriced"}, {errFeeBelowFloor, "underpriced"}, {ErrNotAllowed, "not_allowed"},
		{ErrBlob, "blob"}, {gethpool.ErrInvalidSender, "signature"}, {core.ErrIntrinsicGas, "gas"}, {ErrClosed, "closed"},
	} {
		if errors.Is(err, x.err) {
			return x.name
		}
	}
	return "other"
}
