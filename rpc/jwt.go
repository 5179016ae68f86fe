package rpc

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/bornode/bornode/internal/vfs"
)

const (
	secretBytes = 32
	tokenSlack  = 60 * time.Second // between the clocks of caller and node, as in the engine API
)

// loadSecret reads the secret that tokens are made with: 32 bytes in hex. A file that does not exist is made.
func loadSecret(path string) ([]byte, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		secret := make([]byte, secretBytes)
		_, _ = rand.Read(secret) // never fails
		return secret, writeSecret(path, secret)
	}
	if err != nil {
		return nil, fmt.Errorf("rpc.jwt_secret: %w", err)
	}
	fi, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("rpc.jwt_secret: %w", err)
	}
	if mode := fi.Mode().Perm(); mode&0o077 != 0 {
		return nil, fmt.Errorf("rpc.jwt_secret %s can be read by others (mode %o); run chmod 600 on it, and make a new secret if others use this machine", path, mode)
	}
	secret, err := hex.DecodeString(strings.TrimPrefix(strings.TrimSpace(string(b)), "0x"))
	if err != nil || len(secret) != secretBytes {
		return nil, fmt.Errorf("rpc.jwt_secret %s holds no %d bytes in hex; remove it and the node makes a new one", path, secretBytes)
	}
	return secret, nil
}

func writeSecret(path string, secret []byte) error {
	if err := vfs.CreateFileAt(path, []byte(hex.EncodeToString(secret)+"\n")); err != nil {
		return fmt.Errorf("make rpc.jwt_secret: %w", err)
	}
	return nil
}

// checkToken checks a JSON web token as the engine API asks for: HS256, and a fresh time of issue (iat).
func checkToken(secret []byte, token string, now time.Time) error {
	signed, sig, ok := cutLast(token)
	head, claims, two := strings.Cut(signed, ".")
	mac, err := base64.RawURLEncoding.DecodeString(sig)
	if !ok || !two || err != nil || len(token) > maxTokenBytes {
		return errors.New("it is no JSON web token")
	}
	h := hmac.New(sha256.New, secret)
	h.Write([]byte(signed))
	if !hmac.Equal(mac, h.Sum(nil)) {
		return errors.New("it was signed with another secret")
	}
	var kind struct{ Alg string }
	var said struct{ Iat, Exp *float64 }
	if decodePart(head, &kind) != nil || decodePart(claims, &said) != nil {
		return errors.New("it is no JSON web token")
	}
	at := float64(now.Unix())
	switch {
	case kind.Alg != "HS256":
		return fmt.Errorf("its algorithm is %q, this node takes HS256", kind.Alg)
	case said.Iat == nil:
		return errors.New("it does not say when it was issued (iat)")
	case at-*said.Iat > tokenSlack.Seconds():
		return fmt.Errorf("it was issued more than %s ago; check both clocks", tokenSlack)
	case *said.Iat-at > tokenSlack.Seconds():
		return fmt.Errorf("it was issued more than %s in the future; check both clocks", tokenSlack)
	case said.Exp != nil && at > *said.Exp:
		return errors.New("it has expired")
	}
	return nil
}

func cutLast(token string) (signed, sig string, ok bool) {
	i := strings.LastIndexByte(token, '.')
	if i < 0 {
		return "", "", false
	}
	return token[:i], token[i+1:], true
}

func decodePart(s string, to any) error {
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		return err
	}
	return json.Unmarshal(b, to)
}
