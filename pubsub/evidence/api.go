package evidence

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/bornode/bornode/pubsub/batch"
	"github.com/bornode/bornode/pubsub/proof"
)

// Questions that evidence puts to other brokers.
const (
	AskHeads      uint8 = 1 // of partitions that the other leads
	AskLeaves     uint8 = 2 // of a partition's tree
	AskCheckpoint uint8 = 3 // the heads behind a checkpoint
)

// ID names a partition.
type ID struct {
	Topic     [32]byte
	Partition int32
}

// Config sets the pace. Start from DefaultConfig.
type Config struct {
	Checkpoint time.Duration `mapstructure:"checkpoint" comment:"A topic that grew gets a checkpoint on the chain this often."`
	Window     time.Duration `mapstructure:"window" comment:"Equal operations of one principal within this time become one entry of the operations log."`
	Receipt    time.Duration `mapstructure:"receipt" comment:"Receipts for the clients that ask are signed together, at most once in this time; 0: none are given."`
	Off        string        `mapstructure:"off" comment:"Leave empty. \"for measuring\" stops leaves, receipts, checkpoints and operations, to measure what they cost: nothing written meanwhile can be proved."`
}

// OffForMeasuring is the one value besides nothing that Config.Off takes: nobody sets it by mistake.
const OffForMeasuring = "for measuring"

// DefaultConfig returns the settings for a consortium's network.
func DefaultConfig() Config {
	return Config{Checkpoint: 5 * time.Second, Window: time.Second, Receipt: 2 * time.Millisecond}
}

// Validate reports the first setting that cannot work.
func (c *Config) Validate() error {
	switch {
	case c.Checkpoint < 100*time.Millisecond || c.Checkpoint > time.Hour:
		return errors.New("pubsub.evidence: checkpoint must lie between 100ms and 1h")
	case c.Window < 10*time.Millisecond || c.Window > time.Minute:
		return errors.New("pubsub.evidence: window must lie between 10ms and 1m")
	case c.Receipt < 0 || c.Receipt > time.Second:
		return errors.New("pubsub.evidence: receipt must lie between 0 and 1s")
	case c.Off != "" && c.Off != OffForMeasuring:
		return fmt.Errorf("pubsub.evidence: off is %q; leave it empty: without evidence nothing that is written can be proved (%q is for measuring what it costs)", c.Off, OffForMeasuring)
	}
	return nil
}

// Log is the broker's log.
type Log interface {
	// Batches calls f with the batches from the one that begins at an offset, up to an offset; what is asked for is
	// committed but for a receipt's batch. f neither changes nor keeps raw.
	Batches(id ID, from, upTo int64, f func(h batch.Header, raw []byte) error) error
	// Bounds are the first offset kept and the first that is not committed; false: the broker has no such log.
	Bounds(id ID) (start, committed int64, ok bool)
}

// Peers puts questions to other brokers. Answers of up to 1 MiB.
type Peers interface {
	Ask(ctx context.Context, peer string, kind uint8, payload []byte) ([]byte, error)
}

// Topic is a topic of the ledger with its leases.
type Topic struct {
	ID         [32]byte
	Partitions []Partition
}

// Partition is a lease: peer ids, and the leader's account.
type Partition struct {
	Leader   string
	Account  common.Address
	Replicas []string
}

// Mark is the newest checkpoint of a topic in the final state. Seq 0: none.
type Mark struct {
	Seq, Leaves uint64
	Root        proof.Hash
}

// Ledger is the final state of the contract.
type Ledger interface {
	Topics() []Topic
	Topic(id [32]byte) (Topic, bool)
	Mark(ctx context.Context, topic [32]byte) (Mark, error)
	Commits(ctx context.Context, broker common.Address) (uint64, error)
}

// Offset is a group's committed offset.
type Offset struct {
	Group     [32]byte
	Topic     [32]byte
	Partition int32
}

// Deps are what the Evidence works with. All are needed but Registry and Now.
type Deps struct {
	Dir      string // of the database
	Self     string // peer id
	Account  common.Address
	Chain    common.Hash // block 0
	Log      Log
	Peers    Peers
	Ledger   Ledger
	Submit   func(ctx context.Context, kind string, data []byte) error // returns when the call is final
	Sign     func(common.Hash) ([]byte, error)
	Logger   *zap.Logger
	Registry prometheus.Registerer
	Now      func() time.Time
}

// Alarm is something that must not be.
type Alarm struct {
	Time      time.Time
	Topic     [32]byte
	Partition int32 // -1: the topic
	Offset    int64 // -1: not known
	Seq       uint64
	Text      string
}

func (a Alarm) String() string {
	return fmt.Sprintf("topic %x, partition %d, checkpoint %d: %s", a.Topic[:8], a.Partition, a.Seq, a.Text)
}

// ErrNotProved says that something is not covered by a final checkpoint yet.
var ErrNotProved = errors.New("not covered by a checkpoint yet")

// ErrOff says that this broker makes no evidence, by its settings.
var ErrOff = errors.New("this broker's evidence is off, for measuring")

// ErrUnknown says that this broker does not keep what was asked for; another may.
var ErrUnknown = errors.New("this broker does not keep it; ask another broker of the topic")
