package chain

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/rawdb"
	"github.com/ethereum/go-ethereum/core/state"
	"github.com/ethereum/go-ethereum/core/tracing"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/ethdb"
	"github.com/ethereum/go-ethereum/ethdb/pebble"
	"github.com/ethereum/go-ethereum/params"
	"github.com/ethereum/go-ethereum/triedb"
	"github.com/ethereum/go-ethereum/triedb/pathdb"
	"github.com/holiman/uint256"
)

// states is the state database: Pebble with an ancient directory (pathdb keeps its history, and so its rollback,
// there) under pathdb. Reads are safe from any goroutine; commit, recover, flush and close belong to the executor.
type states struct {
	dir      string
	disk     ethdb.Database
	trie     *triedb.Database
	code     *state.CodeDB
	db       *state.MPTDatabase
	historic *state.HistoricDB
	closed   bool
}

func (c *Config) history(maxReversible uint64) uint64 {
	if c.StateHistory == 0 {
		return 0
	}
	return max(c.StateHistory, 2*maxReversible, 2*layersKept)
}

func openStates(cfg *Config, maxReversible uint64) (*states, error) {
	kv, err := pebble.New(filepath.Join(cfg.Dir, "kv"), cfg.DatabaseCacheMiB, cfg.Handles, "", false)
	if err != nil {
		return nil, fmt.Errorf("open state database %s: %w", cfg.Dir, err)
	}
	disk, err := rawdb.Open(kv, rawdb.OpenOptions{Ancient: filepath.Join(cfg.Dir, "ancient")})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open state history in %s: %w", cfg.Dir, err), kv.Close())
	}
	s := &states{dir: cfg.Dir, disk: disk}
	s.trie = triedb.NewDatabase(disk, &triedb.Config{PathDB: &pathdb.Config{
		TrieCleanSize:       cfg.TrieCacheMiB << 20,
		StateCleanSize:      cfg.StateCacheMiB << 20,
		WriteBufferSize:     cfg.WriteBufferMiB << 20,
		StateHistory:        cfg.history(maxReversible),
		TrienodeHistory:     -1,
		EnableStateIndexing: true,
		NoHistoryIndexDelay: true,
	}})
	s.code = state.NewCodeDB(disk)
	s.db = state.NewMPTDatabase(s.trie, s.code)
	s.historic = state.NewHistoricDatabase(s.trie, s.code)
	return s, nil
}

// dropJournal removes the layer journal of the last clean stop once its layers are loaded: after a later rollback
// and a crash it would describe layers whose history is gone. The journal lives in the key-value store; as a file
// pathdb would write it in one system call per node.
func (s *states) dropJournal() error {
	rawdb.WriteTrieJournal(s.disk, nil)
	return s.disk.SyncKeyValue()
}

// has reports whether the state is a layer in memory or the one on disk.
func (s *states) has(root common.Hash) bool {
	_, err := s.trie.NodeReader(root)
	return err == nil
}

func (s *states) recoverable(root common.Hash) bool {
	ok, err := s.trie.Recoverable(root)
	return ok && err == nil
}

// persistentID counts the state transitions that are on disk.
func (s *states) persistentID() uint64 { return rawdb.ReadPersistentStateID(s.disk) }

func (s *states) empty() bool { return s.has(types.EmptyRootHash) }

// commitGenesis writes the genesis allocation; the root must be the one block 0 names.
func (s *states) commitGenesis(alloc types.GenesisAlloc, want common.Hash) error {
	db, err := state.New(types.EmptyRootHash, s.db)
	if err != nil {
		return fmt.Errorf("open empty state: %w", err)
	}
	for addr, a := range alloc {
		if a.Balance != nil {
			x, overflow := uint256.FromBig(a.Balance)
			if overflow {
				return fmt.Errorf("genesis balance of %s exceeds 256 bits", addr)
			}
			db.AddBalance(addr, x, tracing.BalanceIncreaseGenesisBalance)
		}
		db.SetCode(addr, a.Code, tracing.CodeChangeGenesis)
		db.SetNonce(addr, a.Nonce, tracing.NonceChangeGenesis)
		for k, v := range a.Storage {
			db.SetState(addr, k, v)
		}
	}
	root, err := db.Commit(params.Rules{}, 0)
	if err != nil {
		return fmt.Errorf("commit genesis state: %w", err)
	}
	if root != want {
		return fmt.Errorf("genesis allocation has state root %s, block 0 names %s", root, want)
	}
	return s.trie.Commit(root, false)
}

// close writes the layers below head to pathdb's journal, if head's state is one, and closes everything.
func (s *states) close(head common.Hash) error {
	if s.closed {
		return nil
	}
	s.closed = true
	var errs []error
	if s.has(head) {
		if err := s.trie.Journal(head); err != nil {
			errs = append(errs, fmt.Errorf("write state journal: %w", err))
		}
	}
	errs = append(errs, s.trie.Close(), s.disk.Close())
	return errors.Join(errs...)
}
