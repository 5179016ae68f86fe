package blockstore_test

import (
	"bytes"
	"encoding/binary"
	"math/big"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/trie"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/blockstore"
	"github.com/bornode/bornode/internal/vfs/faultfs"
)

// withData makes a block whose one transaction carries data.
func withData(parent *block.Block, data []byte) *block.Block {
	b := child(parent, 1, 1, 0)
	b.Transactions[0] = types.NewTx(&types.LegacyTx{GasPrice: big.NewInt(1), Gas: 21000, To: &common.Address{1}, Value: new(big.Int),
		Data: data, V: big.NewInt(27), R: big.NewInt(1), S: big.NewInt(1)})
	b.Record.BodyDigest = block.BodyDigest(b.Transactions, b.Senders)
	extra := b.Record.Hash()
	b.Header.Extra = extra[:]
	b.Header.TxHash = types.DeriveSha(b.Transactions, trie.NewStackTrie(nil))
	return b
}

func sealedRecord(height uint64, hash common.Hash, payload []byte) []byte {
	rec := append(make([]byte, block.RecordHeaderBytes), payload...)
	block.SealRecord(rec, height, hash)
	return rec
}

// What anybody can put into a transaction, bytes that look like a whole record, does not stop a store from opening when
// the commit of its block was torn; nor does it keep the start busy.
func TestCraftedRecordInATornCommit(t *testing.T) {
	disk0 := faultfs.New()
	s := open(t, disk0)
	chain := line(nil, 5, 1, 1, 40)
	require.NoError(t, s.AppendFinal(chain, final(chain...)))
	seg := s.Segments()[0]
	require.NoError(t, s.Close())
	busy := make([]byte, 0, 3<<20)
	for len(busy) < 3<<20 { // every 16th byte begins what looks like the head of a record of 1 MiB
		busy = binary.BigEndian.AppendUint64(busy, 1<<52)
		busy = append(busy, 0xfa, 0x0f, 0xff, 0xfc, 0, 0, 0, 0) // a list of 1 MiB
	}
	for name, data := range map[string][]byte{
		"a whole record of block 1": sealedRecord(1, chain[1].Hash(), chain[1].Encode()),
		"a record of no block":      sealedRecord(9, common.Hash{9}, []byte{0xc6, 1, 2, 3, 4, 5, 6}),
		"many heads":                busy,
	} {
		t.Run(name, func(t *testing.T) {
			disk := disk0.Copy()
			torn := withData(chain[4], data)
			rec := sealedRecord(5, torn.Hash(), torn.Encode())
			rec = rec[:len(rec)-10] // the power fails before the end is on disk
			require.NoError(t, disk.Corrupt(seg.Name, func(b []byte) []byte { return append(bytes.Clone(b), rec...) }))
			s := open(t, disk)
			requireChain(t, s, chain)
			require.NoError(t, s.AppendFinal([]*block.Block{torn}, final(torn)))
			s = reopen(t, s, disk)
			requireChain(t, s, append(chain[:5:5], torn))
		})
	}
	t.Run("a record of block 1 where the next one goes", func(t *testing.T) { // only a commit writes there
		disk := disk0.Copy()
		require.NoError(t, disk.Corrupt(seg.Name, func(b []byte) []byte {
			return append(bytes.Clone(b), sealedRecord(1, chain[1].Hash(), chain[1].Encode())...)
		}))
		requireRefused(t, disk)
	})
}

func requireRefused(t *testing.T, disk *faultfs.Disk) {
	t.Helper()
	_, err := blockstore.Open(config(disk), nil, nil)
	require.ErrorContains(t, err, "behind the place where the last irreversible block 4 ends")
}
