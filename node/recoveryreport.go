package node

import (
	"errors"
	"fmt"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"go.uber.org/zap"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/blockstore"
	"github.com/bornode/bornode/config"
	"github.com/bornode/bornode/consensus"
	"github.com/bornode/bornode/consensus/signer"
	"github.com/bornode/bornode/genesis"
	"github.com/bornode/bornode/recovery"
)

// surveyed is a stopped node's folder, opened to look at it.
type surveyed struct {
	gen     *genesis.Genesis
	zero    common.Hash
	store   *blockstore.Store
	survey  *consensus.Survey
	signer  *signer.Local // nil: an observer's
	applied recoveries
	number  uint64      // of the recovery in force; 0: none
	inForce common.Hash // its hash
}

// openSurvey opens a stopped node's folder and takes a survey of it. Nothing of the folder changes. Close the store.
func openSurvey(cfg *config.Config, log *zap.Logger) (_ *surveyed, err error) {
	f := new(surveyed)
	if f.gen, err = LoadGenesis(cfg); err != nil {
		return nil, err
	}
	zero, err := f.gen.Block()
	if err != nil {
		return nil, err
	}
	f.zero = zero.Hash()
	var account common.Address
	if cfg.Keys.Producer != "" {
		if f.signer, err = signer.Load(cfg.Path(cfg.Keys.Producer)); err != nil {
			return nil, err
		}
		account = f.signer.Account()
	}
	if f.store, err = InspectStore(cfg, log); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.store.Close())
		}
	}()
	if f.applied, err = loadRecoveries(cfg, f.gen); err != nil { // under the store's lock: bornode recover apply writes them
		return nil, err
	}
	f.number, f.inForce = f.applied.inForce()
	if f.store.Empty() {
		return nil, fmt.Errorf("the folder %s holds no blocks: nothing is known there to go on from", cfg.DataDir)
	}
	if f.survey, err = takeSurvey(cfg, f.gen, f.zero, account, &f.applied, f.store); err != nil {
		return nil, err
	}
	return f, nil
}

// takeSurvey takes a survey of a folder whose store is open, which goes by these recoveries; account is the producer's whose vote log is
// there, zero for an observer.
func takeSurvey(cfg *config.Config, gen *genesis.Genesis, zero common.Hash, account common.Address, known *recoveries, store *blockstore.Store) (*consensus.Survey, error) {
	s, err := consensus.OpenSurvey(cfg.Path(cfg.Consensus.Dir), account, consensus.Deps{
		Params: gen.Parameters(), Genesis: zero, Schedule: gen.Schedule(), Recoveries: known.forMachine(), Store: store,
	})
	return s, storeFault(cfg.Path(cfg.Store.Dir), err)
}

// blockAt is a place with the state root that its header names.
func (f *surveyed) blockAt(p consensus.Place) (recovery.Block, error) {
	h, err := f.store.Header(p.Hash)
	if err != nil {
		return recovery.Block{}, fmt.Errorf("read the header of block %d %s: %w", p.Height, p.Hash, err)
	}
	return recovery.Block{Height: p.Height, Slot: p.Slot, Hash: p.Hash, StateRoot: h.Header.Root}, nil
}

// SurvivorReport makes and signs the report of a producer whose node does not run (DESIGN §7 rule 13); now is its clock.
// Nothing of the folder changes.
func SurvivorReport(cfg *config.Config, log *zap.Logger, now time.Time) (r *recovery.Report, err error) {
	f, err := openSurvey(cfg, log)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.store.Close()) }()
	if f.signer == nil {
		return nil, fmt.Errorf("the node of %s is an observer (keys.producer is empty): reports of survivors are signed by producers", cfg.DataDir)
	}
	s := f.survey
	r = &recovery.Report{
		Genesis: f.zero, Number: f.number, Recovery: f.inForce, Producer: f.signer.Account(), Time: uint64(now.Unix()), FC: s.FC, QC: s.QC, Precommit: s.Precommit, //nolint:gosec // after 1970
		NewestSlot: s.NewestSlot, Incomplete: s.Incomplete, Proof: f.signer.ProvePossession(f.gen.Parameters().ChainID),
	}
	if r.LIB, err = f.blockAt(s.LIB); err != nil {
		return nil, err
	}
	if r.Justified, err = f.blockAt(s.Justified); err != nil {
		return nil, err
	}
	r.Under = f.applied.domainAt(f.zero, r.Justified.Slot).Recovery
	if r.Schedules, err = s.SurvivorSchedules(s.Justified.Hash); err != nil {
		return nil, err
	}
	if !hasSeat(r.Schedules, r.Producer) {
		return nil, fmt.Errorf("producer %s has no seat in the schedule of the newest justified block %d: it is no survivor of it, and a report of it would count for nothing", r.Producer, r.Justified.Height)
	}
	if r.Seal, err = f.signer.SignSeal(r.Digest()); err != nil {
		return nil, err
	}
	if err := r.Check(); err != nil {
		return nil, fmt.Errorf("what the folder %s holds makes no report: %w", cfg.DataDir, err)
	}
	return r, nil
}

func hasSeat(schedules []block.Schedule, a common.Address) bool {
	for _, s := range schedules {
		if s.Index(a) >= 0 {
			return true
		}
	}
	return false
}
