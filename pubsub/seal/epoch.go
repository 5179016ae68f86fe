package seal

import (
	"crypto/hkdf"
	"crypto/hpke"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/ethereum/go-ethereum/accounts"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
)

// ErrSealed is wrapped by every error about a sealed key that does not open.
var ErrSealed = errors.New("the sealed key does not open")

const (
	sealedVersion = 1
	signatureAt   = 2
	sealedAt      = signatureAt + 65
)

// Key is the key of one epoch of one topic.
type Key [32]byte

// NewKey makes a random one.
func NewKey() (k Key) {
	_, _ = rand.Read(k[:]) // never fails: the program ends instead
	return k
}

// fingerprint tells keys of one epoch apart without telling anything about them.
func (k Key) fingerprint() (f [4]byte) {
	b, err := hkdf.Key(sha256.New, k[:], nil, "bornode topic key fingerprint", len(f))
	if err != nil {
		panic(err) // only for an absurd length
	}
	copy(f[:], b)
	return f
}

// Context is what a sealed key is bound to.
type Context struct {
	Chain  common.Hash // of block 0
	Topic  common.Hash // topic id of the contract
	Epoch  uint32
	Reader common.Address
}

func (c Context) bytes(label string) []byte {
	b := append([]byte(label), c.Chain[:]...)
	b = append(b, c.Topic[:]...)
	b = binary.BigEndian.AppendUint32(b, c.Epoch)
	return append(b, c.Reader[:]...)
}

// Signer signs a message of 32 bytes with an account's key, as wallets do (EIP-191, "personal message"): 65 bytes, r, s
// and v of 0, 1, 27 or 28.
type Signer func(message []byte) ([]byte, error)

// SealTo seals the key to the public key (of Identity.Public) of the reader that c names; sign is the account's that
// vouches for the key, the owner's of the topic.
func (k Key) SealTo(public []byte, c Context, sign Signer) ([]byte, error) {
	suite, pk, err := parsePublic(public)
	if err != nil {
		return nil, err
	}
	enc, s, err := hpke.NewSender(pk, hpke.HKDFSHA256(), hpke.AES256GCM(), c.bytes("bornode topic key v1"))
	if err != nil {
		return nil, fmt.Errorf("sealing a topic key to %s: %w", c.Reader, err)
	}
	box, err := s.Seal([]byte{sealedVersion, byte(suite)}, k[:])
	if err != nil {
		return nil, fmt.Errorf("sealing a topic key to %s: %w", c.Reader, err)
	}
	out := make([]byte, sealedAt, sealedAt+len(enc)+len(box))
	out[0], out[1] = sealedVersion, byte(suite)
	out = append(append(out, enc...), box...)
	sig, err := sign(vouched(c, out))
	if err != nil {
		return nil, fmt.Errorf("signing a sealed topic key: %w", err)
	}
	if len(sig) != sealedAt-signatureAt {
		return nil, fmt.Errorf("signing a sealed topic key: a signature of %d bytes; 65 are wanted", len(sig))
	}
	copy(out[signatureAt:], sig)
	if v := &out[sealedAt-1]; *v >= 27 {
		*v -= 27
	}
	return out, nil
}

// vouched is what the maker of a sealed key signs.
func vouched(c Context, sealed []byte) []byte {
	return crypto.Keccak256(c.bytes("bornode sealed topic key v1"), sealed[:signatureAt], sealed[sealedAt:])
}

// Open opens a key that was sealed to this identity, and tells the account that vouched for it: the caller checks that
// it is the topic's owner. Errors wrap ErrSealed.
func (i *Identity) Open(sealed []byte, c Context) (Key, common.Address, error) {
	fail := func(why string, args ...any) (Key, common.Address, error) {
		return Key{}, common.Address{}, fmt.Errorf("%w (topic %s, epoch %d, reader %s): %s", ErrSealed, c.Topic, c.Epoch, c.Reader, fmt.Sprintf(why, args...))
	}
	switch {
	case len(sealed) <= sealedAt || len(sealed) > SealedBytes:
		return fail("it has %d bytes", len(sealed))
	case sealed[0] != sealedVersion:
		return fail("its version %d is unknown", sealed[0])
	case Suite(sealed[1]) != i.suite:
		return fail("it is sealed by %s, this identity by %s: it was sealed to another key of this account", Suite(sealed[1]), i.suite)
	}
	pub, err := crypto.SigToPub(accounts.TextHash(vouched(c, sealed)), sealed[signatureAt:sealedAt])
	if err != nil {
		return fail("nobody's signature is on it")
	}
	n := encBytes(i.suite)
	if len(sealed) < sealedAt+n {
		return fail("it has %d bytes", len(sealed))
	}
	r, err := hpke.NewRecipient(sealed[sealedAt:sealedAt+n], i.key, hpke.HKDFSHA256(), hpke.AES256GCM(), c.bytes("bornode topic key v1"))
	if err != nil {
		return fail("it was not sealed to this identity")
	}
	plain, err := r.Open(sealed[:signatureAt], sealed[sealedAt+n:])
	if err != nil || len(plain) != len(Key{}) {
		return fail("it was not sealed to this identity, or for another topic, epoch or reader")
	}
	return Key(plain), crypto.PubkeyToAddress(*pub), nil
}

// encBytes is the length of the encapsulated key of a suite (RFC 9180, section 7.1; X-Wing).
func encBytes(s Suite) int {
	if s == Hybrid {
		return 1088 + 32
	}
	return 32
}
