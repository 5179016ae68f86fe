package chain

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/ethereum/go-ethereum/trie"

	"github.com/bornode/bornode/internal/exit"
)

// stateRemedy is what helps a damaged state: it holds nothing that the blocks do not.
const stateRemedy = "the node can rebuild it from its blocks: move the folder away and start again (a node that pruned " +
	"blocks joins again with an empty data folder)"

// StateFault describes a failure of the state database in dir. file is the one that failed, "" if that is unknown.
func StateFault(dir, file string, cause error) *exit.Fault {
	f := &exit.Fault{What: "the state database is damaged", File: dir, Cause: cause, Remedy: stateRemedy}
	if file != "" {
		f.File = file
		f.Remedy = "the node can rebuild it from its blocks: move the folder " + dir + " away and start again (a node that " +
			"pruned blocks joins again with an empty data folder)"
	}
	switch exit.Code(cause) {
	case exit.Disk:
		f.What, f.Remedy = "the disk of the state database failed", "free space on it, or look at the kernel's log and replace it, then start again: nothing final is lost"
	case exit.Resources:
		f.What, f.Remedy = "the state database lacks open files or memory", "raise the process's limit (ulimit -n, or LimitNOFILE of the service) or lower chain.handles, then start again: nothing final is lost"
	}
	return f
}

// EndByStateFault is StateFault for a running node, which ends by it. If the state is damaged, a mark in its folder has the
// next start set it aside and rebuild it, and the fault says so. A second call changes nothing.
func EndByStateFault(dir, file string, cause error) *exit.Fault {
	return endByStateFault(&Config{Dir: dir}, file, cause)
}

func endByStateFault(cfg *Config, file string, cause error) *exit.Fault {
	f := StateFault(cfg.Dir, file, cause)
	if exit.Code(f) != exit.Damage || markDamaged(cfg.files(), f) != nil { // without the mark an operator has to move it
		return f
	}
	f.Mends = true
	f.Remedy = "start again: the node sets the state aside and rebuilds it from its blocks (a node that pruned blocks joins again with an empty data folder)"
	return f
}

// stateReadFault makes a node of the state that is missing or not the one that its parent names the end that it is: the
// database lost writes (a lost file of its write-ahead log, say), which nothing finds before the node is read. pathdb says
// this in words only. Layers that went while they were read are another error, and no damage.
func stateReadFault(cfg *Config, err error) error {
	var missing *trie.MissingNodeError
	if errors.As(err, &missing) && strings.Contains(missing.Error(), "unexpected node") {
		return endByStateFault(cfg, "", err)
	}
	return err
}

// OpenFault describes why the state database does not open. A refusal (of the system, of a lock, of a format) says nothing
// about what the database holds: it must not be moved away for it.
func OpenFault(dir, file string, cause error) error {
	said := cause.Error() // Pebble and go-ethereum say some refusals in words only
	if errors.Is(cause, os.ErrPermission) || errors.Is(cause, syscall.EAGAIN) || errors.Is(cause, syscall.EBUSY) || strings.Contains(said, "lock held by current process") ||
		strings.Contains(said, "locking failed") || strings.Contains(said, "written in unknown format") {
		return fmt.Errorf("the state database (%s) cannot be opened: %w", file, cause)
	}
	return StateFault(dir, file, cause)
}

// keyValueDir is where the key-value store of the state lies, ancientDir its history.
func (c *Config) keyValueDir() string { return filepath.Join(c.Dir, "kv") }
func (c *Config) ancientDir() string  { return filepath.Join(c.Dir, "ancient") }
