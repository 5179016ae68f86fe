package replica

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
)

// Errors of Append and Wait; test with errors.Is.
var (
	// ErrNotLeader: another broker leads the partition, or none. NOT_LEADER_OR_FOLLOWER. From Wait: leadership ended
	// meanwhile, and the batch may or may not be there afterwards.
	ErrNotLeader = errors.New("replica: this broker does not lead the partition")
	// ErrNotReady: this broker is taking the partition over. NOT_LEADER_OR_FOLLOWER or LEADER_NOT_AVAILABLE: try again.
	ErrNotReady = errors.New("replica: the partition is being taken over")
	// ErrLost: this broker is to lead the partition, and so many of its replicas lost their disks that what was committed
	// may be gone: its owner has to decide. KAFKA_STORAGE_ERROR.
	ErrLost = errors.New("replica: most replicas of the partition lost their disks")
	// ErrNoQuorum: no majority of the replicas is there, and nothing was written. NOT_ENOUGH_REPLICAS: clients look for
	// another leader then.
	ErrNoQuorum = errors.New("replica: no majority of the partition's replicas can be reached")
	// ErrNoQuorumAfter: the same, and the batch is in this broker's log and may become committed later.
	// NOT_ENOUGH_REPLICAS_AFTER_APPEND.
	ErrNoQuorumAfter = errors.New("replica: the batch is written, and no majority of the partition's replicas can be reached")
	// ErrTooLarge: the batch exceeds MaxBatchBytes.
	ErrTooLarge = errors.New("replica: batch too large")
	// ErrBatch: not one whole batch, or one whose producer id is among those that brokers use. INVALID_RECORD.
	ErrBatch = errors.New("replica: not one batch of a producer")
	// ErrBusy: too many appends of the partition, or questions of this broker, wait already.
	ErrBusy = errors.New("replica: too much is under way")
	// ErrNoPeer: there is no link with that broker.
	ErrNoPeer = errors.New("replica: no link with the broker")
	// ErrStopped: the manager has ended.
	ErrStopped = errors.New("replica: stopped")
)

// Config sets the times of replication. Start from DefaultConfig.
type Config struct {
	Heartbeat time.Duration `mapstructure:"heartbeat" comment:"A broker tells every other broker this often that it lives."`
	Lost      time.Duration `mapstructure:"lost" comment:"A leader that is silent for this long is taken for dead; one that hears no majority for this long refuses acks=all."`
	ClaimStep time.Duration `mapstructure:"claim_step" comment:"The second replica in line claims a dead leader's partitions this much later than the first, and so on."`
	ClaimTime time.Duration `mapstructure:"claim_time" comment:"A leader that hears no majority stops taking acks=1 this long after it stopped acks=all: others lead by then."`
}

// DefaultConfig returns the settings for a data-centre network.
func DefaultConfig() Config {
	return Config{Heartbeat: defaultHeartbeat, Lost: defaultLost, ClaimStep: defaultClaimStep, ClaimTime: defaultClaimTime}
}

// Validate reports the first setting that cannot work.
func (c *Config) Validate() error {
	switch {
	case c.Heartbeat < 10*time.Millisecond:
		return errors.New("replica: heartbeat must be at least 10ms")
	case c.Lost < 2*c.Heartbeat:
		return errors.New("replica: lost must be at least two heartbeats, else a quiet leader looks dead")
	case c.ClaimStep < 0 || c.ClaimTime < 0:
		return errors.New("replica: claim_step and claim_time must not be negative")
	}
	return nil
}

// Lease says who leads a partition and who keeps copies, as the contract has it. Brokers are named by peer id.
type Lease struct {
	Topic     [32]byte
	Partition int32
	Epoch     int32 // rises with every leader
	Leader    string
	Replicas  []string
	// Whole: this broker's store is older than its place among the replicas, so a log without a promise lacks nothing.
	Whole bool
	// Unclean: the owner wants a leader also where a majority of the replicas has lost its disks, from what is left.
	Unclean bool
}

// ID is the partition's name.
func (l *Lease) ID() ID { return ID{Topic: l.Topic, Partition: l.Partition} }

// before reports that another lease says nothing new: it is older, or the same. Under one epoch only the names of peers
// change, when a broker registers anew, and what the owner wants.
func (l *Lease) before(now *Lease) bool {
	return l.Epoch < now.Epoch || l.same(now) && l.Unclean == now.Unclean
}

// same reports that who leads and who follows is the same.
func (l *Lease) same(now *Lease) bool {
	return l.Epoch == now.Epoch && l.Leader == now.Leader && slices.Equal(l.Replicas, now.Replicas)
}

func (l *Lease) check() error {
	switch {
	case l.Partition < 0 || l.Partition >= stashBit || l.Epoch < 0:
		return fmt.Errorf("replica: lease of partition %d, epoch %d: negative or too large", l.Partition, l.Epoch)
	case len(l.Replicas) > MaxReplicas:
		return fmt.Errorf("replica: lease with %d replicas, %d allowed", len(l.Replicas), MaxReplicas)
	}
	for _, r := range l.Replicas {
		if len(r) > maxPeerBytes {
			return fmt.Errorf("replica: lease with a peer id of %d bytes", len(r))
		}
	}
	return nil
}

// Lost names a partition that this broker should claim now: its leader of the epoch is silent or cannot go on.
type Lost struct {
	ID    ID
	Epoch int32 // of the lease that is to be superseded
	Rank  int   // this broker's place in line; the time it stands for has passed already
}

// Deps are the parts that the Manager works with. Self and Store are needed. The callbacks are called from the Manager's
// goroutines, often with a partition's lock held: they must be quick, and must not call the Manager back.
type Deps struct {
	Self  string // peer id of this broker
	Store Store
	Log   *zap.Logger
	// Broker tells whether a peer is a broker in final chain state: only brokers may hand batches over that other logs
	// lack, and ask questions. All else follows from leases. nil: every peer is.
	Broker func(peer string) bool
	// Registry takes the metrics; nil: none.
	Registry prometheus.Registerer
	// Lost is told which partitions to claim, again every two seconds while their leases stand.
	Lost func([]Lost)
	// OnLead is told that this broker leads a partition from now on, and may append.
	OnLead func(id ID, epoch int32)
	// OnCommitted is told, in order and without a gap but for what retention took away, that [from, to) of this
	// broker's log is committed; on all replicas. After a restart it goes on from the last Committed that the log kept.
	OnCommitted func(id ID, from, to int64)
}

// Pending is an append under way.
type Pending interface {
	// Wait gives the batch's base offset and append time (ms) once it is as safe as was asked. An error says that this
	// is not known; the batch may still be in the log.
	Wait(ctx context.Context) (base int64, appendTime int64, err error)
	// Duplicate says that the producer had sent the batch before: it is where it was then, and these bytes have no place.
	Duplicate() bool
}
