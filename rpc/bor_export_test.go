package rpc

import (
	"context"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/block"
)

func TestExportBlocks(t *testing.T) {
	n := newNet(t, 0, nil)
	var made []*block.Block
	for range 6 {
		n.send(0, &common.Address{1}, 1, make([]byte, 100))
		made = append(made, n.mine())
	}
	n.finalize(made[:5]...)
	var got exportJSON
	require.NoError(t, n.call(&got, "bor_exportBlocks", hexutil.Uint64(2), hexutil.Uint64(3)))
	require.Len(t, got.Blocks, 3)
	require.EqualValues(t, 5, got.Final)
	for i, raw := range got.Blocks {
		b, err := block.DecodeBlock(raw, block.MaxBlockBytes)
		require.NoError(t, err)
		require.Equal(t, made[i+1].Hash(), b.Hash())
		require.Equal(t, [65]byte{1}, b.Seal, "with its seal")
		require.Len(t, b.Senders, 1)
	}
	require.NoError(t, n.call(&got, "bor_exportBlocks", hexutil.Uint64(3)))
	require.Len(t, got.Blocks, 3, "final blocks only")
	for _, x := range []struct {
		from, count uint64
		code        int
		words       string
	}{{0, 1, codeInvalidParams, "genesis"}, {6, 1, codeInvalidParams, "not final"}, {1 << 63, 1, codeInvalidParams, "not final"}, {1, 0, codeLimit, "at once"}, {1, 1025, codeLimit, "at once"}} {
		requireCode(t, n.call(&got, "bor_exportBlocks", hexutil.Uint64(x.from), hexutil.Uint64(x.count)), x.code, x.words)
	}
}

// proofChain is a chain whose blocks carry certificates.
type proofChain struct {
	Chain
	sealed []*block.SealedHeader
	lost   *block.SealedHeader // of a branch that lost
	final  uint64
}

func (c *proofChain) CurrentHeader() *types.Header { return c.sealed[len(c.sealed)-1].Header }
func (c *proofChain) FinalHeader() *types.Header   { return c.sealed[c.final].Header }
func (c *proofChain) CanonicalHash(n uint64) (common.Hash, error) {
	if n >= uint64(len(c.sealed)) {
		return common.Hash{}, nil
	}
	return c.sealed[n].Hash(), nil
}

func (c *proofChain) Sealed(h common.Hash) (*block.SealedHeader, error) {
	for _, s := range c.sealed {
		if s.Hash() == h {
			return s, nil
		}
	}
	return nil, nil
}

func (c *proofChain) HeaderByHash(h common.Hash) (*types.Header, error) {
	if s, _ := c.Sealed(h); s != nil {
		return s.Header, nil
	}
	if c.lost != nil && c.lost.Hash() == h {
		return c.lost.Header, nil
	}
	return nil, nil
}

// The large-answer bound counts bytes, and one block is always given.
func (c *proofChain) BlockByNumber(n uint64) (*block.Block, error) {
	data := make([]byte, 3<<20)
	tx := types.NewTx(&types.LegacyTx{Data: data})
	return &block.Block{SealedHeader: c.sealed[n], Transactions: types.Transactions{tx}, Senders: make([]common.Address, 1)}, nil
}

func TestFinalProof(t *testing.T) {
	c := &proofChain{}
	for i := range 12 {
		r := &block.Record{Version: block.RecordVersion, Slot: uint64(i)}
		if i == 2 { // a certificate for a block that is not on this chain
			h := types.CopyHeader(c.sealed[1].Header)
			h.GasUsed++
			c.lost = &block.SealedHeader{Header: h, Record: c.sealed[1].Record}
			p := c.lost.Point()
			r.FC = &block.Certificate{Link: block.Link{Kind: block.Precommit, Source: p, Target: p}, Bitmaps: [][]byte{{1}}}
		}
		if i == 5 || i == 8 || i == 11 { // certificates for 3, 6 and 9
			p := c.sealed[i-2].Point()
			r.FC = &block.Certificate{Link: block.Link{Kind: block.Precommit, Source: p, Target: p}, Bitmaps: [][]byte{{1}}}
		}
		h := types.CopyHeader(newGenesis(t, 0).block.Header)
		h.Number.SetUint64(uint64(i))
		h.Extra = r.Hash().Bytes()
		c.sealed = append(c.sealed, &block.SealedHeader{Header: h, Record: r})
	}
	c.final = 8 // the certificate for 9 is not acted on yet
	s := &service{cfg: DefaultConfig(), back: Backend{Chain: c}}
	s.bound()
	api := &borAPI{s}
	for at, want := range map[uint64]uint64{0: 3, 1: 3, 3: 3, 4: 6, 6: 6, 7: 0, 100: 0, 1<<64 - 1: 0} {
		x := hexutil.Uint64(at)
		p, err := api.FinalProof(context.Background(), &x)
		require.NoError(t, err)
		if want == 0 {
			require.Nil(t, p, "at %d", at)
			continue
		}
		require.EqualValues(t, want, p.Number, "at %d", at)
		cert, err := block.DecodeCertificate(p.Certificate)
		require.NoError(t, err)
		require.Equal(t, c.sealed[want].Hash(), cert.Target.Hash)
	}
	p, err := api.FinalProof(context.Background(), nil)
	require.NoError(t, err)
	require.EqualValues(t, 6, p.Number)

	out, err := api.ExportBlocks(context.Background(), 1, nil)
	require.NoError(t, err)
	require.Len(t, out.Blocks, 2, "8 MiB hold two of 3 MiB")
}
