package nodes

import (
	"math/rand/v2"
	"time"
)

// Scenario is everything that a run is told.
type Scenario struct {
	Seed                 uint64
	Producers, Observers int
	Slot                 time.Duration
	TurnSlots            uint64
	Latency              time.Duration
	Length               time.Duration
	Calm                 time.Duration // at the end, without faults; after it everything must be final everywhere
	Bugs                 Bugs
	Faults               []Fault
}

// Fault is one thing that goes wrong: drawn by Random, or put there by a test.
type Fault struct {
	At    time.Duration
	What  string
	stops bool // it may stop a machine or damage its disk
	run   func(w *world)
}

// plan puts the scenario's faults into the world's events.
func (s *Scenario) plan(w *world) {
	for _, f := range s.Faults {
		w.after(f.At, func() {
			w.note("fault: %s", f.What)
			f.run(w)
		})
	}
}

// Quiet is a network without faults.
func Quiet(seed uint64, length time.Duration) *Scenario {
	r := rand.New(rand.NewPCG(seed, 0x5eed))
	return &Scenario{
		Seed: seed, Producers: 4, Observers: 1 + r.IntN(2), Slot: 500 * time.Millisecond, TurnSlots: 1 + r.Uint64N(4),
		Latency: time.Duration(1+r.IntN(10)) * time.Millisecond, Length: length, Calm: length / 2,
	}
}
