package genesis

import (
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"
)

// The recovery keys are the producers' accounts unless the file names others; those are part of block 0.
func TestRecoveryKeys(t *testing.T) {
	usual, err := New(example(t))
	require.NoError(t, err)
	keys, threshold := usual.RecoveryKeys()
	require.Len(t, keys, len(example(t).Producers))
	require.Equal(t, 2*len(keys)/3+1, threshold)
	zero, err := usual.Block()
	require.NoError(t, err)
	text, err := usual.MarshalJSON()
	require.NoError(t, err)
	require.NotContains(t, string(text), `"recovery"`)

	o := example(t)
	o.Recovery.Keys = []common.Address{testAccount(70), testAccount(71), testAccount(72), testAccount(73)}
	g, err := New(o)
	require.NoError(t, err)
	keys, threshold = g.RecoveryKeys()
	require.Equal(t, o.Recovery.Keys, keys)
	require.Equal(t, 3, threshold)
	b, err := g.Block()
	require.NoError(t, err)
	require.NotEqual(t, zero.Hash(), b.Hash())
	text, err = g.MarshalJSON()
	require.NoError(t, err)
	again, err := Parse(text)
	require.NoError(t, err)
	keys, threshold = again.RecoveryKeys()
	require.Equal(t, o.Recovery.Keys, keys)
	require.Equal(t, 3, threshold)

	for _, bad := range []RecoveryKeys{
		{o.Recovery.Keys, 2}, {o.Recovery.Keys, 5}, {[]common.Address{testAccount(1), testAccount(1)}, 2}, {[]common.Address{{}}, 1},
	} {
		o.Recovery = bad
		_, err := New(o)
		require.ErrorIs(t, err, ErrInvalid, "%v", bad)
		require.ErrorContains(t, err, "recovery.")
	}
}
