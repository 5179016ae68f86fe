package token

import (
	"crypto/ecdsa"
	"encoding/binary"
	"fmt"
	"math/big"

	"github.com/ethereum/go-ethereum/accounts"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
)

// Contract is the address of Topics, part of every digest.
var Contract = common.Address{18: 0x0b, 19: 0x03}

// digest is EIP-191 over message.
func digest(message []byte) common.Hash { return common.BytesToHash(accounts.TextHash(message)) }

// message is keccak256(abi.encode(domain, fields...)); every field is one word. It is what a wallet is asked to sign.
func message(domain string, fields ...[]byte) []byte {
	b := make([]byte, 0, 32*(len(fields)+3))
	b = append(b, common.LeftPadBytes(number(uint64(32*(len(fields)+1))), 32)...) //nolint:gosec // a few
	for _, f := range fields {
		b = append(b, common.LeftPadBytes(f, 32)...)
	}
	b = append(b, common.LeftPadBytes(number(uint64(len(domain))), 32)...)
	b = append(b, common.RightPadBytes([]byte(domain), 32)...)
	return crypto.Keccak256(b)
}

func wordOf(b []byte) *big.Int { return new(big.Int).SetBytes(b) }

func number(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

func addressOf(key *ecdsa.PrivateKey) common.Address { return crypto.PubkeyToAddress(key.PublicKey) }

// sign writes a signature with low s and v 27 or 28, as wallets make and the contract takes it.
func sign(hash common.Hash, key *ecdsa.PrivateKey, as common.Address, out *[signatureBytes]byte) error {
	if addressOf(key) != as {
		return fmt.Errorf("the key belongs to %v, not to %v; sign with the account's own key", addressOf(key), as)
	}
	sig, err := crypto.Sign(hash[:], key)
	if err != nil {
		return err
	}
	copy(out[:], sig)
	out[64] += 27
	return nil
}

// take is sign with a signature that was made elsewhere, with v from 0 or from 27 on.
func take(hash common.Hash, sig []byte, as common.Address, out *[signatureBytes]byte) error {
	if len(sig) != signatureBytes {
		return fmt.Errorf("a signature has %d bytes, this one has %d", signatureBytes, len(sig))
	}
	got := [signatureBytes]byte(sig)
	if got[64] < 27 {
		got[64] += 27
	}
	if !signedBy(hash, &got, as) {
		return fmt.Errorf("the signature was not made by the key of %v; sign with the account's own key", as)
	}
	*out = got
	return nil
}

// signer recovers who signed hash.
func signer(hash common.Hash, sig *[signatureBytes]byte) (common.Address, bool) {
	if sig[64] != 27 && sig[64] != 28 {
		return common.Address{}, false
	}
	raw := *sig
	raw[64] -= 27
	if !crypto.ValidateSignatureValues(raw[64], wordOf(raw[:32]), wordOf(raw[32:64]), true) {
		return common.Address{}, false
	}
	key, err := crypto.SigToPub(hash[:], raw[:])
	if err != nil {
		return common.Address{}, false
	}
	return crypto.PubkeyToAddress(*key), true
}

func signedBy(hash common.Hash, sig *[signatureBytes]byte, who common.Address) bool {
	a, ok := signer(hash, sig)
	return ok && a == who
}
