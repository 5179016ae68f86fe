package node

import (
	"math/big"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/consensus"
)

func TestCheckpoint(t *testing.T) {
	b := &block.Block{SealedHeader: &block.SealedHeader{Header: &types.Header{Number: big.NewInt(7)}, Record: &block.Record{}}}
	c, err := parseCheckpoint("7:" + b.Hash().Hex())
	require.NoError(t, err)
	require.NoError(t, c.check(b))
	c.hash = common.Hash{1}
	require.ErrorIs(t, c.check(b), consensus.ErrInvalid, "another block at that height is the peer's fault")
	c.height = 8
	require.NoError(t, c.check(b))
	none, err := parseCheckpoint("")
	require.NoError(t, err)
	require.NoError(t, none.check(b))
	for _, bad := range []string{"7", "x:0x00", "7:0x00", "7:" + b.Hash().Hex() + "00", ":"} {
		_, err := parseCheckpoint(bad)
		require.ErrorContains(t, err, "write it as height:hash", bad)
	}
}
