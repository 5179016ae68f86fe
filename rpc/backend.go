package rpc

import (
	"context"
	"fmt"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/chain"
	"github.com/bornode/bornode/genesis"
	"github.com/bornode/bornode/pubsub/evidence"
	"github.com/bornode/bornode/pubsub/proof"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/consensus"
	"github.com/ethereum/go-ethereum/core"
	"github.com/ethereum/go-ethereum/core/state"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/event"
	"github.com/ethereum/go-ethereum/params"
	gethrpc "github.com/ethereum/go-ethereum/rpc"
)

// Headers, Blocks and States are what the methods read from the chain. All are called from many goroutines; what they
// return is not changed by anybody. Unknown values are nil without an error; an error means that the value may be there and
// cannot be read, which an answer must say (unreadable).
type (
	Headers interface {
		CurrentHeader() *types.Header // executed head
		SafeHeader() *types.Header    // newest justified block
		FinalHeader() *types.Header   // last irreversible block
		HeaderByNumber(n uint64) (*types.Header, error)
		HeaderByHash(h common.Hash) (*types.Header, error)
		CanonicalHash(n uint64) (common.Hash, error)
		FirstHeight() uint64 // lowest irreversible block kept beside block 0; errors for blocks below wrap block.ErrPruned
	}
	Blocks interface {
		Sealed(h common.Hash) (*block.SealedHeader, error)
		BlockByHash(h common.Hash) (*block.Block, error)
		BlockByNumber(n uint64) (*block.Block, error)
		Receipts(h common.Hash) (types.Receipts, error) // derived fields filled
		Transaction(h common.Hash) (*chain.Located, error)
	}
	States interface {
		StateAt(h *types.Header) (*state.StateDB, error) // a fresh value that the caller owns
		Kept() (states, tries uint64)                    // of how many of the newest blocks; 0: of all
		Config() *params.ChainConfig
		Params() block.Parameters // of the executed head's child
		Rules
		// NextHeaders are what a child of parent may have as header, the earlier second first.
		NextHeaders(parent *types.Header) ([]*types.Header, error)
		// NextBlock makes db, the state after parent, what the first transaction of that child finds.
		NextBlock(db *state.StateDB, parent, h *types.Header) error
		Context() chain.EVMChain // for one execution
	}
	// Rules are what producers vote for.
	Rules interface {
		// ParamsFor are the parameters of a block at a height above base, if nothing more is decided before it.
		ParamsFor(base *types.Header, height uint64) (block.Parameters, error)
		// PrepareState applies what comes into force with the block at a height above base.
		PrepareState(db *state.StateDB, base *types.Header, height uint64) error
		Decisions(parent *types.Header) ([]chain.Decision, error)
		Upgrades() []genesis.Upgrade // that this node has a description of
	}
	// Events are sent by one goroutine: what Reorg removed comes before the blocks that replace it.
	Events interface {
		SubscribeHead(ch chan<- chain.HeadEvent) event.Subscription
		SubscribeReorg(ch chan<- chain.ReorgEvent) event.Subscription
	}
	// Chain is all of them: chain.Chain.
	Chain interface {
		Headers
		Blocks
		States
		Events
	}
)

// Pool is the transaction pool: txpool.Pool.
type Pool interface {
	Add(txs []*types.Transaction, local bool) []error
	Get(h common.Hash) *types.Transaction
	Nonce(a common.Address) uint64
	Stats() (pending, queued int)
	Content() (pending, queued map[common.Address][]*types.Transaction)
	ContentFrom(a common.Address) (pending, queued []*types.Transaction)
	Subscribe(ch chan<- types.Transactions) event.Subscription
}

// Consensus is what the methods show of the consensus driver.
type Consensus interface {
	// Schedule is who produces the children of the head.
	Schedule() (block.Schedule, error)
	// Stalled reports that blocks go on but finality does not (DESIGN §7.10).
	Stalled() bool
	// Silence is why this node's signer casts no vote, for people; "" while it does, and for an observer.
	Silence() string
	// Alarms are what an operator must look at and that does not go away by itself, oldest first.
	Alarms() []Alarm
	// Signer is what this node's signer does and waits for; nil: the node signs for no producer.
	Signer() *SignerStatus
}

// Alarm is one entry of bor_alarms.
type Alarm struct {
	Kind  string `json:"kind"`           // fork
	Since uint64 `json:"since"`          // Unix seconds
	Text  string `json:"text"`           // what it is and what to do
	File  string `json:"file,omitempty"` // evidence, on the node's disk
}

// SignerStatus is what a producer's signer does, or waits for after its start (rule 11 of consensus).
type SignerStatus struct {
	Account common.Address `json:"account"`
	Votes   bool           `json:"votes"`           // it casts votes
	Cause   string         `json:"cause,omitempty"` // one word, if it casts none
	Why     string         `json:"why,omitempty"`   // for people, if it casts none
	Since   int64          `json:"since"`           // Unix seconds; it casts votes, or none
	Session hexutil.Uint64 `json:"session"`         // number of its start; 0: not begun

	MissingAnswers hexutil.Uint64   `json:"missingAnswers"`        // of producers, before it votes
	Unheard        []common.Address `json:"unheard,omitempty"`     // producers whose answers are of use
	Line           hexutil.Uint64   `json:"line,omitempty"`        // it signs nothing for slots up to this one
	Floor          hexutil.Uint64   `json:"floor,omitempty"`       // it may have signed what it forgot, up to this slot; 1: chosen once the time of the network is known
	RestFrom       hexutil.Uint64   `json:"restFrom,omitempty"`    // with a floor: slot from which it may rest on answers
	RestMissing    hexutil.Uint64   `json:"restMissing,omitempty"` // answers that this needs
	Accepted       bool             `json:"accepted,omitempty"`    // the operator's word for one of them
}

// SyncStatus is how far the node is.
type SyncStatus struct {
	Syncing bool   `json:"syncing"`
	Mode    string `json:"mode"`  // full, certified
	State   string `json:"state"` // what it does now
	Start   uint64 `json:"startingBlock"`
	Current uint64 `json:"currentBlock"`
	Target  uint64 `json:"highestBlock"`
}

// Sync tells how far the node is.
type Sync interface{ SyncStatus() SyncStatus }

// ScrubRound is one reading of everything in the background.
type ScrubRound struct {
	Began    int64  `json:"began"`           // Unix seconds
	Ended    int64  `json:"ended,omitempty"` // likewise
	Bytes    int64  `json:"bytes"`
	Problems uint64 `json:"problems"` // damaged or missing things found
	Failures uint64 `json:"failures"` // rests of areas that could not be read
}

// ScrubStatus is how far the background reading is.
type ScrubStatus struct {
	On        bool        `json:"on"`
	Damaged   int         `json:"damagedBlocks"` // known and not fetched again yet, whoever found them
	Area      string      `json:"area,omitempty"`
	Round     *ScrubRound `json:"round"`     // under way; null: off
	LastRound *ScrubRound `json:"lastRound"` // the last full one; null: none yet
}

// Scrub tells how far the background reading is.
type Scrub interface{ ScrubStatus() ScrubStatus }

// PeerInfo is one connected peer.
type PeerInfo struct {
	ID        string `json:"id"`
	Address   string `json:"address"`
	Provider  string `json:"provider"`         // tcp, shm, rdma, rdma-rxe
	Reason    string `json:"reason,omitempty"` // why this provider
	Since     uint64 `json:"providerSince"`    // Unix seconds
	Incoming  bool   `json:"incoming"`
	Height    uint64 `json:"height"`
	LIB       uint64 `json:"lib"`
	RTTMicros uint64 `json:"rttMicros"`
	// ClockOffsetMicros is the peer's own clock minus this machine's; 0 before the first reading.
	ClockOffsetMicros int64             `json:"clockOffsetMicros"`
	Counters          map[string]uint64 `json:"counters,omitempty"`
	Channel           map[string]uint64 `json:"channel,omitempty"` // counters of the provider's channel; none on tcp
}

// Network is the peer-to-peer side.
type Network interface {
	ID() string
	Listening() bool
	Peers() []PeerInfo
}

// Admin changes the node; its methods are offered on the IPC socket alone.
type Admin interface {
	AddPeer(ctx context.Context, addr string) error
	RemovePeer(ctx context.Context, id string) error
	// AcceptAnswers is the operator's word that a producer that may have forgotten what it signed votes again by one answer
	// fewer. The error says why there is nothing to accept.
	AcceptAnswers(ctx context.Context) (*SignerStatus, error)
	// BackupCut is what bornode backup copies now, as JSON encodes it (blockstore.Cut).
	BackupCut() (any, error)
}

// Contract reads system contracts.
type Contract interface {
	Call(ctx context.Context, h *types.Header, to common.Address, data []byte) ([]byte, error)
}

// Broker is what a broker knows beside the chain: evidence.Evidence.
type Broker interface {
	Prove(id evidence.ID, from, to int64, withBatches bool) (*evidence.Proven, error)
	Alarms() []evidence.Alarm
	Reports() [][]byte
	Witness(topic [32]byte) (evidence.Witness, error)
}

// Readers judges who may read a topic's records: pubsub.Readers.
type Readers interface {
	// MayRead is nil for a token (of package pubsub/token) whose holder may read the topic from that host.
	MayRead(token, host string, topic [32]byte) error
}

// Backend is what the server answers from. Chain and Pool are required, the others may be nil: their methods then say
// that this node does not offer them.
type Backend struct {
	Chain     Chain
	Pool      Pool
	Consensus Consensus
	Sync      Sync
	Network   Network
	Admin     Admin
	Scrub     Scrub
	Topics    Contract     // the system contracts' views: chain.Chain
	Trust     *proof.Trust // where proofs of this chain begin
	Broker    Broker       // of a node that is a broker
	Readers   Readers      // likewise
	Repairs   Repairs      // nil: who reads a damaged block is told at once
	// NotReady is why the node has no newest state and no pool yet, nil when it has them. While it is an error, the head is
	// the last irreversible block, and what depends on the head's state or on the pool is refused with it. nil: never.
	NotReady func() error
	Version  string // for web3_clientVersion, e.g. bornode/v1.0.0
}

// notReady refuses what depends on the newest state or on the pool, while there is none.
func (b *Backend) notReady(what string) error {
	if b.NotReady != nil {
		if err := b.NotReady(); err != nil {
			return unreadable(what, err)
		}
	}
	return nil
}

// header resolves a block reference; nil without error if there is no such block.
func (b *Backend) header(ref gethrpc.BlockNumberOrHash) (*types.Header, error) {
	if n, ok := ref.Number(); ok {
		return b.headerByNumber(n)
	}
	hash, ok := ref.Hash()
	if !ok {
		return nil, invalidParams("the block reference holds neither a number nor a hash")
	}
	h, err := b.Chain.HeaderByHash(hash)
	if err != nil {
		return nil, unreadable("block "+hash.Hex(), err)
	}
	if h == nil {
		if first := b.Chain.FirstHeight(); first > 0 {
			return nil, prunedHistory(fmt.Sprintf("this node has no block %s, which may be one of those below %d that it does not keep any more", hash.Hex(), first))
		}
		return nil, nil //nolint:nilnil // unknown
	}
	if !ref.RequireCanonical {
		return h, nil
	}
	canonical, err := b.Chain.CanonicalHash(h.Number.Uint64())
	if err != nil {
		return nil, unreadable("block "+h.Number.String(), err)
	}
	if canonical != hash {
		return nil, fmt.Errorf("hash is not currently canonical: block %s is not on the executed chain", hash)
	}
	return h, nil
}

// headerByNumber knows the tags: pending is the executed head, since there is no block between it and the pool. What
// executes at pending runs in the block after it: callState.
func (b *Backend) headerByNumber(n gethrpc.BlockNumber) (*types.Header, error) {
	switch n {
	case gethrpc.LatestBlockNumber, gethrpc.PendingBlockNumber:
		return b.Chain.CurrentHeader(), nil
	case gethrpc.SafeBlockNumber:
		return b.Chain.SafeHeader(), nil
	case gethrpc.FinalizedBlockNumber:
		return b.Chain.FinalHeader(), nil
	case gethrpc.EarliestBlockNumber:
		n = 0
	}
	if n < 0 {
		return nil, invalidParams("block number %d is negative", n)
	}
	h, err := b.Chain.HeaderByNumber(uint64(n))
	if err != nil {
		return nil, unreadable(fmt.Sprintf("block %d", n), err)
	}
	return h, nil
}

// mustHeader is header, with an error if there is no such block.
func (b *Backend) mustHeader(ref gethrpc.BlockNumberOrHash) (*types.Header, error) {
	h, err := b.header(ref)
	if err != nil {
		return nil, err
	}
	if h == nil {
		words := "header not found" // clients look for these words, and for these by hash
		if _, ok := ref.Hash(); ok {
			words = "header for hash not found"
		}
		return nil, fmt.Errorf("%s: this node has no block %s", words, ref.String())
	}
	return h, nil
}

// block resolves a block with its transactions; nil without error if there is none.
func (b *Backend) block(ref gethrpc.BlockNumberOrHash) (*block.Block, error) {
	h, err := b.header(ref)
	if h == nil || err != nil {
		return nil, err
	}
	hash, ok := ref.Hash()
	if !ok {
		hash = h.Hash()
	}
	return b.body(h, hash)
}

// sealedAt is the header, record and seal of a height of the executed chain; nil without an error if there is none.
func (b *Backend) sealedAt(height uint64) (*block.SealedHeader, error) {
	hash, err := b.Chain.CanonicalHash(height)
	if err == nil && hash != (common.Hash{}) {
		var sealed *block.SealedHeader
		if sealed, err = b.Chain.Sealed(hash); err == nil {
			return sealed, nil
		}
	}
	if err != nil {
		err = unreadable(fmt.Sprintf("block %d", height), err)
	}
	return nil, err
}

// transaction finds a transaction on the executed chain; nil without an error if no block has it. A node that does not
// keep all blocks cannot say that.
func (b *Backend) transaction(hash common.Hash) (*chain.Located, error) {
	x, err := b.Chain.Transaction(hash)
	if err != nil {
		return nil, unreadable("transaction "+hash.Hex(), err)
	}
	if first := b.Chain.FirstHeight(); x == nil && first > 0 {
		return nil, prunedHistory(fmt.Sprintf("transaction %s is in no block from %d on, and blocks below are not kept any more", hash.Hex(), first))
	}
	return x, nil
}

// body is the block of a header that is there; never nil without an error.
func (b *Backend) body(h *types.Header, hash common.Hash) (*block.Block, error) {
	what := "block " + h.Number.String() + " " + hash.Hex()
	x, err := b.Chain.BlockByHash(hash)
	if err == nil && x == nil { // the index by hash may lack what the one by height has
		if x, err = b.Chain.BlockByNumber(h.Number.Uint64()); x != nil && x.Hash() != hash {
			x = nil
		}
	}
	if err != nil {
		return nil, unreadable(what, err)
	}
	if x == nil {
		return nil, &Error{Code: codeServer, Message: what + " has gone meanwhile: it was pruned, or another branch won; ask again"}
	}
	return x, nil
}

// state is the state after a block, with its header.
func (b *Backend) state(ref *gethrpc.BlockNumberOrHash) (*state.StateDB, *types.Header, error) {
	h, err := b.mustHeader(orLatest(ref))
	if err != nil {
		return nil, nil, err
	}
	s, err := b.Chain.StateAt(h)
	if err != nil {
		return nil, nil, unreadable(fmt.Sprintf("state of block %d", h.Number), err)
	}
	return s, h, nil
}

// next makes the state after parent that of the block after it, and returns the headers which that may have.
func (b *Backend) next(db *state.StateDB, parent *types.Header) ([]*types.Header, error) {
	headers, err := b.Chain.NextHeaders(parent)
	if err != nil {
		return nil, err
	}
	return headers, b.Chain.NextBlock(db, parent, headers[len(headers)-1])
}

// callState is the state that a call runs on and the header that it sees: at pending those of the block after the head,
// in the later of the seconds that it may have, else those of the block that ref names.
func (b *Backend) callState(ref *gethrpc.BlockNumberOrHash) (*state.StateDB, *types.Header, error) {
	db, h, err := b.state(ref)
	if n, ok := refNumber(ref); err != nil || !ok || n != gethrpc.PendingBlockNumber {
		return db, h, err
	}
	headers, err := b.next(db, h)
	if err != nil {
		return nil, nil, err
	}
	return db, headers[len(headers)-1], nil
}

func orLatest(ref *gethrpc.BlockNumberOrHash) gethrpc.BlockNumberOrHash {
	if ref == nil {
		return gethrpc.BlockNumberOrHashWithNumber(gethrpc.LatestBlockNumber)
	}
	return *ref
}

func refNumber(ref *gethrpc.BlockNumberOrHash) (gethrpc.BlockNumber, bool) {
	if ref == nil {
		return 0, false
	}
	return ref.Number()
}

func byNumber(n gethrpc.BlockNumber) gethrpc.BlockNumberOrHash {
	return gethrpc.BlockNumberOrHashWithNumber(n)
}
func byHash(h common.Hash) gethrpc.BlockNumberOrHash {
	return gethrpc.BlockNumberOrHashWithHash(h, false)
}

// evmContext is the chain's context with the one thing go-ethereum asks an engine for outside verification.
type evmContext struct{ core.ChainContext }

func (evmContext) Engine() consensus.Engine { return coinbaseEngine{} }

type coinbaseEngine struct{ consensus.Engine }

// Author is the producer: every header names it.
func (coinbaseEngine) Author(h *types.Header) (common.Address, error) { return h.Coinbase, nil }
