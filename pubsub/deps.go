package pubsub

import (
	"context"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/bornode/bornode/pubsub/evidence"
	"github.com/bornode/bornode/pubsub/ledger"
	"github.com/bornode/bornode/pubsub/proof"
	"github.com/bornode/bornode/pubsub/replica"
	"github.com/bornode/bornode/pubsub/store"
)

// Ledger is the final state of the contract Topics.
type Ledger interface {
	// View is the newest one; nil before the first final block was read.
	View() *ledger.View
	// Changed is closed when there is a newer view.
	Changed() <-chan struct{}
	// StaleFor is how long no final block came, or how old the newest one is.
	StaleFor() time.Duration
}

// Replicas keep the log of every partition on several brokers.
type Replicas interface {
	SetLeases(changed []replica.Lease) error
	Drop(id replica.ID) error
	// Spent: this broker is no replica, and what it alone had is with the leader.
	Spent(id replica.ID) bool
	// DataLost: this broker has the lease and may not lead, as replicas lost their disks.
	DataLost(id replica.ID) bool
	Append(ctx context.Context, id replica.ID, raw []byte, acks int16) (replica.Pending, error)
	Leader(id replica.ID) (epoch int32, ready bool)
	HighWatermark(id replica.ID) int64
	InSync(id replica.ID) []string
	CutOff(id replica.ID) bool
	Reach(peer string) (linked bool, quiet time.Duration)
	// DeleteBefore deletes records here and at the other replicas.
	DeleteBefore(id replica.ID, offset int64) error
}

// Submitter sends calls of the broker's account to the contract; it returns when they are final.
type Submitter interface {
	Submit(ctx context.Context, kind string, data []byte) error
}

// Evidence keeps what proves the log later. All methods but Ready and Spare, and Receipt for a moment, are quick.
type Evidence interface {
	// Sign begins a receipt, the broker's signature over a batch that has its place.
	Sign(p proof.Placed) evidence.Signing
	// Receipt is that of a batch which was in the log before; nil: there is none.
	Receipt(ctx context.Context, id evidence.ID, base int64) []byte
	// Committed says that a partition has more committed batches.
	Committed(id evidence.ID)
	// Ready waits while so many operations wait for the chain that clients must slow down.
	Ready(ctx context.Context) error
	// Spare is Ready with a lower limit for principals whom the ledger does not know: they must not stop those it knows.
	Spare(ctx context.Context, stranger func() bool) error
	// Offset queues a group's committed offset for the ledger; false: too many wait.
	Offset(o evidence.Offset, offset int64) bool
	// Operated is told of every operation on a topic; the zero topic stands for names that no topic has. The operation
	// counts for, or against, its operator's reputation in a tenant, or with the zero tenant in none.
	Operated(topic, tenant [32]byte, op proof.Operation)
}

// Deps are the parts a broker works with.
type Deps struct {
	PeerID    string // of this node
	Account   common.Address
	ClusterID string
	Ledger    Ledger
	Store     *store.Store
	Replicas  Replicas
	Submit    Submitter
	Final     func() uint64 // height of the newest final block; not below one in which a submitted call is final
	Evidence  Evidence      // nil: nothing is proved
	Now       func() time.Time
	Log       *zap.Logger
	Registry  prometheus.Registerer
}
