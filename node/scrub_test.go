package node

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/rpc"
)

// A damaged block that nobody reads is found in the background, fetched from a peer and mended; bor_scrub tells of the
// round, also after a restart.
func TestTheScrubHasADamagedBlockFetchedAgain(t *testing.T) {
	const height = 5
	p := newPair(t)
	b, _ := p.run(p.producer)
	p.observer.P2P.Peers = b.host.Addrs()
	p.observer.Scrub.MegabytesPerSecond = 0
	a, stop := p.run(p.observer)
	p.until("the block is final and below the epochs that a start reads", func() bool { return a.chain.FinalHeader().Number.Uint64() > height+20 })
	want, err := a.store.BlockByHeight(height)
	require.NoError(t, err)
	entry, err := a.store.Entry(height)
	require.NoError(t, err)
	var status rpc.ScrubStatus
	require.NoError(t, dialNode(t, a).Call(&status, "bor_scrub"))
	require.False(t, status.On)
	stop()
	flipByte(t, filepath.Join(p.observer.Path(p.observer.Store.Dir), "segments", fmt.Sprintf("%08d.seg", entry.Segment)), int64(entry.Offset)+block.RecordHeaderBytes+20)

	p.observer.Scrub.MegabytesPerSecond = 100
	a, stop = p.run(p.observer)
	p.until("a round has ended", func() bool { return a.scrub.Progress().Last.Ended > 0 })
	require.EqualValues(t, 1, a.scrub.Progress().Last.Problems)
	p.until("the block was replaced", func() bool { return len(a.store.Damaged()) == 0 })
	got, err := a.store.BlockByHeight(height)
	require.NoError(t, err)
	require.Equal(t, want.Encode(), got.Encode())
	stop()

	a, _ = p.run(p.observer)
	require.NoError(t, dialNode(t, a).Call(&status, "bor_scrub"))
	require.True(t, status.On)
	require.Zero(t, status.Damaged)
	require.NotNil(t, status.LastRound)
	require.EqualValues(t, 1, status.LastRound.Problems, "the round before the restart")
}
