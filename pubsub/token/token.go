package token

import (
	"crypto/ecdsa"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/common"
)

// Scopes: what a token allows its bearer, as bits.
const (
	Data  uint8 = 1 // to produce, fetch, take part in groups
	Admin uint8 = 2 // to have a broker send administrative calls to the ledger on behalf of the account
)

// Errors of Parse and Verify. Their texts may be told to clients.
var (
	ErrMalformed   = errors.New("this is no token; make one with `borcli topic token`")
	ErrExpired     = errors.New("the token has expired; make a new one")
	ErrNotYetValid = errors.New("the token is not valid yet; set the clock of the machine that made it")
	ErrTooLong     = fmt.Errorf("the token is valid for longer than the %v that are allowed; make one that expires earlier", MaxLife)
	ErrWrongChain  = errors.New("the token was made for another chain; make one for this network")
	ErrSignature   = errors.New("the token's signature is not that of its account; make a new token")
	ErrCertificate = errors.New("the pseudonym's certificate does not belong to this token or has expired; ask the topic's auditor for a new one")
)

const prefix = "bps1."

// sizes of the encoded parts, in bytes
const (
	signatureBytes   = 65
	certificateBytes = 32 + 4 + 20 + 1 + 8 + signatureBytes
	tokenBytes       = 8 + 20 + 8 + 8 + 1 + 32 + signatureBytes + 1
)

var text = base64.RawURLEncoding.Strict()

// Token says: the holder of Account's key allows Scope on chain ChainID between Issued and Expires.
type Token struct {
	ChainID   uint64
	Account   common.Address // of the account, or of the pseudonym if there is a certificate
	Issued    uint64         // Unix seconds
	Expires   uint64         // Unix seconds
	Scope     uint8
	Nonce     [32]byte // makes two tokens different; nobody remembers it
	Signature [signatureBytes]byte

	Certificate *Certificate // nil: Account is an account of the ledger
}

// New is an unsigned token from now on, with a random nonce; Sign it next.
func New(chainID uint64, account common.Address, now time.Time, life time.Duration, scope uint8) *Token {
	t := &Token{ChainID: chainID, Account: account, Issued: uint64(now.Unix()), Expires: uint64(now.Add(life).Unix()), Scope: scope} //nolint:gosec // after 1970
	_, _ = rand.Read(t.Nonce[:])                                                                                                     // never fails
	return t
}

// Digest is what is signed: EIP-191 ("personal message" of 32 bytes) over
// keccak256(abi.encode("bornode token", chainID, Contract, account, issued, expires, scope, nonce)).
func (t *Token) Digest() common.Hash { return digest(t.Message()) }

// Message is the 32 bytes that a wallet is asked to sign as a personal message: SetSignature takes the result.
func (t *Token) Message() []byte {
	return message("bornode token", number(t.ChainID), Contract.Bytes(), t.Account.Bytes(),
		number(t.Issued), number(t.Expires), []byte{t.Scope}, t.Nonce[:])
}

// Sign signs the token with the key of its account.
func (t *Token) Sign(key *ecdsa.PrivateKey) error {
	return sign(t.Digest(), key, t.Account, &t.Signature)
}

// SetSignature takes what a wallet made of Message, and checks that the token's account made it.
func (t *Token) SetSignature(sig []byte) error { return take(t.Digest(), sig, t.Account, &t.Signature) }

// Verify checks the token, and its certificate if it has one, at the time now for a chain. For a pseudonym the caller
// has still to check that Certificate.Auditor is the topic's, that the epoch is the current one, and that the
// pseudonym was not revoked. Errors are the constants above.
func (t *Token) Verify(now time.Time, chainID uint64) error {
	at, skew := now.Unix(), int64(ClockSkew/time.Second)
	switch {
	case t.ChainID != chainID:
		return ErrWrongChain
	case t.Issued > math.MaxInt64/2 || t.Expires > math.MaxInt64/2 || t.Expires <= t.Issued:
		return ErrMalformed
	case t.Expires-t.Issued > uint64(MaxLife/time.Second):
		return ErrTooLong
	case int64(t.Issued) > at+skew: //nolint:gosec // bounded above
		return ErrNotYetValid
	case int64(t.Expires) <= at: //nolint:gosec // bounded above
		return ErrExpired
	case t.Scope == 0 || t.Scope&^(Data|Admin) != 0:
		return ErrMalformed
	case !signedBy(t.Digest(), &t.Signature, t.Account):
		return ErrSignature
	}
	if t.Certificate == nil {
		return nil
	}
	if t.Certificate.Pseudonym != t.Account || t.Scope != Data {
		return ErrCertificate
	}
	return t.Certificate.Valid(now, chainID)
}

// ExpiresAt is when the token, or its certificate if that is sooner, stops being good.
func (t *Token) ExpiresAt() time.Time {
	e := t.Expires
	if t.Certificate != nil {
		e = min(e, t.Certificate.Expires)
	}
	return time.Unix(int64(min(e, math.MaxInt64/2)), 0) //nolint:gosec // bounded
}

// String is the text form: what goes into the password of SASL/PLAIN or is the bearer token of SASL/OAUTHBEARER.
func (t *Token) String() string {
	b := make([]byte, 0, tokenBytes+certificateBytes)
	b = binary.BigEndian.AppendUint64(b, t.ChainID)
	b = append(b, t.Account[:]...)
	b = binary.BigEndian.AppendUint64(b, t.Issued)
	b = binary.BigEndian.AppendUint64(b, t.Expires)
	b = append(b, t.Scope)
	b = append(b, t.Nonce[:]...)
	b = append(b, t.Signature[:]...)
	if t.Certificate == nil {
		b = append(b, 0)
	} else {
		b = t.Certificate.append(append(b, 1))
	}
	return prefix + text.EncodeToString(b)
}

// Parse reads the text form. It checks the form only: call Verify. One token has one text.
func Parse(s string) (*Token, error) {
	enc, ok := strings.CutPrefix(s, prefix)
	if !ok || len(s) > MaxText || strings.ContainsAny(enc, "\r\n") { // the decoder skips line ends
		return nil, ErrMalformed
	}
	b, err := text.DecodeString(enc)
	if err != nil || len(b) < tokenBytes {
		return nil, ErrMalformed
	}
	r := reader{b}
	t := &Token{ChainID: r.uint64(), Account: common.Address(r.take(20)), Issued: r.uint64(), Expires: r.uint64(),
		Scope: r.take(1)[0], Nonce: [32]byte(r.take(32)), Signature: [signatureBytes]byte(r.take(signatureBytes))}
	switch flag := r.take(1)[0]; {
	case flag == 0 && len(r.b) == 0:
	case flag == 1 && len(r.b) == certificateBytes:
		t.Certificate = readCertificate(&r)
		t.Certificate.ChainID = t.ChainID // one chain for both: a certificate of another one has a wrong digest
	default:
		return nil, ErrMalformed
	}
	return t, nil
}

// reader cuts fields from bytes whose length was checked before.
type reader struct{ b []byte }

func (r *reader) take(n int) []byte {
	out := r.b[:n]
	r.b = r.b[n:]
	return out
}

func (r *reader) uint64() uint64 { return binary.BigEndian.Uint64(r.take(8)) }
