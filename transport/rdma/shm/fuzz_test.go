//go:build linux

package shm

import (
	"encoding/binary"
	"math"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/transport/rdma/fabric"
)

func FuzzInfo(f *testing.F) {
	f.Add(info{qp: 3, token: token{1, 2, 3}}.append(nil))
	f.Add(info{rendezvous: rendezvous{kind: kindFolder, name: name{9}}}.append(nil))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		i, err := parseInfo(b)
		if err != nil {
			require.ErrorIs(t, err, fabric.ErrPeer)
			return
		}
		require.Equal(t, b, i.append(nil))
		require.LessOrEqual(t, len(b), fabric.MaxInfoBytes)
		addr, err := Config{Folder: "/f"}.address(i.rendezvous)
		require.NoError(t, err)
		require.Contains(t, addr.Name, socketPrefix, "nothing but a node's socket is ever dialled")
	})
}

func FuzzHello(f *testing.F) {
	f.Add(hello{token: token{1}, qp: 1, peer: 2, depth: minRingDepth, start: 4, cqLine: 1, srqLine: 2, rnrRetry: true}.append(nil))
	f.Add(hello{depth: maxRingDepth}.append(nil))
	f.Add([]byte{msgHello})
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := parseHello(b)
		if err != nil {
			require.ErrorIs(t, err, fabric.ErrPeer)
			return
		}
		require.Equal(t, b, h.append(nil))
		require.LessOrEqual(t, len(b), maxMessage)
		require.LessOrEqual(t, h.depth, uint32(maxRingDepth))
		require.Less(t, h.start, h.depth)
		require.Less(t, max(h.cqLine, h.srqLine), uint32(statusLines))
	})
}

func FuzzControl(f *testing.F) {
	for _, c := range []control{
		{kind: msgWake}, {kind: msgRegion, id: 1, value: 2, code: 3}, {kind: msgRegionAck, id: 1},
		{kind: msgArea, id: 1, value: 2}, {kind: msgAreaFile, id: 4, code: ansNoArea},
	} {
		f.Add(c.append(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := parseControl(b)
		if err != nil {
			require.ErrorIs(t, err, fabric.ErrPeer)
			return
		}
		require.Equal(t, b, c.append(nil))
	})
}

// FuzzRing: whatever a peer writes into a completion ring, a Poll gives completions that are within bounds, or breaks
// the queue pair.
func FuzzRing(f *testing.F) {
	f.Add([]byte{1, 2, 1, 0, 4, 0, 0, 1, 3, 1, 0, 1, 0, 0})
	f.Add([]byte{1, 3, 3, 0, 1, 0, 0, 1, 3, 1, 255, 255, 255, 255})
	dev, err := Open(DefaultConfig(), nil)
	require.NoError(f, err)
	f.Cleanup(func() { dev.Close() })
	f.Fuzz(func(t *testing.T, b []byte) {
		e := newEnd(t, dev, 64, fabric.QPConfig{})
		tx, file, err := newTxRing(minRingDepth)
		require.NoError(t, err)
		file.Close()
		defer tx.mem.close()
		e.qp.rx = rxRing{ring: tx.ring, end: math.MaxUint64}
		e.qp.exposed.Store(4096)
		e.qp.peerArmed = new(atomic.Uint32)
		require.NoError(t, e.cq.add(e.qp))
		for i := 0; len(b) >= 7; i++ { // lap, opcode, flags, bytes
			tx.sizes[i%minRingDepth].Store(binary.LittleEndian.Uint32(b[3:]))
			tx.slots[i%minRingDepth].Store(uint64(b[0]) | uint64(b[1])<<16 | uint64(b[2])<<24 | uint64(i)<<32)
			b = b[7:]
		}
		out := make([]fabric.Completion, 16)
		total := 0
		for range 8 {
			n, err := e.cq.Poll(out)
			require.NoError(t, err)
			for _, c := range out[:n] {
				require.Equal(t, e.qp.num, c.QP)
				switch c.Op {
				case fabric.OpRecv:
					require.LessOrEqual(t, c.Bytes, uint32(fabric.MaxSendBytes))
				case fabric.OpRecvImm:
					require.LessOrEqual(t, c.Bytes, uint32(4096))
				default:
					require.Fail(t, "a completion of another kind", "%+v", c)
				}
			}
			total += n
		}
		require.LessOrEqual(t, total, 64)
		e.cq.remove(e.qp)
		e.qp.rx.ring = ring{}
	})
}
