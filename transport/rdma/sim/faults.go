package sim

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"time"
)

// Faults is how the devices of a network are made and what goes wrong on them. The zero value is a device like a NIC
// without faults: requests are carried soon, in any order across queue pairs.
type Faults struct {
	// Manual: the network moves by Step only.
	Manual bool
	// MapsRemote: as shared memory does, Map gives the peer's memory and no request carries bytes but SENDs.
	MapsRemote bool
	// Handshake: Connect waits for the peer's Connect, as shared memory does. Not with Manual.
	Handshake bool
	// NoReads and NoInline: the devices lack READ and inline requests. READ is lacking with MapsRemote too.
	NoReads, NoInline bool

	// Delay is the longest that each step of a request takes: until the NIC reads it and it lands, until the receiver
	// sees its completion, until the sender does. One in 32 takes ten times as long.
	Delay time.Duration
	// RetryTime passes before a sender gives up a peer that does not answer.
	RetryTime time.Duration

	// EarlyWakes is the probability that Wait returns without an event.
	EarlyWakes float64
	// Breaks is the probability, for each request, that a queue pair breaks while it is carried.
	Breaks float64
	// BreakAfter breaks a queue pair while it carries its n-th request; 0: none.
	BreakAfter int
	// QuietBreaks: no event tells of such breaks.
	QuietBreaks bool
	// MissedEntries is the probability that a request finds no receive entry though there is one.
	MissedEntries float64
	// PurgeOnClose: closing a queue pair takes its completions out of the completion queue, and the next one gets its
	// number, as some NICs do. Receive entries that were used are lost with the completions that would tell of it.
	PurgeOnClose bool
	// ControlErrors is the probability that a call to make, connect, expose or map something fails.
	ControlErrors float64
	// RegionBytes is how much memory a device registers at most; 0: no limit.
	RegionBytes int
}

// String lists what is set, as fields of a Go literal: with the seed it reproduces a run.
func (f Faults) String() string {
	var list []string
	v := reflect.ValueOf(f)
	for i := range v.NumField() {
		if field := v.Field(i); !field.IsZero() {
			value := fmt.Sprint(field.Interface())
			if d, ok := field.Interface().(time.Duration); ok {
				value = fmt.Sprint(int64(d))
			}
			list = append(list, v.Type().Field(i).Name+": "+value)
		}
	}
	return "sim.Faults{" + strings.Join(list, ", ") + "}"
}

// RandomFaults draws faults for a seed: about half of the kinds, each mild enough that work goes on. Queue pairs break,
// devices have either form of memory; control calls do not fail and memory is not short.
func RandomFaults(seed uint64) Faults {
	r := rand.New(rand.NewPCG(seed, 0xfa017))
	coin := func() bool { return r.IntN(2) == 0 }
	f := Faults{MapsRemote: coin(), Handshake: coin(), NoReads: r.IntN(4) == 0, NoInline: coin(), QuietBreaks: coin(), PurgeOnClose: coin()}
	if coin() {
		f.Delay = time.Duration(1+r.IntN(1000)) * time.Microsecond
	}
	if coin() {
		f.RetryTime = time.Duration(1+r.IntN(100)) * time.Millisecond
	}
	if coin() {
		f.EarlyWakes = r.Float64() / 2
	}
	switch r.IntN(4) {
	case 0:
		f.Breaks = r.Float64() / 50
	case 1:
		f.BreakAfter = 1 + r.IntN(200)
	}
	return f
}

// check panics on faults that make no sense: they are written by a test.
func (f Faults) check() {
	for _, p := range []float64{f.EarlyWakes, f.Breaks, f.MissedEntries, f.ControlErrors} {
		if p < 0 || p > 1 {
			panic(fmt.Sprintf("sim: probability %v", p))
		}
	}
	if f.EarlyWakes == 1 {
		panic("sim: a Wait that always returns early")
	}
	if f.Delay < 0 || f.Delay > maxDelay || f.RetryTime < 0 || f.RetryTime > maxDelay || f.BreakAfter < 0 || f.RegionBytes < 0 {
		panic("sim: " + f.String())
	}
}
