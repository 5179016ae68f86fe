package store

import (
	"errors"
	"fmt"
	"time"
)

// Config says where the store is and how it trades memory and waiting.
type Config struct {
	Dir           string        `mapstructure:"dir" comment:"directory of the topic store"`
	SegmentBytes  int64         `mapstructure:"segment_bytes" comment:"size at which a segment of the log is sealed, bytes"`
	SegmentAge    time.Duration `mapstructure:"segment_age" comment:"age at which a segment is sealed though not full, so that retention by time can remove it"`
	FsyncInterval time.Duration `mapstructure:"fsync_interval" comment:"longest time that records nobody waits for stay unsynced"`
	CacheBytes    int64         `mapstructure:"cache_bytes" comment:"newest bytes of the log kept in memory for readers"`
	ReserveBytes  int64         `mapstructure:"reserve_bytes" comment:"size of a file that is given up when the disk is full, so that retention can still be written down, bytes"`

	retry time.Duration // after a failed write; 0: retryInterval
	clock *machineClock // nil: the machine's
}

// DefaultConfig suits a broker with a few GiB of memory. Dir is left empty.
func DefaultConfig() Config {
	return Config{SegmentBytes: 256 << 20, SegmentAge: time.Hour, FsyncInterval: 2 * time.Millisecond, CacheBytes: 64 << 20, ReserveBytes: 8 << 20}
}

// Validate says what is wrong with the settings. Dir may be empty when Open is given a file system.
func (c *Config) Validate() error {
	var errs []error
	if c.SegmentBytes < minSegmentBytes || c.SegmentBytes > maxSegmentBytes {
		errs = append(errs, fmt.Errorf("topic store: segment_bytes is %d; use %d to %d", c.SegmentBytes, minSegmentBytes, maxSegmentBytes))
	}
	if c.SegmentAge < time.Second {
		errs = append(errs, fmt.Errorf("topic store: segment_age is %v; use 1s or more", c.SegmentAge))
	}
	if c.FsyncInterval < 0 || c.FsyncInterval > time.Minute {
		errs = append(errs, fmt.Errorf("topic store: fsync_interval is %v; use 0s to 1m", c.FsyncInterval))
	}
	if c.CacheBytes < 0 || c.CacheBytes > 16<<30 {
		errs = append(errs, fmt.Errorf("topic store: cache_bytes is %d; use 0 to %d", c.CacheBytes, int64(16)<<30))
	}
	if c.ReserveBytes < 0 || c.ReserveBytes > 1<<30 {
		errs = append(errs, fmt.Errorf("topic store: reserve_bytes is %d; use 0 to %d", c.ReserveBytes, 1<<30))
	}
	return errors.Join(errs...)
}

// Retention says how much of a partition is kept; 0 is for ever. Age counts from when this broker appended a batch. Both
// are lower bounds: whole pieces are dropped, and nothing above the high watermark.
type Retention struct {
	Bytes int64
	Age   time.Duration
}
