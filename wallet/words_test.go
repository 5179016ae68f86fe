package wallet

import (
	"encoding/hex"
	"encoding/json"
	"hash/crc32"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The published list, byte for byte: crc32 of bip-0039/english.txt.
func TestWordListIsThePublishedOne(t *testing.T) {
	require.Equal(t, uint32(0xc1dbd296), crc32.ChecksumIEEE([]byte(englishWords)))
}

// The published vectors: entropy, words, seed under the passphrase TREZOR.
func TestMnemonicVectors(t *testing.T) {
	raw, err := os.ReadFile("testdata/bip39.json")
	require.NoError(t, err)
	var vectors [][3]string
	require.NoError(t, json.Unmarshal(raw, &vectors))
	require.Len(t, vectors, 24)
	for _, v := range vectors {
		entropy, err := hex.DecodeString(v[0])
		require.NoError(t, err)
		words, err := encodeMnemonic(entropy)
		require.NoError(t, err)
		require.Equal(t, v[1], words)
		require.NoError(t, checkMnemonic(words))
		seed, err := seedOf(words, "TREZOR")
		require.NoError(t, err)
		require.Equal(t, v[2], hex.EncodeToString(seed))
	}
}

// Every size of BIP-39 comes back; a changed word, a missing one and an unknown one are refused, and the refusal repeats
// no word.
func TestMnemonicChecksum(t *testing.T) {
	for bits := 128; bits <= 256; bits += 32 {
		mnemonic, err := drawMnemonic(bits)
		require.NoError(t, err)
		require.NoError(t, checkMnemonic(mnemonic))
		words := strings.Fields(mnemonic)
		require.Len(t, words, bits/32*3)
		refused := 0
		for _, w := range strings.Fields(englishWords) { // of 2048 last words those with a right checksum pass
			if checkMnemonic(strings.Join(append(words[:len(words)-1:len(words)-1], w), " ")) != nil {
				refused++
			}
		}
		require.Equal(t, 2048-2048>>(bits/32), refused)
		require.Error(t, checkMnemonic(strings.Join(words[1:], " ")))
		err = checkMnemonic(strings.Join(append([]string{"zebraa"}, words[1:]...), " "))
		require.ErrorIs(t, err, errMnemonic)
		require.NotContains(t, err.Error(), "zebraa")
	}
	for _, size := range []int{0, 12, 15, 17, 36} {
		_, err := encodeMnemonic(make([]byte, size))
		require.Error(t, err, size)
	}
	for _, text := range []string{"", " ", "abandon", strings.Repeat("abandon ", 27)} {
		require.Error(t, checkMnemonic(text), text)
	}
}
