package bls

import (
	"fmt"
	"math/big"
	"testing"

	"github.com/stretchr/testify/require"
)

// signedBy are the keys of n test keys and their parsed signatures on msg.
func signedBy(t testing.TB, n int, msg []byte) (keys [][KeyLength]byte, sigs []*Signature) {
	for i := range n {
		sig, err := ParseSignature(testKey(t, i).Sign(msg))
		require.NoError(t, err)
		keys, sigs = append(keys, testKey(t, i).PublicKey()), append(sigs, sig)
	}
	return keys, sigs
}

// added is the parsed sum of two signatures.
func added(t *testing.T, a, b [SignatureLength]byte) *Signature {
	sum, err := Aggregate([][SignatureLength]byte{a, b})
	require.NoError(t, err)
	s, err := ParseSignature(sum)
	require.NoError(t, err)
	return s
}

func TestParsedSignatures(t *testing.T) {
	msg := []byte("message")
	keys, sigs := signedBy(t, 5, msg)
	raw := make([][SignatureLength]byte, len(sigs))
	for i := range sigs {
		raw[i] = sigs[i].Bytes()
		require.Equal(t, testKey(t, i).Sign(msg), raw[i])
	}
	want, err := Aggregate(raw)
	require.NoError(t, err)
	got, err := AggregateParsed(sigs)
	require.NoError(t, err)
	require.Equal(t, want, got)
	require.True(t, VerifyAggregate(keys, msg, got))
	_, err = AggregateParsed(nil)
	require.ErrorIs(t, err, ErrSignature)
	_, err = ParseSignature([SignatureLength]byte{})
	require.ErrorIs(t, err, ErrSignature)
	_, err = ParseSignature([SignatureLength]byte{0xc0})
	require.ErrorIs(t, err, ErrSignature, "infinity")
}

func TestVerifyEach(t *testing.T) {
	msg := []byte("message")
	c := NewCache(0)
	for _, n := range []int{1, 2, 3, 40} {
		keys, sigs := signedBy(t, n, msg)
		require.True(t, c.VerifyEach(keys, msg, sigs), "%d", n)
		require.False(t, c.VerifyEach(keys, []byte("another"), sigs), "%d", n)
		require.False(t, c.VerifyEach(keys, msg, sigs[1:]))
		wrong, err := ParseSignature(testKey(t, 0).Sign([]byte("another")))
		require.NoError(t, err)
		sigs[n/2] = wrong
		require.False(t, c.VerifyEach(keys, msg, sigs), "%d", n)
	}
	require.False(t, c.VerifyEach(nil, msg, nil))
}

// Two forgeries whose wrongs cancel each other out: their plain sum verifies, neither of them does, and VerifyEach
// says so.
func TestVerifyEachSeesWrongsThatCancelOut(t *testing.T) {
	msg := []byte("message")
	keys, sigs := signedBy(t, 3, msg)
	k := testKey(t, 7)
	var negative [SecretLength]byte
	new(big.Int).Sub(groupOrder(), new(big.Int).SetBytes(k.Bytes())).FillBytes(negative[:])
	minus, err := SecretKeyFromBytes(negative[:])
	require.NoError(t, err)
	sigs[0] = added(t, sigs[0].Bytes(), k.Sign(msg))
	sigs[1] = added(t, sigs[1].Bytes(), minus.Sign(msg))
	sum, err := AggregateParsed(sigs)
	require.NoError(t, err)
	require.True(t, VerifyAggregate(keys, msg, sum), "the sum is right")
	require.False(t, Verify(keys[0], msg, sigs[0].Bytes()))
	c := NewCache(0)
	for range 20 {
		require.False(t, c.VerifyEach(keys, msg, sigs), "though its parts are not")
	}
	require.True(t, c.VerifyEach(keys[2:], msg, sigs[2:]))
}

// What a vote costs: parsing, one verification, and one of a batch.
func BenchmarkVotes(b *testing.B) {
	msg := []byte("0123456789abcdef0123456789abcdef")
	c := NewCache(0)
	b.Run("parse", func(b *testing.B) {
		sig := testKey(b, 1).Sign(msg)
		for b.Loop() {
			if _, err := ParseSignature(sig); err != nil {
				b.Fatal(err)
			}
		}
	})
	for _, n := range []int{1, 2, 4, 8, 16, 32, 64} {
		keys, sigs := signedBy(b, n, msg)
		b.Run(fmt.Sprintf("each of %d", n), func(b *testing.B) {
			for b.Loop() {
				if !c.VerifyEach(keys, msg, sigs) {
					b.Fatal("refused")
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*n), "us/vote")
		})
	}
	keys, sigs := signedBy(b, 16, msg)
	b.Run("sum of 16", func(b *testing.B) {
		for b.Loop() {
			sum, err := AggregateParsed(sigs)
			if err != nil || !c.VerifyAggregate(keys, msg, sum) {
				b.Fatal("refused")
			}
		}
	})
}
