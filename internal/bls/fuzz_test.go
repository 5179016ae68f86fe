package bls

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzKey: arbitrary bytes never panic, and what is accepted survives a round trip through the uncompressed form's
// length and the validity check alike.
func FuzzKey(f *testing.F) {
	k := testKey(f, 0).PublicKey()
	f.Add(k[:])
	f.Add([]byte{0xc0})
	f.Add(make([]byte, KeyLength))
	f.Fuzz(func(t *testing.T, b []byte) {
		var k [KeyLength]byte
		copy(k[:], b)
		raw, err := UncompressG1(k)
		require.Equal(t, err == nil, ValidatePublicKey(k) == nil)
		if err == nil {
			require.Len(t, raw, 128)
			p, err := parseKey(&k)
			require.NoError(t, err)
			require.False(t, verifySum([]*keyPoint{p}, b, mustSignature(t)))
		}
	})
}

func mustSignature(t *testing.T) *signaturePoint {
	s := testKey(t, 1).Sign([]byte("never the fuzzed message"))
	p, err := parseSignature(&s)
	require.NoError(t, err)
	return p
}

func FuzzSignature(f *testing.F) {
	s := testKey(f, 0).Sign([]byte("m"))
	f.Add(s[:])
	f.Add([]byte{0xc0})
	f.Add(make([]byte, SignatureLength))
	f.Fuzz(func(t *testing.T, b []byte) {
		var s [SignatureLength]byte
		copy(s[:], b)
		raw, err := UncompressG2(s)
		if err != nil {
			require.ErrorIs(t, err, ErrSignature)
			require.False(t, Verify(testKey(t, 0).PublicKey(), []byte("m"), s))
			return
		}
		require.Len(t, raw, 256)
		one, err := Aggregate([][SignatureLength]byte{s})
		require.NoError(t, err)
		require.Equal(t, s, one, "an accepted encoding is the only one of its point")
	})
}
