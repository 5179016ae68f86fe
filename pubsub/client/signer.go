package client

import (
	"context"
	"crypto/ecdsa"
	"fmt"
	"math/big"

	"github.com/ethereum/go-ethereum/accounts"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
)

// Signer is an account, or a pseudonym. Its key may be elsewhere, as in a wallet.
type Signer interface {
	Address() common.Address
	// SignMessage signs a message as EIP-191 says ("personal message"): 65 bytes.
	SignMessage(ctx context.Context, message []byte) ([]byte, error)
	// SignTransaction gives the signed transaction.
	SignTransaction(ctx context.Context, tx *types.Transaction, chainID *big.Int) (*types.Transaction, error)
}

type keySigner struct {
	key     *ecdsa.PrivateKey
	address common.Address
}

// KeySigner is an account whose key is at hand.
func KeySigner(key *ecdsa.PrivateKey) Signer {
	return &keySigner{key, crypto.PubkeyToAddress(key.PublicKey)}
}

func (s *keySigner) Address() common.Address { return s.address }

func (s *keySigner) SignMessage(_ context.Context, message []byte) ([]byte, error) {
	return crypto.Sign(accounts.TextHash(message), s.key)
}

func (s *keySigner) SignTransaction(_ context.Context, tx *types.Transaction, chainID *big.Int) (*types.Transaction, error) {
	out, err := types.SignTx(tx, types.LatestSignerForChainID(chainID), s.key)
	if err != nil {
		return nil, fmt.Errorf("signing a transaction: %w", err)
	}
	return out, nil
}
