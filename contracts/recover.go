package contracts

import (
	"encoding/binary"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
)

// slotPrevious is where Producers keeps the schedule before the present one; slotRecoveries, the first slot behind the contract's
// own, where the system keeps the list of the chain's recoveries: code that judges evidence of their domains reads it there.
const (
	slotPrevious   = 10
	slotRecoveries = 14
)

// RecoveredSchedule is how the election goes on from a recovery.
type RecoveredSchedule struct {
	Recovery common.Hash
	Seats    []Seat           // the schedule, in its order; at most MaxSeats
	Lost     []common.Address // candidates no more, until they rejoin
	Seconds  uint64           // time of the first block behind the recovery's base
}

// Recover changes the state of Producers by a recovery, before anything else of the first block behind its base: the schedule
// chosen last is the recovery's, so that the end of an epoch elects and jails from there, its accounts are candidates with its keys,
// those held lost have resigned, and the recovery is in the list. Stakes and votes stay as they are: a candidate without the least
// stake, or without votes, keeps its seat at an election only where the schedule would become too small. The code of the
// contract is not called, so what it is makes no difference.
func Recover(db StateWriter, r RecoveredSchedule) {
	p := producerState{db}
	old, previous := p.readSeats(slotCurrent), p.readSeats(slotPrevious)
	for _, s := range previous {
		p.setSeatBits(s.account, p.seatBits(s.account)&1)
	}
	for _, s := range old {
		p.setSeatBits(s.account, 2)
	}
	for _, a := range r.Lost {
		p.setResigned(a, true)
	}
	next := make([]storedSeat, len(r.Seats))
	for i := range r.Seats {
		next[i] = storedSeat{r.Seats[i].Account, p.makeCandidate(&r.Seats[i])}
	}
	p.writeSeats(slotPrevious, old)
	p.writeSeats(slotCurrent, next)
	for _, s := range next {
		p.setSeatBits(s.account, p.seatBits(s.account)|1)
	}
	for _, s := range previous {
		if p.seatBits(s.account) == 0 {
			p.setLeft(s.account, r.Seconds)
		}
	}
	p.appendTo(slotRecoveries, 1, r.Recovery)
}

// Recoveries lists the recoveries that the state knows, oldest first.
func Recoveries(db StateWriter) (out []common.Hash) {
	p := producerState{db}
	for i := range p.arrayLength(slotRecoveries) {
		out = append(out, p.readSlot(element(slotHash(slotRecoveries), i, 1)))
	}
	return out
}

// producerState reads and writes the storage of Producers as the compiler lays it out.
type producerState struct{ db StateWriter }

type storedSeat struct {
	account common.Address
	key     uint32 // place in the list of keys, from 1
}

func (p producerState) readSlot(slot common.Hash) common.Hash {
	return p.db.GetState(ProducersAddress, slot)
}
func (p producerState) writeWord(slot common.Hash, w *word) {
	p.db.SetState(ProducersAddress, slot, w.h)
}

// readField reads size bytes of a slot, at bytes from its low end.
func readField(h common.Hash, at, size int) uint64 {
	var b [8]byte
	copy(b[8-size:], h[32-at-size:32-at])
	return binary.BigEndian.Uint64(b[:])
}

// setField writes size bytes of a slot, at bytes from its low end.
func (p producerState) setField(slot common.Hash, at, size int, v uint64) {
	h := p.readSlot(slot)
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], v)
	copy(h[32-at-size:32-at], b[8-size:])
	p.db.SetState(ProducersAddress, slot, h)
}

// arrayLength is that of an array; no array here comes near the bound of an int.
func (p producerState) arrayLength(slot uint64) int {
	return int(readField(p.readSlot(slotHash(slot)), 0, 4)) //nolint:gosec // four bytes
}

// appendTo appends a value to an array of elements of size slots, and returns the element's slot.
func (p producerState) appendTo(array uint64, size int, first common.Hash) common.Hash {
	n := p.arrayLength(array)
	at := element(slotHash(array), n, size)
	p.db.SetState(ProducersAddress, at, first)
	p.writeWord(slotHash(array), number(n+1))
	return at
}

func (p producerState) readSeats(array uint64) []storedSeat {
	out := make([]storedSeat, min(p.arrayLength(array), MaxSeats))
	for i := range out {
		h := p.readSlot(element(slotHash(array), i, 1))
		out[i] = storedSeat{common.Address(h[12:]), uint32(readField(h, 20, 4))} //nolint:gosec // four bytes
	}
	return out
}

func (p producerState) writeSeats(array uint64, seats []storedSeat) {
	for i := range max(len(seats), p.arrayLength(array)) {
		w := new(word)
		if i < len(seats) {
			w.bytes(seats[i].account[:]).uint(uint64(seats[i].key), 4)
		}
		p.writeWord(element(slotHash(array), i, 1), w)
	}
	p.writeWord(slotHash(array), number(len(seats)))
}

// Places of a candidate's fields in its first slot, from the low end: key 4, place 4, seated 1, resigned 1, guilty 1, jailedUntil
// 8, reported 8; in the second: votes 12, leftAt 8, missed 8.
const (
	atPlace, atSeated, atResigned, atJailed = 4, 8, 9, 11
	atLeft                                  = 12
)

func candidateSlot(a common.Address) common.Hash { return mapped(a[:], slotCandidate) }

func (p producerState) seatBits(a common.Address) uint64 {
	return readField(p.readSlot(candidateSlot(a)), atSeated, 1)
}

func (p producerState) setSeatBits(a common.Address, bits uint64) {
	p.setField(candidateSlot(a), atSeated, 1, bits)
}

func (p producerState) setLeft(a common.Address, seconds uint64) {
	p.setField(offset(candidateSlot(a), 1), atLeft, 8, seconds)
}

// setResigned sets whether a candidate has resigned; who never was one stays none.
func (p producerState) setResigned(a common.Address, resigned bool) {
	if slot := candidateSlot(a); readField(p.readSlot(slot), 0, 4) != 0 {
		v := uint64(0)
		if resigned {
			v = 1
		}
		p.setField(slot, atResigned, 1, v)
	}
}

// makeCandidate makes a seat's account a candidate with the seat's key, out of jail, and returns the key's place. A list that is full does
// not take it in: then it has its seat until the next election.
func (p producerState) makeCandidate(s *Seat) uint32 {
	slot := candidateSlot(s.Account)
	place := p.placeOfKey(s)
	p.setField(slot, 0, 4, uint64(place))
	p.setResigned(s.Account, false)
	p.setField(slot, atJailed, 8, 0)
	if n := p.arrayLength(slotCandidates); readField(p.readSlot(slot), atPlace, 4) == 0 && n < MaxCandidates {
		p.appendTo(slotCandidates, 1, new(word).bytes(s.Account[:]).h)
		p.setField(slot, atPlace, 4, uint64(n+1)) //nolint:gosec // positive
	}
	return place
}

// placeOfKey is the place of a seat's key in the list of keys, to which it is added if its account has another one. An owner that a key has
// already stays: a key belongs to one account for ever.
func (p producerState) placeOfKey(s *Seat) uint32 {
	if at := readField(p.readSlot(candidateSlot(s.Account)), 0, 4); at != 0 && p.keyAt(int(at)-1) == s.Key { //nolint:gosec // four bytes
		return uint32(at) //nolint:gosec // four bytes
	}
	k := p.appendTo(slotKeys, 2, new(word).bytes(s.Key[:32]).h)
	p.writeWord(offset(k, 1), new(word).bytes(s.Key[32:]))
	if owner := mapped(crypto.Keccak256(s.Key[:]), slotKeyOwner); p.readSlot(owner) == (common.Hash{}) {
		p.writeWord(owner, new(word).bytes(s.Account[:]))
	}
	return uint32(p.arrayLength(slotKeys)) //nolint:gosec // four bytes
}

func (p producerState) keyAt(i int) (key [48]byte) {
	at := element(slotHash(slotKeys), i, 2)
	head, tail := p.readSlot(at), p.readSlot(offset(at, 1))
	copy(key[:32], head[:])
	copy(key[32:], tail[16:])
	return key
}
