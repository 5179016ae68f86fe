package blocksync

import (
	"crypto/ecdsa"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/transport"
)

// TestHandshakeCasesOnTheWire: every case gives exactly its message.
func TestHandshakeCasesOnTheWire(t *testing.T) {
	forEachProvider(t, func(l *lab) {
		chain := newChain(100, chainShape{})
		n := l.node("n", chain)
		n.pool.Add(txsOf(makeTx(0, 21000), makeTx(1, 21000)), true)
		longer := extend(chain, 60, chainShape{})

		// 0: heads equal.
		s := l.script("equal", n).at(chain[100], chain[98], 99).hello()
		d, err := DecodeNotice(s.next(0, TypeNotice))
		require.NoError(l.t, err)
		require.Equal(l.t, ModeNone, d.Blocks.Mode)
		require.Equal(l.t, IDs{Mode: ModeCatchUp, Pending: 2, IDs: []common.Hash{}}, d.Transactions)
		s.quiet(3*time.Second, 0, TypeRequest, TypeSyncRequest, TypeNotice)

		// 1: our head is below the peer's LIB.
		s = l.script("above", n).at(longer[160], longer[150], 155).hello()
		r := s.syncRequest()
		require.EqualValues(l.t, 99, r.Start, "from LIB + 1")
		require.EqualValues(l.t, 150, r.End, "to the peer's LIB")
		require.NoError(l.t, s.link.Close("enough"))
		l.eventually(func() bool { return n.m.Status().State == InSync }, "nobody is left to sync from")

		// 2: our LIB is above the peer's head.
		s = l.script("below", n).at(chain[50], chain[48], 49).hello()
		d, err = DecodeNotice(s.next(0, TypeNotice))
		require.NoError(l.t, err)
		require.Equal(l.t, ModeLastIrrCatchUp, d.Blocks.Mode)
		require.EqualValues(l.t, 100, d.Blocks.Pending)
		require.Equal(l.t, ModeLastIrrCatchUp, d.Transactions.Mode)
		require.EqualValues(l.t, 98, d.Transactions.Pending)

		// 4: we are ahead within the reversible range.
		other := extend(chain[:99], 1, chainShape{salt: 5, jump: 0})
		s = l.script("behind", n).at(other[99], other[98], 96).hello()
		d, err = DecodeNotice(s.next(0, TypeNotice))
		require.NoError(l.t, err)
		require.Equal(l.t, IDs{Mode: ModeCatchUp, Pending: 100, IDs: hashes(chain[100])}, d.Blocks)
		require.Equal(l.t, ModeNone, d.Transactions.Mode)

		// 3: the peer is ahead within the reversible range.
		s = l.script("ahead", n).at(longer[110], chain[98], 109).hello()
		q := s.request()
		require.Equal(l.t, ModeCatchUp, q.Blocks.Mode)
		require.Equal(l.t, chain[100].Hash(), q.Blocks.IDs[0])
		require.Equal(l.t, chain[98].Hash(), q.Blocks.IDs[len(q.Blocks.IDs)-1])
	})
}

func TestCase03ComparesJustifiedFirst(t *testing.T) {
	onMem(t, func(l *lab) {
		base := newChain(20, chainShape{})
		n := l.node("n", extend(base, 10, chainShape{noFC: true}))
		justified := extend(base, 5, chainShape{salt: 1})
		s := l.script("peer", n).at(justified[25], justified[18], 24).hello()
		require.Equal(l.t, ModeCatchUp, s.request().Blocks.Mode, "a lower head with a higher justified block is asked")
	})
}

// TestGoAwayReasons: every reason that a peer can bring about is told, and the link is cut.
func TestGoAwayReasons(t *testing.T) {
	chain := newChain(20, chainShape{})
	for _, c := range []struct {
		name string
		edit func(*Handshake)
		then func(l *lab, n *node, s *script)
		want Reason
	}{
		{"wrong chain", func(h *Handshake) { h.ChainID[5]++ }, nil, WrongChain},
		{"wrong version", func(h *Handshake) { h.NetVersion++ }, nil, WrongVersion},
		{"self", func(h *Handshake) { h.NodeID = "" }, nil, SelfConnect},
		{"authentication", func(h *Handshake) { h.Token[0]++ }, nil, Authentication},
		{"forked", func(h *Handshake) { h.LIB.Hash[0]++ }, nil, Forked},
		{"validation", func(h *Handshake) { h.LIB.Height = 99 }, nil, Validation},
		{"bad certificate", func(h *Handshake) {
			h.FC = &block.Certificate{Link: block.Link{Kind: block.Precommit}, Bitmaps: [][]byte{{0}}}
		}, nil, Validation},
		{"bad vote of its own", signAs(signerKey(t)), func(_ *lab, _ *node, s *script) {
			s.send(0, TypeVotes, EncodeVotes([]block.Vote{badVote(crypto.PubkeyToAddress(signerKey(t).PublicKey), 1)}))
		}, Validation},
		{"forged votes of others", nil, func(_ *lab, _ *node, s *script) {
			s.send(0, TypeVotes, EncodeVotes(votesWorth(VoteForged, int(votePointsFull/voteCharges[VoteForged])+1)))
		}, Flood},
		{"votes of strangers", nil, func(_ *lab, _ *node, s *script) {
			vs := votesWorth(VoteStranger, 2*maxVotes)
			s.send(0, TypeVotes, EncodeVotes(vs[:maxVotes]))
			s.send(0, TypeVotes, EncodeVotes(vs[maxVotes:]))
		}, Flood},
		{"votes in handshakes", func(h *Handshake) {
			h.Votes = append(h.Votes, votesWorth(VoteForged, 9)...)
		}, nil, Flood},
		{"a body of another block", nil, func(_ *lab, _ *node, s *script) {
			x := extend(chain, 1, chainShape{})[21]
			other := makeBlock(chain[20], 21, 10, nil, nil, nil, 0)
			s.push(&block.Block{SealedHeader: x.SealedHeader, Transactions: other.Transactions, Senders: other.Senders})
		}, Validation},
		{"undecodable message", nil, func(_ *lab, _ *node, s *script) { s.send(0, TypeNotice, []byte{1, 2, 3}) }, Validation},
		{"bad transaction", nil, func(_ *lab, _ *node, s *script) {
			s.send(transport.LaneTransactions, TypePackedTransactions, EncodePackedTransactions(txsOf(makeTx(0, 666))))
		}, BadTransaction},
		{"bad block", nil, func(_ *lab, _ *node, s *script) { s.push(spoilSeal(extend(chain, 1, chainShape{})[21])) }, Validation},
		{"no longer a member", nil, func(_ *lab, n *node, _ *script) { n.m.MembersChanged() }, NotAMember},
	} {
		t.Run(c.name, func(t *testing.T) {
			forEachProvider(t, func(l *lab) {
				out := &members{}
				n := l.node("n", chain, func(_ *Config, d *Deps) { d.Members = out })
				s := l.script("peer", n).at(chain[20], chain[18], 19)
				s.edit = c.edit
				if c.name == "self" {
					s.edit = func(h *Handshake) { h.NodeID = string(n.host.ID()) }
				}
				s.hello()
				if c.then != nil {
					s.next(0, TypeNotice)
					if c.want == NotAMember {
						out.refuse(s.host.ID())
					}
					c.then(l, n, s)
				}
				s.goneWith(c.want)
				l.eventually(func() bool { return len(n.m.Peers()) == 0 }, "off the table")
				if c.want != WrongChain { // nobody's fault: it may come back
					require.Error(l.t, n.m.gate(s.host.ID()), "refused for a while")
				}
			})
		})
	}
}

func signerKey(t *testing.T) *ecdsa.PrivateKey {
	key, err := crypto.ToECDSA(crypto.Keccak256([]byte("signer")))
	require.NoError(t, err)
	return key
}

func signAs(key *ecdsa.PrivateKey) func(*Handshake) {
	return func(h *Handshake) {
		h.Key = crypto.PubkeyToAddress(key.PublicKey)
		h.Sig, _ = crypto.Sign(h.Token[:], key)
	}
}

func badVote(voter common.Address, slot uint64) block.Vote {
	v := sampleVote(1)
	v.Voter, v.Target.Slot, v.Signature = voter, slot, block.BLSSignature{0xB0 + byte(VoteForged)}
	return v
}

func TestBadVotesOfOthersBlameNobodyAndStopHere(t *testing.T) {
	onMem(t, func(l *lab) {
		chain := newChain(20, chainShape{})
		n := l.node("n", chain)
		s := l.script("peer", n).at(chain[20], chain[18], 19).hello()
		o := l.script("other", n).at(chain[20], chain[18], 19).hello()
		s.next(0, TypeNotice)
		o.next(0, TypeNotice)
		s.send(0, TypeVotes, EncodeVotes([]block.Vote{badVote(common.Address{1}, 5), sampleVote(7)}))
		vs, err := DecodeVotes(o.next(0, TypeVotes))
		require.NoError(l.t, err)
		require.Equal(l.t, []block.Vote{sampleVote(7)}, vs, "the good one goes on, the bad one does not")
		require.Len(l.t, n.m.Peers(), 2)
	})
}

type members struct {
	mu  sync.Mutex
	out map[transport.PeerID]bool
}

func (m *members) refuse(p transport.PeerID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.out = map[transport.PeerID]bool{p: true}
}

func (m *members) Check(p transport.PeerID) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.out[p] {
		return errors.New("not on the list of members")
	}
	return nil
}

func TestSilentLinkIsCut(t *testing.T) {
	onMem(t, func(l *lab) {
		n := l.node("n", nil)
		s := l.script("peer", n)
		s.goneWith(BenignOther)
		require.NoError(l.t, n.m.gate("peer"), "slowness is no crime")
	})
}

func TestBanEnds(t *testing.T) {
	onMem(t, func(l *lab) {
		chain := newChain(20, chainShape{})
		n := l.node("n", chain)
		s := l.script("peer", n).at(chain[20], chain[18], 19)
		s.edit = func(h *Handshake) { h.OS = "" }
		s.hello().goneWith(Validation)
		require.Error(l.t, n.m.gate("peer"))
		l.pass(DefaultConfig().BanTime)
		require.NoError(l.t, n.m.gate("peer"))
	})
}

func TestBansAreBounded(t *testing.T) {
	b := newBanTable()
	now := time.Unix(100, 0)
	for i := range 2 * maxBans {
		b.Add(transport.PeerID(rune(i)), Validation, now.Add(time.Duration(i)))
	}
	require.LessOrEqual(t, b.Len(), maxBans)
	require.Error(t, b.Check(transport.PeerID(rune(2*maxBans-1)), now))
}

func TestPeerThatGoesAwayIsForgotten(t *testing.T) {
	for why := NoReason; why <= NotAMember+1; why++ {
		onMem(t, func(l *lab) {
			chain := newChain(20, chainShape{})
			core, logs := observer.New(zap.WarnLevel)
			n := l.node("n", chain, func(_ *Config, d *Deps) { d.Log = zap.New(core) })
			s := l.script("peer", n).at(chain[20], chain[18], 19).hello()
			s.next(0, TypeNotice)
			g := GoAway{Reason: why}
			s.send(0, TypeGoAway, g.Encode())
			<-s.over
			require.Empty(l.t, n.m.Peers())
			removed := logs.FilterMessageSnippet("this node is not a member").FilterField(zap.String("peer", "n")).Len()
			require.Equal(l.t, why == NotAMember, removed > 0, "a node that was removed says so, whatever is final here")
			require.NoError(l.t, n.m.gate("peer"))
		})
	}
}

func TestHandshakeTellsWhoSigns(t *testing.T) {
	onMem(t, func(l *lab) {
		key := signerKey(l.t)
		account := crypto.PubkeyToAddress(key.PublicKey)
		a := l.node("a", nil, func(_ *Config, d *Deps) {
			d.Identity = Identity{Account: account, SignerStart: time.Now(), Sign: func(h common.Hash) ([]byte, error) { return crypto.Sign(h[:], key) }}
		})
		a.do(func() { a.own = []block.Vote{sampleVote(4)} })
		b := l.node("b", nil)
		a.dial(b.host)
		l.eventually(func() bool { return len(b.m.Peers()) == 1 && b.m.Peers()[0].Account == account }, "shown")
		b.do(func() { require.Equal(l.t, []block.Vote{sampleVote(4)}, b.votes, "own votes travel in handshakes") })
	})
}

func TestClockOffsetAndRoundTrip(t *testing.T) {
	onMem(t, func(l *lab) {
		l.mem.SetFaults("a", "b", memFaults(30*time.Millisecond))
		a, b := l.node("a", nil), l.node("b", nil)
		a.dial(b.host)
		l.eventually(func() bool { return len(a.m.Peers()) == 1 && a.m.Peers()[0].RTT > 0 }, "measured")
		p := a.m.Peers()[0]
		require.InDelta(l.t, 60, p.RTT.Milliseconds(), 5)
		require.InDelta(l.t, 0, p.ClockOffset.Milliseconds(), 5)
	})
}

// Nodes exchange their machines' own clocks: a jump of one shows in its peers' readings with the next heartbeat, and not
// in its own readings of the peers, which stand against the monotonic clock. A reading outlives its link by a minute.
func TestOwnClocksAreExchanged(t *testing.T) {
	onMem(t, func(l *lab) {
		var jump atomic.Int64
		keys := make(map[string]common.Address)
		producer := func(name string, clock func() time.Time) *node {
			key, err := crypto.GenerateKey()
			require.NoError(l.t, err)
			keys[name] = crypto.PubkeyToAddress(key.PublicKey)
			return l.node(name, nil, func(_ *Config, d *Deps) {
				d.Now = clock
				d.Identity = Identity{Account: keys[name], Sign: func(h common.Hash) ([]byte, error) { return crypto.Sign(h[:], key) }}
			})
		}
		a := producer("a", nil)
		b := producer("b", func() time.Time { return time.Now().Add(time.Duration(jump.Load())) })
		c := l.node("c", nil) // no producer
		a.dial(b.host)
		a.dial(c.host)
		seen := func(n *node) (off time.Duration, ok bool) {
			for _, r := range n.m.Clocks() {
				off, ok = r.Wall-time.Duration(r.At.UnixNano()), true
			}
			return off.Round(time.Millisecond), ok
		}
		l.eventually(func() bool { _, ok := seen(a); return ok }, "read")
		l.eventually(func() bool { _, ok := seen(b); return ok }, "read")
		l.pass(10 * time.Second)
		require.Len(l.t, a.m.Clocks(), 1, "the node without an account has no clock that counts")
		require.Equal(l.t, keys["b"], a.m.Clocks()[0].Account)
		for _, x := range []time.Duration{3 * time.Second, -180 * time.Second, 0} {
			jump.Store(int64(x))
			l.pass(3 * time.Second) // a heartbeat
			off, _ := seen(a)
			require.Equal(l.t, x, off)
			own, _ := seen(b)
			require.Zero(l.t, own, "b's readings of a do not depend on b's clock")
			for _, p := range a.m.Peers() {
				if p.ID == "b" {
					require.Equal(l.t, x, p.ClockOffset.Round(time.Millisecond))
				}
			}
			require.Equal(l.t, -x, b.m.Peers()[0].ClockOffset.Round(time.Millisecond))
		}
		b.stop()
		l.pass(50 * time.Second)
		require.Len(l.t, a.m.Clocks(), 1)
		require.Less(l.t, time.Since(a.m.Clocks()[0].At), time.Minute, "the age says what it is worth")
	})
}
