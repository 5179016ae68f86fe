package blocksync

import (
	"slices"
	"time"

	"github.com/bornode/bornode/transport"
)

// What the scheduler learns from answers: blocks, refusals, and time that passes without any.

// Receive takes a block of an answer.
func (s *scheduler) Receive(p transport.PeerID, req uint64, b rangeBlock, now time.Time) (receipt, *chunk) {
	i := slices.IndexFunc(s.chunks, func(c *chunk) bool { return c.state == chunkAsked && c.req == req && c.peer == p })
	if i < 0 {
		return receiptStale, nil
	}
	c := s.chunks[i]
	if b.height != c.next() || s.lim.blockBytes > 0 && len(b.raw) > s.lim.blockBytes {
		return receiptWrong, c
	}
	src := s.sources[p]
	src.progress, c.progress = now, now
	s.seen = min(s.seen+1, averageOver)
	lowest := !slices.ContainsFunc(s.chunks[:i], func(o *chunk) bool { return o.state <= chunkAsked })
	if !lowest && s.held+int64(len(b.raw)) > s.lim.runAheadBytes {
		s.cutShort(c, now) // without this block
		s.average += (float64(len(b.raw)) - s.average) / float64(s.seen)
		return receiptCut, c
	}
	c.raws, c.bytes = append(c.raws, b), c.bytes+int64(len(b.raw))
	s.held += int64(len(b.raw))
	src.waiting = max(0, src.waiting-s.average)
	s.average += (float64(len(b.raw)) - s.average) / float64(s.seen)
	if b.height < c.end {
		if c.bytes < 2*int64(s.lim.chunkBytes) {
			return receiptTaken, c
		}
		s.cutShort(c, now)
		return receiptCut, c
	}
	c.state = chunkComplete
	src.inFlight--
	s.measure(c, now)
	if src.inFlight == 0 {
		src.waiting = 0
	}
	return receiptChunk, c
}

// measure takes the rate of the chunk that a peer brought.
func (s *scheduler) measure(c *chunk, now time.Time) {
	src := s.sources[c.peer]
	src.failures = 0
	if took := now.Sub(src.busySince).Seconds(); took > 0 {
		r := float64(c.bytes) / took
		if src.rate == 0 {
			src.rate = r
		} else {
			src.rate += (r - src.rate) / 4
		}
	}
	src.busySince = now
}

// Fail notes that a peer cannot serve a request: its range is what it says now, less what it just refused. A refusal
// that brought no block is a failure with a back-off, whatever the peer says. It reports whether the request was live.
func (s *scheduler) Fail(p transport.PeerID, req uint64, code ErrorCode, height uint64, now time.Time) bool {
	src := s.sources[p]
	if src == nil {
		return false
	}
	i := slices.IndexFunc(s.chunks, func(c *chunk) bool { return c.state == chunkAsked && c.req == req && c.peer == p })
	if i < 0 {
		return false
	}
	c, wait := s.chunks[i], s.lim.timeout/8
	switch code {
	case CodePruned:
		src.first = max(src.first, height, c.next()+1)
	case CodeBeyond:
		if height >= c.end {
			height = c.next() - 1
		}
		src.last = min(src.last, height)
	case CodeCorrupt:
		// The chunk's tried set keeps this peer from being asked again; the rest of its history is fine.
	default:
		wait = s.lim.timeout
	}
	if len(c.raws) == 0 && code != CodeCorrupt {
		s.backOff(src, now, wait)
	}
	s.release(c, code == CodeCorrupt)
	return true
}

// Rewind names what is still missing of a live request, whose time counts from now on; it is to be sent again under the
// same number.
func (s *scheduler) Rewind(p transport.PeerID, req uint64, now time.Time) (assignment, bool) {
	i := slices.IndexFunc(s.chunks, func(c *chunk) bool { return c.state == chunkAsked && c.req == req && c.peer == p })
	if i < 0 {
		return assignment{}, false
	}
	c := s.chunks[i]
	c.progress = now
	return assignment{p, req, c.next(), c.end}, true
}

// Failures is how often in a row a peer was asked and brought nothing.
func (s *scheduler) Failures(p transport.PeerID) int {
	if src := s.sources[p]; src != nil {
		return src.failures
	}
	return 0
}

// Rest keeps a peer from being asked before a time.
func (s *scheduler) Rest(p transport.PeerID, until time.Time) {
	if src := s.sources[p]; src != nil && src.notBefore.Before(until) {
		src.notBefore = until
	}
}

func (s *scheduler) backOff(src *source, now time.Time, first time.Duration) {
	src.failures++
	src.notBefore = now.Add(min(maxSourceBackoff, first<<min(src.failures-1, 10)))
}

// Expire takes back the chunks that made no progress in time and returns the requests to cancel.
func (s *scheduler) Expire(now time.Time) []assignment {
	var out []assignment
	late := make(map[transport.PeerID]bool)
	for _, c := range slices.Clone(s.chunks) {
		if c.state != chunkAsked {
			continue
		}
		// A peer works on its requests in order, so one that waits behind another is not late; one that was passed
		// over is.
		src := s.sources[c.peer]
		since := c.progress
		if src.progress.After(since) && !s.passedOver(c) {
			since = src.progress
		}
		if now.Sub(since) < max(s.lim.timeout, 4*src.rtt) {
			continue
		}
		out = append(out, assignment{c.peer, c.req, c.next(), c.end})
		late[c.peer] = true
		if len(c.raws) > 0 {
			src.failures = 0
		}
		s.release(c, false)
	}
	for p := range late {
		s.backOff(s.sources[p], now, s.lim.timeout)
	}
	return out
}

// passedOver reports whether the peer already works on a later request than c's.
func (s *scheduler) passedOver(c *chunk) bool {
	return slices.ContainsFunc(s.chunks, func(o *chunk) bool {
		return o.peer == c.peer && o.req > c.req && len(o.raws) > 0
	})
}
