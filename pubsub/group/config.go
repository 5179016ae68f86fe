package group

import (
	"fmt"
	"time"
)

// Config are the coordinator's limits.
type Config struct {
	MinSession   time.Duration `mapstructure:"min_session" comment:"Shortest session timeout a consumer may ask for."`
	MaxSession   time.Duration `mapstructure:"max_session" comment:"Longest session timeout a consumer may ask for."`
	InitialDelay time.Duration `mapstructure:"initial_delay" comment:"How long the first rebalance of an empty group waits for further members."`
	Retention    time.Duration `mapstructure:"offset_retention" comment:"How long the offsets of a group without members are kept; 0: for ever."`
	Members      int           `mapstructure:"group_members" comment:"Members of one consumer group."`
	Groups       int           `mapstructure:"groups" comment:"Groups of one tenant in each of the 16 partitions of the offsets topic."`
	Offsets      int           `mapstructure:"group_offsets" comment:"Committed partitions of all groups of one tenant in each of the 16 partitions of the offsets topic."`
	AppendWait   time.Duration `mapstructure:"offset_commit_timeout" comment:"How long an offset commit may wait for its replicas."`
	LedgerWindow time.Duration `mapstructure:"offset_ledger_window" comment:"After a take-over, offsets committed within this time are handed to the ledger again."`
}

// DefaultConfig is close to Kafka's.
func DefaultConfig() Config {
	return Config{
		MinSession: time.Second, MaxSession: 30 * time.Minute, InitialDelay: time.Second, Retention: 7 * 24 * time.Hour,
		Members: 1000, Groups: 1000, Offsets: 100_000, AppendWait: 10 * time.Second, LedgerWindow: 10 * time.Minute,
	}
}

// Validate names the first setting that cannot work.
func (c *Config) Validate() error {
	if c.MinSession < 10*time.Millisecond || c.MaxSession < c.MinSession || c.MaxSession > 24*time.Hour {
		return fmt.Errorf("pubsub.group.min_session (%s) and max_session (%s): set them to at least 10ms and at most 24h, the smaller one first", c.MinSession, c.MaxSession)
	}
	if c.InitialDelay < 0 || c.InitialDelay > time.Minute {
		return fmt.Errorf("pubsub.group.initial_delay is %s; set it to 0s to 1m", c.InitialDelay)
	}
	if c.Retention != 0 && c.Retention < time.Minute {
		return fmt.Errorf("pubsub.group.offset_retention is %s; set it to at least 1m, or to 0s for no end", c.Retention)
	}
	for _, x := range []struct {
		key string
		v   int
	}{{"group_members", c.Members}, {"groups", c.Groups}, {"group_offsets", c.Offsets}} {
		if x.v < 1 || x.v > 1<<20 {
			return fmt.Errorf("pubsub.group.%s is %d; set it to 1 to %d", x.key, x.v, 1<<20)
		}
	}
	if c.AppendWait < 10*time.Millisecond || c.AppendWait > 5*time.Minute {
		return fmt.Errorf("pubsub.group.offset_commit_timeout is %s; set it to 10ms to 5m", c.AppendWait)
	}
	if c.LedgerWindow < 0 {
		return fmt.Errorf("pubsub.group.offset_ledger_window is %s; it cannot be negative", c.LedgerWindow)
	}
	return nil
}
