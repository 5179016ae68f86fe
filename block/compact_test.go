package block

import (
	"bytes"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/rlp"
	"github.com/stretchr/testify/require"
)

// emptyHeader is a sealed header as producers make them when there are no transactions.
func emptyHeader() *SealedHeader {
	h := &types.Header{
		ParentHash: common.Hash{0x11, 1}, UncleHash: types.EmptyUncleHash, Coinbase: common.Address{0xcc}, Root: common.Hash{0x22, 1},
		TxHash: types.EmptyTxsHash, ReceiptHash: types.EmptyReceiptsHash, Difficulty: new(big.Int), Number: big.NewInt(170_000),
		GasLimit: 300_000_000, Time: 1_790_000_000, MixDigest: common.Hash{0x66, 1}, BaseFee: new(big.Int),
		WithdrawalsHash: &types.EmptyWithdrawalsHash, BlobGasUsed: new(uint64), ExcessBlobGas: new(uint64),
		ParentBeaconRoot: new(common.Hash), RequestsHash: &types.EmptyRequestsHash,
	}
	x := &SealedHeader{Header: h, Record: &Record{Version: RecordVersion, Slot: 200_000, BodyDigest: emptyBodyDigest()}}
	nameRecord(x)
	x.Seal[5] = 7
	return x
}

func nameRecord(h *SealedHeader) {
	h.Header.Extra = h.Record.Hash().Bytes()
	h.hash.Store(nil)
}

func certificateOn(kind VoteKind, source, target Point) *Certificate {
	return &Certificate{Link: Link{Kind: kind, Source: source, Target: target}, Bitmaps: [][]byte{{7}}, Aggregate: BLSSignature{8}}
}

// requireRoundTrip decodes what the header encodes to, and wants the same header, record and seal, in the same form.
func requireRoundTrip(t *testing.T, h *SealedHeader) form {
	t.Helper()
	raw := h.Encode()
	x, err := DecodeSealedHeader(raw)
	require.NoError(t, err)
	require.Equal(t, raw, x.Encode())
	require.Equal(t, h.Header.Hash(), x.Header.Hash())
	require.Equal(t, h.Record.Hash(), x.Record.Hash())
	require.Equal(t, encode(h.Header), encode(x.Header))
	require.Equal(t, h.Seal, x.Seal)
	return formOf(h)
}

// What an empty block costs: the figures of docs/wire.md. Header and record in full take 753, 930 and 1,107.
func TestEncodingOfAnEmptyBlockIsShort(t *testing.T) {
	h := emptyHeader()
	parent, grandparent := Point{199_999, h.Header.ParentHash}, Point{199_998, common.Hash{0x99}}
	sizes := make([]int, 0, 3)
	measure := func() {
		nameRecord(h)
		require.Equal(t, formCompact, requireRoundTrip(t, h)&formCompact)
		sizes = append(sizes, len(h.Encode()))
	}
	measure()
	h.Record.QC = certificateOn(Prevote, grandparent, parent)
	measure()
	h.Record.FC = certificateOn(Precommit, parent, parent)
	measure()
	require.Equal(t, []int{210, 348, 450}, sizes)
}

// Every field that the compact form leaves out is told when its value is another, and every such header comes back as it was.
func TestAnyHeaderComesBack(t *testing.T) {
	hash := common.Hash{0xfe}
	one64 := uint64(1)
	for name, change := range map[string]func(h *types.Header){
		"uncles": func(h *types.Header) { h.UncleHash = hash }, "difficulty": func(h *types.Header) { h.Difficulty = big.NewInt(1) },
		"nonce": func(h *types.Header) { h.Nonce[7] = 1 }, "extra": func(h *types.Header) { h.Extra = hash[:] },
		"longer extra": func(h *types.Header) { h.Extra = append(h.Extra, 0) }, "no extra": func(h *types.Header) { h.Extra = nil },
		"withdrawals": func(h *types.Header) { h.WithdrawalsHash = &hash }, "blob gas": func(h *types.Header) { h.BlobGasUsed = &one64 },
		"excess blob gas": func(h *types.Header) { h.ExcessBlobGas = &one64 }, "beacon root": func(h *types.Header) { h.ParentBeaconRoot = &hash },
		"no requests hash": func(h *types.Header) { h.RequestsHash = nil },
		"later fork":       func(h *types.Header) { h.BlockAccessListHash, h.SlotNumber = &hash, &one64 },
		"an old fork": func(h *types.Header) {
			h.BaseFee, h.WithdrawalsHash, h.BlobGasUsed, h.ExcessBlobGas, h.ParentBeaconRoot, h.RequestsHash = nil, nil, nil, nil, nil, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := emptyHeader()
			change(h.Header)
			require.Equal(t, formWhole, requireRoundTrip(t, h))
		})
	}
	for name, change := range map[string]func(h *types.Header){
		"transactions": func(h *types.Header) { h.TxHash = hash }, "receipts": func(h *types.Header) { h.ReceiptHash = hash },
		"requests": func(h *types.Header) { h.RequestsHash = &hash }, "one bit of the bloom": func(h *types.Header) { h.Bloom[255] = 0x80 },
		"full bloom": func(h *types.Header) { h.Bloom = types.Bloom(bytes.Repeat([]byte{255}, 256)) },
		"base fee":   func(h *types.Header) { h.BaseFee = new(big.Int).Lsh(big.NewInt(1), 200) },
		"zero values": func(h *types.Header) {
			*h = types.Header{UncleHash: h.UncleHash, Difficulty: h.Difficulty, Number: new(big.Int), Extra: h.Extra, BaseFee: h.BaseFee,
				WithdrawalsHash: h.WithdrawalsHash, BlobGasUsed: h.BlobGasUsed, ExcessBlobGas: h.ExcessBlobGas, ParentBeaconRoot: h.ParentBeaconRoot, RequestsHash: h.RequestsHash}
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := emptyHeader()
			change(h.Header)
			require.NotEqual(t, formWhole, requireRoundTrip(t, h))
		})
	}
}

// Records of every shape come back, drawn at random from few points so that links meet in all ways.
func TestAnyRecordComesBack(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	forms := make(map[form]int)
	for range 20_000 {
		h := emptyHeader()
		h.Record.Slot = r.Uint64N(4)
		point := func() Point { return Point{r.Uint64N(4), []common.Hash{{}, {1}, h.Header.ParentHash}[r.IntN(3)]} }
		draw := func(kind VoteKind) *Certificate {
			c := certificateOn(kind, point(), point())
			if r.IntN(8) == 0 {
				c.Kind = 3 - kind
			}
			if r.IntN(2) == 0 {
				c.Source = c.Target
			}
			c.Bitmaps = make([][]byte, 1+r.IntN(2))
			for i := range c.Bitmaps {
				c.Bitmaps[i] = make([]byte, r.IntN(MaxBitmapBytes+1))
			}
			return c
		}
		if r.IntN(4) > 0 {
			h.Record.QC = draw(Prevote)
		}
		if r.IntN(4) > 0 {
			h.Record.FC = draw(Precommit)
		}
		if r.IntN(4) == 0 {
			h.Record.Next = sampleSchedule(r.IntN(MaxProducers + 1))
		}
		if r.IntN(4) == 0 {
			h.Record.BodyDigest = common.Hash{byte(r.IntN(2))}
		}
		nameRecord(h)
		forms[requireRoundTrip(t, h)]++
	}
	for bit := formCompact; bit < formsEnd; bit <<= 1 {
		if bit&(hasTxHash|hasReceiptHash|hasBloom|hasRequestsHash) != 0 {
			continue
		}
		n := 0
		for f, count := range forms {
			if f&bit != 0 {
				n += count
			}
		}
		require.Positive(t, n, "form bit %#x", uint64(bit))
	}
	require.Positive(t, forms[formWhole])
}

// A header has one encoding: each other one that says the same is refused.
func TestOtherEncodingsOfAHeaderAreRefused(t *testing.T) {
	h := emptyHeader()
	parent := Point{199_999, h.Header.ParentHash}
	h.Record.QC = certificateOn(Prevote, Point{199_998, common.Hash{0x99}}, parent)
	h.Record.FC = certificateOn(Precommit, parent, parent)
	nameRecord(h)
	own := formOf(h)
	require.Equal(t, formCompact|hasQC|onParent|hasFC|likeQCTarget, own)
	encodeAs := func(f form) []byte {
		var b bytes.Buffer
		e := rlp.NewEncoderBuffer(&b)
		list := e.List()
		e.WriteUint64(uint64(f))
		if f == formWhole {
			require.NoError(t, rlp.Encode(e, h.Header))
			require.NoError(t, rlp.Encode(e, h.Record))
		} else {
			encodeCompactHeader(e, h.Header, f)
			encodeCompactRecord(e, h.Record, f)
		}
		e.WriteBytes(h.Seal[:])
		e.ListEnd(list)
		require.NoError(t, e.Flush())
		return b.Bytes()
	}
	require.Equal(t, h.Encode(), encodeAs(own))
	for f := range 2 * formsEnd {
		raw := encodeAs(f)
		x, err := DecodeSealedHeader(raw)
		if err != nil {
			require.ErrorIs(t, err, ErrDecode)
			require.NotEqual(t, own, f)
			continue
		}
		require.Equal(t, raw, x.Encode())
		require.Equal(t, f == own, x.Hash() == h.Hash(), "form %#x: one that leaves a certificate out is another header", uint64(f))
	}
}

// A packed bloom has one encoding too.
func TestBlooms(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for bits := range 300 {
		var b types.Bloom
		for range bits {
			b[r.IntN(256)] |= 1 << r.IntN(8)
		}
		packed := packBloom(&b)
		require.LessOrEqual(t, len(packed), len(b))
		got, err := unpackBloom(packed)
		require.NoError(t, err)
		require.Equal(t, b, got)
	}
	sparse := make([]byte, 256)
	sparse[3] = 1
	for name, packed := range map[string][]byte{
		"not packed": sparse, "odd": {1}, "falling": {0, 2, 0, 1}, "twice": {0, 1, 0, 1}, "beyond": {8, 0}, "too long": make([]byte, 258),
	} {
		_, err := unpackBloom(packed)
		require.Error(t, err, name)
	}
}
