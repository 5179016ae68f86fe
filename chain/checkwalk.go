package chain

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/rawdb"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/ethdb"
	"github.com/ethereum/go-ethereum/rlp"
	"github.com/ethereum/go-ethereum/trie"
	"github.com/ethereum/go-ethereum/triedb/database"
)

// diskNodes gives a trie the nodes as they are on disk, and refuses those that do not hash to what their parent says.
type diskNodes struct{ disk ethdb.KeyValueReader }

// NodeReader implements database.NodeDatabase. The disk has the nodes of one state only.
func (d diskNodes) NodeReader(common.Hash) (database.NodeReader, error) { return d, nil }

// Node implements database.NodeReader.
func (d diskNodes) Node(owner common.Hash, path []byte, hash common.Hash) ([]byte, error) {
	var blob []byte
	if owner == (common.Hash{}) {
		blob = rawdb.ReadAccountTrieNode(d.disk, path)
	} else {
		blob = rawdb.ReadStorageTrieNode(d.disk, owner, path)
	}
	if len(blob) == 0 {
		return nil, fmt.Errorf("the node %x of the trie of %x is missing", path, owner)
	}
	if got := crypto.Keccak256Hash(blob); got != hash {
		return nil, fmt.Errorf("the node %x of the trie of %x hashes to %s, its parent says %s", path, owner, got, hash)
	}
	return blob, nil
}

// errState says that a walk met something wrong in the state, and what.
var errState = errors.New("the state is not whole")

// walkState reads the state from its root: every node against its hash, every code, and, where the flat copies that
// execution reads are complete, each of them against the trie.
func (c *stateCheck) walkState(ctx context.Context) error {
	err := c.walkAccounts(ctx)
	if ended := ctx.Err(); ended != nil {
		return ended
	}
	if c.failed != nil {
		return c.failed
	}
	if err != nil {
		f := StateFault(c.cfg.Dir, "", err)
		c.finding(c.cfg.keyValueDir(), err.Error(), f.Remedy, false)
	}
	return nil
}

func (c *stateCheck) walkAccounts(ctx context.Context) error {
	nodes := diskNodes{c.store}
	t, err := trie.New(trie.StateTrieID(c.report.Root), nodes)
	if err != nil {
		return err
	}
	steps, err := t.NodeIterator(nil)
	if err != nil {
		return err
	}
	flat := c.flatIsComplete()
	it := trie.NewIterator(steps)
	for it.Next() {
		if c.report.Accounts++; c.report.Accounts%256 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		var account types.StateAccount
		if err := rlp.DecodeBytes(it.Value, &account); err != nil {
			return fmt.Errorf("%w: account %x: %w", errState, it.Key, err)
		}
		hash := common.BytesToHash(it.Key)
		if flat && !bytes.Equal(rawdb.ReadAccountSnapshot(c.store, hash), types.SlimAccountRLP(account)) {
			return fmt.Errorf("%w: the flat copy of account %x differs from the trie", errState, it.Key)
		}
		if !c.codeIsSound(account.CodeHash) {
			return fmt.Errorf("%w: the code %x of account %x is missing or damaged", errState, account.CodeHash, it.Key)
		}
		if account.Root != types.EmptyRootHash {
			if err := c.walkSlots(ctx, nodes, hash, account.Root, flat); err != nil {
				return err
			}
		}
	}
	if it.Err != nil || !flat {
		return it.Err
	}
	return c.countFlat(ctx)
}

func (c *stateCheck) walkSlots(ctx context.Context, nodes diskNodes, account, root common.Hash, flat bool) error {
	t, err := trie.New(trie.StorageTrieID(c.report.Root, account, root), nodes)
	if err != nil {
		return err
	}
	steps, err := t.NodeIterator(nil)
	if err != nil {
		return err
	}
	it := trie.NewIterator(steps)
	for it.Next() {
		if c.report.Slots++; c.report.Slots%4096 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if flat && !bytes.Equal(rawdb.ReadStorageSnapshot(c.store, account, common.BytesToHash(it.Key)), it.Value) {
			return fmt.Errorf("%w: the flat copy of slot %x of account %x differs from the trie", errState, it.Key, account)
		}
	}
	return it.Err
}

// flatIsComplete reports whether the flat copies are those of the root on disk; while go-ethereum makes them, after the
// first start, they are not.
func (c *stateCheck) flatIsComplete() bool {
	var made struct { // go-ethereum's triedb/pathdb, journalGenerator
		Wiping, Done             bool
		Marker                   []byte
		Accounts, Slots, Storage uint64
	}
	return rawdb.ReadSnapshotRoot(c.store) == c.report.Root &&
		rlp.DecodeBytes(rawdb.ReadSnapshotGenerator(c.store), &made) == nil && made.Done
}

// countFlat tells flat copies of accounts and slots that the trie does not have.
func (c *stateCheck) countFlat(ctx context.Context) error {
	for _, x := range []struct {
		what   string
		prefix []byte
		length int
		want   uint64
	}{
		{"accounts", rawdb.SnapshotAccountPrefix, len(rawdb.SnapshotAccountPrefix) + common.HashLength, c.report.Accounts},
		{"slots", rawdb.SnapshotStoragePrefix, len(rawdb.SnapshotStoragePrefix) + 2*common.HashLength, c.report.Slots},
	} {
		it, count := c.store.NewIterator(x.prefix, nil), uint64(0)
		for it.Next() {
			if len(it.Key()) == x.length {
				count++
			}
			if ctx.Err() != nil {
				break
			}
		}
		err := it.Error()
		it.Release()
		if err = errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		if count != x.want {
			return fmt.Errorf("%w: it has flat copies of %d %s, the trie has %d", errState, count, x.what, x.want)
		}
	}
	return nil
}
