package token

import (
	"crypto/ecdsa"
	"encoding/binary"
	"math"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/common"
)

// Rights of a pseudonym in its topic, as bits.
const (
	Read     uint8 = 1
	Write    uint8 = 2
	Describe uint8 = 4
)

const certificatePrefix = "bpsc1."

// Certificate says: the auditor of Topic admits Pseudonym with Rights until Expires, as long as the topic's pseudonyms
// are in Epoch. The signature names the auditor; nothing in it names the account behind the pseudonym.
type Certificate struct {
	ChainID   uint64
	Topic     [32]byte // id of the contract
	Epoch     uint32
	Pseudonym common.Address
	Rights    uint8
	Expires   uint64 // Unix seconds
	Signature [signatureBytes]byte
}

// Digest is what the auditor signs: EIP-191 over
// keccak256(abi.encode("bornode pseudonym", chainID, Contract, topic, epoch, pseudonym, rights, expires)).
func (c *Certificate) Digest() common.Hash { return digest(c.Message()) }

// Message is the 32 bytes that a wallet is asked to sign as a personal message: SetSignature takes the result.
func (c *Certificate) Message() []byte {
	return message("bornode pseudonym", number(c.ChainID), Contract.Bytes(), c.Topic[:], number(uint64(c.Epoch)),
		c.Pseudonym.Bytes(), []byte{c.Rights}, number(c.Expires))
}

// Sign signs the certificate with the auditor's key.
func (c *Certificate) Sign(key *ecdsa.PrivateKey) error {
	return sign(c.Digest(), key, addressOf(key), &c.Signature)
}

// SetSignature takes what the auditor's wallet made of Message, and checks that the auditor made it.
func (c *Certificate) SetSignature(sig []byte, auditor common.Address) error {
	return take(c.Digest(), sig, auditor, &c.Signature)
}

// Auditor is the account that signed; ErrCertificate if the signature is none.
func (c *Certificate) Auditor() (common.Address, error) {
	a, ok := signer(c.Digest(), &c.Signature)
	if !ok {
		return a, ErrCertificate
	}
	return a, nil
}

// Valid checks all that needs no ledger: chain, rights, time, and that somebody signed.
func (c *Certificate) Valid(now time.Time, chainID uint64) error {
	if c.ChainID != chainID {
		return ErrWrongChain
	}
	if c.Rights == 0 || c.Rights&^(Read|Write|Describe) != 0 || c.Expires > math.MaxInt64/2 || int64(c.Expires) <= now.Unix() { //nolint:gosec // bounded
		return ErrCertificate
	}
	_, err := c.Auditor()
	return err
}

func (c *Certificate) append(b []byte) []byte {
	b = append(b, c.Topic[:]...)
	b = binary.BigEndian.AppendUint32(b, c.Epoch)
	b = append(b, c.Pseudonym[:]...)
	b = append(b, c.Rights)
	b = binary.BigEndian.AppendUint64(b, c.Expires)
	return append(b, c.Signature[:]...)
}

// readCertificate reads what append wrote; its chain is for the caller to set.
func readCertificate(r *reader) *Certificate {
	return &Certificate{Topic: [32]byte(r.take(32)), Epoch: binary.BigEndian.Uint32(r.take(4)), Pseudonym: common.Address(r.take(20)),
		Rights: r.take(1)[0], Expires: r.uint64(), Signature: [signatureBytes]byte(r.take(signatureBytes))}
}

// String is the text form, for the file in which an auditor hands a certificate out.
func (c *Certificate) String() string {
	return certificatePrefix + text.EncodeToString(c.append(binary.BigEndian.AppendUint64(nil, c.ChainID)))
}

// ParseCertificate reads the text form and checks its form only. One certificate has one text.
func ParseCertificate(s string) (*Certificate, error) {
	enc, ok := strings.CutPrefix(s, certificatePrefix)
	if !ok || len(s) > MaxText || strings.ContainsAny(enc, "\r\n") {
		return nil, ErrCertificate
	}
	b, err := text.DecodeString(enc)
	if err != nil || len(b) != 8+certificateBytes {
		return nil, ErrCertificate
	}
	r := reader{b}
	chain := r.uint64()
	c := readCertificate(&r)
	c.ChainID = chain
	return c, nil
}
