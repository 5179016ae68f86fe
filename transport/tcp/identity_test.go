package tcp

import (
	"crypto/rand"
	"encoding/base64"
	"os"
	"path/filepath"
	"testing"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/stretchr/testify/require"
)

// TestDamagedIdentityIsRefused: one changed bit anywhere in the key file is an error that names the file. A key whose
// halves differ would give the node its own name, which no peer believes.
func TestDamagedIdentityIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "identity.key")
	_, err := LoadOrCreateIdentity(path)
	require.NoError(t, err)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	raw, err := base64.StdEncoding.DecodeString(string(text[:len(text)-1]))
	require.NoError(t, err)
	for at := range raw {
		damaged := append([]byte(nil), raw...)
		damaged[at] ^= 4
		require.NoError(t, os.WriteFile(path, []byte(base64.StdEncoding.EncodeToString(damaged)), 0o600))
		_, err := LoadOrCreateIdentity(path)
		require.ErrorContains(t, err, path, "byte %d", at)
		require.ErrorContains(t, err, "put it back from a copy", "byte %d", at)
	}
}

func TestKeyPairsOfAllKinds(t *testing.T) {
	for _, kind := range []int{crypto.Ed25519, crypto.Secp256k1, crypto.ECDSA} {
		key, _, err := crypto.GenerateKeyPairWithReader(kind, 2048, rand.Reader)
		require.NoError(t, err)
		require.NoError(t, checkKeyPair(key))
	}
}
