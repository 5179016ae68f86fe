package blocksync

import (
	"fmt"
	"time"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/transport"
	"github.com/ethereum/go-ethereum/common"
)

// pull fetches the body of one announced block. One peer is asked first; while it does not answer within a few round
// trips, others that have the block are asked besides, a few at once, so that one that withholds it costs little.
type pull struct {
	sealed  *block.SealedHeader
	size    int
	since   time.Time // of the newest request
	open    map[transport.PeerID]pullRequest
	refused map[transport.PeerID]struct{}
}

type pullRequest struct {
	req uint64
	at  time.Time
}

func (m *Manager) newPull(h *block.SealedHeader, size int) *pull {
	pl := &pull{sealed: h, size: size, open: make(map[transport.PeerID]pullRequest), refused: make(map[transport.PeerID]struct{})}
	m.pulls[h.Hash()] = pl
	return pl
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
	pl := m.newPull(j.sealed, j.size)
	if !m.pullFrom(hash, pl, j.peer) {
		m.pullNext(hash, pl)
	}
}

// fetchElsewhere pulls a block whose first copy was bad from a peer that has it too: other copies were dropped as
// duplicates meanwhile.
func (m *Manager) fetchElsewhere(h *block.SealedHeader, size int) {
	hash := h.Hash()
	if m.pulls[hash] == nil && len(m.pulls) < maxPulls {
		m.pullNext(hash, m.newPull(h, size))
	}
}

// pullFrom asks a peer; false if its lane is full.
func (m *Manager) pullFrom(hash common.Hash, pl *pull, p *peer) bool {
	pl.since = time.Now()
	r := Request{Blocks: IDs{Mode: ModeNormal, Pending: 1, IDs: []common.Hash{hash}}, ReqIndex: m.nextReq()}
	if p.leaving || !p.send(transport.LaneConsensus, TypeRequest, r.Encode()) {
		pl.refused[p.id] = struct{}{}
		return false
	}
	pl.open[p.id] = pullRequest{r.ReqIndex, pl.since}
	return true
}

// pullMore asks one more peer known to have the block, if there is one.
func (m *Manager) pullMore(hash common.Hash, pl *pull) bool {
	for _, p := range m.peers {
		_, no := pl.refused[p.id]
		_, asked := pl.open[p.id]
		if !no && !asked && p.handshaken && !p.leaving && p.knownBlocks.Has(hash) && m.pullFrom(hash, pl, p) {
			return true
		}
	}
	return false
}

// pullNext asks another peer if no request is open, or gives up: the branch is then asked for as a whole.
func (m *Manager) pullNext(hash common.Hash, pl *pull) {
	if len(pl.open) == 0 && !m.pullMore(hash, pl) {
		delete(m.pulls, hash)
		m.seen.Delete(hash)
	}
}

// endPull takes back the requests still open: the body is here.
func (m *Manager) endPull(hash common.Hash, pl *pull) {
	for id, o := range pl.open {
		if p := m.peers[id]; p != nil {
			r := Request{ReqIndex: o.req}
			p.send(transport.LaneConsensus, TypeRequest, r.Encode())
		}
	}
	delete(m.pulls, hash)
	m.seen.Delete(hash)
}

// onPulled takes the answer to a pull; false if it is none.
func (m *Manager) onPulled(p *peer, s *SignedBlock) bool {
	for hash, pl := range m.pulls {
		if o, asked := pl.open[p.id]; !asked || o.req != s.ReqIndex {
			continue
		}
		delete(pl.open, p.id)
		h, err := s.Header()
		if err != nil || h.Hash() != hash {
			pl.refused[p.id] = struct{}{}
			m.punish(p, Validation, fmt.Errorf("answer to the request for block %s holds another one", hash))
			m.pullNext(hash, pl)
			return true
		}
		m.endPull(hash, pl)
		payload := (&SignedBlock{Height: h.Number(), Raw: s.Raw}).Encode()
		// The seal may differ from the announced one: the header is checked again, cheaply if it is the same.
		m.check(&checkJob{peer: p, sealed: h, size: len(s.Raw), raw: s.Raw, payload: payload})
		return true
	}
	return false
}

func (m *Manager) pullRefused(p *peer, req uint64) {
	for hash, pl := range m.pulls {
		if o, asked := pl.open[p.id]; asked && o.req == req {
			m.pullFailed(hash, pl, p.id)
			return
		}
	}
}

func (m *Manager) retryPulls(id transport.PeerID) {
	for hash, pl := range m.pulls {
		if _, asked := pl.open[id]; asked {
			m.pullFailed(hash, pl, id)
		}
	}
}

func (m *Manager) pullFailed(hash common.Hash, pl *pull, id transport.PeerID) {
	delete(pl.open, id)
	pl.refused[id] = struct{}{}
	m.pullNext(hash, pl)
}

func (m *Manager) expirePulls(now time.Time) {
	for hash, pl := range m.pulls {
		rtt := time.Duration(0)
		for id, o := range pl.open {
			if p := m.peers[id]; p != nil {
				rtt = max(rtt, p.clock.RTT())
			}
			if now.Sub(o.at) >= max(m.cfg.RequestTimeout, 4*rtt) {
				m.metrics.timeout("pull")
				delete(pl.open, id)
				pl.refused[id] = struct{}{}
			}
		}
		size := min(uint64(pl.size), m.deps.Params.MaxBlockBytes)                              //nolint:gosec // a length
		patience := max(pullPatience, 4*rtt) + time.Duration(size)*time.Second/pullBytesPerSec //nolint:gosec // a few MiB
		if len(pl.open) > 0 && len(pl.open) < maxOpenPulls && now.Sub(pl.since) >= patience {
			m.pullMore(hash, pl)
		}
		m.pullNext(hash, pl)
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
