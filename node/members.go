package node

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/state"
	"github.com/ethereum/go-ethereum/core/types"
	"go.uber.org/zap"

	"github.com/bornode/bornode/contracts"
	"github.com/bornode/bornode/genesis"
	"github.com/bornode/bornode/transport"
)

// members is the gate of the network: who may connect (DESIGN §6). In sync it is the Members contract at LIB; a node
// that is behind also accepts the peers of its configuration, since what it knows of the contract may be old: one that
// left and came back later may be the only one it can catch up from. A member of genesis that is neither configured nor
// on the list at LIB was removed, and is refused then too. Before the list was read
// nobody is accepted; while blocks are executed again after a kill, the list is the one that the last run kept.
type members struct {
	self   transport.PeerID
	log    *zap.Logger
	always map[transport.PeerID]bool // itself and the peers of its configuration
	behind atomic.Bool
	listed atomic.Pointer[map[transport.PeerID]bool]
	store  memberStore // keeps the list for the next start; nil: nothing does
	root   common.Hash // storage root of the contract that listed was read from; watch's goroutine only
	alone  time.Time   // when refusedEverywhere spoke last; watch's goroutine only

	mu   sync.Mutex
	told map[transport.PeerID]time.Time // whom the log named lately
}

// Bounds of what the log says about peers that are no members: anybody may try to connect, over and over.
const (
	tellAgain = time.Minute
	maxTold   = 64
)

func newMembers(peers []string, self transport.PeerID, store memberStore, log *zap.Logger) *members {
	m := &members{self: self, log: log, store: store, always: map[transport.PeerID]bool{self: true}, told: make(map[transport.PeerID]time.Time)}
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
	listed := m.listed.Load()
	if listed == nil {
		return fmt.Errorf("%s is refused until the members at the last irreversible block are readable: %w", p, transport.ErrNotMember)
	}
	if (*listed)[p] || m.behind.Load() && m.always[p] {
		return nil
	}
	m.tell(p)
	return fmt.Errorf("%s is not a member of this network; admit it through the Members contract: %w", p, transport.ErrNotMember)
}

// tell logs a refusal, once a minute for a peer.
func (m *members) tell(p transport.PeerID) {
	now := time.Now()
	m.mu.Lock()
	last, known := m.told[p]
	if known && now.Sub(last) < tellAgain {
		m.mu.Unlock()
		return
	}
	if len(m.told) >= maxTold {
		clear(m.told)
	}
	m.told[p] = now
	m.mu.Unlock()
	m.log.Warn("refused: not a member; admit it through the Members contract, or remove it from p2p.peers if it stands there", zap.String("peer", string(p)))
}

var errNoKeptMembers = errors.New("an earlier version, or a run that never read the list, left none")

// refusedEverywhere says why a node without peers may have none: members cut a stranger off without a word.
func (m *members) refusedEverywhere(peers int, height uint64) {
	listed := m.listed.Load()
	if peers > 0 || listed == nil || (*listed)[m.self] || time.Since(m.alone) < tellAgain {
		return
	}
	m.alone = time.Now()
	m.log.Warn("no peers: this node is not a member at its last irreversible block, members refuse it until it is admitted through the Members contract",
		zap.String("peer", string(m.self)), zap.Uint64("height", height))
}

// contract is what refresh reads of the chain.
type contract interface {
	FinalHeader() *types.Header
	StateAt(h *types.Header) (*state.StateDB, error)
	Members() ([]contracts.MemberEntry, error)
}

// refresh reads the contract again if it changed; it reports whether the gate may judge differently now.
func (m *members) refresh(c contract, behind bool) bool {
	changed := m.behind.Swap(behind) != behind
	final := c.FinalHeader()
	// The storage root tells cheaply whether the list changed. A state of LIB that left the newest layers may be out of
	// reach for a while after a start; the list of that block was read before.
	var root common.Hash
	if state, err := c.StateAt(final); err == nil {
		if root = state.GetStorageRoot(genesis.MembersAddress); root == m.root && m.listed.Load() != nil {
			return changed
		}
	}
	list, err := c.Members()
	if err != nil {
		m.log.Warn("members are not readable: they stay as they were", zap.Uint64("height", final.Number.Uint64()), zap.Error(err))
		return changed
	}
	next := make(map[transport.PeerID]bool, len(list))
	kept := keptMembers{Height: final.Number.Uint64(), Hash: final.Hash()}
	for _, e := range list {
		next[transport.PeerID(e.PeerID)] = true
		kept.Peers = append(kept.Peers, e.PeerID)
	}
	first := m.root == (common.Hash{})
	m.root = root
	was := m.listed.Swap(&next)
	same := was != nil && maps.Equal(*was, next)
	if !same || first {
		m.keep(kept)
	}
	if same {
		return changed
	}
	m.log.Info("members", zap.Int("count", len(next)), zap.Uint64("height", final.Number.Uint64()))
	return true
}
