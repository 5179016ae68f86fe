package wallet

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	gethrpc "github.com/ethereum/go-ethereum/rpc"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	gethlog "github.com/ethereum/go-ethereum/log"
)

// paper is a log that is read afterwards.
type paper struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (p *paper) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.b.Write(b)
}

func (p *paper) Sync() error { return nil }

// Neither the log nor an answer nor an error ever holds a password, a key or a word, whatever goes wrong.
func TestNoSecretsAreTold(t *testing.T) {
	log := &paper{}
	was := gethlog.Root()
	gethlog.SetDefault(gethlog.NewLogger(gethlog.NewTerminalHandlerWithLevel(log, gethlog.LevelTrace, false)))
	t.Cleanup(func() { gethlog.SetDefault(was) })
	s, err := Open(testConfig(t), testLog(t, log), nil)
	require.NoError(t, err)
	s.n, s.p = 2, 1
	t.Cleanup(s.Close)
	_, cl := serve(t, s)

	secrets := []string{"Pa55word-one", "Pa55word-two", "Pa55word-file", "Pa55word-guess", "zebra", "abandon", "Pa55phrase",
		"4c0883a69102937d6231471b5dbb6204fe5129617082792ae468d01a3f362318"}
	words := "abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon about"
	key, file := newKey()
	text, err := sealKey(key, file, secrets[2], 2, 1)
	require.NoError(t, err)
	secrets = append(secrets, hex.EncodeToString(key))
	hexKey := "0x" + secrets[7]
	signer := common.HexToAddress("0x2c7536E3605D9C16a7a3D7b1898e529396a65c23")

	told := &paper{}
	call := func(method string, args ...any) {
		var out any
		err := cl.CallContext(within60(t), &out, method, args...)
		fmt.Fprintln(told, method, out, err)
	}
	call("wallet_create", "a", secrets[0])
	call("wallet_create", "a", secrets[0])
	call("wallet_create", secrets[0], "a") // in the wrong order
	call("wallet_unlock", secrets[0], "a", 60)
	call("wallet_create", 7, secrets[0])
	call("wallet_newAccount", "a", secrets[0])
	call("wallet_importKey", "a", secrets[0], hexKey)
	call("wallet_importKey", "a", secrets[0], hexKey)
	call("wallet_importKey", "a", secrets[0], hexKey+"00")
	call("wallet_importKey", "a", secrets[0], map[string]any{"key": hexKey})
	call("wallet_importKeystore", "a", secrets[0], string(text), secrets[3])
	call("wallet_importKeystore", "a", secrets[0], string(text), secrets[2])
	call("wallet_importKeystore", "a", secrets[0], "zebra", secrets[2])
	call("wallet_importMnemonic", "a", secrets[0], words, secrets[6], "", 2)
	call("wallet_importMnemonic", "a", secrets[0], words+" zebra", secrets[6], "", 2)
	call("wallet_importMnemonic", "a", secrets[0], strings.Replace(words, "about", "zebraa", 1), secrets[6], "", 2)
	call("wallet_importMnemonic", "a", secrets[0], []string{words}, secrets[6], "", 2)
	call("wallet_unlock", "a", secrets[0], 600)
	call("wallet_unlock", "a", secrets[0], secrets[1])
	call("personal_sign", hexutil.Bytes("hello"), signer)
	call("eth_signTypedData_v4", signer, mail)
	call("eth_sign", signer, hexutil.Bytes(make([]byte, 32)))
	call("wallet_export", "a", secrets[0], signer, "keystore")
	call("wallet_export", "a", secrets[0], signer, "words")
	call("wallet_changePassword", "a", secrets[0], secrets[1])
	call("wallet_unlock", "a", secrets[3], 600)
	call("wallet_unlock", "a", secrets[3], 600)
	call("wallet_list")
	call("wallet_lockAll")
	// The one call that tells a key says in the log that it did.
	var exported string
	require.NoError(t, gethErr(cl, &exported, "wallet_create", "b", secrets[1]))
	require.NoError(t, gethErr(cl, nil, "wallet_importKey", "b", secrets[1], hexKey))
	require.NoError(t, gethErr(cl, &exported, "wallet_export", "b", secrets[1], signer, "key"))
	require.Equal(t, hexKey, exported)

	log.mu.Lock()
	defer log.mu.Unlock()
	for _, p := range []string{log.b.String(), told.b.String()} {
		require.NotEmpty(t, p)
		for _, secret := range secrets {
			require.NotContains(t, strings.ToLower(p), strings.ToLower(secret))
		}
	}
	require.Contains(t, log.b.String(), "key exported")
	require.Contains(t, log.b.String(), "wrong password")
	require.Contains(t, log.b.String(), `text \"hello\"`, zap.String("the log", "shows what was signed"))
}

func gethErr(cl *gethrpc.Client, out any, method string, args ...any) error {
	return cl.Call(out, method, args...)
}
