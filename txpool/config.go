package txpool

import (
	"fmt"
	"time"
)

// Config are the pool's limits.
type Config struct {
	AccountSlots uint64        `mapstructure:"account_slots" comment:"Transactions an account may always have waiting; beyond it only while the pool is less than half full."`
	GlobalSlots  uint64        `mapstructure:"global_slots" comment:"Slots of the whole pool; a transaction takes one per started 32 KiB."`
	AccountQueue uint64        `mapstructure:"account_queue" comment:"How far a transaction's nonce may run ahead of its account's next nonce."`
	GlobalQueue  uint64        `mapstructure:"global_queue" comment:"Transactions of the whole pool that may wait for a missing nonce; when it is full, the account with most of them gives up its newest for one with fewer."`
	PriceBump    uint64        `mapstructure:"price_bump" comment:"Percent by which a replacement must raise the fees of the transaction it replaces. Where fees are fixed at 0 it may also be free, after a second."`
	Lifetime     time.Duration `mapstructure:"lifetime" comment:"How long a transaction may wait for a missing nonce; 10s at most if its account has no balance and no transaction in a block."`
	Journal      string        `mapstructure:"journal" comment:"File that keeps transactions submitted at this node over a restart, not over a power cut; empty: none."`
	Rejournal    time.Duration `mapstructure:"rejournal" comment:"How often the journal is rewritten without what is in the chain."`
}

// DefaultConfig is the pool of DESIGN §6.
func DefaultConfig() Config {
	return Config{
		AccountSlots: 1024, GlobalSlots: 131072, AccountQueue: 1024, GlobalQueue: 16384,
		PriceBump: 10, Lifetime: 3 * time.Hour, Rejournal: 10 * time.Minute,
	}
}

// Validate names the first setting that cannot work.
func (c *Config) Validate() error {
	for _, x := range []struct {
		key string
		v   uint64
	}{{"account_slots", c.AccountSlots}, {"global_slots", c.GlobalSlots}, {"account_queue", c.AccountQueue}, {"global_queue", c.GlobalQueue}, {"price_bump", c.PriceBump}} {
		if x.v == 0 || x.v > 1<<24 {
			return fmt.Errorf("pool.%s is %d; set it to 1 to %d", x.key, x.v, 1<<24)
		}
	}
	if c.AccountSlots > c.GlobalSlots {
		return fmt.Errorf("pool.account_slots (%d) is above pool.global_slots (%d)", c.AccountSlots, c.GlobalSlots)
	}
	if c.Lifetime < time.Second {
		return fmt.Errorf("pool.lifetime is %s; set it to at least 1s", c.Lifetime)
	}
	if c.Journal != "" && c.Rejournal < time.Second {
		return fmt.Errorf("pool.rejournal is %s; set it to at least 1s", c.Rejournal)
	}
	return nil
}
