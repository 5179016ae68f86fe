package blocksync

import (
	"context"
	"encoding/binary"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/transport"
	"github.com/bornode/bornode/transport/mem"
)

// One-sided pull, on windows of real block stores over the in-memory network. That the cases of the checklist pass with
// it too is forEachProvider's "window".

// requireOnce checks that every irreversible block came once, and how many of them were pushed.
func requireOnce(l *lab, n *node, chain []*block.Block, lib uint64) (pulled uint64) {
	l.t.Helper()
	l.caughtUp(n, chain)
	for h := uint64(1); h <= lib; h++ {
		b, err := n.HeaderByHeight(h)
		require.NoError(l.t, err)
		require.Equal(l.t, chain[h].Hash(), b.Hash())
	}
	require.Zero(l.t, n.addedTwice)
	var ranged uint64
	for _, p := range n.m.Peers() {
		require.LessOrEqual(l.t, p.PulledBlocks, p.RangeBlocks)
		ranged += p.RangeBlocks
		pulled += p.PulledBlocks
	}
	require.Equal(l.t, lib, ranged, "every block of the range came exactly once")
	return pulled
}

// TestPullLeavesTheServerAlone: the whole history is read without a message to the node that serves it, let alone a
// goroutine of it.
func TestPullLeavesTheServerAlone(t *testing.T) {
	onWindows(t, func(l *lab) {
		chain := newChain(3000, chainShape{size: 1000})
		a, b := l.node("a", chain), l.node("b", nil)
		b.dial(a.host)
		require.EqualValues(l.t, 2998, requireOnce(l, b, chain, 2998))
		served := a.m.Peers()[0]
		require.LessOrEqual(l.t, served.Served, uint64(2), "of the reversible branch")
		var bytes uint64
		for _, x := range chain[1:2999] {
			bytes += uint64(len(x.Encode()))
		}
		require.Equal(l.t, bytes, b.m.Peers()[0].PulledBytes)
		require.Less(l.t, l.mem.WindowReads("b", "a"), 100, "index entries and records are read in bulk")
		require.Less(l.t, served.Transport.Lanes[transport.LaneCatchUp].BytesSent, uint64(10_000))
	})
}

// TestPullOverSharedMemory is the same with descriptors that another host handed over.
func TestPullOverSharedMemory(t *testing.T) {
	onFastWindows(t, func(l *lab) {
		chain := newChain(3000, chainShape{size: 1000})
		a, b := l.node("a", chain), l.node("b", nil)
		b.dial(a.host)
		require.EqualValues(l.t, 2998, requireOnce(l, b, chain, 2998))
		served := a.m.Peers()[0]
		require.LessOrEqual(l.t, served.Served, uint64(2), "of the reversible branch")
		require.Less(l.t, served.Transport.Lanes[transport.LaneCatchUp].BytesSent, uint64(10_000))
		c := b.m.Peers()[0].Path.Counters
		require.Less(l.t, c["window_asked"], uint64(30), "descriptors: %v", c)
		require.Greater(l.t, c["window_bytes"], uint64(3_000_000))
		require.Less(l.t, a.window.opened(), 30, "opened by the serving process")
	})
}

func TestPullIsSwitchedOff(t *testing.T) {
	for _, name := range []string{"by the joiner", "by the server", "by a rate limit"} {
		t.Run(name, func(t *testing.T) {
			onWindows(t, func(l *lab) {
				keep := func(*Config, *Deps) {}
				server, joiner := keep, keep
				switch name {
				case "by the joiner":
					joiner = func(c *Config, _ *Deps) { c.Pull = false }
				case "by the server":
					server = func(_ *Config, d *Deps) { d.Identity.Pull = false }
				default:
					server = func(c *Config, _ *Deps) { c.ServeBytesPerSec = 1 << 20 }
				}
				chain := newChain(200, chainShape{})
				a, b := l.node("a", chain, server), l.node("b", nil, joiner)
				b.dial(a.host)
				require.Zero(l.t, requireOnce(l, b, chain, 198))
				require.Zero(l.t, l.mem.WindowReads("b", "a"))
			})
		})
	}
}

// TestPullFallsBack: whatever happens to the window while it is read, what is missing is asked for by message, nothing
// is lost or fetched twice, and nobody is blamed.
func TestPullFallsBack(t *testing.T) {
	flip := func(p []byte) {
		if len(p) > 0 {
			p[len(p)/2] ^= 1
		}
	}
	for _, c := range []struct {
		name   string
		faults mem.WindowFaults
		pulls  bool // some of it is read all the same
		reads  int  // at most
	}{
		{"the link carries no reads", mem.WindowFaults{None: true}, false, 2},
		{"the source dies in the middle of a range", mem.WindowFaults{FailAfter: 300_000}, true, 15},
		{"damaged entries", mem.WindowFaults{Spoil: func(area uint32, _ int64, p []byte) {
			if area >= block.AreaIndex {
				flip(p)
			}
		}}, false, 3},
		{"damaged records", mem.WindowFaults{Spoil: func(area uint32, offset int64, p []byte) {
			if area == 2 && offset > 1000 {
				flip(p)
			}
		}}, true, 15},
		{"no directory", mem.WindowFaults{Spoil: func(area uint32, _ int64, p []byte) {
			if area == block.AreaDirectory {
				clear(p)
			}
		}}, false, 2},
		{"a directory that is for ever being changed", mem.WindowFaults{Spoil: func(area uint32, _ int64, p []byte) {
			if area == block.AreaDirectory {
				p[23] |= 1
			}
		}}, false, 16},
		{"a shorter directory", mem.WindowFaults{Spoil: shorten(500)}, true, 40},
		{"reads that hang", mem.WindowFaults{Latency: time.Hour}, false, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			onWindows(t, func(l *lab) {
				chain := newChain(1000, chainShape{size: 1000})
				l.mem.SetWindowFaults("b", "a", c.faults)
				a, b := l.node("a", chain), l.node("b", nil, small(100))
				begin := time.Now()
				b.dial(a.host)
				pulled := requireOnce(l, b, chain, 998)
				require.Less(l.t, pulled, uint64(998))
				require.Equal(l.t, c.pulls, pulled > 0, "%d blocks were read", pulled)
				require.Zero(l.t, b.m.bans.Len())
				b.m.query(func() { require.Zero(l.t, b.m.sched.Failures("a")) })
				require.LessOrEqual(l.t, l.mem.WindowReads("b", "a"), c.reads, "it is not tried over and over")
				require.Less(l.t, time.Since(begin), DefaultConfig().RequestTimeout, "one read at most is waited for")
			})
		})
	}
}

// shorten makes a directory page end below a height.
func shorten(next uint64) func(uint32, int64, []byte) {
	return func(area uint32, _ int64, p []byte) {
		if d, err := block.DecodeDirectory(p); area == block.AreaDirectory && err == nil {
			d.Next = min(d.Next, next)
			copy(p, d.AppendTo(nil))
		}
	}
}

// TestPullAfterTornPages: a page met in the middle of a change is read again, and everything is read.
func TestPullAfterTornPages(t *testing.T) {
	onWindows(t, func(l *lab) {
		chain := newChain(1000, chainShape{})
		torn := 0
		l.mem.SetWindowFaults("b", "a", mem.WindowFaults{Spoil: func(area uint32, _ int64, p []byte) {
			if torn++; area == block.AreaDirectory && torn%3 != 0 {
				p[40] ^= 1
			}
		}})
		a, b := l.node("a", chain), l.node("b", nil, small(100))
		b.dial(a.host)
		require.EqualValues(l.t, 998, requireOnce(l, b, chain, 998))
	})
}

// TestPullComesBack: a window that could not be read is tried again, so one that works later is used.
func TestPullComesBack(t *testing.T) {
	onWindows(t, func(l *lab) {
		chain := newChain(6000, chainShape{})
		l.mem.SetWindowFaults("b", "a", mem.WindowFaults{None: true})
		l.mem.SetFaults("b", "a", mem.Faults{Latency: 100 * time.Millisecond}) // so that it takes a while
		a, b := l.node("a", chain), l.node("b", nil, small(100))
		b.dial(a.host)
		l.eventually(func() bool { return b.Status().LIB.Height > 500 }, "pushed")
		require.Zero(l.t, b.m.Peers()[0].PulledBlocks)
		l.mem.SetWindowFaults("b", "a", mem.WindowFaults{})
		require.Greater(l.t, requireOnce(l, b, chain, 5998), uint64(1000))
	})
}

// TestPullBacksOff: a window that never works is tried less and less often.
func TestPullBacksOff(t *testing.T) {
	onWindows(t, func(l *lab) {
		chain := newChain(5000, chainShape{})
		l.mem.SetWindowFaults("b", "a", mem.WindowFaults{Spoil: func(_ uint32, _ int64, p []byte) { clear(p) }})
		l.mem.SetFaults("b", "a", mem.Faults{Latency: time.Second})
		a, b := l.node("a", chain), l.node("b", nil, small(100))
		begin := time.Now()
		b.dial(a.host)
		require.Zero(l.t, requireOnce(l, b, chain, 4998))
		require.Greater(l.t, time.Since(begin), 20*time.Second)
		require.LessOrEqual(l.t, l.mem.WindowReads("b", "a"), 6, "after 1, 2, 4, 8, 16 s")
	})
}

// TestPullIsCancelled: what is read for a request that is taken back ends, and the peer hears nothing of it.
func TestPullIsCancelled(t *testing.T) {
	onMem(t, func(l *lab) {
		n := l.node("n", nil)
		s := l.script("peer", n).hello()
		l.eventually(func() bool { return n.m.Status().Peers == 1 }, "a peer")
		n.m.query(func() {
			p := n.m.peers["peer"]
			j := &windowJob{assignment: assignment{peer: p.id, req: 7}}
			j.ctx, j.cancel = context.WithCancel(p.ctx)
			p.windowJobs[7] = j
			n.m.cancel([]assignment{j.assignment})
			require.Error(l.t, j.ctx.Err())
			require.Empty(l.t, p.windowJobs)
		})
		s.quiet(time.Second, 0, TypeSyncRequest)
	})
}

// rewriteRecords puts another block in the place of some, with sound checksums.
func rewriteRecords(other []*block.Block) func(uint32, int64, []byte) {
	return func(area uint32, offset int64, p []byte) {
		if area == block.AreaDirectory || area >= block.AreaIndex {
			return
		}
		for len(p) > block.RecordHeaderBytes {
			size := block.RecordHeaderBytes + int(binary.BigEndian.Uint32(p))
			if size > len(p) {
				return
			}
			h, payload, err := block.DecodeRecord(p[:size])
			if err == nil && h.Height > 100 && int(h.Height) < len(other) {
				if raw := other[h.Height].Encode(); len(raw) == len(payload) {
					copy(payload, raw)
					block.SealRecord(p[:size], h.Height, h.Hash)
				}
			}
			p = p[size:]
		}
	}
}

// TestPullOfWrongBlocks: records that are sound but hold another block than the index says are a lie, punished like
// wrong blocks that are pushed; the rest comes from others.
func TestPullOfWrongBlocks(t *testing.T) {
	chain := newChain(600, chainShape{size: 500})
	for name, c := range map[string]struct {
		spoil func(uint32, int64, []byte)
		why   Reason
	}{
		"another branch's": {rewriteRecords(newChain(600, chainShape{size: 500, salt: 1})), Validation},
		"a forged seal":    {rewriteRecords(spoilt(chain)), Validation},
		"bytes that are no block": {func(area uint32, _ int64, p []byte) {
			if area == 1 {
				for q := p; len(q) > block.RecordHeaderBytes; {
					size := block.RecordHeaderBytes + int(binary.BigEndian.Uint32(q))
					h, payload, err := block.DecodeRecord(q[:min(size, len(q))])
					if err != nil {
						return
					}
					clear(payload)
					block.SealRecord(q[:size], h.Height, h.Hash)
					q = q[size:]
				}
			}
		}, Validation},
	} {
		t.Run(name, func(t *testing.T) {
			onWindows(t, func(l *lab) {
				l.mem.SetWindowFaults("n", "liar", mem.WindowFaults{Spoil: c.spoil})
				n := l.node("n", nil, small(50))
				liar := l.node("liar", chain)
				n.dial(liar.host)
				l.eventually(func() bool { return n.m.bans.Len() == 1 }, "the liar is refused")
				good := l.node("good", chain)
				n.dial(good.host)
				l.caughtUp(n, chain)
				require.Len(l.t, n.m.Peers(), 1)
				require.NotZero(l.t, n.m.Peers()[0].PulledBlocks)
			})
		})
	}
}

func spoilt(chain []*block.Block) []*block.Block {
	out := make([]*block.Block, len(chain))
	for i, b := range chain {
		out[i] = spoilSeal(b)
	}
	return out
}

// TestPullWhilePruned: the source prunes what is being read. What is gone is told by its answer to the message, and
// comes from another peer.
func TestPullWhilePruned(t *testing.T) {
	onWindows(t, func(l *lab) {
		chain := newChain(2000, chainShape{size: 2000})
		pruned, full := l.node("pruned", chain), l.node("full", chain)
		n := l.node("n", nil, small(100))
		var once sync.Once
		l.mem.SetWindowFaults("n", "pruned", mem.WindowFaults{Latency: 10 * time.Millisecond, Spoil: func(area uint32, offset int64, _ []byte) {
			if area == 2 {
				once.Do(func() { pruned.do(func() { pruned.pruned = 1500 }) })
			}
		}})
		n.dial(pruned.host)
		l.eventually(func() bool { return n.Status().LIB.Height > 100 }, "under way")
		n.dial(full.host)
		l.caughtUp(n, chain)
		require.Zero(l.t, n.addedTwice)
		require.Zero(l.t, n.m.bans.Len())
		require.NotZero(l.t, peerOf(n, "pruned").PulledBlocks)
		require.NotZero(l.t, peerOf(n, "full").PulledBlocks)
	})
}

// TestPullRunAheadIsBounded: reading is bounded like pushing, by what is applied.
func TestPullRunAheadIsBounded(t *testing.T) {
	onWindows(t, func(l *lab) {
		chain := newChain(2000, chainShape{size: 1000})
		a := l.node("a", chain)
		b := l.node("b", nil, small(20), func(c *Config, _ *Deps) { c.RunAheadBlocks = 200 })
		b.gate = make(chan struct{})
		b.dial(a.host)
		l.eventually(func() bool { return b.m.Status().Blocks >= 180 }, "it reads")
		l.pass(20 * time.Second)
		require.LessOrEqual(l.t, b.m.Status().Blocks, uint64(200))
		close(b.gate)
		require.EqualValues(l.t, 1998, requireOnce(l, b, chain, 1998))
	})
}

// TestPullWaitsForTheManager: what was read and not taken yet is bounded too, so that a chunk of huge blocks is not in
// memory before anybody looks at it.
func TestPullWaitsForTheManager(t *testing.T) {
	onWindows(t, func(l *lab) {
		chain := newChain(40, chainShape{size: 600 << 10})
		l.mem.SetWindowFaults("b", "a", mem.WindowFaults{Latency: time.Millisecond})
		a, b := l.node("a", chain), l.node("b", nil)
		b.dial(a.host)
		l.eventually(func() bool { return b.m.Status().Blocks > 0 }, "under way")
		var before, after int
		b.m.query(func() {
			before = l.mem.WindowReads("b", "a")
			l.pass(time.Second)
			after = l.mem.WindowReads("b", "a")
		})
		require.LessOrEqual(l.t, after-before, windowBatches+1)
		l.caughtUp(b, chain)
	})
}

// TestPullOfBlocksLargerThanExpected: a chunk that turns out far larger than its size is cut, without a message and
// without a block lost.
func TestPullOfBlocksLargerThanExpected(t *testing.T) {
	onWindows(t, func(l *lab) {
		chain := newChain(200, chainShape{})
		chain = extend(chain, 200, chainShape{size: 100 << 10})
		a := l.node("a", chain)
		b := l.node("b", nil, func(c *Config, _ *Deps) { c.ChunkBytes = 256 << 10; c.RunAheadBytes = 4 << 20 })
		b.dial(a.host)
		l.caughtUp(b, chain)
		p := b.m.Peers()[0]
		require.GreaterOrEqual(l.t, p.PulledBlocks, uint64(398))
		require.Equal(l.t, p.RangeBlocks, p.PulledBlocks)
		require.LessOrEqual(l.t, a.m.Peers()[0].Served, uint64(2))
	})
}

func TestPullFromSeveralPeers(t *testing.T) {
	onWindows(t, func(l *lab) {
		chain := newChain(5000, chainShape{size: 200})
		n := l.node("n", nil, small(50))
		for _, name := range []string{"a", "b", "c"} {
			l.mem.SetFaults("n", transport.PeerID(name), mem.Faults{Latency: time.Millisecond})
			l.mem.SetWindowFaults("n", transport.PeerID(name), mem.WindowFaults{Latency: 10 * time.Millisecond})
			n.dial(l.node(name, chain).host)
		}
		require.EqualValues(l.t, 4998, requireOnce(l, n, chain, 4998))
		for _, p := range n.m.Peers() {
			require.Greater(l.t, p.PulledBlocks, uint64(500), p.ID)
		}
	})
}

// TestPullFromASourceThatGoes: the link ends while its window is read.
func TestPullFromASourceThatGoes(t *testing.T) {
	onWindows(t, func(l *lab) {
		chain := newChain(3000, chainShape{size: 1000})
		a, b := l.node("a", chain), l.node("b", chain)
		n := l.node("n", nil, small(50))
		l.mem.SetWindowFaults("n", "a", mem.WindowFaults{Latency: 20 * time.Millisecond})
		n.dial(a.host)
		l.eventually(func() bool { return n.Status().LIB.Height > 500 }, "under way")
		a.stop()
		n.dial(b.host)
		l.caughtUp(n, chain)
		require.Zero(l.t, n.addedTwice)
		require.NotZero(l.t, peerOf(n, "b").PulledBlocks)
	})
}
