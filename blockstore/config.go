package blockstore

import (
	"errors"
	"fmt"
	"time"

	"github.com/bornode/bornode/internal/vfs"
)

// Config says where the store is and how much memory it may take.
type Config struct {
	Dir          string `mapstructure:"dir" comment:"directory of the block store"`
	SegmentBytes int64  `mapstructure:"segment_bytes" comment:"size at which a segment file is sealed, bytes"`
	KeepBlocks   uint64 `mapstructure:"keep_blocks" comment:"newest irreversible blocks that are kept; older ones are deleted in whole segment files. 0, with keep_days 0 too, keeps all. With both set a block goes when neither wants it"`
	KeepDays     uint64 `mapstructure:"keep_days" comment:"days for which irreversible blocks are kept, counted back from the time of the newest one; 0: keep_blocks alone decides"`
	CacheBytes   int    `mapstructure:"cache_bytes" comment:"decoded blocks kept for readers, bytes of their encoding"`
	MetaBuffer   int    `mapstructure:"meta_buffer_bytes" comment:"write buffer of the database of reversible blocks, bytes"`
	IndexBuffer  int    `mapstructure:"index_buffer_bytes" comment:"write buffer of the database of receipts and transaction index, bytes"`
	IndexCache   int    `mapstructure:"index_cache_bytes" comment:"read cache of the database of receipts and transaction index, bytes"`

	RepairWait time.Duration `mapstructure:"repair_wait" comment:"longest time that the reader of a damaged final block waits until it was fetched again from a peer; 0: it is told at once"`
	HealWait   time.Duration `mapstructure:"heal_wait" comment:"longest time that a start waits for a damaged block while no connected peer has it; then the node ends with what to do"`

	// FS replaces the operating system's files; nil in real use.
	FS vfs.FS `mapstructure:"-"`
}

// DefaultConfig suits a node with a few GiB of memory. Dir is left empty.
func DefaultConfig() Config {
	return Config{
		SegmentBytes: 64 << 20,
		CacheBytes:   32 << 20,
		MetaBuffer:   16 << 20,
		IndexBuffer:  16 << 20,
		IndexCache:   16 << 20,
		RepairWait:   5 * time.Second,
		HealWait:     2 * time.Minute,
	}
}

// Validate says what is wrong with the settings.
func (c *Config) Validate() error {
	var errs []error
	if c.Dir == "" && c.FS == nil {
		errs = append(errs, errors.New("blockstore: dir is empty; name the directory of the block store"))
	}
	if c.SegmentBytes < minSegmentBytes || c.SegmentBytes > maxSegmentBytes {
		errs = append(errs, fmt.Errorf("blockstore: segment_bytes is %d; use %d to %d", c.SegmentBytes, minSegmentBytes, maxSegmentBytes))
	}
	if c.RepairWait < 0 || c.RepairWait > maxRepairWait {
		errs = append(errs, fmt.Errorf("blockstore: repair_wait is %v; use 0 to %v", c.RepairWait, maxRepairWait))
	}
	if c.HealWait < 0 {
		errs = append(errs, fmt.Errorf("blockstore: heal_wait is %v; use 0 or more", c.HealWait))
	}
	if c.KeepDays > maxKeepDays {
		errs = append(errs, fmt.Errorf("blockstore: keep_days is %d; use 0 (keep all, or what keep_blocks says) to %d", c.KeepDays, maxKeepDays))
	}
	for _, x := range []struct {
		name  string
		value int
		low   int
	}{{"cache_bytes", c.CacheBytes, 0}, {"meta_buffer_bytes", c.MetaBuffer, 4 << 10}, {"index_buffer_bytes", c.IndexBuffer, 4 << 10}, {"index_cache_bytes", c.IndexCache, 0}} {
		if x.value < x.low || x.value > 1<<30 {
			errs = append(errs, fmt.Errorf("blockstore: %s is %d; use %d to %d", x.name, x.value, x.low, 1<<30))
		}
	}
	return errors.Join(errs...)
}
