//go:build cgo

package wallet

import (
	"github.com/ethereum/go-ethereum/crypto/secp256k1"
)

// signHash signs a 32-byte hash; the last byte of the signature is 0 or 1. The key goes to the library as it lies in
// the vault, without a copy.
func signHash(hash, key []byte) (signature []byte, err error) {
	err = scrubbed(func() (err error) {
		signature, err = secp256k1.Sign(hash, key)
		return err
	})
	return signature, err
}
