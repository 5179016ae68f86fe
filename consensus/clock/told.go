package clock

import (
	"time"

	"github.com/ethereum/go-ethereum/common"

	"github.com/bornode/bornode/block"
)

// Told is what running producers say together of the time that they go by.
type Told struct {
	Known   int           // other producers that tell a time, of the schedule that lacks most
	Needed  int           // its quorum without this node's own
	Enough  bool          // so many of every schedule tell one
	Sure    bool          // as many as 2f+1 of every schedule do: whatever f of them say, honest ones have the median
	Awaited bool          // not enough tell one, and they would be if those did of whom nothing is known
	Offset  time.Duration // the time minus the monotonic clock; of use if Enough
}

// CombineTold takes the lower median of the times that the other producers of each schedule that counts tell, and of several
// schedules the earlier one. told holds them minus the monotonic clock; heard has whoever is known to run, whether or not it tells a
// time. This node's own time has no part: it is what is sought.
//
// A quorum without this node must do, since f producers may be missing. These are 2f at least, so f that lie are no more than half: an
// honest producer has reached the lower median, and f that lie cannot carry the time ahead. They may hold it back, where exactly 2f
// are known and the others are those that run; of 2f+1 not even that.
func CombineTold(schedules []block.Schedule, self common.Address, told, heard map[common.Address]time.Duration) Told {
	all := Told{Enough: len(schedules) > 0, Sure: len(schedules) > 0}
	possible := len(schedules) > 0
	for i, s := range schedules {
		known, unheard := tellersOf(s, self, told, heard)
		needed := s.Quorum() - 1
		if i == 0 || len(known)-needed < all.Known-all.Needed {
			all.Known, all.Needed = len(known), needed
		}
		all.Sure = all.Sure && len(known) > 2*s.Faulty()
		possible = possible && needed > 0 && len(known)+unheard >= needed
		if len(known) < needed || len(known) == 0 {
			all.Enough = false
			continue
		}
		if m := LowerMedian(known); i == 0 || m < all.Offset {
			all.Offset = m
		}
	}
	all.Sure = all.Sure && all.Enough
	all.Awaited = possible && !all.Enough
	return all
}

// tellersOf are the times that the other producers of a schedule tell, and how many of these producers were not heard at all.
func tellersOf(s block.Schedule, self common.Address, told, heard map[common.Address]time.Duration) (known []time.Duration, unheard int) {
	counted := map[common.Address]bool{self: true}
	for _, p := range s {
		if counted[p.Account] {
			continue
		}
		counted[p.Account] = true
		if offset, ok := told[p.Account]; ok {
			known = append(known, offset)
		} else if _, ok := heard[p.Account]; !ok {
			unheard++
		}
	}
	return known, unheard
}
