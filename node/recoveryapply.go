package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"go.uber.org/zap"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/blockstore"
	"github.com/bornode/bornode/config"
	"github.com/bornode/bornode/consensus"
	"github.com/bornode/bornode/consensus/dpos"
	"github.com/bornode/bornode/consensus/signer"
	"github.com/bornode/bornode/genesis"
	"github.com/bornode/bornode/internal/format"
	"github.com/bornode/bornode/internal/vfs"
	"github.com/bornode/bornode/recovery"
)

// Why a recovery is not applied, beside recovery.ErrInvalid. Test with errors.Is.
var (
	// ErrOtherHistory: what this node holds as final does not lead to the base. The evidence is kept, and the node signs nothing.
	ErrOtherHistory = errors.New("this node's final chain does not lead to the recovery's base")
	// ErrRivalRecovery: another recovery with the same predecessor is known here, and the operator has named neither, or it is applied.
	ErrRivalRecovery = errors.New("another recovery with the same predecessor is known here")
)

// AppliedRecovery tells what an application did.
type AppliedRecovery struct {
	Hash     common.Hash
	Number   uint64
	Already  bool   // it was applied before: nothing was done
	SetAside string // folder of copies of what the node had above the base, and of the vote log; empty: there was nothing
	Undone   int    // reversible blocks that are out, copies of which are there; if the base is not here, all of them, of which some may stay
	HasBase  bool   // the base is here; else the node fetches the blocks up to it from others
	// Unproven: the folder cannot tell whether its final blocks lead to the base, since the blocks that would show it are pruned. If
	// they do not, the node stops at the base that it fetches.
	Unproven bool
	// Continued: the final chain here goes on by this recovery already, so that only its file was missing. Nothing is set aside.
	Continued bool
	// Later is a recovery that comes after this one, by which the final chain here goes on, and which is not applied either; zero: there
	// is none. The node does not start without it.
	Later common.Hash
}

// ApplyOptions are what the operator of a folder says about a recovery.
type ApplyOptions struct {
	Named   common.Hash // the hash that the operators agreed on; zero: none is named, which does where no rival of the recovery is known
	MayUndo bool        // final blocks may be undone, though the recovery says that none are
}

// ApplyRecovery makes a stopped node's folder go on by a recovery: from the next start on the node holds the base as final, follows
// and signs nothing but what comes behind it in the recovery's domain, and refuses what else its folder holds above it, of which
// copies are set aside first. Nothing is deleted here and nothing rolled back: the file that says that the recovery is applied comes
// last, and what was done before it may be done again. A program that knows no recoveries refuses the folder from then on. Producers and
// observers apply it alike, and so does a new folder.
//
// Errors wrap recovery.ErrInvalid, ErrOtherHistory, ErrRivalRecovery or ErrReportedLess; others are of the folder.
func ApplyRecovery(ctx context.Context, cfg *config.Config, signed *recovery.Signed, o ApplyOptions, log *zap.Logger) (done AppliedRecovery, err error) {
	gen, err := LoadGenesis(cfg)
	if err != nil {
		return done, err
	}
	zero, err := gen.Block()
	if err != nil {
		return done, err
	}
	done.Hash, done.Number = signed.Hash(), signed.Statement.Number
	if err := verifyRecovery(signed, gen, zero.Hash()); err != nil {
		return done, fmt.Errorf("recovery %s: %w", done.Hash, err)
	}
	store, err := OpenStore(cfg, log) // fails while the node runs
	if err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	known, err := loadRecoveries(cfg, gen) // under the store's lock: another application may have written one before
	if err != nil {
		return done, err
	}
	done.Already = slices.ContainsFunc(known.applied, func(s *recovery.Signed) bool { return s.Hash() == done.Hash })
	if done.Already {
		return done, nil
	}
	if err := known.admit(cfg, signed, o.Named); err != nil {
		return done, err
	}
	a := application{done: &done, cfg: cfg, store: store, signed: signed, genesis: zero.Hash(), others: slices.Concat(known.applied, known.rivalsOf(signed))}
	if err := a.checkHistory(); err != nil {
		return done, err
	}
	if !done.Continued && !store.Empty() && !signed.Statement.MayUndo && !o.MayUndo {
		if err := a.checkReported(gen, &known); err != nil {
			return done, err
		}
	}
	if err := ctx.Err(); err != nil {
		return done, err
	}
	if !done.Continued {
		if err := a.setAside(); err != nil {
			return done, err
		}
	}
	log.Warn("a recovery is applied: from the next start on this node goes on from its base", zap.Stringer("recovery", done.Hash),
		zap.Uint64("base", signed.Statement.Base.Height), zap.String("set_aside", done.SetAside), zap.Int("blocks_out", done.Undone))
	// An earlier program knows no recoveries, would not see the file, and would sign in the old domain: this form of data keeps it out.
	if err := format.StampFolder(cfg.Path(cfg.Consensus.Dir), format.Consensus, vfs.Private); err != nil {
		return done, err
	}
	return done, createApplied(cfg, signed)
}

// admit checks that a recovery is the next one here, and the only one or the one that the operator named.
func (r *recoveries) admit(cfg *config.Config, s *recovery.Signed, named common.Hash) error {
	if named != (common.Hash{}) && named != s.Hash() {
		return fmt.Errorf("the file holds recovery %s, and %s was named", s.Hash(), named)
	}
	rivals := r.rivalsOf(s)
	for _, o := range rivals {
		for _, applied := range r.applied {
			if o.Hash() == applied.Hash() {
				_, err := r.keepShown(cfg, s)
				return errors.Join(fmt.Errorf("%w and applied: %s; recovery %s is kept beside it, compare them with bornode recover show", ErrRivalRecovery, o.Hash(), s.Hash()), err)
			}
		}
	}
	if err := followsAll(s, r.applied); err != nil {
		return err
	}
	if len(rivals) > 0 && named == (common.Hash{}) {
		return fmt.Errorf("%w: %s and %s; compare them with bornode recover show, agree with the other operators on one, and name its hash", ErrRivalRecovery, rivals[0].Hash(), s.Hash())
	}
	return nil
}

// application is one run of ApplyRecovery on an open store.
type application struct {
	cfg     *config.Config
	store   *blockstore.Store
	signed  *recovery.Signed
	genesis common.Hash
	others  []*recovery.Signed // known here: before this one, or beside it
	done    *AppliedRecovery   // what is found and done
}

// checkHistory checks that the last irreversible block is the base or an ancestor of it, as far as the folder can tell. If not,
// the evidence is kept.
func (a *application) checkHistory() error {
	base := a.signed.Statement.Base.Block
	if a.store.Empty() {
		a.done.HasBase = base.Height == 0
		return nil
	}
	height, hash := a.store.LIB()
	if err := a.checkContinued(height); a.done.Continued || err != nil {
		return err
	}
	h, err := a.store.Header(base.Hash)
	switch {
	case err == nil:
		a.done.HasBase = true
		if h.Number() != base.Height || h.Slot() != base.Slot || h.Header.Root != base.StateRoot {
			return fmt.Errorf("%w: its base %s has height %d, slot %d and state root %s here", recovery.ErrInvalid, base, h.Number(), h.Slot(), h.Header.Root)
		}
	case !errors.Is(err, blockstore.ErrNotFound):
		return fmt.Errorf("read the recovery's base: %w", err)
	case height >= base.Height && base.Height >= a.store.FirstHeight():
		return a.refuseHistory(base.Height)
	case height >= base.Height: // pruned, and what is final here lies above it in any case
		return a.refuseHistory(height)
	default:
		return a.checkCertificate(height)
	}
	if height > base.Height {
		return a.refuseHistory(height)
	}
	for h.Number() > height {
		if h, err = a.store.Header(h.Parent()); err != nil {
			return fmt.Errorf("read the blocks between the last irreversible one and the recovery's base: %w", err)
		}
	}
	if h.Hash() != hash {
		return a.refuseHistory(height)
	}
	return nil
}

// checkContinued looks whether the final chain here goes on by this recovery already, as that of a folder does which lost the
// files of its recoveries or was copied without them. Where the blocks tell only that it goes on by others that are not applied here, these may
// come after this one: then this one is taken. A start asks for them, and each names the one before it, so that of two with one
// predecessor the wrong one gets no further.
func (a *application) checkContinued(lib uint64) error {
	raw := a.store.Root()
	if len(raw) == 0 {
		return nil
	}
	root, err := dpos.DecodeRoot(raw)
	if err != nil {
		return fmt.Errorf("root of consensus in the store: %w", err)
	}
	base, this := a.signed.Statement.Base, a.signed.Hash()
	newest := root.Recovery()
	if newest == this {
		a.done.Continued, a.done.HasBase = true, true
		return nil
	}
	if a.isOther(newest) || lib < base.Height || lib == base.Height && root.Point() != base.Point() {
		return nil
	}
	if lib > base.Height { // else it is the base of that one, too
		first, err := a.store.HeaderByHeight(base.Height + 1)
		if err != nil && !block.IsAbsent(err) {
			return fmt.Errorf("read the first block behind the recovery's base: %w", err)
		}
		if err == nil && (first.Parent() != base.Hash || a.isOther(first.Record.Recovery)) {
			return nil
		}
	}
	a.done.Continued, a.done.HasBase, a.done.Later = true, true, newest
	return nil
}

// isOther reports whether a domain is known to be before this recovery's, or beside it.
func (a *application) isOther(domain common.Hash) bool {
	return domain == common.Hash{} || slices.ContainsFunc(a.others, func(s *recovery.Signed) bool { return s.Hash() == domain })
}

// checkReported compares the folder with what the recovery says: that no final block is undone. A justified block above the base that no report
// told may be final, since this producer, or one that voted with it, may have precommitted it after its report.
func (a *application) checkReported(gen *genesis.Genesis, known *recoveries) error {
	var account common.Address
	if a.cfg.Keys.Producer != "" {
		key, err := signer.Load(a.cfg.Path(a.cfg.Keys.Producer))
		if err != nil {
			return err
		}
		account = key.Account()
	}
	s, err := takeSurvey(a.cfg, gen, a.genesis, account, known, a.store)
	if err != nil {
		return err
	}
	base := a.signed.Statement.Base
	if j := s.Justified; j.Slot > base.Slot {
		return fmt.Errorf("%w: the folder %s holds block %d of slot %d %s, and the recovery says that no final block is undone. Tell the other operators: the producers that know this block may have made it final. If they agree to go on without it, say --may-undo",
			ErrReportedLess, a.cfg.DataDir, j.Height, j.Slot, j.Hash)
	}
	return nil
}

// checkCertificate looks, where the base is not here, at the newest final block that the recovery proves. Where the blocks of its slot
// are pruned the folder cannot tell which history it holds.
func (a *application) checkCertificate(lib uint64) error {
	fc := a.signed.Statement.Base.FC
	if fc == nil {
		return nil
	}
	h, err := a.store.HeaderByHeight(lib)
	for err == nil && h.Slot() > fc.Target.Slot && h.Number() > a.store.FirstHeight() {
		h, err = a.store.HeaderByHeight(h.Number() - 1)
	}
	if err != nil {
		return fmt.Errorf("read the final blocks down to slot %d: %w", fc.Target.Slot, err)
	}
	if h.Slot() > fc.Target.Slot {
		a.done.Unproven = true
		return nil
	}
	if h.Number() < lib && h.Hash() != fc.Target.Hash || h.Slot() == fc.Target.Slot && h.Hash() != fc.Target.Hash {
		return a.refuseHistory(h.Number())
	}
	return nil
}

// refuseHistory keeps the evidence that the final chain here is another history.
func (a *application) refuseHistory(height uint64) error {
	own, err := a.store.HeaderByHeight(height)
	if err != nil {
		return fmt.Errorf("%w: read final block %d for the evidence: %w", ErrOtherHistory, height, err)
	}
	_, fc := a.store.Certificates()
	path, err := consensus.KeepRefusedRecovery(a.cfg.Path(a.cfg.Consensus.Dir), a.genesis, own, fc, a.signed.Encode())
	if path == "" {
		path = a.cfg.Path(a.cfg.Consensus.Dir)
	}
	return errors.Join(fmt.Errorf("%w, block %d %s: its final block %d is %s (evidence in %s); this node signs nothing any more: if the operators agree on the recovery, set the whole folder aside and join anew with the recovery",
		ErrOtherHistory, a.signed.Statement.Base.Height, a.signed.Statement.Base.Hash, own.Number(), own.Hash(), path), err)
}

// setAside copies the blocks that the recovery leaves out, and the vote log, to a dated folder.
func (a *application) setAside() error {
	if a.store.Empty() {
		return nil
	}
	out, err := a.blocksOut()
	if err != nil {
		return fmt.Errorf("read the blocks that the recovery leaves out: %w", err)
	}
	logs, err := a.voteLogs()
	if err != nil {
		return err
	}
	if a.done.Undone = len(out); len(out) == 0 && len(logs) == 0 {
		return nil
	}
	name := filepath.Join(RecoveryFolder, fmt.Sprintf("aside-%04d-%s", a.done.Number, time.Now().UTC().Format("20060102T150405Z")))
	dir := a.cfg.Path(name)
	fs := vfs.OS(dir, vfs.Private)
	if err := fs.Mkdir("."); err != nil {
		return fmt.Errorf("make the folder for what is set aside: %w", err)
	}
	a.done.SetAside = dir
	if len(out) > 0 {
		err = vfs.ReplaceFileBy(fs, "above-base.blocks", func(w io.Writer) error {
			x := blockstore.NewExportWriter(w, a.genesis)
			for _, b := range out {
				if err := x.Block(b.Encode()); err != nil {
					return err
				}
			}
			return x.End(nil, nil)
		})
	}
	for _, file := range logs {
		err = errors.Join(err, copyAside(fs, file))
	}
	if err != nil {
		return fmt.Errorf("set aside in %s: %w", dir, err)
	}
	return nil
}

// blocksOut are the reversible blocks that are neither the base nor its ancestors, parents first. Where the base is not here nothing tells
// which are its ancestors: then they are all.
func (a *application) blocksOut() (out []*block.Block, err error) {
	all, err := a.store.Reversible()
	if err != nil {
		return nil, err
	}
	stays := make(map[common.Hash]bool)
	want := a.signed.Statement.Base.Hash
	for i := len(all) - 1; i >= 0; i-- { // children before parents
		if b := all[i]; b.Hash() == want {
			stays[want], want = true, b.Parent()
		}
	}
	for _, b := range all {
		if !stays[b.Hash()] {
			out = append(out, b)
		}
	}
	return out, nil
}

// voteLogs are the logs in the folder of consensus.
func (a *application) voteLogs() (files []string, err error) {
	dir := a.cfg.Path(a.cfg.Consensus.Dir)
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		if !e.IsDir() && strings.HasSuffix(e.Name(), ".log") {
			files = append(files, filepath.Join(dir, e.Name()))
		}
	}
	return files, err
}

func copyAside(fs vfs.FS, file string) error {
	in, err := os.Open(file)
	if err != nil {
		return err
	}
	defer in.Close() //nolint:errcheck // only read
	return vfs.ReplaceFileBy(fs, filepath.Base(file), func(w io.Writer) error {
		_, err := io.Copy(w, in)
		return err
	})
}

// RecoveryInForce is the number and the hash of the newest recovery that a folder has applied; zero: none.
func RecoveryInForce(cfg *config.Config) (number uint64, hash common.Hash, err error) {
	gen, err := LoadGenesis(cfg)
	if err != nil {
		return 0, common.Hash{}, err
	}
	r, err := loadRecoveries(cfg, gen)
	if err != nil {
		return 0, common.Hash{}, err
	}
	number, hash = r.inForce()
	return number, hash, nil
}
