package node

import (
	"context"
	"errors"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/event"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/chain"
	"github.com/bornode/bornode/config"
	"github.com/bornode/bornode/consensus/dpos"
	"github.com/bornode/bornode/contracts"
	"github.com/bornode/bornode/txpool"
)

const (
	// maxUnreadableEvidence is how many copies of an evidence.rlp that could not be read are kept.
	maxUnreadableEvidence = 3
	// maxFaults is how much evidence may wait for the goroutine of duties.
	maxFaults = 16
	// retryBlocks is how long a duty rests whose transaction was refused, unless it knows better.
	retryBlocks = 20
)

// dutyChain is what duties need of the chain.
type dutyChain interface {
	senderChain
	CurrentHeader() *types.Header
	FinalHeader() *types.Header
	SubscribeHead(ch chan<- chain.HeadEvent) event.Subscription
	Candidate(h *types.Header, a common.Address) (contracts.Candidate, []byte, error)
}

type dutyPool interface {
	Add(txs []*types.Transaction, local bool) []error
	Has(tx common.Hash) bool
	Nonce(a common.Address) uint64
	ContentFrom(a common.Address) (pending, queued []*types.Transaction)
}

type dutyConsensus interface {
	Schedule() (block.Schedule, error)
	Elects() (bool, error)
}

// txSigner is a producer's signer that signs transactions too.
type txSigner interface {
	SignTx(tx types.TxData, chainID uint64) (*types.Transaction, error)
}

type dutyDeps struct {
	cfg       config.Duties
	self      common.Address
	params    block.Parameters
	chain     dutyChain
	pool      dutyPool
	consensus dutyConsensus
	signer    txSigner // nil: it cannot sign transactions
	account   *account // shared with other senders for self; nil: there are none
	synced    func() bool
	offer     func(types.Transactions) // tells peers
	bump      uint64                   // percent by which the pool wants fees raised
	file      string                   // of evidence that waits
	log       *zap.Logger
	reg       prometheus.Registerer
}

// duties sends what a producer's account has to send without its operator: reports of a standby, evidence, and the way
// out of jail if that is wanted. All fields but found belong to the goroutine of run.
type duties struct {
	dutyDeps
	m     *dutyMetrics
	found chan *fault

	docket *docket
	unkept error // why the unreadable file of the run before must stay where it is
	out    *sender
	head   common.Hash // decided for last
	report *flight
	rest   uint64 // no report before this height
	unjail *flight
	jail   uint64 // the jail (its end) that the contract does not let us out of

	unjailRest uint64
	known      bool // before holds the standing at an earlier head
	before     contracts.Candidate
	freed      bool // the log said that the jail is over
}

func newDuties(deps dutyDeps) (*duties, error) {
	m, err := newDutyMetrics(deps.reg)
	if err != nil {
		return nil, err
	}
	d := &duties{dutyDeps: deps, m: m, found: make(chan *fault, maxFaults)}
	if d.account == nil {
		d.account = newAccount(d.self, d.params.ChainID, d.signer)
	}
	d.out = &sender{account: d.account, chain: d.chain, pool: d.pool, to: contracts.ProducersAddress,
		offer: d.offer, bump: d.bump, log: d.log, held: d.ours}
	d.load()
	switch {
	case !d.cfg.Enabled:
		d.log.Info("duties.enabled is off: nothing is sent for the producer's account; report as a standby and submit evidence with borcli")
	case d.signer == nil:
		d.log.Warn("the producer's signer cannot sign transactions: report as a standby and submit evidence with borcli", zap.Stringer("account", d.self))
	}
	return d, nil
}

// sends reports whether anything is sent at all.
func (d *duties) sends() bool { return d.cfg.Enabled && d.signer != nil }

// accuse takes evidence from the goroutine of consensus: it never blocks.
func (d *duties) accuse(e dpos.Evidence, sealed func(common.Hash) (*block.SealedHeader, error)) {
	if !d.sends() || e.Guilty == d.self {
		return
	}
	f, err := gather(e, sealed)
	if err != nil {
		d.log.Warn("evidence is not submitted", zap.Stringer("producer", e.Guilty), zap.Uint64("slot", e.Slot), zap.Error(err))
		return
	}
	select {
	case d.found <- f:
	default:
		d.full(e.Guilty, e.Slot)
	}
}

// full tells of evidence that nobody submits: there is no room.
func (d *duties) full(guilty common.Address, slot uint64) {
	d.m.evidence.WithLabelValues("dropped").Inc()
	d.log.Warn("evidence is not submitted: too much waits already", zap.Stringer("producer", guilty), zap.Uint64("slot", slot))
}

// finish keeps what consensus found at the end: it tells of a fault once. It is called after run, when nobody accuses
// any more.
func (d *duties) finish() {
	for len(d.found) > 0 {
		d.take(<-d.found)
	}
}

// run decides anew at each head until ctx ends.
func (d *duties) run(ctx context.Context) {
	heads := make(chan chain.HeadEvent, eventBuffer)
	sub := d.chain.SubscribeHead(heads)
	defer sub.Unsubscribe()
	for {
		select {
		case <-ctx.Done():
			return
		case f := <-d.found:
			d.take(f)
			continue
		case <-heads:
			for len(heads) > 0 { // one look for all that waits
				<-heads
			}
		}
		if d.synced() {
			d.look(ctx)
		}
	}
}

// look does what is due at the head.
func (d *duties) look(ctx context.Context) {
	h := d.chain.CurrentHeader()
	if h.Hash() == d.head {
		return
	}
	d.head = h.Hash()
	me, _, err := d.chain.Candidate(h, d.self)
	if err != nil {
		d.log.Warn("the standing of this producer is not readable", zap.Error(err))
		return
	}
	s := &standing{height: h.Number.Uint64(), epochBlocks: d.params.EpochBlocks, seconds: h.Time, me: me}
	d.tell(s)
	if !d.sends() {
		return
	}
	if s.elects, err = d.consensus.Elects(); err != nil {
		return // the driver ends
	}
	d.standBy(ctx, h, s)
	d.leaveJail(ctx, h, s)
	d.prosecute(ctx, h)
	d.m.waiting.Set(float64(len(d.docket.proofs)))
}

// standBy reports once in an epoch.
func (d *duties) standBy(ctx context.Context, h *types.Header, s *standing) {
	if !s.reportDue() {
		d.report, d.rest = nil, 0
		return
	}
	if d.report != nil {
		switch d.follow(d.report, h) {
		case flying:
			return
		case landed, failed: // at the end of the epoch before, or in a block above the state at hand
			d.report, d.rest = nil, s.height+1
		case lost:
			d.report = nil
		}
	}
	if s.height < d.rest {
		return
	}
	f, err := d.call(ctx, h, "report of a standby", contracts.ReportStandbyCall(), d.report)
	switch {
	case err == nil:
		d.report = f
	case errors.As(err, new(refusal)) || d.report == nil && errors.Is(err, txpool.ErrInsufficient): // said once an epoch
		d.rest = (s.epoch() + 1) * s.epochBlocks
	default:
		d.rest = s.height + retryBlocks
	}
}

// leaveJail sends the account's way out. What the contract refuses is sent once for each time in jail.
func (d *duties) leaveJail(ctx context.Context, h *types.Header, s *standing) {
	if !d.cfg.Unjail || !s.unjailDue() {
		d.unjail, d.unjailRest = nil, 0
		return
	}
	if d.unjail != nil {
		switch d.follow(d.unjail, h) {
		case lost:
			d.unjail = nil
		case outbid:
		default:
			return
		}
	}
	if d.jail == s.me.JailedUntil || s.height < d.unjailRest {
		return
	}
	f, err := d.call(ctx, h, "way out of jail", contracts.UnjailCall(), d.unjail)
	switch {
	case err == nil:
		d.unjail = f
	case errors.As(err, new(refusal)):
		d.jail = s.me.JailedUntil
	default:
		d.unjailRest = s.height + retryBlocks
	}
}
