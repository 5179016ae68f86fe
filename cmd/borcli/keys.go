package main

import (
	"context"
	"crypto/ecdsa"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"strings"

	"github.com/ethereum/go-ethereum/accounts/keystore"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
)

// account signs for one address.
type account interface {
	address() common.Address
	sign(ctx context.Context, tx *types.Transaction, chainID *big.Int) (*types.Transaction, error)
}

// account is who signs: the key file's account, or one of the wallet.
func (a *app) account(ctx context.Context) (account, error) {
	var from common.Address
	if a.From != "" {
		var err error
		if from, err = parseAddress(a.From); err != nil {
			return nil, fail(exitUsage, "--from: %v", err)
		}
	}
	if a.Key != "" {
		k, err := a.openKey(ctx, a.Key)
		if err != nil {
			return nil, err
		}
		if a.From != "" && k.addr != from {
			return nil, fail(exitUsage, "--key %s is the key of %s, --from is %s: leave one of them out", a.Key, k.addr, from)
		}
		return k, nil
	}
	if a.From != "" {
		return &walletAccount{a, from}, nil
	}
	return a.onlyUnlocked(ctx)
}

// keyFile is a file with one secret key. A keystore stays encrypted until something is signed.
type keyFile struct {
	a        *app
	path     string
	addr     common.Address
	keystore []byte            // encrypted
	plain    *ecdsa.PrivateKey // of the other forms
}

// openKey reads a key file of any known form. From then on the process leaves no core dump.
func (a *app) openKey(ctx context.Context, path string) (*keyFile, error) {
	noDumps()
	b, err := secretFile(path, maxKeyFileBytes)
	if err != nil {
		return nil, fail(exitWallet, "key file: %v", err)
	}
	defer clear(b)
	k := &keyFile{a: a, path: path}
	text := strings.TrimSpace(string(b))
	if !strings.HasPrefix(text, "{") {
		raw, err := hex.DecodeString(strings.TrimPrefix(text, "0x"))
		defer clear(raw)
		if err != nil || len(raw) != 32 {
			return nil, fail(exitWallet, "key file %s holds no key: give a geth keystore, 64 hexadecimal digits or a node's keys/producer.json", path)
		}
		return k, k.takePlain(raw)
	}
	var x struct {
		Address string          `json:"address"`
		Crypto  json.RawMessage `json:"crypto"`
		Seal    hexutil.Bytes   `json:"seal_key"`
	}
	if err := json.Unmarshal(b, &x); err != nil {
		return nil, fail(exitWallet, "key file %s is not valid JSON", path)
	}
	defer clear(x.Seal)
	switch {
	case len(x.Seal) > 0:
		return k, k.takePlain(x.Seal)
	case len(x.Crypto) == 0:
		return nil, fail(exitWallet, "key file %s holds no key: give a geth keystore, 64 hexadecimal digits or a node's keys/producer.json", path)
	}
	k.keystore = []byte(text)
	if common.IsHexAddress(x.Address) {
		k.addr = common.HexToAddress(x.Address)
		return k, nil
	}
	key, err := k.decrypt(ctx) // a keystore need not tell its address
	if err != nil {
		return nil, err
	}
	k.keystore, k.plain = nil, key
	return k, nil
}

func (k *keyFile) takePlain(raw []byte) error {
	key, err := crypto.ToECDSA(raw)
	if err != nil {
		return fail(exitWallet, "key file %s holds no valid secp256k1 key", k.path)
	}
	k.plain, k.addr = key, crypto.PubkeyToAddress(key.PublicKey)
	return nil
}

func (k *keyFile) decrypt(ctx context.Context) (*ecdsa.PrivateKey, error) {
	password, err := k.a.password(ctx, "password of "+k.path, k.a.PasswordFile)
	if err != nil {
		return nil, err
	}
	key, err := keystore.DecryptKey(k.keystore, password)
	if errors.Is(err, keystore.ErrDecrypt) {
		return nil, fail(exitWallet, "the password is not that of key file %s: try again", k.path)
	}
	if err != nil {
		return nil, fail(exitWallet, "key file %s cannot be decrypted: %v", k.path, err)
	}
	if k.addr != (common.Address{}) && key.Address != k.addr {
		wipe(key.PrivateKey)
		return nil, fail(exitWallet, "key file %s says it is of %s but holds the key of %s: do not use it", k.path, k.addr, key.Address)
	}
	k.addr = key.Address
	return key.PrivateKey, nil
}

// use lends the secret key to f and clears it after that; a key file signs once.
func (k *keyFile) use(ctx context.Context, f func(*ecdsa.PrivateKey) error) error {
	key := k.plain
	if k.keystore != nil {
		var err error
		if key, err = k.decrypt(ctx); err != nil {
			return err
		}
	}
	if key == nil {
		return fmt.Errorf("key file %s was used already", k.path)
	}
	k.plain = nil
	defer wipe(key)
	return f(key)
}

// rawKey is the secret key of --key in hexadecimal, to be taken into a wallet.
func (a *app) rawKey(ctx context.Context) (text string, err error) {
	k, err := a.openKey(ctx, a.Key)
	if err != nil {
		return "", err
	}
	if k.keystore != nil {
		return "", fail(exitUsage, "%s is a keystore: use borcli wallet import-keystore", a.Key)
	}
	err = k.use(ctx, func(key *ecdsa.PrivateKey) error {
		b := crypto.FromECDSA(key)
		defer clear(b)
		text = hex.EncodeToString(b)
		return nil
	})
	return text, err
}

func (k *keyFile) address() common.Address { return k.addr }

func (k *keyFile) sign(ctx context.Context, tx *types.Transaction, chainID *big.Int) (signed *types.Transaction, err error) {
	err = k.use(ctx, func(key *ecdsa.PrivateKey) (err error) {
		signed, err = types.SignTx(tx, types.LatestSignerForChainID(chainID), key)
		return err
	})
	return signed, err
}

// wipe clears a secret key.
func wipe(k *ecdsa.PrivateKey) {
	//lint:ignore SA1019 the only way to the words of the key
	if k != nil && k.D != nil {
		//lint:ignore SA1019 see above
		clear(k.D.Bits())
	}
}
