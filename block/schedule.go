package block

import (
	"github.com/ethereum/go-ethereum/common"
)

// Producer is one seat of a schedule.
type Producer struct {
	Account common.Address
	Key     BLSKey
}

// Schedule is the ordered list of active producers; a seat appears once.
type Schedule []Producer

// Faulty is f = floor((n-1)/3).
func (s Schedule) Faulty() int {
	if len(s) == 0 {
		return 0
	}
	return (len(s) - 1) / 3
}

// Quorum is q = n - f.
func (s Schedule) Quorum() int { return len(s) - s.Faulty() }

// Owner is the producer of a slot: schedule[(slot/turnSlots) mod n].
func (s Schedule) Owner(slot, turnSlots uint64) Producer {
	return s[(slot/turnSlots)%uint64(len(s))]
}

// Index is the seat of an account, or -1.
func (s Schedule) Index(a common.Address) int {
	for i := range s {
		if s[i].Account == a {
			return i
		}
	}
	return -1
}

// Equal reports whether both name the same producers and keys in the same order.
func (s Schedule) Equal(o Schedule) bool {
	if len(s) != len(o) {
		return false
	}
	for i := range s {
		if s[i] != o[i] {
			return false
		}
	}
	return true
}
