package blocksync

import (
	"fmt"
	"slices"

	"github.com/bornode/bornode/block"
	"github.com/ethereum/go-ethereum/common"
)

const (
	// maxVersions is how many blocks of one producer and slot are passed on and entered when they come by themselves: the machine
	// keeps as many without a child. An honest producer seals one. A further one is not lost to whoever needs it: it is asked for by
	// its hash when a block, a certificate or a peer's head rests on it.
	maxVersions     = 3
	maxVersionTurns = 4096 // turns that versions are known of
)

// turn is one slot of the producer that sealed a block in it.
type turn struct {
	slot     uint64
	producer common.Address
}

func turnOf(h *block.SealedHeader) turn { return turn{h.Slot(), h.Header.Coinbase} }

// versions are the blocks of turns that were checked here. The manager's goroutine owns them.
type versions struct {
	turns *recent[turn, [maxVersions]common.Hash]
}

func newVersions() versions {
	return versions{newRecent[turn, [maxVersions]common.Hash](maxVersionTurns)}
}

// isBeyond reports whether a block is beyond the versions that its turn may have.
func (v *versions) isBeyond(h *block.SealedHeader) bool {
	list, _ := v.turns.Get(turnOf(h))
	return !slices.Contains(list[:], common.Hash{}) && !slices.Contains(list[:], h.Hash())
}

// countBlock counts a block whose header was checked; false: it is beyond the versions that its turn may have.
func (v *versions) countBlock(h *block.SealedHeader) bool {
	t, hash := turnOf(h), h.Hash()
	list, _ := v.turns.Get(t)
	for i := range list {
		switch list[i] {
		case hash:
			return true
		case common.Hash{}:
			list[i] = hash
			v.turns.Add(t, list)
			return true
		}
	}
	return false
}

// blameForVersion sends away who brings a block beyond the versions of its turn, if it sealed it itself. Who passes one on is not to
// blame: other nodes may have counted other ones.
func (m *Manager) blameForVersion(p *peer, h *block.SealedHeader) {
	if p.signsFor(h.Header.Coinbase) {
		m.punish(p, Flood, fmt.Errorf("blocks: producer %s sealed more than %d for slot %d", h.Header.Coinbase, maxVersions, h.Slot()))
	}
}
