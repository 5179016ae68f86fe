package blocksync

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/transport"
)

// laggingBlocks is a store that has not followed the driver's LIB yet.
type laggingBlocks struct {
	*modelNode
	upTo atomic.Uint64
}

func (b *laggingBlocks) Range(from, to uint64, maxBytes int, fn func(uint64, []byte) error) error {
	to = min(to, b.upTo.Load())
	if from > to {
		return nil
	}
	return b.modelNode.Range(from, to, maxBytes, fn)
}

func TestRangeWhileTheStoreLags(t *testing.T) {
	onMem(t, func(l *lab) {
		chain := newChain(400, chainShape{})
		store := new(laggingBlocks)
		store.upTo.Store(395)
		n := l.node("n", chain, func(_ *Config, d *Deps) {
			store.modelNode = d.Blocks.(*modelNode)
			d.Blocks = store
		})
		s := l.script("peer", n).at(modelGenesis, modelGenesis, 0).hello()
		blocks := func(from, to uint64) {
			for h := from; h <= to; h++ {
				b, err := DecodeSignedBlock(s.next(transport.LaneCatchUp, TypeSignedBlock))
				require.NoError(t, err)
				require.Equal(t, h, b.Height)
			}
		}
		r := SyncRequest{Start: 390, End: 398, ReqIndex: 3}
		s.send(0, TypeSyncRequest, r.Encode())
		blocks(390, 395)
		l.pass(300 * time.Millisecond)
		store.upTo.Store(397)
		blocks(396, 397)
		// It does not come any further: that is no fault of the record.
		e, err := DecodeError(s.next(transport.LaneCatchUp, TypeError))
		require.NoError(t, err)
		require.Equal(t, CodeBeyond, e.Code)
		require.EqualValues(t, 397, e.Height)

		// The branch from an irreversible block.
		q := Request{Blocks: IDs{Mode: ModeCatchUp, IDs: hashes(chain[397])}, ReqIndex: 4}
		s.send(0, TypeRequest, q.Encode())
		e, err = DecodeError(s.next(transport.LaneCatchUp, TypeError))
		require.NoError(t, err)
		require.Equal(t, CodeGone, e.Code, "to be asked again at once")
	})
}

func TestAnswerToIDsIsBounded(t *testing.T) {
	onMem(t, func(l *lab) {
		chain := newChain(10, chainShape{size: 1 << 20})
		n := l.node("n", chain)
		s := l.script("peer", n).at(chain[10], chain[8], 9).hello()
		ids := hashes(chain[3])
		for len(ids) < 100 {
			ids = append(ids, ids[0])
		}
		r := Request{Blocks: IDs{Mode: ModeNormal, IDs: ids}, ReqIndex: 4}
		s.send(0, TypeRequest, r.Encode())
		e, err := DecodeError(s.next(transport.LaneCatchUp, TypeError))
		require.NoError(t, err)
		require.Equal(t, CodeOverloaded, e.Code)
		require.LessOrEqual(t, peerOf(n, "peer").ServedBytes, uint64(maxAnswerBytes+100*64))
	})
}
