package blocksync

import (
	"context"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/transport"
)

// narrowLink takes so many messages and no more.
type narrowLink struct {
	transport.Link
	room int
	sent []transport.Message
}

func (n *narrowLink) Peer() transport.PeerID { return "p" }

func (n *narrowLink) TrySend(m transport.Message) bool {
	if n.room == 0 {
		return false
	}
	n.room--
	n.sent = append(n.sent, m)
	return true
}

// idleManager is a manager that does not run, with one peer behind a narrow link.
func idleManager(l *lab) (*Manager, *peer, *narrowLink) {
	model := newModel(newChain(10, chainShape{}))
	host := l.newHost("x")
	l.t.Cleanup(func() { require.NoError(l.t, host.Close()) })
	m, err := New(DefaultConfig(), Deps{Host: host, Driver: model, Blocks: model, Params: modelParams, Classify: modelClassify})
	require.NoError(l.t, err)
	m.flushTimer = time.NewTimer(time.Hour)
	k := &narrowLink{}
	p := newPeer(context.Background(), k, newVoteAccount(), time.Now())
	p.handshaken, p.pos.Head.Height = true, 10
	m.peers["p"] = p
	return m, p, k
}

func sentTxs(t *testing.T, k *narrowLink) (all []common.Hash) {
	t.Helper()
	for _, m := range k.sent {
		txs, err := DecodePackedTransactions(m.Payload)
		require.NoError(t, err)
		for _, tx := range txs {
			all = append(all, tx.Hash())
		}
	}
	return all
}

func TestFullLaneLosesNoTransactions(t *testing.T) {
	onMem(t, func(l *lab) {
		m, p, k := idleManager(l)
		k.room = 1
		var want []common.Hash
		for i := range uint64(2000) { // several batches
			tx := makeTx(i, 21000)
			g, ok := newGossip(tx)
			require.True(t, ok)
			m.onOwnTransactions([]gossip{g})
			want = append(want, tx.Hash())
		}
		m.flushTransactions()
		require.Len(t, k.sent, 1)
		require.NotEmpty(t, p.txQueue)
		p.knownTxs.Add(want[1999], txShown) // comes from the peer meanwhile
		m.retryTransactions()
		require.Len(t, k.sent, 1)
		k.room = 100
		m.retryTransactions()
		require.Equal(t, want[:1999], sentTxs(t, k), "each once")
		require.Empty(t, p.txQueue)
		require.Zero(t, p.txQueueBytes)
		require.EqualValues(t, 1999, p.counts.txsOut)

		// One that is still pending later may have been lost there: it is sent once more.
		require.Empty(t, m.lacked(want[:1]))
		require.Equal(t, want[:1], m.lacked(want[:1]))
		require.Empty(t, m.lacked(want[1999:]), "the peer has it")
	})
}

func TestQueueForAFullLaneIsBounded(t *testing.T) {
	onMem(t, func(l *lab) {
		m, p, _ := idleManager(l)
		g := make([]gossip, 2*maxQueuedTxs)
		for i := range g {
			g[i] = gossip{hash: common.Hash{byte(i), byte(i >> 8)}, enc: make([]byte, 100)}
		}
		m.txRelay = g
		m.flushTransactions()
		require.Len(t, p.txQueue, maxQueuedTxs)
		require.LessOrEqual(t, p.txQueueBytes, maxQueuedTxBytes)
		require.Equal(t, maxQueuedTxs, p.knownTxs.Len(), "what was not kept is not taken as known")
	})
}

func TestFullLaneLosesNoVotes(t *testing.T) {
	onMem(t, func(l *lab) {
		m, _, k := idleManager(l)
		var votes []relayedVote
		for i := range byte(3) {
			v := sampleVote(i)
			votes = append(votes, relayedVote{v, m.voteKey(&v)})
		}
		m.voteRelay = votes
		m.flushVotes(time.Now())
		require.Empty(t, k.sent)
		k.room = 9
		m.flushVotes(time.Now())
		m.flushVotes(time.Now())
		require.Len(t, k.sent, 1)
		got, err := DecodeVotes(k.sent[0].Payload)
		require.NoError(t, err)
		require.Equal(t, []block.Vote{votes[0].vote, votes[1].vote, votes[2].vote}, got)
		require.Empty(t, m.voteRelay)
	})
}

// TestPendingTransactionsAreOffered: neither a broadcast that was dropped nor a message that the receiver dropped
// leaves a transaction in one pool only.
func TestPendingTransactionsAreOffered(t *testing.T) {
	onMem(t, func(l *lab) {
		nodes := l.line(3, newChain(10, chainShape{}))
		var txs types.Transactions
		for i := range uint64(3 * maxOffers) {
			txs = append(txs, makeTx(i, 21000))
		}
		nodes[0].pool.Add(txs, true) // and nobody tells the manager
		l.eventually(func() bool { return nodes[2].pool.len() == len(txs) }, "all nodes have them")
	})
}

func TestAPendingTransactionIsSentAgain(t *testing.T) {
	onMem(t, func(l *lab) {
		chain := newChain(10, chainShape{})
		n := l.node("n", chain)
		s := l.script("peer", n).at(chain[10], chain[8], 9).hello()
		s.next(0, TypeNotice)
		n.pool.Add(txsOf(makeTx(0, 21000)), true)
		n.m.BroadcastTransactions(txsOf(makeTx(0, 21000)))
		for range 3 { // it never shows that it has it
			txs, err := DecodePackedTransactions(s.next(transport.LaneTransactions, TypePackedTransactions))
			require.NoError(t, err)
			require.Len(t, txs, 1)
		}
		s.send(transport.LaneTransactions, TypePackedTransactions, EncodePackedTransactions(txsOf(makeTx(0, 21000))))
		l.pass(time.Second)
		s.quiet(5*time.Minute, transport.LaneTransactions, TypePackedTransactions)
	})
}

func TestOffersPassOverTheWholePool(t *testing.T) {
	var pool []common.Hash
	for i := range 3*maxOffers + 5 {
		pool = append(pool, common.Hash{byte(i), byte(i >> 8), byte(i >> 16)})
	}
	offered, turn := nextOffers(nil, pool)
	require.Empty(t, turn, "all are new")
	for range 2 {
		seen := make(map[common.Hash]int)
		for range 4 {
			offered, turn = nextOffers(offered, pool)
			require.LessOrEqual(t, len(turn), maxOffers)
			for _, h := range turn {
				seen[h]++
			}
		}
		require.Len(t, seen, len(pool))
		for _, n := range seen {
			require.Equal(t, 1, n)
		}
		offered, turn = nextOffers(offered, pool)
		require.Empty(t, turn, "the end of a round")
	}
	offered, turn = nextOffers(offered, pool[:3])
	require.Len(t, turn, 3)
	require.Len(t, offered, 3, "what left the pool is forgotten")
}
