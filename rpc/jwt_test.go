package rpc

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/node"
	gethrpc "github.com/ethereum/go-ethereum/rpc"
	"github.com/stretchr/testify/require"
)

func token(secret []byte, head, claims any) string {
	part := func(v any) string {
		b, err := json.Marshal(v)
		if err != nil {
			panic(err)
		}
		return base64.RawURLEncoding.EncodeToString(b)
	}
	signed := part(head) + "." + part(claims)
	h := hmac.New(sha256.New, secret)
	h.Write([]byte(signed))
	return signed + "." + base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

type claims map[string]any

func TestTokens(t *testing.T) {
	secret, now := []byte("0123456789abcdef0123456789abcdef"), time.Unix(1_800_000_000, 0)
	at := now.Unix()
	head := claims{"alg": "HS256", "typ": "JWT"}
	good := token(secret, head, claims{"iat": at - 59, "exp": at + 1})
	require.NoError(t, checkToken(secret, good, now))
	require.NoError(t, checkToken(secret, token(secret, head, claims{"iat": at + 59}), now))
	for text, bad := range map[string]string{
		"no JSON web token":          "",
		"signed with another secret": token([]byte("another"), head, claims{"iat": at}),
		"its algorithm is \"none\"":  token(secret, claims{"alg": "none"}, claims{"iat": at}),
		"does not say when":          token(secret, head, claims{}),
		"more than 1m0s ago":         token(secret, head, claims{"iat": at - 61}),
		"in the future":              token(secret, head, claims{"iat": at + 61}),
		"has expired":                token(secret, head, claims{"iat": at, "exp": at - 1}),
		"is no JSON web token":       "a.b",
		"no JSON web token ":         good[:len(good)-1] + "!",
		"was signed with another":    good[:len(good)-4] + "AAAA",
	} {
		err := checkToken(secret, bad, now)
		require.Error(t, err, text)
		require.Contains(t, err.Error()+" ", text)
	}
}

func TestSecretFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jwt")
	made, err := loadSecret(path)
	require.NoError(t, err)
	require.Len(t, made, secretBytes)
	fi, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), fi.Mode().Perm())
	again, err := loadSecret(path)
	require.NoError(t, err)
	require.Equal(t, made, again)
	require.NoError(t, os.WriteFile(path, []byte("0x"+hex.EncodeToString(made)+"\n"), 0o600))
	again, err = loadSecret(path)
	require.NoError(t, err)
	require.Equal(t, made, again)
	require.NoError(t, os.Chmod(path, 0o640))
	_, err = loadSecret(path)
	require.ErrorContains(t, err, "can be read by others (mode 640); run chmod 600")
	require.NoError(t, os.Chmod(path, 0o600))
	require.NoError(t, os.WriteFile(path, []byte("1234"), 0o600))
	_, err = loadSecret(path)
	require.ErrorContains(t, err, "holds no 32 bytes in hex")
	require.NotContains(t, err.Error(), "1234")
}

// A token opens admin_ and all namespaces, over HTTP and WebSocket; without one, or with a bad one, nothing changes.
func TestAdminWithToken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jwt")
	n := newNet(t, 0, func(c *Config) { c.JWTSecret, c.Namespaces = path, []string{"eth"} })
	secret, err := loadSecret(path)
	require.NoError(t, err)
	for _, url := range []string{n.srv.HTTPURL(), n.srv.WSURL()} {
		c, err := gethrpc.DialOptions(bg, url, gethrpc.WithHTTPAuth(node.NewJWTAuth([secretBytes]byte(secret)))) // as Ethereum's clients do
		require.NoError(t, err)
		var info map[string]any
		require.NoError(t, c.Call(&info, "admin_nodeInfo"))
		require.Equal(t, n.extra.ID(), info["id"])
		c.Close()
		plain, err := gethrpc.Dial(url)
		require.NoError(t, err)
		requireCode(t, plain.Call(nil, "admin_nodeInfo"), -32601, "does not exist")
		requireCode(t, plain.Call(nil, "txpool_status"), -32601, "does not exist")
		plain.Close()
		_, err = gethrpc.DialOptions(bg, url, gethrpc.WithHTTPAuth(node.NewJWTAuth([secretBytes]byte{1})))
		if err == nil { // HTTP connects with the first call
			code, body, _ := post(t, url, `{"jsonrpc":"2.0","id":1,"method":"eth_chainId"}`, map[string]string{"Authorization": "Bearer " + token([]byte{1}, claims{"alg": "HS256"}, claims{"iat": time.Now().Unix()})})
			require.Equal(t, http.StatusUnauthorized, code)
			require.Contains(t, body, "signed with another secret; make one with the secret in rpc.jwt_secret")
		}
	}
}

func FuzzToken(f *testing.F) {
	secret := []byte("secret")
	f.Add(token(secret, claims{"alg": "HS256"}, claims{"iat": 5}))
	f.Add("..")
	f.Add(fmt.Sprint(nil))
	f.Fuzz(func(t *testing.T, s string) {
		if checkToken([]byte("another secret"), s, time.Unix(5, 0)) == nil {
			t.Fatal("a token of another secret is taken")
		}
	})
}
