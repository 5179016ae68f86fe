package node

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/blockstore"
	"github.com/bornode/bornode/chain"
)

// Receipts that are gone are told; those of blocks above the state on disk may not have been made yet.
func TestLostReceiptsAreTold(t *testing.T) {
	c := folder(t)
	for _, x := range []struct {
		name   string
		state  chain.StateReport
		blocks blockstore.Report
		told   bool
	}{
		{"all are there", chain.StateReport{Found: true, Height: 50}, blockstore.Report{WithReceipts: 9}, false},
		{"all are gone", chain.StateReport{Found: true, Height: 50}, blockstore.Report{WithReceipts: 9, Receiptless: 9, ReceiptlessFrom: 3}, true},
		{"some are gone", chain.StateReport{Found: true, Height: 50}, blockstore.Report{WithReceipts: 9, Receiptless: 2, ReceiptlessFrom: 50}, true},
		{"not executed yet", chain.StateReport{Found: true, Height: 50}, blockstore.Report{WithReceipts: 9, Receiptless: 2, ReceiptlessFrom: 51}, false},
		{"no state", chain.StateReport{}, blockstore.Report{WithReceipts: 9, Receiptless: 9, ReceiptlessFrom: 1}, false},
	} {
		r := FolderReport{State: x.state}
		r.JudgeReceipts(c, &x.blocks)
		require.Equal(t, !x.told, r.Sound(), x.name)
		if x.told {
			require.Contains(t, r.Findings[0].String(), "bornode rebuild state", x.name)
			require.Contains(t, r.Findings[0].File, blockstore.DerivedDir, x.name)
		}
	}
}
