package wallet

import (
	"encoding/json"
	"math/big"
	"path/filepath"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/accounts"
	"github.com/ethereum/go-ethereum/accounts/keystore"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/stretchr/testify/require"
)

// A whole life of a wallet over the socket, as borcli leads it.
func TestAPI(t *testing.T) {
	c := testConfig(t)
	s := openService(t, c)
	_, cl := serve(t, s)
	ctx := within60(t)
	call := func(out any, method string, args ...any) {
		t.Helper()
		require.NoError(t, cl.CallContext(ctx, out, method, args...))
	}

	var version string
	call(&version, "wallet_version")
	require.Equal(t, "test", version)
	call(nil, "wallet_create", "main", testPassword)
	var first, second, third common.Address
	call(&first, "wallet_newAccount", "main", testPassword)
	call(&second, "wallet_importKey", "main", testPassword, "0x4c0883a69102937d6231471b5dbb6204fe5129617082792ae468d01a3f362318")
	require.Equal(t, common.HexToAddress("0x2c7536E3605D9C16a7a3D7b1898e529396a65c23"), second)
	var derived []common.Address
	call(&derived, "wallet_importMnemonic", "main", testPassword, junkWords, "", "", 2)
	require.Equal(t, []common.Address{junkFirst, common.HexToAddress("0x70997970C51812dc3A010C7d01b50e0d17dc79C8")}, derived)
	call(&derived, "wallet_importMnemonic", "main", testPassword, junkWords)
	require.Equal(t, []common.Address{junkFirst}, derived, "what is there stays")

	foreign, err := crypto.GenerateKey()
	require.NoError(t, err)
	file, err := keystore.EncryptKey(&keystore.Key{Address: crypto.PubkeyToAddress(foreign.PublicKey), PrivateKey: foreign}, "of the file", 2, 1)
	require.NoError(t, err)
	call(&third, "wallet_importKeystore", "main", testPassword, string(file), "of the file")
	require.Equal(t, crypto.PubkeyToAddress(foreign.PublicKey), third)

	var list []Info
	call(&list, "wallet_list")
	require.Len(t, list, 1)
	require.True(t, list[0].Locked)
	require.Len(t, list[0].Accounts, 5)
	call(nil, "wallet_unlock", "main", testPassword, 600)
	call(&list, "wallet_list")
	require.False(t, list[0].Locked)
	require.WithinDuration(t, time.Now().Add(10*time.Minute), *list[0].Until, 2*time.Minute)

	var signed SignedTransaction
	to := common.HexToAddress("0x1234")
	call(&signed, "eth_signTransaction", map[string]any{"from": first, "to": to, "chainId": "0x539", "nonce": "0x7", "gas": "0x5208",
		"maxFeePerGas": "0x77359400", "maxPriorityFeePerGas": "0x1", "value": "0xde0b6b3a7640000", "type": "0x2"})
	var tx types.Transaction
	require.NoError(t, tx.UnmarshalBinary(signed.Raw))
	require.Equal(t, signed.Tx.Hash(), tx.Hash())
	from, err := types.Sender(types.LatestSignerForChainID(big.NewInt(1337)), &tx)
	require.NoError(t, err)
	require.Equal(t, first, from)

	var sig hexutil.Bytes
	call(&sig, "personal_sign", hexutil.Bytes("hello"), first)
	requireSigner(t, first, accounts.TextHash([]byte("hello")), sig)
	call(&sig, "eth_sign", first, hexutil.Bytes("hello"))
	requireSigner(t, first, accounts.TextHash([]byte("hello")), sig)

	var exported string
	call(&exported, "wallet_export", "main", testPassword, second, "key")
	require.Equal(t, "0x4c0883a69102937d6231471b5dbb6204fe5129617082792ae468d01a3f362318", exported)
	call(&exported, "wallet_export", "main", testPassword, third, "keystore")
	k, err := keystore.DecryptKey([]byte(exported), testPassword)
	require.NoError(t, err)
	require.Equal(t, crypto.FromECDSA(foreign), crypto.FromECDSA(k.PrivateKey))

	call(nil, "wallet_changePassword", "main", testPassword, "another horse")
	requireCode(t, CodeWrongPassword, cl.CallContext(ctx, nil, "wallet_unlock", "main", testPassword, 60))
	call(nil, "wallet_lock", "main")
	requireCode(t, CodeLocked, cl.CallContext(ctx, nil, "personal_sign", "0x00", first), "wallet main is locked")
	var all []common.Address
	call(&all, "eth_accounts")
	require.Len(t, all, 5)
}

func requireSigner(t *testing.T, want common.Address, hash, sig []byte) {
	t.Helper()
	require.Len(t, sig, 65)
	require.Contains(t, []byte{27, 28}, sig[64])
	rec := append([]byte(nil), sig...)
	rec[64] -= 27
	pub, err := crypto.SigToPub(hash, rec)
	require.NoError(t, err)
	require.Equal(t, want, crypto.PubkeyToAddress(*pub))
}

// The files of a wallet are geth's: its own keystore finds and opens them.
func TestGethOpensTheFiles(t *testing.T) {
	c := testConfig(t)
	s := openService(t, c)
	a := account(t, s)
	ks := keystore.NewKeyStore(filepath.Join(c.Dir, "wallets", "main"), keystore.LightScryptN, keystore.LightScryptP)
	require.Len(t, ks.Accounts(), 1)
	require.Equal(t, a, ks.Accounts()[0].Address)
	_, err := ks.SignHashWithPassphrase(ks.Accounts()[0], testPassword, make([]byte, 32))
	require.NoError(t, err)
}

func TestNewMnemonicImports(t *testing.T) {
	s := openService(t, testConfig(t))
	require.NoError(t, s.Create(t.Context(), "main", testPassword))
	words, err := NewMnemonic()
	require.NoError(t, err)
	list, err := s.ImportMnemonic(t.Context(), "main", testPassword, words, "salt", "m/44'/60'/1'/0/5", 1)
	require.NoError(t, err)
	require.Len(t, list, 1)
}

// Signatures of every kind of transaction come from the account that was asked.
func TestTransactionTypes(t *testing.T) {
	s := openService(t, testConfig(t))
	a := account(t, s)
	auth, err := s.SignAuthorization(t.Context(), a, u256(1337), common.HexToAddress("0xc0de"), 8)
	require.NoError(t, err)
	who, err := auth.Authority()
	require.NoError(t, err)
	require.Equal(t, a, who)
	text, err := json.Marshal(auth)
	require.NoError(t, err)
	for kind, more := range map[uint8]string{
		0: `"gasPrice":"0x1"`,
		1: `"gasPrice":"0x1","accessList":[{"address":"0x0000000000000000000000000000000000000001","storageKeys":[]}]`,
		2: `"maxFeePerGas":"0x2","maxPriorityFeePerGas":"0x1"`,
		4: `"maxFeePerGas":"0x2","maxPriorityFeePerGas":"0x1","authorizationList":[` + string(text) + `]`,
	} {
		var args TxArgs
		require.NoError(t, json.Unmarshal([]byte(`{"from":"`+a.Hex()+`","to":"`+a.Hex()+`","chainId":"0x539","nonce":"0x1","gasLimit":"0x5208",`+more+`}`), &args))
		tx, err := s.SignTransaction(t.Context(), &args)
		require.NoError(t, err)
		require.Equal(t, kind, tx.Type())
		from, err := types.Sender(types.LatestSignerForChainID(big.NewInt(1337)), tx)
		require.NoError(t, err)
		require.Equal(t, a, from, "type %d", kind)
	}
}
