package node

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"go.uber.org/zap"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/config"
	"github.com/bornode/bornode/recovery"
)

// maxSlotsAhead is how far the newest signed slot of a survivor may be ahead of the time for the first slot of a recovery to lie
// above it. One further ahead comes from a clock that was wrong, and does not bind in the new domain.
const maxSlotsAhead = 64

// PrepareOptions are what operators decide about a recovery.
type PrepareOptions struct {
	Reports   []*recovery.Report
	New       []PublicKeys     // producers that take a seat behind the survivors
	Without   []common.Address // survivors that take none
	FirstSlot uint64           // 0: the present one, or the one above the newest signed slot of a survivor
	MayUndo   bool             // the operators' word that final blocks may be undone
	Reason    string
	Now       time.Time // this machine's clock
}

// ErrMayUndo says that so many producers are lost, or have forgotten what they signed, that the operators have to say that final
// blocks may be undone.
var ErrMayUndo = errors.New("a quorum or more of the schedule did not report, or reports from an incomplete vote log, so blocks that only they know as final may be undone")

// ErrReportedLess says that the folder holds a justified block above all that the reports prove: a survivor that voted for it may hide that
// it is final.
var ErrReportedLess = errors.New("a justified block above the base is in no report, so final blocks may be undone")

// PrepareRecovery makes the unsigned statement of a recovery from reports of survivors and a stopped node's folder, which must
// hold the block to go on from, and of which nothing changes. What the reports tell is compared with the folder: schedules,
// state root, certificates, and that the base descends from every final block told.
func PrepareRecovery(cfg *config.Config, o PrepareOptions, log *zap.Logger) (s *recovery.Statement, c *recovery.Choice, err error) {
	if c, err = recovery.ChooseBase(o.Reports); err != nil {
		return nil, nil, err
	}
	f, err := openSurvey(cfg, log)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, f.store.Close()) }()
	if err := f.checkChoice(cfg.DataDir, c, o.Reports); err != nil {
		return nil, c, err
	}
	if c.MayUndo && !o.MayUndo {
		return nil, c, fmt.Errorf("%w; look for further survivors and observers with newer blocks, and say --may-undo if there are none", ErrMayUndo)
	}
	if own := f.survey.Justified; own.Slot > c.Base.Slot {
		if c.MayUndo = true; !o.MayUndo {
			return nil, c, fmt.Errorf("%w: the folder %s holds block %d of slot %d %s; ask for the report of a producer that holds it, and say --may-undo if there is none", ErrReportedLess, cfg.DataDir, own.Height, own.Slot, own.Hash)
		}
	}
	warnStrangers(f.store, o.New, log)
	p := f.gen.Parameters()
	s = &recovery.Statement{
		Genesis: f.zero, Number: f.number + 1, Previous: f.inForce, Base: c.Base, FirstSlot: o.FirstSlot, Lost: slices.Clone(c.Lost), MayUndo: c.MayUndo, Reason: o.Reason,
		Time: uint64(o.Now.Unix()), //nolint:gosec // after 1970
	}
	least, last := firstSlot(&p, c, o.Now), lastFirstSlot(&p, o.Now)
	switch {
	case least > last: // whoever signs or applies it would refuse it
		from := p.SlotStart(least).Add(-maxFirstSlotAhead)
		return nil, c, fmt.Errorf("the base has slot %d, so the recovery begins with slot %d at the soonest, at %s: that is more than a day ahead of this machine's clock, %s. Set the clock if it is wrong; by a right one the recovery can be prepared from %s on",
			c.Base.Slot, least, inWords(p.SlotStart(least)), inWords(o.Now), inWords(from))
	case s.FirstSlot == 0:
		s.FirstSlot = least
	case s.FirstSlot < min(least, c.NewestSlot+1) || s.FirstSlot > last:
		return nil, c, fmt.Errorf("first slot %d: survivors signed slots up to %d, and within a day from now slot %d begins; leave --first-slot out for slot %d", s.FirstSlot, c.NewestSlot, last, least)
	}
	if s.Seats, err = chooseSeats(c, &o); err != nil {
		return nil, c, err
	}
	s.Lost = slices.DeleteFunc(s.Lost, func(a common.Address) bool { return s.Schedule().Index(a) >= 0 })
	if err := s.Check(); err != nil {
		return nil, c, err
	}
	return s, c, s.CheckPossession(p.ChainID)
}

// warnStrangers names the new producers whose nodes no one would link to: those that are no members as of the last irreversible block.
func warnStrangers(store memberStore, producers []PublicKeys, log *zap.Logger) {
	kept, err := (&members{store: store}).readKept()
	if err != nil {
		return // the folder's node never ran to the end of a block
	}
	for _, k := range producers {
		if !slices.Contains(kept.Peers, k.PeerID) {
			log.Warn("a new producer's node is no member as of the last irreversible block, so no node would link to it: take one that is, or leave it out and have it admitted when blocks are final again",
				zap.Stringer("account", k.Account), zap.String("peer", k.PeerID), zap.Uint64("height", kept.Height))
		}
	}
}

// firstSlot is the present slot, or the one above the newest that a survivor signed if that is not far ahead of the time.
func firstSlot(p *block.Parameters, c *recovery.Choice, now time.Time) uint64 {
	present, _ := p.SlotAt(now)
	first := max(present, c.Base.Slot+1)
	if c.NewestSlot <= first+maxSlotsAhead {
		first = max(first, c.NewestSlot+1)
	}
	return first
}

// chooseSeats are the survivors' without those that are to have none, then the new producers', in the order given.
func chooseSeats(c *recovery.Choice, o *PrepareOptions) (out []recovery.Seat, err error) {
	for _, s := range c.Survivors {
		if !slices.Contains(o.Without, s.Account) {
			out = append(out, s)
		}
	}
	if n := len(c.Survivors) - len(out); n != len(o.Without) {
		return nil, fmt.Errorf("of the %d producers that are to have no seat only %d are survivors: name survivors by their accounts", len(o.Without), n)
	}
	for _, k := range o.New {
		s := recovery.Seat{Account: k.Account, SealKey: k.Account}
		if len(k.BLSKey) != len(s.VoteKey) || len(k.Proof) != len(s.Proof) {
			return nil, fmt.Errorf("the keys of new producer %s have %d and %d bytes: give the file that bornode init --producer printed", k.Account, len(k.BLSKey), len(k.Proof))
		}
		copy(s.VoteKey[:], k.BLSKey)
		copy(s.Proof[:], k.Proof)
		out = append(out, s)
	}
	return out, nil
}

// checkChoice compares what the reports give with the folder, and takes the newest proof of a final block that both know.
func (f *surveyed) checkChoice(dir string, c *recovery.Choice, reports []*recovery.Report) error {
	switch {
	case reports[0].Genesis != f.zero:
		return fmt.Errorf("the reports are of the chain with genesis %s, the folder %s is of %s", reports[0].Genesis, dir, f.zero)
	case reports[0].Recovery != f.inForce:
		return fmt.Errorf("the reports are of nodes that go on by recovery %s (domain %d), the folder %s by %s (domain %d): apply the same on all nodes first", reports[0].Recovery, reports[0].Number, dir, f.inForce, f.number)
	}
	if err := f.checkBaseBehind(c); err != nil {
		return err
	}
	base, there := f.survey.Find(c.Base.Hash)
	switch lib := f.survey.LIB; {
	case lib.Height > c.Base.Height:
		return fmt.Errorf("the folder %s holds the final block %d, above the justified block %d that the reports prove: no base below it is allowed; add the report of this folder's producer, or of one that holds that block", dir, lib.Height, c.Base.Height)
	case !there:
		return fmt.Errorf("the folder %s does not hold the justified %s that producer %s reports: prepare the recovery in that producer's folder", dir, c.Base.Block, c.From)
	case !f.survey.Descends(base.Hash, lib.Hash):
		return fmt.Errorf("the justified %s that producer %s reports does not descend from the final block %d of the folder %s: this is a fork, keep all reports and folders", c.Base.Block, c.From, lib.Height, dir)
	}
	own, err := f.blockAt(base)
	if err != nil {
		return err
	}
	if own != c.Base.Block {
		return fmt.Errorf("producer %s reports the %s with state root %s, its header in the folder %s tells another: ask for the report again", c.From, c.Base.Block, c.Base.StateRoot, dir)
	}
	schedules, err := f.survey.SurvivorSchedules(base.Hash)
	if err != nil {
		return err
	}
	if !slices.EqualFunc(schedules, c.Schedules, block.Schedule.Equal) {
		return fmt.Errorf("producer %s reports other schedules for votes on the %s than the folder %s holds: its certificate proves nothing, ask for the report again", c.From, c.Base.Block, dir)
	}
	c.Base.FC = f.survey.FC
	for _, r := range reports {
		if under := f.applied.domainAt(f.zero, r.Justified.Slot).Recovery; r.Under != under {
			return fmt.Errorf("producer %s reports the justified %s of the domain of recovery %s, in the folder %s it is of that of %s: ask for the report again", r.Producer, r.Justified, r.Under, dir, under)
		}
		if err := f.checkFinal(dir, c, r); err != nil {
			return err
		}
	}
	return nil
}

// checkBaseBehind checks that the base is not below that of the recovery in force, whose block a survivor may lack.
func (f *surveyed) checkBaseBehind(c *recovery.Choice) error {
	if f.number == 0 {
		return nil
	}
	before := f.applied.applied[f.number-1]
	if err := recovery.CheckBaseBehind(c.Base.Block, before); err != nil {
		return fmt.Errorf("no report holds a block to go on from: %w", err)
	}
	return nil
}

// checkFinal checks that the base descends from the final block that a report tells, and takes the report's proof if it is newer.
func (f *surveyed) checkFinal(dir string, c *recovery.Choice, r *recovery.Report) error {
	if r.LIB.Height <= f.survey.LIB.Height {
		if hash, err := f.store.HashByHeight(r.LIB.Height); err == nil && hash != r.LIB.Hash {
			return fmt.Errorf("producer %s reports the final %s, the folder %s holds %s there: this is a fork, keep all reports and folders", r.Producer, r.LIB, dir, hash)
		}
		return nil
	}
	if !f.survey.Descends(c.Base.Hash, r.LIB.Hash) {
		return fmt.Errorf("the justified %s does not descend from the final %s that producer %s reports: this is a fork, keep all reports and folders", c.Base.Block, r.LIB, r.Producer)
	}
	schedules, err := f.survey.Schedules(r.LIB.Hash)
	if err == nil && r.FC != nil {
		err = recovery.CheckCertificate(r.FC, schedules, f.applied.domainAt(f.zero, r.LIB.Slot))
	}
	if err != nil {
		return fmt.Errorf("the proof of producer %s that the %s is final: %w", r.Producer, r.LIB, err)
	}
	if r.FC != nil && (c.Base.FC == nil || r.FC.Target.Slot > c.Base.FC.Target.Slot) {
		c.Base.FC = r.FC
	}
	return nil
}
