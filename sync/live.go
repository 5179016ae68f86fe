package blocksync

import (
	"fmt"
	"time"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/internal/pause"
	"github.com/bornode/bornode/transport"
	"github.com/ethereum/go-ethereum/common"
	"go.uber.org/zap"
)

// seenBlock is how far a live block has come here.
type seenBlock uint8

const (
	seenChecking seenBlock = iota
	seenPulling            // header checked, body on its way
	seenAdding             // header checked, relayed
	seenAdded
)

// checkJob is a live block or announcement whose header is to be checked.
type checkJob struct {
	peer      *peer
	sealed    *block.SealedHeader
	size      int
	raw       []byte // nil: only announced
	payload   []byte // the message as it came, to be relayed as it is
	announced bool
	block     *block.Block // decoded once the header was checked
}

// addJob is a block for the tree.
type addJob struct {
	peer *peer
	raw  []byte
	b    *block.Block // nil: still to be decoded (answers)
	hash common.Hash  // zero: not known yet (answers)
	ask  *ask         // part of an answer to our request; nil: live
}

// onPush takes an unsolicited block. What is known is decided from its header; the body is not touched.
func (m *Manager) onPush(p *peer, s *SignedBlock, h *block.SealedHeader, payload []byte) {
	if !p.handshaken || p.leaving {
		return
	}
	hash := h.Hash()
	p.counts.blocksIn++
	p.knownBlocks.Add(hash, struct{}{})
	m.sawHead(p, h)
	if pl := m.pulls[hash]; pl != nil {
		m.endPull(hash, pl) // the body is here before the answer
	} else if m.seen.Has(hash) {
		m.duplicate(p)
		return
	}
	p.dupBlocks = 0
	m.check(&checkJob{peer: p, sealed: h, size: len(s.Raw), raw: s.Raw, payload: payload})
}

func (m *Manager) onAnnouncement(p *peer, a *BlockHeader) {
	if !p.handshaken || p.leaving {
		return
	}
	hash := a.Sealed.Hash()
	p.knownBlocks.Add(hash, struct{}{})
	m.sawHead(p, a.Sealed)
	if m.seen.Has(hash) || m.pulls[hash] != nil {
		return
	}
	m.check(&checkJob{peer: p, sealed: a.Sealed, size: int(a.Size), announced: true}) //nolint:gosec // bounded by the decoder
}

func (m *Manager) check(j *checkJob) {
	if m.state == LIBCatchup && j.sealed.Number() > m.deps.Driver.Status().Head.Height+1 {
		return // of no use before the ranges are in; its sender's position is noted
	}
	if m.versions.isBeyond(j.sealed) {
		m.metrics.dropped("block")
		m.blameForVersion(j.peer, j.sealed)
		return
	}
	if !m.checks.Put(j, len(j.raw)) {
		m.metrics.dropped("block")
		return
	}
	m.seen.Add(j.sealed.Hash(), seenChecking)
}

// sawHead raises a peer's position by a block it has.
func (m *Manager) sawHead(p *peer, h *block.SealedHeader) {
	if h.Number() > p.pos.Head.Height && h.Slot() > p.pos.Head.Slot {
		pos := p.pos
		pos.Head = RefOf(h)
		m.moved(p, pos, time.Now())
	}
}

func (m *Manager) checkWorker() {
	m.checks.Each(m.ctx, func(j *checkJob) {
		err := m.deps.Driver.CheckHeader(j.sealed)
		v := m.deps.verdict(err)
		if v == VerdictOK && j.raw != nil {
			if j.block, err = wholeBlock(j.raw); err != nil {
				v = VerdictInvalid
			}
		}
		m.post(func() { m.onChecked(j, v, err) })
	})
}

// wholeBlock decodes a block and checks that its body is the one its header names. Whoever relays a block has done
// this before, so the sender of one that fails is at fault itself; what only recovering the senders or executing the
// block can show is the fault of its producer alone.
func wholeBlock(raw []byte) (*block.Block, error) {
	return block.DecodeWhole(raw, 0)
}

func (m *Manager) onChecked(j *checkJob, v Verdict, err error) {
	hash := j.sealed.Hash()
	m.metrics.header(v)
	switch v {
	case VerdictOK:
		if !m.versions.countBlock(j.sealed) {
			m.seen.Delete(hash)
			m.metrics.dropped("block")
			m.blameForVersion(j.peer, j.sealed)
			return
		}
		if j.announced {
			m.seen.Update(hash, seenPulling)
			m.startPull(j)
			return
		}
		m.accept(hash, j)
	case VerdictKnown:
		m.seen.Update(hash, seenAdded)
	case VerdictUnknownParent:
		m.seen.Delete(hash)
		m.orphan(j)
	case VerdictInvalid:
		m.seen.Delete(hash)
		m.punish(j.peer, Validation, fmt.Errorf("block %d %s: %w", j.sealed.Number(), hash, err))
		m.fetchElsewhere(j.sealed, j.size)
	default:
		m.seen.Delete(hash)
	}
}

// accept relays a block whose header was checked and hands it to the adder.
func (m *Manager) accept(hash common.Hash, j *checkJob) {
	m.seen.Add(hash, seenAdding)
	m.relay(broadcast{hash: hash, payload: j.payload, sealed: j.sealed, from: j.peer.id}, len(j.raw))
	if !m.adds.Put(&addJob{peer: j.peer, raw: j.raw, b: j.block, hash: hash}, len(j.raw)) {
		m.seen.Delete(hash)
		m.metrics.dropped("block")
	}
}

func (m *Manager) onOwnBlock(b broadcast) {
	m.seen.Add(b.hash, seenAdded)
	m.relay(b, len(b.payload))
}

// relay sends a block to every peer not known to have it: in full if it is small, else by its header. A peer that gets
// such blocks faster elsewhere is sent the header of a relayed one; a block of our own is never held back.
func (m *Manager) relay(b broadcast, size int) {
	now := time.Now()
	lib := m.deps.Driver.Status().LIB
	large := size > m.cfg.PushBytes
	if large {
		m.bodies.add(b.hash, b.payload)
	}
	var header []byte
	for _, p := range m.peers {
		if p.id == b.from || p.knownBlocks.Has(b.hash) || !p.wants(lib) {
			continue
		}
		if large || b.from != "" && p.dampedNow(DampBlocks, now) {
			if header == nil {
				header = (&BlockHeader{Size: uint64(size), Sealed: b.sealed}).Encode() //nolint:gosec // a length
			}
			if !large {
				m.bodies.add(b.hash, b.payload)
			}
			if p.send(transport.LaneConsensus, TypeBlockHeader, header) {
				p.counts.headersOut++
				p.knownBlocks.Add(b.hash, struct{}{})
			}
			continue
		}
		if p.send(transport.LaneConsensus, TypeSignedBlock, b.payload) {
			p.counts.blocksOut++
			p.knownBlocks.Add(b.hash, struct{}{})
		}
	}
}

// duplicate notes a push that was of no use; after several in a row the peer is asked to announce instead.
func (m *Manager) duplicate(p *peer) {
	p.counts.duplicates++
	m.metrics.duplicate("block")
	if p.dupBlocks++; p.dupBlocks >= dampAfter {
		p.dupBlocks = 0
		m.damp(p, DampBlocks)
	}
}

func (m *Manager) damp(p *peer, d Damp) {
	now := time.Now()
	if now.After(p.weDampUntil) {
		p.weDamp = 0
	}
	if p.weDamp&d != 0 || len(m.peers) < 2 {
		return
	}
	p.weDamp |= d
	p.weDampUntil = now.Add(dampFor)
	n := Notice{SetDamp: true, Damp: p.weDamp}
	p.send(transport.LaneConsensus, TypeNotice, n.Encode())
}

// undamp takes every such wish back: a link is gone, and what was useless may be needed now.
func (m *Manager) undamp() {
	for _, p := range m.peers {
		if p.weDamp != 0 {
			p.weDamp, p.dupBlocks, p.dupVotes = 0, 0, 0
			n := Notice{SetDamp: true}
			p.send(transport.LaneConsensus, TypeNotice, n.Encode())
		}
	}
}

func (m *Manager) addWorker() {
	m.adds.Each(m.ctx, func(j *addJob) {
		b, err := j.b, error(nil)
		if b == nil {
			if b, err = wholeBlock(j.raw); err != nil {
				m.post(func() { m.onAdded(j, nil, VerdictInvalid, err) })
				return
			}
		}
		for {
			err = m.deps.Driver.AddBlock(m.ctx, b)
			if m.deps.verdict(err) != VerdictOverloaded || j.ask == nil {
				break
			}
			if !pause.For(m.ctx, 100*time.Millisecond) { // an answer keeps its order: wait here, the queue is bounded
				return
			}
		}
		m.post(func() { m.onAdded(j, b.SealedHeader, m.deps.verdict(err), err) })
	})
}

func (m *Manager) onAdded(j *addJob, h *block.SealedHeader, v Verdict, err error) {
	hash := j.hash
	if h != nil {
		hash = h.Hash()
	}
	m.metrics.block(v)
	switch v {
	case VerdictOK, VerdictKnown:
		m.seen.Add(hash, seenAdded)
		j.peer.knownBlocks.Add(hash, struct{}{})
		if v == VerdictOK {
			if j.ask != nil && !m.versions.countBlock(h) {
				m.blameForVersion(j.peer, h) // it is in: something rests on it
			}
			j.peer.unlinked = 0
			m.orphans.linked(m, hash)
		}
	case VerdictInvalid:
		if j.ask != nil {
			m.seen.Delete(hash) // perhaps only the seal was bad, which the hash does not cover: another copy may be good
		} else {
			m.seen.Add(hash, seenAdded) // no other copy is better: seal, record and body were checked
		}
		m.log.Warn("invalid block", zap.Stringer("hash", hash), zap.String("peer", string(j.peer.id)), zap.Error(err))
		if j.ask != nil || h != nil && j.peer.signsFor(h.Header.Coinbase) {
			m.punish(j.peer, Validation, fmt.Errorf("block %s: %w", hash, err))
		}
	case VerdictUnknownParent:
		m.seen.Delete(hash)
		if h != nil && j.ask == nil {
			m.orphan(&checkJob{peer: j.peer, sealed: h, size: len(j.raw), raw: j.raw, payload: (&SignedBlock{Height: h.Number(), Raw: j.raw}).Encode()})
		}
	default:
		m.seen.Delete(hash)
		if v == VerdictOverloaded {
			m.log.Warn("block was not taken for now", zap.Stringer("hash", hash), zap.Error(err))
		}
	}
	if j.ask != nil {
		m.askAdded(j.ask, v)
	}
}
