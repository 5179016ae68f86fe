package scrub

import (
	"encoding/json"
	"slices"
	"time"
)

// Step is what one reading of an area did.
type Step struct {
	Next     string   // where the next one begins; "": the area's end was reached
	Bytes    int64    // read
	Problems []string // kinds of what was found damaged or missing
}

// Round is one reading of everything.
type Round struct {
	Began    int64  `json:"began"` // Unix milliseconds
	Ended    int64  `json:"ended"` // 0: it goes on
	Bytes    int64  `json:"bytes"`
	Problems uint64 `json:"problems"` // damaged or missing things that were found
	Failures uint64 `json:"failures"` // rests of areas that could not be read
}

// Progress is what survives a restart.
type Progress struct {
	Area string `json:"area"` // that is being read
	From string `json:"from"` // its own words for where; "": from its start
	Now  Round  `json:"now"`
	Last Round  `json:"last"` // the last full round; Ended 0: there was none
}

// Rounds says what is read next and when. It is a pure value of the calls made: no clock, no disk. One goroutine uses it.
type Rounds struct {
	areas []string
	rate  int64 // bytes per second, above 0
	at    Progress
	free  time.Time // before it nothing is read
}

// NewRounds goes on where saved, an Encode of an earlier run, ends. What cannot be decoded, or names an area that is not
// there any more, begins a round.
func NewRounds(areas []string, rate int64, saved []byte, now time.Time) *Rounds {
	r := &Rounds{areas: areas, rate: rate}
	if len(saved) == 0 || json.Unmarshal(saved, &r.at) != nil {
		r.at = Progress{}
	}
	began := time.UnixMilli(r.at.Now.Began)
	switch {
	case !slices.Contains(areas, r.at.Area), began.After(now.Add(leastRound)): // of other areas, or of a clock that was ahead
		r.begin(now)
	case began.After(now): // between two rounds
		r.free = began
	}
	return r
}

func (r *Rounds) begin(now time.Time) {
	r.at.Area, r.at.From, r.at.Now = r.areas[0], "", Round{Began: now.UnixMilli()}
}

// Next is what to read next, after a wait.
func (r *Rounds) Next(now time.Time) (area, from string, wait time.Duration) {
	return r.at.Area, r.at.From, max(0, r.free.Sub(now))
}

// Done notes a step that began and ended. It reports the end of a round.
func (r *Rounds) Done(s Step, now time.Time) (ended bool) {
	r.at.Now.Bytes += s.Bytes
	r.at.Now.Problems += uint64(len(s.Problems))
	seconds := float64(max(s.Bytes, leastStep)) / float64(r.rate)
	r.free = now.Add(time.Duration(seconds * float64(time.Second)))
	r.at.From = s.Next
	return s.Next == "" && r.leaveArea(now)
}

// Failed passes over the rest of an area that could not be read, for this round.
func (r *Rounds) Failed(now time.Time) (ended bool) {
	r.at.Now.Failures++
	r.free = now.Add(failurePause)
	return r.leaveArea(now)
}

func (r *Rounds) leaveArea(now time.Time) (ended bool) {
	r.at.From = ""
	if i := slices.Index(r.areas, r.at.Area); i+1 < len(r.areas) {
		r.at.Area = r.areas[i+1]
		return false
	}
	r.at.Last = r.at.Now
	r.at.Last.Ended = max(now.UnixMilli(), r.at.Now.Began)
	if next := time.UnixMilli(r.at.Now.Began).Add(leastRound); next.After(r.free) {
		r.free = next
	}
	r.begin(r.free)
	return true
}

// Progress is how far the rounds are.
func (r *Rounds) Progress() Progress { return r.at }

// Encode is what NewRounds goes on from.
func (r *Rounds) Encode() []byte {
	b, err := json.Marshal(r.at)
	if err != nil {
		panic(err) // numbers and strings
	}
	return b
}
