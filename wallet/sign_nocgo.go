//go:build !cgo

package wallet

import (
	"errors"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"
)

// signHash signs a 32-byte hash; the last byte of the signature is 0 or 1.
func signHash(hash, key []byte) (signature []byte, err error) {
	err = scrubbed(func() error {
		var k secp256k1.PrivateKey
		defer k.Zero()
		if len(hash) != 32 || k.Key.SetByteSlice(key) || k.Key.IsZero() {
			return errors.New("an unlocked key is damaged")
		}
		sig := ecdsa.SignCompact(&k, hash, false) // recovery code, r, s
		signature = append(sig[1:], sig[0]-27)
		return nil
	})
	return signature, err
}
