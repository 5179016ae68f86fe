package node

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"go.uber.org/zap"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/chain"
	"github.com/bornode/bornode/config"
	"github.com/bornode/bornode/consensus"
	"github.com/bornode/bornode/consensus/dpos"
	"github.com/bornode/bornode/genesis"
	"github.com/bornode/bornode/internal/vfs"
	"github.com/bornode/bornode/recovery"
	"github.com/bornode/bornode/transport"
)

// What a node's folder holds of recoveries (docs/storage.md): those that its operator applied, by their number, those that peers
// showed or that were refused, by their hash, and what an application set aside. Both kinds are the JSON form of package recovery.
const (
	RecoveryFolder = "recovery"
	appliedPrefix  = "applied-" // then the number, four digits
	shownPrefix    = "shown-"   // then the hash
	recoverySuffix = ".json"

	maxApplied = 256 // recoveries of one chain
	maxShown   = 16  // kept of those that peers show; each was signed by the recovery keys
)

// recoveryBook is what a running node knows of recoveries, as package blocksync and the operator see it. It may be used from any
// goroutine.
type recoveryBook struct {
	cfg  *config.Config
	gen  *genesis.Genesis
	zero common.Hash
	log  *zap.Logger

	mu     sync.Mutex
	known  recoveries
	alarms []consensus.Alarm
}

func newRecoveryBook(cfg *config.Config, gen *genesis.Genesis, known recoveries, log *zap.Logger) (*recoveryBook, error) {
	zero, err := gen.Block()
	if err != nil {
		return nil, err
	}
	b := &recoveryBook{cfg: cfg, gen: gen, zero: zero.Hash(), log: log, known: known}
	for _, s := range known.shown {
		b.raiseAlarm(s)
	}
	return b, nil
}

// Shown implements blocksync.Recoveries.
func (b *recoveryBook) Shown() (out [][]byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := len(b.known.applied)
	if n == 0 {
		return nil
	}
	newest := b.known.applied[n-1]
	out = append(out, newest.Encode())
	if rivals := b.known.rivalsOf(newest); len(rivals) > 0 {
		out = append(out, rivals[0].Encode())
	}
	return out
}

// Meet implements blocksync.Recoveries.
func (b *recoveryBook) Meet(peer transport.PeerID, shown [][]byte) (same bool, err error) {
	var newest common.Hash
	for i, raw := range shown {
		s, err := recovery.DecodeSigned(raw)
		if err != nil {
			return false, err
		}
		if i == 0 {
			newest = s.Hash()
		}
		if b.isKnown(s.Hash()) {
			continue
		}
		if err := verifyRecovery(s, b.gen, b.zero); err != nil {
			return false, err
		}
		if err := b.keepShown(peer, s); err != nil {
			b.log.Error("a recovery that a peer showed is not kept", zap.Stringer("recovery", s.Hash()), zap.Error(err))
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	_, mine := b.known.inForce()
	return newest == mine, nil
}

func (b *recoveryBook) isKnown(hash common.Hash) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.ContainsFunc(slices.Concat(b.known.applied, b.known.shown), func(s *recovery.Signed) bool { return s.Hash() == hash })
}

func (b *recoveryBook) keepShown(peer transport.PeerID, s *recovery.Signed) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	isNew, err := b.known.keepShown(b.cfg, s)
	if isNew {
		b.log.Warn("a peer goes by a recovery of the chain that is not applied here: this node goes on without it, and nothing may become final here any more",
			zap.String("peer", string(peer)), zap.Stringer("recovery", s.Hash()), zap.Uint64("domain", s.Statement.Number),
			zap.Uint64("base", s.Statement.Base.Height), zap.String("reason", s.Statement.Reason))
		b.raiseAlarm(s)
	}
	return err
}

// tell raises the alarm for a recovery that is not applied, unless one applied here followed it.
func (b *recoveryBook) raiseAlarm(s *recovery.Signed) {
	number, mine := b.known.inForce()
	x := &s.Statement
	if slices.ContainsFunc(b.known.applied, func(o *recovery.Signed) bool { return o.Hash() == s.Hash() }) {
		return
	}
	text := fmt.Sprintf("the recovery keys signed recovery %s (domain %d, from block %d on: %.200s), which is not applied here. Ask the other operators; to follow it stop the node and run bornode recover apply", s.Hash(), x.Number, x.Base.Height, x.Reason)
	if rivals := b.known.rivalsOf(s); len(rivals) > 0 {
		text = fmt.Sprintf("two recoveries with one predecessor were signed, %s and %s; at most one can count. This node goes by %s of domain %d. Compare them with bornode recover show and agree with the other operators", rivals[0].Hash(), s.Hash(), mine, number)
	}
	b.alarms = append(b.alarms, consensus.Alarm{
		Kind: "recovery", Since: time.Now(), Text: text, File: filepath.Join(b.cfg.Path(RecoveryFolder), shownName(s.Hash())),
	})
}

// Alarms are what the operator has to look at.
func (b *recoveryBook) Alarms() []consensus.Alarm {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.alarms)
}

// recoveries are what a folder holds, verified.
type recoveries struct {
	applied []*recovery.Signed // each goes on from the one before
	shown   []*recovery.Signed // by rising hash
}

// LoadRecoveries reads the recoveries that the operator of a folder applied, oldest first. A file that is damaged, or that the
// recovery keys did not sign, is an error: without it the node would follow another history.
func LoadRecoveries(cfg *config.Config, gen *genesis.Genesis) ([]*recovery.Signed, error) {
	r, err := loadRecoveries(cfg, gen)
	return r.applied, err
}

func recoveryFiles(cfg *config.Config) vfs.FS { return vfs.OS(cfg.Path(RecoveryFolder), vfs.Private) }

func loadRecoveries(cfg *config.Config, gen *genesis.Genesis) (r recoveries, err error) {
	fs := recoveryFiles(cfg)
	names, err := fs.List(".")
	if errors.Is(err, os.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return r, fmt.Errorf("look for recoveries: %w", err)
	}
	slices.Sort(names)
	zero, err := gen.Block()
	if err != nil {
		return r, err
	}
	for _, name := range names {
		if !strings.HasSuffix(name, recoverySuffix) {
			continue
		}
		list := &r.applied
		switch {
		case strings.HasPrefix(name, appliedPrefix):
		case strings.HasPrefix(name, shownPrefix):
			list = &r.shown
		default:
			continue
		}
		s, err := readRecovery(fs, name)
		if err == nil {
			err = verifyRecovery(s, gen, zero.Hash())
		}
		if err != nil && list == &r.shown {
			continue // nobody acts on it
		}
		if err != nil {
			return r, fmt.Errorf("recovery file %s cannot be used: %w; put it back from another node of this network", filepath.Join(cfg.Path(RecoveryFolder), name), err)
		}
		if *list = append(*list, s); len(r.applied) > maxApplied || len(r.shown) > maxShown {
			return r, fmt.Errorf("folder %s holds more recoveries than a chain may have (%d applied, %d shown)", cfg.Path(RecoveryFolder), maxApplied, maxShown)
		}
	}
	for i, s := range r.applied {
		if err := followsAll(s, r.applied[:i]); err != nil {
			return r, fmt.Errorf("folder %s: %w", cfg.Path(RecoveryFolder), err)
		}
	}
	return r, nil
}

func readRecovery(fs vfs.FS, name string) (*recovery.Signed, error) {
	b, err := vfs.ReadFile(fs, name, recovery.MaxFileBytes)
	if err != nil {
		return nil, err
	}
	s := new(recovery.Signed)
	return s, s.UnmarshalJSON(b)
}

// verifyRecovery checks that a recovery is of this chain, that its recovery keys signed it, and its limits (checkLimits). The
// signatures come before the costly rest: peers show recoveries, too.
func verifyRecovery(s *recovery.Signed, gen *genesis.Genesis, zero common.Hash) error {
	if err := checkChain(&s.Statement, zero); err != nil {
		return err
	}
	if err := s.Verify(gen.RecoveryKeys()); err != nil {
		return err
	}
	return checkLimits(&s.Statement, gen)
}

// VerifyRecoveries checks that recoveries, oldest first, are those that a chain may have gone on by: of this genesis file's chain, signed
// by its recovery keys, each the successor of the one before. Errors wrap recovery.ErrInvalid.
func VerifyRecoveries(gen *genesis.Genesis, list []*recovery.Signed) error {
	zero, err := gen.Block()
	if err != nil {
		return err
	}
	for i, s := range list {
		if err := errors.Join(verifyRecovery(s, gen, zero.Hash()), followsAll(s, list[:i])); err != nil {
			return fmt.Errorf("recovery %s: %w", s.Hash(), err)
		}
	}
	return nil
}

// followsAll checks that a recovery is the next one after those applied, and undoes none of their bases.
func followsAll(s *recovery.Signed, applied []*recovery.Signed) error {
	previous, number := common.Hash{}, uint64(len(applied))+1
	if len(applied) > 0 {
		previous = applied[len(applied)-1].Hash()
	}
	if x := &s.Statement; x.Number != number || x.Previous != previous {
		return fmt.Errorf("%w: recovery %s opens domain %d after %s, the next one here is %d after %s; %s", recovery.ErrInvalid, s.Hash(), x.Number, x.Previous, number, previous, notNextRemedy(x, number))
	}
	if len(applied) > 0 {
		if err := recovery.CheckBaseBehind(s.Statement.Base.Block, applied[len(applied)-1]); err != nil {
			return fmt.Errorf("recovery %s: %w", s.Hash(), err)
		}
	}
	return nil
}

// createApplied makes a recovery the next one that a folder goes by, durably. One that stands there already is never replaced.
func createApplied(cfg *config.Config, s *recovery.Signed) error {
	name := appliedName(s.Statement.Number)
	err := writeRecovery(cfg, name, s, vfs.CreateFile)
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("%w and applied: file %s came there while recovery %s was applied; compare them with bornode recover show", ErrRivalRecovery, filepath.Join(cfg.Path(RecoveryFolder), name), s.Hash())
	}
	return err
}

// notNextRemedy says what to do about a statement that is not of the domain that comes next, which has a number.
func notNextRemedy(s *recovery.Statement, next uint64) string {
	if s.Number > next {
		return fmt.Sprintf("apply those of the domains %d to %d first, in order, with bornode recover apply: a node that has applied them keeps them as %s",
			next, s.Number-1, filepath.Join(RecoveryFolder, appliedName(next)))
	}
	return "compare it with those applied here, " + filepath.Join(RecoveryFolder, appliedPrefix+"*") + ", by bornode recover show, and agree with the other operators"
}

// domainAt is what certificates on a block of this slot are bound to in the history that recoveries make.
func (r *recoveries) domainAt(genesis common.Hash, slot uint64) block.Domain {
	return block.Domain{Genesis: genesis, Recovery: dpos.DomainAt(r.forMachine(), slot)}
}

// writeRecovery makes a recovery durable under a name; write is vfs.CreateFile or vfs.ReplaceFile.
func writeRecovery(cfg *config.Config, name string, s *recovery.Signed, write func(fs vfs.FS, name string, data []byte) error) error {
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	fs := recoveryFiles(cfg)
	if err := fs.Mkdir("."); err != nil {
		return fmt.Errorf("make the folder of recoveries: %w", err)
	}
	return write(fs, name, append(b, '\n'))
}

// appliedFiles are the names, within a node's folder, of the recoveries that it goes by, without which its blocks are of no use.
func appliedFiles(cfg *config.Config) (files []string, err error) {
	names, err := recoveryFiles(cfg).List(".")
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	for _, name := range names {
		if strings.HasPrefix(name, appliedPrefix) && strings.HasSuffix(name, recoverySuffix) {
			files = append(files, filepath.Join(RecoveryFolder, name))
		}
	}
	slices.Sort(files)
	return files, err
}

func appliedName(number uint64) string {
	return fmt.Sprintf("%s%04d%s", appliedPrefix, number, recoverySuffix)
}

func shownName(hash common.Hash) string { return shownPrefix + hash.Hex()[2:] + recoverySuffix }

// keepShown keeps a recovery that is not applied; it reports whether it is new. Beyond the bound none is kept.
func (r *recoveries) keepShown(cfg *config.Config, s *recovery.Signed) (isNew bool, err error) {
	hash := s.Hash()
	for _, o := range slices.Concat(r.applied, r.shown) {
		if o.Hash() == hash {
			return false, nil
		}
	}
	if len(r.shown) >= maxShown {
		return false, nil
	}
	r.shown = append(r.shown, s)
	slices.SortFunc(r.shown, func(a, b *recovery.Signed) int { x, y := a.Hash(), b.Hash(); return bytes.Compare(x[:], y[:]) })
	return true, writeRecovery(cfg, shownName(hash), s, vfs.ReplaceFile)
}

// rivalsOf are the recoveries known here that have the same predecessor and are others.
func (r *recoveries) rivalsOf(s *recovery.Signed) (out []*recovery.Signed) {
	for _, o := range slices.Concat(r.applied, r.shown) {
		if how, _ := recovery.Relate(o, s); how == recovery.Contradict {
			out = append(out, o)
		}
	}
	return out
}

// inForce is the number and the hash of the newest recovery applied; zero: none is.
func (r *recoveries) inForce() (number uint64, hash common.Hash) {
	if n := len(r.applied); n > 0 {
		return uint64(n), r.applied[n-1].Hash()
	}
	return 0, common.Hash{}
}

// forMachine are the recoveries as consensus needs them.
func (r *recoveries) forMachine() (out []dpos.Recovery) {
	for _, s := range r.applied {
		x := &s.Statement
		out = append(out, dpos.Recovery{Hash: s.Hash(), Base: x.Base.Point(), Height: x.Base.Height, FirstSlot: x.FirstSlot, Schedule: x.Schedule()})
	}
	return out
}

// forChain are what execution needs of them.
func (r *recoveries) forChain() map[common.Hash]chain.Recovery {
	out := make(map[common.Hash]chain.Recovery, len(r.applied))
	for _, s := range r.applied {
		out[s.Hash()] = chain.Recovery{Schedule: s.Statement.Schedule(), Lost: s.Statement.Lost}
	}
	return out
}
