package senders

import (
	"crypto/ecdsa"
	"math/big"
	"sync"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/stretchr/testify/require"
)

var signer = types.LatestSignerForChainID(big.NewInt(7))

func signed(t *testing.T, key *ecdsa.PrivateKey, nonce uint64) *types.Transaction {
	t.Helper()
	tx, err := types.SignNewTx(key, signer, &types.DynamicFeeTx{ChainID: big.NewInt(7), Nonce: nonce, Gas: 21_000, To: new(common.Address)})
	require.NoError(t, err)
	return tx
}

// copyOf is the transaction as another message brings it: equal bytes, another object.
func copyOf(t *testing.T, tx *types.Transaction) *types.Transaction {
	t.Helper()
	raw, err := tx.MarshalBinary()
	require.NoError(t, err)
	x := new(types.Transaction)
	require.NoError(t, x.UnmarshalBinary(raw))
	return x
}

func newKey(t *testing.T) (*ecdsa.PrivateKey, common.Address) {
	t.Helper()
	key, err := crypto.GenerateKey()
	require.NoError(t, err)
	return key, crypto.PubkeyToAddress(key.PublicKey)
}

func TestSenderIsRecoveredOnce(t *testing.T) {
	key, account := newKey(t)
	c := New(signer, 16)
	tx := signed(t, key, 0)
	for i := range 3 {
		again := copyOf(t, tx)
		from, recovered, err := c.Sender(again)
		require.NoError(t, err)
		require.Equal(t, account, from)
		require.Equal(t, i == 0, recovered)
		attached, err := types.Sender(signer, again)
		require.NoError(t, err)
		require.Equal(t, account, attached)
	}
	require.EqualValues(t, 1, c.Recoveries())
}

func TestAttachedSenderIsNotRecovered(t *testing.T) {
	key, _ := newKey(t)
	tx := copyOf(t, signed(t, key, 0))
	Attach(signer, tx, common.Address{1})
	from, err := types.Sender(signer, tx)
	require.NoError(t, err)
	require.Equal(t, common.Address{1}, from)
}

func TestOtherSignatureIsAnotherTransaction(t *testing.T) {
	key, account := newKey(t)
	other, stranger := newKey(t)
	c := New(signer, 16)
	_, _, err := c.Sender(signed(t, key, 0))
	require.NoError(t, err)
	from, recovered, err := c.Sender(signed(t, other, 0)) // equal but for the signature
	require.NoError(t, err)
	require.True(t, recovered)
	require.Equal(t, stranger, from)
	require.NotEqual(t, account, from)
}

func TestSenderFromElsewhereIsNotBelieved(t *testing.T) {
	key, account := newKey(t)
	c := New(signer, 16)
	tx := signed(t, key, 0)
	tx = copyOf(t, tx)
	Attach(signer, tx, common.Address{1})
	from, recovered, err := c.Sender(tx)
	require.NoError(t, err)
	require.True(t, recovered)
	require.Equal(t, account, from)
}

func TestWrongSignatureIsNotRemembered(t *testing.T) {
	c := New(signer, 16)
	bad := types.NewTx(&types.DynamicFeeTx{ChainID: big.NewInt(7), R: big.NewInt(0), S: big.NewInt(0), V: big.NewInt(0)})
	for range 2 {
		_, _, err := c.Sender(copyOf(t, bad))
		require.Error(t, err)
	}
	require.Empty(t, c.young)
}

func TestCacheIsBounded(t *testing.T) {
	key, account := newKey(t)
	c := New(signer, 8)
	kept := signed(t, key, 0)
	for nonce := range uint64(100) {
		_, _, err := c.Sender(signed(t, key, nonce+1))
		require.NoError(t, err)
		from, _, err := c.Sender(copyOf(t, kept))
		require.NoError(t, err)
		require.Equal(t, account, from)
		require.LessOrEqual(t, len(c.young)+len(c.aged), 16)
	}
	require.EqualValues(t, 101, c.Recoveries(), "what is in use stays")
}

func TestCacheServesManyGoroutines(t *testing.T) {
	key, account := newKey(t)
	c := New(signer, 8)
	txs := make([]*types.Transaction, 32)
	for i := range txs {
		txs[i] = signed(t, key, uint64(i)) //nolint:gosec // small
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for _, tx := range txs {
				if from, _, err := c.Sender(tx); err != nil || from != account {
					t.Errorf("sender %s, %v", from, err)
				}
			}
		})
	}
	wg.Wait()
}
