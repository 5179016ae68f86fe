package blockstore_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/trie"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/blockstore"
	"github.com/bornode/bornode/internal/vfs/faultfs"
)

// receiptsIn are receiptsOf a block that those of no other block equal.
func receiptsIn(b *block.Block) types.Receipts {
	rs := receiptsOf(b)
	for _, r := range rs {
		r.Logs[0].Data = fmt.Appendf(nil, "log of %d", b.Number())
	}
	return rs
}

// provenLine makes n blocks, the first block 0, whose headers prove the receipts of receiptsIn.
func provenLine(n int) (chain []*block.Block) {
	var parent *block.Block
	for range n {
		b := child(parent, 0, 2, 20)
		rs := receiptsIn(b)
		for _, r := range rs {
			r.Bloom = types.CreateBloom(r)
		}
		b.Header.GasUsed = 2 * 25_000
		b.Header.ReceiptHash, b.Header.Bloom = types.DeriveSha(rs, trie.NewStackTrie(nil)), types.MergeBloom(rs)
		chain, parent = append(chain, b), b
	}
	return chain
}

var errNoState = errors.New("its state is not kept")

// inStoreWithoutReceipts runs f, in virtual time, on a store whose blocks up to final are irreversible and the rest
// reversible, all without receipts.
func inStoreWithoutReceipts(t *testing.T, f func(t *testing.T, s *blockstore.Store, chain []*block.Block)) {
	synctest.Test(t, func(t *testing.T) {
		chain := provenLine(20)
		disk := faultfs.New()
		s := open(t, disk)
		require.NoError(t, s.AppendFinal(chain[:15], final(chain[:15]...)))
		require.NoError(t, s.PutReversible(chain[15:]))
		s = reopen(t, s, disk)
		synctest.Wait() // the index of transactions is complete
		f(t, s, chain)
		require.NoError(t, s.Close())
		time.Sleep(5 * time.Second) // goleveldb's goroutines end
	})
}

func encodedReceipts(t *testing.T, b *block.Block) []byte {
	t.Helper()
	encoded, err := block.EncodeReceipts(receiptsIn(b))
	require.NoError(t, err)
	return encoded
}

// readReceipts reads receipts as the chain does that cannot make them again.
func readReceipts(s *blockstore.Store, b *block.Block) (rs types.Receipts, err error) {
	rs, err = s.Receipts(b.Hash())
	if err != nil {
		err = s.ReceiptsLost(b.Number(), b.Hash(), errNoState)
	}
	return rs, err
}

// Readers of receipts that are missing wait for those that a peer sends. What the header does not prove is not stored and
// blames the sender.
func TestReadersOfMissingReceiptsWaitForThem(t *testing.T) {
	inStoreWithoutReceipts(t, func(t *testing.T, s *blockstore.Store, chain []*block.Block) {
		const height, readers = 7, 10
		answers := make(chan error, readers)
		for range readers {
			go func() {
				answers <- s.ReadRepaired(t.Context(), func() error {
					_, err := readReceipts(s, chain[height])
					return err
				})
			}()
		}
		synctest.Wait()
		require.Empty(t, answers)
		require.Len(t, s.RepairsWanted(), 1, "the synchronisation is told at once")
		require.Equal(t, []uint64{height}, s.LostReceipts())
		require.Empty(t, s.Damaged(), "the block is whole")

		changed := receiptsIn(chain[height])
		changed[1].Logs[0].Data = []byte("logs")
		forged, err := block.EncodeReceipts(changed)
		require.NoError(t, err)
		for name, wrong := range map[string][]byte{
			"of another block": encodedReceipts(t, chain[height+1]), "no RLP": {1, 2}, "none": {0xC0}, "with another log": forged,
		} {
			require.ErrorIs(t, s.PutProvenReceipts(height, wrong), block.ErrWrongReceipts, name)
		}
		synctest.Wait()
		require.Empty(t, answers)
		_, err = s.Receipts(chain[height].Hash())
		require.ErrorIs(t, err, blockstore.ErrNotFound)

		require.NoError(t, s.PutProvenReceipts(height, encodedReceipts(t, chain[height])))
		for range readers {
			require.NoError(t, <-answers)
		}
		require.Empty(t, s.LostReceipts())
		rs, err := s.Receipts(chain[height].Hash())
		require.NoError(t, err)
		require.Equal(t, receiptsIn(chain[height])[1].Logs[0].Data, rs[1].Logs[0].Data)
		_, at, _, err := s.Transaction(chain[height].Transactions[1].Hash())
		require.NoError(t, err)
		require.EqualValues(t, height, at)
	})
}

// The wait ends when nobody can send them, and within the bound; the error says that receipts are missing, not that the
// block is damaged. Nothing is fetched for blocks that are not irreversible here.
func TestTheWaitForReceiptsEnds(t *testing.T) {
	inStoreWithoutReceipts(t, func(t *testing.T, s *blockstore.Store, chain []*block.Block) {
		const height = 7
		nobody := errors.New("no peer has them")
		read := func(b *block.Block) error {
			return s.ReadRepaired(t.Context(), func() error { _, err := readReceipts(s, b); return err })
		}
		requireMissing := func(err, why error) {
			t.Helper()
			var without block.ErrNoReceipts
			require.ErrorAs(t, err, &without)
			require.EqualValues(t, height, without.Height)
			require.False(t, errors.As(err, new(block.ErrCorrupt)))
			require.ErrorIs(t, err, errNoState)
			if why != nil {
				require.ErrorIs(t, err, why)
			}
		}
		answers := make(chan error)
		go func() { answers <- read(chain[height]) }()
		synctest.Wait()
		s.RepairImpossible(height, errors.New("of the block"))
		synctest.Wait()
		s.ReceiptsImpossible(height, nobody)
		requireMissing(<-answers, nobody)
		start := time.Now()
		requireMissing(read(chain[height]), nil)
		require.Equal(t, config(nil).RepairWait, time.Since(start))

		require.Equal(t, errNoState, s.ReceiptsLost(16, chain[16].Hash(), errNoState), "reversible")
		require.Equal(t, errNoState, s.ReceiptsLost(7, chain[8].Hash(), errNoState), "another block's hash")
		require.Equal(t, errNoState, s.ReceiptsLost(7, common.Hash{1}, errNoState), "unknown")
		require.Equal(t, []uint64{height}, s.LostReceipts())
		require.NoError(t, s.PutReceipts(chain[height].Hash(), height, receiptsIn(chain[height])), "an execution made them")
		require.Empty(t, s.LostReceipts())
	})
}

// A peer is given receipts that the header proves; others count as missing here too.
func TestPeersAreGivenProvenReceipts(t *testing.T) {
	inStoreWithoutReceipts(t, func(t *testing.T, s *blockstore.Store, chain []*block.Block) {
		_, err := s.ProvenReceipts(7, chain[7].Hash())
		require.ErrorIs(t, err, blockstore.ErrNotFound)
		require.NoError(t, s.PutReceipts(chain[7].Hash(), 7, receiptsIn(chain[7])))
		got, err := s.ProvenReceipts(7, chain[7].Hash())
		require.NoError(t, err)
		require.Equal(t, encodedReceipts(t, chain[7]), got)
		require.LessOrEqual(t, len(got), int(block.MaxReceiptsBytes(&types.Header{GasUsed: 2 * 21000}))) //nolint:gosec // small
		_, err = s.ProvenReceipts(7, chain[8].Hash())
		require.ErrorIs(t, err, blockstore.ErrNotFound)
		require.NoError(t, s.PutReceipts(chain[9].Hash(), 7, receiptsIn(chain[9])), "of a branch that lost")
		_, err = s.ProvenReceipts(7, chain[9].Hash())
		require.ErrorIs(t, err, blockstore.ErrNotFound)
		require.Empty(t, s.LostReceipts())

		require.NoError(t, s.PutReceipts(chain[8].Hash(), 8, receiptsIn(chain[7])))
		_, err = s.ProvenReceipts(8, chain[8].Hash())
		require.ErrorIs(t, err, block.ErrWrongReceipts)
		require.Equal(t, []uint64{8}, s.LostReceipts())
	})
}

// The background reading has missing receipts fetched one after another, so that a whole chain without them never fills
// the list; without a peer it goes on at once.
func TestScrubHasMissingReceiptsFetched(t *testing.T) {
	inStoreWithoutReceipts(t, func(t *testing.T, s *blockstore.Store, chain []*block.Block) {
		most := 0
		answer := func(height uint64) {
			require.NoError(t, s.PutProvenReceipts(height, encodedReceipts(t, chain[height])))
		}
		stop := make(chan struct{})
		go func() {
			for {
				select {
				case <-s.RepairsWanted():
					time.Sleep(time.Millisecond)
					lost := s.LostReceipts()
					most = max(most, len(lost))
					for _, h := range lost {
						if h < 10 {
							answer(h)
						} else {
							s.ReceiptsImpossible(h, errors.New("nobody"))
						}
					}
				case <-stop:
					return
				}
			}
		}()
		byHash := make(map[common.Hash]*block.Block)
		for _, b := range chain {
			byHash[b.Hash()] = b
		}
		start := time.Now()
		_, err := s.Scrub(t.Context(), 0, 1<<20, func(h common.Hash) (types.Receipts, error) { return readReceipts(s, byHash[h]) })
		require.NoError(t, err)
		close(stop)
		require.Less(t, time.Since(start), time.Second)
		require.Equal(t, []uint64{10, 11, 12, 13, 14}, s.LostReceipts())
		require.Equal(t, 5, most)
	})
}
