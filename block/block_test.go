package block

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"math/big"
	"os"
	"path/filepath"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/stretchr/testify/require"
)

var key, _ = crypto.HexToECDSA("0101010101010101010101010101010101010101010101010101010101010101")

var sampleDomain = Domain{Genesis: common.Hash{0x77}, Recovery: common.Hash{0x78}}

func sampleLink() Link {
	return Link{Kind: Prevote, Source: Point{3, common.Hash{0x33}}, Target: Point{5, common.Hash{0x55}}}
}

func sampleSchedule(n int) (s Schedule) {
	for i := range n {
		s = append(s, Producer{Account: common.Address{0xa0, byte(i)}, Key: BLSKey{0xb0, byte(i)}})
	}
	return s
}

func sampleCertificate(kind VoteKind) *Certificate {
	l := sampleLink()
	l.Kind = kind
	c := NewCertificate(l, []Schedule{sampleSchedule(4), sampleSchedule(9)}, func(a common.Address) bool { return a[1] != 2 })
	c.Aggregate = BLSSignature{1, 2, 3}
	return c
}

// sampleBlock is fixed in every bit, seal included (RFC 6979).
func sampleBlock(t testing.TB) *Block {
	t.Helper()
	signer := types.LatestSignerForChainID(big.NewInt(7))
	to := common.Address{0xee}
	tx, err := types.SignNewTx(key, signer, &types.DynamicFeeTx{ChainID: big.NewInt(7), Nonce: 1, GasTipCap: big.NewInt(0), GasFeeCap: big.NewInt(9), Gas: 21000, To: &to, Value: big.NewInt(5)})
	require.NoError(t, err)
	txs := types.Transactions{tx}
	senders := []common.Address{crypto.PubkeyToAddress(key.PublicKey)}
	r := &Record{Version: RecordVersion, Slot: 6, QC: sampleCertificate(Prevote), FC: sampleCertificate(Precommit), Next: sampleSchedule(2), BodyDigest: BodyDigest(txs, senders)}
	hash := r.Hash()
	h := &types.Header{
		ParentHash: common.Hash{0x11}, UncleHash: types.EmptyUncleHash, Coinbase: senders[0], Root: common.Hash{0x22}, TxHash: TxRoot(txs),
		ReceiptHash: common.Hash{0x44}, Difficulty: new(big.Int), Number: big.NewInt(4), GasLimit: 300_000_000, GasUsed: 21000, Time: 1003, Extra: hash[:],
		MixDigest: common.Hash{0x66}, BaseFee: new(big.Int), WithdrawalsHash: &types.EmptyWithdrawalsHash, BlobGasUsed: new(uint64), ExcessBlobGas: new(uint64),
		ParentBeaconRoot: new(common.Hash), RequestsHash: &types.EmptyRequestsHash,
	}
	b := &Block{SealedHeader: &SealedHeader{Header: h, Record: r}, Transactions: txs, Senders: senders}
	sig, err := crypto.Sign(sampleDomain.SealDigest(b.Hash()).Bytes(), key)
	require.NoError(t, err)
	copy(b.Seal[:], sig)
	return b
}

// The encodings on the wire and on disk never change by accident: docs/wire.md.
func TestGoldenVectors(t *testing.T) {
	b := sampleBlock(t)
	vote := &Vote{Link: sampleLink(), Voter: common.Address{0xa0, 1}, Signature: BLSSignature{9}}
	got := map[string]string{
		"block":             hex.EncodeToString(b.Encode()),
		"sealed_header":     hex.EncodeToString(b.SealedHeader.Encode()),
		"hash":              b.Hash().Hex(),
		"record_hash":       b.Record.Hash().Hex(),
		"body_digest":       b.Record.BodyDigest.Hex(),
		"vote":              hex.EncodeToString(vote.Encode()),
		"certificate":       hex.EncodeToString(sampleCertificate(Precommit).Encode()),
		"vote_digest":       sampleDomain.VoteDigest(sampleLink()).Hex(),
		"seal_digest":       sampleDomain.SealDigest(common.Hash{0x79}).Hex(),
		"session_digest":    sampleDomain.SessionDigest(common.Address{0xa0}, Session{Number: 2, Nonce: common.Hash{3}}).Hex(),
		"answer_digest":     sampleDomain.AnswerDigest(sampleAnswer(t, sampleDomain, "a")).Hex(),
		"possession_digest": PossessionDigest(7, common.Address{0xa0}, BLSKey{0xb0}).Hex(),
	}
	path := filepath.Join("testdata", "golden.json")
	if os.Getenv("BORNODE_UPDATE") != "" {
		text, err := json.MarshalIndent(got, "", "  ")
		require.NoError(t, err)
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, append(text, '\n'), 0o644))
	}
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	var want map[string]string
	require.NoError(t, json.Unmarshal(text, &want))
	require.Equal(t, want, got)
}

func TestRoundTrip(t *testing.T) {
	b := sampleBlock(t)
	x, err := DecodeBlock(b.Encode(), 0)
	require.NoError(t, err)
	require.Equal(t, b.Hash(), x.Hash())
	require.Equal(t, b.Encode(), x.Encode())
	require.Equal(t, b.Record, x.Record)
	require.Equal(t, b.Senders, x.Senders)
	signer, err := x.Signer(sampleDomain)
	require.NoError(t, err)
	require.Equal(t, b.Header.Coinbase, signer)
	for name, d := range map[string]Domain{"another chain": {Genesis: common.Hash{1}, Recovery: sampleDomain.Recovery}, "no recovery": {Genesis: sampleDomain.Genesis}} {
		other, err := x.Signer(d)
		require.True(t, err != nil || other != signer, name)
		require.NotEqual(t, sampleDomain.VoteDigest(sampleLink()), d.VoteDigest(sampleLink()), name)
	}
	require.Equal(t, b.Hash(), b.Ethereum().Hash(), "go-ethereum computes the same hash")

	bare := &Record{Version: RecordVersion, Slot: 1}
	h := &SealedHeader{Header: b.Header, Record: bare}
	y, err := DecodeSealedHeader(h.Encode())
	require.NoError(t, err)
	require.Nil(t, y.Record.QC)
	require.Nil(t, y.Record.FC)
	require.Nil(t, y.Record.Next)
}

func TestHighSIsRefused(t *testing.T) {
	b := sampleBlock(t)
	s := new(big.Int).SetBytes(b.Seal[32:64])
	s.Sub(crypto.S256().Params().N, s)
	s.FillBytes(b.Seal[32:64])
	b.Seal[64] ^= 1
	_, err := b.Signer(sampleDomain)
	require.ErrorContains(t, err, "high s value")
}

func TestDecodersRefuse(t *testing.T) {
	b := sampleBlock(t)
	whole := b.Encode()
	_, err := DecodeBlock(whole, len(whole)-1)
	require.ErrorIs(t, err, ErrDecode)
	require.ErrorContains(t, err, "allowed")
	for cut := range len(whole) {
		_, err := DecodeBlock(whole[:cut], 0)
		require.ErrorIs(t, err, ErrDecode, "cut at %d", cut)
	}
	_, err = DecodeBlock(append(bytes.Clone(whole), 0), 0)
	require.ErrorIs(t, err, ErrDecode)
	short := *b
	short.Senders = nil
	_, err = DecodeBlock(short.Encode(), 0)
	require.ErrorContains(t, err, "0 senders")
	v := &Vote{Link: sampleLink()}
	v.Kind = 3
	_, err = DecodeVote(v.Encode())
	require.ErrorContains(t, err, "kind 3")
	r := *b.Record
	r.Version = 2
	_, err = DecodeSealedHeader((&SealedHeader{Header: b.Header, Record: &r}).Encode())
	require.ErrorContains(t, err, "record version 2")
	c := sampleCertificate(Prevote)
	c.Bitmaps[0] = make([]byte, MaxBitmapBytes+1)
	_, err = DecodeCertificate(c.Encode())
	require.ErrorContains(t, err, "bitmap")
}

func TestVoters(t *testing.T) {
	four, nine := sampleSchedule(4), sampleSchedule(9)
	c := sampleCertificate(Prevote)
	voters, err := c.Voters([]Schedule{four, nine})
	require.NoError(t, err)
	require.Len(t, voters, 8, "each distinct voter once: nine seats but one")
	require.Equal(t, 3, c.Count(0))
	require.Equal(t, 8, c.Count(1))
	_, err = c.Voters([]Schedule{four})
	require.ErrorContains(t, err, "2 bitmaps, 1 schedules")
	_, err = c.Voters([]Schedule{nine, nine})
	require.ErrorContains(t, err, "1 bytes for 9 seats")
	c.Bitmaps[0][0] |= 1 << 7
	_, err = c.Voters([]Schedule{four, nine})
	require.ErrorContains(t, err, "names seat 7 of 4")
}

func TestQuorums(t *testing.T) {
	for n, want := range map[int][2]int{1: {0, 1}, 2: {0, 2}, 3: {0, 3}, 4: {1, 3}, 6: {1, 5}, 7: {2, 5}, 10: {3, 7}, 21: {6, 15}} {
		s := sampleSchedule(n)
		require.Equal(t, want, [2]int{s.Faulty(), s.Quorum()}, "%d producers", n)
	}
	s := sampleSchedule(3)
	require.Equal(t, s[2], s.Owner(11, 4))
	require.Equal(t, s[0], s.Owner(12, 4))
}

func TestSlots(t *testing.T) {
	p := Parameters{GenesisTime: 100, SlotMillis: 300, EpochBlocks: 10}
	require.Equal(t, uint64(100), p.HeaderTime(3))
	require.Equal(t, uint64(101), p.HeaderTime(4))
	for _, slot := range []uint64{0, 1, 7, 1000} {
		got, ok := p.SlotAt(p.SlotStart(slot))
		require.True(t, ok)
		require.Equal(t, slot, got)
	}
	_, ok := p.SlotAt(p.SlotStart(0).Add(-1e6))
	require.False(t, ok)
	require.False(t, p.EpochEnd(0))
	require.True(t, p.EpochEnd(10))
	require.False(t, p.EpochEnd(11))
}

func FuzzDecodeBlock(f *testing.F) {
	f.Add(sampleBlock(f).Encode())
	f.Add([]byte{0xc0})
	f.Fuzz(func(t *testing.T, b []byte) {
		x, err := DecodeBlock(b, 1<<20)
		if err != nil {
			return
		}
		require.Equal(t, b, x.Encode(), "one value has one encoding")
		_ = x.Hash()
		_, _ = x.Signer(sampleDomain)
		_ = BodyDigest(x.Transactions, x.Senders)
	})
}

func FuzzDecodeSealedHeader(f *testing.F) {
	f.Add(sampleBlock(f).SealedHeader.Encode())
	f.Add(emptyHeader().Encode())
	f.Add((&SealedHeader{Header: &types.Header{Number: new(big.Int), Difficulty: new(big.Int)}, Record: &Record{Version: RecordVersion}}).Encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		x, err := DecodeSealedHeader(b)
		if err != nil {
			return
		}
		require.Equal(t, b, x.Encode())
		_, _, _ = x.Number(), x.Slot(), x.Hash()
	})
}

func FuzzDecodeVotesAndCertificates(f *testing.F) {
	f.Add((&Vote{Link: sampleLink()}).Encode())
	f.Add(sampleCertificate(Precommit).Encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		if v, err := DecodeVote(b); err == nil {
			require.Equal(t, b, v.Encode())
		}
		if c, err := DecodeCertificate(b); err == nil {
			require.Equal(t, b, c.Encode())
			_, _ = c.Voters([]Schedule{sampleSchedule(4), sampleSchedule(9)})
		}
	})
}
