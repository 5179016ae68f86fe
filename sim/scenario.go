package sim

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/consensus/dpos"
)

// Latency is a model of message delay: base, plus a uniform part, plus rarely a long one.
type Latency struct {
	Base, Jitter time.Duration
	TailPercent  int           // of messages
	Tail         time.Duration // up to this much more
}

func (l Latency) draw(r *rand.Rand) time.Duration {
	d := l.Base
	if l.Jitter > 0 {
		d += time.Duration(r.Int64N(int64(l.Jitter)))
	}
	if l.TailPercent > 0 && r.IntN(100) < l.TailPercent {
		d += time.Duration(r.Int64N(int64(l.Tail)))
	}
	return d
}

// Change of schedule kinds.
type Change int

const (
	NoChange Change = iota
	OneSeat
	SeveralSeats
	AllSeats
)

// Cut separates groups of nodes for a time. Nodes in no group see everybody.
type Cut struct {
	From, To time.Duration
	Groups   [][]int
	OneWay   bool // only messages from the second group to the first are lost
}

// Crash takes a node down for a time.
type Crash struct {
	From, To time.Duration
	Node     int
	LoseWAL  bool // it comes back without its vote log
	// Copied is when its disk was copied, if that copy is what it comes back with; 0: it keeps its disk.
	Copied time.Duration
}

// Adversary is what a Byzantine producer does; several at once.
type Adversary struct {
	Equivocate bool          // two blocks per slot, one to each half
	VoteAll    bool          // prevotes and precommits every block it hears of
	Withhold   time.Duration // shows votes and certificates only this much later
	Delay      time.Duration // sends everything this much later
	Silent     bool          // produces and votes nothing
	Forge      bool          // votes in other names and with wrong sources
	Invalid    bool          // some of its blocks do not execute
	Stale      bool          // goes on producing after it left the schedule
	Mute       bool          // shows nobody the blocks and certificates of others
	Selective  bool          // sends each of its messages to some nodes only
	Lies       bool          // answers starts with nothing
	SilentFrom time.Duration // is Silent and Mute from then on; 0: never
}

// Scenario is everything a run depends on.
type Scenario struct {
	Seed       uint64
	Params     block.Parameters
	Seats      int // of the schedule
	Nodes      int // producers and candidates
	Length     time.Duration
	Latency    Latency
	Execution  time.Duration
	Skew       time.Duration // clocks differ by up to this much
	Byzantine  map[int]Adversary
	Changes    Change
	Cuts       []Cut
	Crashes    []Crash
	Calm       time.Duration // at the end: no cuts, no crashes; after it all must be final
	Bugs       dpos.Bugs
	Handshakes time.Duration // period in which nodes tell each other where they are
	Loss       int           // percent of messages that are lost until LossUntil
	LossUntil  time.Duration
	Clocks     []ClockFault
	// LyingClocks has adversaries say any time of theirs.
	LyingClocks bool
	Recovery    *Recovery // nil: none
	Fragile     int       // percent of an honest node's blocks after whose seal it crashes for a moment
}

func (s *Scenario) String() string {
	return fmt.Sprintf("seed %d: %d of %d nodes, turns of %d, slots of %d ms, epochs of %d, %v, %d Byzantine %v, changes %d, %d cuts, %d crashes",
		s.Seed, s.Seats, s.Nodes, s.Params.TurnSlots, s.Params.SlotMillis, s.Params.EpochBlocks, s.Latency, len(s.Byzantine), s.Byzantine, s.Changes, len(s.Cuts), len(s.Crashes))
}

func (s *Scenario) faulty() int { return (s.Seats - 1) / 3 }

// calmSlots is how much time a run leaves at its end for everything to become final.
const calmSlots = 240

// Random draws a scenario: every third with changes of schedule, half with Byzantine producers, most with cuts or
// crashes. The message delay obeys rule 1: a turn is longer than three of them.
func Random(seed uint64, length time.Duration) *Scenario {
	r := rand.New(rand.NewPCG(seed, 0x5eed))
	s := &Scenario{Seed: seed, Length: length, Byzantine: make(map[int]Adversary)}
	s.Seats = []int{1, 2, 3, 4, 4, 4, 4, 5, 7, 7, 10}[r.IntN(11)]
	s.Nodes = s.Seats + 1
	slot := []uint64{500, 1000, 2000}[r.IntN(3)]
	s.Params = block.Parameters{ChainID: 1, SlotMillis: slot, TurnSlots: []uint64{1, 2, 6, 12}[r.IntN(4)], EpochBlocks: 1 << 40,
		MaxReversible: 3600, MinProducers: 1, Patience: r.IntN(2) == 0}
	tick := s.Params.Slot()
	turn := tick * time.Duration(s.Params.TurnSlots) //nolint:gosec // small
	s.Latency.Base = time.Duration(r.Int64N(int64(turn) / 10))
	s.Latency.Jitter = time.Duration(r.Int64N(int64(turn)/10)) + time.Millisecond
	if r.IntN(3) == 0 {
		s.Latency.TailPercent, s.Latency.Tail = 1+r.IntN(3), turn
	}
	s.Execution = time.Duration(r.Int64N(int64(tick) / 10))
	s.Skew = time.Duration(r.Int64N(int64(tick)/4 + 1))
	s.Handshakes = 10 * tick
	s.Calm = calmSlots * tick
	if seed%3 == 0 {
		s.Changes = Change(1 + r.IntN(3))
		s.Params.EpochBlocks = uint64(20 + r.IntN(60))
		s.Nodes = 2 * s.Seats
	}
	if r.IntN(8) == 0 {
		s.Fragile = 3
	}
	if r.IntN(8) == 0 {
		s.Params.MaxReversible = uint64(30 + r.IntN(60))
	}
	if f := s.faulty(); f > 0 && r.IntN(2) == 0 {
		for range 1 + r.IntN(f) {
			s.Byzantine[r.IntN(s.Nodes)] = drawAdversary(r, tick)
		}
	}
	s.drawFaults(r, length-s.Calm)
	s.drawClocks(rand.New(rand.NewPCG(seed, 0xc10c)), length-s.Calm)
	return s
}

// drawClocks sets clocks off by any amount from a millisecond to a day, once the times are set: of any nodes where none starts
// again, else of so few that with the liars they are f at most, always the same ones. More than half of the clocks wrong at
// a start is what rule 12 cannot repair.
func (s *Scenario) drawClocks(r *rand.Rand, until time.Duration) {
	s.LyingClocks = r.IntN(2) == 0
	from := 60 * s.Params.Slot()
	if until <= from || r.IntN(2) == 0 {
		return
	}
	order, most := r.Perm(s.Nodes), s.Nodes
	if len(s.Crashes) > 0 || s.Fragile > 0 {
		most = max(0, (s.Seats-1)/3-len(s.Byzantine))
	}
	for range 1 + r.IntN(3) {
		f := ClockFault{From: from + time.Duration(r.Int64N(int64(until-from)))}
		f.To = min(f.From+time.Duration(1+r.IntN(120))*s.Params.Slot(), until)
		for f.Jump = time.Millisecond; f.Jump < 24*time.Hour && r.IntN(8) > 0; f.Jump *= 4 { //nolint:revive // the loop is the draw
		}
		if r.IntN(2) == 0 {
			f.Jump = -f.Jump
		}
		for _, i := range order[:most] {
			if r.IntN(2) == 0 {
				f.Nodes = append(f.Nodes, i)
			}
		}
		s.Clocks = append(s.Clocks, f)
	}
}

func drawAdversary(r *rand.Rand, tick time.Duration) Adversary {
	coin := func() bool { return r.IntN(3) == 0 }
	a := Adversary{Equivocate: coin(), VoteAll: coin(), Forge: coin(), Invalid: coin(), Stale: coin(), Mute: coin()}
	if coin() {
		a.Withhold = time.Duration(1+r.IntN(40)) * tick / 2
	}
	if coin() {
		a.Delay = time.Duration(1+r.IntN(10)) * tick / 4
	}
	if r.IntN(8) == 0 {
		a.Silent = true
	}
	return a
}

func (s *Scenario) drawFaults(r *rand.Rand, until time.Duration) {
	tick := s.Params.Slot()
	if until <= 0 {
		return
	}
	for range r.IntN(3) {
		from := time.Duration(r.Int64N(int64(until)))
		c := Cut{From: from, To: min(from+time.Duration(1+r.IntN(120))*tick, until), OneWay: r.IntN(4) == 0}
		a, b := []int{}, []int{}
		for i := range s.Nodes {
			if r.IntN(2) == 0 {
				a = append(a, i)
			} else {
				b = append(b, i)
			}
		}
		c.Groups = [][]int{a, b}
		s.Cuts = append(s.Cuts, c)
	}
	for range r.IntN(4) {
		node := r.IntN(s.Nodes)
		if _, byz := s.Byzantine[node]; byz {
			continue
		}
		from := time.Duration(r.Int64N(int64(until)))
		c := Crash{From: from, To: min(from+time.Duration(1+r.IntN(60))*tick, until), Node: node}
		// A signer without its log counts like a silent one until the chain proves a source from after its start.
		c.LoseWAL = len(s.Byzantine) == 0 && s.faulty() > 0 && !s.losesWAL() && r.IntN(4) == 0
		if from > 30*tick && !c.LoseWAL && len(s.Byzantine) == 0 && s.faulty() > 0 && !s.losesWAL() && r.IntN(3) == 0 {
			c.Copied = from - time.Duration(1+r.IntN(30))*tick
		}
		s.Crashes = append(s.Crashes, c)
	}
}

func (s *Scenario) losesWAL() bool {
	for _, c := range s.Crashes {
		if c.LoseWAL || c.Copied > 0 {
			return true
		}
	}
	return false
}
