package wallet

import (
	"math/big"
	"strings"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
)

// kind is what is to be signed.
type kind string

const (
	kindTransaction   kind = "transaction"
	kindAuthorization kind = "authorization"
	kindMessage       kind = "message"
	kindTypedData     kind = "typed data"
	kindHash          kind = "bare hash"
)

// request is something to sign after it was decoded and bounded: in words for people, in facts for the policy.
type request struct {
	kind    kind
	account common.Address
	lines   []string // the readable form
	hash    []byte   // what is signed

	chain *big.Int // nil if none is bound

	// Of a transaction.
	tx *types.Transaction

	// Of an authorization: the code that the account would run.
	delegate common.Address

	// Of typed data.
	contract    common.Address // verifying contract; zero without one
	primaryType string
}

// whole is the readable form as it is.
func (r *request) whole() string { return strings.Join(r.lines, "\n") }

// text is the readable form for the log: long lines are cut.
func (r *request) text() string {
	lines := make([]string, len(r.lines))
	for i, l := range r.lines {
		lines[i] = cut(l)
	}
	return strings.Join(lines, "\n")
}

// fee is the most that a transaction may cost besides its value.
func fee(tx *types.Transaction) *big.Int {
	return new(big.Int).Mul(tx.GasFeeCap(), new(big.Int).SetUint64(tx.Gas()))
}
