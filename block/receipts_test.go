package block

import (
	"bytes"
	"math/big"
	"runtime"
	"testing"

	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/rlp"
	"github.com/ethereum/go-ethereum/trie"
	"github.com/stretchr/testify/require"
)

// withReceipts is a block of one transaction, and its receipts.
func withReceipts(t testing.TB, logs int, gas uint64) (*Block, []byte) {
	r := &types.Receipt{Status: 1, CumulativeGasUsed: gas}
	for range logs {
		r.Logs = append(r.Logs, &types.Log{Data: []byte{1}})
	}
	r.Bloom = types.CreateBloom(r)
	rs := types.Receipts{r}
	h := &types.Header{GasUsed: gas, ReceiptHash: types.DeriveSha(rs, trie.NewStackTrie(nil)), Bloom: types.MergeBloom(rs)}
	b := &Block{SealedHeader: &SealedHeader{Header: h}, Transactions: types.Transactions{types.NewTx(&types.LegacyTx{})}}
	h.Number = big.NewInt(9)
	encoded, err := EncodeReceipts(rs)
	require.NoError(t, err)
	return b, encoded
}

// What a peer sends as receipts is refused before it takes more memory than those of the block may: one MiB of empty receipts would
// take 120, one of empty logs 50.
func TestReceiptsAreCountedBeforeTheyAreDecoded(t *testing.T) {
	b, encoded := withReceipts(t, 3, 30_000)
	rs, err := DecodeProvenReceipts(b, encoded)
	require.NoError(t, err)
	require.Len(t, rs[0].Logs, 3)

	empty := []byte{0xc3, 0x80, 0x80, 0xc0}
	many, err := rlp.EncodeToBytes(rlp.RawValue(listOf(bytes.Repeat(empty, 1<<18))))
	require.NoError(t, err)
	address := append([]byte{0x94}, make([]byte, 20)...)
	oneLog := listOf(append(address, 0xc0, 0x80))
	logs := listOf(listOf(append([]byte{1, 1}, listOf(bytes.Repeat(oneLog, 1<<16))...)))
	for name, lie := range map[string][]byte{"receipts": many, "logs": logs, "none": {0xc0}, "cut": encoded[:len(encoded)-1], "no list": {1}} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := DecodeProvenReceipts(b, lie)
		runtime.ReadMemStats(&after)
		require.ErrorIs(t, err, ErrWrongReceipts, name)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20), name)
	}
}

func listOf(content []byte) []byte {
	b, err := rlp.EncodeToBytes(struct{ X rlp.RawValue }{content}) // one field: its bytes stand as they are
	if err != nil {
		panic(err)
	}
	return b
}
