package chain

import (
	"testing"

	"github.com/bornode/bornode/block"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/stretchr/testify/require"
)

// A block whose transactions came by gossip before costs no signature.
func TestSendersRecoveredBeforeAreUsed(t *testing.T) {
	gen := newTestGenesis(t, nil)
	a, b := newTestNode(t, gen), newTestNode(t, gen)
	x := a.build(0, a.transfer(0, 100), a.transfer(1, 101), a.transfer(0, 102))
	for _, tx := range copyOf(x).Transactions { // other objects, as in other messages
		_, recovered, err := b.Senders().Sender(tx)
		require.NoError(t, err)
		require.True(t, recovered)
	}
	b.give(x)
	require.Zero(t, b.SenderRecoveries())
	require.EqualValues(t, 3, b.Senders().Recoveries())

	y := a.build(0, a.transfer(0, 103))
	b.give(y)
	require.EqualValues(t, 1, b.SenderRecoveries(), "what was not seen before is recovered")
	require.NoError(t, b.CheckBody(copyOf(y), false))
	require.EqualValues(t, 1, b.SenderRecoveries(), "and once only")
}

// What a block says of its senders is believed neither now nor later, whatever its digest says.
func TestForgedSendersFailWithKnownTransactions(t *testing.T) {
	gen := newTestGenesis(t, nil)
	a, b := newTestNode(t, gen), newTestNode(t, gen)
	x := a.build(0, a.transfer(0, 100), a.transfer(1, 101))
	forged := copyOf(x)
	forged.Senders[0], forged.Senders[1] = forged.Senders[1], forged.Senders[0]
	forged = whole(forged)
	require.ErrorIs(t, b.CheckBody(copyOf(forged), false), ErrInvalidBody, "transactions not seen before")
	for _, tx := range copyOf(x).Transactions {
		_, _, err := b.Senders().Sender(tx)
		require.NoError(t, err)
	}
	require.ErrorIs(t, b.CheckBody(copyOf(forged), false), ErrInvalidBody, "transactions seen before")
	require.NoError(t, b.CheckBody(copyOf(forged), true), "a certificate would vouch for it")
	require.ErrorIs(t, b.CheckBody(copyOf(forged), false), ErrInvalidBody, "what was vouched for is not remembered")
	b.give(x)
}

// A block that was checked as a whole when it was decoded is still checked for what its header and its signatures say.
func TestReceivedBlocksAreChecked(t *testing.T) {
	gen := newTestGenesis(t, nil)
	a, b := newTestNode(t, gen), newTestNode(t, gen)
	x := a.build(0, a.transfer(0, 100), a.transfer(1, 101))
	received := func(x *block.Block) *block.Block {
		y, err := block.DecodeWhole(x.Encode(), 0)
		require.NoError(t, err)
		return y
	}
	require.NoError(t, b.CheckBody(received(x), false))
	forged := copyOf(x)
	forged.Senders[0], forged.Senders[1] = forged.Senders[1], forged.Senders[0]
	require.ErrorIs(t, b.CheckBody(received(whole(forged)), false), ErrInvalidBody)
	swapped := received(x)
	swapped.Senders = []common.Address{swapped.Senders[1], swapped.Senders[0]}
	require.ErrorContains(t, b.CheckBody(swapped, false), "body digest", "other parts have no proof")
	root := whole(copyOf(x))
	root.Header.TxHash = common.Hash{1}
	require.ErrorContains(t, b.CheckBody(received(root), false), "transaction root")
}

// whole makes record and header name the body that b has.
func whole(b *block.Block) *block.Block {
	rec, h := *b.Record, types.CopyHeader(b.Header)
	rec.BodyDigest = block.BodyDigest(b.Transactions, b.Senders)
	h.Extra, h.TxHash = rec.Hash().Bytes(), block.TxRoot(b.Transactions)
	return &block.Block{SealedHeader: &block.SealedHeader{Header: h, Record: &rec, Seal: b.Seal}, Transactions: b.Transactions,
		Senders: append([]common.Address(nil), b.Senders...)}
}
