package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/rand"
	"errors"
	"io"
	"math/big"
	"os"
	"path/filepath"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/bench/forge"
	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/blockstore"
	"github.com/bornode/bornode/consensus/signer"
	"github.com/bornode/bornode/genesis"
	"github.com/bornode/bornode/internal/bls"
)

// history is a chain of one producer, whose keys we hold, and its export file in parts.
type history struct {
	dir     string
	keys    *signer.Local
	gen     *genesis.Genesis
	domain  block.Domain
	genesis string // file
	blocks  []*block.Block
	qc, fc  *block.Certificate
}

const historyBlocks = 24

func makeHistory(t *testing.T) *history {
	t.Helper()
	h := &history{dir: t.TempDir()}
	rich, err := crypto.GenerateKey()
	require.NoError(t, err)
	f, err := forge.New(t.Context(), filepath.Join(h.dir, "forge"), forge.Options{Accounts: []*ecdsa.PrivateKey{rich}, Blocks: 100})
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	h.keys, h.gen, h.genesis = f.Keys(), f.Genesis(), filepath.Join(h.dir, "genesis.json")
	require.NoError(t, h.gen.Write(h.genesis))
	for i := range historyBlocks {
		tx := types.MustSignNewTx(rich, types.LatestSignerForChainID(big.NewInt(forge.ChainID)), &types.DynamicFeeTx{
			ChainID: big.NewInt(forge.ChainID), Nonce: uint64(i), Gas: 21000, To: &common.Address{1}, Value: big.NewInt(int64(i)),
			GasFeeCap: big.NewInt(1), GasTipCap: new(big.Int),
		})
		_, err := f.Next(t.Context(), []*types.Transaction{tx})
		require.NoError(t, err)
	}
	var file bytes.Buffer
	require.NoError(t, f.Export(t.Context(), &file))
	zero, err := h.gen.Block()
	require.NoError(t, err)
	h.domain = block.Domain{Genesis: zero.Hash()}
	r, err := blockstore.NewImportReader(&file, 0)
	require.NoError(t, err)
	for {
		b, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		h.blocks = append(h.blocks, b)
	}
	h.qc, h.fc = r.Certificates()
	require.NotNil(t, h.fc)
	return h
}

// clone is a copy whose blocks may be changed.
func (h *history) clone(t *testing.T) *history {
	c := *h
	c.blocks = nil
	for _, b := range h.blocks {
		x, err := block.DecodeBlock(b.Encode(), block.MaxBlockBytes)
		require.NoError(t, err)
		c.blocks = append(c.blocks, x)
	}
	return &c
}

func (h *history) last() *block.Block { return h.blocks[len(h.blocks)-1] }

func (h *history) write(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "chain.bor")
	f, err := os.Create(path)
	require.NoError(t, err)
	w := blockstore.NewExportWriter(f, h.domain.Genesis)
	for _, b := range h.blocks {
		require.NoError(t, w.Block(b.Encode()))
	}
	require.NoError(t, w.End(h.qc, h.fc))
	require.NoError(t, f.Close())
	return path
}

// forgeLast makes the last block anew after a change, with a true record hash, seal and final certificate: what a
// quorum of producers could do.
func (h *history) forgeLast(t *testing.T, change func(*types.Header, *block.Record)) {
	t.Helper()
	b := h.last()
	header, record := types.CopyHeader(b.Header), *b.Record
	change(header, &record)
	header.Extra = record.Hash().Bytes()
	sealed := &block.SealedHeader{Header: header, Record: &record}
	seal, err := h.keys.SignSeal(h.domain.SealDigest(sealed.Hash()))
	require.NoError(t, err)
	sealed = &block.SealedHeader{Header: header, Record: &record, Seal: seal}
	h.blocks[len(h.blocks)-1] = &block.Block{SealedHeader: sealed, Transactions: b.Transactions, Senders: b.Senders}
	h.qc, h.fc = nil, h.certificate(t, sealed.Point())
}

func (h *history) certificate(t *testing.T, p block.Point) *block.Certificate {
	t.Helper()
	l := block.Link{Kind: block.Precommit, Source: p, Target: p}
	c := block.NewCertificate(l, []block.Schedule{h.gen.Schedule()}, func(common.Address) bool { return true })
	sig, err := h.keys.SignVote(h.domain.VoteDigest(l))
	require.NoError(t, err)
	c.Aggregate, err = bls.Aggregate([][96]byte{sig})
	require.NoError(t, err)
	return c
}

func (h *history) verify(t *testing.T, change func(*verifyJob)) (*verified, error) {
	t.Helper()
	j := verifyJob{File: h.write(t), Genesis: h.genesis, Dir: t.TempDir()}
	if change != nil {
		change(&j)
	}
	v, err := verifyExport(t.Context(), j)
	left, readErr := os.ReadDir(j.Dir)
	if readErr == nil {
		require.Empty(t, left, "the folder of the execution is removed")
	}
	return v, err
}

// found says that the file was found wrong, in these words.
func found(t *testing.T, err error, words string) {
	t.Helper()
	require.ErrorContains(t, err, words)
	var x *invalidExport
	require.ErrorAs(t, err, &x, "it is the file's fault: %v", err)
}

func TestVerifyExport(t *testing.T) {
	whole := makeHistory(t)
	n := uint64(len(whole.blocks))
	middle := int(n / 2)

	t.Run("good", func(t *testing.T) {
		stages := map[string]uint64{}
		v, err := whole.verify(t, func(j *verifyJob) {
			j.Checkpoint = &checkpoint{3, whole.blocks[2].Hash()}
			j.Progress = func(stage string, done, total uint64) { stages[stage] = total - done }
		})
		require.NoError(t, err)
		require.Equal(t, verified{Chain: forge.ChainID, Genesis: whole.domain.Genesis, First: 1, Last: n, Hash: whole.last().Hash(), Slot: whole.last().Slot(),
			Txs: n, Proven: n, Executed: n, Trusted: 3}, *v)
		require.Equal(t, map[string]uint64{"reading": 0, "executing": 0}, stages, "each stage ends at its total")
	})
	for name, x := range map[string]struct {
		change func(*testing.T, *history)
		words  string
	}{
		"seal": {func(_ *testing.T, h *history) { h.blocks[middle].Seal[5] ^= 1 }, "seal"},
		"stranger's seal": {func(t *testing.T, h *history) {
			other, err := signer.Generate(rand.Reader)
			require.NoError(t, err)
			h.keys = other
			h.forgeLast(t, func(x *types.Header, _ *block.Record) { x.Coinbase = other.Account() })
		}, "belongs to"},
		"record": {func(_ *testing.T, h *history) { h.blocks[middle].Record.BodyDigest[0] ^= 1 }, "record"},
		"slot": {func(t *testing.T, h *history) {
			h.forgeLast(t, func(_ *types.Header, r *block.Record) { r.Slot = 1 })
		}, "slot"},
		"body": {func(_ *testing.T, h *history) {
			h.blocks[middle].Transactions, h.blocks[middle].Senders = nil, nil
		}, "body digest"},
		"sender": {func(t *testing.T, h *history) {
			b := h.last()
			b.Senders[0][0] ^= 1
			h.forgeLast(t, func(_ *types.Header, r *block.Record) { r.BodyDigest = block.BodyDigest(b.Transactions, b.Senders) })
		}, "sender"},
		"transaction root": {func(t *testing.T, h *history) {
			h.forgeLast(t, func(x *types.Header, _ *block.Record) { x.TxHash[0] ^= 1 })
		}, "transaction root"},
		"state root": {func(t *testing.T, h *history) {
			h.forgeLast(t, func(x *types.Header, _ *block.Record) { x.Root[0] ^= 1 })
		}, "state root"},
		"receipt root": {func(t *testing.T, h *history) {
			h.forgeLast(t, func(x *types.Header, _ *block.Record) { x.ReceiptHash[0] ^= 1 })
		}, "receipt"},
		"certificate at the end": {func(_ *testing.T, h *history) {
			c := *h.fc
			c.Aggregate = h.blocks[2].Record.FC.Aggregate
			h.fc = &c
		}, "nothing in the file proves"},
		"certificate inside": {func(t *testing.T, h *history) {
			h.forgeLast(t, func(_ *types.Header, r *block.Record) {
				c := *r.FC
				c.Aggregate = h.blocks[5].Record.FC.Aggregate
				r.FC = &c
			})
		}, "certificate"},
		"no certificate at the end": {func(_ *testing.T, h *history) { h.qc, h.fc = nil, nil }, "nothing in the file proves"},
		"gap":                       {func(_ *testing.T, h *history) { h.blocks = append(h.blocks[:4:4], h.blocks[5:]...) }, "it follows block 4"},
		"broken link":               {func(_ *testing.T, h *history) { h.blocks[middle].Header.GasUsed++ }, "its parent is"},
		"empty":                     {func(_ *testing.T, h *history) { h.blocks = nil }, "holds no blocks"},
	} {
		t.Run(name, func(t *testing.T) {
			h := whole.clone(t)
			x.change(t, h)
			_, err := h.verify(t, nil)
			found(t, err, x.words)
			require.NotContains(t, err.Error(), "\n", "one sentence")
		})
	}
}

func TestVerifyTornFile(t *testing.T) {
	h := makeHistory(t)
	whole, err := os.ReadFile(h.write(t))
	require.NoError(t, err)
	for _, cut := range []int{0, 7, 39, 41, len(whole) / 2, len(whole) - 1} {
		path := filepath.Join(t.TempDir(), "torn")
		require.NoError(t, os.WriteFile(path, whole[:cut], 0o600))
		_, err := h.verify(t, func(j *verifyJob) { j.File = path })
		found(t, err, "it ends within")
	}
	path := filepath.Join(t.TempDir(), "longer")
	require.NoError(t, os.WriteFile(path, append(whole, 0), 0o600))
	_, err = h.verify(t, func(j *verifyJob) { j.File = path })
	found(t, err, "follows the trailer")
}

func TestVerifyAnotherChain(t *testing.T) {
	h, other := makeHistory(t), makeHistory(t)
	_, err := h.verify(t, func(j *verifyJob) { j.Genesis = other.genesis })
	found(t, err, other.domain.Genesis.String())

	_, err = h.verify(t, func(j *verifyJob) { j.Checkpoint = &checkpoint{9, other.blocks[8].Hash()} })
	found(t, err, "another history")
	_, err = h.verify(t, func(j *verifyJob) { j.Checkpoint = &checkpoint{9000, common.Hash{1}} })
	found(t, err, "not in the file")

	// With the last block known from elsewhere, the end needs no certificate.
	open := h.clone(t)
	open.fc, open.qc = nil, nil
	v, err := open.verify(t, func(j *verifyJob) { j.Checkpoint = &checkpoint{open.last().Number(), open.last().Hash()} })
	require.NoError(t, err)
	require.Equal(t, v.Last, v.Trusted)
	require.Less(t, v.Proven, v.Last)

	// The checkpoint vouches for hashes: bodies above the last final block are checked by themselves.
	n := len(open.blocks)
	for name, change := range map[string]func(*block.Block){
		"foreign body":   func(b *block.Block) { b.Transactions, b.Senders = open.blocks[0].Transactions, open.blocks[0].Senders },
		"foreign sender": func(b *block.Block) { b.Senders[0][3] ^= 1 },
		"foreign seal":   func(b *block.Block) { b.Seal[5] ^= 1 },
	} {
		c := open.clone(t)
		change(c.blocks[n-1])
		_, err := c.verify(t, func(j *verifyJob) { j.Checkpoint = &checkpoint{open.last().Number(), open.last().Hash()} })
		require.Error(t, err, name)
		found(t, err, "block 24")
	}
}

// A file that begins in the middle is checked as far as that goes, with a block that is known.
func TestVerifyPart(t *testing.T) {
	h := makeHistory(t)
	h.blocks = h.blocks[5:]
	_, err := h.verify(t, nil)
	found(t, err, "begins at block 6")
	known := func(j *verifyJob) { j.Checkpoint = &checkpoint{h.last().Number(), h.last().Hash()} }
	_, err = h.verify(t, func(j *verifyJob) { j.Checkpoint = &checkpoint{8, h.blocks[2].Hash()} })
	found(t, err, "block 9: nothing proves blocks 9 to 24")
	v, err := h.verify(t, known)
	require.NoError(t, err)
	require.EqualValues(t, 6, v.First)
	require.Zero(t, v.Executed)
	for name, x := range map[string]struct {
		change func(*block.Block)
		words  string
	}{
		"seal":   {func(b *block.Block) { b.Seal[7] ^= 1 }, "block 9: "},
		"record": {func(b *block.Block) { b.Record.BodyDigest[0] ^= 1 }, "block 9: extra data"},
		"body":   {func(b *block.Block) { b.Transactions, b.Senders = nil, nil }, "block 9: the body"},
		"sender": {func(b *block.Block) { b.Senders[0][3] ^= 1 }, "block 9: the body"},
	} {
		t.Run(name, func(t *testing.T) {
			c := h.clone(t)
			x.change(c.blocks[3])
			_, err := c.verify(t, known)
			found(t, err, x.words)
		})
	}
}

func TestVerifyPartWithWrongRoot(t *testing.T) {
	h := makeHistory(t)
	h.blocks = h.blocks[5:]
	h.forgeLast(t, func(x *types.Header, _ *block.Record) { x.TxHash[0] ^= 1 })
	_, err := h.verify(t, func(j *verifyJob) { j.Checkpoint = &checkpoint{h.last().Number(), h.last().Hash()} })
	found(t, err, "block 24: the transactions do not have the root")
}

// What is not the file's fault does not say so.
func TestVerifyOwnTrouble(t *testing.T) {
	h := makeHistory(t)
	var x *invalidExport
	_, err := h.verify(t, func(j *verifyJob) { j.File = filepath.Join(t.TempDir(), "none") })
	require.ErrorIs(t, err, os.ErrNotExist)
	require.False(t, errors.As(err, &x))
	_, err = h.verify(t, func(j *verifyJob) { j.Dir = h.genesis })
	require.ErrorContains(t, err, "--dir")
	require.False(t, errors.As(err, &x))
	require.ErrorContains(t, roomFor(t.TempDir(), 1<<62), "--dir")
}

func TestParseCheckpoint(t *testing.T) {
	want := common.Hash{0: 0xab, 31: 1}
	c, err := parseCheckpoint("120:" + want.Hex())
	require.NoError(t, err)
	require.Equal(t, checkpoint{120, want}, *c)
	for _, s := range []string{"", "1", "x:" + want.Hex(), "1:0x12", ":" + want.Hex(), "1:" + want.Hex() + "00", "-1:" + want.Hex()} {
		_, err := parseCheckpoint(s)
		require.ErrorContains(t, err, "height:hash", s)
	}
}
