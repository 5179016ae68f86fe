package blocksync

import (
	"fmt"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/transport"
	"github.com/bornode/bornode/transport/mem"
)

func txsOf(txs ...*types.Transaction) types.Transactions { return txs }

func memFaults(latency time.Duration) mem.Faults { return mem.Faults{Latency: latency} }

// line links nodes n0 - n1 - n2 ... of the same chain.
func (l *lab) line(k int, chain []*block.Block, opts ...nodeOption) []*node {
	nodes := make([]*node, k)
	for i := range nodes {
		nodes[i] = l.node(fmt.Sprint("n", i), chain, opts...)
		if i > 0 {
			nodes[i].dial(nodes[i-1].host)
		}
	}
	for i, n := range nodes {
		want := 2
		if i == 0 || i == k-1 {
			want = 1
		}
		l.eventually(func() bool { return n.m.Status().Peers == want }, "node %d has its links", i)
	}
	return nodes
}

func TestBlocksReachAllOverALine(t *testing.T) {
	forEachProvider(t, func(l *lab) {
		nodes := l.line(4, newChain(10, chainShape{}))
		for i := range 5 {
			x := nodes[0].produce(chainShape{size: 100 * i})
			nodes[0].m.BroadcastBlock(x, "")
			l.eventually(func() bool { return nodes[3].Status().Head.Hash == x.Hash() }, "the last node has block %d", x.Number())
		}
		for _, n := range nodes {
			require.Zero(l.t, n.addedTwice)
		}
	})
}

func TestLargeBlocksAreAnnouncedAndPulled(t *testing.T) {
	forEachProvider(t, func(l *lab) {
		nodes := l.line(3, newChain(10, chainShape{}))
		x := nodes[0].produce(chainShape{size: 300 << 10})
		nodes[0].m.BroadcastBlock(x, "")
		l.eventually(func() bool { return nodes[2].Status().Head.Hash == x.Hash() }, "the last node has it")
		p := nodes[1].m.Peers()
		require.EqualValues(l.t, 1, p[0].HeadersOut+p[1].HeadersOut)
		require.Zero(l.t, p[0].BlocksOut+p[1].BlocksOut)
		require.EqualValues(l.t, 1, nodes[0].m.Peers()[0].Served)
	})
}

func TestPullGoesElsewhere(t *testing.T) {
	onMem(t, func(l *lab) {
		chain := newChain(10, chainShape{})
		n := l.node("n", chain)
		x := extend(chain, 1, chainShape{size: 300 << 10})[11]
		y := extend(chain, 1, chainShape{size: 300 << 10, salt: 1})[11]
		mute := l.script("mute", n).at(chain[10], chain[8], 9).hello()
		good := l.script("good", n).at(chain[10], chain[8], 9).hello()
		a := BlockHeader{Size: 300 << 10, Sealed: x.SealedHeader}
		mute.send(0, TypeBlockHeader, a.Encode())
		r := mute.request()
		require.Equal(l.t, IDs{Mode: ModeNormal, Pending: 1, IDs: hashes(x)}, r.Blocks)
		good.send(0, TypeBlockHeader, a.Encode())
		good.quiet(100*time.Millisecond, 0, TypeRequest) // in flight elsewhere
		begin := time.Now()
		q := good.request()
		require.Less(l.t, time.Since(begin), DefaultConfig().RequestTimeout/4, "a peer that does not answer costs no time-out")
		require.Equal(l.t, hashes(x), q.Blocks.IDs)
		good.answer(q.ReqIndex, []*block.Block{y}) // another block
		good.goneWith(Validation)
		require.EqualValues(l.t, 10, n.Status().Head.Height)
	})
}

// TestPushEndsAPull: a peer that announces first and withholds the body delays a block that another one pushes by nothing.
func TestPushEndsAPull(t *testing.T) {
	onMem(t, func(l *lab) {
		chain := newChain(10, chainShape{})
		n := l.node("n", chain)
		mute := l.script("mute", n).at(chain[10], chain[8], 9).hello()
		good := l.script("good", n).at(chain[10], chain[8], 9).hello()
		mute.next(0, TypeNotice)
		good.next(0, TypeNotice)
		x := extend(chain, 1, chainShape{})[11]
		a := BlockHeader{Size: 500, Sealed: x.SealedHeader}
		mute.send(0, TypeBlockHeader, a.Encode())
		r := mute.request()
		good.push(x)
		begin := time.Now()
		l.eventually(func() bool { return n.Status().Head.Hash == x.Hash() }, "taken")
		require.Less(l.t, time.Since(begin), pullPatience)
		require.Equal(l.t, Request{ReqIndex: r.ReqIndex, Blocks: IDs{IDs: []common.Hash{}}, Transactions: IDs{IDs: []common.Hash{}}}, *mute.request(), "the pull is taken back")
		require.Zero(l.t, peerOf(n, "good").Duplicates)
		mute.answer(r.ReqIndex, []*block.Block{x}) // late: no harm
		l.pass(time.Second)
		require.Len(l.t, n.m.Peers(), 2)
	})
}

// TestPullAsksAFewAtOnce: peers that announce and stay silent are not all asked, and each only for so long.
func TestPullAsksAFewAtOnce(t *testing.T) {
	onMem(t, func(l *lab) {
		chain := newChain(10, chainShape{})
		n := l.node("n", chain)
		x := extend(chain, 1, chainShape{size: 300 << 10})[11]
		a := BlockHeader{Size: 300 << 10, Sealed: x.SealedHeader}
		var peers []*script
		asked := func() (k int) {
			for _, s := range peers {
				for len(s.in[0]) > 0 {
					if m := <-s.in[0]; MessageType(m.Type) == TypeRequest {
						k++
					}
				}
			}
			return k
		}
		for i := range maxOpenPulls + 2 {
			s := l.script(fmt.Sprint("mute", i), n).at(chain[10], chain[8], 9).hello()
			s.next(0, TypeNotice)
			s.send(0, TypeBlockHeader, a.Encode())
			peers = append(peers, s)
		}
		l.pass(DefaultConfig().RequestTimeout - time.Second)
		require.Equal(l.t, maxOpenPulls, asked())
		l.pass(2 * DefaultConfig().RequestTimeout)
		require.Equal(l.t, 2, asked(), "the others after the time-out")
		l.pass(time.Minute)
		require.Zero(l.t, asked(), "given up")
		peers[0].push(x)
		l.eventually(func() bool { return n.Status().Head.Hash == x.Hash() }, "taken")
	})
}

// TestForgedSealInAnAnswerDoesNotHideTheBlock: the seal is not part of the hash.
func TestForgedSealInAnAnswerDoesNotHideTheBlock(t *testing.T) {
	onMem(t, func(l *lab) {
		chain := newChain(10, chainShape{})
		n := l.node("n", chain)
		x := extend(chain, 1, chainShape{})[11]
		good := l.script("good", n).at(chain[10], chain[8], 9).hello()
		good.next(0, TypeNotice)
		far := extend(chain, 20, chainShape{salt: 9, noFC: true})
		bad := l.script("bad", n).at(far[30], chain[8], 1000).hello()
		bad.answer(bad.request().ReqIndex, []*block.Block{spoilSeal(x)})
		bad.goneWith(Validation)
		good.push(x)
		l.eventually(func() bool { return n.Status().Head.Hash == x.Hash() }, "taken")
	})
}

func TestBadFirstCopyDoesNotHideTheBlock(t *testing.T) {
	onMem(t, func(l *lab) {
		chain := newChain(10, chainShape{})
		n := l.node("n", chain)
		bad := l.script("bad", n).at(chain[10], chain[8], 9).hello()
		good := l.script("good", n).at(chain[10], chain[8], 9).hello()
		bad.next(0, TypeNotice)
		good.next(0, TypeNotice)
		x := extend(chain, 1, chainShape{size: 50})[11]
		hold := make(chan struct{})
		n.onCheck = func(h *block.SealedHeader) {
			if h.Seal != x.Seal {
				<-hold
			}
		}
		bad.push(spoilSeal(x))
		l.pass(time.Second)
		good.push(x) // a duplicate by its hash, dropped
		l.eventually(func() bool { return peerOf(n, "good").Duplicates == 1 }, "dropped")
		close(hold)
		bad.goneWith(Validation)
		r := good.request()
		require.Equal(l.t, hashes(x), r.Blocks.IDs)
		good.answer(r.ReqIndex, []*block.Block{x})
		l.eventually(func() bool { return n.Status().Head.Hash == x.Hash() }, "taken")
	})
}

func TestUnknownParentAsksForTheBranch(t *testing.T) {
	forEachProvider(t, func(l *lab) {
		base := newChain(20, chainShape{})
		tip := extend(base, 6, chainShape{noFC: true})
		n := l.node("n", base)
		s := l.script("peer", n).at(base[20], base[18], 19).hello()
		s.next(0, TypeNotice)
		s.push(tip[26])
		r := s.request()
		require.Equal(l.t, base[20].Hash(), r.Blocks.IDs[0])
		s.answer(r.ReqIndex, tip[21:26])
		l.eventually(func() bool { return n.Status().Head.Hash == tip[26].Hash() }, "the branch and the block that showed it")
		n.do(func() { require.Equal(l.t, []uint64{21, 22, 23, 24, 25, 26}, n.added, "oldest first") })
	})
}

func TestVotesAreRelayedOnce(t *testing.T) {
	forEachProvider(t, func(l *lab) {
		nodes := l.line(4, newChain(10, chainShape{}))
		for i := range byte(50) {
			nodes[int(i)%4].m.BroadcastVotes([]block.Vote{sampleVote(i)})
		}
		for i, n := range nodes {
			want := 50 - (50+3-i)/4 // its own are not given back to it
			l.eventually(func() bool { var k int; n.do(func() { k = len(n.votes) }); return k == want }, "node %d has %d votes", i, want)
		}
		l.pass(time.Second)
		for i, n := range nodes {
			n.do(func() { require.Equal(l.t, 50-(50+3-i)/4, n.offered, "none twice") })
		}
		// The end of the line got each vote of the others once, and gave its own once.
		p := nodes[3].m.Peers()[0]
		require.EqualValues(l.t, 12, p.VotesOut)
	})
}

func TestAVoteFromTwoPeersIsTakenOnce(t *testing.T) {
	onMem(t, func(l *lab) {
		chain := newChain(10, chainShape{})
		n := l.node("n", chain)
		for _, name := range []string{"a", "b"} {
			s := l.script(name, n).at(chain[10], chain[8], 9).hello()
			s.next(0, TypeNotice)
			s.send(0, TypeVotes, EncodeVotes([]block.Vote{sampleVote(1), sampleVote(2)}))
		}
		l.eventually(func() bool { return peerOf(n, "b").VotesIn == 2 }, "both came")
		l.pass(time.Second)
		n.do(func() { require.Equal(l.t, 2, n.offered) })
		require.Zero(l.t, peerOf(n, "a").VotesOut+peerOf(n, "b").VotesOut, "who has it does not get it")
	})
}

// TestPullsAreNotLimited: a live body comes at once, whatever history its peer and others are being sent.
func TestPullsAreNotLimited(t *testing.T) {
	onMem(t, func(l *lab) {
		chain := newChain(300, chainShape{size: 1000})
		n := l.node("n", chain, func(c *Config, _ *Deps) { c.ServeBytesPerSec = 1000 })
		s := l.script("peer", n).at(chain[300], chain[298], 299).hello()
		s.next(0, TypeNotice)
		history := SyncRequest{Start: 1, End: 200, ReqIndex: 8}
		s.send(0, TypeSyncRequest, history.Encode())
		x := n.produce(chainShape{size: 1 << 20})
		n.m.BroadcastBlock(x, "")
		s.next(0, TypeBlockHeader)
		begin := time.Now()
		r := Request{Blocks: IDs{Mode: ModeNormal, IDs: hashes(x, x)}, ReqIndex: 9}
		s.send(0, TypeRequest, r.Encode())
		b, err := DecodeSignedBlock(s.next(transport.LaneConsensus, TypeSignedBlock))
		require.NoError(l.t, err)
		require.EqualValues(l.t, 9, b.ReqIndex)
		require.Equal(l.t, x.Encode(), b.Raw)
		require.Less(l.t, time.Since(begin), time.Second)
		s.quiet(time.Second, transport.LaneConsensus, TypeSignedBlock) // once; again only as history
	})
}

func TestVoteCachesAreBounded(t *testing.T) {
	r := newRecent[uint64, struct{}](100)
	for i := range uint64(1000) {
		require.True(t, r.Add(i, struct{}{}))
		require.False(t, r.Add(i, struct{}{}))
		if i%3 == 0 {
			r.Delete(i)
			require.True(t, r.Add(i, struct{}{}))
		}
		require.LessOrEqual(t, r.Len(), 100)
		require.LessOrEqual(t, len(r.ring), 100)
		require.True(t, r.Has(i))
	}
}

func TestTransactionsReachAll(t *testing.T) {
	forEachProvider(t, func(l *lab) {
		nodes := l.line(4, newChain(10, chainShape{}))
		var txs types.Transactions
		for i := range uint64(500) {
			txs = append(txs, makeTx(i, 21000))
		}
		nodes[0].pool.Add(txs, true)
		nodes[0].m.BroadcastTransactions(txs)
		for i, n := range nodes {
			l.eventually(func() bool { return n.pool.len() == 500 }, "node %d has them", i)
		}
		for _, n := range nodes {
			require.Equal(l.t, 500, n.pool.add, "none is offered twice")
		}
	})
}

func TestUselessTransactionsAreNotRelayed(t *testing.T) {
	onMem(t, func(l *lab) {
		chain := newChain(10, chainShape{})
		n := l.node("n", chain)
		s := l.script("peer", n).at(chain[10], chain[8], 9).hello()
		o := l.script("other", n).at(chain[10], chain[8], 9).hello()
		s.next(0, TypeNotice)
		o.next(0, TypeNotice)
		s.send(transport.LaneTransactions, TypePackedTransactions, EncodePackedTransactions(txsOf(makeTx(0, 1), makeTx(1, 21000))))
		got, err := DecodePackedTransactions(o.next(transport.LaneTransactions, TypePackedTransactions))
		require.NoError(l.t, err)
		require.Len(l.t, got, 1)
		require.Equal(l.t, makeTx(1, 21000).Hash(), got[0].Hash())
	})
}

func TestPendingTransactionsAreCaughtUp(t *testing.T) {
	forEachProvider(t, func(l *lab) {
		chain := newChain(10, chainShape{})
		a, b := l.node("a", chain), l.node("b", chain)
		var both, onlyA, onlyB types.Transactions
		for i := range uint64(300) {
			both = append(both, makeTx(i, 21000))
			onlyA = append(onlyA, makeTx(1000+i, 21000))
			onlyB = append(onlyB, makeTx(2000+i, 21000))
		}
		a.pool.Add(append(both, onlyA...), true)
		b.pool.Add(append(both, onlyB...), true)
		a.pool.add, b.pool.add = 0, 0
		a.dial(b.host)
		l.eventually(func() bool { return a.pool.len() == 900 && b.pool.len() == 900 }, "each has all")
	})
}

func TestRequestByIDs(t *testing.T) {
	onMem(t, func(l *lab) {
		chain := newChain(10, chainShape{})
		n := l.node("n", chain)
		s := l.script("peer", n).at(chain[10], chain[8], 9).hello()
		r := Request{Blocks: IDs{Mode: ModeNormal, IDs: hashes(chain[9], chain[3])}, ReqIndex: 4, StepID: 2}
		s.send(0, TypeRequest, r.Encode())
		for i, h := range []uint64{9, 3} {
			b, err := DecodeSignedBlock(s.next(transport.LaneCatchUp, TypeSignedBlock))
			require.NoError(l.t, err)
			require.Equal(l.t, SignedBlock{4, 2, h, uint64(1 - i), chain[h].Encode()}, *b)
		}
		r = Request{Blocks: IDs{Mode: ModeNormal, IDs: []common.Hash{{9}}}, ReqIndex: 5}
		s.send(0, TypeRequest, r.Encode())
		e, err := DecodeError(s.next(transport.LaneCatchUp, TypeError))
		require.NoError(l.t, err)
		require.Equal(l.t, CodeGone, e.Code)
		require.EqualValues(l.t, 5, e.ReqIndex)
	})
}

func TestBranchIsServedFromTheCommonBlock(t *testing.T) {
	base := newChain(100, chainShape{})
	tip := extend(base, 10, chainShape{noFC: true})
	fork := extend(base[:100], 3, chainShape{salt: 1, noFC: true})
	for _, c := range []struct {
		name string
		ids  []common.Hash
		from uint64
		code ErrorCode
	}{
		{"from our own head", hashes(tip[110]), 0, CodeNothing},
		{"from a reversible block", hashes(tip[105], tip[98]), 106, 0},
		{"from below a fork", hashes(fork[102], fork[99], base[98]), 100, 0},
		{"from LIB", hashes(fork[102], base[98]), 99, 0},
		{"from an irreversible block", hashes(fork[102], base[50]), 51, 0},
		{"from nowhere", []common.Hash{{1}}, 0, CodeUnknown},
		{"no ids", nil, 0, CodeUnknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			onMem(t, func(l *lab) {
				n := l.node("n", tip)
				s := l.script("peer", n).at(tip[110], tip[98], 99).hello()
				r := Request{Blocks: IDs{Mode: ModeCatchUp, IDs: c.ids}, ReqIndex: 4}
				s.send(0, TypeRequest, r.Encode())
				if c.code != 0 {
					e, err := DecodeError(s.next(transport.LaneCatchUp, TypeError))
					require.NoError(l.t, err)
					require.Equal(l.t, c.code, e.Code)
					return
				}
				for h := c.from; h <= 110; h++ {
					b, err := DecodeSignedBlock(s.next(transport.LaneCatchUp, TypeSignedBlock))
					require.NoError(l.t, err)
					require.Equal(l.t, h, b.Height)
					require.Equal(l.t, 110-h, b.Remaining)
					require.Equal(l.t, tip[h].Encode(), b.Raw)
				}
			})
		})
	}
}

func TestRangeIsServedRawAndCancelled(t *testing.T) {
	onMem(t, func(l *lab) {
		chain := newChain(300, chainShape{size: 1000})
		n := l.node("n", chain, func(c *Config, _ *Deps) { c.ServeBytesPerSec = 10000 })
		s := l.script("peer", n).at(modelGenesis, modelGenesis, 0).hello()
		r := SyncRequest{Start: 5, End: 250, ReqIndex: 9, StepID: 3}
		s.send(0, TypeSyncRequest, r.Encode())
		for h := uint64(5); h < 20; h++ {
			b, err := DecodeSignedBlock(s.next(transport.LaneCatchUp, TypeSignedBlock))
			require.NoError(l.t, err)
			require.Equal(l.t, SignedBlock{9, 3, h, 250 - h, chain[h].Encode()}, *b)
		}
		r = SyncRequest{ReqIndex: 9}
		s.send(0, TypeSyncRequest, r.Encode())
		l.pass(time.Second)
		s.quiet(time.Millisecond, 0) // what was on its way
		for len(s.in[transport.LaneCatchUp]) > 0 {
			<-s.in[transport.LaneCatchUp]
		}
		s.quiet(time.Minute, transport.LaneCatchUp, TypeSignedBlock)
		// Beyond LIB: what there is, then the error.
		n.m.query(func() { n.m.limiter.rate = 0 })
		r = SyncRequest{Start: 290, End: 305, ReqIndex: 10}
		s.send(0, TypeSyncRequest, r.Encode())
		for h := uint64(290); h <= 298; h++ {
			b, err := DecodeSignedBlock(s.next(transport.LaneCatchUp, TypeSignedBlock))
			require.NoError(l.t, err)
			require.Equal(l.t, h, b.Height)
		}
		e, err := DecodeError(s.next(transport.LaneCatchUp, TypeError))
		require.NoError(l.t, err)
		require.Equal(l.t, CodeBeyond, e.Code)
		require.EqualValues(l.t, 298, e.Height)
	})
}

func TestTooManyRequestsAreRefused(t *testing.T) {
	onMem(t, func(l *lab) {
		chain := newChain(300, chainShape{size: 1000})
		n := l.node("n", chain, func(c *Config, _ *Deps) { c.ServeBytesPerSec = 1000 })
		s := l.script("peer", n).at(modelGenesis, modelGenesis, 0).hello()
		for i := range uint64(maxServeQueue + 5) {
			r := SyncRequest{Start: 1, End: 250, ReqIndex: i + 1}
			s.send(0, TypeSyncRequest, r.Encode())
		}
		e, err := DecodeError(s.next(0, TypeError))
		require.NoError(l.t, err)
		require.Equal(l.t, CodeOverloaded, e.Code)
	})
}

// TestRelayedInvalidBlockBlamesItsProducerOnly: what shows only after relaying is no fault of the one who relayed.
func TestRelayedInvalidBlockBlamesItsProducerOnly(t *testing.T) {
	onMem(t, func(l *lab) {
		chain := newChain(10, chainShape{})
		x := extend(chain, 1, chainShape{size: 50})[11]
		a, b, c := l.node("a", chain), l.node("b", chain), l.node("c", chain)
		for _, n := range []*node{b, c} {
			n.do(func() { n.refuse = map[common.Hash]bool{x.Hash(): true} })
		}
		b.dial(a.host)
		c.dial(b.host)
		l.eventually(func() bool { return b.m.Status().Peers == 2 }, "linked")
		a.m.BroadcastBlock(x, "")
		l.eventually(func() bool { return peerOf(c, "b").BlocksIn == 1 }, "relayed")
		l.pass(time.Second)
		require.Len(l.t, b.m.Peers(), 2)
		require.Len(l.t, c.m.Peers(), 1)
		require.EqualValues(l.t, 10, c.Status().Head.Height)
		// From its producer itself it is.
		key := signerKey(l.t)
		h := *x.Header
		h.Coinbase = crypto.PubkeyToAddress(key.PublicKey)
		y := &block.Block{SealedHeader: &block.SealedHeader{Header: &h, Record: x.Record}, Transactions: x.Transactions, Senders: x.Senders}
		hash := y.Hash()
		copy(y.Seal[:], hash[:])
		c.do(func() { c.refuse[hash] = true })
		s := l.script("producer", c).at(chain[10], chain[8], 9)
		s.edit = signAs(key)
		s.hello().next(0, TypeNotice)
		s.push(y)
		s.goneWith(Validation)
	})
}
