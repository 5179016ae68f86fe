//go:build cgo

package bls

import (
	"fmt"

	blst "github.com/supranational/blst/bindings/go"
)

// Implementation names the library behind the package.
const Implementation = "blst"

type (
	keyPoint       = blst.P1Affine
	signaturePoint = blst.P2Affine
)

// secret never fails: SecretKeyFromBytes checked the range.
func secret(s *[SecretLength]byte) *blst.SecretKey { return new(blst.SecretKey).Deserialize(s[:]) }

func derivePublic(s *[SecretLength]byte) (k [KeyLength]byte) {
	sk := secret(s)
	defer sk.Zeroize()
	copy(k[:], new(blst.P1Affine).From(sk).Compress())
	return k
}

func sign(s *[SecretLength]byte, msg []byte) (sig [SignatureLength]byte) {
	sk := secret(s)
	defer sk.Zeroize()
	copy(sig[:], new(blst.P2Affine).Sign(sk, msg, []byte(Tag)).Compress())
	return sig
}

func parseKey(k *[KeyLength]byte) (*keyPoint, error) {
	p := new(blst.P1Affine).Uncompress(k[:])
	if p == nil || !p.KeyValidate() {
		return nil, fmt.Errorf("%w: %x is no point of the key group", ErrKey, k[:])
	}
	return p, nil
}

func parseSignature(s *[SignatureLength]byte) (*signaturePoint, error) {
	p := new(blst.P2Affine).Uncompress(s[:])
	if p == nil || !p.SigValidate(true) {
		return nil, fmt.Errorf("%w: %x is no point of the signature group", ErrSignature, s[:])
	}
	return p, nil
}

func verifySum(keys []*keyPoint, msg []byte, sig *signaturePoint) bool {
	if len(keys) == 1 {
		return sig.Verify(false, keys[0], false, msg, []byte(Tag))
	}
	return sig.FastAggregateVerify(false, keys, msg, []byte(Tag)) // a sum at infinity is refused inside
}

// verifyCombination verifies the sums of keys and signatures, each pair multiplied by its coefficient.
func verifyCombination(keys []*keyPoint, msg []byte, sigs []*signaturePoint, coefficients []byte) bool {
	k, s := make(blst.P1Affines, len(keys)), make(blst.P2Affines, len(sigs))
	for i := range keys {
		k[i], s[i] = *keys[i], *sigs[i]
	}
	key := k.Mult(coefficients, 8*coefficientBytes).ToAffine()
	sig := s.Mult(coefficients, 8*coefficientBytes).ToAffine()
	return sig.Verify(false, key, false, msg, []byte(Tag)) // a sum of keys at infinity is refused inside
}

func sumSignatures(sigs []*signaturePoint) (out [SignatureLength]byte) {
	sum := new(blst.P2Aggregate)
	for _, s := range sigs {
		sum.Add(s, false)
	}
	copy(out[:], sum.ToAffine().Compress())
	return out
}

func rawKey(p *keyPoint) []byte             { return p.Serialize() }
func rawSignature(p *signaturePoint) []byte { return p.Serialize() }
