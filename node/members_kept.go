package node

import (
	"fmt"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/rlp"
	"go.uber.org/zap"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/transport"
)

// keptMembersKey names the list of members among the small values of the block store.
const keptMembersKey = "node/members"

// keptMembers is the list that the gate judged by, as of an irreversible block. It is written whenever it changes: after
// a kill the state that holds the contract's list has to be executed again, and until then the gate judges by this one.
// The state that is on disk may be older by thousands of blocks, and would let in whom governance removed since.
type keptMembers struct {
	Height uint64
	Hash   common.Hash
	Peers  []string
}

// memberStore is what of the block store keeps the list.
type memberStore interface {
	Meta(key string) ([]byte, error)
	PutMeta(key string, value []byte, sync bool) error
	LIB() (height uint64, hash common.Hash)
}

// keep writes the list. A list that cannot be written is told: the gate of this run is not concerned.
func (m *members) keep(k keptMembers) {
	if m.store == nil {
		return
	}
	value, err := rlp.EncodeToBytes(&k)
	if err == nil {
		err = m.store.PutMeta(keptMembersKey, value, true)
	}
	if err != nil {
		m.log.Error("the list of members cannot be kept for the next start; after a kill that start may judge by an older one until its blocks are executed again",
			zap.Uint64("height", k.Height), zap.Error(err))
	}
}

// loadKept judges by the list that the last run kept, if there is one.
func (m *members) loadKept() {
	k, err := m.readKept()
	if err != nil {
		m.log.Warn("no peer is admitted before the blocks are executed again: no list of members was kept that could be judged by until then", zap.Error(err))
		return
	}
	listed := make(map[transport.PeerID]bool, len(k.Peers))
	for _, p := range k.Peers {
		listed[transport.PeerID(p)] = true
	}
	m.listed.Store(&listed)
	m.log.Info("members, as kept by the last run, until the blocks are executed again", zap.Int("count", len(listed)), zap.Uint64("height", k.Height))
}

func (m *members) readKept() (k keptMembers, err error) {
	value, err := m.store.Meta(keptMembersKey)
	if block.IsAbsent(err) || err == nil && len(value) == 0 {
		return k, errNoKeptMembers
	}
	if err != nil {
		return k, fmt.Errorf("read the kept list of members: %w", err)
	}
	if err := rlp.DecodeBytes(value, &k); err != nil {
		return k, fmt.Errorf("decode the kept list of members: %w", err)
	}
	if lib, _ := m.store.LIB(); k.Height > lib {
		return k, fmt.Errorf("the kept list of members is of block %d, above the last irreversible block %d", k.Height, lib)
	}
	return k, nil
}
