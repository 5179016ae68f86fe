package token

import (
	"crypto/ecdsa"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/accounts"
	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/contracts"
)

const chain = 4711

var now = time.Unix(1_790_000_000, 0)

func key(t testing.TB, seed byte) (*ecdsa.PrivateKey, common.Address) {
	k, err := crypto.ToECDSA(common.LeftPadBytes([]byte{seed}, 32))
	require.NoError(t, err)
	return k, crypto.PubkeyToAddress(k.PublicKey)
}

func signed(t testing.TB, change func(*Token)) *Token {
	k, a := key(t, 1)
	tok := New(chain, a, now, time.Hour, Data|Admin)
	if change != nil {
		change(tok)
	}
	require.NoError(t, tok.Sign(k))
	return tok
}

func pseudonym(t testing.TB, change func(*Certificate)) *Token {
	auditor, _ := key(t, 2)
	tok := signed(t, func(tok *Token) { tok.Scope = Data })
	tok.Certificate = &Certificate{ChainID: chain, Topic: [32]byte{7}, Epoch: 3, Pseudonym: tok.Account, Rights: Read | Write,
		Expires: uint64(now.Add(2 * time.Hour).Unix())}
	if change != nil {
		change(tok.Certificate)
	}
	require.NoError(t, tok.Certificate.Sign(auditor))
	return tok
}

func TestTextFormKeepsEverything(t *testing.T) {
	for _, tok := range []*Token{signed(t, nil), pseudonym(t, nil)} {
		s := tok.String()
		require.LessOrEqual(t, len(s), MaxText)
		back, err := Parse(s)
		require.NoError(t, err)
		require.Equal(t, tok, back)
		require.NoError(t, back.Verify(now, chain))
	}
	c := pseudonym(t, nil).Certificate
	back, err := ParseCertificate(c.String())
	require.NoError(t, err)
	require.Equal(t, c, back)
	a, err := back.Auditor()
	require.NoError(t, err)
	_, auditor := key(t, 2)
	require.Equal(t, auditor, a)
}

// The contract computes the same with abi.encode.
func TestDigestsAreTheABIs(t *testing.T) {
	ty := func(s string) abi.Argument {
		x, err := abi.NewType(s, "", nil)
		require.NoError(t, err)
		return abi.Argument{Type: x}
	}
	tok := pseudonym(t, nil)
	args := abi.Arguments{ty("string"), ty("uint256"), ty("address"), ty("address"), ty("uint64"), ty("uint64"), ty("uint8"), ty("bytes32")}
	b, err := args.Pack("bornode token", big.NewInt(chain), Contract, tok.Account, tok.Issued, tok.Expires, tok.Scope, tok.Nonce)
	require.NoError(t, err)
	require.Equal(t, common.BytesToHash(accounts.TextHash(crypto.Keccak256(b))), tok.Digest())

	c := tok.Certificate
	args = abi.Arguments{ty("string"), ty("uint256"), ty("address"), ty("bytes32"), ty("uint32"), ty("address"), ty("uint8"), ty("uint64")}
	b, err = args.Pack("bornode pseudonym", big.NewInt(chain), Contract, c.Topic, c.Epoch, c.Pseudonym, c.Rights, c.Expires)
	require.NoError(t, err)
	require.Equal(t, common.BytesToHash(accounts.TextHash(crypto.Keccak256(b))), c.Digest())
}

func TestVerifyRefuses(t *testing.T) {
	after := func(d time.Duration) uint64 { return uint64(now.Add(d).Unix()) }
	for name, x := range map[string]struct {
		change func(*Token)
		want   error
	}{
		"issued ahead of our clock, within the skew": {func(k *Token) { k.Issued = after(ClockSkew) }, nil},
		"issued later":         {func(k *Token) { k.Issued = after(ClockSkew + time.Second) }, ErrNotYetValid},
		"a day long":           {func(k *Token) { k.Expires = after(MaxLife) }, nil},
		"longer than a day":    {func(k *Token) { k.Expires = after(MaxLife + time.Second) }, ErrTooLong},
		"expires now":          {func(k *Token) { k.Issued, k.Expires = after(-time.Hour), after(0) }, ErrExpired},
		"ends before it began": {func(k *Token) { k.Expires = k.Issued - 1 }, ErrMalformed},
		"no scope":             {func(k *Token) { k.Scope = 0 }, ErrMalformed},
		"unknown scope":        {func(k *Token) { k.Scope = 4 }, ErrMalformed},
		"other chain":          {func(k *Token) { k.ChainID++ }, ErrWrongChain},
		"times past reason":    {func(k *Token) { k.Issued, k.Expires = 1<<63, 1<<63+5 }, ErrMalformed},
	} {
		require.ErrorIs(t, signed(t, x.change).Verify(now, chain), x.want, name)
	}
	for name, change := range map[string]func(*Token){
		"account": func(k *Token) { k.Account[3]++ }, "issued": func(k *Token) { k.Issued-- }, "expires": func(k *Token) { k.Expires++ },
		"scope": func(k *Token) { k.Scope = Admin }, "nonce": func(k *Token) { k.Nonce[31]++ },
		"r": func(k *Token) { k.Signature[5]++ }, "v": func(k *Token) { k.Signature[64] ^= 7 }, "raw v": func(k *Token) { k.Signature[64] -= 27 },
		"none": func(k *Token) { k.Signature = [65]byte{} },
		"high s": func(k *Token) {
			s := new(big.Int).Sub(crypto.S256().Params().N, wordOf(k.Signature[32:64]))
			s.FillBytes(k.Signature[32:64])
			k.Signature[64] = 27 + 28 - k.Signature[64]
		},
	} {
		tok := signed(t, nil)
		change(tok)
		require.ErrorIs(t, tok.Verify(now, chain), ErrSignature, name)
	}
}

func TestVerifyRefusesCertificates(t *testing.T) {
	require.NoError(t, pseudonym(t, nil).Verify(now, chain))
	for name, change := range map[string]func(*Certificate){
		"of another":     func(c *Certificate) { c.Pseudonym[0]++ },
		"expired":        func(c *Certificate) { c.Expires = uint64(now.Unix()) },
		"without rights": func(c *Certificate) { c.Rights = 0 },
		"unknown rights": func(c *Certificate) { c.Rights = 8 },
	} {
		require.ErrorIs(t, pseudonym(t, change).Verify(now, chain), ErrCertificate, name)
	}
	tok := pseudonym(t, nil)
	tok.Certificate.Signature = [65]byte{}
	require.ErrorIs(t, tok.Verify(now, chain), ErrCertificate)

	k, _ := key(t, 1)
	tok = pseudonym(t, nil)
	tok.Scope = Data | Admin // the ledger knows no pseudonyms
	require.NoError(t, tok.Sign(k))
	require.ErrorIs(t, tok.Verify(now, chain), ErrCertificate)

	tok = pseudonym(t, func(c *Certificate) { c.Expires = uint64(now.Add(time.Minute).Unix()) })
	require.Equal(t, now.Add(time.Minute), tok.ExpiresAt())
}

func TestSignWantsTheKeyOfTheAccount(t *testing.T) {
	other, _ := key(t, 9)
	require.ErrorContains(t, signed(t, nil).Sign(other), "sign with the account's own key")
}

func TestParseRefuses(t *testing.T) {
	good := pseudonym(t, nil).String()
	for _, s := range []string{"", prefix, "password", good[1:], good + "A", good[:len(good)-4], good + "=", "bps2." + good[5:],
		good[:50] + "\n" + good[50:], prefix + strings.Repeat("A", MaxText), signed(t, nil).String() + good[len(good)-4:]} {
		_, err := Parse(s)
		require.ErrorIs(t, err, ErrMalformed, s)
	}
	cert := pseudonym(t, nil).Certificate.String()
	for _, s := range []string{"", good, cert + "A", cert[:20] + "\r" + cert[20:], cert[:len(cert)-2]} {
		_, err := ParseCertificate(s)
		require.ErrorIs(t, err, ErrCertificate, s)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(signed(f, nil).String())
	f.Add(pseudonym(f, nil).String())
	f.Add(pseudonym(f, nil).Certificate.String())
	f.Fuzz(func(t *testing.T, s string) {
		if tok, err := Parse(s); err == nil {
			require.Equal(t, s, tok.String())
			_ = tok.Verify(now, tok.ChainID)
			_ = tok.ExpiresAt()
		}
		if c, err := ParseCertificate(s); err == nil {
			require.Equal(t, s, c.String())
			_ = c.Valid(now, c.ChainID)
		}
	})
}

// The contract's own package computes the same digest, for the same address.
func TestDigestIsTheContracts(t *testing.T) {
	tok := signed(t, nil)
	require.Equal(t, contracts.TopicsAddress, Contract)
	require.Equal(t, contracts.TokenDigest(tok.ChainID, contracts.Token{Account: tok.Account, Issued: tok.Issued, Expires: tok.Expires,
		Scope: tok.Scope, Nonce: tok.Nonce}), tok.Digest())
}

func TestWalletsSignTheMessage(t *testing.T) {
	k, a := key(t, 1)
	_, other := key(t, 2)
	tok := New(chain, a, now, time.Hour, Data)
	sig, err := crypto.Sign(accounts.TextHash(tok.Message()), k)
	require.NoError(t, err)
	require.NoError(t, tok.SetSignature(sig))
	require.NoError(t, tok.Verify(now, chain))
	sig[64] += 27
	require.NoError(t, tok.SetSignature(sig))
	require.Error(t, tok.SetSignature(sig[:64]))
	sig[0] ^= 1
	require.Error(t, tok.SetSignature(sig))
	c := &Certificate{ChainID: chain, Pseudonym: other, Rights: Read, Expires: uint64(now.Add(time.Hour).Unix())}
	sig, err = crypto.Sign(accounts.TextHash(c.Message()), k)
	require.NoError(t, err)
	require.Error(t, c.SetSignature(sig, other))
	require.NoError(t, c.SetSignature(sig, a))
	require.NoError(t, c.Valid(now, chain))
}
