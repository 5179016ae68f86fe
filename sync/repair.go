package blocksync

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/transport"
	"go.uber.org/zap"
)

// repairKey names what is fetched again: an irreversible block, or its receipts.
type repairKey struct {
	height   uint64
	receipts bool
}

// limits are how many of a kind are fetched at the same time, and how many of these from one peer.
func (k repairKey) limits() (all, perPeer int) {
	if k.receipts {
		return maxReceiptRepairs, maxPeerReceipts
	}
	return maxRepairs, maxPeerRepairs
}

// repair fetches one corrupt record, or the receipts of one block, again.
type repair struct {
	peer  transport.PeerID // "" while nobody was asked
	req   uint64
	since time.Time // it was asked, or sent a part of the answer
	tried map[transport.PeerID]time.Time
	busy  bool // the answer is being checked and stored

	slow    transport.PeerID // asked before peer, and may still answer; "" if there is none
	slowReq uint64
	after   uint64 // height of a block that must be in its place before this one; 0: none

	received []byte // of receipts
	most     uint64 // bytes that the receipts can have
	total    uint64 // that the peer says they have; 0: nothing came yet
}

type repairJob struct {
	key  repairKey
	peer *peer
	raw  []byte
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

// startRepairs takes up what readers found damaged, and ends what is not wanted any more: receipts may be made by an execution, and
// blocks pruned.
func (m *Manager) startRepairs(now time.Time) {
	blocks, receipts := m.wantedRepairs()
	for k, r := range m.repairs {
		list := blocks
		if k.receipts {
			list = receipts
		}
		if _, wanted := slices.BinarySearch(list, k.height); !wanted && !r.busy {
			delete(m.repairs, k)
		}
	}
	for _, height := range blocks {
		m.startRepair(repairKey{height: height})
	}
	for _, height := range receipts {
		m.startRepair(repairKey{height: height, receipts: true})
	}
	m.expireRepairs(now)
}

// wantedRepairs lists what is to be fetched, lowest first.
func (m *Manager) wantedRepairs() (blocks, receipts []uint64) {
	if m.deps.Repairs != nil {
		blocks = m.deps.Repairs.Damaged()
		if m.deps.Receipts != nil {
			receipts = m.deps.Receipts.LostReceipts()
		}
	}
	return blocks, receipts
}

func (m *Manager) repairImpossible(k repairKey, cause error) {
	switch {
	case k.receipts:
		m.deps.Receipts.ReceiptsImpossible(k.height, cause)
	case m.deps.Repairs != nil:
		m.deps.Repairs.RepairImpossible(k.height, cause)
	}
}

// startRepair adds a repair. It counts against the limits only while a peer is asked: what nobody can send keeps nothing else waiting.
func (m *Manager) startRepair(k repairKey) {
	if m.repairs[k] != nil {
		return
	}
	if !k.receipts { // the store has told of receipts
		m.log.Warn("corrupt block is fetched again", zap.Uint64("height", k.height))
	}
	m.repairs[k] = &repair{tried: make(map[transport.PeerID]time.Time)}
}

// repairKind is a peer and a kind of repair.
type repairKind struct {
	peer     transport.PeerID
	receipts bool
}

// repairLoad counts the repairs under way: counted once for a look at all of them, of which there may be a thousand.
type repairLoad struct {
	open  map[bool]int // asked for or checked, by kind; true: receipts
	asked map[repairKind]int
}

// measureRepairs counts the repairs under way.
func (m *Manager) measureRepairs() *repairLoad {
	l := &repairLoad{open: make(map[bool]int), asked: make(map[repairKind]int)}
	for k, r := range m.repairs {
		l.add(k, r, 1)
	}
	return l
}

// add counts a repair, or with -1 takes it out.
func (l *repairLoad) add(k repairKey, r *repair, n int) {
	if r.peer != "" || r.busy {
		l.open[k.receipts] += n
	}
	if r.busy {
		return
	}
	for _, id := range []transport.PeerID{r.peer, r.slow} {
		if id != "" {
			l.asked[repairKind{id, k.receipts}] += n
		}
	}
}

// change changes a repair and keeps the count true.
func (l *repairLoad) change(k repairKey, r *repair, f func()) {
	l.add(k, r, -1)
	f()
	l.add(k, r, 1)
}

// repairSource is a peer that has what is wanted, may be asked by a certain time, and has no more than a number of
// such requests; nil: there is none.
func (m *Manager) repairSource(l *repairLoad, k repairKey, tried map[transport.PeerID]time.Time, by time.Time, asked int) *peer {
	for _, p := range m.peers {
		if !by.Before(tried[p.id]) && p.handshaken && !p.leaving && p.pos.LIB.Height >= k.height && p.pos.First <= k.height &&
			(!k.receipts || p.hello.Modes&ServeReceipts != 0) && l.asked[repairKind{p.id, k.receipts}] <= asked {
			return p
		}
	}
	return nil
}

// repairFrom asks a peer. If none can be asked soon, the readers who wait are told; the repair stays.
func (m *Manager) repairFrom(l *repairLoad, k repairKey, r *repair, now time.Time) {
	l.add(k, r, -1)
	defer func() { l.add(k, r, 1) }()
	r.peer, r.received, r.total = "", nil, 0
	all, perPeer := k.limits()
	if m.waitsForNeighbour(k, r) {
		return
	}
	if l.open[k.receipts] >= all {
		if m.repairSource(l, k, nil, now, maxRepairs) == nil {
			m.repairImpossible(k, errNoSource)
		}
		return
	}
	for {
		p := m.repairSource(l, k, r.tried, now, perPeer-1)
		if p == nil {
			break
		}
		r.tried[p.id] = now.Add(maxSourceBackoff)
		sent, err := m.askForRepair(p, k, r)
		switch {
		case err != nil:
			delete(r.tried, p.id) // it was not asked
			m.repairImpossible(k, err)
			return
		case sent:
			r.peer, r.since = p.id, now
			return
		}
		r.tried[p.id] = now.Add(repairRetry) // its lane is full
	}
	if m.repairSource(l, k, r.tried, now.Add(repairRetry), maxRepairs) == nil {
		m.repairImpossible(k, errNoSource)
	}
}

// askForRepair is false if the peer's lane is full; the error says that nobody can be asked yet.
func (m *Manager) askForRepair(p *peer, k repairKey, r *repair) (sent bool, err error) {
	r.req = m.nextReq()
	if k.receipts {
		h, err := m.deps.Blocks.HeaderByHeight(k.height)
		if err != nil { // a damaged block is noted, and comes first
			return false, err
		}
		r.most = block.MaxReceiptsBytes(h.Header)
		q := ReceiptsRequest{ReqIndex: r.req, Height: k.height, Hash: h.Hash()}
		return p.send(transport.LaneConsensus, TypeReceiptsRequest, q.Encode()), nil
	}
	s := SyncRequest{Start: k.height, End: k.height, ReqIndex: r.req}
	return p.send(transport.LaneConsensus, TypeSyncRequest, s.Encode()), nil
}

func (m *Manager) onRepairBlock(p *peer, s *SignedBlock) bool {
	for k, r := range m.repairs {
		if !k.receipts && !r.busy && r.asked(p.id, s.ReqIndex) {
			m.checkRepair(k, r, p, s.Raw)
			return true
		}
	}
	return false
}

// checkRepair has the worker check and store an answer.
func (m *Manager) checkRepair(k repairKey, r *repair, p *peer, raw []byte) {
	select {
	case m.fixes <- &repairJob{k, p, raw}:
		r.busy, r.received, r.slow = true, nil, ""
	default:
		r.peer = ""
	}
}

func (m *Manager) repairWorker() {
	for {
		select {
		case <-m.ctx.Done():
			return
		case j := <-m.fixes:
			invalid, err := m.storeRepair(j)
			m.post(func() { m.onRepaired(j, invalid, err) })
		}
	}
}

// storeRepair checks what a peer sent and stores it. invalid: the peer is at fault.
func (m *Manager) storeRepair(j *repairJob) (invalid bool, err error) {
	if j.key.receipts {
		err := m.deps.Receipts.PutProvenReceipts(j.key.height, j.raw)
		return errors.Is(err, block.ErrWrongReceipts), err
	}
	return m.storeBlock(j.key.height, j.raw)
}

// storeBlock checks a fetched block against the chain around it and stores it.
func (m *Manager) storeBlock(height uint64, raw []byte) (invalid bool, err error) {
	b, err := block.DecodeWhole(raw, 0)
	if err != nil {
		return true, err
	}
	if b.Number() != height {
		return true, wrongHeight(b.Number(), height)
	}
	want := m.deps.Driver.Status().LIB.Hash
	if height != m.deps.Driver.Status().LIB.Height {
		above, err := m.deps.Blocks.HeaderByHeight(height + 1)
		if err == nil {
			want = above.Parent()
		} else {
			want = b.Hash() // the next one is corrupt too: the store's index decides
		}
	}
	if b.Hash() != want {
		return true, fmt.Errorf("block %d is %s, the chain here has %s", height, b.Hash(), want)
	}
	if err := m.deps.CheckSeal(b.SealedHeader); err != nil { // the seal is not part of the hash
		return true, err
	}
	if err := m.deps.Blocks.Replace(height, b); err != nil {
		if order := new(block.ErrNeighbourFirst); errors.As(err, order) {
			_, _ = m.deps.Blocks.HeaderByHeight(order.First) // the store notes that it is damaged, and has it fetched
		}
		return false, err
	}
	for _, n := range []uint64{height - 1, height + 1} { // damage is seldom one block: the store notes the next ones
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
	r := m.repairs[j.key]
	if r == nil {
		return
	}
	r.busy = false
	if err == nil {
		if j.key.receipts {
			m.log.Debug("missing receipts are fetched", zap.Uint64("height", j.key.height), zap.String("peer", string(j.peer.id)))
			m.metrics.receiptsFetched()
		} else {
			m.log.Info("corrupt block is repaired", zap.Uint64("height", j.key.height), zap.String("peer", string(j.peer.id)))
			m.metrics.repaired()
		}
		delete(m.repairs, j.key)
		m.retryPostponed(time.Now())
		return
	}
	if order := new(block.ErrNeighbourFirst); errors.As(err, order) {
		r.peer, r.after = "", order.First
		m.repairImpossible(j.key, err)
		m.startRepairs(time.Now())
		return
	}
	m.log.Warn("what a peer sent does not repair the block", zap.Uint64("height", j.key.height), zap.Bool("receipts", j.key.receipts), zap.String("peer", string(j.peer.id)), zap.Error(err))
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
	for k, r := range m.repairs {
		if r.slow == p.id && r.slowReq == e.ReqIndex {
			r.slow = ""
			return
		}
		if r.peer == p.id && r.req == e.ReqIndex {
			if e.Code == CodeOverloaded {
				r.tried[p.id] = now.Add(repairRetry)
			}
			m.repairFrom(m.measureRepairs(), k, r, now)
			return
		}
	}
}

func (m *Manager) retryRepairs(id transport.PeerID) {
	l := m.measureRepairs()
	for k, r := range m.repairs {
		if r.slow == id {
			l.change(k, r, func() { r.slow = "" })
		}
		if r.peer == id && !r.busy {
			m.repairFrom(l, k, r, time.Now())
		}
	}
}

// expireRepairs asks for what nobody is asked for, and others for what a peer did not send in time.
func (m *Manager) expireRepairs(now time.Time) {
	l := m.measureRepairs()
	for k, r := range m.repairs {
		switch waited := now.Sub(r.since); {
		case r.busy:
		case r.peer == "" || waited >= m.cfg.RequestTimeout:
			l.change(k, r, func() { r.slow = "" })
			m.repairFrom(l, k, r, now)
		case !k.receipts && r.slow == "" && waited >= m.cfg.RequestTimeout/repairSlowShare:
			m.askBesides(l, k, r, now)
		}
	}
}

// askBesides asks one more peer for a block that the first one does not send soon: readers do not wait for one that is silent.
func (m *Manager) askBesides(l *repairLoad, k repairKey, r *repair, now time.Time) {
	_, perPeer := k.limits()
	p := m.repairSource(l, k, r.tried, now, perPeer-1)
	if p == nil {
		return
	}
	first, req := r.peer, r.req
	if sent, err := m.askForRepair(p, k, r); err != nil || !sent {
		r.req = req
		return
	}
	l.change(k, r, func() { r.slow, r.slowReq, r.peer = first, req, p.id })
	r.tried[p.id], r.since = now.Add(maxSourceBackoff), now
}

// asked reports whether an answer of a peer is to one of the requests for a block that may be answered.
func (r *repair) asked(id transport.PeerID, req uint64) bool {
	return r.peer == id && r.req == req || r.slow == id && r.slowReq == req
}

// waitsForNeighbour reports whether another block must be in its place before this one. In a run of such blocks the next lower one
// follows, down to this.
func (m *Manager) waitsForNeighbour(k repairKey, r *repair) bool {
	for r.after > 0 && m.repairs[repairKey{height: r.after}] == nil {
		if r.after <= k.height+1 {
			r.after = 0
		} else {
			r.after--
		}
	}
	return r.after > 0
}
