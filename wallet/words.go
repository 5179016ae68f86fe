package wallet

import (
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// englishWords is the English word list of BIP-39, one word a line, sorted. The list and the test vectors
// (testdata/bip39.json) are those of the reference implementation, github.com/trezor/python-mnemonic, which is under
// the MIT licence: Copyright (c) 2013 Pavol Rusnak.
//
//go:embed words.txt
var englishWords string

// Sizes of BIP-39: a word stands for 11 bits, 32 bits of entropy have one bit of checksum.
const (
	wordBits        = 11
	entropyStep     = 4 // bytes
	minEntropyBytes = 16
	maxEntropyBytes = 32
	seedBytes       = 64
	seedIterations  = 2048
)

var errMnemonic = errors.New("the words are no mnemonic of BIP-39")

// drawMnemonic makes a mnemonic of that much new entropy.
func drawMnemonic(bits int) (string, error) {
	entropy := make([]byte, bits/8)
	defer clear(entropy)
	if _, err := rand.Read(entropy); err != nil {
		return "", fmt.Errorf("read random bytes: %w", err)
	}
	return encodeMnemonic(entropy)
}

// encodeMnemonic writes entropy of 16, 20, 24, 28 or 32 bytes as words (BIP-39, "Generating the mnemonic").
func encodeMnemonic(entropy []byte) (string, error) {
	if n := len(entropy); n < minEntropyBytes || n > maxEntropyBytes || n%entropyStep != 0 {
		return "", fmt.Errorf("%d bytes of entropy are no size of BIP-39", n)
	}
	list := strings.Fields(englishWords)
	checked := appendChecksum(entropy)
	defer clear(checked)
	words := make([]string, len(entropy)*3/entropyStep)
	for i := range words {
		index := 0
		for bit := i * wordBits; bit < (i+1)*wordBits; bit++ {
			index = index<<1 | int(checked[bit/8]>>(7-bit%8)&1)
		}
		words[i] = list[index]
	}
	return strings.Join(words, " "), nil
}

// checkMnemonic reports whether the words, apart by single blanks, are a mnemonic with a right checksum. Its error
// repeats no word.
func checkMnemonic(mnemonic string) error {
	words := strings.Split(mnemonic, " ")
	size := len(words) / 3 * entropyStep
	if len(words)%3 != 0 || size < minEntropyBytes || size > maxEntropyBytes {
		return errMnemonic
	}
	list := strings.Fields(englishWords)
	given := make([]byte, size+1)
	defer clear(given)
	for i, w := range words {
		index, found := slices.BinarySearch(list, w)
		if !found {
			return errMnemonic
		}
		for b := range wordBits {
			bit := i*wordBits + b
			given[bit/8] |= byte(index>>(wordBits-1-b)&1) << (7 - bit%8)
		}
	}
	right := appendChecksum(given[:size])
	defer clear(right)
	unused := 8 - size/entropyStep
	if given[size] != right[size]>>unused<<unused {
		return errMnemonic
	}
	return nil
}

// appendChecksum returns a copy of the entropy with the first byte of its SHA-256 behind it.
func appendChecksum(entropy []byte) []byte {
	sum := sha256.Sum256(entropy)
	return append(append(make([]byte, 0, len(entropy)+1), entropy...), sum[0])
}

// seedOf derives the seed of a mnemonic (BIP-39, "From mnemonic to seed"). Words and passphrase are ASCII, so they are
// their own NFKD form. The caller overwrites the seed.
func seedOf(mnemonic, passphrase string) ([]byte, error) {
	return pbkdf2.Key(sha512.New, mnemonic, []byte("mnemonic"+passphrase), seedIterations, seedBytes)
}
