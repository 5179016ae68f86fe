package nearest

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestName(t *testing.T) {
	known := []string{"slot", "turn_slots", "gas_limit", "genesis_time", "fees", "base_fee"}
	for got, want := range map[string]string{
		"turnslots": "turn_slots", "TURN_SLOTS": "turn_slots", "gaslimt": "gas_limit", "slto": "slot", "genesis_tmie": "genesis_time",
		"fee": "fees", "base_fees": "base_fee", "colour": "", "": "", "x": "", strings.Repeat("s", 300): "",
	} {
		require.Equal(t, want, Name(got, known), "%q", got)
	}
	require.Empty(t, Name("a", nil))
	require.Equal(t, "aa", Name("a", []string{"aa", "ab"}), "the first of equals")
}

func TestHint(t *testing.T) {
	require.Equal(t, `did you mean "slot"?`, Hint("slto", []string{"fees", "slot"}))
	require.Equal(t, "known are fees, slot", Hint("colour", []string{"fees", "slot"}))
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"abc", "", 3}, {"", "ab", 2}, {"kitten", "sitting", 3}, {"ab", "ba", 1}, {"abcdef", "abcdfe", 1}, {"same", "same", 0}} {
		require.Equal(t, c.want, distance(c.a, c.b), "%q %q", c.a, c.b)
		require.Equal(t, c.want, distance(c.b, c.a), "%q %q", c.b, c.a)
	}
}

func FuzzName(f *testing.F) {
	f.Add("turn", "turn_slots")
	f.Fuzz(func(t *testing.T, a, b string) {
		if got := Name(a, []string{b}); got != "" {
			require.Equal(t, b, got)
		}
		if len(a) <= 256 {
			require.Equal(t, a, Name(a, []string{a}))
		}
	})
}
