package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/ethereum/go-ethereum/core/types"
	"go.uber.org/zap"

	"github.com/bornode/bornode/internal/aside"
	"github.com/bornode/bornode/internal/vfs"
)

// DutiesFile holds evidence that waits, in the node's folder.
const DutiesFile = "evidence.rlp"

// take makes a proof of a fault.
func (d *duties) take(f *fault) {
	if d.docket.has(uint8(f.Kind), f.Guilty) {
		return
	}
	calls, err := f.calls()
	if err != nil {
		d.m.evidence.WithLabelValues("dropped").Inc()
		d.log.Warn("evidence is not submitted", zap.Stringer("producer", f.Guilty), zap.Uint64("slot", f.Slot), zap.Error(err))
		return
	}
	p := &proof{Kind: uint8(f.Kind), Guilty: f.Guilty, Slot: f.Slot, Calls: calls, since: d.chain.CurrentHeader().Number.Uint64()}
	if !d.docket.add(p) {
		d.full(f.Guilty, f.Slot)
		return
	}
	d.m.evidence.WithLabelValues("found").Inc()
	d.m.waiting.Set(float64(len(d.docket.proofs)))
	d.save()
}

// prosecute submits what is our turn to submit.
func (d *duties) prosecute(ctx context.Context, h *types.Header) {
	if len(d.docket.proofs) == 0 {
		return
	}
	seats, err := d.consensus.Schedule()
	if err != nil {
		return // the driver ends
	}
	before := len(d.docket.proofs)
	for _, p := range append([]*proof(nil), d.docket.proofs...) {
		guilty, _, err := d.chain.Candidate(h, p.Guilty)
		switch {
		case err != nil:
			d.log.Warn("evidence waits: the accused is not readable", zap.Stringer("producer", p.Guilty), zap.Error(err))
		case guilty.Guilty:
			d.convicted(p)
		case h.Number.Uint64() >= p.since+rankBlocks*rank(seats, d.self, p.Slot):
			p.told = false // the block that found it guilty may be on a branch that lost
			d.submit(ctx, h, p)
		}
	}
	if len(d.docket.proofs) != before {
		d.save()
	}
}

// convicted ends a proof when the verdict is final: the block with it may still be on a branch that loses.
func (d *duties) convicted(p *proof) {
	if !p.told {
		p.told, p.flight = true, nil
		d.log.Warn("producer was slashed: it proved guilty of breaking a rule of consensus", zap.Stringer("producer", p.Guilty), zap.Uint64("slot", p.Slot))
	}
	if final, _, err := d.chain.Candidate(d.chain.FinalHeader(), p.Guilty); err == nil && final.Guilty {
		d.m.evidence.WithLabelValues("final").Inc()
		d.docket.remove(p)
	}
}

// submit sends the next transaction of a proof, once the one before is in a block.
func (d *duties) submit(ctx context.Context, h *types.Header, p *proof) {
	if p.flight != nil {
		switch d.follow(p.flight, h) {
		case flying:
			return
		case landed:
			if p.next == len(p.Calls)-1 { // the state at hand is older than the block with it
				return
			}
			p.next, p.flight = p.next+1, nil
		case failed: // run on another state than it was tried on; what it did not see shows in the next one
			p.flight, p.rest = nil, h.Number.Uint64()+1
			d.again(p, "its transactions fail too often")
			return
		case lost:
			p.flight = nil
			if !d.again(p, "its transactions got lost too often") {
				return
			}
		}
	}
	height := h.Number.Uint64()
	if height < p.rest {
		return
	}
	gas, err := d.tryProof(ctx, h, p)
	switch {
	case errors.As(err, new(refusal)):
		// What others made the contract remember of a path, or a change of branch, may stand in the way of a proof in parts.
		if len(p.Calls) == 1 {
			d.drop(p, err.Error())
		} else if d.again(p, err.Error()) {
			p.next, p.rest = 0, height+retryBlocks
		}
	case err != nil:
		d.refused("evidence", err)
		p.rest = height + retryBlocks
	default:
		if f, err := d.send(h, "evidence", p.Calls[p.next], gas, p.flight); err == nil {
			p.flight = f
		} else {
			p.rest = height + retryBlocks
		}
	}
}

// again counts a try that came to nothing. The last one ends the proof: false.
func (d *duties) again(p *proof, why string) bool {
	if p.tries++; p.tries < maxProofTries {
		return true
	}
	d.drop(p, why)
	return false
}

// tryProof is the gas of a proof's next call. Calls that only prepare are left out once the last one succeeds without:
// others sent theirs before us.
func (d *duties) tryProof(ctx context.Context, h *types.Header, p *proof) (gas uint64, err error) {
	if last := len(p.Calls) - 1; p.next < last {
		if gas, err = d.try(ctx, h, p.Calls[last]); err == nil {
			p.next = last
			return gas, nil
		}
	}
	return d.try(ctx, h, p.Calls[p.next])
}

// drop gives a proof up.
func (d *duties) drop(p *proof, why string) {
	d.m.evidence.WithLabelValues("refused").Inc()
	d.log.Warn("evidence is given up", zap.Stringer("producer", p.Guilty), zap.Uint64("slot", p.Slot), zap.String("reason", why))
	d.docket.remove(p)
}

// load reads the evidence that waited when the node stopped. A file that cannot be read is kept beside its name before
// anything is written there; if that fails nothing is written.
func (d *duties) load() {
	d.docket = new(docket)
	b, err := os.ReadFile(d.file)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	var kept *docket
	if err == nil {
		kept, err = decodeDocket(b, d.chain.CurrentHeader().Number.Uint64())
	}
	if err != nil {
		d.keepUnreadable(b, err)
		return
	}
	d.docket = kept
}

// keepUnreadable keeps the file as DutiesFile.damaged-TIME. Without its bytes (the disk does not give them) it is renamed.
func (d *duties) keepUnreadable(b []byte, cause error) {
	folder, name := vfs.OS(filepath.Dir(d.file), vfs.Private), filepath.Base(d.file)
	var kept string
	var err error
	if b != nil {
		kept, err = aside.KeepBytes(folder, name, bytes.NewReader(b), int64(len(b)), maxUnreadableEvidence, time.Now())
	} else {
		kept, err = aside.KeepMoved(folder, name, maxUnreadableEvidence, time.Now())
	}
	if d.unkept = err; err != nil {
		d.log.Warn("evidence of the last run cannot be read, and no copy of it can be kept: it is left as it is, and evidence is not kept over a restart", zap.String("file", d.file), zap.Error(errors.Join(cause, err)))
		return
	}
	d.log.Warn("set aside: evidence of the last run that cannot be read; the node goes on without it", zap.String("file", d.file), zap.String("to", filepath.Join(filepath.Dir(d.file), kept)), zap.Error(cause))
}

// save keeps what waits over a restart. A failure costs no more than that.
func (d *duties) save() {
	if err := d.write(); err != nil {
		d.log.Warn("evidence is not kept over a restart", zap.String("file", d.file), zap.Error(err))
	}
}

func (d *duties) write() error {
	if d.unkept != nil {
		return fmt.Errorf("the file of the run before is in its place: %w", d.unkept)
	}
	if len(d.docket.proofs) == 0 {
		if err := os.Remove(d.file); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	b, err := d.docket.encode()
	if err != nil {
		return err
	}
	return vfs.ReplaceFileAt(d.file, b)
}
