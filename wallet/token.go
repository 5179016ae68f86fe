package wallet

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/bornode/bornode/internal/vfs"
)

// A token is its expiry (unix seconds), 16 random bytes and a MAC over both under the secret of the folder, so tokens
// need no store: a new secret ends them all.
const (
	tokenFile   = "token.key" // the secret
	tokenPrefix = "bw1."
	tokenBody   = 8 + 16
	tokenDomain = "borwallet-token-1"
)

// NewToken makes a token for the HTTP address of the daemon that uses the folder, running or not.
func NewToken(dir string, life time.Duration, now time.Time) (token string, expires time.Time, err error) {
	if life < time.Second || life > MaxTokenLife {
		return "", time.Time{}, fmt.Errorf("a token lives 1s to %s: choose such a time", MaxTokenLife)
	}
	secret, err := tokenSecret(dir, true)
	if err != nil {
		return "", time.Time{}, err
	}
	defer clear(secret)
	expires = now.Add(life).Truncate(time.Second)
	body := binary.BigEndian.AppendUint64(nil, uint64(expires.Unix()))
	body = append(body, make([]byte, 16)...)
	_, _ = rand.Read(body[8:]) // never fails
	return tokenPrefix + base64.RawURLEncoding.EncodeToString(append(body, tokenMAC(secret, body)...)), expires, nil
}

// RevokeTokens ends every token that was made for the folder.
func RevokeTokens(dir string) error {
	err := os.Remove(filepath.Join(dir, tokenFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// checkToken returns an error of CodeToken unless the token is good.
func checkToken(dir, token string, now time.Time) error {
	if token == "" {
		return fail(CodeToken, "the token is missing: make one with borwallet token and send it as Authorization: Bearer TOKEN")
	}
	wrong := fail(CodeToken, "the token is not one of this wallet, or was revoked: make one with borwallet token")
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(token, tokenPrefix))
	if err != nil || len(token) > 256 || !strings.HasPrefix(token, tokenPrefix) || len(raw) != tokenBody+sha256.Size {
		return wrong
	}
	secret, err := tokenSecret(dir, false)
	if errors.Is(err, fs.ErrNotExist) {
		return wrong
	}
	if err != nil {
		return internal("the token cannot be checked: %v", err)
	}
	defer clear(secret)
	if !hmac.Equal(raw[tokenBody:], tokenMAC(secret, raw[:tokenBody])) { // in constant time
		return wrong
	}
	if expiry := time.Unix(int64(binary.BigEndian.Uint64(raw)), 0); !now.Before(expiry) {
		return fail(CodeToken, "the token expired at %s: make a new one with borwallet token", expiry.UTC().Format(time.RFC3339))
	}
	return nil
}

func tokenMAC(secret, body []byte) []byte {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(tokenDomain))
	mac.Write(body)
	return mac.Sum(nil)
}

// tokenSecret reads the secret of a folder; if told to it makes a missing one.
func tokenSecret(dir string, create bool) ([]byte, error) {
	path := filepath.Join(dir, tokenFile)
	secret, err := readSecret(path, 32)
	if errors.Is(err, fs.ErrNotExist) && create {
		if err := makeDir(dir); err != nil {
			return nil, err
		}
		fresh := make([]byte, 32)
		_, _ = rand.Read(fresh) // never fails
		if err := createSecret(dir, tokenFile, fresh); err != nil {
			return nil, err
		}
		secret, err = readSecret(path, 32)
		if err != nil {
			return nil, err
		}
	}
	if err == nil && len(secret) != 32 {
		err = fmt.Errorf("%s is damaged: remove it, and make new tokens", path)
	}
	return secret, err
}

// createSecret makes a file that is whole when it appears; one that is already there stays.
func createSecret(dir, name string, text []byte) error {
	err := vfs.CreateFileAt(filepath.Join(dir, name), text)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}
