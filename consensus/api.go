package consensus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/chain"
	"github.com/bornode/bornode/consensus/clock"
	"github.com/bornode/bornode/consensus/dpos"
	"github.com/bornode/bornode/internal/exit"
)

// Errors of the calls that carry peers' input, by what the caller does. Test with errors.Is.
var (
	ErrInvalid       = errors.New("invalid")                               // breaks a rule: penalise the peer that sent it
	ErrUnknownParent = errors.New("parent is not known")                   // ask for the blocks in between
	ErrKnown         = errors.New("already known")                         // drop
	ErrFuture        = errors.New("ahead of the clock")                    // drop; it may come again later
	ErrBelowLIB      = errors.New("not above the last irreversible block") // drop
	ErrStopped       = errors.New("consensus driver has stopped")
	// ErrRecovered says that a block goes on by a recovery that is not applied here. A peer with which this node agreed about
	// the recoveries has no such block: penalise it. In a file it says what the operator has to apply.
	ErrRecovered = errors.New("goes on by a recovery that is not applied here")
	// ErrNotReady refuses what would change the machine before the chain has executed again what its last stop left
	// without a state. It says nothing about who sent it.
	ErrNotReady = errors.New("this node executes blocks again after its last stop and takes nothing new before that is done")
	// ErrSecondCopy ends Run: another instance signs for this producer, and was there first.
	ErrSecondCopy error = secondCopy{}
)

// secondCopy is ErrSecondCopy, which has an exit code of its own.
type secondCopy struct{}

func (secondCopy) Error() string { return "another running instance signs for this producer" }
func (secondCopy) ExitCode() int { return exit.Instance }

// Chain is what the driver asks of package chain. CheckBody and Add are called from any goroutine; all others only
// from the driver's execution goroutine, one at a time.
type Chain interface {
	CheckBody(b *block.Block, trustSenders bool) error // errors wrap chain.ErrInvalidBody if the body is at fault
	Add(blocks []*block.Block) error                   // durable when it returns
	SetHead(ctx context.Context, hash common.Hash) (chain.SetHeadResult, error)
	ImportFinal(ctx context.Context, blocks []*block.Block, fin block.FinalUpdate) error
	Finalize(fin block.FinalUpdate) error
	SetSafe(hash common.Hash)
	Build(ctx context.Context, req chain.BuildRequest) (*chain.Built, error)
	InsertBuilt(b *chain.Built, seal [block.SealLength]byte) error // durable when it returns
}

// Store is what the driver reads when it opens; Header also later, from any goroutine.
type Store interface {
	Root() []byte                              // dpos.Root of the last irreversible block; nil before the first
	Certificates() (qc, fc *block.Certificate) // that proved it; nil before the first
	Reversible() ([]*block.Block, error)       // parents before children
	Header(hash common.Hash) (*block.SealedHeader, error)
}

// Network sends to peers. Its methods never block and may drop: what is lost is sent again by peers' handshakes.
type Network interface {
	BroadcastBlock(b *block.Block, from string)
	BroadcastVotes(vs []block.Vote)
}

// Signer holds the producer's keys. It is called from the driver's goroutines, never twice at a time for one kind.
type Signer interface {
	Account() common.Address
	// SignSeal signs digests of seals, and of sessions and answers (block.Domain), with the seal key.
	SignSeal(digest common.Hash) ([block.SealLength]byte, error)
	SignVote(digest common.Hash) (block.BLSSignature, error)
}

// Deps are the parts that the driver works with.
type Deps struct {
	Params   block.Parameters
	Genesis  common.Hash    // hash of block 0
	Schedule block.Schedule // of genesis
	// Recoveries are those that the operator applied, oldest first, verified (rule 13). Like genesis they are part of what the node
	// trusts, and never change while it runs.
	Recoveries []dpos.Recovery
	Chain      Chain
	Store      Store
	Network    Network // nil: nothing is sent
	// Ready is closed when the chain executes; nil: it does. Before, the machine stands still: nothing is signed, recorded
	// or produced, what only reads is answered, blocks and ranges wait and everything else is refused with ErrNotReady.
	Ready  <-chan struct{}
	Signer Signer // nil: an observer
	// Txs gives the transactions for a block on this parent; nil builds empty blocks.
	Txs func(parent common.Hash) chain.TxSource
	// FinalHeader is the irreversible header of a height, to tell a fork by; from any goroutine. nil: forks are not told.
	FinalHeader func(height uint64) (*block.SealedHeader, error)
	// Repaired is closed when an irreversible block that a read of the store found damaged is whole again; nil: it is not
	// known to be damaged. Without the function execution tries from time to time.
	Repaired func(height uint64) <-chan struct{}
	// OnEvidence is told of provable faults, from the driver's goroutine: it must not block. May be nil.
	OnEvidence func(dpos.Evidence)
	// OnBadVotes is told of votes that failed verification, from the goroutine that called AddVotes or from the driver's:
	// it must not block. May be nil.
	OnBadVotes func([]block.Vote)
	Now        func() time.Time // the machine's own clock, uncorrected; nil: time.Now
	// Clocks are the newest readings of other producers' clocks and of the times that they tell (rule 12), from any goroutine; it must
	// be quick. nil: no clocks are exchanged, and this machine's own is the network's.
	Clocks   func() []clock.Reading
	Log      *zap.Logger
	Registry prometheus.Registerer
}

func (d *Deps) check() error {
	switch {
	case d.Chain == nil || d.Store == nil:
		return errors.New("consensus needs a chain and a store")
	case len(d.Schedule) == 0:
		return errors.New("consensus needs the schedule of genesis")
	case d.Params.SlotMillis == 0 || d.Params.TurnSlots == 0 || d.Params.EpochBlocks == 0:
		return fmt.Errorf("chain parameters lack slot_millis (%d), turn_slots (%d) or epoch_blocks (%d)", d.Params.SlotMillis, d.Params.TurnSlots, d.Params.EpochBlocks)
	}
	return nil
}

// Place names a block by height, slot and hash.
type Place struct {
	Height, Slot uint64
	Hash         common.Hash
}

// Status is a snapshot of the driver. Its pointers and slices must not be changed.
type Status struct {
	Head      Place // preferred, not necessarily executed yet
	Executed  Place // executed and part of the head's branch
	LIB       Place
	Justified block.Point
	QC, FC    *block.Certificate   // newest known
	OwnVotes  []block.Vote         // the newest, signed, above LIB
	Slot      uint64               // of the network's time
	Time      time.Time            // the network's, when the snapshot was made
	FewClocks bool                 // fewer clocks than a quorum's are known: a signer casts no vote (rule 12)
	Stalled   bool                 // MaxReversible blocks or more above LIB: production is slow
	Silent    bool                 // a signer that casts no vote yet (rule 11)
	Cause     string               // it is silent, one word
	Why       string               // likewise, for people
	Waiting   dpos.Waiting         // for what, if it is silent
	Since     time.Time            // it is silent, or signs
	Session   *block.SignedSession // of the signer, on disk; nil: none
	Asks      bool                 // answers to Session are of use
	Seats     int                  // that vote on children of Head
	Schedules []block.Schedule     // that votes on children of LIB are counted for
	Started   time.Time
	Recovery  common.Hash // newest one applied, which all that is signed is bound to; zero: none
}

// FinalEvent tells that the last irreversible block moved.
type FinalEvent struct {
	LIB    Place
	Blocks int // newly final
	FC     *block.Certificate
}

// Mode says how much of a range is checked.
type Mode uint8

const (
	// Full checks every seal, certificate and transaction signature.
	Full Mode = iota
	// Certified checks that the hashes link up to a block that a verified certificate proves final, that each body
	// has the digest its header's record names, and the header rules; it takes the senders the digest covers. Seals
	// and the other certificates in that range are not verified: a quorum vouched for each of these hashes.
	Certified
)

func (m Mode) String() string {
	if m == Certified {
		return "certified"
	}
	return "full"
}

// RangeResult tells how far a range was applied.
type RangeResult struct {
	Applied uint64 // height of LIB now
	Next    uint64 // height from which to go on: Applied+1, or above Entered blocks while nothing becomes final
	Rest    int    // trailing blocks of the range that are not final yet and were not taken
	Entered int    // blocks that entered as reversible (the range held no certificate that could be used)
}
