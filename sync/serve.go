package blocksync

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/internal/pause"
	"github.com/bornode/bornode/transport"
	"github.com/ethereum/go-ethereum/common"
	"go.uber.org/zap"
)

// serveJob is one request of a peer, to be answered by the peer's server goroutine.
type serveJob struct {
	req  uint64
	step uint64
	// A range: the manager may move end up while it is served.
	start uint64
	end   atomic.Uint64
	// A branch or single blocks.
	blocks *IDs
	bodies map[common.Hash][]byte // of recent announcements
	txs    *IDs
	// The receipts of a block.
	receipts *ReceiptsRequest

	cancelled atomic.Bool
}

var (
	errCancelled = errors.New("request was cancelled")
	errServeWait = errors.New("the peer that asks waits no longer")
)

func (m *Manager) onSyncRequest(p *peer, s *SyncRequest) {
	if !p.handshaken || p.leaving {
		return
	}
	active := p.active[s.ReqIndex]
	if s.Start == 0 && s.End == 0 {
		if active != nil {
			active.cancelled.Store(true)
		}
		return
	}
	if s.End-s.Start >= maxServePerRequest {
		s.End = s.Start + maxServePerRequest - 1
	}
	if active != nil { // overlapping or adjoining: extend, never restart
		if end := active.end.Load(); active.isRange() && s.Start >= active.start && s.Start <= end+1 && s.End > end {
			active.end.Store(min(s.End, active.start+maxServePerRequest-1))
		}
		return
	}
	j := &serveJob{req: s.ReqIndex, step: s.StepID, start: s.Start}
	j.end.Store(s.End)
	m.serve(p, j)
}

func (m *Manager) onRequest(p *peer, r *Request) {
	if !p.handshaken || p.leaving {
		return
	}
	if r.Blocks.Mode == ModeNone && r.Transactions.Mode == ModeNone {
		if a := p.active[r.ReqIndex]; a != nil {
			a.cancelled.Store(true)
		}
		return
	}
	if p.active[r.ReqIndex] != nil {
		return
	}
	j := &serveJob{req: r.ReqIndex, step: r.StepID}
	if r.Blocks.Mode != ModeNone {
		j.blocks = &r.Blocks
		if r.Blocks.Mode == ModeNormal {
			j.bodies = make(map[common.Hash][]byte)
			for _, id := range r.Blocks.IDs {
				if raw := m.bodies.raw(id); raw != nil {
					j.bodies[id] = raw
				}
			}
		}
	}
	if r.Transactions.Mode != ModeNone && m.deps.Pool != nil {
		j.txs = &r.Transactions
	}
	m.serve(p, j)
}

func (j *serveJob) isRange() bool { return j.blocks == nil && j.txs == nil && j.receipts == nil }

func (m *Manager) serve(p *peer, j *serveJob) {
	queue := p.serve
	if j.isRange() {
		queue = p.ranges
	}
	select {
	case queue <- j:
		p.active[j.req] = j
	default:
		e := ErrorMessage{ReqIndex: j.req, Code: CodeOverloaded, Detail: "too many requests are waiting"}
		p.send(transport.LaneConsensus, TypeError, e.Encode())
	}
}

// server answers one peer's requests of one queue, in order, on the catch-up lane.
func (m *Manager) server(p *peer, queue <-chan *serveJob) {
	defer m.wg.Done()
	for {
		select {
		case <-p.ctx.Done():
			return
		case j := <-queue:
			err := m.answer(p, j)
			m.post(func() { delete(p.active, j.req) })
			if p.ctx.Err() != nil {
				return
			}
			if err != nil && !errors.Is(err, errCancelled) {
				m.log.Debug("answer ended early", zap.String("peer", string(p.id)), zap.Error(err))
			}
		}
	}
}

func (m *Manager) answer(p *peer, j *serveJob) error {
	switch {
	case j.isRange():
		return m.answerRange(p, j)
	case j.receipts != nil:
		return m.answerReceipts(p, j)
	case j.blocks != nil && j.blocks.Mode == ModeNormal:
		if err := m.answerIDs(p, j); err != nil {
			return err
		}
	case j.blocks != nil:
		if err := m.answerBranch(p, j); err != nil {
			return err
		}
	}
	if j.txs != nil {
		return m.answerTransactions(p, j)
	}
	return nil
}

func (m *Manager) refuseRequest(p *peer, j *serveJob, code ErrorCode, height uint64, detail string) error {
	e := ErrorMessage{ReqIndex: j.req, Code: code, Height: height, Detail: detail}
	return p.link.Send(p.ctx, transport.Message{Lane: transport.LaneCatchUp, Type: uint8(TypeError), Payload: e.Encode()})
}

// sendPaced sends one block of history within the rate limit.
func (m *Manager) sendPaced(p *peer, j *serveJob, payload []byte) error {
	if wait := m.limiter.Reserve(len(payload), time.Now()); wait > 0 && !pause.For(p.ctx, wait) {
		return p.ctx.Err()
	}
	return m.sendBlock(p, j, transport.LaneCatchUp, payload)
}

// sendBlock sends one block of an answer: what is reversible or just announced is live traffic and not limited.
func (m *Manager) sendBlock(p *peer, j *serveJob, lane transport.Lane, payload []byte) error {
	if j.cancelled.Load() {
		return errCancelled
	}
	if err := p.link.Send(p.ctx, transport.Message{Lane: lane, Type: uint8(TypeSignedBlock), Payload: payload}); err != nil {
		return err
	}
	p.counts.served.Add(1)
	p.counts.servedBytes.Add(uint64(len(payload)))
	m.metrics.served(len(payload))
	return nil
}

// answerRange sends stored records as they are: nothing is decoded.
func (m *Manager) answerRange(p *peer, j *serveJob) error {
	for at, waited := j.start, time.Duration(0); at <= j.end.Load(); {
		if first := m.deps.Blocks.FirstHeight(); at < first {
			return m.refuseRequest(p, j, CodePruned, first, fmt.Sprintf("blocks below %d are pruned", first))
		}
		lib, end := m.deps.Driver.Status().LIB.Height, j.end.Load()
		if at > lib {
			return m.refuseRequest(p, j, CodeBeyond, lib, fmt.Sprintf("last irreversible block is %d", lib))
		}
		var payloads [][]byte
		next := at
		// Who asks for one block may be mending its own copy: two nodes with the same damage would wait for each other.
		waits := j.start < end
		err := m.readRange(p, at, min(end, lib), waits, func(height uint64, raw []byte) error {
			if height != next {
				return fmt.Errorf("store gives height %d where %d was asked for", height, next)
			}
			s := SignedBlock{ReqIndex: j.req, StepID: j.step, Height: height, Remaining: end - height, Raw: raw}
			payloads = append(payloads, s.Encode()) // the one copy: raw is the store's
			next++
			return nil
		})
		for _, payload := range payloads {
			if err := m.sendPaced(p, j, payload); err != nil {
				return err
			}
		}
		switch {
		case err != nil:
			return m.unreadable(p, j, next, err)
		case next > at:
			at, waited = next, 0
		case j.cancelled.Load():
			return errCancelled
		case waited >= storeLag:
			return m.refuseRequest(p, j, CodeBeyond, at-1, fmt.Sprintf("blocks are stored up to %d", at-1))
		default: // the store follows the driver's LIB after an execution or an import
			if !pause.For(p.ctx, storeLagStep) {
				return p.ctx.Err()
			}
			waited += storeLagStep
		}
	}
	return nil
}

// readRange reads stored records for a peer, as far as they are whole. If it waits and the first one is damaged, it waits
// for the repair, but not so long that the asker takes this node for dead.
func (m *Manager) readRange(p *peer, from, to uint64, waits bool, fn func(height uint64, raw []byte) error) error {
	if !waits {
		return m.deps.Blocks.Range(from, to, serveWindowBytes, fn)
	}
	return m.readRepaired(p, func() error {
		given := false
		err := m.deps.Blocks.Range(from, to, serveWindowBytes, func(height uint64, raw []byte) error {
			given = true
			return fn(height, raw)
		})
		if _, damage := m.damagedHeight(err); given && damage {
			return nil // the next call meets it first
		}
		return err
	})
}

// readRepaired reads for a peer and waits for repairs.
func (m *Manager) readRepaired(p *peer, read func() error) error {
	if m.deps.Repairs == nil {
		return read()
	}
	ctx, cancel := context.WithTimeoutCause(p.ctx, m.cfg.RequestTimeout/serveWaitShare, errServeWait)
	defer cancel()
	return m.deps.Repairs.ReadRepaired(ctx, read)
}

// damagedHeight is which block an error of Blocks says is damaged.
func (m *Manager) damagedHeight(err error) (height uint64, ok bool) {
	if err == nil || m.deps.Corrupt == nil {
		return 0, false
	}
	return m.deps.Corrupt(err)
}

// unreadable tells the asker. The store has noted a damaged block, which is fetched again.
func (m *Manager) unreadable(p *peer, j *serveJob, at uint64, err error) error {
	if height, ok := m.damagedHeight(err); ok {
		at = height
	}
	m.log.Warn("stored block cannot be served", zap.Uint64("height", at), zap.Error(err))
	return m.refuseRequest(p, j, CodeCorrupt, at, "block cannot be read")
}

// answerIDs sends single blocks. The body of a block just announced goes on the lane of new blocks, so that no history
// is in front of it.
func (m *Manager) answerIDs(p *peer, j *serveJob) error {
	ids := j.blocks.IDs[:min(len(j.blocks.IDs), maxAnswerBlocks)]
	bytes := 0
	for i, id := range ids {
		lane, raw := transport.LaneCatchUp, j.bodies[id]
		var height uint64
		if raw == nil {
			var b *block.Block
			err := m.readRepaired(p, func() (err error) { b, err = m.deps.Blocks.Block(id); return err })
			if at, ok := m.damagedHeight(err); ok {
				return m.unreadable(p, j, at, err)
			}
			if err != nil {
				return m.refuseRequest(p, j, CodeGone, 0, "block is not known here")
			}
			raw, height = b.Encode(), b.Number()
		} else {
			delete(j.bodies, id) // once
			if h, err := headerOfBlock(raw); err == nil {
				height = h.Number()
			}
			lane = transport.LaneConsensus
		}
		if bytes += len(raw); i > 0 && bytes > maxAnswerBytes {
			return m.refuseRequest(p, j, CodeOverloaded, 0, "the rest is too much for one answer")
		}
		s := SignedBlock{ReqIndex: j.req, StepID: j.step, Height: height, Remaining: uint64(len(ids) - 1 - i), Raw: raw}
		payload := s.Encode()
		if len(payload) > transport.MaxMessageBytes(lane) {
			lane = transport.LaneCatchUp
		}
		if err := m.sendBlock(p, j, lane, payload); err != nil {
			return err
		}
	}
	return nil
}

// branch is what lies above the asker's newest block on our branch.
type branch struct {
	from, to uint64        // irreversible heights; empty if from > to
	above    []common.Hash // reversible, oldest first
}

// answerBranch sends the branch above the newest id that is on it, oldest first. It ends early at its bounds; the asker
// then asks again from there.
func (m *Manager) answerBranch(p *peer, j *serveJob) error {
	var br branch
	var code ErrorCode
	err := m.readRepaired(p, func() (err error) { br, code, err = m.branchAbove(j.blocks.IDs); return err })
	if height, ok := m.damagedHeight(err); ok {
		return m.unreadable(p, j, height, err)
	}
	if err != nil {
		return m.refuseRequest(p, j, code, m.deps.Driver.Status().LIB.Height, err.Error())
	}
	total := uint64(len(br.above))
	if br.to >= br.from {
		total += br.to - br.from + 1
	}
	if total == 0 {
		return m.refuseRequest(p, j, CodeNothing, 0, "nothing above the newest of the ids")
	}
	left, bytes := min(total, maxAnswerBlocks), 0
	ship := func(height uint64, raw []byte) error {
		left--
		if bytes += len(raw); bytes >= maxAnswerBytes {
			left = 0
		}
		s := SignedBlock{ReqIndex: j.req, StepID: j.step, Height: height, Remaining: left, Raw: raw}
		if height <= br.to {
			return m.sendPaced(p, j, s.Encode())
		}
		return m.sendBlock(p, j, transport.LaneCatchUp, s.Encode())
	}
	if first := m.deps.Blocks.FirstHeight(); br.from <= br.to && br.from < first {
		return m.refuseRequest(p, j, CodePruned, first, fmt.Sprintf("blocks below %d are pruned", first))
	}
	for at := br.from; at <= br.to && left > 0; {
		var raws [][]byte
		err := m.readRange(p, at, min(br.to, at+left-1), true, func(_ uint64, raw []byte) error {
			raws = append(raws, append([]byte(nil), raw...))
			return nil
		})
		if err != nil {
			return m.unreadable(p, j, at, err)
		}
		if len(raws) == 0 { // the store has not followed the driver's LIB yet
			return m.refuseRequest(p, j, CodeGone, 0, "the branch is being stored")
		}
		for _, raw := range raws {
			if left == 0 {
				return nil
			}
			if err := ship(at, raw); err != nil {
				return err
			}
			at++
		}
	}
	for _, hash := range br.above {
		if left == 0 {
			return nil
		}
		b, err := m.deps.Blocks.Block(hash)
		if err != nil { // a fork switch dropped it
			return m.refuseRequest(p, j, CodeGone, 0, "the branch has changed")
		}
		if err := ship(b.Number(), b.Encode()); err != nil {
			return err
		}
	}
	return nil
}

// branchAbove walks from our head down to the newest of ids, at most to where history belongs to sync_request.
func (m *Manager) branchAbove(ids []common.Hash) (branch, ErrorCode, error) {
	s := m.deps.Driver.Status()
	known := make(map[common.Hash]struct{}, len(ids))
	for _, id := range ids {
		known[id] = struct{}{}
	}
	br := branch{from: 1}
	at := s.Head.Hash
	for height := s.Head.Height; height > s.LIB.Height; height-- {
		if _, ok := known[at]; ok {
			break
		}
		h, err := m.deps.Blocks.Header(at)
		if err != nil {
			return br, CodeGone, fmt.Errorf("the branch has changed at height %d", height)
		}
		br.above = append(br.above, at)
		at = h.Parent()
	}
	for i, k := 0, len(br.above)-1; i < k; i, k = i+1, k-1 {
		br.above[i], br.above[k] = br.above[k], br.above[i]
	}
	if _, ok := known[at]; ok || at != s.LIB.Hash {
		return br, 0, nil
	}
	// None of the reversible part: the newest id among the irreversible blocks.
	for _, id := range ids {
		h, err := m.deps.Blocks.Header(id)
		if _, damage := m.damagedHeight(err); damage {
			return br, CodeCorrupt, err // it may be the newest on this branch
		}
		if err != nil || h.Number() > s.LIB.Height {
			continue
		}
		if have, ok := m.hashAt(h.Number()); !ok || have != id {
			continue
		}
		if s.LIB.Height-h.Number() > maxAnswerBlocks {
			return br, CodeTooFar, errors.New("the branch begins far below, use sync_request")
		}
		br.from, br.to = h.Number()+1, s.LIB.Height
		return br, 0, nil
	}
	return br, CodeUnknown, errors.New("none of the ids is on this branch")
}

func (m *Manager) answerTransactions(p *peer, j *serveJob) error {
	var want []common.Hash
	if j.txs.Mode == ModeNormal {
		want = j.txs.IDs
	} else {
		have := make(map[common.Hash]struct{}, len(j.txs.IDs))
		for _, id := range j.txs.IDs {
			have[id] = struct{}{}
		}
		for _, h := range m.deps.Pool.Pending() {
			if _, ok := have[h]; !ok {
				want = append(want, h)
			}
		}
	}
	var batch [][]byte
	size, total := 0, 0
	ship := func() error {
		if len(batch) == 0 {
			return nil
		}
		payload := encodePackedTransactions(batch)
		batch, size = nil, 0
		return p.link.Send(p.ctx, transport.Message{Lane: transport.LaneTransactions, Type: uint8(TypePackedTransactions), Payload: payload})
	}
	for _, h := range want {
		g, ok := newGossip(m.deps.Pool.Get(h))
		if !ok {
			continue
		}
		if total += len(g.enc); total > maxAnswerTxBytes || j.cancelled.Load() {
			break
		}
		if size+len(g.enc) > gossipBytes || len(batch) == maxTransactionsCount {
			if err := ship(); err != nil {
				return err
			}
		}
		batch, size = append(batch, g.enc), size+len(g.enc)
	}
	return ship()
}
