package consensus

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"

	"github.com/ethereum/go-ethereum/common"
	"golang.org/x/sync/errgroup"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/consensus/dpos"
)

// AddRange takes consecutive blocks of catch-up, oldest first; the first is a child of LIB or at or below it, or,
// after a result with Entered blocks, the one at RangeResult.Next. It returns when they are imported.
//
// The range is certified by the newest precommit certificate for one of its blocks: one that a record inside it
// carries, or one given before by AddCertificate. Every seal is verified. All up to that block are executed and become final at once; the
// others are Rest and must be given again, with what follows them. A range of uncertifiedLimit blocks or more without
// such a certificate (a stall in the history) enters block by block as reversible, each seal, certificate and sender
// verified whatever the mode.
//
// ErrInvalid: the sender is to blame. Blocks before the bad one are not taken. ErrUnknownParent: there is a gap.
func (d *Driver) AddRange(ctx context.Context, blocks []*block.Block, mode Mode) (RangeResult, error) {
	if len(blocks) > maxRangeBlocks {
		return d.applied(0, 0), fmt.Errorf("%w: range of %d blocks, %d allowed", ErrInvalid, len(blocks), maxRangeBlocks)
	}
	if err := d.waitReady(ctx); err != nil {
		return d.applied(0, 0), err
	}
	if err := d.linked(ctx, blocks); err != nil { // needs no state: overlaps with the import of the range before
		return d.applied(0, 0), err
	}
	select {
	case d.ranges <- struct{}{}:
		defer func() { <-d.ranges }()
	case <-ctx.Done():
		return d.applied(0, 0), ctx.Err()
	}
	rest, onLIB, err := d.above(blocks)
	if err != nil {
		d.suspectRange(ctx, blocks)
	}
	if blocks = rest; err != nil || len(blocks) == 0 {
		return d.applied(0, 0), err
	}
	if onLIB {
		n, err := d.certified(ctx, blocks, mode)
		if errors.Is(err, ErrBelowLIB) && d.Status().LIB.Height >= blocks[0].Number() {
			return d.applied(0, len(blocks)), nil // live blocks moved LIB into the range: let the caller cut it anew
		}
		if n > 0 || err != nil {
			return d.applied(0, len(blocks)-n), err
		}
	}
	if onLIB && len(blocks) < d.stall {
		return d.applied(0, len(blocks)), nil
	}
	before := d.Status().LIB.Height
	n, err := d.reversible(ctx, blocks)
	if r := d.applied(n, len(blocks)-n); err != nil || r.Applied > before {
		return r, err // certificates are back: go on from LIB
	}
	r := d.applied(n, len(blocks)-n)
	r.Next = blocks[0].Number() + uint64(n)
	return r, nil
}

func (d *Driver) applied(entered, rest int) RangeResult {
	lib := d.Status().LIB.Height
	return RangeResult{Applied: lib, Next: lib + 1, Rest: rest, Entered: entered}
}

// parallel runs fn for 0 to n-1 on all cores and returns the error of the lowest index that failed.
func parallel(ctx context.Context, n int, fn func(int) error) error {
	workers := min(n, runtime.GOMAXPROCS(0))
	errs := make([]error, n)
	g, ctx := errgroup.WithContext(ctx)
	for w := range workers {
		g.Go(func() error {
			for i := w; i < n && ctx.Err() == nil; i += workers {
				if errs[i] = fn(i); errs[i] != nil {
					return errs[i]
				}
			}
			return ctx.Err()
		})
	}
	if err := g.Wait(); err != nil {
		for _, e := range errs {
			if e != nil {
				return e
			}
		}
		return err
	}
	return nil
}

// namesKnown checks that no block of a range goes on by a recovery that is not applied here: what its producers signed behind
// it cannot be judged without.
func (d *Driver) namesKnown(blocks []*block.Block) error {
	for _, b := range blocks {
		x := b.Record.Recovery
		if x != (common.Hash{}) && !slices.ContainsFunc(d.deps.Recoveries, func(r dpos.Recovery) bool { return r.Hash == x }) {
			return fmt.Errorf("block %d %s %w: %s", b.Number(), b.Hash(), ErrRecovered, x)
		}
	}
	return nil
}

// linked checks that the blocks form a chain by height and hash, that each record is the one its header names, that they
// go on by no recovery but those applied here, and that each block was sealed by its Coinbase. The seal is in no hash, so
// no certificate speaks for it, but it is stored and served with the block: a range with a forged one must not get in,
// whatever the mode.
func (d *Driver) linked(ctx context.Context, blocks []*block.Block) error {
	if err := parallel(ctx, len(blocks), func(i int) error { return d.form(blocks[i].SealedHeader) }); err != nil {
		return err
	}
	for i := 1; i < len(blocks); i++ {
		if a, b := blocks[i-1], blocks[i]; b.Number() != a.Number()+1 || b.Parent() != a.Hash() {
			return fmt.Errorf("%w: range breaks between block %d %s and block %d %s", ErrInvalid, a.Number(), a.Hash(), b.Number(), b.Hash())
		}
	}
	if err := d.namesKnown(blocks); err != nil {
		return err
	}
	return parallel(ctx, len(blocks), func(i int) error {
		return d.verify.seal(blocks[i].SealedHeader, blocks[i].Header.Coinbase)
	})
}

// above cuts off what is final already. onLIB says that the first block left is a child of LIB; else its parent is a
// reversible block.
func (d *Driver) above(blocks []*block.Block) (rest []*block.Block, onLIB bool, err error) {
	lib := d.Status().LIB
	for len(blocks) > 0 && blocks[0].Number() <= lib.Height {
		if b := blocks[0]; b.Number() == lib.Height && b.Hash() != lib.Hash {
			return nil, false, fmt.Errorf("%w: block %d %s, the final one of that height is %s", ErrInvalid, lib.Height, b.Hash(), lib.Hash)
		}
		blocks = blocks[1:]
	}
	if len(blocks) == 0 {
		return nil, true, nil
	}
	switch b := blocks[0]; {
	case b.Parent() == lib.Hash:
		return blocks, true, nil
	case b.Number() == lib.Height+1:
		return nil, false, fmt.Errorf("%w: block %d %s is not built on the final block %s", ErrInvalid, b.Number(), b.Hash(), lib.Hash)
	}
	return blocks, false, nil
}

// candidates are the precommit certificates for blocks of the range, the one that reaches farthest first: what peers
// told us beforehand, then the newest that the range itself carries, if it carries one.
func (d *Driver) candidates(blocks []*block.Block) (certs []*block.Certificate, reach []int, carried *block.Certificate) {
	at := make(map[common.Hash]int, len(blocks))
	for i, b := range blocks {
		at[b.Hash()] = i
	}
	own := -1
	for _, b := range blocks {
		if c := b.Record.FC; c != nil {
			if i, ok := at[c.Target.Hash]; ok && i > own {
				own, carried = i, c
			}
		}
	}
	for _, h := range d.hints.Keys() {
		p, _ := d.hints.Peek(h)
		if i, ok := at[h]; ok && i > own {
			for _, c := range p.fc {
				certs, reach = append(certs, c), append(reach, i)
			}
		}
	}
	for i := 1; i < len(certs); i++ { // a handful: insertion sort, farthest first
		for j := i; j > 0 && reach[j] > reach[j-1]; j-- {
			certs[j], certs[j-1], reach[j], reach[j-1] = certs[j-1], certs[j], reach[j-1], reach[j]
		}
	}
	if carried != nil {
		certs, reach = append(certs, carried), append(reach, own)
	}
	return certs, reach, carried
}

// certified imports the part of the range that a certificate proves final and returns its length; 0 if there is no
// such certificate. A wrong certificate that a peer told us is forgotten; a wrong one inside the range is its fault, as
// is all else that is wrong with the range.
func (d *Driver) certified(ctx context.Context, blocks []*block.Block, mode Mode) (int, error) {
	headers := make([]dpos.Header, len(blocks))
	for i, b := range blocks {
		headers[i] = dpos.HeaderOf(b.SealedHeader)
	}
	certs, reach, carried := d.candidates(blocks)
	for i, c := range certs {
		n := reach[i] + 1
		err := d.verifyRange(ctx, headers[:n], c, mode)
		if errors.Is(err, errCertificate) && c != carried {
			d.forgetHint(c)
			continue
		}
		if err != nil {
			return 0, err
		}
		if err := parallel(ctx, n, func(i int) error { return d.body(blocks[i], mode == Certified) }); err != nil {
			return 0, err
		}
		return n, d.importRange(ctx, blocks[:n], headers[:n], c, mode)
	}
	return 0, nil
}

// errCertificate says that a range fails by the certificate it is checked with; it comes with ErrInvalid.
var errCertificate = errors.New("certificate of the range")

// verifyRange checks the header rules of a range and the certificates that its mode asks for. The rules make the
// producer of each slot its Coinbase, by whom linked found every block sealed. The certificate proves that the range's slots have
// come, so it moves the time of a machine that stood still before the range is judged by that time (rule 12).
func (d *Driver) verifyRange(ctx context.Context, headers []dpos.Header, c *block.Certificate, mode Mode) error {
	var checks []dpos.CertCheck
	var err error
	certificate := false
	if e := d.do(ctx, true, func(k *core) {
		if checks, err = k.machine.RangeChecks(headers, c); err != nil {
			_, other := k.machine.RangeSchedules(headers, c.Target.Hash) // the same checks without the certificate
			certificate = other == nil
		}
	}); e != nil {
		return e
	}
	if err = translate(err); err != nil {
		if certificate {
			err = fmt.Errorf("%w: %w", errCertificate, err)
		}
		return err
	}
	for i, x := range checks {
		if err := d.verify.certificate(x.Certificate, x.Schedules); err != nil {
			if i == len(checks)-1 { // c itself; those before it are carried
				err = fmt.Errorf("%w: %w", errCertificate, err)
			}
			return err
		}
	}
	if err := d.reachCertified(ctx, c.Target.Slot); err != nil {
		return err
	}
	if mode == Certified {
		return nil
	}
	return d.verifyCarried(ctx, headers)
}

// verifyCarried verifies each certificate that the headers carry for a block of the range. Those for LIB or older are
// left out: what they prove is final here.
func (d *Driver) verifyCarried(ctx context.Context, headers []dpos.Header) error {
	at := make(map[common.Hash]int, len(headers))
	for i := range headers {
		at[headers[i].Hash] = i
	}
	// Schedules change where an epoch begins and where a chain was recovered, so one question for each such part will do.
	type part struct {
		epoch  uint64
		domain common.Hash
	}
	partOf := func(i int) part {
		return part{(headers[i].Height - 1) / d.deps.Params.EpochBlocks, dpos.DomainAt(d.deps.Recoveries, headers[i].Slot)}
	}
	schedules := make(map[part][]block.Schedule)
	var err error
	if e := d.do(ctx, true, func(c *core) {
		for i := range headers {
			if i == len(headers)-1 || partOf(i) != partOf(i+1) {
				if schedules[partOf(i)], err = c.machine.RangeSchedules(headers, headers[i].Hash); err != nil {
					return
				}
			}
		}
	}); e != nil {
		return e
	}
	if err != nil {
		return translate(err)
	}
	return parallel(ctx, len(headers), func(i int) error {
		for _, c := range []*block.Certificate{headers[i].QC, headers[i].FC} {
			if c == nil {
				continue
			}
			if target, ok := at[c.Target.Hash]; ok {
				if err := d.verify.certificate(c, schedules[partOf(target)]); err != nil {
					return fmt.Errorf("block %d: %w", headers[i].Height, err)
				}
			}
		}
		return nil
	})
}

// importRange makes the range final: first in the machine, then in the chain.
func (d *Driver) importRange(ctx context.Context, blocks []*block.Block, headers []dpos.Header, cert *block.Certificate, mode Mode) error {
	done := make(chan error, 1)
	var err error
	if e := d.do(ctx, false, func(c *core) {
		if err = c.duties(); err != nil { // what is due for other reasons must not mix with the range
			c.fatal = err
			return
		}
		c.importing = &importWork{blocks: blocks, done: func(err error) { done <- err }}
		if err = c.step(dpos.RangeEvent{Headers: headers, Certificate: cert}); err != nil {
			c.importing = nil
			return
		}
		if err = c.duties(); err == nil && c.importing != nil {
			err = errors.New("consensus: a certified range made nothing final") // the machine took it: cannot be
		}
		c.fatal = err
	}); e != nil {
		return e
	}
	if err != nil {
		return err
	}
	select {
	case err := <-done:
		if err == nil {
			d.m.rangeBlocks.WithLabelValues(mode.String()).Add(float64(len(blocks)))
		}
		return err
	case <-ctx.Done():
		return ctx.Err() // the import goes on
	case <-d.done:
		return ErrStopped
	}
}

// reversible enters blocks one by one with everything verified and returns how many are in the tree.
func (d *Driver) reversible(ctx context.Context, blocks []*block.Block) (int, error) {
	// Senders first, on all cores; the headers' rules need their order.
	if err := parallel(ctx, len(blocks), func(i int) error { return d.body(blocks[i], false) }); err != nil {
		return 0, err
	}
	for i, b := range blocks {
		err := d.checkHeader(ctx, b.SealedHeader)
		if err == nil {
			err = d.insert(ctx, blocks[i:i+1])
		}
		if err != nil && !errors.Is(err, ErrKnown) {
			return i, err
		}
	}
	d.m.rangeBlocks.WithLabelValues("reversible").Add(float64(len(blocks)))
	return len(blocks), nil
}
