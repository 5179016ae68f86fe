package rpc

import (
	"context"
	"fmt"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"github.com/bornode/bornode/block"
)

// Bounds of the methods for export.
const (
	maxExportBlocks = 1024
	maxExportBytes  = 8 << 20 // of encoded blocks, which are twice as long in the answer; one block may be larger
	maxProofBlocks  = 8192    // headers searched for a certificate
)

type exportJSON struct {
	Blocks []hexutil.Bytes `json:"blocks"` // encodings of docs/wire.md, by height
	Final  hexutil.Uint64  `json:"final"`  // height of the last irreversible block
}

// ExportBlocks are final blocks from a height on as they are stored and exported: sealed header, transactions,
// senders. At most count of them (default and bound 1024), fewer if they are large; the caller goes on where the
// answer ends, up to final.
func (a *borAPI) ExportBlocks(ctx context.Context, from hexutil.Uint64, count *hexutil.Uint64) (*exportJSON, error) {
	leave, err := a.enterCall(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	final := a.back.Chain.FinalHeader().Number.Uint64()
	n := uint64(maxExportBlocks)
	if count != nil {
		n = uint64(*count)
	}
	switch {
	case n == 0 || n > maxExportBlocks:
		return nil, limitExceeded("%d blocks asked for, 1 to %d are given at once", n, maxExportBlocks)
	case from == 0:
		return nil, invalidParams("block 0 is made by the genesis file: ask from block 1 on")
	case uint64(from) > final:
		return nil, invalidParams("block %d is not final; the last irreversible block is %d", uint64(from), final)
	}
	back := a.during(ctx)
	out := &exportJSON{Blocks: []hexutil.Bytes{}, Final: hexutil.Uint64(final)}
	held, size := a.hold(a.host(ctx)), 0
	defer held.give()
	for h := uint64(from); h <= final && uint64(len(out.Blocks)) < n; h++ {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		b, err := back.Chain.BlockByNumber(h)
		if err != nil {
			if len(out.Blocks) > 0 { // the caller goes on here, and is told then
				break
			}
			return nil, unreadable(fmt.Sprintf("block %d", h), err)
		}
		if b == nil {
			return nil, &Error{Code: codeServer, Message: fmt.Sprintf("block %d is not kept by this node any more; ask one that keeps the whole history", h)}
		}
		raw := b.Encode()
		if size += len(raw); size > maxExportBytes && len(out.Blocks) > 0 {
			break
		}
		if err := held.gather(answerCopies * 2 * len(raw)); err != nil { // in hex
			return nil, err
		}
		out.Blocks = append(out.Blocks, raw)
	}
	return out, nil
}

type finalProofJSON struct {
	Number      hexutil.Uint64 `json:"number"`
	Hash        common.Hash    `json:"hash"`
	Certificate hexutil.Bytes  `json:"certificate"` // encoding of docs/wire.md; of precommits, for this block
}

// FinalProof is a certificate that proves a block final, taken from the record of a later block: the first such block
// at or above a height, or without a height the newest. Null if the chain carries none yet.
func (a *borAPI) FinalProof(ctx context.Context, at *hexutil.Uint64) (*finalProofJSON, error) {
	leave, err := a.enterCall(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	c := a.back.Chain
	head := c.CurrentHeader().Number.Uint64()
	if at == nil {
		for h, left := head, maxProofBlocks; h > 0 && left > 0; h, left = h-1, left-1 {
			if p, err := a.proofIn(h); p != nil || err != nil {
				return p, err
			}
		}
		return nil, nil //nolint:nilnil // null is the answer
	}
	first := max(uint64(*at), 1)
	for h := first + 1; h <= head && h-first <= maxProofBlocks; h++ {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		p, err := a.proofIn(h)
		if err != nil {
			return nil, err
		}
		if p != nil && uint64(p.Number) >= first {
			return p, nil
		}
	}
	return nil, nil //nolint:nilnil // null is the answer
}

// proofIn is the certificate of precommits in the record of a block of the executed chain, if it is for a final block.
func (a *borAPI) proofIn(height uint64) (*finalProofJSON, error) {
	sealed, err := a.back.sealedAt(height)
	if sealed == nil || err != nil || sealed.Record.FC == nil {
		return nil, err
	}
	return a.proofOf(sealed.Record.FC)
}

func (a *borAPI) proofOf(fc *block.Certificate) (*finalProofJSON, error) {
	c := a.back.Chain
	what := "block " + fc.Target.Hash.Hex()
	target, err := c.HeaderByHash(fc.Target.Hash)
	if err != nil {
		return nil, unreadable(what, err)
	}
	if target == nil {
		return nil, nil //nolint:nilnil // there is none
	}
	n := target.Number.Uint64()
	canonical, err := c.CanonicalHash(n)
	if err != nil {
		return nil, unreadable(what, err)
	}
	if n == 0 || n > c.FinalHeader().Number.Uint64() || canonical != fc.Target.Hash {
		return nil, nil //nolint:nilnil // likewise
	}
	return &finalProofJSON{hexutil.Uint64(n), fc.Target.Hash, fc.Encode()}, nil
}
