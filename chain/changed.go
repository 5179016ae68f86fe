package chain

import (
	"maps"
	"slices"
	"sync"

	"github.com/bornode/bornode/block"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/state"
	"github.com/ethereum/go-ethereum/core/types"
)

// changeLog remembers which accounts the blocks executed last changed, so that who follows the head need not look at
// all accounts. Safe for concurrent use.
type changeLog struct {
	mu       sync.Mutex
	blocks   map[common.Hash]blockChanges
	order    []common.Hash // as they were executed
	accounts int           // in all blocks
}

type blockChanges struct {
	parent   common.Hash
	accounts []common.Address
}

func newChangeLog() *changeLog { return &changeLog{blocks: make(map[common.Hash]blockChanges)} }

// note enters a block, and forgets the oldest ones beyond the limits.
func (l *changeLog) note(b *block.Block, u *state.StateUpdate) {
	x := blockChanges{b.Parent(), slices.AppendSeq(make([]common.Address, 0, len(u.AccountsOrigin)), maps.Keys(u.AccountsOrigin))}
	h := b.Hash()
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, known := l.blocks[h]; known {
		return
	}
	l.blocks[h], l.order, l.accounts = x, append(l.order, h), l.accounts+len(x.accounts)
	for len(l.order) > changedBlocks || l.accounts > changedAccounts {
		old := l.order[0]
		l.accounts -= len(l.blocks[old].accounts)
		delete(l.blocks, old)
		l.order = l.order[1:]
	}
}

// between gathers what changed on the two ways from a common ancestor.
func (l *changeLog) between(from, to common.Hash, fromHeight, toHeight uint64) (changed []common.Address, known bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for from != to {
		h, height := &to, &toHeight
		if fromHeight > toHeight {
			h, height = &from, &fromHeight
		}
		x, ok := l.blocks[*h]
		if !ok {
			return nil, false
		}
		changed, *h, *height = append(changed, x.accounts...), x.parent, *height-1
	}
	return changed, true
}

// ChangedAccounts lists all accounts whose nonce, balance, code or storage may differ between the states after two
// executed blocks, on whichever branches; an account may be listed twice. known is false where one of the blocks between
// was executed too long ago, or left a state that existed.
func (c *Chain) ChangedAccounts(from, to *types.Header) (changed []common.Address, known bool) {
	return c.changes.between(from.Hash(), to.Hash(), from.Number.Uint64(), to.Number.Uint64())
}
