package contracts

import (
	"encoding/binary"
	"math/big"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
)

// Slots of the contracts' state variables; a test holds them against the compiler's storage layout.
const (
	slotSettings    = 0
	slotTotals      = 4
	slotKeys        = 5
	slotKeyOwner    = 6
	slotCandidate   = 7
	slotCandidates  = 8
	slotCurrent     = 9
	slotAccount     = 11
	slotBallots     = 12
	slotFlags       = 0
	slotNodes       = 1
	slotNodePlace   = 2
	slotProducerCnt = 3
	slotSenders     = 4
	slotDeployers   = 6
	slotChanges     = 10
	slotJournals    = 18
)

// ProducerGenesis is one producer of the genesis state. Its whole stake votes for itself.
type ProducerGenesis struct {
	Account common.Address
	Key     [48]byte
	Stake   *big.Int // wei, below 2^96
}

// ProducersGenesis is what Producers starts with. The first Seats of Producers are the first schedule; others are
// standbys. The contract's account must hold TotalStake as its balance.
type ProducersGenesis struct {
	GenesisTime, SlotMillis, EpochBlocks            uint64
	Seats, MinProducers, JailTurns                  uint16
	SlashPercent                                    uint8
	EvidenceSeconds, WithdrawSeconds, UnjailSeconds uint64
	MinStake                                        *big.Int
	Producers                                       []ProducerGenesis
}

// TotalStake is the sum of the producers' stakes.
func (g *ProducersGenesis) TotalStake() *big.Int {
	sum := new(big.Int)
	for i := range g.Producers {
		sum.Add(sum, g.Producers[i].Stake)
	}
	return sum
}

// word packs fields into a storage slot as the compiler does: the first at the low end.
type word struct {
	h  common.Hash
	at int // bytes taken, from the low end
}

func (w *word) bytes(b []byte) *word {
	w.at += len(b)
	copy(w.h[32-w.at:], b)
	return w
}

func (w *word) uint(v uint64, size int) *word {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], v)
	return w.bytes(b[8-size:])
}

func (w *word) bool(v bool) *word {
	if v {
		return w.uint(1, 1)
	}
	return w.uint(0, 1)
}

func (w *word) amount(v *big.Int) *word { return w.bytes(v.FillBytes(make([]byte, 12))) }

type storage map[common.Hash]common.Hash

func (s storage) set(slot common.Hash, w *word) {
	if w.h != (common.Hash{}) {
		s[slot] = w.h
	}
}

func slotHash(n uint64) common.Hash { return common.BigToHash(new(big.Int).SetUint64(n)) }

func offset(slot common.Hash, n uint64) common.Hash {
	return common.BigToHash(new(big.Int).Add(slot.Big(), new(big.Int).SetUint64(n)))
}

// element is the slot of an array's element of the given size in slots.
func element(array common.Hash, i, size int) common.Hash {
	return offset(crypto.Keccak256Hash(array[:]), uint64(i*size)) //nolint:gosec // small
}

func mapped(key []byte, slot uint64) common.Hash {
	s := slotHash(slot)
	return crypto.Keccak256Hash(common.LeftPadBytes(key, 32), s[:])
}

func number(n int) *word { return new(word).uint(uint64(n), 8) } //nolint:gosec // a length

// ProducersStorage is the storage of Producers at genesis. Stakes and the minimum stake must be below 2^96 and the
// producers at most MaxCandidates: genesis checks that.
func ProducersStorage(g ProducersGenesis) map[common.Hash]common.Hash {
	s := make(storage)
	s.set(slotHash(slotSettings), new(word).uint(g.GenesisTime, 8).uint(g.SlotMillis, 8).uint(g.EpochBlocks, 8).
		uint(uint64(g.Seats), 2).uint(uint64(g.MinProducers), 2).uint(uint64(g.JailTurns), 2).uint(uint64(g.SlashPercent), 1))
	s.set(slotHash(slotSettings+1), new(word).uint(g.EvidenceSeconds, 8).uint(g.WithdrawSeconds, 8).uint(g.UnjailSeconds, 8))
	s.set(slotHash(slotSettings+2), new(word).amount(g.MinStake))
	s.set(slotHash(slotTotals), new(word).uint(0, 8).amount(g.TotalStake()))

	keys, candidates, current := slotHash(slotKeys), slotHash(slotCandidates), slotHash(slotCurrent)
	seats := min(len(g.Producers), int(g.Seats))
	s.set(keys, number(len(g.Producers)))
	s.set(candidates, number(len(g.Producers)))
	s.set(current, number(seats))
	for i, p := range g.Producers {
		n := uint64(i) + 1
		k := element(keys, i, 2)
		s.set(k, new(word).bytes(p.Key[:32]))
		s.set(offset(k, 1), new(word).bytes(p.Key[32:]))
		s.set(mapped(crypto.Keccak256(p.Key[:]), slotKeyOwner), new(word).bytes(p.Account[:]))
		s.set(element(candidates, i, 1), new(word).bytes(p.Account[:]))

		c, seated := mapped(p.Account[:], slotCandidate), uint64(0)
		if i < seats {
			seated = 1
			s.set(element(current, i, 1), new(word).bytes(p.Account[:]).uint(n, 4))
		}
		s.set(c, new(word).uint(n, 4).uint(n, 4).uint(seated, 1))
		s.set(offset(c, 1), new(word).amount(p.Stake))
		s.set(mapped(p.Account[:], slotAccount), new(word).amount(p.Stake).amount(p.Stake))
		if p.Stake.Sign() > 0 {
			b := mapped(p.Account[:], slotBallots)
			s.set(b, number(1))
			s.set(element(b, 0, 1), new(word).bytes(p.Account[:]).amount(p.Stake))
		}
	}
	return s
}

// MembersGenesis is what Members starts with: both lists of accounts are off and empty.
type MembersGenesis struct {
	Admin           common.Address // zero: none
	ProposalSeconds uint64         // how long a proposal stays open
	Nodes           []MemberEntry
}

// MembersStorage is the storage of Members at genesis. Peer ids must be distinct, of 1 to MaxPeerIDBytes bytes.
func MembersStorage(g MembersGenesis) map[common.Hash]common.Hash {
	s := make(storage)
	s.set(slotHash(slotFlags), new(word).bytes(g.Admin[:]).bool(false).bool(false).uint(g.ProposalSeconds, 8))
	nodes := slotHash(slotNodes)
	s.set(nodes, number(len(g.Nodes)))
	producerNodes := make(map[common.Address]int)
	for i, n := range g.Nodes {
		at := element(nodes, i, 2)
		s.set(at, new(word).bytes(n.Account[:]).uint(uint64(n.Roles), 1))
		s.text(offset(at, 1), n.PeerID)
		s.set(mapped(crypto.Keccak256([]byte(n.PeerID)), slotNodePlace), number(i+1))
		if n.Roles&RoleProducer != 0 {
			producerNodes[n.Account]++
		}
	}
	for a, n := range producerNodes {
		s.set(mapped(a[:], slotProducerCnt), number(n))
	}
	return s
}

// text stores a bytes value: short ones inside the slot with twice their length, long ones in slots of their own.
func (s storage) text(slot common.Hash, v string) {
	if len(v) < 32 {
		var h common.Hash
		copy(h[:], v)
		h[31] = byte(2 * len(v))
		s[slot] = h
		return
	}
	s.set(slot, number(2*len(v)+1))
	for i := 0; i*32 < len(v); i++ {
		var h common.Hash
		copy(h[:], v[i*32:])
		s[element(slot, i, 1)] = h
	}
}

// OperationsSlots are where Topics keeps a topic's log of operations: count (the lowest 8 bytes) and last height (the next
// 8) in the first slot, the root in the second.
func OperationsSlots(topic common.Hash) (counts, root common.Hash) {
	counts = mapped(topic[:], slotJournals)
	return counts, offset(counts, 1)
}
