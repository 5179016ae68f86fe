package chain

import (
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/core/rawdb"
	"github.com/stretchr/testify/require"
)

// Without the index of old states a node answers about the states in memory, says why it has no older one, and rolls back
// as others do. With the setting on again the index is built from the states that are kept.
func TestWithoutAnIndexOfStates(t *testing.T) {
	n := newTestNode(t, newTestGenesis(t, nil))
	require.NoError(t, n.Close())
	n.cfg.StateIndex, n.cfg.FlushBlocks = false, layersKept
	n.open()
	genesis := n.Head()
	n.branch(genesis, 3*layersKept, 0, 50)
	_, err := n.StateAt(n.Head().Header)
	require.NoError(t, err)
	old := n.HeaderByNumber(10)
	_, err = n.StateAt(old)
	require.ErrorIs(t, err, ErrStateUnavailable)
	require.ErrorContains(t, err, "chain.state_index is false")
	require.Empty(t, rawdb.ReadStateHistoryIndexMetadata(n.Chain.states.disk))

	states, _ := n.Kept()
	require.EqualValues(t, layersKept, states, "which clients are told")

	fork := n.Sealed(n.CanonicalHash(5)) // below the layers
	n.branch(fork, 3*layersKept+5, 1, 50)
	require.EqualValues(t, 3*layersKept+10, n.Head().Number())

	require.NoError(t, n.Close())
	n.cfg.StateIndex = true
	n.open()
	old = n.HeaderByNumber(10)
	require.Eventually(t, func() bool { _, err = n.StateAt(old); return err == nil }, time.Minute, time.Millisecond, "pathdb indexes in the background")

	require.NoError(t, n.Close())
	n.cfg.StateIndex = false
	n.open()
	require.Empty(t, rawdb.ReadStateHistoryIndexMetadata(n.Chain.states.disk), "none that a rollback would make wrong")
	_, err = n.StateAt(old)
	require.ErrorIs(t, err, ErrStateUnavailable)
}
