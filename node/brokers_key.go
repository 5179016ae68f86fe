package node

import (
	"crypto/ecdsa"
	"fmt"
	"math/big"
	"os"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/bornode/bornode/block"
)

// BrokerFile is the key of a broker's account, in the node's folder, where the producer's account is not used.
const BrokerFile = "keys/broker.key"

// brokerSigner signs for a broker's account: transactions, receipts and heads.
type brokerSigner interface {
	txSigner
	Account() common.Address
	// SignSeal signs a hash: here always one with a domain of its own in front, so that it is never a block's.
	SignSeal(hash common.Hash) ([block.SealLength]byte, error)
}

// keySigner is a broker's own key.
type keySigner struct {
	key     *ecdsa.PrivateKey
	account common.Address
}

// loadBrokerKey reads a key file: 64 hexadecimal digits, readable by its owner alone.
func loadBrokerKey(path string) (*keySigner, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("pubsub.key_file: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("pubsub.key_file: %s may be read by others (mode %04o); run: chmod 600 %s", path, info.Mode().Perm(), path)
	}
	key, err := crypto.LoadECDSA(path)
	if err != nil {
		return nil, fmt.Errorf("pubsub.key_file: %s holds no private key of 64 hexadecimal digits: %w", path, err)
	}
	return &keySigner{key, crypto.PubkeyToAddress(key.PublicKey)}, nil
}

func (k *keySigner) Account() common.Address { return k.account }

func (k *keySigner) SignTx(tx types.TxData, chainID uint64) (*types.Transaction, error) {
	return types.SignNewTx(k.key, types.LatestSignerForChainID(new(big.Int).SetUint64(chainID)), tx)
}

func (k *keySigner) SignSeal(hash common.Hash) (s [block.SealLength]byte, err error) {
	b, err := crypto.Sign(hash[:], k.key)
	if err != nil {
		return s, err
	}
	return [block.SealLength]byte(b), nil
}

// MakeBrokerKey makes the key of a broker's account if there is none, and returns the account.
func MakeBrokerKey(path string) (common.Address, error) {
	if k, err := loadBrokerKey(path); err == nil {
		return k.account, nil
	} else if _, e := os.Stat(path); e == nil {
		return common.Address{}, err
	}
	key, err := crypto.GenerateKey()
	if err != nil {
		return common.Address{}, err
	}
	return crypto.PubkeyToAddress(key.PublicKey), crypto.SaveECDSA(path, key)
}
