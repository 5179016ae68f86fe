package blocksync

import (
	"fmt"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/transport"
	"github.com/bornode/bornode/transport/mem"
)

// The sync cases of the protocol's checklist (docs/wire-sync.md, "Cases"), by number.

func TestEmptyNodeCatchesUp(t *testing.T) {
	forEachProvider(t, func(l *lab) {
		if l.mem != nil {
			l.mem.SetFaults("a", "b", mem.Faults{Latency: time.Millisecond})
		}
		chain := newChain(3000, chainShape{})
		a := l.node("a", chain)
		b := l.node("b", nil)
		b.dial(a.host)
		l.caughtUp(b, chain)
		s := b.m.Status()
		require.NotZero(l.t, s.FirstBlock)
		require.NotZero(l.t, s.Bytes)
		require.Greater(l.t, s.InSync, s.FirstBlock)
		require.Equal(l.t, a.Status().LIB, b.Status().LIB)
	})
}

// small makes chunks of so many blocks.
func small(blocks uint64) nodeOption {
	return func(c *Config, _ *Deps) { c.ChunkBlocks = blocks }
}

func TestCase01SourceCloses(t *testing.T) {
	forEachProvider(t, func(l *lab) {
		chain := newChain(2000, chainShape{size: 2000})
		a, b := l.node("a", chain), l.node("b", chain)
		c := l.node("c", nil, small(50))
		c.dial(a.host)
		l.eventually(func() bool { return c.Status().LIB.Height > 100 }, "some of it is applied")
		a.stop()
		c.dial(b.host)
		l.caughtUp(c, chain)
		require.LessOrEqual(l.t, c.m.Status().Start, uint64(0), "it went on from LIB, in one sync")
	})
}

func TestCase01RejectedBlockGoesToAnotherPeer(t *testing.T) {
	forEachProvider(t, func(l *lab) {
		chain := newChain(600, chainShape{})
		bad := append([]*block.Block(nil), chain...)
		bad[130] = spoilSeal(chain[130])
		liar := l.node("a", chain)
		liar.do(func() { liar.final[130] = bad[130] })
		c := l.node("c", nil, small(50))
		c.dial(liar.host)
		l.eventually(func() bool { return c.m.bans.Len() == 1 }, "the liar is refused")
		l.eventually(func() bool { return c.Status().Head.Height == 129 }, "what was good is kept: %d", c.Status().Head.Height)
		good := l.node("b", chain)
		c.dial(good.host)
		l.caughtUp(c, chain)
		require.Len(l.t, c.m.Peers(), 1)
	})
}

// spoilSeal gives a block a wrong signature; its hash stays.
func spoilSeal(b *block.Block) *block.Block {
	s := &block.SealedHeader{Header: b.Header, Record: b.Record}
	return &block.Block{SealedHeader: s, Transactions: b.Transactions, Senders: b.Senders}
}

func TestCase02BadBlockNoRepeatedRequest(t *testing.T) {
	forEachProvider(t, func(l *lab) {
		chain := newChain(40, chainShape{})
		n := l.node("n", nil, small(20), func(c *Config, _ *Deps) { c.BanTime = 0 })
		s := l.script("peer", n).at(chain[40], chain[38], 39).hello()
		r := s.syncRequest()
		require.EqualValues(l.t, 1, r.Start)
		bad := append([]*block.Block(nil), chain[r.Start:r.End+1]...)
		bad[3] = spoilSeal(bad[3])
		s.answer(r.ReqIndex, bad)
		s.goneWith(Validation)
		// Even a peer that is not banned and comes back gets no request for what it failed to deliver; blocks 1 to 3
		// were good and are not fetched again.
		s.connect(n)
		s.hello()
		again := s.syncRequest()
		require.NotEqual(l.t, r.Start, again.Start, "the same range is not asked for again")
		require.EqualValues(l.t, 0, n.Status().LIB.Height-again.Start+1, "it goes on above LIB")
	})
}

func TestCase03StormOfUnlinkableBlocks(t *testing.T) {
	forEachProvider(t, func(l *lab) {
		chain := newChain(10, chainShape{})
		n := l.node("n", chain)
		s := l.script("storm", n).at(chain[10], chain[8], 9).hello()
		s.next(0, TypeNotice)
		loose := newChain(30, chainShape{salt: 9})
		for i := range 10 * maxUnlinkable {
			s.push(makeBlock(loose[30], uint64(100+i), 1000, nil, nil, nil, 9))
		}
		s.goneWith(Unlinkable)
		l.eventually(func() bool { return len(n.m.Peers()) == 0 }, "the peer is gone")
		held := make(chan int, 1)
		n.m.query(func() { held <- n.m.orphans.count })
		require.Zero(l.t, <-held)
	})
}

func TestCase03OrphansAreBounded(t *testing.T) {
	onMem(t, func(l *lab) {
		n := l.node("n", nil)
		s := l.script("storm", n).hello()
		s.next(0, TypeNotice)
		loose := newChain(3, chainShape{salt: 9})
		for i := range maxUnlinkable - 1 {
			s.push(makeBlock(loose[3], uint64(100+i), 10, nil, nil, nil, 9))
		}
		l.eventually(func() bool { return n.m.Peers()[0].BlocksIn == maxUnlinkable-1 }, "all arrived")
		n.m.query(func() { require.LessOrEqual(l.t, n.m.orphans.count, maxOrphansPerPeer) })
	})
}

func TestCase04RunAheadIsBoundedByAppliedHead(t *testing.T) {
	onMem(t, func(l *lab) {
		chain := newChain(2000, chainShape{size: 1000})
		a := l.node("a", chain)
		const bound = 200
		b := l.node("b", nil, small(20), func(c *Config, _ *Deps) { c.RunAheadBlocks = bound })
		b.gate = make(chan struct{})
		b.dial(a.host)
		synctestWait(l, func() bool { return b.m.Status().Blocks >= bound-20 })
		l.pass(20 * time.Second)
		require.LessOrEqual(l.t, b.m.Status().Blocks, uint64(bound), "nothing is applied, so nothing more is asked for")
		close(b.gate)
		l.caughtUp(b, chain)
	})
}

func synctestWait(l *lab, cond func() bool) { l.t.Helper(); l.eventually(cond, "it comes to pass") }

func TestCase05ChunkSmallerThanLIBLag(t *testing.T) {
	forEachProvider(t, func(l *lab) {
		chain := newChain(1000, chainShape{every: 97})
		a := l.node("a", chain)
		b := l.node("b", nil, small(10))
		b.dial(a.host)
		l.caughtUp(b, chain)
		require.Equal(l.t, a.Status().LIB, b.Status().LIB)
		require.Greater(l.t, b.maxRange, 90, "the uncertified rest is put in front of the next chunk")
	})
}

func TestCase05UncertifiedRestIsBounded(t *testing.T) {
	onMem(t, func(l *lab) {
		chain := newChain(2000, chainShape{every: 990})
		a := l.node("a", chain)
		b := l.node("b", nil, small(10), func(c *Config, _ *Deps) { c.RunAheadBlocks = 200 })
		b.dial(a.host)
		l.caughtUp(b, chain)
		require.LessOrEqual(l.t, b.maxRange, 70)
		require.Equal(l.t, a.Status().LIB, b.Status().LIB)
	})
}

func TestCase06KnownRangeAdvances(t *testing.T) {
	forEachProvider(t, func(l *lab) {
		chain := newChain(40, chainShape{})
		n := l.node("n", nil, small(20))
		s := l.script("peer", n).at(chain[40], chain[38], 39).hello()
		first, second := s.syncRequest(), s.syncRequest()
		// Meanwhile the node gets everything by another way.
		n.do(func() {
			for _, b := range chain[1:41] {
				n.insert(b)
			}
		})
		s.answer(first.ReqIndex, chain[first.Start:first.End+1])
		s.answer(second.ReqIndex, chain[second.Start:second.End+1])
		l.caughtUp(n, chain)
	})
}

func TestCase07NeverStuckOnAFalseClaim(t *testing.T) {
	forEachProvider(t, func(l *lab) {
		chain := newChain(10, chainShape{})
		n := l.node("n", chain)
		far := newChain(100, chainShape{salt: 3})
		s := l.script("liar", n).at(far[100], far[98], 99).hello()
		r := s.syncRequest()
		s.refuse(r.ReqIndex, CodeBeyond, 5)
		l.eventually(func() bool { return n.m.Status().State == InSync }, "the claim is dropped on evidence")
		// Live traffic goes on with others meanwhile.
		o := l.script("other", n).at(chain[10], chain[8], 9).hello()
		o.next(0, TypeNotice)
		more := extend(chain, 1, chainShape{})
		o.push(more[11])
		l.eventually(func() bool { return n.Status().Head.Height == 11 }, "a live block is taken")
	})
}

func TestCase08TimeoutReassignsWithProgress(t *testing.T) {
	onMem(t, func(l *lab) {
		chain := newChain(60, chainShape{})
		n := l.node("n", nil, small(60))
		slow := l.script("slow", n).at(chain[60], chain[58], 59).hello()
		r := slow.syncRequest()
		slow.answer(r.ReqIndex, chain[1:21]) // and then nothing
		quick := l.script("quick", n).at(chain[60], chain[58], 59).hello()
		q := quick.syncRequest()
		require.EqualValues(l.t, 21, q.Start, "what the slow peer brought is kept")
		cancel := slow.syncRequest()
		require.Equal(l.t, SyncRequest{ReqIndex: r.ReqIndex}, *cancel)
		quick.answer(q.ReqIndex, chain[q.Start:q.End+1])
		l.eventually(func() bool { return n.Status().Head.Height >= 58 }, "all applied")
	})
}

func TestCase09PrunedPeerIsNotAskedAgain(t *testing.T) {
	forEachProvider(t, func(l *lab) {
		chain := newChain(400, chainShape{})
		pruned := l.node("pruned", chain)
		c := l.node("c", nil, small(20))
		full := l.node("full", chain)
		// The pruned node prunes after its handshake, so its claim is out of date.
		c.dial(pruned.host)
		l.eventually(func() bool { return len(c.m.Peers()) == 1 && c.m.Peers()[0].Handshaken }, "linked")
		c.do(func() {})
		pruned.do(func() { pruned.pruned = 300 })
		c.dial(full.host)
		l.caughtUp(c, chain)
	})
	onMem(t, func(l *lab) {
		chain := newChain(100, chainShape{})
		n := l.node("n", nil, small(10))
		s := l.script("pruned", n).at(chain[100], chain[98], 99).hello()
		s.refuse(s.syncRequest().ReqIndex, CodePruned, 90)
		s.refuse(s.syncRequest().ReqIndex, CodePruned, 90)
		require.Zero(l.t, s.syncRequest().Start, "the other request is taken back, and no more come")
		s.quiet(time.Minute, 0, TypeSyncRequest)
	})
}

func TestCase10ForkSwitchDuringAnAnswer(t *testing.T) {
	forEachProvider(t, func(l *lab) {
		base := newChain(20, chainShape{})
		n := l.node("n", base)
		tip := extend(base, 10, chainShape{noFC: true})
		s := l.script("peer", n).at(tip[30], base[18], 19).hello()
		r := s.request()
		require.Equal(l.t, ModeCatchUp, r.Blocks.Mode)
		s.answer(r.ReqIndex, tip[21:24][:2])
		s.refuse(r.ReqIndex, CodeGone, 0)
		again := s.request()
		require.NotEqual(l.t, r.ReqIndex, again.ReqIndex)
		s.answer(again.ReqIndex, tip[23:31])
		l.caughtUp(n, tip)
		require.Len(l.t, n.m.Peers(), 1, "the peer is kept")
	})
	// The serving side says so and keeps its link.
	onMem(t, func(l *lab) {
		base := newChain(20, chainShape{})
		tip := extend(base, 10, chainShape{noFC: true})
		n := l.node("n", tip)
		n.do(func() { n.lost[tip[25].Hash()] = true })
		s := l.script("peer", n).at(base[20], base[18], 19).hello()
		r := Request{Blocks: IDs{Mode: ModeCatchUp, IDs: hashes(base[20])}, ReqIndex: 5}
		s.send(0, TypeRequest, r.Encode())
		e, err := DecodeError(s.next(transport.LaneCatchUp, TypeError))
		require.NoError(l.t, err)
		require.Equal(l.t, CodeGone, e.Code)
		require.Len(l.t, n.m.Peers(), 1)
	})
}

func TestCase11OverlappingRequestsExtend(t *testing.T) {
	onMem(t, func(l *lab) {
		chain := newChain(300, chainShape{size: 1000})
		n := l.node("n", chain, func(c *Config, _ *Deps) { c.ServeBytesPerSec = 20000 })
		s := l.script("peer", n).at(modelGenesis, modelGenesis, 0).hello()
		for _, r := range []SyncRequest{{1, 50, 9, 0}, {40, 90, 9, 0}, {91, 100, 9, 0}} {
			s.send(0, TypeSyncRequest, r.Encode())
		}
		for h := uint64(1); h <= 100; h++ {
			b, err := DecodeSignedBlock(s.next(transport.LaneCatchUp, TypeSignedBlock))
			require.NoError(l.t, err)
			require.Equal(l.t, h, b.Height, "each block once, in order")
		}
		s.quiet(time.Minute, transport.LaneCatchUp, TypeSignedBlock)
	})
}

func TestCase12SlowLinkDoesNotLoop(t *testing.T) {
	onMem(t, func(l *lab) {
		l.mem.SetFaults("a", "b", mem.Faults{Latency: 1100 * time.Millisecond})
		chain := newChain(500, chainShape{})
		a, b := l.node("a", chain), l.node("b", nil)
		b.dial(a.host)
		l.caughtUp(b, chain)
		watch := watchStates(b)
		for range 60 {
			a.m.BroadcastBlock(a.produce(chainShape{}), "")
			l.pass(500 * time.Millisecond)
		}
		l.eventually(func() bool { return b.Status().Head == a.Status().Head }, "b follows")
		require.Empty(l.t, watch(), "no sync starts because of latency")
	})
}

// watchStates counts changes of state from now on; the result stops watching and lists them.
func watchStates(n *node) func() []string {
	var seen []string
	stop := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		last := n.m.Status().State
		for {
			select {
			case <-tick.C:
				if s := n.m.Status().State; s != last {
					last = s
					seen = append(seen, fmt.Sprint(s, " at ", n.Status().Head.Height))
				}
			case <-stop:
				return
			}
		}
	}()
	return func() []string { close(stop); <-ended; return seen }
}

func TestCase13DuplicateConnections(t *testing.T) {
	forEachProvider(t, func(l *lab) {
		chain := newChain(50, chainShape{})
		a, b := l.node("a", chain), l.node("b", chain)
		a.dial(b.host)
		b.dial(a.host)
		l.eventually(func() bool {
			return len(a.m.Peers()) == 1 && len(b.m.Peers()) == 1 && a.m.Peers()[0].Handshaken && b.m.Peers()[0].Handshaken
		}, "one link each")
		l.pass(3 * time.Second)
		require.Len(l.t, a.m.Peers(), 1)
		require.Len(l.t, b.m.Peers(), 1)
		x := a.produce(chainShape{})
		a.m.BroadcastBlock(x, "")
		l.eventually(func() bool { return b.Status().Head.Hash == x.Hash() }, "the link works")
	})
}

func TestCase15KnownIsDecidedFromTheHeader(t *testing.T) {
	onMem(t, func(l *lab) {
		chain := newChain(10, chainShape{})
		n := l.node("n", chain)
		s := l.script("peer", n).at(chain[10], chain[8], 9).hello()
		o := l.script("other", n).at(chain[10], chain[8], 9).hello()
		s.next(0, TypeNotice)
		o.next(0, TypeNotice)
		x := extend(chain, 1, chainShape{size: 5000})[11]
		s.push(x)
		l.eventually(func() bool { return n.Status().Head.Height == 11 }, "taken")
		// The second copy's body is no valid encoding: nobody looks at it.
		raw := x.Encode()
		broken := SignedBlock{Height: 11, Raw: append(raw[:len(raw)-100:len(raw)-100], make([]byte, 100)...)}
		o.send(0, TypeSignedBlock, broken.Encode())
		l.eventually(func() bool { return peerOf(n, "other").Duplicates == 1 }, "a duplicate")
		require.Equal(l.t, 1, n.checked)
	})
}

func peerOf(n *node, id string) PeerInfo {
	for _, p := range n.m.Peers() {
		if p.ID == id {
			return p
		}
	}
	return PeerInfo{}
}

func TestCase16DuplicatesAreDamped(t *testing.T) {
	onMem(t, func(l *lab) {
		chain := newChain(10, chainShape{})
		n := l.node("n", chain)
		s := l.script("peer", n).at(chain[10], chain[8], 9).hello()
		o := l.script("other", n).at(chain[10], chain[8], 9).hello()
		s.next(0, TypeNotice)
		o.next(0, TypeNotice)
		// n is sent everything twice: it asks the later peer to announce.
		chain = extend(chain, dampAfter, chainShape{})
		for _, x := range chain[11:] {
			s.push(x)
			l.eventually(func() bool { return n.Status().Head.Hash == x.Hash() }, "taken")
			o.push(x)
		}
		d, err := DecodeNotice(o.next(0, TypeNotice))
		require.NoError(l.t, err)
		require.True(l.t, d.SetDamp)
		require.Equal(l.t, DampBlocks, d.Damp)
		// A peer that asked for it gets relayed blocks by header, but n's own in full.
		wish := Notice{SetDamp: true, Damp: DampBlocks}
		o.send(0, TypeNotice, wish.Encode())
		l.eventually(func() bool { return peerOf(n, "other").Damped == DampBlocks }, "the wish arrived")
		chain = extend(chain, 1, chainShape{})
		s.push(chain[len(chain)-1])
		h, err := DecodeBlockHeader(o.next(0, TypeBlockHeader))
		require.NoError(l.t, err)
		require.Equal(l.t, chain[len(chain)-1].Hash(), h.Sealed.Hash())
		l.eventually(func() bool { return n.Status().Head.Hash == chain[len(chain)-1].Hash() }, "taken")
		own := n.produce(chainShape{})
		n.m.BroadcastBlock(own, "")
		b, err := DecodeSignedBlock(o.next(0, TypeSignedBlock))
		require.NoError(l.t, err)
		require.Equal(l.t, own.Number(), b.Height)
		// When the other link goes, the wish is taken back.
		require.NoError(l.t, s.link.Close("done"))
		d, err = DecodeNotice(o.next(0, TypeNotice))
		require.NoError(l.t, err)
		require.True(l.t, d.SetDamp)
		require.Zero(l.t, d.Damp)
	})
}

func TestCase17RelayAfterHeaderCheckBeforeExecution(t *testing.T) {
	forEachProvider(t, func(l *lab) {
		chain := newChain(10, chainShape{})
		n := l.node("n", chain)
		s := l.script("peer", n).at(chain[10], chain[8], 9).hello()
		o := l.script("other", n).at(chain[10], chain[8], 9).hello()
		s.next(0, TypeNotice)
		o.next(0, TypeNotice)
		n.do(func() { n.disk = true }) // nothing gets further than the header check
		x := extend(chain, 1, chainShape{})[11]
		s.push(x)
		b, err := DecodeSignedBlock(o.next(0, TypeSignedBlock))
		require.NoError(l.t, err)
		require.Equal(l.t, x.Encode(), b.Raw)
		require.EqualValues(l.t, 10, n.Status().Head.Height)
		// One whose header is bad is not relayed.
		s.push(spoilSeal(extend(chain, 1, chainShape{salt: 1})[11]))
		s.goneWith(Validation)
		o.quiet(2*time.Second, 0, TypeSignedBlock, TypeBlockHeader)
	})
}

func TestCase18HeartbeatLossCloses(t *testing.T) {
	onMem(t, func(l *lab) {
		chain := newChain(10, chainShape{})
		n := l.node("n", chain, func(c *Config, _ *Deps) { c.Heartbeat, c.HeartbeatTimeout = 2*time.Second, 8*time.Second })
		s := l.script("peer", n).at(chain[10], chain[8], 9).hello()
		s.next(0, TypeNotice)
		l.pass(30 * time.Second)
		require.Len(l.t, n.m.Peers(), 1, "a peer that answers time messages stays")
		require.Less(l.t, n.m.Peers()[0].RTT, time.Second)
		quietPeer := l.host("mute")
		require.NoError(l.t, quietPeer.Dial(l.t.Context(), n.host.Addrs()[0]))
		k := <-quietPeer.Links() // never reads, never answers
		h := (&script{l: l, host: quietPeer, pos: s.position()}).handshake()
		require.True(l.t, k.TrySend(transport.Message{Type: uint8(TypeHandshake), Payload: h.Encode()}))
		l.eventually(func() bool { return len(n.m.Peers()) == 2 }, "it is a peer")
		l.pass(9 * time.Second)
		l.eventually(func() bool { return len(n.m.Peers()) == 1 }, "silence closes")
	})
}

func (l *lab) host(name string) transport.Host {
	h := l.newHost(name)
	l.t.Cleanup(func() { require.NoError(l.t, h.Close()) })
	return h
}

func TestCase19ServingRateIsExact(t *testing.T) {
	onMem(t, func(l *lab) {
		chain := newChain(403, chainShape{size: 10000})
		const rate = 100_000
		n := l.node("n", chain, func(c *Config, _ *Deps) { c.ServeBytesPerSec = rate })
		s := l.script("peer", n).at(modelGenesis, modelGenesis, 0).hello()
		live := l.script("live", n).at(chain[403], chain[401], 402).hello()
		live.next(0, TypeNotice)
		begin := time.Now()
		r := SyncRequest{Start: 1, End: 200, ReqIndex: 3}
		s.send(0, TypeSyncRequest, r.Encode())
		bytes := 0
		for range 100 {
			bytes += len(s.next(transport.LaneCatchUp, TypeSignedBlock))
		}
		// Live traffic does not wait for the limit.
		at := time.Now()
		own := n.produce(chainShape{size: 50000})
		n.m.BroadcastBlock(own, "")
		live.next(0, TypeSignedBlock)
		require.Less(l.t, time.Since(at), 50*time.Millisecond)
		for range 100 {
			bytes += len(s.next(transport.LaneCatchUp, TypeSignedBlock))
		}
		last := chain[200].Encode()
		ideal := time.Duration(float64(bytes-len(last)) / rate * float64(time.Second))
		require.InDelta(l.t, ideal.Seconds(), time.Since(begin).Seconds(), 0.05)
	})
}

func TestCase20NoOscillationAtTheTip(t *testing.T) {
	onMem(t, func(l *lab) {
		chain := newChain(100, chainShape{})
		nodes := make([]*node, 4)
		for i := range nodes {
			nodes[i] = l.node(fmt.Sprint("n", i), chain)
			for _, o := range nodes[:i] {
				l.mem.SetFaults(o.host.ID(), nodes[i].host.ID(), mem.Faults{Latency: 40 * time.Millisecond})
				nodes[i].dial(o.host)
			}
		}
		for _, n := range nodes {
			l.eventually(func() bool { return n.m.Status().Peers == 3 }, "full mesh")
		}
		var watches []func() []string
		for _, n := range nodes {
			watches = append(watches, watchStates(n))
		}
		for i := range 120 {
			p := nodes[i%4]
			p.m.BroadcastBlock(p.produce(chainShape{}), "")
			l.pass(500 * time.Millisecond)
		}
		for i, w := range watches {
			require.Empty(l.t, w(), "node %d", i)
		}
		for _, n := range nodes {
			require.EqualValues(l.t, 220, n.Status().Head.Height)
			require.Equal(l.t, nodes[0].Status().Head, n.Status().Head)
		}
	})
}

func hashes(bs ...*block.Block) []common.Hash {
	out := make([]common.Hash, len(bs))
	for i, b := range bs {
		out[i] = b.Hash()
	}
	return out
}
