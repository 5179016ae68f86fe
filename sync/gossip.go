package blocksync

import (
	"fmt"

	"github.com/bornode/bornode/transport"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/rlp"
)

// gossip is one transaction on its way to the peers, encoded once.
type gossip struct {
	hash common.Hash
	enc  []byte
}

func newGossip(tx *types.Transaction) (gossip, bool) {
	if tx == nil {
		return gossip{}, false
	}
	enc, err := rlp.EncodeToBytes(tx)
	if err != nil || len(enc) > maxTransactionBytes {
		return gossip{}, false
	}
	return gossip{tx.Hash(), enc}, true
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
		txs, err := DecodePackedTransactions(j.payload)
		if err != nil {
			m.post(func() { m.punish(j.peer, Validation, err) })
			return
		}
		all := make([]common.Hash, len(txs))
		var fresh []*types.Transaction
		for i, tx := range txs {
			all[i] = tx.Hash()
			if m.deps.Pool.Get(all[i]) == nil {
				fresh = append(fresh, tx)
			}
		}
		var accepted []gossip
		var bad error
		if len(fresh) > 0 {
			errs := m.deps.Pool.Add(fresh, false)
			for i, tx := range fresh {
				var err error
				if i < len(errs) {
					err = errs[i]
				}
				switch m.deps.verdict(err) {
				case VerdictOK:
					if g, ok := newGossip(tx); ok {
						accepted = append(accepted, g)
					}
				case VerdictInvalid:
					bad = fmt.Errorf("transaction %s: %w", tx.Hash(), err)
				}
			}
		}
		m.post(func() { m.onTransactionsAdded(j.peer, all, accepted, bad) })
	})
}

func (m *Manager) onTransactionsAdded(p *peer, all []common.Hash, accepted []gossip, bad error) {
	p.counts.txsIn += uint64(len(all))
	for _, h := range all {
		p.knownTxs.Add(h, struct{}{})
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

func (m *Manager) flushTransactions() {
	if len(m.txRelay) == 0 {
		return
	}
	lib := m.deps.Driver.Status().LIB
	for _, p := range m.peers {
		if !p.wants(lib) {
			continue
		}
		var batch [][]byte
		size := 0
		ship := func() {
			if len(batch) > 0 && p.send(transport.LaneTransactions, TypePackedTransactions, encodePackedTransactions(batch)) {
				p.counts.txsOut += uint64(len(batch))
			}
			batch, size = nil, 0
		}
		for _, g := range m.txRelay {
			if !p.knownTxs.Add(g.hash, struct{}{}) {
				continue
			}
			if size+len(g.enc) > gossipBytes || len(batch) == maxTransactionsCount {
				ship()
			}
			batch, size = append(batch, g.enc), size+len(g.enc)
		}
		ship()
	}
	m.txRelay = nil
}
