package proof

import (
	"fmt"
	"math/bits"
	"slices"

	"github.com/ethereum/go-ethereum/common"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/genesis"
	"github.com/bornode/bornode/internal/bls"
	"github.com/bornode/bornode/recovery"
)

// Trust is what a proof of finality starts from.
type Trust struct {
	Params     block.Parameters
	Genesis    common.Hash // block 0: the identity of the chain
	Schedule   block.Schedule
	Checkpoint *Checkpoint // a block known from another source; nil: none

	RecoveryKeys      []common.Address // of genesis: who may sign a recovery
	RecoveryThreshold int              // how many of them must
	// Recoveries are known beside those that runs bring: a node's own, which Collect puts into the runs, or a verifier's files.
	Recoveries []*recovery.Signed
	NoRecovery bool // refuse what was recovered, as far as headers show it: below a checkpoint those that lead to it
}

// Checkpoint names a block that is taken as final.
type Checkpoint struct {
	Height uint64
	Hash   common.Hash
}

// TrustGenesis trusts what a genesis file says.
func TrustGenesis(g *genesis.Genesis) (*Trust, error) {
	b, err := g.Block()
	if err != nil {
		return nil, err
	}
	t := &Trust{Params: g.Parameters(), Genesis: b.Hash(), Schedule: g.Schedule()}
	t.RecoveryKeys, t.RecoveryThreshold = g.RecoveryKeys()
	return t, nil
}

// Run is a piece of the chain: consecutive headers, and a certificate of precommits for the last one. The certificate may
// be missing where the last one is the trusted checkpoint. Seals are not looked at. A run with the first block behind a
// recovery's base brings the recovery, and one that begins at a checkpoint all that have a base below it.
type Run struct {
	Headers     []*block.SealedHeader
	Certificate *block.Certificate `rlp:"nilList"`
	Recoveries  []*recovery.Signed `rlp:"optional"`
}

// stage says how far a change of schedule has come, as in consensus/dpos.
type stage uint8

const (
	settled   stage = 0 // one schedule
	announced stage = 1 // the next one was named; the old one still counts alone
	joint     stage = 2 // both count
)

// regime is whose votes count for the blocks of one epoch.
type regime struct {
	stage      stage
	cur, other block.Schedule // as in consensus/dpos: joint has the new one in cur
	domain     common.Hash    // the recovery in force; zero: none
}

func (r *regime) counting() []block.Schedule {
	if r.stage == joint {
		return []block.Schedule{r.other, r.cur}
	}
	return []block.Schedule{r.cur}
}

// Chain follows final blocks from the trusted start, epoch by epoch. In every epoch whose schedule follows, the run must
// hold the last header: it names the next schedule. A change of schedule goes on at the end of an epoch whose chain proves
// a certain block final; that it does is shown by any header of the epoch with such a certificate in its record, that it
// does not by all headers since. Runs come in ascending order; between them headers may be left out.
type Chain struct {
	trust *Trust
	keys  *bls.Cache
	own   bool // the headers are of this node's own final chain: signatures were verified
	state chainState
}

type chainState struct {
	regime
	start     bool // nothing was shown yet
	tentative bool // started at a checkpoint: its schedule is confirmed by the next end of an epoch
	epoch     uint64
	height    uint64 // newest header shown
	slot      uint64
	hash      common.Hash
	mark      uint64 // slot; a change goes on once a block of this slot or above is proved final
	final     uint64 // highest slot of a certificate of precommits in the records shown
	gapless   bool   // all headers since the mark were shown

	recoveries []*recovery.Signed // that the chain went on by, oldest first
}

// NewChain starts at the genesis block.
func NewChain(t *Trust) *Chain {
	return &Chain{trust: t, keys: bls.NewCache(0), state: chainState{regime: regime{cur: t.Schedule}, start: true, hash: t.Genesis, gapless: true}}
}

func (c *Chain) fail(h uint64, format string, args ...any) error {
	return fmt.Errorf("%w: block %d: %w", ErrFinality, h, fmt.Errorf(format, args...)) //nolint:err113 // with what it wraps
}

// Confirmed reports whether everything that Extend took is proved: after a start at a checkpoint only once an epoch ended.
func (c *Chain) Confirmed() bool { return !c.state.tentative }

// Height is that of the newest header shown.
func (c *Chain) Height() uint64 { return c.state.height }

// Extend checks one run. Its headers are final blocks of the chain if there is no error. Errors wrap ErrFinality and leave
// the chain as it was.
func (c *Chain) Extend(run *Run) error {
	if len(run.Headers) == 0 || len(run.Headers) > MaxRunHeaders {
		return fmt.Errorf("%w: a run of %d headers, 1 to %d allowed", ErrFinality, len(run.Headers), MaxRunHeaders)
	}
	if err := checkRunRecoveries(run); err != nil {
		return err
	}
	last := run.Headers[len(run.Headers)-1]
	if run.Certificate == nil {
		return c.upToCheckpoint(run, last)
	}
	s := c.state
	own := s.regime
	known := append(slices.Clip(run.Recoveries), c.trust.Recoveries...)
	for i, h := range run.Headers {
		if err := c.checkpoint(h); err != nil {
			return err
		}
		if s.start && i == 0 && c.adopt(&s, h) {
			if err := c.adoptRecoveries(&s, h, known); err != nil {
				return err
			}
			own = s.regime
			continue
		}
		var err error
		if own, err = c.step(&s, h, i > 0, known); err != nil {
			return err
		}
	}
	if err := c.certificate(run.Certificate, last, &own); err != nil {
		return err
	}
	s.start = false
	c.state = s
	return nil
}

// checkpoint refuses a header that differs from the trusted one of its height.
func (c *Chain) checkpoint(h *block.SealedHeader) error {
	if h == nil || h.Header == nil || h.Record == nil {
		return fmt.Errorf("%w: a header is missing", ErrFinality)
	}
	if t := c.trust.Checkpoint; t != nil && h.Number() == t.Height && h.Hash() != t.Hash {
		return fmt.Errorf("%w: %w: block %d is %s, the trusted one is %s", ErrFinality, ErrForked, t.Height, h.Hash(), t.Hash)
	}
	if common.BytesToHash(h.Header.Extra) != h.Record.Hash() || len(h.Header.Extra) != common.HashLength {
		return c.fail(h.Number(), "its record is not the one that the header names")
	}
	return nil
}

// adopt starts at the trusted checkpoint where that is the end of an epoch with a schedule. The schedule is in force only
// if it is not new; the next end of an epoch shows that, since no schedule is named there while a change is under way.
func (c *Chain) adopt(s *chainState, h *block.SealedHeader) bool {
	t := c.trust.Checkpoint
	if t == nil || h.Number() != t.Height || !c.trust.Params.EpochEnd(t.Height) || checkSchedule(h.Record.Next) != nil {
		return false
	}
	*s = chainState{regime: regime{cur: h.Record.Next}, tentative: true, epoch: t.Height / c.trust.Params.EpochBlocks,
		height: t.Height, slot: h.Slot(), hash: t.Hash, gapless: true}
	return true
}

// step checks a header against what was shown before and moves on. It gives the regime of the block itself.
func (c *Chain) step(s *chainState, h *block.SealedHeader, linked bool, known []*recovery.Signed) (own regime, err error) {
	p, n := &c.trust.Params, h.Number()
	switch next := s.height + 1; {
	case n < next || h.Slot() <= s.slot:
		return own, c.fail(n, "it is not above block %d of slot %d", s.height, s.slot)
	case n > next && linked:
		return own, c.fail(n, "the header of block %d is missing in the run", next)
	case n == next && h.Parent() != s.hash:
		return own, c.fail(n, "its parent is %s, block %d is %s", h.Parent(), s.height, s.hash)
	case (n-1)/p.EpochBlocks != s.epoch:
		return own, c.fail(n, "the end of epoch %d is missing", s.epoch)
	case n > next:
		s.gapless = false
	}
	if h.Record.Recovery != (common.Hash{}) {
		if err := c.recoveredBy(s, h, known); err != nil {
			return own, err
		}
	}
	own = s.regime
	s.height, s.slot, s.hash = n, h.Slot(), h.Hash()
	if fc := h.Record.FC; fc != nil {
		s.final = max(s.final, fc.Target.Slot)
	}
	if p.EpochEnd(n) {
		err = c.endEpoch(s, h)
	}
	return own, err
}

// endEpoch is rule 9: what the last block of an epoch makes of the schedules.
func (c *Chain) endEpoch(s *chainState, h *block.SealedHeader) error {
	next := h.Record.Next
	if (len(next) > 0) != (s.stage == settled) {
		return c.fail(h.Number(), "next schedule present: %t, while a change is under way: %t", len(next) > 0, s.stage != settled)
	}
	s.epoch++
	if s.stage == settled {
		if err := checkSchedule(next); err != nil {
			return c.fail(h.Number(), "%v", err)
		}
		s.tentative = false
		if !next.Equal(s.cur) {
			s.regime = regime{stage: announced, cur: s.cur, other: next, domain: s.domain}
			s.mark, s.gapless = h.Slot(), true
		}
		return nil
	}
	switch {
	case s.final < s.mark && !s.gapless:
		return c.fail(h.Number(), "whether its chain proves slot %d final is not shown: give a header with such a certificate, or all headers of the epoch", s.mark)
	case s.final < s.mark:
	case s.stage == announced:
		s.regime = regime{stage: joint, cur: s.other, other: s.cur, domain: s.domain}
		s.mark, s.gapless = h.Slot()+1, true
	default:
		s.regime = regime{cur: s.cur, domain: s.domain}
	}
	return nil
}

// upToCheckpoint checks a run that hangs on the trusted checkpoint alone.
func (c *Chain) upToCheckpoint(run *Run, last *block.SealedHeader) error {
	for i, h := range run.Headers {
		if err := c.checkpoint(h); err != nil {
			return err
		}
		if i > 0 && (h.Parent() != run.Headers[i-1].Hash() || h.Number() != run.Headers[i-1].Number()+1) {
			return c.fail(h.Number(), "it is no child of block %d", run.Headers[i-1].Number())
		}
		if r := h.Record.Recovery; c.trust.NoRecovery && r != (common.Hash{}) {
			return c.fail(h.Number(), "%w: the chain was recovered there, by %s", ErrRecovered, r)
		}
	}
	if t := c.trust.Checkpoint; t == nil || last.Number() != t.Height {
		return c.fail(last.Number(), "there is no certificate for it, and it is not the trusted block")
	}
	return nil
}

// certificate checks that a quorum of each schedule precommitted the block, in the domain of its regime.
func (c *Chain) certificate(x *block.Certificate, h *block.SealedHeader, own *regime) error {
	schedules := own.counting()
	if x.Kind != block.Precommit || x.Target != h.Point() || x.Source != x.Target {
		return c.fail(h.Number(), "the certificate is of %ss on slot %d %s", x.Kind, x.Target.Slot, x.Target.Hash)
	}
	voters, err := x.Voters(schedules)
	if err != nil {
		return c.fail(h.Number(), "%v", err)
	}
	for i, s := range schedules {
		n := 0
		for _, b := range x.Bitmaps[i] {
			n += bits.OnesCount8(b)
		}
		if n < s.Quorum() {
			return c.fail(h.Number(), "%d producers of %d precommitted it, %d are a quorum", n, len(s), s.Quorum())
		}
	}
	if c.own {
		return nil
	}
	keys := make([][48]byte, len(voters))
	for i := range voters {
		keys[i] = voters[i].Key
	}
	d := block.Domain{Genesis: c.trust.Genesis, Recovery: own.domain}.VoteDigest(x.Link)
	if !c.keys.VerifyAggregate(keys, d[:], x.Aggregate) {
		return c.fail(h.Number(), "the signatures of its certificate are wrong")
	}
	return nil
}

func checkSchedule(s block.Schedule) error {
	if len(s) == 0 || len(s) > block.MaxProducers {
		return fmt.Errorf("a schedule of %d producers, 1 to %d allowed", len(s), block.MaxProducers)
	}
	seen := make(map[common.Address]bool, len(s))
	for i := range s {
		if seen[s[i].Account] {
			return fmt.Errorf("a schedule names producer %s twice", s[i].Account)
		}
		seen[s[i].Account] = true
	}
	return nil
}

// finalHeader is the header of a height, shown to be final by runs from the trusted start on, with the recoveries on the way.
func finalHeader(t *Trust, runs []Run, height uint64) (*block.SealedHeader, []*recovery.Signed, error) {
	if len(runs) == 0 {
		return nil, nil, fmt.Errorf("%w: the proof has no headers", ErrFinality)
	}
	c := NewChain(t)
	var found *block.SealedHeader
	for i := range runs {
		if err := c.Extend(&runs[i]); err != nil {
			return nil, nil, err
		}
		for _, h := range runs[i].Headers {
			if h.Number() == height {
				found = h
			}
		}
	}
	switch {
	case !c.Confirmed():
		return nil, nil, fmt.Errorf("%w: the trusted block's schedule is not confirmed by the end of the next epoch", ErrFinality)
	case found == nil:
		return nil, nil, fmt.Errorf("%w: the header of block %d is missing", ErrFinality, height)
	}
	return found, c.Recoveries(), nil
}
