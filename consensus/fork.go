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
}

// OtherBlock is the block that the other history holds as final.
func (e *ForkEvidence) OtherBlock() (block.Point, error) {
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

	mu     sync.Mutex
	alarms []Alarm
	known  map[common.Hash]bool // blocks of other histories
}

// openForks reads the evidence that earlier runs kept.
func openForks(cfg *Config, log *zap.Logger) (*forkAlarms, error) {
	f := &forkAlarms{dir: cfg.Dir, fs: cfg.FS, known: make(map[common.Hash]bool)}
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
		f.add(e, path)
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

// add takes evidence into memory. From then on nothing is signed.
func (f *forkAlarms) add(e *ForkEvidence, path string) {
	f.halted.Store(true)
	f.mu.Lock()
	defer f.mu.Unlock()
	other, err := e.OtherBlock()
	text := "evidence of two histories of this chain was found"
	if err == nil {
		f.known[other.Hash] = true
		text = fmt.Sprintf("two histories of this chain are final: a quorum signed block %s of slot %d, which is no part of the chain that this node holds as final (its block there is %d)", other.Hash, other.Slot, e.Height)
	}
	f.alarms = append(f.alarms, Alarm{
		Kind: "fork", Since: time.Unix(int64(e.Time), 0), File: path, //nolint:gosec // our own
		Text: text + "; this node signs nothing more. Stop, keep the evidence, and agree with the other operators which history counts: chapter Fork of docs/operations.md",
	})
}

// keep writes evidence and reports whether it is new: one file for each block of another history, and no more than
// maxForkFiles of them.
func (f *forkAlarms) keep(e *ForkEvidence, other common.Hash) (path string, isNew bool, err error) {
	f.halted.Store(true) // first of all, whatever becomes of the file
	f.mu.Lock()
	full := f.known[other] || len(f.alarms) >= maxForkFiles
	f.known[other] = true
	f.mu.Unlock()
	if full {
		return "", false, nil
	}
	body, err := rlp.EncodeToBytes(e)
	if err == nil {
		b := append([]byte(forkMagic), body...)
		b = binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
		name := fmt.Sprintf("%s%s-%x%s", forkPrefix, time.Unix(int64(e.Time), 0).UTC().Format("20060102T150405Z"), other[:4], forkSuffix) //nolint:gosec // our own
		if err = errors.Join(f.fs.Mkdir("."), format.Stamp(f.fs, f.dir, format.Consensus)); err == nil {
			err = vfs.ReplaceFile(f.fs, name, b)
		}
		path = filepath.Join(f.dir, name)
	}
	f.add(e, path)
	return path, true, err
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
	e := &ForkEvidence{
		Time: uint64(time.Now().Unix()), Met: met, Genesis: d.deps.Genesis, Height: own.Number(), //nolint:gosec // after 1970
		Own: own.Encode(), Other: c.Encode(),
	}
	if fc != nil {
		e.OwnFC = fc.Encode()
	}
	for _, h := range headers[:min(len(headers), maxForkHeaders)] {
		e.Headers = append(e.Headers, h.Encode())
	}
	d.raiseFork(ctx, e, c.Target)
	return true
}

// raiseFork keeps the evidence, ends signing and tells everybody who asks.
func (d *Driver) raiseFork(ctx context.Context, e *ForkEvidence, other block.Point) {
	path, isNew, err := d.forks.keep(e, other.Hash)
	if !isNew {
		return
	}
	d.m.forks.Inc()
	_ = d.do(context.WithoutCancel(ctx), false, func(c *core) { _ = c.step(dpos.Halt{}) })
	d.log.Error("two histories of this chain are final: this node signs nothing more, see the chapter on forks of docs/operations.md",
		zap.String("met", e.Met), zap.Uint64("slot", other.Slot), zap.Stringer("other", other.Hash), zap.Uint64("height", e.Height),
		zap.String("evidence", path), zap.NamedError("not_kept", err))
}

func (d *Driver) isQuorum(c *block.Certificate, schedules []block.Schedule) bool {
	if len(c.Bitmaps) != len(schedules) {
		return false
	}
	for i, s := range schedules {
		if c.Count(i) < s.Quorum() {
			return false
		}
	}
	return d.verify.certificate(c, schedules) == nil
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
		f := exit.Finding{
			Part: "consensus", File: filepath.Join(dir, name), Problem: "evidence of a fork: this node signs nothing while the file is here",
			Remedy: "agree with the other operators which history counts (docs/operations.md, Fork); keep the file elsewhere before it is taken away",
		}
		if e, err := readForkEvidence(fs, name); err != nil {
			f.Problem = "evidence of a fork that cannot be read: " + err.Error()
		} else if other, err := e.OtherBlock(); err == nil {
			f.Problem = fmt.Sprintf("evidence of a fork, met in %s: a quorum signed block %s of slot %d, another than block %d here; this node signs nothing while the file is here", e.Met, other.Hash, other.Slot, e.Height)
		}
		found = append(found, f)
	}
	return found
}
