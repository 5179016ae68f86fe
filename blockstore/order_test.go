package blockstore_test

import (
	"errors"
	"fmt"
	"math/big"
	"strings"
	"syscall"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/blockstore"
	"github.com/bornode/bornode/internal/failpoint"
	"github.com/bornode/bornode/internal/vfs/faultfs"
)

// Readers see a block as irreversible when its commit is durable, and not at all when the commit failed.
func TestNothingIsShownBeforeItsCommit(t *testing.T) {
	disk := faultfs.New()
	s := open(t, disk)
	chain := line(nil, 20, 1, 1, 100)
	require.NoError(t, s.AppendFinal(chain[:10], final(chain[:10]...)))
	disk.SetPlan(func(c faultfs.Change) faultfs.Verdict {
		if strings.HasPrefix(c.Name, "meta/") {
			return faultfs.Verdict{Err: syscall.EIO}
		}
		return faultfs.Verdict{}
	}, 1)
	require.ErrorIs(t, s.AppendFinal(chain[10:], final(chain[10:]...)), blockstore.ErrFailed)
	requireChain(t, s, chain[:10])
}

// A block that moves from the reversible ones to a segment is there at every moment, also between the commit that takes it
// out of the database and the one moment when readers are sent to the segment.
func TestABlockOnItsWayToTheSegmentIsRead(t *testing.T) {
	cfg := config(faultfs.New())
	cfg.CacheBytes = 0
	s, err := blockstore.Open(cfg, nil, nil)
	require.NoError(t, err)
	defer s.Close()
	chain := line(nil, 3, 1, 1, 100)
	require.NoError(t, s.AppendFinal(chain[:1], final(chain[:1]...)))
	require.NoError(t, s.PutReversible(chain[1:]))
	var got *block.Block
	disarm := failpoint.Arm("blockstore.meta.commit.after", 1, func() { got, err = s.Block(chain[1].Hash()) })
	defer disarm()
	require.NoError(t, s.Finalize(final(chain[1:]...)))
	require.NoError(t, err)
	requireSame(t, chain[1], got)
}

// The index entries of sealed segments are durable, also those in an index file that was left before the segment was full.
func TestIndexFilesThatAreLeftAreDurable(t *testing.T) {
	disk := faultfs.New()
	s := open(t, disk)
	first := child(nil, 1, 1, 300)
	first.Header.Number = big.NewInt(65530)
	chain := append([]*block.Block{first}, line(first, 60, 1, 1, 300)...)
	for _, b := range chain {
		require.NoError(t, s.AppendFinal([]*block.Block{b}, final(b)))
	}
	require.Greater(t, s.Segments()[0].Last, uint64(65536))
	require.True(t, s.Segments()[0].Sealed)
	for seed := range uint64(8) {
		left := open(t, disk.Crash(seed))
		report, err := left.Fsck(t.Context(), blockstore.FsckOptions{}, nil)
		require.NoError(t, err)
		require.Zero(t, report.Found, "seed %d: %+v", seed, report)
		require.NoError(t, left.Close())
	}
}

// One copy of the superblock is durable at every moment, whatever a power cut leaves of the other; and a start does not
// begin with the newest one.
func TestOneSuperblockIsDurable(t *testing.T) {
	disk := faultfs.New()
	cfg := config(disk)
	cfg.SegmentBytes = 4 << 20
	s, err := blockstore.Open(cfg, nil, nil)
	require.NoError(t, err)
	chain := line(nil, 40, 1, 0, 0)
	for i := range chain {
		require.NoError(t, s.AppendFinal(chain[i:i+1], final(chain[i])))
	}
	for seed := range uint64(16) {
		cut := disk.Crash(seed)
		cut.Lose("meta/")
		cfg.FS = cut
		left, err := blockstore.Open(cfg, nil, nil)
		require.NoError(t, err, "seed %d", seed)
		height, _ := left.LIB()
		requireChain(t, left, chain[:height+1])
		require.NoError(t, left.Close())
	}
	require.NoError(t, s.Close())

	disk = faultfs.New()
	s = open(t, disk)
	chain = line(nil, 60, 1, 2, 300)
	for i := 0; i < len(chain); i += 20 { // each seals segments
		require.NoError(t, s.AppendFinal(chain[i:i+20], final(chain[i:i+20]...)))
	}
	killed := disk.Killed()
	require.NoError(t, s.Close())
	openWithCrashes(t, killed, func(left *faultfs.Disk, what string) {
		left.Lose("meta/")
		s := open(t, left)
		height, _ := s.LIB()
		require.Equal(t, chain[59].Number(), height, what)
		require.NoError(t, s.Close(), what)
	})
}

// What the journal of derived data lost behind its mark is put into the index by hash again, from the first block on.
func TestTheIndexByHashIsCompletedFromItsMark(t *testing.T) {
	disk := faultfs.New()
	s := open(t, disk)
	chain := line(nil, 13, 1, 0, 0)
	require.NoError(t, s.AppendFinal(chain[:10], final(chain[:10]...)))
	require.NoError(t, s.SyncDerived())
	require.NoError(t, s.AppendFinal(chain[10:], final(chain[10:]...)))
	for _, b := range chain[10:] {
		require.NoError(t, s.LoseDerived(b.Hash(), b.Number(), nil))
	}
	left := disk.Killed()
	require.NoError(t, s.Close())
	requireChain(t, open(t, left), chain)
}

// Of the blocks that became irreversible the database keeps the newest alone.
func TestOnlyTheNewestFinalBlockIsCopied(t *testing.T) {
	s := open(t, faultfs.New())
	chain := line(nil, 12, 1, 1, 100)
	for i := range chain {
		if i%2 == 1 {
			require.NoError(t, s.PutReversible(chain[i:i+1]))
			require.NoError(t, s.Finalize(final(chain[i])))
		} else {
			require.NoError(t, s.AppendFinal(chain[i:i+1], final(chain[i])))
		}
		copies, err := s.CopiedBlocks()
		require.NoError(t, err)
		require.Equal(t, []common.Hash{chain[i].Hash()}, copies)
	}
}

// A reversible block stands one above its parent.
func TestReversibleBlockOfAWrongHeightIsRefused(t *testing.T) {
	s := open(t, faultfs.New())
	chain := line(nil, 3, 1, 0, 0)
	require.NoError(t, s.AppendFinal(chain[:1], final(chain[:1]...)))
	wrong := child(chain[0], 1, 0, 0)
	wrong.Header.Number = big.NewInt(7)
	require.ErrorIs(t, s.PutReversible([]*block.Block{wrong}), blockstore.ErrUnlinked)
	require.NoError(t, s.PutReversible(chain[1:2]))
	wrong = child(chain[1], 1, 0, 0)
	wrong.Header.Number = big.NewInt(1)
	require.ErrorIs(t, s.PutReversible([]*block.Block{wrong}), blockstore.ErrUnlinked)
}

// A record whose checksum is right and whose body is not that of its header is damage that the scrub finds.
func TestScrubFindsTheBodyOfAnotherBlock(t *testing.T) {
	disk, chain := damaged(t)
	const height = 20
	e := entryOf(t, disk, height)
	other := &block.Block{SealedHeader: chain[height].SealedHeader, Transactions: chain[height].Transactions}
	for range chain[height].Senders {
		other.Senders = append(other.Senders, common.Address{0xee})
	}
	rec := sealedRecord(height, chain[height].Hash(), other.Encode())
	require.NoError(t, disk.Corrupt(fmt.Sprintf("segments/%08d.seg", e.Segment), func(b []byte) []byte {
		copy(b[e.Offset:e.End()], rec)
		return b
	}))
	s := open(t, disk)
	found, _ := scrubAll(t, s, nil)
	require.Equal(t, []string{blockstore.ProblemRecord}, found)
	require.Equal(t, []uint64{height}, s.Damaged())
}

// Readers that meet one damage of derived data at once have it replaced once.
func TestOneDamageIsReplacedOnce(t *testing.T) {
	s := open(t, faultfs.New())
	chain := line(nil, 10, 1, 1, 100)
	require.NoError(t, s.AppendFinal(chain, final(chain...)))
	require.Equal(t, []bool{true, true}, s.MeetDerivedDamageTwice(errors.New("damaged")))
	require.Equal(t, 1, s.ReplacedDerived())
	s.AwaitCompletion()
	requireChain(t, s, chain)
}
