package block

import (
	"math/big"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/stretchr/testify/require"
)

// mixedBlock has transactions of every type that a chain takes.
func mixedBlock(t testing.TB) *Block {
	t.Helper()
	b := sampleBlock(t)
	signer := types.LatestSignerForChainID(big.NewInt(7))
	for i, data := range []types.TxData{
		&types.LegacyTx{Nonce: 2, GasPrice: big.NewInt(1), Gas: 50_000, Data: make([]byte, 300)},
		&types.AccessListTx{ChainID: big.NewInt(7), Nonce: 3, GasPrice: big.NewInt(1), Gas: 60_000, To: new(common.Address), AccessList: types.AccessList{{Address: common.Address{1}, StorageKeys: []common.Hash{{2}}}}},
		&types.DynamicFeeTx{ChainID: big.NewInt(7), Nonce: 4, Gas: 70_000, Data: []byte{1}},
	} {
		tx, err := types.SignNewTx(key, signer, data)
		require.NoError(t, err)
		b.Transactions, b.Senders = append(b.Transactions, tx), append(b.Senders, common.Address{byte(i)})
	}
	return rename(b)
}

// rename makes record and header name the parts that b has.
func rename(b *Block) *Block {
	r, h := *b.Record, types.CopyHeader(b.Header)
	r.BodyDigest = BodyDigest(b.Transactions, b.Senders)
	h.Extra = r.Hash().Bytes()
	return &Block{SealedHeader: &SealedHeader{Header: h, Record: &r, Seal: b.Seal}, Transactions: b.Transactions, Senders: b.Senders}
}

func TestDecodeWhole(t *testing.T) {
	empty := sampleBlock(t)
	empty.Transactions, empty.Senders = nil, nil
	for name, b := range map[string]*Block{"mixed": mixedBlock(t), "one": sampleBlock(t), "empty": rename(empty)} {
		raw := b.Encode()
		x, err := DecodeWhole(raw, 0)
		require.NoError(t, err, name)
		require.Equal(t, b.Hash(), x.Hash(), name)
		require.Equal(t, raw, x.Received(), name)
		require.Same(t, &raw[0], &x.Received()[0], "the bytes that came, not a copy")
		require.Equal(t, raw, x.Encode(), "a decoded block has one encoding")
	}
	plain, err := DecodeBlock(mixedBlock(t).Encode(), 0)
	require.NoError(t, err)
	require.Nil(t, plain.Received(), "nobody checked it")
}

// A valid header and record with another body, or a header with another record, is refused.
func TestDecodeWholeRefusesForeignParts(t *testing.T) {
	good := mixedBlock(t)
	forged := func(change func(*Block)) []byte {
		x := &Block{SealedHeader: good.SealedHeader, Transactions: append(types.Transactions(nil), good.Transactions...), Senders: append([]common.Address(nil), good.Senders...)}
		change(x)
		return x.Encode()
	}
	for name, raw := range map[string][]byte{
		"sender":  forged(func(b *Block) { b.Senders[1] = common.Address{9} }),
		"order":   forged(func(b *Block) { b.Transactions[0], b.Transactions[1] = b.Transactions[1], b.Transactions[0] }),
		"fewer":   forged(func(b *Block) { b.Transactions, b.Senders = b.Transactions[:2], b.Senders[:2] }),
		"no body": forged(func(b *Block) { b.Transactions, b.Senders = nil, nil }),
		"other record": forged(func(b *Block) {
			r := *b.Record
			r.Slot++
			b.SealedHeader = &SealedHeader{Header: b.Header, Record: &r, Seal: b.Seal}
		}),
	} {
		_, err := DecodeWhole(raw, 0)
		require.ErrorIs(t, err, ErrDecode, name)
	}
	_, err := DecodeWhole(append(good.Encode(), 0), 0)
	require.ErrorIs(t, err, ErrDecode)
}

// The proof speaks of the parts that were checked, not of others put in their place.
func TestReceivedFollowsTheParts(t *testing.T) {
	decode := func() *Block {
		x, err := DecodeWhole(mixedBlock(t).Encode(), 0)
		require.NoError(t, err)
		return x
	}
	for name, change := range map[string]func(*Block){
		"header":       func(b *Block) { b.SealedHeader = sampleBlock(t).SealedHeader },
		"transactions": func(b *Block) { b.Transactions = append(types.Transactions(nil), b.Transactions...) },
		"fewer":        func(b *Block) { b.Transactions, b.Senders = b.Transactions[:1], b.Senders[:1] },
		"senders":      func(b *Block) { b.Senders = append([]common.Address(nil), b.Senders...) },
		"none":         func(b *Block) { b.Transactions, b.Senders = nil, nil },
	} {
		b := decode()
		require.NotNil(t, b.Received())
		change(b)
		require.Nil(t, b.Received(), name)
	}
}

// Whatever decodes as a block is encoded as it came, and its digest is the same from the bytes and from the values.
func FuzzWhole(f *testing.F) {
	f.Add(mixedBlock(f).Encode())
	f.Add(sampleBlock(f).Encode())
	f.Fuzz(func(t *testing.T, raw []byte) {
		b, err := DecodeBlock(raw, 0)
		if err != nil {
			return
		}
		require.Equal(t, raw, b.Encode())
		d, err := digestOf(raw, b.Senders)
		require.NoError(t, err)
		require.Equal(t, BodyDigest(b.Transactions, b.Senders), d)
	})
}
