package blocksync

import (
	"errors"
	"fmt"
	"time"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/transport"
	"go.uber.org/zap"
)

// repair fetches one corrupt record again.
type repair struct {
	peer  transport.PeerID // "" while nobody was asked
	req   uint64
	since time.Time
	tried map[transport.PeerID]time.Time
	busy  bool // the answer is being checked and stored
}

type repairJob struct {
	height uint64
	peer   *peer
	raw    []byte
}

// errNoSource ends the waits of readers.
var errNoSource = errors.New("no connected peer can send it now")

// repairsWanted wakes the manager when a reader met damage; nil without an owner of repairs, which never wakes it.
func (m *Manager) repairsWanted() <-chan struct{} {
	if m.deps.Repairs == nil {
		return nil
	}
	return m.deps.Repairs.RepairsWanted()
}

// startRepairs takes up what readers found damaged, as far as there is room.
func (m *Manager) startRepairs(now time.Time) {
	if m.deps.Repairs != nil {
		for _, height := range m.deps.Repairs.Damaged() {
			if !m.startRepair(height) && m.repairSource(height, nil, now, maxRepairs) == nil {
				m.deps.Repairs.RepairImpossible(height, errNoSource)
			}
		}
	}
	m.expireRepairs(now)
}

// startRepair is false if there is no room.
func (m *Manager) startRepair(height uint64) bool {
	if m.repairs[height] != nil {
		return true
	}
	if len(m.repairs) >= maxRepairs {
		return false
	}
	m.log.Warn("corrupt block is fetched again", zap.Uint64("height", height))
	m.repairs[height] = &repair{tried: make(map[transport.PeerID]time.Time)}
	return true
}

// repairSource is a peer that has the block of a height, may be asked by a certain time, and has no more than a number of
// such requests; nil: there is none.
func (m *Manager) repairSource(height uint64, tried map[transport.PeerID]time.Time, by time.Time, asked int) *peer {
	for _, p := range m.peers {
		if !by.Before(tried[p.id]) && p.handshaken && !p.leaving && p.pos.LIB.Height >= height && p.pos.First <= height && m.repairsAsked(p.id) <= asked {
			return p
		}
	}
	return nil
}

// repairsAsked is how many repairs wait for an answer of a peer.
func (m *Manager) repairsAsked(id transport.PeerID) (n int) {
	for _, r := range m.repairs {
		if r.peer == id && !r.busy {
			n++
		}
	}
	return n
}

// repairFrom asks a peer. If none can be asked soon, the readers who wait are told; the repair stays.
func (m *Manager) repairFrom(height uint64, r *repair, now time.Time) {
	r.peer = ""
	for {
		p := m.repairSource(height, r.tried, now, maxPeerRepairs-1)
		if p == nil {
			break
		}
		r.tried[p.id] = now.Add(maxSourceBackoff)
		req := m.nextReq()
		s := SyncRequest{Start: height, End: height, ReqIndex: req}
		if p.send(transport.LaneConsensus, TypeSyncRequest, s.Encode()) {
			r.peer, r.req, r.since = p.id, req, now
			return
		}
		r.tried[p.id] = now.Add(repairRetry) // its lane is full
	}
	if m.repairSource(height, r.tried, now.Add(repairRetry), maxRepairs) == nil && m.deps.Repairs != nil {
		m.deps.Repairs.RepairImpossible(height, errNoSource)
	}
}

func (m *Manager) onRepairBlock(p *peer, s *SignedBlock) bool {
	for height, r := range m.repairs {
		if r.peer == p.id && r.req == s.ReqIndex && !r.busy {
			select {
			case m.fixes <- &repairJob{height, p, s.Raw}:
				r.busy = true
			default:
				r.peer = ""
			}
			return true
		}
	}
	return false
}

func (m *Manager) repairWorker() {
	for {
		select {
		case <-m.ctx.Done():
			return
		case j := <-m.fixes:
			invalid, err := m.fix(j)
			m.post(func() { m.onRepaired(j, invalid, err) })
		}
	}
}

// fix checks a fetched block against the chain around it and stores it.
func (m *Manager) fix(j *repairJob) (invalid bool, err error) {
	b, err := block.DecodeWhole(j.raw, 0)
	if err != nil {
		return true, err
	}
	if b.Number() != j.height {
		return true, wrongHeight(b.Number(), j.height)
	}
	want := m.deps.Driver.Status().LIB.Hash
	if j.height != m.deps.Driver.Status().LIB.Height {
		above, err := m.deps.Blocks.HeaderByHeight(j.height + 1)
		if err == nil {
			want = above.Parent()
		} else {
			want = b.Hash() // the next one is corrupt too: the store's index decides
		}
	}
	if b.Hash() != want {
		return true, fmt.Errorf("block %d is %s, the chain here has %s", j.height, b.Hash(), want)
	}
	if err := m.deps.CheckSeal(b.SealedHeader); err != nil { // the seal is not part of the hash
		return true, err
	}
	if err := m.deps.Blocks.Replace(j.height, b); err != nil {
		return false, err
	}
	for _, n := range []uint64{j.height - 1, j.height + 1} { // damage is seldom one block: the store notes the next ones
		if n >= m.deps.Blocks.FirstHeight() && n <= m.deps.Driver.Status().LIB.Height {
			_, _ = m.deps.Blocks.HeaderByHeight(n)
		}
	}
	return false, nil
}

// sealedByCoinbase checks that the account which the header names as producer sealed it in this domain.
func sealedByCoinbase(h *block.SealedHeader, d block.Domain) error {
	by, err := h.Signer(d)
	if err == nil && by != h.Header.Coinbase {
		err = fmt.Errorf("block %d is sealed by %s, its producer is %s", h.Number(), by, h.Header.Coinbase)
	}
	return err
}

func (m *Manager) onRepaired(j *repairJob, invalid bool, err error) {
	r := m.repairs[j.height]
	if r == nil {
		return
	}
	r.busy = false
	if err == nil {
		m.log.Info("corrupt block is repaired", zap.Uint64("height", j.height), zap.String("peer", string(j.peer.id)))
		m.metrics.repaired()
		delete(m.repairs, j.height)
		m.retryPostponed(time.Now())
		return
	}
	m.log.Warn("fetched block does not repair the record", zap.Uint64("height", j.height), zap.String("peer", string(j.peer.id)), zap.Error(err))
	r.peer = ""
	if invalid {
		m.punish(j.peer, Validation, err)
	} else { // another block has to be replaced before this one, say
		r.tried[j.peer.id] = time.Now().Add(repairRetry)
	}
	m.expireRepairs(time.Now())
}

// retryPostponed goes on after a repair: there is room for another, and a block whose neighbour had to be replaced first
// can be put in its place now.
func (m *Manager) retryPostponed(now time.Time) {
	for _, r := range m.repairs {
		for id, until := range r.tried {
			if r.peer == "" && !r.busy && !until.After(now.Add(repairRetry)) {
				delete(r.tried, id)
			}
		}
	}
	m.startRepairs(now)
}

// repairRefused goes on with another peer. One that only has too much to do is asked again soon.
func (m *Manager) repairRefused(p *peer, e *ErrorMessage, now time.Time) {
	for height, r := range m.repairs {
		if r.peer == p.id && r.req == e.ReqIndex {
			if e.Code == CodeOverloaded {
				r.tried[p.id] = now.Add(repairRetry)
			}
			m.repairFrom(height, r, now)
			return
		}
	}
}

func (m *Manager) retryRepairs(id transport.PeerID) {
	for height, r := range m.repairs {
		if r.peer == id && !r.busy {
			m.repairFrom(height, r, time.Now())
		}
	}
}

func (m *Manager) expireRepairs(now time.Time) {
	for height, r := range m.repairs {
		if !r.busy && (r.peer == "" || now.Sub(r.since) >= m.cfg.RequestTimeout) {
			m.repairFrom(height, r, now)
		}
	}
}
