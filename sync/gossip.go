package blocksync

import (
	"bytes"
	"fmt"
	"math"
	"time"

	"github.com/bornode/bornode/transport"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/rlp"
)

// gossip is one transaction on its way to the peers, encoded once.
type gossip struct {
	hash common.Hash
	enc  []byte
	tx   *types.Transaction // to be encoded for the first peer that lacks it; nil: it is encoded
}

// encode sees to it that enc is there; false if it is too large to be relayed.
func (g *gossip) encode() bool {
	if g.tx != nil {
		encoded, ok := newGossip(g.tx)
		if !ok {
			return false
		}
		*g = encoded
	}
	return true
}

func newGossip(tx *types.Transaction) (gossip, bool) {
	if tx == nil {
		return gossip{}, false
	}
	enc, err := rlp.EncodeToBytes(tx)
	if err != nil || len(enc) > maxTransactionBytes {
		return gossip{}, false
	}
	return gossip{hash: tx.Hash(), enc: enc}, true
}

type txJob struct {
	peer    *peer
	payload []byte
}

func (m *Manager) onTransactions(p *peer, payload []byte) {
	if !p.handshaken || p.leaving || m.deps.Pool == nil || m.state == LIBCatchup {
		return
	}
	if !m.txJob.Put(&txJob{p, payload}, len(payload)) {
		m.metrics.dropped("transaction")
	}
}

func (m *Manager) txWorker() {
	m.txJob.Each(m.ctx, func(j *txJob) {
		packed, err := splitPackedTransactions(j.payload)
		all := make([]common.Hash, len(packed))
		var fresh []packedTransaction
		var txs []*types.Transaction // decoded fresh ones
		for i := range packed {
			all[i] = packed[i].hash
			if m.deps.Pool.Get(all[i]) != nil {
				continue
			}
			var tx *types.Transaction
			if tx, err = packed[i].decode(); err != nil {
				break
			}
			fresh, txs = append(fresh, packed[i]), append(txs, tx)
		}
		if err != nil {
			m.post(func() { m.punish(j.peer, Validation, err) })
			return
		}
		accepted, bad := m.addTransactions(fresh, txs)
		m.post(func() { m.onTransactionsAdded(j.peer, all, accepted, bad) })
	})
}

// addTransactions offers a peer's transactions to the pool. accepted are relayed with the bytes they came in; bad says
// that the peer sent one which no state could make right.
func (m *Manager) addTransactions(packed []packedTransaction, txs []*types.Transaction) (accepted []gossip, bad error) {
	if len(txs) == 0 {
		return nil, nil
	}
	for i, err := range m.deps.Pool.Add(txs, false) {
		switch m.deps.verdict(err) {
		case VerdictOK:
			if len(packed[i].enc) <= maxTransactionBytes {
				accepted = append(accepted, gossip{hash: packed[i].hash, enc: bytes.Clone(packed[i].enc)}) // the message's buffer is much larger
			}
		case VerdictInvalid:
			bad = fmt.Errorf("transaction %s: %w", packed[i].hash, err)
		}
	}
	return accepted, bad
}

func (m *Manager) onTransactionsAdded(p *peer, all []common.Hash, accepted []gossip, bad error) {
	p.counts.txsIn += uint64(len(all))
	for _, h := range all {
		p.knownTxs.Add(h, txShown)
	}
	if bad != nil {
		m.punish(p, BadTransaction, bad)
	}
	m.onOwnTransactions(accepted)
}

func (m *Manager) onOwnTransactions(g []gossip) {
	if len(g) == 0 {
		return
	}
	m.txRelay = append(m.txRelay, g...)
	if len(m.txRelay) >= maxTransactionsCount {
		m.flushTransactions()
		return
	}
	m.scheduleFlush(gossipDelay)
}

// gossipBytes is how large a batch grows before the next begins.
const gossipBytes = 64 << 10

// What a peer's cache of transactions holds besides the beat from which one that was sent may be sent again: what is
// on its way may still be lost there (a full queue, a catch-up), what the peer sent itself it has.
const (
	txShown   uint64 = math.MaxUint64 - iota // the peer sent it
	txWaiting                                // queued for the peer
)

// queuedTx is a transaction that waits for room in a peer's lane.
type queuedTx struct {
	gossip
	again bool // it was sent before
}

// lacks reports whether a transaction is to be sent to the peer: it never was, or long ago and may have been lost.
func (m *Manager) lacks(p *peer, h common.Hash) (lacks, again bool) {
	due, known := p.knownTxs.Get(h)
	return !known || due <= m.offerBeat, known
}

func (m *Manager) flushTransactions() {
	lib := m.deps.Driver.Status().LIB
	for _, p := range m.peers {
		if !p.wants(lib) {
			continue
		}
		for i := range m.txRelay {
			g := &m.txRelay[i]
			lacks, again := m.lacks(p, g.hash)
			if !lacks || !g.encode() {
				continue
			}
			if len(p.txQueue) >= maxQueuedTxs || p.txQueueBytes+len(g.enc) > maxQueuedTxBytes {
				m.metrics.dropped("transaction") // not marked: the offers bring it later
				continue
			}
			p.knownTxs.Add(g.hash, txWaiting)
			p.txQueue = append(p.txQueue, queuedTx{*g, again})
			p.txQueueBytes += len(g.enc)
		}
		m.sendTransactions(p)
	}
	m.txRelay = nil
}

// sendTransactions sends in batches what waits for the peer; what its lane does not take waits for the next tick.
func (m *Manager) sendTransactions(p *peer) {
	for len(p.txQueue) > 0 {
		var batch [][]byte
		size, n := 0, 0
		for _, g := range p.txQueue {
			if len(batch) > 0 && size+len(g.enc) > gossipBytes || len(batch) == maxTransactionsCount {
				break
			}
			if n++; p.knownTxs.Is(g.hash, txShown) {
				continue // the peer has sent it meanwhile
			}
			batch, size = append(batch, g.enc), size+len(g.enc)
		}
		if len(batch) > 0 && !p.send(transport.LaneTransactions, TypePackedTransactions, encodePackedTransactions(batch)) {
			return
		}
		p.counts.txsOut += uint64(len(batch))
		for _, g := range p.txQueue[:n] {
			p.txQueueBytes -= len(g.enc)
			if p.knownTxs.Is(g.hash, txShown) {
				continue
			}
			after := uint64(resendBeats)
			if g.again {
				after = resendBeatsAgain
			}
			p.knownTxs.Add(g.hash, m.offerBeat+after)
		}
		clear(p.txQueue[:n])
		p.txQueue = p.txQueue[n:]
	}
	p.txQueue = nil
}

// retryTransactions tries the peers again whose lanes were full.
func (m *Manager) retryTransactions() {
	for _, p := range m.peers {
		if len(p.txQueue) > 0 && !p.leaving {
			m.sendTransactions(p)
		}
	}
}

// offerWorker offers transactions again that stay pending, so that none depends on a message that a full queue of
// ours or of a peer dropped. A round passes over the whole pool; each beat takes a bounded part of it.
func (m *Manager) offerWorker() {
	if m.deps.Pool == nil {
		return
	}
	tick := time.NewTicker(offerEvery)
	defer tick.Stop()
	offered := make(map[common.Hash]bool) // pending at the beat before; true: had its turn in this round
	for {
		select {
		case <-m.ctx.Done():
			return
		case <-tick.C:
		}
		var turn []common.Hash
		offered, turn = nextOffers(offered, m.deps.Pool.Pending())
		var lacked []common.Hash
		if !m.query(func() { lacked = m.lacked(turn) }) {
			return
		}
		var out []gossip
		size := 0
		for _, h := range lacked {
			if size >= maxOfferBytes {
				offered[h] = false // next beat
				continue
			}
			if g, ok := newGossip(m.deps.Pool.Get(h)); ok {
				out, size = append(out, g), size+len(g.enc)
			}
		}
		if len(out) > 0 && !m.post(func() { m.onOwnTransactions(out) }) {
			return
		}
	}
}

// nextOffers gives the transactions whose turn it is, of those that were pending at the last beat already.
func nextOffers(offered map[common.Hash]bool, pending []common.Hash) (next map[common.Hash]bool, turn []common.Hash) {
	next = make(map[common.Hash]bool, len(pending))
	for _, h := range pending {
		had, old := offered[h]
		if old && !had && len(turn) < maxOffers {
			turn, had = append(turn, h), true
		}
		next[h] = had
	}
	if len(turn) == 0 { // the round is over
		for h := range next {
			next[h] = false
		}
	}
	return next, turn
}

// lacked counts the beat and gives those of the transactions that some peer lacks.
func (m *Manager) lacked(txs []common.Hash) []common.Hash {
	m.offerBeat++
	lib := m.deps.Driver.Status().LIB
	var out []common.Hash
	for _, h := range txs {
		for _, p := range m.peers {
			if lacks, _ := m.lacks(p, h); lacks && p.wants(lib) {
				out = append(out, h)
				break
			}
		}
	}
	return out
}
