package blocksync

import (
	"maps"
	"slices"
	"time"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/transport"
	"github.com/ethereum/go-ethereum/common"
)

// schedulerLimits bound the chunk scheduler.
type schedulerLimits struct {
	chunkBytes     int
	chunkBlocks    uint64
	blockBytes     int // largest block allowed; 0: any
	runAheadBytes  int64
	runAheadBlocks uint64
	timeout        time.Duration
}

// source is a peer as the scheduler sees it.
type source struct {
	first, last uint64  // heights it can serve, as far as known
	rate        float64 // bytes per second, measured; 0: not yet
	rtt         time.Duration
	inFlight    int
	waiting     float64   // bytes asked for and not received
	busySince   time.Time // when it last went from idle to busy or finished a chunk
	progress    time.Time // when it went from idle to busy or last brought a block
	failures    int       // in a row
	notBefore   time.Time
}

type chunkState uint8

const (
	chunkWanted chunkState = iota
	chunkAsked
	chunkComplete // all bytes are here
	chunkReady    // decoded
	chunkTaken    // handed to the importer
)

// chunk is a run of heights that is asked of one peer at a time.
type chunk struct {
	start, end uint64 // both included
	state      chunkState
	peer       transport.PeerID // who was asked, or who delivered
	req        uint64
	raws       []rangeBlock // received, consecutive from start
	blocks     []*block.Block
	decoding   bool
	bytes      int64
	progress   time.Time                 // when it was asked or last brought a block
	tried      map[transport.PeerID]bool // who failed to deliver it; true: never ask again, false: only if nobody else can
}

func (c *chunk) next() uint64 { return c.start + uint64(len(c.raws)) }

// rangeBlock is a block of an answer, encoded.
type rangeBlock struct {
	height uint64
	hash   common.Hash // that it must have, by the index it was found in; zero: not told
	raw    []byte
}

// assignment is a sync_request to send.
type assignment struct {
	peer       transport.PeerID
	req        uint64
	start, end uint64
}

// receipt says what became of a received block.
type receipt uint8

const (
	receiptTaken receipt = iota
	receiptChunk         // taken; its chunk is complete
	receiptStale         // belongs to no live request: drop it
	receiptWrong         // not the height that was to come next, or too large: the peer breaks the protocol
	receiptCut           // the bounds are reached: the request is to be cancelled, its rest is wanted later
)

// scheduler decides which peer serves which chunk of the irreversible range (next .. target). It is pure: time comes in
// with each call. It keeps at least two chunks under way per peer, gives each peer work in proportion to its measured
// rate, never asks a peer twice for what it failed to deliver, and keeps what is asked or received but not applied
// within bounds counted from the applied head. The lowest missing chunk is exempt from the bounds, so they cannot
// dead-lock; it is cut at twice the size of a chunk, and while more than twice that size is held above the bound it
// waits for what is below it to be applied.
type scheduler struct {
	lim     schedulerLimits
	next    uint64 // lowest height that no chunk covers yet
	target  uint64
	applied uint64
	chunks  []*chunk // by start
	sources map[transport.PeerID]*source
	reqs    func() uint64
	held    int64   // bytes received and not applied, the importer's rest included
	average float64 // bytes of a block; a guess on the high side until the first ones are here
	seen    int     // blocks behind average, up to averageOver
}

// averageOver is how many blocks the average size of a block follows.
const averageOver = 64

func newScheduler(lim schedulerLimits, reqs func() uint64) *scheduler {
	return &scheduler{lim: lim, sources: make(map[transport.PeerID]*source), reqs: reqs, average: 64 << 10}
}

// Start begins a sync on top of applied. What was there before is forgotten.
func (s *scheduler) Start(applied, target uint64) {
	s.applied, s.next, s.target, s.held, s.chunks = applied, applied+1, target, 0, nil
	for _, src := range s.sources {
		src.inFlight, src.waiting = 0, 0
	}
}

// Extend moves the target up; it never restarts anything.
func (s *scheduler) Extend(target uint64) { s.target = max(s.target, target) }

// Source adds or updates a peer.
func (s *scheduler) Source(p transport.PeerID, first, last uint64, rtt time.Duration) {
	src := s.sources[p]
	if src == nil {
		src = &source{}
		s.sources[p] = src
	}
	src.first, src.last, src.rtt = first, last, rtt
}

// Remove forgets a peer; what it was asked for goes to others, with the blocks it already brought kept. Should it come
// back, it is asked like a new one: what it could not serve then it may have now.
func (s *scheduler) Remove(p transport.PeerID) {
	for _, c := range slices.Clone(s.chunks) {
		if c.state == chunkAsked && c.peer == p {
			s.release(c, false)
		}
	}
	for _, c := range s.chunks {
		delete(c.tried, p)
	}
	delete(s.sources, p)
}

// Discard throws away what a peer delivered and was not applied yet: it proved to be wrong. The heights are wanted
// again, from another peer.
func (s *scheduler) Discard(p transport.PeerID) {
	for _, c := range slices.Clone(s.chunks) {
		if c.peer != p || c.state == chunkWanted {
			continue
		}
		if c.state == chunkAsked {
			s.idle(c)
		}
		if c.state != chunkTaken { // the importer's part is settled by Redo
			s.empty(c, p)
		}
	}
}

// Redo wants again the heights from a bad block on that the importer had taken; bad is not asked for them.
func (s *scheduler) Redo(from uint64, bad transport.PeerID) {
	s.applied = min(s.applied, from-1)
	covered := s.next
	for _, c := range s.chunks {
		if c.state == chunkTaken {
			if c.end < from {
				c.bytes = 0 // in the tree by now
				continue
			}
			c.start = max(c.start, from)
			s.empty(c, bad)
		}
		if c.end >= from {
			covered = min(covered, c.start)
		}
	}
	s.chunks = slices.DeleteFunc(s.chunks, func(c *chunk) bool { return c.state == chunkTaken })
	if covered > from { // the importer held it as rest; its chunk is gone
		i := slices.IndexFunc(s.chunks, func(c *chunk) bool { return c.start >= covered })
		if i < 0 {
			i = len(s.chunks)
		}
		s.chunks = slices.Insert(s.chunks, i, &chunk{start: from, end: covered - 1, tried: map[transport.PeerID]bool{bad: true}})
	}
	s.recount(0)
}

func (s *scheduler) recount(rest int64) {
	s.held = rest
	for _, c := range s.chunks {
		s.held += c.bytes
	}
}

func (s *scheduler) empty(c *chunk, by transport.PeerID) {
	s.held -= c.bytes
	c.raws, c.blocks, c.decoding, c.bytes, c.state, c.peer = nil, nil, false, 0, chunkWanted, ""
	c.tried[by] = true
}

// release takes an asked chunk from its peer: the received part becomes a complete chunk of its own, the missing part
// is wanted from someone else.
func (s *scheduler) release(c *chunk, forGood bool) *chunk {
	s.idle(c)
	c.tried[c.peer] = c.tried[c.peer] || forGood
	if len(c.raws) == 0 {
		c.state, c.peer = chunkWanted, ""
		return c
	}
	rest := &chunk{start: c.next(), end: c.end, tried: c.tried}
	c.end, c.state, c.tried = c.next()-1, chunkComplete, map[transport.PeerID]bool{}
	i := slices.Index(s.chunks, c)
	s.chunks = slices.Insert(s.chunks, i+1, rest)
	return rest
}

// cutShort ends a request whose answer is larger than expected. That is not its peer's failure.
func (s *scheduler) cutShort(c *chunk, now time.Time) {
	p := c.peer
	_, failed := c.tried[p]
	s.measure(c, now)
	if rest := s.release(c, false); !failed {
		delete(rest.tried, p)
	}
}

// idle takes an asked chunk off its peer's account.
func (s *scheduler) idle(c *chunk) {
	if src := s.sources[c.peer]; src != nil {
		src.inFlight--
		src.waiting = max(0, src.waiting-float64(c.end-c.next()+1)*s.average)
		if src.inFlight == 0 {
			src.waiting = 0
		}
	}
}

// Assign hands out work. It is to be called whenever something changed.
func (s *scheduler) Assign(now time.Time) []assignment {
	var out []assignment
	if s.target == 0 || len(s.sources) == 0 {
		return nil
	}
	lowest := true // nothing below is missing
	for i := 0; ; i++ {
		if i == len(s.chunks) && !s.cut() {
			return out
		}
		c := s.chunks[i]
		if c.state != chunkWanted {
			lowest = lowest && c.state != chunkAsked
			continue
		}
		s.split(i)
		exempt := i == 0 || lowest && s.held <= s.lim.runAheadBytes+2*int64(s.lim.chunkBytes)
		if !exempt && !s.roomFor(c.end, c.end-c.start+1) {
			return out
		}
		lowest = false
		s.fit(i)
		p, src := s.pick(c, now)
		if src == nil {
			continue
		}
		if src.inFlight == 0 {
			src.busySince, src.progress = now, now
		}
		c.state, c.peer, c.req, c.progress = chunkAsked, p, s.reqs(), now
		src.inFlight++
		src.waiting += float64(c.end-c.start+1) * s.average
		out = append(out, assignment{p, c.req, c.start, c.end})
	}
}

// maxWanted bounds the chunks cut while nobody is free to serve them.
const maxWanted = 2

// cut makes the next chunk; false at the target, at the bounds, or while enough chunks wait for a peer.
func (s *scheduler) cut() bool {
	if s.next > s.target {
		return false
	}
	wanted := 0
	for _, c := range s.chunks {
		if c.state == chunkWanted {
			wanted++
		}
	}
	n := min(s.perChunk(), s.target-s.next+1)
	if wanted >= maxWanted || len(s.chunks) > 0 && !s.roomFor(s.next+n-1, n) {
		return false
	}
	s.chunks = append(s.chunks, &chunk{start: s.next, end: s.next + n - 1, tried: map[transport.PeerID]bool{}})
	s.next += n
	return true
}

// perChunk is how many blocks make a chunk, going by their average size.
func (s *scheduler) perChunk() uint64 {
	return max(1, min(uint64(float64(s.lim.chunkBytes)/max(s.average, 1)), s.lim.chunkBlocks))
}

// split makes a chunk of ordinary size of wanted chunk i if it is much larger by what is known now.
func (s *scheduler) split(i int) {
	c, n := s.chunks[i], s.perChunk()
	if c.end-c.start+1 <= 2*n {
		return
	}
	rest := &chunk{start: c.start + n, end: c.end, tried: maps.Clone(c.tried)}
	c.end = rest.start - 1
	s.chunks = slices.Insert(s.chunks, i+1, rest)
}

// fit splits wanted chunk i if no peer has the whole of it but one has its beginning.
func (s *scheduler) fit(i int) {
	c, best := s.chunks[i], uint64(0)
	for p, src := range s.sources {
		if src.first <= c.start && src.last >= c.start && !c.tried[p] {
			best = max(best, src.last)
		}
	}
	if best == 0 || best >= c.end {
		return
	}
	rest := &chunk{start: best + 1, end: c.end, tried: maps.Clone(c.tried)}
	c.end = best
	s.chunks = slices.Insert(s.chunks, i+1, rest)
}

// roomFor reports whether n more blocks up to height end stay within the run-ahead bounds.
func (s *scheduler) roomFor(end, n uint64) bool {
	if end > s.applied+s.lim.runAheadBlocks {
		return false
	}
	waiting := 0.0
	for _, src := range s.sources {
		waiting += src.waiting
	}
	return float64(s.held)+waiting+float64(n)*s.average <= float64(s.lim.runAheadBytes)
}

// pick chooses the source that would deliver the chunk first. One that failed to deliver it in time is asked again
// only if nobody else has it.
func (s *scheduler) pick(c *chunk, now time.Time) (transport.PeerID, *source) {
	var best *source
	var bestPeer transport.PeerID
	var bestETA float64
	fastest := 0.0
	others := false
	for p, src := range s.sources {
		fastest = max(fastest, src.rate)
		_, tried := c.tried[p]
		others = others || !tried && src.covers(c)
	}
	for p, src := range s.sources {
		never, tried := c.tried[p]
		if never || tried && others || !src.covers(c) || now.Before(src.notBefore) {
			continue
		}
		rate := src.rate
		if rate == 0 {
			rate = max(fastest, 1e6) // give an unmeasured peer a chance
		}
		if src.inFlight >= window(rate, fastest) {
			continue
		}
		eta := (src.waiting+float64(c.end-c.start+1)*s.average)/rate + src.rtt.Seconds()
		if best == nil || eta < bestETA || eta == bestETA && p < bestPeer {
			best, bestPeer, bestETA = src, p, eta
		}
	}
	return bestPeer, best
}

func (src *source) covers(c *chunk) bool { return src.first <= c.start && src.last >= c.end }

// window is how many chunks a peer may have under way: two for the slowest, more in proportion to its rate.
func window(rate, fastest float64) int {
	if fastest <= 0 {
		return minInFlightPerPeer
	}
	return min(maxInFlightPerPeer, max(minInFlightPerPeer, int(float64(maxInFlightPerPeer)/2*rate/fastest+0.5)))
}

// Undecoded lists complete chunks that nobody decodes yet, lowest first; the caller marks them with decoding.
func (s *scheduler) Undecoded() []*chunk {
	var out []*chunk
	for _, c := range s.chunks {
		if c.state == chunkComplete && !c.decoding {
			out = append(out, c)
		}
	}
	return out
}

// Decoded brings a chunk's blocks; false if the chunk is not waiting for them any more.
func (s *scheduler) Decoded(c *chunk, req uint64, blocks []*block.Block) bool {
	if c.state != chunkComplete || c.req != req || !c.decoding || !slices.Contains(s.chunks, c) {
		return false
	}
	c.state, c.blocks, c.raws = chunkReady, blocks, nil
	return true
}

// Take hands out the lowest chunk if it is decoded.
func (s *scheduler) Take() *chunk {
	for _, c := range s.chunks {
		switch c.state {
		case chunkTaken:
			continue
		case chunkReady:
			c.state = chunkTaken
			return c
		default:
			return nil
		}
	}
	return nil
}

// Applied notes how far the importer came: everything up to height is applied or kept by the importer as uncertified
// rest of restBytes.
func (s *scheduler) Applied(applied, taken uint64, restBytes int64) {
	s.applied = max(s.applied, applied)
	s.chunks = slices.DeleteFunc(s.chunks, func(c *chunk) bool { return c.state == chunkTaken && c.end <= taken })
	s.recount(restBytes)
}

// Done reports whether everything up to the target is applied or in the importer's hands.
func (s *scheduler) Done() bool { return s.next > s.target && len(s.chunks) == 0 }

// Stuck reports whether nothing is under way and nobody can be asked for the lowest missing chunk, now or after a
// back-off.
func (s *scheduler) Stuck() bool {
	if s.Done() {
		return false
	}
	start, tried := s.next, map[transport.PeerID]bool(nil)
	if len(s.chunks) > 0 {
		c := s.chunks[0]
		if c.state != chunkWanted {
			return false
		}
		start, tried = c.start, c.tried
	}
	for p, src := range s.sources {
		if !tried[p] && src.first <= start && src.last >= start {
			return false
		}
	}
	return true
}

// Stop ends the sync and returns the requests to cancel.
func (s *scheduler) Stop() []assignment {
	var out []assignment
	for _, c := range s.chunks {
		if c.state == chunkAsked {
			out = append(out, assignment{c.peer, c.req, c.next(), c.end})
		}
	}
	s.Start(s.applied, s.applied)
	return out
}
