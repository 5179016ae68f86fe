package blocksync

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/bornode/bornode/transport"
	"github.com/stretchr/testify/require"
)

// schedTest drives a scheduler by hand.
type schedTest struct {
	*scheduler
	t   *testing.T
	now time.Time
}

func newSchedTest(t *testing.T, lim schedulerLimits) *schedTest {
	if lim.chunkBytes == 0 {
		lim.chunkBytes = 1 << 30
	}
	if lim.chunkBlocks == 0 {
		lim.chunkBlocks = 10
	}
	if lim.runAheadBytes == 0 {
		lim.runAheadBytes = 1 << 40
	}
	if lim.runAheadBlocks == 0 {
		lim.runAheadBlocks = 1 << 40
	}
	if lim.timeout == 0 {
		lim.timeout = 5 * time.Second
	}
	req := uint64(0)
	return &schedTest{newScheduler(lim, func() uint64 { req++; return req }), t, time.Unix(1000, 0)}
}

func (s *schedTest) Receive(p transport.PeerID, req, height uint64, raw []byte, now time.Time) (receipt, *chunk) {
	return s.scheduler.Receive(p, req, rangeBlock{height: height, raw: raw}, now)
}

func (s *schedTest) source(id string, first, last uint64) {
	s.Source(transport.PeerID(id), first, last, 0)
}

func (s *schedTest) assign() []assignment { return s.Assign(s.now) }

// deliver brings blocks of an assignment: all if n is 0.
func (s *schedTest) deliver(a assignment, n uint64) receipt {
	last := receiptStale
	end := a.end
	if n > 0 {
		end = a.start + n - 1
	}
	for h := a.start; h <= end; h++ {
		last, _ = s.Receive(a.peer, a.req, h, make([]byte, 100), s.now)
	}
	return last
}

// apply decodes and applies all that can be.
func (s *schedTest) apply() uint64 {
	for _, c := range s.Undecoded() {
		c.decoding = true
		require.True(s.t, s.Decoded(c, c.req, nil))
	}
	for c := s.Take(); c != nil; c = s.Take() {
		require.Equal(s.t, s.scheduler.applied+1, c.start, "chunks come in order")
		s.Applied(c.end, c.end, 0)
	}
	return s.scheduler.applied
}

func TestSchedulerKeepsSeveralChunksUnderWay(t *testing.T) {
	s := newSchedTest(t, schedulerLimits{})
	s.source("a", 0, 1000)
	s.source("b", 0, 1000)
	s.Start(0, 1000)
	got := map[transport.PeerID]int{}
	next := uint64(1)
	for _, a := range s.assign() {
		require.Equal(t, next, a.start)
		next = a.end + 1
		got[a.peer]++
	}
	require.Equal(t, map[transport.PeerID]int{"a": 2, "b": 2}, got)
}

func TestSchedulerGivesWorkInProportionToRate(t *testing.T) {
	s := newSchedTest(t, schedulerLimits{})
	s.source("fast", 0, 1e6)
	s.source("slow", 0, 1e6)
	s.Start(0, 100000)
	done := map[transport.PeerID]int{}
	var queue [2][]assignment
	take := func(as []assignment) {
		for _, a := range as {
			i := 0
			if a.peer == "slow" {
				i = 1
			}
			queue[i] = append(queue[i], a)
		}
	}
	take(s.assign())
	for tick := range 1200 { // fast delivers a chunk every 100 ms, slow every 400 ms
		s.now = s.now.Add(100 * time.Millisecond)
		for i, every := range []int{1, 4} {
			if (tick+1)%every == 0 && len(queue[i]) > 0 {
				require.Equal(t, receiptChunk, s.deliver(queue[i][0], 0))
				done[queue[i][0].peer]++
				queue[i] = queue[i][1:]
			}
		}
		s.apply()
		take(s.assign())
	}
	ratio := float64(done["fast"]) / float64(done["slow"])
	require.InDelta(t, 4, ratio, 0.5, "%v", done)
}

func TestSchedulerBoundsRunAheadByApplied(t *testing.T) {
	s := newSchedTest(t, schedulerLimits{runAheadBlocks: 35})
	for i := range 8 {
		s.source(fmt.Sprint(i), 0, 1000)
	}
	s.Start(0, 1000)
	as := s.assign()
	require.Len(t, as, 3, "30 blocks, the next chunk would pass height 35")
	for _, a := range as[1:] {
		s.deliver(a, 0)
	}
	require.Empty(t, s.assign(), "the applied head has not moved")
	s.deliver(as[0], 0)
	require.EqualValues(t, 30, s.apply())
	require.Len(t, s.assign(), 3)
}

func TestSchedulerByteBoundCannotDeadlock(t *testing.T) {
	s := newSchedTest(t, schedulerLimits{runAheadBytes: 1})
	s.source("a", 0, 1000)
	s.source("b", 0, 1000)
	s.Start(0, 100)
	for s.scheduler.applied < 100 {
		as := s.assign()
		require.Len(t, as, 1, "over its bound only the lowest chunk is asked for")
		s.deliver(as[0], 3)
		s.Remove(as[0].peer) // it leaves in the middle
		s.source(string(as[0].peer), 0, 1000)
		as = s.assign()
		require.Len(t, as, 1)
		s.deliver(as[0], 0)
		s.apply()
	}
	require.True(t, s.Done())
}

func TestSchedulerTimeoutReassignsWithProgress(t *testing.T) { // case 8
	s := newSchedTest(t, schedulerLimits{})
	s.source("a", 0, 10)
	s.Start(0, 10)
	as := s.assign()
	require.Equal(t, []assignment{{"a", 1, 1, 10}}, as)
	s.now = s.now.Add(4 * time.Second)
	require.Equal(t, receiptTaken, s.deliver(as[0], 4))
	s.now = s.now.Add(4 * time.Second)
	require.Empty(t, s.Expire(s.now), "it made progress")
	s.source("b", 0, 10)
	s.now = s.now.Add(2 * time.Second)
	require.Equal(t, []assignment{{"a", 1, 5, 10}}, s.Expire(s.now), "the rest is cancelled")
	as = s.assign()
	require.Equal(t, []assignment{{"b", 2, 5, 10}}, as, "what came is kept")
	require.Equal(t, receiptStale, s.deliver(assignment{"a", 1, 5, 10}, 1), "late blocks are dropped")
	require.Equal(t, receiptChunk, s.deliver(as[0], 0))
	require.EqualValues(t, 10, s.apply())
}

func TestSchedulerAsksALonePeerAgainAfterBackOff(t *testing.T) { // case 7
	s := newSchedTest(t, schedulerLimits{})
	s.source("a", 0, 10)
	s.Start(0, 10)
	require.Len(t, s.assign(), 1)
	s.now = s.now.Add(6 * time.Second)
	require.Len(t, s.Expire(s.now), 1)
	require.Empty(t, s.assign())
	require.False(t, s.Stuck())
	s.now = s.now.Add(6 * time.Second)
	require.Len(t, s.assign(), 1)
}

func TestSchedulerWaitsForASecondRequestInOrder(t *testing.T) {
	s := newSchedTest(t, schedulerLimits{})
	s.source("a", 0, 20)
	s.Start(0, 20)
	as := s.assign()
	require.Len(t, as, 2)
	for range 9 {
		s.now = s.now.Add(4 * time.Second)
		s.Receive("a", 1, s.chunks[0].next(), make([]byte, 1), s.now)
		require.Empty(t, s.Expire(s.now), "the second request waits behind the first")
	}
	// A peer that skips the first request while it works on the second is late with the first.
	s = newSchedTest(t, schedulerLimits{})
	s.source("a", 0, 20)
	s.Start(0, 20)
	as = s.assign()
	for range 3 {
		s.now = s.now.Add(2 * time.Second)
		s.Receive("a", 2, s.chunks[1].next(), make([]byte, 1), s.now)
	}
	late := s.Expire(s.now)
	require.Len(t, late, 1)
	require.EqualValues(t, as[0].req, late[0].req)
}

func TestSchedulerAvoidsPrunedAndShortPeers(t *testing.T) { // case 9
	s := newSchedTest(t, schedulerLimits{})
	s.source("pruned", 0, 100)
	s.source("short", 0, 100)
	s.source("whole", 0, 100)
	s.Start(0, 100)
	wanted := map[transport.PeerID][]assignment{}
	for _, a := range s.assign() {
		wanted[a.peer] = append(wanted[a.peer], a)
	}
	require.Len(t, wanted, 3)
	require.True(t, s.Fail("pruned", wanted["pruned"][0].req, CodePruned, 60, s.now))
	require.True(t, s.Fail("short", wanted["short"][0].req, CodeBeyond, 25, s.now))
	require.False(t, s.Fail("short", wanted["short"][0].req, CodeBeyond, 25, s.now), "only once")
	for range 200 {
		for _, a := range s.assign() {
			wanted[a.peer] = append(wanted[a.peer], a)
			if a.peer == "pruned" {
				require.GreaterOrEqual(t, a.start, uint64(60))
			}
			if a.peer == "short" {
				require.LessOrEqual(t, a.end, uint64(25))
			}
		}
		for p, as := range wanted {
			for _, a := range as {
				s.deliver(a, 0)
			}
			wanted[p] = nil
		}
		s.apply()
	}
	require.True(t, s.Done())
}

func TestSchedulerFitsChunksToWhatPeersHave(t *testing.T) {
	s := newSchedTest(t, schedulerLimits{})
	s.source("low", 0, 13)
	s.source("high", 14, 100)
	s.Start(0, 30)
	for range 10 {
		for _, a := range s.assign() {
			require.True(t, a.peer == "low" && a.end <= 13 || a.peer == "high" && a.start >= 14, a)
			s.deliver(a, 0)
		}
		s.apply()
	}
	require.True(t, s.Done())
}

func TestSchedulerBadBlock(t *testing.T) { // case 2
	s := newSchedTest(t, schedulerLimits{})
	s.source("bad", 0, 10)
	s.Start(0, 20)
	as := s.assign()
	s.deliver(as[0], 0)
	for _, c := range s.Undecoded() {
		c.decoding = true
		s.Decoded(c, c.req, nil)
	}
	require.NotNil(t, s.Take())
	// Block 4 is bad: 1 to 3 were entered.
	s.Applied(0, 3, 0)
	s.Discard("bad")
	s.Redo(4, "bad")
	require.Empty(t, s.assign(), "the same peer is not asked for it again")
	s.now = s.now.Add(time.Hour)
	require.Empty(t, s.assign())
	require.True(t, s.Stuck())
	s.source("good", 0, 20)
	as = s.assign()
	require.EqualValues(t, 4, as[0].start)
	require.EqualValues(t, "good", as[0].peer)
}

func TestSchedulerRedoOfWhatTheImporterHolds(t *testing.T) {
	s := newSchedTest(t, schedulerLimits{})
	s.source("a", 0, 30)
	s.Start(0, 30)
	for range 2 {
		for _, a := range s.assign() {
			s.deliver(a, 0)
		}
	}
	for _, c := range s.Undecoded() {
		c.decoding = true
		s.Decoded(c, c.req, nil)
	}
	c := s.Take()
	s.Applied(0, c.end, 1000) // taken as uncertified rest
	require.NotNil(t, s.Take())
	s.Redo(6, "gone")
	as := s.assign()
	require.NotEmpty(t, as)
	require.EqualValues(t, 6, as[0].start)
	require.EqualValues(t, 10, as[0].end)
	covered := uint64(5)
	for _, c := range s.chunks {
		require.Equal(t, covered+1, c.start, "no gap, no overlap")
		covered = c.end
	}
}

func TestSchedulerExtendsAndNeverRestarts(t *testing.T) { // case 11
	s := newSchedTest(t, schedulerLimits{})
	s.source("a", 0, 100)
	s.Start(0, 10)
	require.Len(t, s.assign(), 1)
	s.Extend(25)
	as := s.assign()
	require.Len(t, as, 1)
	require.EqualValues(t, 11, as[0].start, "what is under way is not asked for again")
	s.Extend(5)
	require.EqualValues(t, 25, s.target)
}

func TestSchedulerRewindsARequest(t *testing.T) {
	s := newSchedTest(t, schedulerLimits{})
	s.source("a", 0, 10)
	s.Start(0, 10)
	a := s.assign()[0]
	s.deliver(a, 4)
	s.now = s.now.Add(4 * time.Second)
	_, live := s.Rewind("b", a.req, s.now)
	require.False(t, live)
	rest, live := s.Rewind("a", a.req, s.now)
	require.True(t, live)
	require.Equal(t, assignment{"a", a.req, 5, 10}, rest)
	s.now = s.now.Add(4 * time.Second)
	require.Empty(t, s.Expire(s.now), "it has begun anew")
	require.Equal(t, receiptChunk, s.deliver(rest, 0))
	_, live = s.Rewind("a", a.req, s.now)
	require.False(t, live)
}

// TestDecodeChecksTheIndex: a block must be the one that the index said it is.
func TestDecodeChecksTheIndex(t *testing.T) {
	chain := newChain(2, chainShape{})
	j := &decodeJob{start: 1, raws: []rangeBlock{{1, chain[1].Hash(), chain[1].Encode()}, {2, chain[2].Hash(), chain[2].Encode()}}}
	_, _, err := decodeChunk(j)
	require.NoError(t, err)
	j.raws[1].hash[0]++
	_, height, err := decodeChunk(j)
	require.ErrorContains(t, err, "the index it was found in says")
	require.EqualValues(t, 2, height)
}

// TestSchedulerRandom lets peers come, go, fail, stall and deliver in any order: in the end everything was delivered
// exactly once and in order, and the bounds held throughout.
func TestSchedulerRandom(t *testing.T) {
	seeds := uint64(20)
	if os.Getenv("BORNODE_LONG") != "" {
		seeds = 1000
	}
	for seed := range seeds {
		r := rand.New(rand.NewPCG(seed, 1))
		const target = 500
		s := newSchedTest(t, schedulerLimits{chunkBlocks: 1 + r.Uint64N(20), runAheadBlocks: 100, runAheadBytes: 1 << 20})
		s.source("archive", 0, target)
		s.Start(0, target)
		type live struct {
			a    assignment
			next uint64
		}
		var open []*live
		for step := 0; !s.Done(); step++ {
			require.Less(t, step, 200000, "seed %d: no end", seed)
			for _, a := range s.assign() {
				open = append(open, &live{a, a.start})
				require.LessOrEqual(t, a.end, uint64(target))
			}
			s.now = s.now.Add(time.Duration(r.IntN(100)) * time.Millisecond)
			id := fmt.Sprint("p", r.IntN(4))
			switch k := r.IntN(100); {
			case k < 3:
				s.source(id, r.Uint64N(target), target)
			case k < 6:
				s.Remove(transport.PeerID(id))
			case k < 7:
				s.Discard(transport.PeerID(id))
			case k < 10 && len(open) > 0:
				l := open[r.IntN(len(open))]
				s.Fail(l.a.peer, l.a.req, ErrorCode(1+r.IntN(8)), l.a.start, s.now)
				if l.a.peer == "archive" {
					s.Remove("archive")
					s.source("archive", 0, target)
				}
			case k < 12:
				s.now = s.now.Add(10 * time.Second)
				s.Expire(s.now)
			case k < 15 && s.scheduler.applied < target && r.IntN(4) == 0:
				s.Redo(s.scheduler.applied+1, "nobody")
			default:
				if len(open) > 0 {
					i := r.IntN(len(open))
					l := open[i]
					got, _ := s.Receive(l.a.peer, l.a.req, l.next, make([]byte, 100), s.now)
					if got == receiptTaken {
						l.next++
					} else {
						open = append(open[:i], open[i+1:]...)
					}
				}
			}
			s.apply()
			if s.Stuck() { // every peer has failed for good: the manager begins anew after a pause
				s.Start(s.scheduler.applied, target)
			}
			covered := s.scheduler.applied
			for _, c := range s.chunks {
				require.Equal(t, covered+1, c.start, "seed %d: no gap, no overlap", seed)
				covered = c.end
			}
			require.Equal(t, s.next-1, covered)
			require.GreaterOrEqual(t, s.held, int64(0))
		}
		require.EqualValues(t, target, s.scheduler.applied)
	}
}

// held is what a peer can make us hold: huge blocks after tiny ones.
func TestSchedulerBoundsBytesWhateverTheBlocks(t *testing.T) {
	lim := schedulerLimits{chunkBytes: 4 << 20, chunkBlocks: 2048, runAheadBytes: 128 << 20, runAheadBlocks: 32768, blockBytes: 8 << 20}
	s := newSchedTest(t, lim)
	const target = 3000
	for i := range 4 {
		s.source(fmt.Sprint(i), 1, target)
	}
	s.Start(0, target)
	tiny, big := make([]byte, 100), make([]byte, 4<<20)
	bound := lim.runAheadBytes + 4*int64(lim.chunkBytes) + int64(len(big))
	for rounds := 0; !s.Done(); rounds++ {
		require.Less(t, rounds, 3000, "it goes on")
		as := s.assign()
		for i := len(as) - 1; i >= 0; i-- { // the lowest comes last
			for h := as[i].start; h <= as[i].end; h++ {
				raw := tiny
				if h > 1000 {
					raw = big
				}
				got, _ := s.Receive(as[i].peer, as[i].req, h, raw, s.now)
				require.NotEqual(t, receiptWrong, got)
				require.LessOrEqual(t, s.held, bound)
				if got != receiptTaken {
					break
				}
			}
		}
		if rounds%3 == 0 {
			s.apply()
		}
	}
	require.EqualValues(t, target, s.scheduler.applied)
	require.Zero(t, s.held)
}

func TestSchedulerRefusesBlocksThatAreTooLarge(t *testing.T) {
	s := newSchedTest(t, schedulerLimits{blockBytes: 1000})
	s.source("a", 0, 100)
	s.Start(0, 100)
	a := s.assign()[0]
	got, _ := s.Receive("a", a.req, 1, make([]byte, 1000), s.now)
	require.Equal(t, receiptTaken, got)
	got, _ = s.Receive("a", a.req, 2, make([]byte, 1001), s.now)
	require.Equal(t, receiptWrong, got)
}

func TestSchedulerCutsALargeAnswer(t *testing.T) {
	s := newSchedTest(t, schedulerLimits{chunkBytes: 10000, chunkBlocks: 1000})
	s.average = 10
	s.source("a", 0, 1000)
	s.Start(0, 1000)
	a := s.assign()[0]
	require.EqualValues(t, 1000, a.end)
	for h := uint64(1); h < 4; h++ {
		got, _ := s.Receive("a", a.req, h, make([]byte, 5000), s.now)
		require.Equal(t, receiptTaken, got)
	}
	got, _ := s.Receive("a", a.req, 4, make([]byte, 5000), s.now)
	require.Equal(t, receiptCut, got)
	got, _ = s.Receive("a", a.req, 5, make([]byte, 5000), s.now)
	require.Equal(t, receiptStale, got, "on its way when the request was cancelled")
	b := s.assign()[0]
	require.Equal(t, transport.PeerID("a"), b.peer, "it did not fail")
	require.EqualValues(t, 5, b.start)
	require.Less(t, b.end, uint64(20), "the size of blocks is known now")
	require.EqualValues(t, 4, s.apply())
}
