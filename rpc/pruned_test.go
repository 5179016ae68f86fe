package rpc

import (
	"encoding/json"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	gethrpc "github.com/ethereum/go-ethereum/rpc"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/blockstore"
)

// Pruned history is never null, never empty and never a wrong value: every question about a block or a transaction that
// is not kept any more ends with the one code for it, all others are answered as before, also after a restart. Block 0 is
// always answered.
func TestPrunedHistoryIsNeverNull(t *testing.T) {
	s := newStored(t, 60)
	o, err := s.open(s.dir)
	require.NoError(t, err)
	for _, q := range s.methods { // what caches hold of it is pruned too
		require.NoError(t, o.rpc.Call(new(json.RawMessage), q.method, q.args...))
	}
	first, err := o.store.Prune(30)
	require.NoError(t, err)
	require.NotZero(t, first)
	for range 2 {
		refused := 0
		for _, q := range s.methods {
			var raw json.RawMessage
			err := o.rpc.Call(&raw, q.method, q.args...)
			if err == nil {
				require.Equal(t, q.want, string(raw), q)
				continue
			}
			refused++
			var coded gethrpc.Error
			require.ErrorAs(t, err, &coded, q)
			require.Equal(t, codePruned, coded.ErrorCode(), "%s: %s", q, err)
			require.ErrorContains(t, err, "pruned history unavailable", q)
		}
		require.Greater(t, refused, 200)
		for height := range first {
			var raw json.RawMessage
			err := o.rpc.Call(&raw, "eth_getBlockByNumber", hexutil.Uint64(height), false)
			require.Equal(t, height == 0, err == nil, "block %d: %v", height, err)
		}
		var f finalityJSON
		require.NoError(t, o.rpc.Call(&f, "bor_finality"))
		require.EqualValues(t, first, f.First)
		require.ErrorContains(t, o.rpc.Call(new(json.RawMessage), "eth_getTransactionReceipt", common.Hash{1}), "pruned history unavailable")
		o.close(t)
		o, err = s.open(s.dir)
		require.NoError(t, err)
	}
	report, err := o.store.Fsck(t.Context(), blockstore.FsckOptions{Transactions: true}, nil)
	require.NoError(t, err)
	for _, x := range report.Problems {
		require.Equal(t, blockstore.ProblemProof, x.Kind, "only what this chain never had is missing: %+v", x)
	}
	require.Equal(t, first, report.First)
	o.close(t)
}
