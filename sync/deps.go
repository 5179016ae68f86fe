package blocksync

import (
	"context"
	"errors"
	"time"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/transport"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
)

// Mode says how history is checked while catching up.
type Mode uint8

const (
	Full      Mode = iota // check and execute everything
	Certified             // below a verified certificate take the certified senders
)

func (m Mode) String() string {
	if m == Certified {
		return "certified"
	}
	return "full"
}

// Verdict is what an error of the Driver or Pool means for the peer whose data caused it.
type Verdict uint8

const (
	VerdictOK            Verdict = iota // no error
	VerdictInvalid                      // the peer is at fault: go_away and ban
	VerdictUnknownParent                // ask for what lies between
	VerdictKnown                        // already had it
	VerdictFuture                       // ahead of the clock: drop, may come again
	VerdictIrrelevant                   // below LIB or otherwise of no use: drop
	VerdictOverloaded                   // this node cannot take it now (full queue or disk): back off, nobody's fault
)

// VoteVerdict is what the Driver found a vote to be worth.
type VoteVerdict uint8

const (
	VoteAccepted   VoteVerdict = iota // it counts or may count, and its signature was verified: relay
	VoteKnown                         // accepted before
	VoteIrrelevant                    // it cannot matter here, and honest peers send such votes: drop
	VoteFuture                        // its slot is ahead of the clock; it may come again
	VoteOverShare                     // its block is not known, and its voter has many such votes
	VoteRefuted                       // the chain says that it is wrong; a peer that is behind cannot know
	VoteStranger                      // its voter has no seat
	VoteMalformed                     // no vote looks like this
	VoteForged                        // its signature is not its voter's
)

// voteVerdictTexts complete "n votes ..." in logs.
var voteVerdictTexts = [...]string{"good", "known", "of no use here", "of slots far ahead of the clock",
	"on unknown blocks above their voters' share", "that the chain refutes", "of accounts in no schedule", "malformed", "with forged signatures"}

func (v VoteVerdict) String() string {
	if int(v) < len(voteVerdictTexts) {
		return voteVerdictTexts[v]
	}
	return "unknown"
}

// isLasting reports whether another copy of the vote would be found to be worth the same.
func (v VoteVerdict) isLasting() bool { return v != VoteFuture && v != VoteOverShare }

// DriverStatus is the consensus driver's position. Its pointers and slices are shared: do not change them.
type DriverStatus struct {
	Head      Ref // preferred
	LIB       Ref
	Justified block.Point
	QC, FC    *block.Certificate
	OwnVotes  []block.Vote
	Seats     int // whose votes count at the head
}

// RangeResult says how far a range was applied.
type RangeResult struct {
	Applied uint64 // height of the LIB now
	Rest    int    // trailing blocks that no certificate proves final yet; they were not taken
}

// Driver is the consensus driver. All methods may be called concurrently; AddBlock and AddRange may take long, the
// others must be quick.
type Driver interface {
	// CheckHeader verifies everything a header can be judged by. A nil error is what relaying waits for.
	CheckHeader(h *block.SealedHeader) error
	// AddBlock checks the body, stores the block and enters it into the tree; it does not wait for its execution.
	AddBlock(ctx context.Context, b *block.Block) error
	// AddRange takes consecutive blocks, the first one on top of LIB or of a reversible block.
	AddRange(ctx context.Context, blocks []*block.Block, mode Mode) (RangeResult, error)
	// AddVotes judges up to maxVotes votes, verifies and takes those that can count, and answers for each in turn. The
	// error says that none was judged, through nobody's fault.
	AddVotes(vs []block.Vote) ([]VoteVerdict, error)
	AddCertificate(c *block.Certificate) error
	// Status is a snapshot that costs next to nothing.
	Status() DriverStatus
}

// Blocks are the stored blocks. All methods may be called concurrently.
type Blocks interface {
	// Range calls fn with the encoding of every irreversible block from..to, in order, and stops before the block that
	// would exceed maxBytes (never before the first). raw is valid during the call only.
	Range(from, to uint64, maxBytes int, fn func(height uint64, raw []byte) error) error
	FirstHeight() uint64
	// HeaderByHeight reads an irreversible header, Header any.
	HeaderByHeight(height uint64) (*block.SealedHeader, error)
	Header(hash common.Hash) (*block.SealedHeader, error)
	Block(hash common.Hash) (*block.Block, error)
	// Replace puts a re-fetched block in the place of a corrupt record; it refuses one of another hash.
	Replace(height uint64, b *block.Block) error
}

// Repairs knows which irreversible blocks are damaged; the manager fetches them from peers and calls Blocks.Replace. All
// methods may be called concurrently; all but ReadRepaired are quick.
type Repairs interface {
	// Damaged lists the heights, lowest first, that any reader of the store found damaged and that are not replaced yet.
	Damaged() []uint64
	// RepairsWanted has a value when Damaged or Receipts.LostReceipts has grown, or when a reader began to wait.
	RepairsWanted() <-chan struct{}
	// RepairImpossible says that no connected peer can send a block now: its readers wait no longer.
	RepairImpossible(height uint64, cause error)
	// ReadRepaired calls read again after the repair of a block that it found damaged, within a bound and until ctx ends.
	ReadRepaired(ctx context.Context, read func() error) error
}

// Receipts are those of the irreversible blocks: the manager serves them, and fetches those that are missing. All methods
// may be called concurrently; LostReceipts and ReceiptsImpossible are quick.
type Receipts interface {
	// ProvenReceipts are stored receipts in the form of block.EncodeReceipts, compared with the block's header.
	ProvenReceipts(height uint64, hash common.Hash) ([]byte, error)
	// LostReceipts lists the heights, lowest first, whose receipts are not stored and cannot be made again here.
	LostReceipts() []uint64
	// PutProvenReceipts stores receipts that a peer sent if the header of the irreversible block proves them; errors wrap
	// block.ErrWrongReceipts if it does not. The height then leaves LostReceipts.
	PutProvenReceipts(height uint64, encoded []byte) error
	// ReceiptsImpossible says that no connected peer can send the receipts now: their readers wait no longer.
	ReceiptsImpossible(height uint64, cause error)
}

// Recoveries are the recoveries of the chain that the node knows (DESIGN §7 rule 13). Methods may be called concurrently.
type Recoveries interface {
	// Shown are the encoded recoveries that a peer is shown, at most MaxShownRecoveries: the newest applied here, then one with the
	// same predecessor. None: none is applied.
	Shown() [][]byte
	// Meet takes what a peer shows, and reports whether the newest that the peer applied is the newest here. What is new and was
	// signed by the recovery keys is kept and told to the operator; nothing is applied. An error says that the peer is to blame. It
	// verifies signatures, so it may take a while.
	Meet(peer transport.PeerID, shown [][]byte) (same bool, err error)
}

// Pool holds pending transactions. Calls may be concurrent; slices returned belong to the caller.
type Pool interface {
	Pending() []common.Hash
	Get(hash common.Hash) *types.Transaction
	Add(txs []*types.Transaction, local bool) []error
}

// Members says who may connect. It is called from any goroutine and must be quick.
type Members interface {
	Check(peer transport.PeerID) error
}

// Identity is what the node says about itself in handshakes.
type Identity struct {
	Account     common.Address                         // account the node signs for; zero: none
	Sign        func(hash common.Hash) ([]byte, error) // signature of Account (65 bytes R,S,V); nil: Account is not told
	SignerStart time.Time                              // zero: no signer
	Upgrades    common.Hash                            // digest of the upgrades the node knows
	Pull        bool                                   // the node serves a window for one-sided reads (told unless serving is limited)
}

// Deps are the parts that the manager works with. Host, Driver, Blocks and Classify are needed, the rest may be nil.
type Deps struct {
	Host    transport.Host
	Driver  Driver
	Blocks  Blocks
	Pool    Pool    // nil: no transactions are exchanged
	Members Members // nil: everyone may connect
	// FirstSync is the signer's wait after a start. nil: nothing is asked, answered or passed on.
	FirstSync FirstSync
	// Recoveries are those of the chain. nil: none are known, and what peers show is ignored.
	Recoveries Recoveries
	Params     block.Parameters
	Genesis    common.Hash // hash of block 0
	Identity   Identity
	// Classify maps the errors of Driver and Pool. It is asked for non-nil errors only.
	Classify func(error) Verdict
	// Corrupt tells whether an error of Blocks reports an unreadable record, and of which height. nil: never.
	Corrupt func(error) (height uint64, ok bool)
	// Repairs is the owner of the damaged irreversible blocks. nil: none are fetched again.
	Repairs Repairs
	// Receipts are those of the irreversible blocks; needs Repairs. nil: none are served or fetched.
	Receipts Receipts
	// CheckSeal verifies the seal of a block whose hash is known to be good. nil: the header's Coinbase must have sealed it.
	CheckSeal func(h *block.SealedHeader) error
	// OnLink is told of every link whose handshake was accepted (topics read lane 3 of it). It must not block.
	OnLink func(transport.Link)
	// Now is the machine's own clock, uncorrected, for time messages; nil: time.Now.
	Now func() time.Time
	// ToldTime is the time since 1970 that this node goes by, for time messages; 0, or nil: it tells none. It must be quick.
	ToldTime func() time.Duration
	Log      *zap.Logger
	Registry prometheus.Registerer
}

func (d *Deps) check() error {
	switch {
	case d.Host == nil:
		return errors.New("sync manager needs a transport host")
	case d.Driver == nil:
		return errors.New("sync manager needs a consensus driver")
	case d.Blocks == nil:
		return errors.New("sync manager needs the stored blocks")
	case d.Receipts != nil && d.Repairs == nil:
		return errors.New("sync manager that fetches receipts needs the owner of repairs")
	case d.Classify == nil:
		return errors.New("sync manager needs a classification of errors")
	case d.Params.SlotMillis == 0:
		return errors.New("sync manager needs the chain's slot length (slot_millis)")
	}
	return nil
}

func (d *Deps) verdict(err error) Verdict {
	if err == nil {
		return VerdictOK
	}
	return d.Classify(err)
}
