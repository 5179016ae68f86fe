package consensus

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/ethereum/go-ethereum/common"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/consensus/dpos"
	"github.com/bornode/bornode/internal/vfs"
)

// Survey is what the folder of a node that does not run proves: the input of a recovery (DESIGN §7 rule 13).
type Survey struct {
	LIB, Justified Place // Justified: of the highest slot known to be justified, LIB or above
	FC             *block.Certificate
	QC             *block.Certificate // of Justified; nil: Justified is LIB
	Precommit      block.Point        // target of the newest precommit in the vote log; zero: none
	NewestSlot     uint64             // highest slot that the log holds a vote or a seal for
	Incomplete     bool               // the log may lack signatures above LIB

	machine *dpos.Machine
}

// OpenSurvey reads the vote log in dir and the store as a start would, and changes neither. Of d it uses Params, Genesis,
// Schedule, Recoveries and Store. account is the producer's whose log it is; zero: an observer's folder, of which only the store is read. It
// must not run beside a process that uses the folder.
func OpenSurvey(dir string, account common.Address, d Deps) (*Survey, error) {
	held, err := readVoteLog(dir, account, d.Genesis)
	if err != nil {
		return nil, err
	}
	root, err := (&Driver{deps: d}).root()
	if err != nil {
		return nil, err
	}
	mc := dpos.DefaultConfig(d.Params, common.Address{})
	mc.Recoveries = d.Recoveries
	m, err := dpos.New(mc, root)
	if err != nil {
		return nil, fmt.Errorf("survey of the folder: %w", err)
	}
	blocks, err := d.Store.Reversible()
	if err != nil {
		return nil, fmt.Errorf("read reversible blocks: %w", err)
	}
	for _, b := range blocks {
		_ = m.Step(dpos.HeaderEvent{Header: dpos.HeaderOf(b.SealedHeader)}) // one that does not enter proves nothing
	}
	s := &Survey{machine: m, Incomplete: held.lost}
	qc, fc := d.Store.Certificates()
	for _, c := range []*block.Certificate{qc, fc} {
		s.enterCertificate(c)
	}
	floor := uint64(0)
	for _, r := range held.records {
		s.enterCertificate(r.QC)
		if r.Recovery != m.Domain() {
			continue // what was signed in an older domain does not bind in this one
		}
		if r.Kind == dpos.RecordFloor {
			floor = max(floor, r.Slot)
		}
		s.NewestSlot = max(s.NewestSlot, signedSlot(r))
		if r.Kind == dpos.RecordPrecommit && r.Link.Target.Slot >= s.Precommit.Slot {
			s.Precommit = r.Link.Target
		}
	}
	lib := m.LIB()
	s.LIB, s.FC = Place{lib.Height, lib.Slot, lib.Hash}, m.BestFC()
	s.Incomplete = s.Incomplete || floor > lib.Slot // a floor covers what was forgotten (rule 11)
	just, ok := s.Find(m.Justified().Hash)
	if !ok {
		return nil, errors.New("survey of the folder: the justified block is not in the tree")
	}
	if s.Justified = just; just != s.LIB {
		s.QC = m.BestQC()
	}
	return s, nil
}

// enterCertificate enters a certificate that was verified before it was stored. One of a block that is not here, or of no use, is left out.
func (s *Survey) enterCertificate(c *block.Certificate) {
	if c != nil {
		_ = s.machine.Step(dpos.CertificateEvent{Certificate: c})
	}
}

// signedSlot is the slot of what a record says was signed; 0: nothing.
func signedSlot(r dpos.SignRecord) uint64 {
	switch r.Kind {
	case dpos.RecordProduced, dpos.RecordPrevote, dpos.RecordPrecommit:
		return r.Slot
	}
	return 0
}

// readVoteLog reads the vote log of a producer and changes nothing. A missing one is incomplete, and so is one in the folder of a copy.
func readVoteLog(dir string, account common.Address, genesis common.Hash) (c logContents, err error) {
	if account == (common.Address{}) {
		return c, nil
	}
	path := filepath.Join(dir, voteLogName)
	raw, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		c.lost = true
		return c, nil
	}
	if err != nil {
		return c, fmt.Errorf("read vote log %s: %w", path, err)
	}
	if err := checkVoteLogHeader(path, raw, account, genesis); err != nil {
		return c, err
	}
	payloads, _, damaged := readEntries(raw)
	if c, err = decodePayloads(payloads); err != nil {
		return c, fmt.Errorf("%s: %w", path, err)
	}
	isCopy, err := markedCopy(vfs.OS(dir, vfs.Private))
	c.lost = c.lost || damaged || isCopy
	if err != nil {
		return c, err
	}
	return c, nil
}

// Find is a block at or above LIB; false: the folder does not hold it there.
func (s *Survey) Find(hash common.Hash) (Place, bool) {
	h, ok := s.machine.Get(hash)
	return Place{h.Height, h.Slot, h.Hash}, ok
}

// Schedules are those that votes on a block at or above LIB are counted for.
func (s *Survey) Schedules(hash common.Hash) ([]block.Schedule, error) {
	out, err := s.machine.VoteSchedules(hash)
	return out, translate(err)
}

// SurvivorSchedules are those whose producers count as survivors or as lost if the chain is to go on from a block at or above LIB.
func (s *Survey) SurvivorSchedules(hash common.Hash) ([]block.Schedule, error) {
	out, err := s.machine.SurvivorSchedules(hash)
	return out, translate(err)
}

// Descends reports whether a block at or above LIB is another one, or descends from it; both must be there.
func (s *Survey) Descends(hash, from common.Hash) bool {
	for {
		if hash == from {
			return true
		}
		h, ok := s.machine.Get(hash)
		if !ok {
			return false
		}
		hash = h.Parent
	}
}
