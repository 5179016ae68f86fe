package genesis

import (
	"bytes"
	"math/big"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParameters(t *testing.T) {
	require.Equal(t, []string{"base_fee", "gas_limit", "jail_turns", "max_block_bytes", "min_producers", "min_stake", "seats", "slash_percent"}, Votable())
	for _, name := range Votable() {
		p, err := parameter(name, false)
		require.NoError(t, err)
		for _, v := range []*big.Int{p.low, p.high} {
			b, err := EncodeParameter(name, v.String(), false)
			require.NoError(t, err, "%s %s", name, v)
			got, err := DecodeParameter(name, b, false)
			require.NoError(t, err)
			require.Zero(t, v.Cmp(got))
			_, err = DecodeParameter(name, append([]byte{0}, b...), false)
			require.ErrorIs(t, err, ErrParameter, "one form alone has an effect")
			_, err = DecodeParameter(name, b[1:], false)
			require.ErrorIs(t, err, ErrParameter)
		}
		for _, v := range []*big.Int{new(big.Int).Sub(p.low, big.NewInt(1)), new(big.Int).Add(p.high, big.NewInt(1))} {
			_, err = EncodeParameter(name, v.String(), false)
			require.ErrorIs(t, err, ErrParameter, "%s %s", name, v)
			if v.Sign() >= 0 && v.BitLen() <= 8*p.bytes {
				_, err = DecodeParameter(name, v.FillBytes(make([]byte, p.bytes)), false)
				require.ErrorIs(t, err, ErrParameter, "%s %s", name, v)
			}
		}
	}
	_, err := EncodeParameter(BaseFee, "6", true)
	require.ErrorContains(t, err, "outside 7")
	_, err = DecodeParameter(BaseFee, make([]byte, 8), true)
	require.ErrorIs(t, err, ErrParameter, "a market's floor")
	_, err = DecodeParameter(BaseFee, make([]byte, 8), false)
	require.NoError(t, err)
	_, err = EncodeParameter("turn_slots", "6", true)
	require.ErrorContains(t, err, `"turn_slots" cannot change by vote`)
	_, err = DecodeParameter("", nil, true)
	require.ErrorIs(t, err, ErrParameter)
	_, err = EncodeParameter(GasLimit, "many", true)
	require.ErrorContains(t, err, "is no number")
}

func FuzzDecodeParameter(f *testing.F) {
	for _, name := range Votable() {
		f.Add(name, []byte{0, 0, 0, 0, 0, 1, 0, 0}, true)
		f.Add(name, make([]byte, stakeBytes), false)
	}
	f.Fuzz(func(t *testing.T, name string, value []byte, market bool) {
		v, err := DecodeParameter(name, value, market)
		if err != nil {
			return
		}
		b, err := EncodeParameter(name, v.String(), market)
		require.NoError(t, err)
		require.True(t, bytes.Equal(value, b))
	})
}
