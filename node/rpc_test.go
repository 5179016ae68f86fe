package node

import (
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/consensus"
	"github.com/bornode/bornode/consensus/dpos"
)

// The slot from which a signer may rest on answers follows from its floor: before that is chosen there is none.
func TestSignerStatusBeforeTheFloorIsChosen(t *testing.T) {
	s := &consensus.Status{Silent: true, Waiting: dpos.Waiting{Floor: 1, Rest: dpos.Rest{From: 64, Missing: 2}}}
	out := signerStatus(common.Address{1}, s)
	require.EqualValues(t, 1, out.Floor)
	require.Zero(t, out.RestFrom)
	require.EqualValues(t, 2, out.RestMissing)
	s.Waiting.Floor, s.Waiting.Rest.From = 40, 104
	require.EqualValues(t, 104, signerStatus(common.Address{1}, s).RestFrom)
}
