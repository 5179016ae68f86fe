package proof

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestChangedRightsAreNamed(t *testing.T) {
	read := Right{2, 3, "acme.orders", "User:0x01", "*", 3, 3}
	write := Right{2, 3, "acme.orders", "User:0x01", "*", 4, 3}
	deny := Right{2, 3, "acme.orders", "User:0x02", "*", 3, 2}
	changes := []RightChange{{read, false, 5}, {deny, false, 6}, {read, true, 7}, {read, false, 8}, {write, false, 9}, {write, true, 10}}
	require.NoError(t, CheckRights(topic, changes, []Right{deny, read}))
	allowed := deny
	allowed.Permission = 3
	for name, state := range map[string][]Right{
		"revoked one kept": {read, deny, write}, "granted one gone": {read}, "denial turned": {read, allowed}, "invented": {read, deny, {Name: "x"}},
	} {
		require.ErrorIs(t, CheckRights(topic, changes, state), ErrRights, name)
	}
	require.ErrorContains(t, CheckRights(topic, changes, []Right{read}), "block 6 granted User:0x02")
}
