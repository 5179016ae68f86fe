package signer

import (
	"bytes"
	"crypto/ecdsa"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"os"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/internal/bls"
	"github.com/bornode/bornode/internal/vfs"
)

// maxFileBytes bounds a key file; a real one has some 250 bytes.
const maxFileBytes = 4 << 10

// Local signs with keys held in memory.
type Local struct {
	account common.Address
	seal    *ecdsa.PrivateKey
	vote    *bls.SecretKey
	voteKey block.BLSKey
}

// file is the JSON form of a key file. Account is there for the reader's eye and is compared with the seal key.
type file struct {
	Account common.Address `json:"account"`
	SealKey hexutil.Bytes  `json:"seal_key"` // 32 bytes, secp256k1
	VoteKey hexutil.Bytes  `json:"vote_key"` // 32 bytes, BLS12-381
}

// New makes a signer of the two keys.
func New(seal *ecdsa.PrivateKey, vote *bls.SecretKey) *Local {
	return &Local{crypto.PubkeyToAddress(seal.PublicKey), seal, vote, block.BLSKey(vote.PublicKey())}
}

// Generate makes two new keys with randomness from r (crypto/rand.Reader outside tests).
func Generate(r io.Reader) (*Local, error) {
	for {
		var b [32]byte
		if _, err := io.ReadFull(r, b[:]); err != nil {
			return nil, fmt.Errorf("generate seal key: %w", err)
		}
		seal, err := crypto.ToECDSA(b[:])
		if err != nil {
			continue // not below the group order, one in 2^128
		}
		vote, err := bls.GenerateKey(r)
		if err != nil {
			return nil, fmt.Errorf("generate vote key: %w", err)
		}
		return New(seal, vote), nil
	}
}

// Load reads a key file. A file that others may read is refused.
func Load(path string) (*Local, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open producer key: %w", err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("producer key: %w", err)
	}
	if m := st.Mode().Perm(); m&0o077 != 0 {
		return nil, fmt.Errorf("producer key %s has mode %04o and could be read by others: run chmod 600 on it", path, m)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read producer key %s: %w", path, err)
	}
	l, err := parse(b)
	if err != nil {
		return nil, fmt.Errorf("producer key %s is damaged, or no key file: %w; put it back from a copy", path, err)
	}
	return l, nil
}

func parse(b []byte) (*Local, error) {
	if len(b) > maxFileBytes {
		return nil, fmt.Errorf("larger than %d bytes", maxFileBytes)
	}
	var x file
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&x); err != nil {
		return nil, err
	}
	seal, err := crypto.ToECDSA(x.SealKey)
	if err != nil {
		return nil, fmt.Errorf("seal_key: %w", err)
	}
	vote, err := bls.SecretKeyFromBytes(x.VoteKey)
	if err != nil {
		return nil, fmt.Errorf("vote_key: %w", err)
	}
	l := New(seal, vote)
	if l.account != x.Account {
		return nil, fmt.Errorf("account %s is not that of seal_key (%s)", x.Account, l.account)
	}
	return l, nil
}

// Save writes the keys to a new file of mode 0600, durably. It fails if the file exists: a key is never overwritten.
func (l *Local) Save(path string) error {
	b, err := json.MarshalIndent(file{l.account, crypto.FromECDSA(l.seal), l.vote.Bytes()}, "", "  ")
	if err != nil {
		return fmt.Errorf("encode producer key: %w", err)
	}
	if err := vfs.CreateFileAt(path, append(b, '\n')); err != nil {
		return fmt.Errorf("write the producer's keys: %w", err)
	}
	return nil
}

// Account is the producer's account.
func (l *Local) Account() common.Address { return l.account }

// VoteKey is the public key of the votes, compressed.
func (l *Local) VoteKey() block.BLSKey { return l.voteKey }

// SignSeal signs the digest of a seal (block.Domain.SealDigest): R, S, V with low S.
func (l *Local) SignSeal(digest common.Hash) ([block.SealLength]byte, error) {
	b, err := crypto.Sign(digest[:], l.seal)
	if err != nil {
		return [block.SealLength]byte{}, fmt.Errorf("sign seal digest %s: %w", digest, err)
	}
	return [block.SealLength]byte(b), nil
}

// SignVote signs the digest of a vote (block.Domain.VoteDigest).
func (l *Local) SignVote(digest common.Hash) (block.BLSSignature, error) {
	return block.BLSSignature(l.vote.Sign(digest[:])), nil
}

// SignTx signs a transaction of the producer's account.
func (l *Local) SignTx(tx types.TxData, chainID uint64) (*types.Transaction, error) {
	signed, err := types.SignNewTx(l.seal, types.LatestSignerForChainID(new(big.Int).SetUint64(chainID)), tx)
	if err != nil {
		return nil, fmt.Errorf("sign a transaction of account %s: %w", l.account, err)
	}
	return signed, nil
}

// ProvePossession signs the statement that the owner of the account holds the vote key; registration asks for it.
func (l *Local) ProvePossession(chainID uint64) block.BLSSignature {
	d := block.PossessionDigest(chainID, l.account, l.voteKey)
	return block.BLSSignature(l.vote.Sign(d[:]))
}
