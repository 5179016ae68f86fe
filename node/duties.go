package node

import (
	"context"
	"math/big"

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
	// maxFaults is how much evidence may wait for the goroutine of duties.
	maxFaults = 16
	// offerBlocks is when a transaction of ours that is in no block yet is told to the peers again.
	offerBlocks = 5
	// retryBlocks is how long a duty rests whose transaction was refused, unless it knows better.
	retryBlocks = 20
	// gasSlack is added to what a transaction needed on the state at hand: it may meet another one.
	gasSlack = 100_000
)

// dutyChain is what duties need of the chain.
type dutyChain interface {
	CurrentHeader() *types.Header
	FinalHeader() *types.Header
	SubscribeHead(ch chan<- chain.HeadEvent) event.Subscription
	Candidate(h *types.Header, a common.Address) (contracts.Candidate, []byte, error)
	// Try runs a transaction to Producers on the state after a block: the gas it needs, or why the contract refuses it.
	Try(ctx context.Context, h *types.Header, from common.Address, data []byte) (gas uint64, refusal string, err error)
	// Outcome tells whether a transaction is in a block of the executed branch, and whether it succeeded there.
	Outcome(tx common.Hash) (included, ok bool)
	// BaseFee is that of the next block.
	BaseFee(h *types.Header) *big.Int
}

type dutyPool interface {
	Add(txs []*types.Transaction, local bool) []error
	Has(tx common.Hash) bool
	Nonce(a common.Address) uint64
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
	synced    func() bool
	offer     func(types.Transactions) // tells peers
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
	head   common.Hash // decided for last
	report *flight
	rest   uint64 // no report before this height
	unjail *flight
	jail   uint64 // the jail (its end) that unjail was sent for
	known  bool   // before holds the standing at an earlier head
	before contracts.Candidate
	freed  bool // the log said that the jail is over
}

// flight is a transaction of ours that is in no block yet.
type flight struct {
	tx    *types.Transaction
	since uint64 // height at which the peers heard of it last
}

type landing uint8

const (
	flying landing = iota
	landed         // in a block, with success
	failed         // in a block, reverted
	lost           // neither in a block nor in the pool
	outbid         // in the pool, and the base fee has risen above what it pays
)

func newDuties(deps dutyDeps) (*duties, error) {
	m, err := newDutyMetrics(deps.reg)
	if err != nil {
		return nil, err
	}
	d := &duties{dutyDeps: deps, m: m, found: make(chan *fault, maxFaults)}
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
func (d *duties) accuse(e dpos.Evidence, sealed func(common.Hash) *block.SealedHeader) {
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
		d.m.evidence.WithLabelValues("dropped").Inc()
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
	var full bool
	if d.report, full = d.send(ctx, h, "report of a standby", contracts.ReportStandbyCall(), d.report); full {
		d.rest = s.height + retryBlocks
	} else if d.report == nil {
		d.rest = (s.epoch() + 1) * s.epochBlocks
	}
}

// leaveJail sends the account's way out, once for each time in jail.
func (d *duties) leaveJail(ctx context.Context, h *types.Header, s *standing) {
	if !d.cfg.Unjail || !s.unjailDue() {
		d.unjail = nil
		return
	}
	switch {
	case d.unjail != nil:
		switch d.follow(d.unjail, h) {
		case lost:
			d.unjail, d.jail = nil, 0
		case outbid:
			d.unjail, _ = d.send(ctx, h, "way out of jail", contracts.UnjailCall(), d.unjail)
		}
	case d.jail != s.me.JailedUntil:
		d.jail = s.me.JailedUntil
		d.unjail, _ = d.send(ctx, h, "way out of jail", contracts.UnjailCall(), nil)
	}
}

// follow says where a transaction of ours is, and tells the peers again of one that waits for long.
func (d *duties) follow(f *flight, h *types.Header) landing {
	included, ok := d.chain.Outcome(f.tx.Hash())
	switch {
	case included && ok:
		return landed
	case included:
		return failed
	case !d.pool.Has(f.tx.Hash()):
		return lost
	case d.chain.BaseFee(h).Cmp(f.tx.GasFeeCap()) > 0:
		return outbid
	}
	if height := h.Number.Uint64(); height >= f.since+offerBlocks {
		f.since = height
		d.offer(types.Transactions{f.tx})
	}
	return flying
}

// send tries a call on the state at hand, then signs it and puts it into the own pool, in place of one that pays too
// little now, if any. It returns nil if nothing was sent, which the log explains; full says that the pool may take it
// later.
func (d *duties) send(ctx context.Context, h *types.Header, what string, data []byte, old *flight) (f *flight, full bool) {
	gas, refusal, err := d.chain.Try(ctx, h, d.self, data)
	if err != nil || refusal != "" {
		d.refused(what, refusal, err)
		return nil, false
	}
	to := contracts.ProducersAddress
	x := &types.DynamicFeeTx{
		ChainID: new(big.Int).SetUint64(d.params.ChainID), GasTipCap: new(big.Int), GasFeeCap: new(big.Int).Lsh(d.chain.BaseFee(h), 1),
		Gas: gas + gasSlack, To: &to, Data: data, // twice the fee: a market's may rise
	}
	if old != nil {
		x.Nonce, x.GasTipCap = old.tx.Nonce(), new(big.Int).Add(old.tx.GasTipCap(), common.Big1) // pools want both raised
	} else {
		x.Nonce = d.pool.Nonce(d.self)
	}
	tx, err := d.signer.SignTx(x, d.params.ChainID)
	if err == nil {
		err = d.pool.Add([]*types.Transaction{tx}, true)[0]
	}
	if err != nil {
		d.refused(what, "", err)
		return nil, txpool.Overloaded(err)
	}
	d.m.sent.WithLabelValues("sent").Inc()
	d.log.Info("sent for the producer's account: "+what, zap.Stringer("account", d.self), zap.Stringer("transaction", tx.Hash()))
	return &flight{tx: tx, since: h.Number.Uint64()}, false
}
