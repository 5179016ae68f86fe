package chain

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/rawdb"
	"github.com/ethereum/go-ethereum/core/state"
	"github.com/ethereum/go-ethereum/core/tracing"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/ethdb"
	"github.com/ethereum/go-ethereum/params"
	"github.com/ethereum/go-ethereum/rlp"
	"github.com/ethereum/go-ethereum/triedb"
	"github.com/ethereum/go-ethereum/triedb/pathdb"
	"github.com/holiman/uint256"

	"github.com/bornode/bornode/chain/keyvalue"
	"github.com/bornode/bornode/internal/exit"
	"github.com/bornode/bornode/internal/format"
)

// states is the state database: Pebble with an ancient directory (pathdb keeps its history, and so its rollback,
// there) under pathdb. Reads are safe from any goroutine; everything that changes it belongs to the executor.
type states struct {
	disk   ethdb.Database
	code   *state.CodeDB
	config pathdb.Config
	index  bool // older states can be read: pathdb indexes its history
	layers atomic.Pointer[layers]
	closed bool
}

// layers is one opening of pathdb; a rollback may replace it.
type layers struct {
	trie     *triedb.Database
	db       *state.MPTDatabase
	historic *state.HistoricDB
}

func (c *Config) history(maxReversible uint64) uint64 {
	if c.StateHistory == 0 {
		return 0
	}
	return max(c.StateHistory, 2*maxReversible, 2*layersKept)
}

// openStates opens or creates the database. same reports whether the state transition of this id, counted from
// genesis' first, belongs to an irreversible block and led to the root that the database remembers for the id.
// A failure of the disk later is told to fail, which ends the process.
func openStates(cfg *Config, maxReversible uint64, same func(id uint64, idOf func(root common.Hash) (uint64, bool)) bool, fail func(*exit.Fault)) (*states, error) {
	files := cfg.files()
	err := files.Mkdir(".")
	if err == nil {
		err = format.Stamp(files, cfg.Dir, format.State)
	}
	if err != nil {
		return nil, fmt.Errorf("open the state database: %w", err)
	}
	open := openPebble
	if cfg.OpenDatabase != nil {
		open = cfg.OpenDatabase
	}
	disk, err := open(cfg, func(file string, err error) { fail(endByStateFault(cfg, file, err)) })
	if err != nil {
		return nil, err
	}
	if err := checkReadable(disk); err != nil {
		return nil, errors.Join(StateFault(cfg.Dir, cfg.keyValueDir(), err), disk.Close())
	}
	s := &states{disk: disk, code: state.NewCodeDB(disk), index: cfg.StateIndex, config: pathdb.Config{
		TrieCleanSize:       cfg.TrieCacheMiB << 20,
		StateCleanSize:      cfg.StateCacheMiB << 20,
		WriteBufferSize:     cfg.WriteBufferMiB << 20,
		StateHistory:        cfg.history(maxReversible),
		TrienodeHistory:     -1,
		NoHistoryIndexDelay: true,
	}}
	if err := recoverPanic(func() error {
		if err := s.checkIndex(same); err != nil {
			return fmt.Errorf("state history index: %w", err)
		}
		s.openLayers(true)
		return nil
	}); err != nil {
		return nil, errors.Join(StateFault(cfg.Dir, "", err), disk.Close())
	}
	return s, nil
}

// openPebble opens Pebble and, beside it, the ancient directory. What fails later is told to fail.
func openPebble(cfg *Config, fail func(file string, err error)) (disk ethdb.Database, err error) {
	kv, err := keyvalue.Open(cfg.keyValueDir(), keyvalue.Options{CacheMiB: cfg.DatabaseCacheMiB, Handles: cfg.Handles, Fail: fail})
	if err != nil {
		return nil, OpenFault(cfg.Dir, cfg.keyValueDir(), err)
	}
	if err := kv.LostWrites(); err != nil {
		return nil, errors.Join(StateFault(cfg.Dir, cfg.keyValueDir(), err), kv.Close())
	}
	if err := recoverPanic(func() (err error) {
		disk, err = rawdb.Open(kv, rawdb.OpenOptions{Ancient: cfg.ancientDir()})
		return err
	}); err != nil {
		return nil, errors.Join(OpenFault(cfg.Dir, cfg.ancientDir(), err), kv.Close())
	}
	return disk, nil
}

// become takes the place of a closed database. Only readers of the layers may be under way: they see the old ones or the new.
func (s *states) become(other *states) {
	s.disk, s.code, s.config, s.index, s.closed = other.disk, other.code, other.config, other.index, false
	s.layers.Store(other.layers.Load())
}

// recoverPanic calls open and makes an error of its panic: go-ethereum panics over some kinds of damage.
func recoverPanic(open func() error) (err error) {
	defer func() {
		if x := recover(); x != nil {
			cause, ok := x.(error)
			if err = cause; !ok {
				err = fmt.Errorf("%v", x)
			}
		}
	}()
	return open()
}

func (s *states) openLayers(index bool) {
	cfg := s.config
	cfg.EnableStateIndexing = index && s.index
	t := triedb.NewDatabase(s.disk, &triedb.Config{PathDB: &cfg})
	s.layers.Store(&layers{t, state.NewMPTDatabase(t, s.code), state.NewHistoricDatabase(t, s.code)})
}

func (s *states) trie() *triedb.Database { return s.layers.Load().trie }

// reopen closes pathdb and opens it again, with the layers up to and including root if that is one, else with what is
// on disk.
func (s *states) reopen(root common.Hash, index bool) error {
	if s.has(root) {
		if err := s.trie().Journal(root); err != nil {
			return fmt.Errorf("write state journal: %w", err)
		}
	}
	if err := s.trie().Close(); err != nil {
		return fmt.Errorf("close the state layers: %w", err)
	}
	s.openLayers(index)
	return s.dropJournal()
}

// indexed reports whether pathdb has completed the index of its history since it was opened. While it has not,
// pathdb's rollback can fail half-way over histories that the index lacks. Without an index it cannot.
func (s *states) indexed() bool {
	if !s.index {
		return true
	}
	_, err := s.trie().HistoricStateReader(common.Hash{})
	return !lacksIndex(err)
}

// lacksIndex reports whether an error of pathdb says that a state's history is there and its index is not, or not yet. pathdb
// has several words for it: a reader meets some when it is made, others when it reads while the index moves.
func lacksIndex(err error) bool {
	return err != nil && slices.ContainsFunc([]string{"fully indexed", "been indexed yet", "index reader is stale"},
		func(words string) bool { return strings.Contains(err.Error(), words) })
}

// checkIndex drops the index of the state history, which pathdb then makes again, if a crash left entries of histories
// that are lost and may not come again. pathdb takes such entries for right, which they are only if the same blocks
// are executed again; an entry of another branch would make a later rollback fail. While no index is wanted none is kept:
// a rollback would leave wrong entries in it.
func (s *states) checkIndex(same func(id uint64, idOf func(common.Hash) (uint64, bool)) bool) error {
	if !s.index {
		if len(rawdb.ReadStateHistoryIndexMetadata(s.disk)) == 0 {
			return nil
		}
		return s.dropIndex()
	}
	if len(rawdb.ReadTrieJournal(s.disk)) > 0 { // a clean stop
		return nil
	}
	blob := rawdb.ReadStateHistoryIndexMetadata(s.disk)
	if len(blob) == 0 {
		return nil
	}
	var m struct {
		Version uint8
		Last    uint64
	}
	idOf := func(root common.Hash) (uint64, bool) {
		if id := rawdb.ReadStateID(s.disk, root); id != nil {
			return *id, true
		}
		return 0, false
	}
	if err := rlp.DecodeBytes(blob, &m); err == nil && (m.Last <= s.persistentID() || same(m.Last, idOf)) {
		return nil
	}
	return s.dropIndex()
}

func (s *states) dropIndex() error {
	rawdb.DeleteStateHistoryIndexMetadata(s.disk)
	rawdb.DeleteStateHistoryIndexes(s.disk)
	return s.disk.SyncKeyValue()
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
	_, err := s.trie().NodeReader(root)
	return err == nil
}

func (s *states) recoverable(root common.Hash) bool {
	ok, err := s.trie().Recoverable(root)
	return ok && err == nil
}

// persistentID counts the state transitions that are on disk.
func (s *states) persistentID() uint64 { return rawdb.ReadPersistentStateID(s.disk) }

func (s *states) empty() bool { return s.has(types.EmptyRootHash) }

// commitGenesis writes the genesis allocation; the root must be the one block 0 names.
func (s *states) commitGenesis(alloc types.GenesisAlloc, want common.Hash) error {
	db, err := state.New(types.EmptyRootHash, s.layers.Load().db)
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
	return s.trie().Commit(root, false)
}

// close writes the layers below head to pathdb's journal, if head's state is one, and closes everything.
func (s *states) close(head common.Hash) error {
	if s.closed {
		return nil
	}
	s.closed = true
	var errs []error
	if s.has(head) {
		if err := s.trie().Journal(head); err != nil {
			errs = append(errs, fmt.Errorf("write state journal: %w", err))
		}
	}
	errs = append(errs, s.trie().Close(), s.disk.Close())
	return errors.Join(errs...)
}
