package consensus

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/chain"
	"github.com/bornode/bornode/consensus/dpos"
)

// CheckHeader checks everything that can be known of a header before its body is executed: form, the rules of
// consensus, the producer's seal and the certificates' signatures. Relay waits for it. A header that passed before
// costs a look-up of its signatures. Errors wrap ErrInvalid, ErrUnknownParent, ErrKnown, ErrFuture or ErrBelowLIB.
func (d *Driver) CheckHeader(h *block.SealedHeader) error {
	return d.checkHeader(context.Background(), h)
}

func (d *Driver) checkHeader(ctx context.Context, h *block.SealedHeader) error {
	if err := d.form(h); err != nil {
		return err
	}
	if !d.isReady() { // the machine's clock stands still
		return ErrNotReady
	}
	if hash := h.Hash(); d.failed.Contains(hash) || d.failed.Contains(h.Parent()) {
		d.failed.Add(hash, struct{}{})
		return fmt.Errorf("%w: block %d %s failed execution or is built on one that did", ErrKnown, h.Number(), hash)
	}
	x := dpos.HeaderOf(h)
	var checks dpos.Checks
	var known bool
	var err error
	if e := d.do(ctx, true, func(c *core) {
		if known = c.machine.Has(x.Hash); !known {
			checks, err = c.machine.Check(x)
		}
	}); e != nil {
		return e
	}
	if known {
		return fmt.Errorf("%w: block %d %s", ErrKnown, x.Height, x.Hash)
	}
	if err != nil {
		return translate(err)
	}
	return d.verify.checks(h, checks)
}

// form checks the fields of a header that depend on nothing but itself and the parameters. Execution checks the rest:
// the gas limit may change by vote, so only the state of the parent says which one is right.
func (d *Driver) form(h *block.SealedHeader) error {
	p, x := &d.deps.Params, h.Header
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: header %d %s: %w", ErrInvalid, h.Number(), h.Hash(), fmt.Errorf(format, args...))
	}
	record := h.Record.Hash()
	switch {
	case len(x.Extra) != common.HashLength || common.Hash(x.Extra) != record:
		return bad("extra data is not the hash of its consensus record")
	case x.Difficulty.Sign() != 0 || x.Nonce != (types.BlockNonce{}):
		return bad("difficulty and nonce must be 0")
	case x.UncleHash != types.EmptyUncleHash:
		return bad("uncles")
	case x.Time != p.HeaderTime(h.Slot()):
		return bad("time %d does not fit slot %d", x.Time, h.Slot())
	case x.GasLimit < block.MinGasLimit || x.GasLimit > block.MaxGasLimit:
		return bad("gas limit %d, a chain's is from %d to %d", x.GasLimit, uint64(block.MinGasLimit), uint64(block.MaxGasLimit))
	}
	return nil
}

// AddBlock checks header and body, stores the block durably and enters it into the tree; it returns when it is there,
// not when it was executed. Errors are those of CheckHeader; a body that does not fit its header is ErrInvalid.
func (d *Driver) AddBlock(ctx context.Context, b *block.Block) error {
	if err := d.waitReady(ctx); err != nil {
		return err
	}
	leave, err := d.enter(ctx, b.Hash())
	if err != nil {
		return err
	}
	defer leave()
	if err := d.checkHeader(ctx, b.SealedHeader); err != nil {
		return err
	}
	if err := d.body(b, false); err != nil {
		return err
	}
	return d.insert(ctx, []*block.Block{b})
}

// enter waits until no one else brings in the same block.
func (d *Driver) enter(ctx context.Context, h common.Hash) (leave func(), err error) {
	for {
		d.entering.Lock()
		other, busy := d.entering.m[h]
		if !busy {
			mine := make(chan struct{})
			d.entering.m[h] = mine
			d.entering.Unlock()
			return func() {
				d.entering.Lock()
				delete(d.entering.m, h)
				d.entering.Unlock()
				close(mine)
			}, nil
		}
		d.entering.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (d *Driver) body(b *block.Block, trust bool) error {
	err := d.deps.Chain.CheckBody(b, trust)
	if errors.Is(err, chain.ErrInvalidBody) {
		return invalid(err)
	}
	return err
}

// insert stores checked blocks, parents first, and enters them. The error is that of the first block refused.
func (d *Driver) insert(ctx context.Context, blocks []*block.Block) error {
	if err := d.hold(ctx, blocks); err != nil {
		return err
	}
	headers := make([]dpos.Header, len(blocks))
	for i, b := range blocks {
		headers[i] = dpos.HeaderOf(b.SealedHeader)
	}
	err := d.deps.Chain.Add(blocks)
	switch {
	case errors.Is(err, chain.ErrUnknownBlock):
		err = fmt.Errorf("%w: %w", ErrUnknownParent, err)
	case err != nil:
		err = fmt.Errorf("store block %d: %w", blocks[0].Number(), err)
	}
	var refused error
	// Whatever ctx says: what was held must be released, and what is stored must enter or be deleted.
	if e := d.do(context.WithoutCancel(ctx), false, func(c *core) {
		if err == nil {
			refused = c.enterAll(headers)
		} else {
			c.abandoned(blocks, err)
		}
		c.release(blocks)
	}); e != nil || err != nil {
		return errors.Join(err, e)
	}
	for _, h := range headers {
		d.hinted(ctx, h.Hash)
	}
	return refused
}

// AddCertificate takes a certificate of a handshake. If its block is not known yet it is kept, within bounds, for the
// moment the block or a range with it comes, and the error wraps ErrUnknownParent.
func (d *Driver) AddCertificate(cert *block.Certificate) error {
	return d.addCertificate(context.Background(), cert)
}

func (d *Driver) addCertificate(ctx context.Context, cert *block.Certificate) error {
	if !d.isReady() {
		return ErrNotReady
	}
	var schedules []block.Schedule
	var err error
	if e := d.do(ctx, true, func(c *core) { schedules, err = c.machine.CertificateSchedules(cert) }); e != nil {
		return e
	}
	if err = translate(err); err != nil {
		if errors.Is(err, ErrUnknownParent) {
			if d.suspectOldDomain(ctx, cert, "a certificate from a peer") {
				return err
			}
			d.hint(cert)
			d.followCertificate(ctx, cert)
		}
		if errors.Is(err, ErrBelowLIB) {
			d.suspectFork(ctx, cert, nil, "a certificate from a peer")
		}
		return err
	}
	if err := d.verify.certificate(cert, schedules); err != nil {
		return err
	}
	if e := d.do(ctx, false, func(c *core) { err = c.step(dpos.CertificateEvent{Certificate: cert}) }); e != nil {
		return e
	}
	return err
}

func (d *Driver) hint(c *block.Certificate) {
	d.hinting.Lock()
	defer d.hinting.Unlock()
	p, _ := d.hints.Get(c.Target.Hash)
	list := &p.fc
	if c.Kind == block.Prevote {
		list = &p.qc
	}
	enc := c.Encode()
	for _, o := range *list {
		if bytes.Equal(o.Encode(), enc) {
			return
		}
	}
	*list = append(slices.Clip(*list), c)
	if n := len(*list) - maxHintsOfBlock; n > 0 {
		*list = (*list)[n:]
	}
	d.hints.Add(c.Target.Hash, p)
}

// forgetHint removes a precommit certificate that turned out wrong.
func (d *Driver) forgetHint(c *block.Certificate) {
	d.hinting.Lock()
	defer d.hinting.Unlock()
	p, ok := d.hints.Peek(c.Target.Hash)
	if !ok {
		return
	}
	p.fc = slices.DeleteFunc(slices.Clone(p.fc), func(o *block.Certificate) bool { return o == c })
	d.hints.Add(c.Target.Hash, p)
}

// hinted brings in the certificates that waited for this block. What is wrong with them is no fault of the block.
func (d *Driver) hinted(ctx context.Context, h common.Hash) {
	d.hinting.Lock()
	p, ok := d.hints.Get(h)
	d.hints.Remove(h)
	d.hinting.Unlock()
	if !ok {
		return
	}
	for _, list := range [][]*block.Certificate{p.qc, p.fc} {
		for i := len(list) - 1; i >= 0; i-- { // one will do
			if d.addCertificate(ctx, list[i]) == nil {
				break
			}
		}
	}
}
