package chain

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/rawdb"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/chain/keyvalue"
	"github.com/bornode/bornode/internal/exit"
)

const checkPart = "state"

// StoredHeaders is what CheckState asks the block store.
type StoredHeaders interface {
	HeaderByHeight(height uint64) (*block.SealedHeader, error)
	Reversible() ([]*block.Block, error)
	LIB() (height uint64, hash common.Hash)
	FirstHeight() uint64
}

// StateReport is what CheckState saw.
type StateReport struct {
	Root     common.Hash `json:"root"`
	Found    bool        `json:"found"`  // it is the root of a stored block
	Height   uint64      `json:"height"` // of the newest such block
	Keys     uint64      `json:"keys"`   // with full: read
	Accounts uint64      `json:"accounts"`
	Slots    uint64      `json:"slots"`
}

// stateCheck is one run of CheckState.
type stateCheck struct {
	cfg      *Config
	blocks   StoredHeaders
	store    *keyvalue.Store
	report   StateReport
	findings []exit.Finding
	failed   error // the first error of the disk or of a file
	file     string
}

// CheckState looks at the state of a stopped node without changing a byte: that it opens, that its root is one of a
// stored block, with full also every key and, from the root, every node, account, slot and code. The error says why it
// could not finish; what is wrong is in the findings. It must not run beside a process that uses the folder.
func CheckState(ctx context.Context, cfg Config, blocks StoredHeaders, full bool) (StateReport, []exit.Finding, error) {
	c := &stateCheck{cfg: &cfg, blocks: blocks}
	if _, err := os.Stat(cfg.keyValueDir()); errors.Is(err, os.ErrNotExist) {
		if height, _ := blocks.LIB(); height > 0 && !c.cannotBeMade() {
			c.finding(cfg.Dir, fmt.Sprintf("there is no state for the stored blocks up to %d", height), "the next start executes the blocks again, which takes time", false)
		}
		return c.report, c.findings, nil
	}
	store, err := keyvalue.OpenReadOnly(cfg.keyValueDir(), keyvalue.Options{CacheMiB: cfg.DatabaseCacheMiB, Handles: cfg.Handles, Fail: c.noteFailure})
	if err != nil {
		c.fault(OpenFault(cfg.Dir, cfg.keyValueDir(), err))
		return c.report, c.findings, nil
	}
	c.store = store
	err = recoverPanic(func() error { return c.run(ctx, full) })
	if c.failed != nil { // what was read behind it says nothing
		c.fault(StateFault(cfg.Dir, c.file, c.failed))
		err = nil
	}
	return c.report, c.findings, errors.Join(err, store.Close())
}

func (c *stateCheck) noteFailure(file string, err error) { c.file, c.failed = file, err }

func (c *stateCheck) finding(file, problem, remedy string, harmless bool) {
	c.findings = append(c.findings, exit.Finding{Part: checkPart, File: file, Problem: problem, Remedy: remedy, Harmless: harmless})
}

// fault makes a finding of an error of opening or reading.
func (c *stateCheck) fault(err error) {
	var f *exit.Fault
	if errors.As(err, &f) {
		c.finding(f.File, fmt.Sprintf("%s: %v", f.What, f.Cause), f.Remedy, false)
		return
	}
	c.finding(c.cfg.Dir, err.Error(), "give the node's account the right to read it, and check again", false)
}

func (c *stateCheck) run(ctx context.Context, full bool) error {
	if err := errors.Join(markedDamage(c.cfg.files(), c.cfg.Dir), c.store.LostWrites()); err != nil {
		c.finding(c.cfg.Dir, err.Error(), "the next start sets the state aside and rebuilds it from the blocks, unless blocks were pruned", false)
	}
	if err := checkReadable(c.store); err != nil {
		c.fault(StateFault(c.cfg.Dir, "", err))
		return nil
	}
	blob := rawdb.ReadAccountTrieNode(c.store, nil)
	if len(blob) == 0 || c.failed != nil {
		c.cannotBeMade()
		return c.failed // a database that nothing was written to yet
	}
	c.report.Root = crypto.Keccak256Hash(blob)
	if err := c.findBlock(ctx); err != nil {
		return err
	}
	if err := c.checkHistory(); err != nil || !full {
		return err
	}
	if err := c.readAll(ctx); err != nil {
		return err
	}
	return c.walkState(ctx)
}

// cannotBeMade reports, and finds, that the blocks which a lost state would be made of again were pruned.
func (c *stateCheck) cannotBeMade() bool {
	height, _ := c.blocks.LIB()
	if height == 0 || c.blocks.FirstHeight() == 0 {
		return false
	}
	c.finding(c.cfg.Dir, fmt.Sprintf("there is no state for the stored blocks up to %d, and it cannot be made again: blocks below %d were pruned", height, c.blocks.FirstHeight()),
		"put the folder of the state back from a copy of this node, or begin with an empty data folder: bornode restore, or let the node join the network again", false)
	return true
}

// findBlock looks for the newest stored block with the root that is on disk.
func (c *stateCheck) findBlock(ctx context.Context) error {
	reversible, err := c.blocks.Reversible()
	if err != nil && !errors.As(err, new(block.ErrCorrupt)) {
		return fmt.Errorf("read reversible blocks: %w", err)
	}
	for i := len(reversible) - 1; i >= 0; i-- {
		if reversible[i].Header.Root == c.report.Root {
			c.report.Found, c.report.Height = true, reversible[i].Number()
			return nil
		}
	}
	lib, hash := c.blocks.LIB()
	if hash == (common.Hash{}) {
		if rawdb.ReadPersistentStateID(c.store) > 1 { // block 0 is the first change
			c.finding(c.cfg.Dir, "there is a state of later blocks than block 0, and no block is stored",
				"if the blocks are on a disk of their own, mount it; else put the folder of the blocks back, or start the node, which then fetches all blocks again and executes them", false)
		}
		return nil
	}
	var libRoot common.Hash
	unreadable := 0
	for height := lib; ; height-- {
		if err := ctx.Err(); err != nil {
			return err
		}
		h, err := c.blocks.HeaderByHeight(height)
		switch {
		case err != nil:
			unreadable++ // the check of the blocks tells of it
		case h.Header.Root == c.report.Root:
			c.report.Found, c.report.Height = true, height
			return nil
		case height == lib:
			libRoot = h.Header.Root
		}
		if height == c.blocks.FirstHeight() {
			break
		}
	}
	problem := fmt.Sprintf("its root %s is that of no stored block from %d to %d", c.report.Root, c.blocks.FirstHeight(), lib)
	switch {
	case unreadable > 0:
		c.finding(c.cfg.Dir, fmt.Sprintf("%s, of which %d cannot be read", problem, unreadable), "mend the blocks first (bornode fsck --repair), then check again", false)
	case libRoot != (common.Hash{}) && rawdb.ReadStateID(c.store, libRoot) != nil:
		c.finding(c.cfg.Dir, problem+": it is of a branch that lost", "the next start takes it back by its history", true)
	default:
		c.finding(c.cfg.Dir, problem, "the next start sets the state aside and executes the blocks again (a node that pruned blocks joins again with an empty data folder)", false)
	}
	return nil
}

// checkHistory looks at the files that take a state back. A crash leaves their ends uneven behind the state's change,
// which costs nothing: the start cuts them. What is missing or shorter than the state needs costs the state.
func (c *stateCheck) checkHistory() error {
	id := rawdb.ReadPersistentStateID(c.store)
	dir := filepath.Join(c.cfg.ancientDir(), rawdb.MerkleStateFreezerName)
	if c.failed != nil || id == 0 {
		return c.failed
	}
	if _, err := os.Stat(filepath.Join(dir, "FLOCK")); err != nil { // to open it would make the file
		c.finding(dir, fmt.Sprintf("the history of the state cannot be opened: %v", err), StateFault(c.cfg.Dir, "", err).Remedy, false)
		return nil
	}
	history, err := rawdb.NewStateFreezer(c.cfg.ancientDir(), false, true)
	if err != nil {
		whole, counted := wholeHistory(dir)
		switch {
		case counted != nil:
			c.fault(StateFault(c.cfg.Dir, dir, counted))
		case whole < id:
			c.finding(dir, fmt.Sprintf("the history of the state is whole up to change %d only, the state is at change %d: %v", whole, id, err),
				"the next start finds it damaged, and the one after that sets the state aside and rebuilds it from the blocks (a node that pruned blocks joins again with an empty data folder)", false)
		default:
			c.finding(dir, fmt.Sprintf("the history of the state is uneven: %v", err),
				"a crash leaves this and the next start cuts it; if the start ends with an error instead, move "+c.cfg.Dir+" away and start again", true)
		}
		return nil
	}
	defer history.Close() //nolint:errcheck // only read
	head, err := history.Ancients()
	if err != nil {
		return err
	}
	if head < id {
		c.finding(dir, fmt.Sprintf("the history of the state ends with change %d, the state is at change %d", head, id), StateFault(c.cfg.Dir, "", errors.New("gap")).Remedy, false)
	}
	return nil
}

// readAll reads every key, and with it every block of every table and of the write-ahead log.
func (c *stateCheck) readAll(ctx context.Context) error {
	it := c.store.NewIterator(nil, nil)
	defer it.Release()
	for it.Next() {
		if c.report.Keys++; c.report.Keys%4096 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return it.Error()
}

// codeIsSound tells whether the code of an account is there and hashes to its name.
func (c *stateCheck) codeIsSound(hash []byte) bool {
	if bytes.Equal(hash, types.EmptyCodeHash[:]) {
		return true
	}
	code := rawdb.ReadCode(c.store, common.BytesToHash(hash))
	return len(code) > 0 && crypto.Keccak256Hash(code) == common.BytesToHash(hash)
}
