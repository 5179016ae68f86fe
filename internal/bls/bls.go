package bls

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/big"
)

// Tag is the domain separation tag of all signatures, votes and possession proofs alike. It is the one that the
// hash-to-curve of the on-chain verifier uses.
const Tag = "BLS_SIG_BLS12381G2_XMD:SHA-256_SSWU_RO_NUL_"

var (
	// ErrKey is wrapped by every error about bytes that are no acceptable public or secret key.
	ErrKey = errors.New("invalid BLS key")
	// ErrSignature is wrapped by every error about bytes that are no acceptable signature.
	ErrSignature = errors.New("invalid BLS signature")
)

// order is the order r of G1 and G2, big endian.
const order = "73eda753299d7d483339d80809a1d80553bda402fffe5bfeffffffff00000001"

func groupOrder() *big.Int {
	r, _ := new(big.Int).SetString(order, 16)
	return r
}

// SecretKey signs. It is a scalar in [1, r-1].
type SecretKey struct {
	scalar [SecretLength]byte
	key    [KeyLength]byte // its public key, computed once
}

// GenerateKey draws a secret key: 48 bytes of randomness reduced to [1, r-1], so the bias is below 2^-128. It fails
// only if random does.
func GenerateKey(random io.Reader) (*SecretKey, error) {
	var b [48]byte
	if _, err := io.ReadFull(random, b[:]); err != nil {
		return nil, fmt.Errorf("generate BLS key: %w", err)
	}
	one := big.NewInt(1)
	x := new(big.Int).SetBytes(b[:])
	x.Mod(x, new(big.Int).Sub(groupOrder(), one))
	x.Add(x, one)
	var s [SecretLength]byte
	x.FillBytes(s[:])
	return SecretKeyFromBytes(s[:])
}

// SecretKeyFromBytes reads a secret key of 32 bytes, big endian. Errors wrap ErrKey.
func SecretKeyFromBytes(b []byte) (*SecretKey, error) {
	if len(b) != SecretLength {
		return nil, fmt.Errorf("%w: a secret key has %d bytes, got %d", ErrKey, SecretLength, len(b))
	}
	x := new(big.Int).SetBytes(b)
	if x.Sign() == 0 || x.Cmp(groupOrder()) >= 0 {
		return nil, fmt.Errorf("%w: a secret key lies between 1 and the group order - 1", ErrKey)
	}
	k := new(SecretKey)
	copy(k.scalar[:], b)
	k.key = derivePublic(&k.scalar)
	return k, nil
}

// Bytes is the secret key, big endian.
func (k *SecretKey) Bytes() []byte { return append([]byte(nil), k.scalar[:]...) }

// PublicKey is the compressed public key.
func (k *SecretKey) PublicKey() [KeyLength]byte { return k.key }

// Sign signs the message (hashed to G2 with Tag).
func (k *SecretKey) Sign(msg []byte) [SignatureLength]byte { return sign(&k.scalar, msg) }

// String and GoString keep the secret out of logs.
func (k *SecretKey) String() string   { return "bls:" + hex.EncodeToString(k.key[:]) }
func (k *SecretKey) GoString() string { return k.String() }

// ValidatePublicKey reports whether k is a canonical compressed point of G1's subgroup, not infinity. Errors wrap
// ErrKey.
func ValidatePublicKey(k [KeyLength]byte) error {
	_, err := parseKey(&k)
	return err
}

// Verify reports whether sig is pk's signature on msg.
func Verify(pk [KeyLength]byte, msg []byte, sig [SignatureLength]byte) bool {
	return VerifyAggregate([][KeyLength]byte{pk}, msg, sig)
}

// VerifyAggregate reports whether agg is the sum of the signatures of all pks on one message. An empty list is never
// verified. The owners of all keys must have proved possession.
func VerifyAggregate(pks [][KeyLength]byte, msg []byte, agg [SignatureLength]byte) bool {
	return verifyAggregate(parseKey, pks, msg, &agg)
}

func verifyAggregate(parse func(*[KeyLength]byte) (*keyPoint, error), pks [][KeyLength]byte, msg []byte, agg *[SignatureLength]byte) bool {
	if len(pks) == 0 || len(pks) > MaxAggregate {
		return false
	}
	points := make([]*keyPoint, len(pks))
	for i := range pks {
		p, err := parse(&pks[i])
		if err != nil {
			return false
		}
		points[i] = p
	}
	sig, err := parseSignature(agg)
	if err != nil {
		return false
	}
	return verifySum(points, msg, sig)
}

// Aggregate is the sum of signatures. Each must be a point of G2's subgroup, not infinity; whether it verifies is not
// asked. Errors wrap ErrSignature and name the index of the bad one.
func Aggregate(sigs [][SignatureLength]byte) ([SignatureLength]byte, error) {
	if len(sigs) == 0 || len(sigs) > MaxAggregate {
		return [SignatureLength]byte{}, fmt.Errorf("%w: an aggregate of %d signatures; between 1 and %d are allowed", ErrSignature, len(sigs), MaxAggregate)
	}
	points := make([]*signaturePoint, len(sigs))
	for i := range sigs {
		p, err := parseSignature(&sigs[i])
		if err != nil {
			return [SignatureLength]byte{}, fmt.Errorf("signature %d: %w", i, err)
		}
		points[i] = p
	}
	return sumSignatures(points), nil
}

// Signature is a parsed signature: a point of G2's subgroup, not infinity. Parsing costs about a sixth of a
// verification, so who needs a signature more than once keeps it parsed. It never changes and may be shared.
type Signature struct {
	bytes [SignatureLength]byte
	point *signaturePoint
}

// ParseSignature reads a compressed signature. Whether it verifies is not asked. Errors wrap ErrSignature.
func ParseSignature(sig [SignatureLength]byte) (*Signature, error) {
	p, err := parseSignature(&sig)
	if err != nil {
		return nil, err
	}
	return &Signature{sig, p}, nil
}

// Bytes is the compressed signature.
func (s *Signature) Bytes() [SignatureLength]byte { return s.bytes }

// AggregateParsed is Aggregate of parsed signatures. It fails, with ErrSignature, only for too few or too many of them.
func AggregateParsed(sigs []*Signature) ([SignatureLength]byte, error) {
	if len(sigs) == 0 || len(sigs) > MaxAggregate {
		return [SignatureLength]byte{}, fmt.Errorf("%w: an aggregate of %d signatures; between 1 and %d are allowed", ErrSignature, len(sigs), MaxAggregate)
	}
	return sumSignatures(pointsOf(sigs)), nil
}

func pointsOf(sigs []*Signature) []*signaturePoint {
	points := make([]*signaturePoint, len(sigs))
	for i, s := range sigs {
		points[i] = s.point
	}
	return points
}

// verifyEach reports whether each signature is that of the key beside it on the one message. Each pair is multiplied by
// a secret random number of coefficientBytes before all are summed for one pairing: wrongs that cancel each other out
// in a plain sum do so here with a probability of 2^-64. An aggregate verified plainly says nothing of its parts.
func verifyEach(keys []*keyPoint, msg []byte, sigs []*Signature) bool {
	if len(keys) == 0 || len(keys) != len(sigs) || len(keys) > MaxAggregate {
		return false
	}
	if len(keys) == 1 {
		return verifySum(keys, msg, sigs[0].point)
	}
	coefficients := make([]byte, coefficientBytes*len(keys))
	_, _ = rand.Read(coefficients) // never fails
	return verifyCombination(keys, msg, pointsOf(sigs), coefficients)
}

// UncompressG1 is the point of a public key in the form that EIP-2537 precompiles take: x, y, 64 bytes each, big
// endian, the upper 16 bytes zero; 128 bytes in all. Errors wrap ErrKey.
func UncompressG1(k [KeyLength]byte) ([]byte, error) {
	p, err := parseKey(&k)
	if err != nil {
		return nil, err
	}
	raw := rawKey(p) // x, y
	out := make([]byte, 128)
	copy(out[16:64], raw[:48])
	copy(out[80:128], raw[48:])
	return out, nil
}

// UncompressG2 is the point of a signature in the form that EIP-2537 precompiles take: x.c0, x.c1, y.c0, y.c1, 64 bytes
// each; 256 bytes in all. Errors wrap ErrSignature.
func UncompressG2(s [SignatureLength]byte) ([]byte, error) {
	p, err := parseSignature(&s)
	if err != nil {
		return nil, err
	}
	raw := rawSignature(p) // x.c1, x.c0, y.c1, y.c0
	out := make([]byte, 256)
	copy(out[16:64], raw[48:96])
	copy(out[80:128], raw[:48])
	copy(out[144:192], raw[144:192])
	copy(out[208:256], raw[96:144])
	return out, nil
}
