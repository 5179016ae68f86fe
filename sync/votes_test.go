package blocksync

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/bornode/bornode/block"
)

// votesWorth are different votes that the model's driver judges so.
func votesWorth(v VoteVerdict, n int) []block.Vote {
	out := make([]block.Vote, n)
	for i := range out {
		out[i] = sampleVote(byte(i))
		out[i].Voter, out[i].Target.Slot = common.Address{7}, uint64(i)
		out[i].Signature = block.BLSSignature{0xB0 + byte(v), byte(i), byte(i >> 8)}
	}
	return out
}

// Only what the driver took is passed on; what an honest peer may send costs its sender nothing, whatever the number.
func TestOnlyVerifiedVotesAreRelayed(t *testing.T) {
	for v := VoteIrrelevant; v <= VoteForged; v++ {
		t.Run(v.String(), func(t *testing.T) {
			onMem(t, func(l *lab) {
				chain := newChain(10, chainShape{})
				n := l.node("n", chain)
				s := l.script("peer", n).at(chain[10], chain[8], 9).hello()
				o := l.script("other", n).at(chain[10], chain[8], 9).hello()
				s.next(0, TypeNotice)
				o.next(0, TypeNotice)
				vs := votesWorth(v, 5)
				if v == VoteIrrelevant {
					vs = votesWorth(v, maxVotes-1)
				}
				s.send(0, TypeVotes, EncodeVotes(append(vs, sampleVote(7))))
				got, err := DecodeVotes(o.next(0, TypeVotes))
				require.NoError(l.t, err)
				require.Equal(l.t, []block.Vote{sampleVote(7)}, got)
				o.quiet(time.Second, 0, TypeVotes)
				require.Len(l.t, n.m.Peers(), 2)
			})
		})
	}
}

// watched is a node whose log can be read.
func watched(l *lab, name string, chain []*block.Block, opts ...nodeOption) (*node, *observer.ObservedLogs) {
	core, logs := observer.New(zapcore.WarnLevel)
	return l.node(name, chain, append(opts, func(_ *Config, d *Deps) { d.Log = zap.New(core) })...), logs
}

// said gives the first line of the log with all the words.
func said(logs *observer.ObservedLogs, words ...string) string {
	for _, e := range logs.All() {
		line := e.Message + fmt.Sprint(e.ContextMap())
		found := true
		for _, w := range words {
			found = found && strings.Contains(line, w)
		}
		if found {
			return line
		}
	}
	return ""
}

// A peer at line speed, with votes that cost no more than a look-up, is read slowly, then sent away and named; what
// others send is judged meanwhile.
func TestAFloodOfVotesIsSlowedAndItsSenderNamed(t *testing.T) {
	onMem(t, func(l *lab) {
		chain := newChain(10, chainShape{})
		n, logs := watched(l, "n", chain)
		s := l.script("flooder", n).at(chain[10], chain[8], 9).hello()
		o := l.script("other", n).at(chain[10], chain[8], 9).hello()
		s.next(0, TypeNotice)
		o.next(0, TypeNotice)
		begin := time.Now()
		sent, size := 0, 0
		payload := EncodeVotes(votesWorth(VoteIrrelevant, maxVotes))
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for {
				select {
				case <-s.over:
					return
				default:
					s.send(0, TypeVotes, payload)
					sent, size = sent+1, size+len(payload)
				}
			}
		}()
		o.send(0, TypeVotes, EncodeVotes([]block.Vote{sampleVote(1)}))
		s.goneWith(Flood)
		<-ended
		n.do(func() { require.Contains(l.t, n.votes, sampleVote(1)) })
		require.Less(l.t, time.Since(begin), time.Minute)
		require.NotEmpty(l.t, said(logs, "it is read slowly", string(s.host.ID())))
		require.NotEmpty(l.t, said(logs, "peer is sent away", string(s.host.ID()), "flood", "bytes of votes in"))
		require.Error(l.t, n.m.gate(s.host.ID()), "refused for a while")
		require.Len(l.t, n.m.Peers(), 1)
	})
}

// The log says of which kind the votes were, and how many.
func TestTheLogNamesKindAndNumber(t *testing.T) {
	onMem(t, func(l *lab) {
		chain := newChain(10, chainShape{})
		n, logs := watched(l, "n", chain)
		s := l.script("flooder", n).at(chain[10], chain[8], 9).hello()
		s.next(0, TypeNotice)
		vs := append(votesWorth(VoteOverShare, 40), votesWorth(VoteForged, 9)...)
		s.send(0, TypeVotes, EncodeVotes(vs))
		s.goneWith(Flood)
		require.NotEmpty(l.t, said(logs, "peer is sent away", "8 with forged signatures", "40 on unknown blocks above their voters' share"))
	})
}

// Who leaves before it is sent away finds the same account when it comes back.
func TestTheAccountOutlivesTheLink(t *testing.T) {
	onMem(t, func(l *lab) {
		chain := newChain(10, chainShape{})
		n := l.node("n", chain)
		s := l.script("flooder", n).at(chain[10], chain[8], 9).hello()
		s.next(0, TypeNotice)
		s.send(0, TypeVotes, EncodeVotes(votesWorth(VoteForged, 6)))
		l.eventually(func() bool { var k int; n.do(func() { k = n.offered }); return k == 6 }, "judged")
		require.NoError(l.t, s.link.Close("again"))
		<-s.over
		l.eventually(func() bool { return len(n.m.Peers()) == 0 }, "gone")
		s.connect(n)
		s.hello()
		s.next(0, TypeNotice)
		s.send(0, TypeVotes, EncodeVotes(votesWorth(VoteForged, 12)[6:]))
		s.goneWith(Flood)
	})
}

// What all producers cast, each vote once, and the resends of all of them after a stall, is never held back.
func TestHonestVotesAreNotHeldBack(t *testing.T) {
	for _, seats := range []int{1, 4, 21, 128} {
		for _, slot := range []time.Duration{100 * time.Millisecond, 500 * time.Millisecond, 2 * time.Second} {
			a, now := newVoteAccount(), time.Now()
			a.setRates(votesAllowed(seats, slot))
			for range 3 {
				for range seats { // resent: each its newest
					wait, _, _ := a.payBytes(64*220, now)
					require.Zero(t, wait, "%d seats, slots of %v", seats, slot)
				}
				for range 64 { // then as they are cast, one in a message, and again as many from a second time round
					for range 4 * seats {
						wait, _, _ := a.payBytes(220+voteMessageBytes, now)
						require.Zero(t, wait, "%d seats, slots of %v", seats, slot)
						a.charge(VoteFuture, 1, now)
					}
					now = now.Add(slot)
				}
			}
			require.GreaterOrEqual(t, a.points.left, 0.0)
		}
	}
}

// A clock that differs, ours or the peer's, is no fault.
func TestFutureVotesOfOtherClocks(t *testing.T) {
	onMem(t, func(l *lab) {
		n := l.node("n", nil)
		now := time.Now()
		slot, ok := n.m.deps.Params.SlotAt(now)
		require.True(l.t, ok)
		p := &peer{}
		require.True(l.t, n.m.explainedByClocks(p, slot+voteClockSlots, now))
		require.False(l.t, n.m.explainedByClocks(p, slot+voteClockSlots+1, now))
		own := time.Duration(now.UnixNano())
		p.clock.Add(clockSample{wall: own + time.Hour, at: now, rtt: time.Millisecond})
		require.True(l.t, n.m.explainedByClocks(p, slot+7200, now))
		require.False(l.t, n.m.explainedByClocks(p, slot+7300, now))
		p = &peer{}
		p.clock.Add(clockSample{wall: own - time.Hour, at: now, rtt: time.Millisecond})
		require.True(l.t, n.m.explainedByClocks(p, slot+voteClockSlots, now))
	})
}

// A vote that a flooder sends first, behind a heap of others, is judged when the next peer's copy has its turn; each is
// judged once; and the heap of one that left is forgotten.
func TestInboxTakesTurns(t *testing.T) {
	b := newVoteInbox()
	flooder, honest := &peer{id: "flooder"}, &peer{id: "honest"}
	put := func(p *peer, key uint64) (bool, bool) {
		return b.Put(p, receivedVote{key: key, vote: sampleVote(byte(key)), relay: true})
	}
	for k := range uint64(maxQueuedVotes) {
		fresh, full := put(flooder, 1000+k)
		require.True(t, fresh)
		require.False(t, full)
	}
	_, full := put(flooder, 7)
	require.True(t, full)
	fresh, _ := put(flooder, 1000)
	require.False(t, fresh, "it waits already")
	fresh, _ = put(honest, 7)
	require.True(t, fresh)
	put(honest, 1000)
	batch := b.Take(t.Context())
	require.Len(t, batch, votesPerTurn+1)
	require.Equal(t, []*peer{flooder, honest}, batch[0].senders)
	require.EqualValues(t, 7, batch[votesPerTurn].key)
	for _, r := range batch {
		b.MarkSeen(r.key)
	}
	fresh, _ = put(honest, 1000)
	require.False(t, fresh, "judged")
	b.MarkSeen(1000 + votesPerTurn)
	require.Len(t, b.Take(t.Context()), votesPerTurn-1)
	b.Forget(flooder)
	require.Empty(t, b.turns)
	require.Empty(t, b.queue)

	// Of many peers no one is passed over.
	var peers []*peer
	for i := range 40 {
		p := &peer{id: honest.id}
		peers = append(peers, p)
		for k := range uint64(100) {
			put(p, 1<<20+uint64(i)<<10+k)
		}
	}
	had := map[*peer]int{}
	for range 5 {
		batch := b.Take(t.Context())
		require.LessOrEqual(t, len(batch), maxVotes)
		for _, r := range batch {
			had[r.senders[0]]++
		}
	}
	for _, p := range peers {
		require.GreaterOrEqual(t, had[p], votesPerTurn)
	}
}
