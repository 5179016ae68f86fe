package blocksync

import (
	"encoding/hex"
	"encoding/json"
	"math/big"
	"os"
	"strings"
	"testing"

	"github.com/bornode/bornode/block"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/rlp"
	"github.com/holiman/uint256"
	"github.com/stretchr/testify/require"
)

const goldenFile = "testdata/golden.json"

func sampleVote(n byte) block.Vote {
	p := block.Point{Slot: uint64(n), Hash: common.Hash{n}}
	return block.Vote{Link: block.Link{Kind: block.Prevote, Source: p, Target: block.Point{Slot: uint64(n) + 1, Hash: common.Hash{n, 1}}}, Voter: common.Address{n}, Signature: block.BLSSignature{n}}
}

func sampleHandshake() *Handshake {
	b := newChain(3, chainShape{})[3]
	return &Handshake{
		NetVersion: 1, ChainID: common.Hash{1}, NodeID: "node", Key: common.Address{2}, Time: 3, Token: common.Hash{4}, Sig: make([]byte, 65),
		P2PAddress: "/ip4/10.0.0.1/tcp/9876", Head: RefOf(b.SealedHeader), LIB: Ref{1, 1, common.Hash{5}}, OS: "linux", Agent: "bornode/1", Generation: 6,
		ReqIndex: 7, StepID: 8, First: 1, Justified: block.Point{Slot: 9, Hash: common.Hash{9}}, QC: b.Record.QC, FC: b.Record.FC,
		Votes: []block.Vote{sampleVote(1)}, SignerStart: 10, Upgrades: common.Hash{11}, Modes: ServeRange | ServePull,
	}
}

// samples is one message of every type, and the variants whose encoding differs in kind.
func samples() map[string][]byte {
	b := newChain(3, chainShape{size: 10})[3]
	bare := sampleHandshake()
	bare.QC, bare.FC, bare.Votes, bare.Sig, bare.Key = nil, nil, nil, nil, common.Address{}
	asks, answers := sampleHandshake(), sampleHandshake()
	asks.Modes |= AnswersQuestions
	asks.Question = 12
	answers.Modes |= AnswersQuestions
	answers.Answer = ToldVotes{Question: 13, Votes: []block.Vote{sampleVote(3), sampleVote(2)}}
	session := block.SignedSession{Producer: common.Address{3}, Session: block.Session{Number: 4, Nonce: common.Hash{5}}, Seal: [65]byte{6}}
	empty := &block.SessionAnswer{Asker: session.Producer, Session: session.Session}
	full := &block.SessionAnswer{
		Asker: session.Producer, Session: session.Session, From: common.Address{7}, LIBHeight: 8, LIB: block.Point{Slot: 9, Hash: common.Hash{10}},
		FC: b.Record.FC, QC: b.Record.QC, Sessions: []block.SignedSession{session}, Votes: []block.ToldVote{{Vote: sampleVote(3), QC: b.Record.QC}, {Vote: sampleVote(2)}},
		Header: b.SealedHeader.Encode(), Own: block.Session{Number: 11}, Signs: true, Sig: make([]byte, 65),
	}
	return map[string][]byte{
		"handshake":           sampleHandshake().Encode(),
		"handshake_bare":      bare.Encode(),
		"handshake_asks":      asks.Encode(),
		"handshake_answers":   answers.Encode(),
		"session":             (&SessionRequest{Round: 2, Session: session, Sig: [65]byte{7}}).Encode(),
		"session_answer":      encodeSessionAnswer(full),
		"session_answer_bare": encodeSessionAnswer(empty),
		"go_away":             (&GoAway{NotAMember, "node", 5}).Encode(),
		"time":                (&Time{1, 2, 3, 4, Ref{5, 6, common.Hash{7}}, Ref{1, 1, common.Hash{1}}, 8, 0}).Encode(),
		"time_told":           (&Time{1, 2, 3, 4, Ref{5, 6, common.Hash{7}}, Ref{1, 1, common.Hash{1}}, 8, 9}).Encode(),
		"notice":              (&Notice{Blocks: IDs{ModeCatchUp, 9, []common.Hash{{1}}}, Transactions: IDs{Mode: ModeNone}}).Encode(),
		"notice_damp":         (&Notice{SetDamp: true, Damp: DampBlocks | DampVotes}).Encode(),
		"request":             (&Request{IDs{Mode: ModeCatchUp, IDs: []common.Hash{{2}}}, IDs{ModeNormal, 1, []common.Hash{{3}}}, 4, 5}).Encode(),
		"sync_request":        (&SyncRequest{1, 1000, 2, 3}).Encode(),
		"signed_block":        (&SignedBlock{1, 2, b.Number(), 300, b.Encode()}).Encode(),
		"packed_transaction":  EncodePackedTransactions(types.Transactions{makeTx(1, 21000), b.Transactions[0]}),
		"vote":                EncodeVotes([]block.Vote{sampleVote(1), sampleVote(2)}),
		"block_header":        (&BlockHeader{1 << 20, b.SealedHeader}).Encode(),
		"error":               (&ErrorMessage{1, CodePruned, 77, "blocks below 77 are pruned"}).Encode(),
		"receipts_request":    (&ReceiptsRequest{1, 77, common.Hash{4}}).Encode(),
		"receipts":            (&ReceiptsPiece{1, 77, 3 << 20, []byte{0xC1, 0xC0}}).Encode(),
	}
}

// recode decodes a payload by its type and encodes the value again.
func recode(t MessageType, b []byte) ([]byte, error) {
	type encoder interface{ Encode() []byte }
	var v encoder
	var err error
	switch t {
	case TypeHandshake:
		v, err = DecodeHandshake(b)
	case TypeGoAway:
		v, err = DecodeGoAway(b)
	case TypeTime:
		v, err = DecodeTime(b)
	case TypeNotice:
		v, err = DecodeNotice(b)
	case TypeRequest:
		v, err = DecodeRequest(b)
	case TypeSyncRequest:
		v, err = DecodeSyncRequest(b)
	case TypeSignedBlock:
		v, err = DecodeSignedBlock(b)
	case TypeBlockHeader:
		v, err = DecodeBlockHeader(b)
	case TypeError:
		v, err = DecodeError(b)
	case TypeSession:
		v, err = DecodeSessionRequest(b)
	case TypeSessionAnswer:
		a, err := DecodeSessionAnswer(b)
		if err != nil {
			return nil, err
		}
		return encodeSessionAnswer(a), nil
	case TypeReceiptsRequest:
		v, err = DecodeReceiptsRequest(b)
	case TypeReceipts:
		v, err = DecodeReceiptsPiece(b)
	case TypeVotes:
		vs, err := DecodeVotes(b)
		return EncodeVotes(vs), err
	case TypePackedTransactions:
		txs, err := DecodePackedTransactions(b)
		return EncodePackedTransactions(txs), err
	}
	if err != nil {
		return nil, err
	}
	return v.Encode(), nil
}

func typeOf(name string) MessageType {
	found, length := MessageType(0), 0
	for t, n := range messageNames {
		if n != "" && strings.HasPrefix(name, n) && len(n) > length {
			found, length = MessageType(t), len(n) //nolint:gosec // small
		}
	}
	if length == 0 {
		panic(name)
	}
	return found
}

func TestGoldenVectors(t *testing.T) {
	have := make(map[string]string)
	for name, b := range samples() {
		have[name] = hex.EncodeToString(b)
	}
	if os.Getenv("BORNODE_UPDATE_GOLDEN") != "" {
		out, err := json.MarshalIndent(have, "", "  ")
		require.NoError(t, err)
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(goldenFile, append(out, '\n'), 0o644))
	}
	raw, err := os.ReadFile(goldenFile)
	require.NoError(t, err)
	want := make(map[string]string)
	require.NoError(t, json.Unmarshal(raw, &want))
	require.Len(t, want, len(have))
	for name, hx := range want {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, hx, have[name], "the encoding has changed: that is a new wire version")
			b, err := hex.DecodeString(hx)
			require.NoError(t, err)
			again, err := recode(typeOf(name), b)
			require.NoError(t, err)
			require.Equal(t, hx, hex.EncodeToString(again))
		})
	}
}

func TestDecodersRefuse(t *testing.T) {
	for name, b := range samples() {
		typ := typeOf(name)
		for what, bad := range map[string][]byte{
			"nothing": nil, "version only": {WireVersion}, "another version": append([]byte{2}, b[1:]...),
			"cut short": b[:len(b)-1], "a byte too many": append(b[:len(b):len(b)], 0),
			"far too long": append(b[:len(b):len(b)], make([]byte, maxBlockEnvelope)...),
		} {
			_, err := recode(typ, bad)
			require.ErrorIs(t, err, ErrMessage, "%s: %s", name, what)
		}
	}
	many := make([]common.Hash, maxIDs+1)
	long := string(make([]byte, maxTextBytes+1))
	for what, v := range map[string]struct {
		t MessageType
		b []byte
	}{
		"too many ids":           {TypeRequest, (&Request{Blocks: IDs{IDs: many}}).Encode()},
		"unknown mode":           {TypeNotice, (&Notice{Blocks: IDs{Mode: 4}}).Encode()},
		"range backwards":        {TypeSyncRequest, (&SyncRequest{Start: 2, End: 1}).Encode()},
		"long node id":           {TypeGoAway, (&GoAway{NodeID: long}).Encode()},
		"too many votes":         {TypeVotes, EncodeVotes(make([]block.Vote, maxVotes+1))},
		"vote of no kind":        {TypeVotes, EncodeVotes(make([]block.Vote, 1))},
		"too many transactions":  {TypePackedTransactions, encodePackedTransactions(slicesOf([]byte{0xC0}, maxTransactionsCount+1))},
		"announced far too big":  {TypeBlockHeader, (&BlockHeader{block.MaxBlockBytes + 1, modelGenesis.SealedHeader}).Encode()},
		"block that is a string": {TypeSignedBlock, (&SignedBlock{Raw: []byte{0x83, 1, 2, 3}}).Encode()},
		"no receipts":            {TypeReceipts, (&ReceiptsPiece{Total: 1}).Encode()},
		"more than all receipts": {TypeReceipts, (&ReceiptsPiece{Total: 1, Bytes: make([]byte, 2)}).Encode()},
		"a piece of receipts":    {TypeReceipts, (&ReceiptsPiece{Total: 8 << 20, Bytes: make([]byte, receiptsPieceBytes+1)}).Encode()},
		"two blocks":             {TypeSignedBlock, (&SignedBlock{Raw: []byte{0xC0, 0xC0}}).Encode()},
	} {
		_, err := recode(v.t, v.b)
		require.ErrorIs(t, err, ErrMessage, what)
	}
}

func slicesOf(b []byte, n int) [][]byte {
	out := make([][]byte, n)
	for i := range out {
		out[i] = b
	}
	return out
}

func TestSignedBlockIsNotCopied(t *testing.T) {
	b := newChain(1, chainShape{size: 100})[1]
	payload := (&SignedBlock{Height: 1, Raw: b.Encode()}).Encode()
	s, err := DecodeSignedBlock(payload)
	require.NoError(t, err)
	require.Same(t, &payload[len(payload)-1], &s.Raw[len(s.Raw)-1])
	h, err := s.Header()
	require.NoError(t, err)
	require.Equal(t, b.Hash(), h.Hash())
}

func TestListHeaderMatchesRLP(t *testing.T) {
	for _, n := range []int{0, 1, 55, 56, 255, 256, 65535, 65536, 1 << 24} {
		items := slicesOf([]byte{0x01}, n)
		want, err := rlp.EncodeToBytes(slicesOfUint(n))
		require.NoError(t, err)
		require.Equal(t, want, listOf(nil, items)[1:], "%d items", n)
		if n > 1<<16 {
			return
		}
	}
}

func slicesOfUint(n int) []uint64 {
	out := make([]uint64, n)
	for i := range out {
		out[i] = 1
	}
	return out
}

// fuzz checks that a decoder never panics and that what it accepts has one encoding only.
func fuzz(f *testing.F, t MessageType) {
	for name, b := range samples() {
		if typeOf(name) == t {
			f.Add(b)
			f.Add(b[:len(b)/2])
		}
	}
	f.Add([]byte{WireVersion, 0xC0})
	f.Fuzz(func(tt *testing.T, b []byte) {
		again, err := recode(t, b)
		if err != nil {
			return
		}
		require.Equal(tt, b, again)
		if t == TypeSignedBlock {
			s, _ := DecodeSignedBlock(b)
			_, _ = s.Header()
			_, _ = block.DecodeBlock(s.Raw, 0)
		}
	})
}

func FuzzHandshake(f *testing.F)          { fuzz(f, TypeHandshake) }
func FuzzGoAway(f *testing.F)             { fuzz(f, TypeGoAway) }
func FuzzTime(f *testing.F)               { fuzz(f, TypeTime) }
func FuzzNotice(f *testing.F)             { fuzz(f, TypeNotice) }
func FuzzRequest(f *testing.F)            { fuzz(f, TypeRequest) }
func FuzzSyncRequest(f *testing.F)        { fuzz(f, TypeSyncRequest) }
func FuzzSignedBlock(f *testing.F)        { fuzz(f, TypeSignedBlock) }
func FuzzPackedTransactions(f *testing.F) { fuzz(f, TypePackedTransactions) }
func FuzzVotes(f *testing.F)              { fuzz(f, TypeVotes) }
func FuzzBlockHeader(f *testing.F)        { fuzz(f, TypeBlockHeader) }
func FuzzError(f *testing.F)              { fuzz(f, TypeError) }
func FuzzReceiptsRequest(f *testing.F)    { fuzz(f, TypeReceiptsRequest) }
func FuzzReceipts(f *testing.F)           { fuzz(f, TypeReceipts) }

// The hash of a transaction that is not decoded is that of the decoded one, of every type, and its bytes are those of the
// message; what is no transaction is found when it is decoded.
func TestSplitPackedTransactions(t *testing.T) {
	key, err := crypto.GenerateKey()
	require.NoError(t, err)
	signer := types.LatestSignerForChainID(big.NewInt(7))
	to := common.Address{1}
	var txs types.Transactions
	for _, inner := range []types.TxData{
		&types.LegacyTx{Gas: 21_000, GasPrice: big.NewInt(1), To: &to},
		&types.AccessListTx{ChainID: big.NewInt(7), Gas: 21_000, GasPrice: big.NewInt(1), To: &to, Data: make([]byte, 300)},
		&types.DynamicFeeTx{ChainID: big.NewInt(7), Gas: 21_000, GasFeeCap: big.NewInt(1), GasTipCap: new(big.Int)},
		&types.SetCodeTx{ChainID: uint256.NewInt(7), Gas: 50_000, AuthList: []types.SetCodeAuthorization{{}}},
	} {
		txs = append(txs, types.MustSignNewTx(key, signer, inner))
	}
	packed, err := splitPackedTransactions(EncodePackedTransactions(txs))
	require.NoError(t, err)
	require.Len(t, packed, len(txs))
	for i := range packed {
		require.Equal(t, txs[i].Hash(), packed[i].hash)
		tx, err := packed[i].decode()
		require.NoError(t, err)
		require.Equal(t, txs[i].Hash(), tx.Hash())
		enc, err := rlp.EncodeToBytes(tx)
		require.NoError(t, err)
		require.Equal(t, enc, packed[i].enc)
	}
	packed, err = splitPackedTransactions(encodePackedTransactions([][]byte{{0x80}, {0x05}, {0xc0}}))
	require.NoError(t, err)
	for i := range packed {
		_, err := packed[i].decode()
		require.ErrorIs(t, err, ErrMessage)
	}
}
