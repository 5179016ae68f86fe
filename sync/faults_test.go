package blocksync

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/transport"
	"github.com/bornode/bornode/transport/mem"
)

func TestCorruptRecordIsFetchedAgain(t *testing.T) {
	forEachProvider(t, func(l *lab) {
		chain := newChain(100, chainShape{})
		a, b := l.node("a", chain), l.node("b", chain)
		a.do(func() { a.corrupt[40] = true })
		a.dial(b.host)
		l.eventually(func() bool { return a.m.Status().Peers == 1 }, "linked")
		// A joiner asks a for the corrupt record: a says so, repairs it, and the joiner gets the block elsewhere.
		c := l.node("c", nil, small(10))
		c.dial(a.host)
		c.dial(b.host)
		l.caughtUp(c, chain)
		a.repairs.note(40)
		l.eventually(func() bool { var ok bool; a.do(func() { ok = slices.Contains(a.replaced, 40) }); return ok }, "repaired")
		require.NotEmpty(l.t, a.m.Peers(), "nobody is to blame")
	})
}

func TestRepairRefusesAnotherBlock(t *testing.T) {
	onMem(t, func(l *lab) {
		chain := newChain(100, chainShape{})
		fork := extend(chain[:40], 10, chainShape{salt: 1})
		n := l.node("n", chain)
		n.do(func() { n.corrupt[40] = true })
		for name, bad := range map[string]*block.Block{"another block": fork[40], "a forged seal": spoilSeal(chain[40])} {
			liar := l.script(name, n).at(chain[100], chain[98], 99).hello()
			liar.next(0, TypeNotice)
			n.repairs.note(40)
			r := liar.syncRequest()
			require.Equal(l.t, SyncRequest{Start: 40, End: 40, ReqIndex: r.ReqIndex}, *r)
			liar.answer(r.ReqIndex, []*block.Block{bad})
			liar.goneWith(Validation)
		}
		require.Empty(l.t, n.replaced)
		honest := l.node("honest", chain)
		honest.dial(n.host)
		l.eventually(func() bool { var ok bool; n.do(func() { ok = !n.corrupt[40] }); return ok }, "repaired by another peer")
	})
}

func TestSealIsByCoinbase(t *testing.T) {
	key := signerKey(t)
	h := *newChain(1, chainShape{})[1].Header
	h.Coinbase = crypto.PubkeyToAddress(key.PublicKey)
	s := &block.SealedHeader{Header: &h, Record: newChain(1, chainShape{})[1].Record}
	domain := block.Domain{Genesis: common.Hash{7}}
	hash := domain.SealDigest(s.Hash())
	sig, err := crypto.Sign(hash[:], key)
	require.NoError(t, err)
	copy(s.Seal[:], sig)
	require.NoError(t, sealedByCoinbase(s, domain))
	require.Error(t, sealedByCoinbase(s, block.Domain{Genesis: common.Hash{8}}), "a seal of another chain")
	s.Seal[3] ^= 1
	require.Error(t, sealedByCoinbase(s, domain))
	h.Coinbase[0] ^= 1
	s = &block.SealedHeader{Header: &h, Record: s.Record}
	hash = domain.SealDigest(s.Hash())
	sig, err = crypto.Sign(hash[:], key)
	require.NoError(t, err)
	copy(s.Seal[:], sig)
	require.Error(t, sealedByCoinbase(s, domain), "another account's seal")
}

func TestWrongBlocksInARange(t *testing.T) {
	chain := newChain(60, chainShape{})
	fork := extend(chain[:1], 60, chainShape{salt: 7})
	mixed := slices.Concat(chain[:20], fork[20:])
	for _, c := range []struct {
		name   string
		answer func(s *script, r *SyncRequest)
		want   Reason
	}{
		{"another height", func(s *script, r *SyncRequest) { s.answer(r.ReqIndex, chain[r.Start+1:r.End+1]) }, Validation},
		{"height in the envelope only", func(s *script, r *SyncRequest) {
			m := SignedBlock{ReqIndex: r.ReqIndex, Height: r.Start, Raw: chain[50].Encode()}
			for h := r.Start; h <= r.End; h++ {
				m.Height = h
				s.send(transport.LaneCatchUp, TypeSignedBlock, m.Encode())
			}
		}, Validation},
		{"blocks that do not link", func(s *script, r *SyncRequest) { s.answer(r.ReqIndex, mixed[r.Start:r.End+1]) }, Validation},
		{"another chain's first block", func(s *script, r *SyncRequest) {
			first := makeBlock(chain[3], 4, 0, nil, nil, nil, 0)
			h := *first.Header
			h.Number = chain[1].Header.Number
			b := &block.Block{SealedHeader: &block.SealedHeader{Header: &h, Record: first.Record}}
			blocks := []*block.Block{b}
			for len(blocks) < int(r.End) {
				blocks = append(blocks, makeBlock(blocks[len(blocks)-1], uint64(10+len(blocks)), 0, nil, nil, nil, 0))
			}
			s.answer(r.ReqIndex, blocks)
		}, Forked},
		{"a body of another block", func(s *script, r *SyncRequest) {
			blocks := slices.Clone(chain[r.Start : r.End+1])
			other := makeBlock(chain[4], 5, 100, nil, nil, nil, 0)
			blocks[4] = &block.Block{SealedHeader: blocks[4].SealedHeader, Transactions: other.Transactions, Senders: other.Senders}
			s.answer(r.ReqIndex, blocks)
		}, Validation},
		{"bytes that are no block", func(s *script, r *SyncRequest) {
			m := SignedBlock{ReqIndex: r.ReqIndex, Height: r.Start, Raw: []byte{0xC1, 0x01}}
			for h := r.Start; h <= r.End; h++ {
				m.Height = h
				s.send(transport.LaneCatchUp, TypeSignedBlock, m.Encode())
			}
		}, Validation},
	} {
		t.Run(c.name, func(t *testing.T) {
			forEachProvider(t, func(l *lab) {
				n := l.node("n", nil, small(58))
				s := l.script("liar", n).at(chain[60], chain[58], 59).hello()
				c.answer(s, s.syncRequest())
				s.goneWith(c.want)
				good := l.node("good", chain)
				good.dial(n.host)
				l.caughtUp(n, chain)
			})
		})
	}
}

func TestTwoSourcesThatContradictEachOther(t *testing.T) {
	onMem(t, func(l *lab) {
		chain := newChain(60, chainShape{every: 50})
		// The liar serves blocks of a valid branch that is not the chain; only where they meet does it show.
		fork := extend(chain[:10], 60, chainShape{salt: 7, noFC: true})
		n := l.node("n", nil, small(12))
		good := l.node("good", chain)
		liar := l.node("liar", fork)
		liar.do(func() { liar.final = append(liar.final[:1:1], fork[1:48]...) })
		n.dial(liar.host)
		n.dial(good.host)
		third := l.node("third", chain)
		n.dial(third.host)
		l.caughtUp(n, chain)
	})
}

func TestPeerStopsInTheMiddleOfABlock(t *testing.T) {
	onMem(t, func(l *lab) {
		chain := newChain(40, chainShape{size: 200 << 10})
		n := l.node("n", nil, small(10))
		l.mem.SetFaults("n", "a", mem.Faults{ResetAfter: 40})
		l.mem.SetFaults("n", "b", mem.Faults{ResetAfter: 55})
		a, b := l.node("a", chain), l.node("b", chain)
		n.dial(a.host)
		n.dial(b.host)
		l.caughtUp(n, chain)
		require.Zero(l.t, n.addedTwice)
	})
}

func TestBlackHoleDuringSync(t *testing.T) {
	onMem(t, func(l *lab) {
		chain := newChain(4000, chainShape{})
		n := l.node("n", nil, small(100))
		a, b := l.node("a", chain), l.node("b", chain)
		l.mem.SetFaults("n", "a", mem.Faults{Latency: 5 * time.Millisecond})
		l.mem.SetFaults("n", "b", mem.Faults{Latency: 5 * time.Millisecond})
		n.dial(a.host)
		n.dial(b.host)
		l.eventually(func() bool { return n.Status().LIB.Height > 300 }, "under way")
		l.mem.SetFaults("n", "a", mem.Faults{Silent: true})
		l.caughtUp(n, chain)
	})
}

func TestSlowReaderDoesNotHoldOthers(t *testing.T) {
	onMem(t, func(l *lab) {
		chain := newChain(10, chainShape{})
		n, good := l.node("n", chain), l.node("good", chain)
		good.dial(n.host)
		// The slow one never reads: its queues fill up.
		h := l.host("slow")
		require.NoError(l.t, h.Dial(l.t.Context(), n.host.Addrs()[0]))
		k := <-h.Links()
		hello := (&script{l: l, host: h, pos: Position{Head: RefOf(chain[10].SealedHeader), LIB: RefOf(chain[8].SealedHeader)}}).handshake()
		require.True(l.t, k.TrySend(transport.Message{Type: uint8(TypeHandshake), Payload: hello.Encode()}))
		l.eventually(func() bool { return n.m.Status().Peers == 2 }, "both are peers")
		for range 260 {
			x := n.produce(chainShape{size: 126 << 10})
			n.m.BroadcastBlock(x, "")
			l.eventually(func() bool { return good.Status().Head.Hash == x.Hash() }, "good has block %d", x.Number())
		}
		require.NotZero(l.t, peerOf(n, "slow").Dropped)
		l.eventually(func() bool { return n.m.Status().Peers == 1 }, "it is cut when its heartbeats stay away")
	})
}

func TestDiskFullBacksOffAndBlamesNobody(t *testing.T) {
	onMem(t, func(l *lab) {
		chain := newChain(200, chainShape{})
		a, n := l.node("a", chain), l.node("n", nil, small(20))
		n.do(func() { n.disk = true })
		n.dial(a.host)
		l.eventually(func() bool { var k int; n.do(func() { k = n.ranges }); return k >= 3 }, "it tries again")
		require.Len(l.t, n.m.Peers(), 1)
		require.Equal(l.t, LIBCatchup, n.m.Status().State)
		n.do(func() { n.disk = false })
		l.caughtUp(n, chain)
	})
}

func TestForkSwitchDuringSync(t *testing.T) {
	forEachProvider(t, func(l *lab) {
		base := newChain(500, chainShape{})
		a := l.node("a", extend(base, 5, chainShape{salt: 1, noFC: true}))
		n := l.node("n", nil, small(20))
		n.dial(a.host)
		l.eventually(func() bool { return n.Status().LIB.Height > 50 }, "under way")
		winner := extend(base, 9, chainShape{salt: 2})
		a.do(func() {
			for _, b := range winner[501:] {
				a.insert(b)
			}
		})
		l.caughtUp(n, winner)
		l.eventually(func() bool { return n.Status().LIB == a.Status().LIB }, "same LIB")
	})
}

// TestProducersGoOnWhileANodeJoins: the lag reaches zero and stays there.
func TestProducersGoOnWhileANodeJoins(t *testing.T) {
	forEachProvider(t, func(l *lab) {
		chain := newChain(3000, chainShape{})
		a, b := l.node("a", chain), l.node("b", chain)
		b.dial(a.host)
		l.eventually(func() bool { return a.m.Status().Peers == 1 }, "producers are linked")
		stop, ended := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(ended)
			tick := time.NewTicker(50 * time.Millisecond)
			defer tick.Stop()
			for {
				select {
				case <-tick.C:
					a.m.BroadcastBlock(a.produce(chainShape{size: 500}), "")
				case <-stop:
					return
				}
			}
		}()
		n := l.node("n", nil, small(100))
		n.dial(a.host)
		n.dial(b.host)
		l.eventually(func() bool {
			return n.Status().Head.Height > 3010 && n.Status().Head == a.Status().Head && n.m.Status().State == InSync
		}, "lag reaches 0")
		close(stop)
		<-ended
		l.eventually(func() bool { return n.Status().Head == a.Status().Head && n.Status().LIB == a.Status().LIB }, "same head and LIB")
	})
}

func TestChunksComeFromSeveralPeers(t *testing.T) {
	onMem(t, func(l *lab) {
		chain := newChain(5000, chainShape{size: 200})
		n := l.node("n", nil, small(50))
		for _, name := range []string{"a", "b", "c"} {
			l.mem.SetFaults("n", transport.PeerID(name), mem.Faults{Latency: 10 * time.Millisecond})
			n.dial(l.node(name, chain).host)
		}
		l.caughtUp(n, chain)
		for _, p := range n.m.Peers() {
			require.Greater(l.t, p.RangeBlocks, uint64(500), p.ID)
			require.NotZero(l.t, p.Rate)
		}
		require.LessOrEqual(l.t, n.m.Status().Blocks, uint64(5100), "no block twice")
	})
}

func TestRunEndsWithItsHost(t *testing.T) {
	onMem(t, func(l *lab) {
		h := l.newHost("h")
		m, err := New(DefaultConfig(), Deps{Host: h, Driver: newModel(nil), Blocks: newModel(nil), Params: modelParams, Classify: modelClassify})
		require.NoError(l.t, err)
		require.Nil(l.t, m.Peers())
		ended := make(chan error, 1)
		go func() { ended <- m.Run(l.t.Context()) }()
		<-m.started
		require.NoError(l.t, h.Close())
		require.ErrorIs(l.t, <-ended, errHostClosed)
		m.BroadcastBlock(modelGenesis, "")
		m.MembersChanged()
		require.Equal(l.t, InSync, m.Status().State)
	})
}

func TestConfig(t *testing.T) {
	good := DefaultConfig()
	require.NoError(t, good.Validate())
	for _, edit := range []func(*Config){
		func(c *Config) { c.Mode = "fast" },
		func(c *Config) { c.ChunkBlocks = 0 },
		func(c *Config) { c.ChunkBlocks = maxChunkBlocks + 1 },
		func(c *Config) { c.ChunkBytes = 0 },
		func(c *Config) { c.RunAheadBytes = 0 },
		func(c *Config) { c.RunAheadBlocks = 0 },
		func(c *Config) { c.RequestTimeout = 0 },
		func(c *Config) { c.HeartbeatTimeout = c.Heartbeat },
		func(c *Config) { c.ServeBytesPerSec = -1 },
		func(c *Config) { c.BanTime = -1 },
	} {
		c := DefaultConfig()
		edit(&c)
		require.Error(t, c.Validate())
	}
	_, err := New(DefaultConfig(), Deps{})
	require.ErrorContains(t, err, "transport host")
}

// A claim that brings nothing neither holds the node nor is asked for over and over.
func TestFalseClaims(t *testing.T) {
	onMem(t, func(l *lab) {
		chain := newChain(10, chainShape{})
		n := l.node("n", chain)
		far := newChain(100, chainShape{salt: 3})
		l.script("silent", n).at(far[100], far[98], 99).hello()
		o := l.script("other", n).at(chain[10], chain[8], 9).hello()
		o.next(0, TypeNotice)
		l.eventually(func() bool { return stateOf(n) == LIBCatchup }, "it is asked")
		l.eventually(func() bool { return stateOf(n) == InSync }, "and no more when it brought nothing")
		held := 0
		for range 1200 {
			l.pass(time.Second)
			if stateOf(n) == LIBCatchup {
				held++
			}
		}
		require.Less(t, held, 120, "of 20 minutes")
		more := extend(chain, 2, chainShape{})
		o.push(more[11])
		o.push(more[12])
		l.eventually(func() bool { return n.Status().Head.Height == 12 }, "live blocks are taken")
	})
	for _, rising := range []bool{false, true} {
		for _, code := range []ErrorCode{CodeBeyond, CodePruned} {
			onMem(t, func(l *lab) {
				chain := newChain(10, chainShape{})
				n := l.node("n", chain)
				far := newChain(600, chainShape{salt: 3})
				s := l.script("refuses", n).at(far[100], far[98], 99).hello()
				asked := 0
				end := time.NewTimer(10 * time.Minute)
				defer end.Stop()
				for more := true; more; {
					select {
					case msg := <-s.in[transport.LaneConsensus]:
						if MessageType(msg.Type) != TypeSyncRequest {
							continue
						}
						r, _ := DecodeSyncRequest(msg.Payload)
						if r.Start == 0 {
							continue
						}
						asked++
						height := uint64(1) << 40
						if code == CodePruned {
							height = 0
						}
						s.refuse(r.ReqIndex, code, height)
						if rising {
							k := min(101+asked, 600)
							s.at(far[k], far[k-2], uint64(k-1))
						}
						s.hello()
					case <-end.C:
						more = false
					}
				}
				require.Less(t, asked, 30, "%v, rising %v", code, rising)
				require.Len(t, n.m.Peers(), 1)
			})
		}
	}
}

// stateOf is what the node is doing, whatever it tells.
func stateOf(n *node) (s State) { n.m.query(func() { s = n.m.state }); return s }

// A peer that answers with what is known, for ever, does not keep the node from the others' branches.
func TestDrippingAnswer(t *testing.T) {
	for _, c := range []struct {
		name string
		drip func(i int) uint64 // height told
	}{
		{"one height", func(int) uint64 { return 10 }},
		{"rising heights", func(i int) uint64 { return uint64(10 + i) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			onMem(t, func(l *lab) {
				chain := newChain(10, chainShape{})
				n := l.node("n", chain)
				far := extend(chain, 20, chainShape{salt: 9, noFC: true})
				s := l.script("drips", n).at(far[30], chain[8], 1000).hello()
				r := s.request()
				good := extend(chain, 20, chainShape{})
				n.dial(l.node("honest", good).host)
				for i := 0; i < 15 && n.Status().Head.Height < 30; i++ {
					m := SignedBlock{ReqIndex: r.ReqIndex, Height: c.drip(i), Remaining: 100, Raw: chain[10].Encode()}
					s.send(transport.LaneCatchUp, TypeSignedBlock, m.Encode())
					l.pass(4 * time.Second)
				}
				require.Equal(t, good[30].Hash(), n.Status().Head.Hash)
			})
		})
	}
}

// A node far behind says so also while its only source is not asked for a while.
func TestStatusOfANodeBehind(t *testing.T) {
	onMem(t, func(l *lab) {
		n := l.node("n", nil)
		far := newChain(500, chainShape{})
		s := l.script("source", n).at(far[500], far[498], 499).hello()
		r := s.syncRequest()
		require.Equal(t, LIBCatchup, n.m.Status().State)
		s.refuse(r.ReqIndex, CodeCorrupt, r.Start)
		l.eventually(func() bool { return stateOf(n) != LIBCatchup }, "it pauses")
		require.Equal(t, LIBCatchup, n.m.Status().State)
		n.dial(l.node("whole", far).host)
		l.caughtUp(n, far)
	})
}

func TestStatusOfANodeThatIsAlone(t *testing.T) {
	onMem(t, func(l *lab) {
		chain := newChain(10, chainShape{})
		a, b := l.node("a", chain), l.node("b", chain)
		a.dial(b.host)
		l.eventually(func() bool { return a.m.Status().Peers == 1 }, "linked")
		l.pass(time.Minute)
		require.Equal(t, InSync, a.m.Status().State, "nobody is ahead")
		b.stop()
		l.eventually(func() bool { return a.m.Status().Peers == 0 }, "cut off")
		require.Equal(t, HeadCatchup, a.m.Status().State)
		for range 30 { // a chain of one node
			a.produce(chainShape{})
			l.pass(500 * time.Millisecond)
			require.True(t, a.m.Status().Peers == 0)
		}
		require.Equal(t, InSync, a.m.Status().State)
	})
}

func TestStrangersAreRefusedNotBanned(t *testing.T) {
	onMem(t, func(l *lab) {
		n := l.node("n", newChain(10, chainShape{}))
		s := l.script("stranger", n)
		s.edit = func(h *Handshake) {
			h.ChainID[0]++
			h.Token = HandshakeToken(h.ChainID, h.NodeID, h.Time)
		}
		s.hello()
		s.goneWith(WrongChain)
		require.Zero(t, n.m.bans.Len())
	})
}

// What readers of the store met before Run, and while the manager works, is taken up at once: not at a later tick.
func TestDamageIsTakenUpFromReadersAndFromBeforeRun(t *testing.T) {
	onMem(t, func(l *lab) {
		h := l.newHost("h")
		model := newModel(newChain(10, chainShape{}))
		model.corrupt[3], model.corrupt[5] = true, true
		r := newModelRepairs(model)
		m, err := New(DefaultConfig(), Deps{
			Host: h, Driver: model, Blocks: model, Params: modelParams, Classify: modelClassify, Repairs: r,
		})
		require.NoError(l.t, err)
		r.note(3)
		ctx, stop := context.WithCancel(l.t.Context())
		ended := make(chan error, 1)
		go func() { ended <- m.Run(ctx) }()
		<-m.started
		l.eventually(func() bool { return r.cause(3) != nil }, "what was met before is looked for")
		r.note(5)
		l.eventually(func() bool {
			found := make(chan bool, 1)
			m.post(func() {
				found <- m.repairs[repairKey{height: 3}] != nil && m.repairs[repairKey{height: 5}] != nil && len(m.repairs) == 2
			})
			return <-found
		}, "both are to be fetched")
		stop()
		require.NoError(l.t, <-ended)
	})
}
