package blocksync

import (
	"fmt"
	"time"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/transport"
	"github.com/ethereum/go-ethereum/common"
)

// pull fetches the body of one announced block, from one peer at a time.
type pull struct {
	sealed  *block.SealedHeader
	size    int
	peer    transport.PeerID
	req     uint64
	since   time.Time
	refused map[transport.PeerID]struct{}
}

func (m *Manager) startPull(j *checkJob) {
	hash := j.sealed.Hash()
	if m.pulls[hash] != nil {
		return
	}
	if len(m.pulls) >= maxPulls {
		m.seen.Delete(hash)
		m.metrics.dropped("pull")
		return
	}
	pl := &pull{sealed: j.sealed, size: j.size, refused: make(map[transport.PeerID]struct{})}
	m.pulls[hash] = pl
	m.pullFrom(hash, pl, j.peer)
}

// fetchElsewhere pulls a block whose first copy was bad from a peer that has it too: other copies were dropped as
// duplicates meanwhile.
func (m *Manager) fetchElsewhere(h *block.SealedHeader, size int) {
	hash := h.Hash()
	if m.pulls[hash] != nil || len(m.pulls) >= maxPulls {
		return
	}
	for _, p := range m.peers {
		if p.handshaken && p.knownBlocks.Has(hash) {
			pl := &pull{sealed: h, size: size, refused: make(map[transport.PeerID]struct{})}
			m.pulls[hash] = pl
			m.pullFrom(hash, pl, p)
			return
		}
	}
}

func (m *Manager) pullFrom(hash common.Hash, pl *pull, p *peer) {
	pl.peer, pl.req, pl.since = p.id, m.nextReq(), time.Now()
	r := Request{Blocks: IDs{Mode: ModeNormal, Pending: 1, IDs: []common.Hash{hash}}, ReqIndex: pl.req}
	if !p.send(transport.LaneConsensus, TypeRequest, r.Encode()) {
		m.pullNext(hash, pl)
	}
}

// pullNext asks another peer known to have the block, or gives up: the branch is then asked for as a whole.
func (m *Manager) pullNext(hash common.Hash, pl *pull) {
	pl.refused[pl.peer] = struct{}{}
	for _, p := range m.peers {
		if _, no := pl.refused[p.id]; !no && p.handshaken && !p.leaving && p.knownBlocks.Has(hash) {
			m.pullFrom(hash, pl, p)
			return
		}
	}
	delete(m.pulls, hash)
	m.seen.Delete(hash)
}

// onPulled takes the answer to a pull; false if it is none.
func (m *Manager) onPulled(p *peer, s *SignedBlock) bool {
	for hash, pl := range m.pulls {
		if pl.req != s.ReqIndex || pl.peer != p.id {
			continue
		}
		h, err := s.Header()
		if err != nil || h.Hash() != hash {
			delete(m.pulls, hash)
			m.seen.Delete(hash)
			m.punish(p, Validation, fmt.Errorf("answer to the request for block %s holds another one", hash))
			m.fetchElsewhere(pl.sealed, pl.size)
			return true
		}
		delete(m.pulls, hash)
		payload := (&SignedBlock{Height: h.Number(), Raw: s.Raw}).Encode()
		// The seal may differ from the announced one: the header is checked again, cheaply if it is the same.
		m.seen.Delete(hash)
		m.check(&checkJob{peer: p, sealed: h, size: len(s.Raw), raw: s.Raw, payload: payload})
		return true
	}
	return false
}

func (m *Manager) pullRefused(p *peer, req uint64) {
	for hash, pl := range m.pulls {
		if pl.req == req && pl.peer == p.id {
			m.pullNext(hash, pl)
			return
		}
	}
}

func (m *Manager) retryPulls(id transport.PeerID) {
	for hash, pl := range m.pulls {
		if pl.peer == id {
			m.pullNext(hash, pl)
		}
	}
}

func (m *Manager) expirePulls(now time.Time) {
	for hash, pl := range m.pulls {
		rtt := time.Duration(0)
		if p := m.peers[pl.peer]; p != nil {
			rtt = p.clock.RTT()
		}
		if now.Sub(pl.since) >= max(m.cfg.RequestTimeout, 4*rtt) {
			m.metrics.timeout("pull")
			m.pullNext(hash, pl)
		}
	}
}

// bodyCache keeps the messages of recent blocks that were announced, so that a pull can be answered before the block is
// stored.
type bodyCache struct {
	m     map[common.Hash][]byte
	order []common.Hash
	bytes int
}

func (c *bodyCache) init() { c.m = make(map[common.Hash][]byte) }

func (c *bodyCache) add(h common.Hash, payload []byte) {
	if _, ok := c.m[h]; ok {
		return
	}
	c.m[h] = payload
	c.order = append(c.order, h)
	c.bytes += len(payload)
	for len(c.order) > maxRecentBodies || c.bytes > maxRecentBodyBytes && len(c.order) > 1 {
		c.bytes -= len(c.m[c.order[0]])
		delete(c.m, c.order[0])
		c.order = c.order[1:]
	}
}

// raw is a cached block's encoding; nil if it is not cached.
func (c *bodyCache) raw(h common.Hash) []byte {
	payload, ok := c.m[h]
	if !ok {
		return nil
	}
	s, err := DecodeSignedBlock(payload)
	if err != nil {
		return nil
	}
	return s.Raw
}
