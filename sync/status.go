package blocksync

import (
	"cmp"
	"slices"
	"time"

	"github.com/bornode/bornode/transport"
	"github.com/ethereum/go-ethereum/common"
)

// syncProgress measures catching up.
type syncProgress struct {
	began      time.Time
	firstBlock time.Time
	inSync     time.Time
	startAt    uint64
	current    uint64
	bytes      uint64
	blocks     uint64
	lastStart  time.Time
	lastBytes  uint64
	started    bool
}

func (s *syncProgress) start(height uint64) {
	if !s.started {
		s.startAt, s.started = height, true
	}
	s.lastStart, s.lastBytes = time.Now(), s.bytes
}

func (s *syncProgress) received(n int, now time.Time) {
	if s.firstBlock.IsZero() {
		s.firstBlock = now
	}
	s.bytes += uint64(n) //nolint:gosec // a length
	s.blocks++
}

func (s *syncProgress) applied(height uint64) { s.current = max(s.current, height) }

func (s *syncProgress) arrived(now time.Time) {
	if s.inSync.IsZero() {
		s.inSync = now
	}
}

// SyncStatus says how far the node has come. Durations count from the start of Run; zero: not yet.
type SyncStatus struct {
	Mode       Mode
	State      State  // what is missing, as far as known: also while no peer can be asked for it
	Start      uint64 // height where catching up began
	Current    uint64 // head
	LIB        uint64
	Target     uint64 // highest head that a peer has told of
	Peers      int    // with an accepted handshake
	FirstBlock time.Duration
	InSync     time.Duration
	Bytes      uint64 // of blocks received for requests
	Blocks     uint64
	BytesPerS  float64 // since the running range sync began
}

// PeerInfo describes one peer. Counters count since its link came up.
type PeerInfo struct {
	ID          string
	Path        transport.Path
	Incoming    bool
	State       State // of the peer as seen from here
	Handshaken  bool
	Head, LIB   Ref
	First       uint64
	Justified   uint64
	Address     string
	Agent       string
	OS          string
	Account     common.Address
	Generation  uint64
	Linked      time.Time
	RTT         time.Duration
	ClockOffset time.Duration // the peer's own clock minus this machine's; 0 before the first exchange
	Rate        float64       // bytes per second of ranges it served us
	Damped      Damp          // relayed traffic it does not want now

	BlocksIn, BlocksOut, HeadersOut, VotesIn, VotesOut, TransactionsIn, TransactionsOut uint64
	Duplicates, Dropped, RangeBlocks, RangeBytes, Served, ServedBytes                   uint64
	PulledBlocks, PulledBytes                                                           uint64 // of RangeBlocks and RangeBytes: read from its window

	Transport transport.Stats
}

// query runs f on the manager's goroutine and waits; false if it does not run.
func (m *Manager) query(f func()) bool {
	select {
	case <-m.started:
	default:
		return false
	}
	ran := make(chan struct{})
	if !m.post(func() { f(); close(ran) }) {
		return false
	}
	select {
	case <-ran:
		return true
	case <-m.ctx.Done():
		return false
	}
}

// Peers lists the peers by id; nil while the manager does not run.
func (m *Manager) Peers() []PeerInfo {
	var out []PeerInfo
	if !m.query(func() {
		now := time.Now()
		local := m.position()
		infos := make([]PeerInfo, 0, len(m.peers))
		for _, p := range m.peers {
			infos = append(infos, m.info(p, local, now))
		}
		out = infos
	}) {
		return nil
	}
	slices.SortFunc(out, func(a, b PeerInfo) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

func (m *Manager) info(p *peer, local Position, now time.Time) PeerInfo {
	c := &p.counts
	i := PeerInfo{
		ID: string(p.id), Path: p.link.Path(), Incoming: p.link.Incoming(), Handshaken: p.handshaken,
		Head: p.pos.Head, LIB: p.pos.LIB, First: p.pos.First, Justified: p.pos.Justified, Generation: p.seenGen,
		Linked: p.linked, RTT: p.clock.RTT(), ClockOffset: p.clock.Offset(m.ownClock(), now),
		BlocksIn: c.blocksIn, BlocksOut: c.blocksOut, HeadersOut: c.headersOut, VotesIn: c.votesIn, VotesOut: c.votesOut,
		TransactionsIn: c.txsIn, TransactionsOut: c.txsOut, Duplicates: c.duplicates, Dropped: c.dropped,
		RangeBlocks: c.rangeBlocks, RangeBytes: c.rangeBytes, Served: c.served.Load(), ServedBytes: c.servedBytes.Load(),
		PulledBlocks: c.pulledBlocks, PulledBytes: c.pulledBytes,
		Transport: p.link.Stats(),
	}
	if now.Before(p.dampedUntil) {
		i.Damped = p.damped
	}
	if p.hello != nil {
		i.Address, i.Agent, i.OS, i.Account = p.hello.P2PAddress, p.hello.Agent, p.hello.OS, p.hello.Key
	}
	switch {
	case p.pos.Head.Height < local.LIB.Height:
		i.State = LIBCatchup
	case local.ahead(p.pos) && !near(local, p.pos, p.latency(), m.slot):
		i.State = HeadCatchup
	}
	if src := m.sched.sources[p.id]; src != nil {
		i.Rate = src.rate
	}
	return i
}

// Status says how far this node has come; before Run it is empty but for the mode.
func (m *Manager) Status() SyncStatus {
	out := SyncStatus{Mode: m.mode}
	var s SyncStatus
	if !m.query(func() { s = m.status(time.Now()) }) {
		return out
	}
	return s
}

// behind reports whether a peer's LIB is above our head, even while it is not asked: unless asking it was in vain again
// and again, or what is missing is on its way.
func (m *Manager) behind(p *peer, local Position) bool {
	return p.rangeTo() > local.Head.Height && !near(local, p.pos, p.latency(), m.slot) &&
		p.empty <= maxEmptyBelieved && m.sched.Failures(p.id) < claimFailures
}

func (m *Manager) status(now time.Time) SyncStatus {
	pos := m.position()
	g := &m.progress
	s := SyncStatus{
		Mode: m.mode, State: m.state, Start: g.startAt, Current: pos.Head.Height, LIB: pos.LIB.Height,
		Target: pos.Head.Height, Bytes: g.bytes, Blocks: g.blocks,
	}
	for _, p := range m.peers {
		if p.handshaken {
			s.Peers++
			s.Target = max(s.Target, p.pos.Head.Height)
			if m.behind(p, pos) {
				s.State = LIBCatchup
			}
		}
	}
	if s.State == InSync && s.Peers == 0 && now.Sub(m.headMoved) > aloneSlots*m.slot {
		s.State = HeadCatchup // cut off: the chain may well go on elsewhere
	}
	if !g.firstBlock.IsZero() {
		s.FirstBlock = g.firstBlock.Sub(g.began)
	}
	if !g.inSync.IsZero() {
		s.InSync = g.inSync.Sub(g.began)
	}
	if m.state == LIBCatchup {
		if d := now.Sub(g.lastStart).Seconds(); d > 0 {
			s.BytesPerS = float64(g.bytes-g.lastBytes) / d
		}
	}
	return s
}
