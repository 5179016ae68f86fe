package blocksync

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// allowance is a sum that grows back with time up to a full one. It may be overdrawn.
type allowance struct {
	left float64
	at   time.Time
}

// refill brings the allowance up to now and reports whether it is full.
func (a *allowance) refill(rate, full float64, now time.Time) bool {
	if a.at.IsZero() {
		a.left, a.at = full, now
		return true
	}
	if d := now.Sub(a.at); d > 0 {
		a.left, a.at = min(full, a.left+rate*d.Seconds()), now
	}
	return a.left >= full
}

// voteRates are what one peer may send. Every producer casts a prevote and about one precommit per slot, and a peer
// passes on each vote once: with all of them genuine a peer stays a multiple below.
type voteRates struct {
	bytesPerSec, bytesFull float64
	points, pointsFull     float64
}

func votesAllowed(seats int, slot time.Duration) voteRates {
	perSec := 2 * float64(max(seats, 1)) / max(slot, time.Millisecond).Seconds()
	bytes := max(minVoteBytesPerSec, voteMargin*perSec*voteBytes)
	return voteRates{
		bytesPerSec: bytes, bytesFull: max(minVoteBytesFull, voteFullSeconds*bytes),
		points: max(minVotePointsPerSec, votePointMargin*perSec), pointsFull: votePointsFull,
	}
}

// voteCharge is what a vote of no use costs its sender, in points.
var voteCharges = map[VoteVerdict]float64{
	VoteFuture: 1, VoteOverShare: 1, VoteRefuted: 1, VoteStranger: 4, VoteMalformed: 256, VoteForged: 256,
}

// voteAccount is what a peer has sent in votes, by volume and by what they were worth. It outlives the peer's links.
// Safe for concurrent use: the reader of lane 0 pays for volume, the manager charges for worth.
type voteAccount struct {
	mu     sync.Mutex
	rates  voteRates
	bytes  allowance
	points allowance
	slowed time.Duration          // that its messages were held back since the bytes were all there
	warned bool                   // since then
	counts map[VoteVerdict]uint64 // of charged votes since then
	volume uint64                 // bytes since then
	since  time.Time
}

func newVoteAccount() *voteAccount { return &voteAccount{counts: make(map[VoteVerdict]uint64)} }

// refill brings both allowances up to now; a peer that has both in full again starts anew.
func (a *voteAccount) refill(now time.Time) {
	calm := a.bytes.refill(a.rates.bytesPerSec, a.rates.bytesFull, now)
	if a.points.refill(a.rates.points, a.rates.pointsFull, now) && calm {
		clear(a.counts)
		a.slowed, a.warned, a.volume, a.since = 0, false, 0, now
	}
}

// setRates says what the peer may send from now on.
func (a *voteAccount) setRates(r voteRates) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.rates = r
}

// payBytes pays for a message of votes. It says for how long the message is to be held back, whether that is to be
// told, and whether the peer has used up what it may send.
func (a *voteAccount) payBytes(n int, now time.Time) (wait time.Duration, tell, spent bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refill(now)
	a.bytes.left -= float64(n)
	a.volume += uint64(n) //nolint:gosec // a length
	if a.bytes.left < 0 {
		wait = time.Duration(-a.bytes.left / a.rates.bytesPerSec * float64(time.Second))
	}
	if a.points.left < a.rates.pointsFull/2 {
		wait = max(wait, voteHold)
	}
	wait = min(wait, maxVoteHold)
	a.slowed += wait
	tell = wait > 0 && !a.warned
	a.warned = a.warned || tell
	return wait, tell, a.slowed > maxVoteSlowed
}

// charge notes votes of no use and reports whether the peer has used up what it may send of them.
func (a *voteAccount) charge(v VoteVerdict, n int, now time.Time) (spent bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refill(now)
	a.points.left -= voteCharges[v] * float64(n)
	a.counts[v] += uint64(n) //nolint:gosec // a count
	return a.points.left < 0
}

// String tells what the peer did.
func (a *voteAccount) String() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var kinds []string
	for v, text := range voteVerdictTexts {
		if n := a.counts[VoteVerdict(v)]; n > 0 { //nolint:gosec // a small index
			kinds = append(kinds, fmt.Sprintf("%d %s", n, text))
		}
	}
	s := fmt.Sprintf("%d bytes of votes in %v", a.volume, a.at().Sub(a.since).Round(time.Millisecond))
	if len(kinds) > 0 {
		s += ", of these " + strings.Join(kinds, ", ")
	}
	return s
}

func (a *voteAccount) at() time.Time { return a.bytes.at }

// calm reports whether nothing is held against the peer.
func (a *voteAccount) calm(now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refill(now)
	return len(a.counts) == 0 && a.volume == 0
}
