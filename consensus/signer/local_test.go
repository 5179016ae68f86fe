package signer

import (
	"crypto/rand"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/internal/bls"
)

func newLocal(t *testing.T) *Local {
	t.Helper()
	l, err := Generate(rand.Reader)
	require.NoError(t, err)
	return l
}

func TestSaveAndLoadGiveTheSameSigner(t *testing.T) {
	l := newLocal(t)
	path := filepath.Join(t.TempDir(), "producer.json")
	require.NoError(t, l.Save(path))
	st, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), st.Mode().Perm())

	m, err := Load(path)
	require.NoError(t, err)
	require.Equal(t, l.Account(), m.Account())
	require.Equal(t, l.VoteKey(), m.VoteKey())

	digest := common.HexToHash("0x1234")
	a, err := l.SignVote(digest)
	require.NoError(t, err)
	b, err := m.SignVote(digest)
	require.NoError(t, err)
	require.Equal(t, a, b)
	require.True(t, bls.Verify(m.VoteKey(), digest[:], b))

	require.ErrorIs(t, l.Save(path), os.ErrExist, "a key file is never overwritten")
}

func TestSealIsTheAccounts(t *testing.T) {
	l := newLocal(t)
	h := &block.SealedHeader{Header: &types.Header{Coinbase: l.Account(), GasLimit: 7}, Record: &block.Record{}}
	domain := block.Domain{Genesis: common.Hash{1}}
	seal, err := l.SignSeal(domain.SealDigest(h.Hash()))
	require.NoError(t, err)
	h.Seal = seal
	by, err := h.Signer(domain)
	require.NoError(t, err)
	require.Equal(t, l.Account(), by)
}

func TestTransactionsAreTheAccounts(t *testing.T) {
	l := newLocal(t)
	tx, err := l.SignTx(&types.DynamicFeeTx{ChainID: big.NewInt(7), Nonce: 3, Gas: 21000, To: &common.Address{1}}, 7)
	require.NoError(t, err)
	from, err := types.Sender(types.LatestSignerForChainID(big.NewInt(7)), tx)
	require.NoError(t, err)
	require.Equal(t, l.Account(), from)
	_, err = l.SignTx(&types.DynamicFeeTx{ChainID: big.NewInt(8)}, 7)
	require.ErrorContains(t, err, l.Account().Hex(), "of another chain")
}

func TestPossession(t *testing.T) {
	l := newLocal(t)
	d := block.PossessionDigest(7, l.Account(), l.VoteKey())
	require.True(t, bls.Verify(l.VoteKey(), d[:], l.ProvePossession(7)))
	require.False(t, bls.Verify(l.VoteKey(), d[:], l.ProvePossession(8)))
}

func TestLoadRefuses(t *testing.T) {
	good := filepath.Join(t.TempDir(), "good.json")
	require.NoError(t, newLocal(t).Save(good))
	text, err := os.ReadFile(good)
	require.NoError(t, err)
	for _, c := range []struct {
		name, text, says string
		mode             os.FileMode
	}{
		{"readable by others", string(text), "chmod 600", 0o640},
		{"unknown field", strings.Replace(string(text), "{", `{"other":1,`, 1), "other", 0o600},
		{"foreign account", `{"account":"0x0000000000000000000000000000000000000001"` + string(text)[strings.Index(string(text), ",\n"):], "seal_key", 0o600},
		{"short vote key", string(text)[:strings.LastIndex(string(text), `"vote_key"`)] + `"vote_key":"0x01"}`, "vote_key", 0o600},
		{"not JSON", "seal", "invalid", 0o600},
		{"too long", strings.Repeat(" ", maxFileBytes+1), "larger", 0o600},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "key.json")
			require.NoError(t, os.WriteFile(path, []byte(c.text), c.mode))
			_, err := Load(path)
			require.ErrorContains(t, err, c.says)
		})
	}
}
