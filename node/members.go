package node

import (
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/ethereum/go-ethereum/common"
	"go.uber.org/zap"

	"github.com/bornode/bornode/chain"
	"github.com/bornode/bornode/genesis"
	"github.com/bornode/bornode/transport"
)

// members is the gate of the network: who may connect (DESIGN §6). In sync it is the Members contract at LIB; a node
// that is behind also accepts the members of genesis and the peers of its configuration, since what it knows of the
// contract may be old.
type members struct {
	always map[transport.PeerID]bool // genesis and configuration
	behind atomic.Bool
	listed atomic.Pointer[map[transport.PeerID]bool]
	root   common.Hash // storage root of the contract that listed was read from; watch's goroutine only
}

func newMembers(gen *genesis.Genesis, peers []string, self transport.PeerID) *members {
	m := &members{always: map[transport.PeerID]bool{self: true}}
	for _, x := range gen.Members() {
		m.always[transport.PeerID(x.PeerID)] = true
	}
	for _, addr := range peers {
		if i := strings.LastIndex(addr, "/p2p/"); i >= 0 {
			m.always[transport.PeerID(addr[i+len("/p2p/"):])] = true
		}
	}
	m.behind.Store(true)
	return m
}

// Check refuses a peer that is no member. It is called from any goroutine.
func (m *members) Check(p transport.PeerID) error {
	if listed := m.listed.Load(); listed != nil && (*listed)[p] {
		return nil
	}
	if m.behind.Load() && m.always[p] {
		return nil
	}
	return fmt.Errorf("%s is not a member of this network; admit it through the Members contract: %w", p, transport.ErrNotMember)
}

// refresh reads the contract again if it changed; it reports whether the gate may judge differently now.
func (m *members) refresh(c *chain.Chain, behind bool, log *zap.Logger) bool {
	changed := m.behind.Swap(behind) != behind
	final := c.FinalHeader()
	state, err := c.StateAt(final)
	if err != nil {
		log.Warn("state at LIB is not readable: members stay as they were", zap.Uint64("height", final.Number.Uint64()), zap.Error(err))
		return changed
	}
	root := state.GetStorageRoot(genesis.MembersAddress)
	if root == m.root && m.listed.Load() != nil {
		return changed
	}
	list, err := c.Members()
	if err != nil {
		log.Warn("members are not readable: they stay as they were", zap.Uint64("height", final.Number.Uint64()), zap.Error(err))
		return changed
	}
	next := make(map[transport.PeerID]bool, len(list))
	for _, e := range list {
		next[transport.PeerID(e.PeerID)] = true
	}
	m.root = root
	m.listed.Store(&next)
	log.Info("members", zap.Int("count", len(next)), zap.Uint64("height", final.Number.Uint64()))
	return true
}
