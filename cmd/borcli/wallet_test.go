package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/accounts"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/signer/core/apitypes"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/wallet"
)

const walletPassword = "a good long password"

// newWallet serves wallets in this process, as borwallet does.
func newWallet(t *testing.T, change func(*wallet.Config)) (*wallet.Server, wallet.Config) {
	t.Helper()
	dir, err := os.MkdirTemp("", "bw") // a short path: it names a socket
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	c := wallet.DefaultConfig()
	c.Dir, c.Scrypt = filepath.Join(dir, "w"), "light"
	if change != nil {
		change(&c)
	}
	s, err := wallet.Open(c, nil, nil)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	v, err := wallet.Serve(s, "test")
	require.NoError(t, err)
	t.Cleanup(v.Close)
	return v, c
}

func TestWalletFromNothingToASignature(t *testing.T) {
	v, _ := newWallet(t, nil)
	f := newNode(t)
	tx := capture(f)
	w := func(stdin string, args ...string) outcome {
		return runWith(t, stdin, nil, append(args, "--wallet", v.SocketPath(), "--node", f.url)...)
	}
	pw := walletPassword + "\n"
	w("", "send", someone, "1wei").fails(t, exitWallet, "there is no account to sign with", "borcli wallet create")
	w(pw, "wallet", "create", "main").succeeds(t)
	w(pw, "wallet", "create", "main").fails(t, exitWallet, "main")
	addr := strings.TrimSpace(w(pw, "account", "create").succeeds(t).out)
	require.True(t, common.IsHexAddress(addr))
	w("", "wallet", "lock", "main").succeeds(t)
	w("", "send", someone, "1wei").fails(t, exitWallet, "no wallet is unlocked", "borcli wallet unlock NAME")
	w("", "send", someone, "1wei", "--from", addr).fails(t, exitWallet, "locked", "borcli wallet unlock")
	w(pw, "wallet", "unlock", "main", "--for", "10m").succeeds(t)
	require.Contains(t, w("", "wallet", "list").succeeds(t).out, "unlocked until")
	w("", "send", someone, "1wei", "--legacy").succeeds(t)
	w("", "send", someone, "1wei").succeeds(t)
	from, err := types.Sender(types.LatestSignerForChainID(tx.ChainId()), tx)
	require.NoError(t, err)
	require.Equal(t, addr, from.Hex())
	w("", "send", someone, "1wei", "--from", someone).fails(t, exitWallet, "account")

	w(pw, "wallet", "new", "main").succeeds(t)
	w("", "send", someone, "1wei").fails(t, exitUsage, "2 unlocked accounts: choose one by --from", addr)
	require.Equal(t, 3, strings.Count(w("", "account", "list").succeeds(t).out, "\n"))
	w("", "wallet", "lock-all").succeeds(t)
	require.NotContains(t, w("", "wallet", "list").succeeds(t).out, "unlocked")
	w("", "wallet", "lock", "none").fails(t, exitWallet, "none")
	w("another password\n", "wallet", "unlock", "main").fails(t, exitWallet, "wrong password")
}

func TestWalletKeysComeAndGo(t *testing.T) {
	v, _ := newWallet(t, nil)
	w := func(stdin string, args ...string) outcome {
		return runWith(t, stdin, nil, append(args, "--wallet", v.SocketPath())...)
	}
	dir, pw := t.TempDir(), walletPassword+"\n"
	w(pw, "wallet", "create", "a").succeeds(t)
	require.Contains(t, w(pw, "wallet", "import-key", "a", "--key", keyFileOf(t)).succeeds(t).out, testAddress().Hex())
	o := w(pw+"no key\n", "wallet", "import-key", "a")
	o.fails(t, exitWallet)
	require.NotContains(t, o.err, "no key")

	out := filepath.Join(dir, "backup.json")
	w(pw, "wallet", "export", "a", testAddress().Hex(), "--out", out).succeeds(t)
	st, err := os.Stat(out)
	require.NoError(t, err)
	require.EqualValues(t, 0o600, st.Mode().Perm())
	w(pw, "wallet", "export", "a", testAddress().Hex(), "--out", out).fails(t, exitOther, "cannot be written")
	w(pw, "wallet", "export", "a", testAddress().Hex()).fails(t, exitUsage, "--out")
	require.Contains(t, w(pw, "wallet", "export", "a", testAddress().Hex(), "--form", "key", "--out", "-").succeeds(t).out, testKey)
	w(pw, "wallet", "export", "a", someone, "--out", out+"2").fails(t, exitWallet)

	w(pw, "wallet", "create", "b").succeeds(t)
	w(pw+pw, "wallet", "import-keystore", "b", out).succeeds(t)
	words := strings.TrimSpace(w("", "wallet", "new-mnemonic").succeeds(t).out)
	require.GreaterOrEqual(t, len(strings.Fields(words)), 12)
	require.Contains(t, w(pw+strings.Repeat("test ", 11)+"junk\n", "wallet", "import-mnemonic", "b", "--count", "2").succeeds(t).out,
		"0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266\n0x70997970C51812dc3A010C7d01b50e0d17dc79C8\n")
	w(pw+"not words\n", "wallet", "import-mnemonic", "b").fails(t, exitWallet)

	w(pw+"another good password\n", "wallet", "change-password", "b").succeeds(t)
	w("another good password\n", "wallet", "unlock", "b").succeeds(t)
	w(pw, "wallet", "delete", "b").fails(t, exitUsage, "Say --yes")
	w("another good password\n", "wallet", "delete", "b", "--yes").succeeds(t)
	require.NotContains(t, w("", "wallet", "list").succeeds(t).out, "b ")
}

func TestWalletSignsMessages(t *testing.T) {
	v, _ := newWallet(t, nil)
	w := func(stdin string, args ...string) outcome {
		return runWith(t, stdin, nil, append(args, "--wallet", v.SocketPath(), "--json")...)
	}
	pw := walletPassword + "\n"
	w(pw, "wallet", "create", "a").succeeds(t)
	w(pw, "wallet", "import-key", "a", "--key", keyFileOf(t)).succeeds(t)
	w(pw, "wallet", "unlock", "a").succeeds(t)
	signer := func(o outcome, hash []byte) string {
		sig := hexutil.MustDecode(o.succeeds(t).json(t)["signature"].(string))
		sig[64] -= 27
		key, err := crypto.SigToPub(hash, sig)
		require.NoError(t, err)
		return crypto.PubkeyToAddress(*key).Hex()
	}
	require.Equal(t, testAddress().Hex(), signer(w("", "wallet", "sign-message", "hello"), accounts.TextHash([]byte("hello"))))
	require.Equal(t, testAddress().Hex(), signer(w("", "wallet", "sign-message", "0x00ff"), accounts.TextHash([]byte{0, 0xff})))

	typed := apitypes.TypedData{PrimaryType: "Mail", Domain: apitypes.TypedDataDomain{Name: "x"}, Message: map[string]any{"text": "hi"},
		Types: apitypes.Types{"EIP712Domain": {{Name: "name", Type: "string"}}, "Mail": {{Name: "text", Type: "string"}}}}
	hash, _, err := apitypes.TypedDataAndHash(typed)
	require.NoError(t, err)
	text := `{"types":{"EIP712Domain":[{"name":"name","type":"string"}],"Mail":[{"name":"text","type":"string"}]},"primaryType":"Mail","domain":{"name":"x"},"message":{"text":"hi"}}`
	file := filepath.Join(t.TempDir(), "typed.json")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	require.Equal(t, testAddress().Hex(), signer(w("", "wallet", "sign-typed", file), hash))
	require.Equal(t, exitUsage, w("", "wallet", "sign-message", "hello", "--key", keyFileOf(t)).code)
}

func TestWalletTokensAndPolicy(t *testing.T) {
	f := newNode(t)
	v, c := newWallet(t, func(c *wallet.Config) { c.HTTP = "127.0.0.1:0" })
	token := filepath.Join(t.TempDir(), "token")
	w := func(args ...string) outcome {
		return run(t, append(args, "--wallet", v.HTTPURL(), "--node", f.url)...)
	}
	w("wallet", "list").fails(t, exitWallet, "token")
	made, _, err := wallet.NewToken(c.Dir, time.Hour, time.Now())
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(token, []byte(made+"\n"), 0o600))
	w("wallet", "list", "--wallet-token-file", token).succeeds(t)
	old, _, err := wallet.NewToken(c.Dir, time.Minute, time.Now().Add(-time.Hour))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(token, []byte(old), 0o600))
	o := w("wallet", "list", "--wallet-token-file", token)
	o.fails(t, exitWallet, "token", "expired")
	require.NotContains(t, o.err, old)
	require.NoError(t, os.Chmod(token, 0o644))
	w("wallet", "list", "--wallet-token-file", token).fails(t, exitWallet, "mode 0644")
	run(t, "wallet", "list", "--wallet", "/none/x.sock").fails(t, exitWallet, "there is no such socket; start borwallet")
}

// A wallet that signs something else than it was asked to is found out.
func TestWalletIsNotTrustedBlindly(t *testing.T) {
	f := newNode(t)
	evil := newServer(t)
	evil.says("wallet_list", []walletInfo{{Name: "a", Accounts: []common.Address{testAddress()}}})
	key, err := crypto.HexToECDSA(testKey)
	require.NoError(t, err)
	evil.on("eth_signTransaction", func([]json.RawMessage) (any, error) {
		to := common.HexToAddress(someone)
		tx, err := types.SignNewTx(key, types.LatestSignerForChainID(nil), &types.LegacyTx{To: &to, Gas: 21000})
		require.NoError(t, err)
		raw, _ := tx.MarshalBinary()
		return map[string]any{"raw": hexutil.Bytes(raw)}, nil
	})
	run(t, "send", someone, "1wei", "--node", f.url, "--wallet", evil.onSocket(t)).fails(t, exitWallet, "signed something else", "nothing was sent")
	require.Zero(t, f.called("eth_sendRawTransaction"))
	evil.says("eth_signTransaction", &rpcError{-32013, "the policy allows no more than 1 ether an hour: wait, or change the policy", nil})
	run(t, "send", someone, "1wei", "--node", f.url, "--wallet", evil.url).fails(t, exitWallet, "the policy allows no more than 1 ether an hour")
}
