package nodes

import (
	"errors"

	"github.com/ethereum/go-ethereum/common"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/chain"
	"github.com/bornode/bornode/internal/vfs"
)

// Bugs are faults that a test plants around the parts of the nodes, to see the checkers fire. None of them is inside the
// parts: they stand between a part and its disk, its store or its network.
type Bugs struct {
	UnsyncedVotes  bool // the vote log's syncs do nothing
	UnsyncedBlocks bool // the block store's syncs do nothing
	NullOnDamage   bool // a block that cannot be read is answered as one that does not exist
	NewKeys        bool // every start takes the key for one that was never used
	VotesTwice     bool // after a restart on an older copy of its disk a signer votes again in the slot of its newest vote before (rule 11)
	EndsSilently   bool // a node that ends by itself says nothing
	StaysDown      bool // a node whose power was cut is not started again
}

// disk is a folder of a life's drive as its part gets it.
func (b *Bugs) disk(l *life, name string) vfs.FS {
	f := l.drive.folder(name)
	if b.UnsyncedVotes && name == consensusDir || b.UnsyncedBlocks && name == storeDir {
		return unsynced{f}
	}
	return f
}

// store is the block store as the chain gets it.
func (b *Bugs) store(s chain.Store) chain.Store {
	if b.NullOnDamage {
		return nullOnDamage{s}
	}
	return s
}

// votes are what a signer's votes become on their way out.
func (b *Bugs) votes(l *life, vs []block.Vote) []block.Vote {
	n := l.n
	if !b.VotesTwice || n.signer == nil {
		return vs
	}
	n.voted.mu.Lock()
	defer n.voted.mu.Unlock()
	for _, v := range vs {
		if v.Kind != block.Prevote {
			continue
		}
		if was := n.voted.newest; n.voted.restored && was.Target.Hash != v.Target.Hash {
			n.voted.restored = false
			again := block.Vote{Link: v.Link, Voter: v.Voter}
			again.Target.Slot = was.Target.Slot
			again.Signature, _ = n.signer.SignVote(n.w.check.domain.VoteDigest(again.Link))
			vs = append(append([]block.Vote(nil), vs...), again)
		}
		n.voted.newest = v
	}
	return vs
}

// unsynced is a file system whose files are never durable.
type unsynced struct{ vfs.FS }

func (u unsynced) Open(name string, flag int) (vfs.File, error) {
	f, err := u.FS.Open(name, flag)
	if err != nil {
		return nil, err
	}
	return unsyncedFile{f}, nil
}

func (u unsynced) SyncDir(string) error { return nil }

type unsyncedFile struct{ vfs.File }

func (unsyncedFile) Sync() error { return nil }

// nullOnDamage is a store that says of what it cannot read that it is not there.
type nullOnDamage struct{ chain.Store }

func absent[T any](v T, err error) (T, error) {
	if errors.As(err, new(block.ErrCorrupt)) {
		return v, block.ErrNotFound
	}
	return v, err
}

func (s nullOnDamage) Block(h common.Hash) (*block.Block, error) { return absent(s.Store.Block(h)) }
func (s nullOnDamage) BlockByHeight(n uint64) (*block.Block, error) {
	return absent(s.Store.BlockByHeight(n))
}
