package consensus

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/rlp"
	"go.uber.org/zap"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/consensus/dpos"
	"github.com/bornode/bornode/internal/exit"
	"github.com/bornode/bornode/internal/format"
	"github.com/bornode/bornode/internal/vfs"
	"github.com/bornode/bornode/recovery"
)

// Files of evidence of a fork, in the folder of the vote log (docs/storage.md):
//
//	"BORFORK1", RLP of ForkEvidence, u32 crc32c of all before
const (
	forkPrefix = "fork-" // then the UTC time at which it was met
	forkSuffix = ".evidence"
	forkMagic  = "BORFORK1"
)

// ForkEvidence proves that the chain has two histories: a quorum of producers signed that a block is final which is no part
// of the chain that this node, by another certificate, holds as final. More than f producers are guilty.
type ForkEvidence struct {
	Time    uint64      // Unix seconds at which it was met
	Met     string      // where, for people
	Genesis common.Hash // of both histories
	Height  uint64      // of Own
	Own     []byte      // sealed header of this node's final block at the slot of Other's target, or the newest below it
	OwnFC   []byte      // certificate of this node's last irreversible block; empty if that is block 0
	Other   []byte      // the certificate of the other history
	Headers [][]byte    // sealed headers of the other history down from Other's target to where it parts from Own, if known
	// Recovery is the signed statement (package recovery) that goes on from a block which Own contradicts: then it is the other
	// history's proof, and Other is empty.
	Recovery []byte `rlp:"optional"`
	// Undone says that Other is of a domain before a recovery that this node goes by: its operators chose this history. Then the
	// evidence is an alarm, and ends no signing: whoever holds an old certificate could else stop a recovered network.
	Undone bool `rlp:"optional"`
	// UndoneBy is the hash of that recovery; zero if Undone is not set.
	UndoneBy common.Hash `rlp:"optional"`
}

// OtherBlock is the block that the other history holds as final.
func (e *ForkEvidence) OtherBlock() (block.Point, error) {
	if len(e.Recovery) > 0 {
		r, err := recovery.DecodeSigned(e.Recovery)
		if err != nil {
			return block.Point{}, fmt.Errorf("recovery of the other history: %w", err)
		}
		return r.Statement.Base.Point(), nil
	}
	c, err := block.DecodeCertificate(e.Other)
	if err != nil {
		return block.Point{}, fmt.Errorf("certificate of the other history: %w", err)
	}
	return c.Target, nil
}

// Alarm is something that an operator must look at and that does not go away by itself.
type Alarm struct {
	Kind  string    // "fork"
	Since time.Time // when it was met
	Text  string    // what it is and what to do
	File  string    // evidence; "" if there is none
}

// forkAlarms are the forks that this node has met, in this run or earlier.
type forkAlarms struct {
	dir string
	fs  vfs.FS

	halted atomic.Bool // a fork was met: nothing is signed any more

	keeping sync.Mutex // one evidence is written at a time

	mu     sync.Mutex
	alarms []Alarm
	known  map[common.Hash]*evidencePlace // of blocks of other histories that ended signing; at most maxForkFiles
	files  int                            // evidence that ended signing, damaged files too
	undone map[common.Hash]*evidencePlace // of recoveries that are known to undo what others hold as final: one evidence for each
}

// evidenceRetryEvery is how often evidence is tried again that could not be written.
const evidenceRetryEvery = 10 * time.Second

// evidencePlace is the place of one evidence among those that are kept.
type evidencePlace struct {
	alarm   int           // its index in alarms, once it is there
	unsaved *ForkEvidence // its file could not be written yet; nil: it is durable
	other   common.Hash   // block of the other history
}

func newForkAlarms(dir string, fs vfs.FS) *forkAlarms {
	return &forkAlarms{dir: dir, fs: fs, known: make(map[common.Hash]*evidencePlace), undone: make(map[common.Hash]*evidencePlace)}
}

// openForks reads the evidence that earlier runs kept.
func openForks(cfg *Config, log *zap.Logger) (*forkAlarms, error) {
	f := newForkAlarms(cfg.Dir, cfg.FS)
	if f.fs == nil {
		f.fs = vfs.OS(cfg.Dir, vfs.Private)
	}
	names, err := forkFiles(f.fs)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		e, err := readForkEvidence(f.fs, name)
		path := filepath.Join(f.dir, name)
		if err != nil {
			log.Error("evidence of a fork cannot be read; it counts all the same", zap.String("file", path), zap.Error(err))
			e = &ForkEvidence{}
		}
		other, _ := e.OtherBlock() // zero: it is damaged
		at := f.add(e, path)
		if place, isNew := f.takePlace(e, other.Hash); isNew {
			place.alarm = at
		}
		if e.Undone {
			log.Error("what producers of the domain before the recovery hold as final is undone here: see the chapter on a lost quorum of docs/operations.md", zap.String("evidence", path))
			continue
		}
		log.Error("this node has met two histories of this chain and signs nothing: see the chapter on forks of docs/operations.md", zap.String("evidence", path))
	}
	return f, nil
}

// forkFiles lists the files of evidence, oldest first; none if there is no folder.
func forkFiles(fs vfs.FS) ([]string, error) {
	names, err := fs.List(".")
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for evidence of forks: %w", err)
	}
	names = slices.DeleteFunc(names, func(n string) bool { return !strings.HasPrefix(n, forkPrefix) || !strings.HasSuffix(n, forkSuffix) })
	slices.Sort(names)
	return names, nil
}

func readForkEvidence(fs vfs.FS, name string) (*ForkEvidence, error) {
	b, err := vfs.ReadFile(fs, name, maxForkBytes)
	if err != nil {
		return nil, err
	}
	n := len(b) - 4
	if n < len(forkMagic) || string(b[:len(forkMagic)]) != forkMagic {
		return nil, fmt.Errorf("it does not begin with %s", forkMagic)
	}
	if binary.BigEndian.Uint32(b[n:]) != crc32.Checksum(b[:n], castagnoli) {
		return nil, errors.New("it is damaged: its checksum is wrong")
	}
	e := new(ForkEvidence)
	if err := rlp.DecodeBytes(b[len(forkMagic):n], e); err != nil {
		return nil, err
	}
	_, err = e.OtherBlock()
	return e, err
}

// add takes evidence into memory, and gives its index among the alarms. From then on nothing is signed, unless the operators chose this
// history. Without a file (path is empty) the alarm says that a restart forgets it.
func (f *forkAlarms) add(e *ForkEvidence, path string) int {
	if !e.Undone {
		f.halted.Store(true)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.alarms = append(f.alarms, Alarm{Kind: "fork", Since: time.Unix(int64(e.Time), 0), File: path, Text: f.textOf(e, path)}) //nolint:gosec // our own
	return len(f.alarms) - 1
}

// textOf is the text of the alarm for evidence in the file at path, empty if there is none.
func (f *forkAlarms) textOf(e *ForkEvidence, path string) string {
	proven, advice := e.describe()
	if path == "" {
		advice += fmt.Sprintf(". Its evidence could not be written to %s, so a restart forgets it: have that folder take writes (room, rights), and do not restart the node before this alarm names a file", f.dir)
	}
	return proven + "; " + advice
}

// describe says what the evidence proves, and what follows for this node and its operator. Evidence that cannot be read counts as a fork.
func (e *ForkEvidence) describe() (proven, advice string) {
	advice = "this node signs nothing more. Stop, keep the evidence, and agree with the other operators which history counts: chapter Fork of docs/operations.md"
	other, err := e.OtherBlock()
	switch {
	case err != nil:
		return "evidence of two histories of this chain was found", advice
	case e.Undone:
		return fmt.Sprintf("a quorum of the domain before recovery %s signed block %s of slot %d as final, which the recovery undoes", e.UndoneBy, other.Hash, other.Slot),
			"this node goes on by the recovery. Clear outside the chain what only that history holds, and give its nodes empty folders: chapter Lost quorum of docs/operations.md"
	case len(e.Recovery) > 0:
		return fmt.Sprintf("a recovery that the operators signed goes on from block %s of slot %d, and this node holds another history as final (its block there is %d)", other.Hash, other.Slot, e.Height), advice
	}
	return fmt.Sprintf("two histories of this chain are final: a quorum signed block %s of slot %d, which is no part of the chain that this node holds as final (its block there is %d)", other.Hash, other.Slot, e.Height), advice
}

// KeepRefusedRecovery keeps the evidence that a recovery goes on from a block which contradicts the final chain of a stopped
// node: own is its final block of the base's height, or its last one, with the certificate of its last irreversible block (nil if
// that is block 0). From then on the node raises the alarm and signs nothing. signed is an encoded recovery.Signed. It returns the
// file, which is empty if this is known already.
func KeepRefusedRecovery(dir string, genesis common.Hash, own *block.SealedHeader, fc *block.Certificate, signed []byte) (path string, err error) {
	f, err := openForks(&Config{Dir: dir}, zap.NewNop())
	if err != nil {
		return "", err
	}
	e := &ForkEvidence{
		Time: uint64(time.Now().Unix()), Met: "a recovery that was to be applied", Genesis: genesis, Height: own.Number(), //nolint:gosec // after 1970
		Own: own.Encode(), Recovery: signed,
	}
	if fc != nil {
		e.OwnFC = fc.Encode()
	}
	base, err := e.OtherBlock()
	if err != nil {
		return "", err
	}
	path, _, err = f.keep(e, base.Hash)
	return path, err
}

// takePlace gives the place of evidence, nil if there is none for it, and reports whether it is new: each block of another history has
// one, as long as no more than maxForkFiles end signing, and each recovery has one for all that it undoes. Those of one kind take none of
// the other's: whoever holds old certificates must not be able to hide a fork of today.
func (f *forkAlarms) takePlace(e *ForkEvidence, other common.Hash) (place *evidencePlace, isNew bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	places, key := f.known, other
	if e.Undone {
		places, key = f.undone, e.UndoneBy
	}
	if place = places[key]; place != nil {
		return place, false
	}
	if !e.Undone {
		if f.files >= maxForkFiles {
			return nil, false
		}
		f.files++
	}
	place = new(evidencePlace)
	places[key] = place
	return place, true
}

// keep writes evidence, if there is a place for it (takePlace), and reports whether the alarm is new. Evidence whose file could not be
// written is written by writeUnsaved, or when it is met again; path is the file that was written, else empty.
func (f *forkAlarms) keep(e *ForkEvidence, other common.Hash) (path string, isNew bool, err error) {
	if !e.Undone {
		f.halted.Store(true) // first of all
	}
	f.keeping.Lock()
	defer f.keeping.Unlock()
	place, isNew := f.takePlace(e, other)
	if place == nil || !isNew && place.unsaved == nil {
		return "", false, nil
	}
	if path, err = f.writeEvidence(e, other); err != nil {
		path = ""
	}
	if isNew {
		place.alarm = f.add(e, path)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	place.unsaved, place.other = nil, other
	if err != nil {
		place.unsaved = e
	} else if a := &f.alarms[place.alarm]; a.File == "" {
		a.File, a.Text = path, f.textOf(e, path)
	}
	return path, isNew, err
}

// writeUnsaved writes the evidence that could not be written before, and gives the files that it wrote.
func (f *forkAlarms) writeUnsaved() (paths []string) {
	f.mu.Lock()
	var unsaved []evidencePlace
	for _, places := range []map[common.Hash]*evidencePlace{f.known, f.undone} {
		for _, p := range places {
			if p.unsaved != nil {
				unsaved = append(unsaved, *p)
			}
		}
	}
	f.mu.Unlock()
	for _, p := range unsaved {
		if path, _, err := f.keep(p.unsaved, p.other); err == nil && path != "" {
			paths = append(paths, path)
		}
	}
	return paths
}

// watchEvidence writes evidence of forks that could not be written, until ctx ends.
func (d *Driver) watchEvidence(ctx context.Context) {
	t := time.NewTicker(evidenceRetryEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			for _, path := range d.forks.writeUnsaved() {
				d.log.Info("the evidence of a fork that could not be written before is kept now", zap.String("evidence", path))
			}
		}
	}
}

// writeEvidence makes evidence durable in a file of its own, and gives the file's path.
func (f *forkAlarms) writeEvidence(e *ForkEvidence, other common.Hash) (path string, err error) {
	body, err := rlp.EncodeToBytes(e)
	if err != nil {
		return "", err
	}
	b := append([]byte(forkMagic), body...)
	b = binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
	name := fmt.Sprintf("%s%s-%x%s", forkPrefix, time.Unix(int64(e.Time), 0).UTC().Format("20060102T150405Z"), other[:4], forkSuffix) //nolint:gosec // our own
	if err = errors.Join(f.fs.Mkdir("."), format.Stamp(f.fs, f.dir, format.Consensus)); err == nil {
		err = vfs.ReplaceFile(f.fs, name, b)
	}
	return filepath.Join(f.dir, name), err
}

// Alarms lists what an operator must look at, oldest first.
func (d *Driver) Alarms() []Alarm {
	d.forks.mu.Lock()
	defer d.forks.mu.Unlock()
	return slices.Clone(d.forks.alarms)
}

// suspectFork looks at a certificate, from anywhere, for a block that is no part of the final chain here: if a quorum
// signed that it is final, the chain has two histories. headers are of the other history, if known: they link the target to
// a block below the last irreversible one that is not ours. Without them the target must be of no slot above that block's.
// It reports whether the certificate is a proof.
func (d *Driver) suspectFork(ctx context.Context, c *block.Certificate, headers []*block.SealedHeader, met string) (proven bool) {
	if c == nil || c.Kind != block.Precommit || d.deps.FinalHeader == nil {
		return false
	}
	if d.suspectOldDomain(ctx, c, met) {
		return true
	}
	var lib dpos.Header
	var fc *block.Certificate
	var schedules [][]block.Schedule
	if d.do(ctx, true, func(k *core) {
		lib, fc = k.machine.LIB(), k.machine.BestFC()
		schedules = append(schedules, k.machine.ChildSchedules())
		if own, err := k.machine.VoteSchedules(lib.Hash); err == nil {
			schedules = append(schedules, own)
		}
	}) != nil || lib.Height == 0 || len(headers) == 0 && c.Target.Slot > lib.Slot {
		return false
	}
	own, err := d.finalBelow(lib.Height, c.Target.Slot)
	if err != nil || own.Hash() == c.Target.Hash {
		return false // it is ours, or the history that could tell is not kept
	}
	if !slices.ContainsFunc(schedules, func(s []block.Schedule) bool { return d.isQuorum(c, s) }) {
		return false // no proof: its voters are not those that count here
	}
	e := d.forkEvidence(c, own, fc, met)
	for _, h := range headers[:min(len(headers), maxForkHeaders)] {
		e.Headers = append(e.Headers, h.Encode())
	}
	d.raiseFork(ctx, e, c.Target)
	return true
}

func (d *Driver) forkEvidence(c *block.Certificate, own *block.SealedHeader, fc *block.Certificate, met string) *ForkEvidence {
	e := &ForkEvidence{
		Time: uint64(time.Now().Unix()), Met: met, Genesis: d.deps.Genesis, Height: own.Number(), //nolint:gosec // after 1970
		Own: own.Encode(), Other: c.Encode(),
	}
	if fc != nil {
		e.OwnFC = fc.Encode()
	}
	return e
}

// suspectOldDomain looks at a certificate for a slot behind the newest recovery's base: if a quorum of a domain that ended there signed
// it, producers that were held lost were only cut off, and what they hold as final is undone here (rule 13).
func (d *Driver) suspectOldDomain(ctx context.Context, c *block.Certificate, met string) bool {
	n := len(d.deps.Recoveries)
	if n == 0 || c.Target.Slot <= d.deps.Recoveries[n-1].Base.Slot {
		return false
	}
	var lib dpos.Header
	var fc *block.Certificate
	var past []dpos.PastDomain
	if d.do(ctx, true, func(k *core) {
		lib, fc, past = k.machine.LIB(), k.machine.BestFC(), k.machine.PastDomains()
	}) != nil {
		return false
	}
	at := slices.IndexFunc(past, func(p dpos.PastDomain) bool {
		return d.isQuorumIn(block.Domain{Genesis: d.deps.Genesis, Recovery: p.Domain}, c, p.Schedules)
	})
	if at < 0 {
		return false
	}
	own, err := d.finalBelow(lib.Height, c.Target.Slot)
	if err != nil {
		return false // the history that could tell is not kept
	}
	e := d.forkEvidence(c, own, fc, met+", of a domain before the newest recovery")
	e.Undone, e.UndoneBy = true, past[at].EndedBy
	d.raiseFork(ctx, e, c.Target)
	return true
}

// raiseFork keeps the evidence, ends signing unless the operators chose this history, and tells everybody who asks.
func (d *Driver) raiseFork(ctx context.Context, e *ForkEvidence, other block.Point) {
	path, isNew, err := d.forks.keep(e, other.Hash)
	if !isNew {
		return
	}
	d.m.forks.Inc()
	log := d.log.With(zap.String("met", e.Met), zap.Uint64("slot", other.Slot), zap.Stringer("other", other.Hash), zap.Uint64("height", e.Height),
		zap.String("evidence", path), zap.NamedError("not_kept", err))
	if e.Undone {
		log.Error("what producers of the domain before the recovery hold as final is undone here: see the chapter on a lost quorum of docs/operations.md")
		return
	}
	_ = d.do(context.WithoutCancel(ctx), false, func(c *core) { _ = c.step(dpos.Halt{}) })
	log.Error("two histories of this chain are final: this node signs nothing more, see the chapter on forks of docs/operations.md")
}

func (d *Driver) isQuorum(c *block.Certificate, schedules []block.Schedule) bool {
	return c.HoldsQuorums(schedules) && d.verify.certificate(c, schedules) == nil
}

// isQuorumIn is isQuorum in a domain that is over.
func (d *Driver) isQuorumIn(past block.Domain, c *block.Certificate, schedules []block.Schedule) bool {
	return c.HoldsQuorums(schedules) && d.verify.certificateIn(past, c, schedules) == nil
}

// finalBelow is the newest final block here whose slot is not above the slot. It goes down from the last irreversible
// block in growing steps, so that what was pruned is not asked for without need.
func (d *Driver) finalBelow(lib, slot uint64) (*block.SealedHeader, error) {
	low, high := lib, lib // the answer is in low..high once low's slot fits
	for step := uint64(1); ; step *= 2 {
		h, err := d.deps.FinalHeader(low)
		if err != nil || h == nil {
			return nil, errors.Join(errNotKept, err)
		}
		if h.Slot() <= slot {
			break
		}
		if low == 0 {
			return nil, errNotKept
		}
		high, low = low-1, low-min(step, low)
	}
	for low < high {
		mid := low + (high-low+1)/2
		h, err := d.deps.FinalHeader(mid)
		if err != nil || h == nil {
			return nil, errors.Join(errNotKept, err)
		}
		if h.Slot() <= slot {
			low = mid
		} else {
			high = mid - 1
		}
	}
	return d.deps.FinalHeader(low)
}

var errNotKept = errors.New("the final block of that slot is not kept here")

// suspectRange looks at a range that does not fit the final chain: its newest certificate may prove another one final.
func (d *Driver) suspectRange(ctx context.Context, blocks []*block.Block) {
	certs, reach, _ := d.candidates(blocks)
	for i, c := range certs {
		var headers []*block.SealedHeader
		for at := reach[i]; at >= 0; at-- {
			headers = append(headers, blocks[at].SealedHeader)
		}
		if d.suspectFork(ctx, c, headers, "a range of blocks from a peer") {
			return
		}
	}
}

// CheckForkEvidence looks at the evidence of forks in a stopped node's folder.
func CheckForkEvidence(dir string) (found []exit.Finding) {
	fs := vfs.OS(dir, vfs.Private)
	names, err := forkFiles(fs)
	if err != nil {
		return []exit.Finding{{Part: "consensus", File: dir, Problem: err.Error(), Remedy: "check the disk"}}
	}
	for _, name := range names {
		f := exit.Finding{Part: "consensus", File: filepath.Join(dir, name)}
		e, err := readForkEvidence(fs, name)
		if err != nil {
			f.Problem, e = "evidence of a fork that cannot be read: "+err.Error(), new(ForkEvidence)
		}
		proven, advice := e.describe()
		if err == nil {
			f.Problem, f.Harmless = fmt.Sprintf("evidence of a fork, met in %s: %s", e.Met, proven), e.Undone
		}
		f.Remedy = advice + "; keep the file elsewhere before it is taken away"
		found = append(found, f)
	}
	return found
}
