package chain

import (
	"errors"
	"fmt"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/ethdb"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/internal/vfs"
)

// Config says where and how the state is kept.
type Config struct {
	Dir              string        `mapstructure:"dir" comment:"directory of the state database"`
	StateHistory     uint64        `mapstructure:"state_history" comment:"blocks below the head whose states can be read; 0 keeps all (archive). Never less than twice max_reversible"`
	StateIndex       bool          `mapstructure:"state_index" comment:"index the kept states by account and slot, so that they can be read; built with each write of the state. false: states that are no longer in memory (128 blocks) are not readable, and executing costs less. For producers that answer no one; bornode init --producer writes false. When it is true again, the index is built in the background"`
	DatabaseCacheMiB int           `mapstructure:"database_cache_mib" comment:"memory for the key-value store's block cache and memtables"`
	TrieCacheMiB     int           `mapstructure:"trie_cache_mib" comment:"memory for clean trie nodes"`
	StateCacheMiB    int           `mapstructure:"state_cache_mib" comment:"memory for clean accounts and slots"`
	WriteBufferMiB   int           `mapstructure:"write_buffer_mib" comment:"state changes gathered in memory before they are written; at most 256"`
	BodyCacheMiB     int           `mapstructure:"body_cache_mib" comment:"memory for recent block bodies"`
	FlushBlocks      uint64        `mapstructure:"flush_blocks" comment:"blocks after which the state is written even if the write buffer is not full: bounds what a crash re-executes"`
	FlushGas         uint64        `mapstructure:"flush_gas" comment:"gas after which the state is written, likewise"`
	FlushInterval    time.Duration `mapstructure:"flush_interval" comment:"time after which the state is written, likewise: bounds how long a crash re-executes; 0: never for the time alone"`
	SenderWorkers    int           `mapstructure:"sender_workers" comment:"goroutines that recover senders; 0 uses all cores"`
	Handles          int           `mapstructure:"handles" comment:"open files of the state database"`

	// Recoveries are those that the operator applied, by hash (rule 13).
	Recoveries map[common.Hash]Recovery `mapstructure:"-"`
	// FS replaces the operating system's files below Dir, but for those of the database; nil in real use.
	FS vfs.FS `mapstructure:"-"`
	// OpenDatabase opens the database of the state; nil in real use, which is Pebble with go-ethereum's ancient directory.
	// An error says what an OpenFault or a StateFault says. A failure of the disk and damage that shows later are told to
	// fail, from any goroutine, at most once, with the file if it is known: it should not return.
	OpenDatabase func(cfg *Config, fail func(file string, err error)) (ethdb.Database, error) `mapstructure:"-"`
}

// Recovery is what a recovery makes of schedule and election, from the first block behind its base on.
type Recovery struct {
	Schedule block.Schedule
	Lost     []common.Address // producers that are candidates no more
}

// DefaultConfig suits a node with 2 GiB of memory.
func DefaultConfig() Config {
	return Config{
		Dir: "state", StateHistory: 90_000, StateIndex: true,
		DatabaseCacheMiB: 64, TrieCacheMiB: 64, StateCacheMiB: 64, WriteBufferMiB: 64, BodyCacheMiB: 64,
		FlushBlocks: 4096, FlushGas: 12_000_000_000, FlushInterval: 2 * time.Minute, Handles: 256,
	}
}

// Validate reports the first setting that cannot work.
func (c *Config) Validate() error {
	if c.Dir == "" {
		return errors.New("chain: dir is empty: name the directory of the state database")
	}
	for _, x := range []struct {
		name      string
		v, lo, hi int
	}{
		{"database_cache_mib", c.DatabaseCacheMiB, 16, 1 << 16},
		{"trie_cache_mib", c.TrieCacheMiB, 1, 1 << 16},
		{"state_cache_mib", c.StateCacheMiB, 1, 1 << 16},
		{"write_buffer_mib", c.WriteBufferMiB, 1, 256},
		{"body_cache_mib", c.BodyCacheMiB, 1, 1 << 16},
		{"sender_workers", c.SenderWorkers, 0, 1024},
		{"handles", c.Handles, 16, 1 << 16},
	} {
		if x.v < x.lo || x.v > x.hi {
			return fmt.Errorf("chain: %s is %d, must be from %d to %d", x.name, x.v, x.lo, x.hi)
		}
	}
	if c.FlushBlocks < layersKept {
		return fmt.Errorf("chain: flush_blocks is %d, must be at least %d", c.FlushBlocks, layersKept)
	}
	if c.FlushGas == 0 {
		return errors.New("chain: flush_gas is 0, must be positive")
	}
	if c.FlushInterval != 0 && c.FlushInterval < minFlushInterval {
		return fmt.Errorf("chain: flush_interval is %s, must be 0 or at least %s", c.FlushInterval, minFlushInterval)
	}
	return nil
}
