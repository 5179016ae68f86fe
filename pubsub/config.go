package pubsub

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/bornode/bornode/contracts"
	"github.com/bornode/bornode/pubsub/evidence"
	"github.com/bornode/bornode/pubsub/group"
	"github.com/bornode/bornode/pubsub/kafka"
	"github.com/bornode/bornode/pubsub/replica"
	"github.com/bornode/bornode/pubsub/store"
)

// Config are the settings of a broker.
type Config struct {
	Enabled   bool   `mapstructure:"enabled" comment:"Serve topics to Kafka clients. The node must have the broker role in Members (docs/topics.md)."`
	Dir       string `mapstructure:"dir" comment:"The broker's folder."`
	Key       string `mapstructure:"key_file" comment:"File with the private key of the broker's account, 64 hexadecimal digits, mode 0600: it registers the broker, claims partitions and signs receipts. Empty: the producer's account."`
	Advertise string `mapstructure:"advertise" comment:"host:port under which clients and other brokers reach this broker; it is registered on the chain."`

	OffsetReplicas int           `mapstructure:"offset_replicas" comment:"Replicas of _bps.offsets, which keeps consumer groups: the topic is made when so many brokers live."`
	UncleanOffsets bool          `mapstructure:"unclean_offsets" comment:"Let _bps.offsets go on with what is left where most of its replicas lost their disks: committed offsets may be lost. For that time only."`
	ReplaceAfter   time.Duration `mapstructure:"replace_after" comment:"A broker that is silent for so long loses its replicas to another one, where there is one and a majority of the others is there; 0: never."`

	LedgerAge time.Duration `mapstructure:"ledger_age" comment:"Serve clients by the ledger as it was, at most for so long without a final block: what was revoked since is not known. Then they are sent away until the chain goes on."`

	Kafka    kafka.Config    `mapstructure:"kafka" comment:"The endpoint for Kafka clients."`
	Store    store.Config    `mapstructure:"store" comment:"The log on disk."`
	Replica  replica.Config  `mapstructure:"replica" comment:"Copies of the log on other brokers."`
	Group    group.Config    `mapstructure:"group" comment:"Consumer groups."`
	Evidence evidence.Config `mapstructure:"evidence" comment:"What proves the log later: checkpoints and operations on the chain, receipts."`
}

// DefaultConfig has the broker off.
func DefaultConfig() Config {
	c := Config{Dir: "topics", OffsetReplicas: 3, ReplaceAfter: 10 * time.Minute, LedgerAge: 10 * time.Minute, Kafka: kafka.DefaultConfig(),
		Store: store.DefaultConfig(), Replica: replica.DefaultConfig(), Group: group.DefaultConfig(), Evidence: evidence.DefaultConfig()}
	c.Store.Dir = "log"
	return c
}

// Validate names the first setting that cannot work. A broker that is off is not judged.
func (c *Config) Validate() error {
	if !c.Enabled {
		return nil
	}
	if c.Dir == "" {
		return errors.New("pubsub.dir is empty: name the broker's folder")
	}
	if _, _, err := c.Address(); err != nil {
		return err
	}
	if c.OffsetReplicas < 1 || c.OffsetReplicas > contracts.MaxReplicas {
		return fmt.Errorf("pubsub.offset_replicas is %d; set it to 1 to %d, the same at every broker", c.OffsetReplicas, contracts.MaxReplicas)
	}
	if c.LedgerAge < minLedgerAge {
		return fmt.Errorf("pubsub.ledger_age is %v; it is at least %v, since a chain may pause for a while", c.LedgerAge, minLedgerAge)
	}
	if c.ReplaceAfter < 0 || c.ReplaceAfter > 0 && c.ReplaceAfter <= c.Replica.Lost {
		return fmt.Errorf("pubsub.replace_after is %v; set it to longer than pubsub.replica.lost (%v), or to 0 to replace no silent broker", c.ReplaceAfter, c.Replica.Lost)
	}
	if err := c.Kafka.Validate(); err != nil {
		return err
	}
	if err := c.Store.Validate(); err != nil {
		return err
	}
	if err := c.Replica.Validate(); err != nil {
		return err
	}
	if err := c.Group.Validate(); err != nil {
		return err
	}
	return c.Evidence.Validate()
}

// attendance is for how long the ledger counts on this broker after each time that it says so: as long as others are to
// wait for it.
func (c *Config) attendance() time.Duration {
	d := c.ReplaceAfter
	if d == 0 {
		d = attendUnsaid
	}
	return min((d + time.Second - 1).Truncate(time.Second), contracts.MaxAttendance*time.Second)
}

// Address is Advertise in its parts.
func (c *Config) Address() (host string, port uint16, err error) {
	host, text, err := net.SplitHostPort(c.Advertise)
	n, e := strconv.ParseUint(text, 10, 16)
	if err != nil || e != nil || host == "" || n == 0 {
		return "", 0, fmt.Errorf("pubsub.advertise is %q; write host:port as clients reach this broker, like broker1.example.org:9093", c.Advertise)
	}
	return host, uint16(n), nil
}
