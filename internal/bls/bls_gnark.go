//go:build !cgo

package bls

import (
	"fmt"
	"math/big"

	curve "github.com/consensys/gnark-crypto/ecc/bls12-381"
)

// Implementation names the library behind the package.
const Implementation = "gnark-crypto"

type (
	keyPoint       = curve.G1Affine
	signaturePoint = curve.G2Affine
)

// hash never fails: the tag's length is fixed and below the limit.
func hash(msg []byte) curve.G2Affine {
	h, err := curve.HashToG2(msg, []byte(Tag))
	if err != nil {
		panic(fmt.Sprintf("bls: hash to curve: %v", err))
	}
	return h
}

func derivePublic(s *[SecretLength]byte) [KeyLength]byte {
	var p curve.G1Affine
	return p.ScalarMultiplicationBase(new(big.Int).SetBytes(s[:])).Bytes()
}

func sign(s *[SecretLength]byte, msg []byte) [SignatureLength]byte {
	h := hash(msg)
	var p curve.G2Affine
	return p.ScalarMultiplication(&h, new(big.Int).SetBytes(s[:])).Bytes()
}

func parseKey(k *[KeyLength]byte) (*keyPoint, error) {
	p := new(curve.G1Affine)
	if n, err := p.SetBytes(k[:]); err != nil || n != KeyLength || p.IsInfinity() {
		return nil, fmt.Errorf("%w: %x is no point of the key group", ErrKey, k[:])
	}
	return p, nil
}

func parseSignature(s *[SignatureLength]byte) (*signaturePoint, error) {
	p := new(curve.G2Affine)
	if n, err := p.SetBytes(s[:]); err != nil || n != SignatureLength || p.IsInfinity() {
		return nil, fmt.Errorf("%w: %x is no point of the signature group", ErrSignature, s[:])
	}
	return p, nil
}

func verifySum(keys []*keyPoint, msg []byte, sig *signaturePoint) bool {
	var sum curve.G1Jac
	for _, k := range keys {
		sum.AddMixed(k)
	}
	var key, base curve.G1Affine
	key.FromJacobian(&sum)
	if key.IsInfinity() {
		return false
	}
	_, _, base, _ = curve.Generators()
	base.Neg(&base)
	ok, err := curve.PairingCheck([]curve.G1Affine{key, base}, []curve.G2Affine{hash(msg), *sig})
	return err == nil && ok
}

// verifyCombination verifies the sums of keys and signatures, each pair multiplied by its coefficient.
func verifyCombination(keys []*keyPoint, msg []byte, sigs []*signaturePoint, coefficients []byte) bool {
	var keySum curve.G1Jac
	var sigSum curve.G2Jac
	for i := range keys {
		c := new(big.Int).SetBytes(coefficients[i*coefficientBytes : (i+1)*coefficientBytes])
		var k curve.G1Affine
		var s curve.G2Affine
		keySum.AddMixed(k.ScalarMultiplication(keys[i], c))
		sigSum.AddMixed(s.ScalarMultiplication(sigs[i], c))
	}
	var key curve.G1Affine
	var sig curve.G2Affine
	key.FromJacobian(&keySum)
	sig.FromJacobian(&sigSum)
	return verifySum([]*keyPoint{&key}, msg, &sig)
}

func sumSignatures(sigs []*signaturePoint) [SignatureLength]byte {
	var sum curve.G2Jac
	for _, s := range sigs {
		sum.AddMixed(s)
	}
	var p curve.G2Affine
	return p.FromJacobian(&sum).Bytes()
}

func rawKey(p *keyPoint) []byte {
	b := p.RawBytes()
	return b[:]
}

func rawSignature(p *signaturePoint) []byte {
	b := p.RawBytes()
	return b[:]
}
