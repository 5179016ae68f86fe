package bls

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/vm"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/params"
	"github.com/stretchr/testify/require"
)

var rewrite = flag.Bool("rewrite", false, "write the golden vectors anew")

type vector struct {
	Secret       string `json:"secret"`
	Message      string `json:"message"`
	Key          string `json:"key"`
	Key128       string `json:"key_eip2537"`
	Signature    string `json:"signature"`
	Signature256 string `json:"signature_eip2537"`
}

type vectors struct {
	Single    []vector `json:"single"`
	Message   string   `json:"aggregate_message"`
	Aggregate string   `json:"aggregate"` // of all single keys on aggregate_message
}

const vectorFile = "testdata/vectors.json"

// testKey is a fixed key per number, the same in both implementations.
func testKey(t testing.TB, n int) *SecretKey {
	seed := crypto.Keccak256([]byte(fmt.Sprintf("bornode test key %d", n)))
	k, err := GenerateKey(bytes.NewReader(append(seed, seed...)))
	require.NoError(t, err)
	return k
}

func makeVectors(t *testing.T) vectors {
	v := vectors{Message: hex.EncodeToString([]byte("a block"))}
	var sigs [][SignatureLength]byte
	for i, msg := range [][]byte{{}, []byte("vote"), bytes.Repeat([]byte{0xff}, 32), bytes.Repeat([]byte("x"), 200)} {
		k := testKey(t, i)
		pk, sig := k.PublicKey(), k.Sign(msg)
		k128, err := UncompressG1(pk)
		require.NoError(t, err)
		s256, err := UncompressG2(sig)
		require.NoError(t, err)
		h := hex.EncodeToString
		v.Single = append(v.Single, vector{h(k.Bytes()), h(msg), h(pk[:]), h(k128), h(sig[:]), h(s256)})
		sigs = append(sigs, k.Sign([]byte("a block")))
	}
	agg, err := Aggregate(sigs)
	require.NoError(t, err)
	v.Aggregate = hex.EncodeToString(agg[:])
	return v
}

// TestGolden runs in both builds: the implementations agree byte for byte because both agree with the file.
func TestGolden(t *testing.T) {
	got, err := json.MarshalIndent(makeVectors(t), "", "  ")
	require.NoError(t, err)
	got = append(got, '\n')
	if *rewrite {
		require.NoError(t, os.MkdirAll(filepath.Dir(vectorFile), 0o755))
		require.NoError(t, os.WriteFile(vectorFile, got, 0o644))
	}
	want, err := os.ReadFile(vectorFile)
	require.NoError(t, err)
	require.Equal(t, string(want), string(got), "%s differs from the golden vectors", Implementation)
}

func TestVerify(t *testing.T) {
	a, b := testKey(t, 1), testKey(t, 2)
	msg := []byte("message")
	sig := a.Sign(msg)
	require.True(t, Verify(a.PublicKey(), msg, sig))
	require.False(t, Verify(a.PublicKey(), []byte("massage"), sig))
	require.False(t, Verify(b.PublicKey(), msg, sig))
	for _, bit := range []int{0, 7, 100, 767} {
		bad := sig
		bad[bit/8] ^= 1 << (bit % 8)
		require.False(t, Verify(a.PublicKey(), msg, bad), "bit %d", bit)
	}
}

func TestAggregate(t *testing.T) {
	msg := []byte("message")
	var keys [][KeyLength]byte
	var sigs [][SignatureLength]byte
	for i := range 7 {
		keys = append(keys, testKey(t, i).PublicKey())
		sigs = append(sigs, testKey(t, i).Sign(msg))
	}
	agg, err := Aggregate(sigs)
	require.NoError(t, err)
	cache := NewCache(4)
	for range 2 { // the second time from the cache
		require.True(t, VerifyAggregate(keys, msg, agg))
		require.True(t, cache.VerifyAggregate(keys, msg, agg))
		require.False(t, cache.VerifyAggregate(keys[:6], msg, agg))
		require.False(t, cache.VerifyAggregate(keys, []byte("other"), agg))
		require.False(t, VerifyAggregate(keys[1:], msg, agg))
	}
	require.LessOrEqual(t, cache.Len(), 4)
	require.True(t, cache.Verify(keys[0], msg, sigs[0]))
	require.False(t, VerifyAggregate(nil, msg, agg))

	// A key counted twice needs its signature twice.
	twice, err := Aggregate([][SignatureLength]byte{sigs[0], sigs[0]})
	require.NoError(t, err)
	require.True(t, VerifyAggregate([][KeyLength]byte{keys[0], keys[0]}, msg, twice))
	require.False(t, VerifyAggregate(keys[:1], msg, twice))

	_, err = Aggregate(nil)
	require.ErrorIs(t, err, ErrSignature)
	_, err = Aggregate([][SignatureLength]byte{sigs[0], {}})
	require.ErrorIs(t, err, ErrSignature)
	require.ErrorContains(t, err, "signature 1")
}

// Keys that cancel out, and a signature at infinity, must not verify anything.
func TestInfinity(t *testing.T) {
	r := groupOrder()
	k := testKey(t, 1)
	var neg [SecretLength]byte
	new(big.Int).Sub(r, new(big.Int).SetBytes(k.Bytes())).FillBytes(neg[:])
	minus, err := SecretKeyFromBytes(neg[:])
	require.NoError(t, err)
	msg := []byte("message")
	zero, err := Aggregate([][SignatureLength]byte{k.Sign(msg), minus.Sign(msg)})
	require.NoError(t, err)
	require.Equal(t, byte(0xc0), zero[0])
	keys := [][KeyLength]byte{k.PublicKey(), minus.PublicKey()}
	require.False(t, VerifyAggregate(keys, msg, zero))
	require.False(t, VerifyAggregate(keys, msg, k.Sign(msg)))
	_, err = UncompressG2(zero)
	require.ErrorIs(t, err, ErrSignature)
	require.ErrorIs(t, ValidatePublicKey([KeyLength]byte{0xc0}), ErrKey)
}

func TestRefusedEncodings(t *testing.T) {
	good := testKey(t, 3).PublicKey()
	require.NoError(t, ValidatePublicKey(good))
	uncompressed, unsorted := good, good
	uncompressed[0] &^= 0x80
	unsorted[0] |= 0x40
	tooBig := [KeyLength]byte{0x9a}
	copy(tooBig[1:], bytes.Repeat([]byte{0xff}, 47))
	// x = 4 is on the curve but outside the subgroup.
	outside := [KeyLength]byte{0x80}
	outside[47] = 4
	for name, k := range map[string][KeyLength]byte{
		"zero": {}, "no compression flag": uncompressed, "infinity flag on a point": unsorted,
		"x above the field": tooBig, "outside the subgroup": outside,
	} {
		require.ErrorIs(t, ValidatePublicKey(k), ErrKey, name)
		_, err := UncompressG1(k)
		require.ErrorIs(t, err, ErrKey, name)
		require.False(t, Verify(k, nil, testKey(t, 3).Sign(nil)), name)
		require.False(t, NewCache(1).Verify(k, nil, testKey(t, 3).Sign(nil)), name)
	}
}

func TestSecretKey(t *testing.T) {
	k, err := GenerateKey(rand.Reader)
	require.NoError(t, err)
	again, err := SecretKeyFromBytes(k.Bytes())
	require.NoError(t, err)
	require.Equal(t, k.PublicKey(), again.PublicKey())
	require.NotContains(t, fmt.Sprintf("%v %+v %#v %s", k, k, k, k), hex.EncodeToString(k.Bytes()))

	var r [SecretLength]byte
	groupOrder().FillBytes(r[:])
	for name, b := range map[string][]byte{"zero": make([]byte, 32), "order": r[:], "short": make([]byte, 31), "nil": nil} {
		_, err := SecretKeyFromBytes(b)
		require.ErrorIs(t, err, ErrKey, name)
	}
	_, err = GenerateKey(bytes.NewReader(nil))
	require.Error(t, err)
}

// The uncompressed forms are what the pairing precompile takes: e(key, H) = e(g1, signature) checked for a message whose
// hash is itself a signature by the key 1.
func TestPrecompileForms(t *testing.T) {
	one := make([]byte, SecretLength)
	one[31] = 1
	unit, err := SecretKeyFromBytes(one) // its public key is the generator, its signature the hash
	require.NoError(t, err)
	minusOne := new(big.Int).Sub(groupOrder(), big.NewInt(1)).Bytes()
	negative, err := SecretKeyFromBytes(minusOne)
	require.NoError(t, err)
	k, msg := testKey(t, 5), []byte("paired")

	var input []byte
	for _, pair := range []struct {
		key [KeyLength]byte
		sig [SignatureLength]byte
	}{{k.PublicKey(), unit.Sign(msg)}, {negative.PublicKey(), k.Sign(msg)}} {
		g1, err := UncompressG1(pair.key)
		require.NoError(t, err)
		g2, err := UncompressG2(pair.sig)
		require.NoError(t, err)
		input = append(append(input, g1...), g2...)
	}
	rules := params.Rules{IsPrague: true, IsOsaka: true}
	pairing := vm.ActivePrecompiledContracts(rules)[common.BytesToAddress([]byte{0x0f})]
	out, err := pairing.Run(input)
	require.NoError(t, err)
	require.Equal(t, common.BigToHash(big.NewInt(1)).Bytes(), out)
	input[383] ^= 1 // the last byte of the first pair
	out, err = pairing.Run(input)
	require.True(t, err != nil || out[31] == 0)
}
