package contracts

import (
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/stretchr/testify/require"
)

// Every event of the contract has a decoder, and no decoder is for another.
func TestEventsAreTheContracts(t *testing.T) {
	byID := eventDecoders()
	for name, e := range TopicsABI().Events {
		require.Contains(t, byID, e.ID, name)
	}
	require.Len(t, byID, len(TopicsABI().Events))
}

func TestEventsOfOthersAreRefused(t *testing.T) {
	w := newTopicWorld(t, 2)
	w.create(w.owner, "acme.t", 1, 1)
	good := w.logs[len(w.logs)-1]
	_, err := DecodeTopicsEvent(good)
	require.NoError(t, err)
	log := func(change func(l *types.Log)) error {
		l := &types.Log{Address: good.Address, Topics: append([]common.Hash{}, good.Topics...), Data: append([]byte{}, good.Data...)}
		change(l)
		_, err := DecodeTopicsEvent(l)
		return err
	}
	require.ErrorIs(t, log(func(l *types.Log) { l.Address = MembersAddress }), ErrReturn)
	require.ErrorIs(t, log(func(l *types.Log) { l.Topics = nil }), ErrReturn)
	require.ErrorIs(t, log(func(l *types.Log) { l.Topics = l.Topics[:1] }), ErrReturn)
	require.ErrorIs(t, log(func(l *types.Log) { l.Data = nil }), ErrReturn)
	require.ErrorIs(t, log(func(l *types.Log) { l.Data = l.Data[:40] }), ErrReturn)
	require.ErrorIs(t, log(func(l *types.Log) { l.Topics[0][0] ^= 1 }), ErrUnknownEvent)
	require.NotErrorIs(t, log(func(l *types.Log) { l.Data = nil }), ErrUnknownEvent)
	// A partition or an epoch that there cannot be.
	require.ErrorIs(t, log(func(l *types.Log) { l.Data[30] = 255 }), ErrReturn)
	require.ErrorIs(t, log(func(l *types.Log) { l.Data[32*2+28] = 0x80 }), ErrReturn)
}

func TestTopicsDecodersRefuse(t *testing.T) {
	for _, b := range [][]byte{nil, make([]byte, 31), []byte(longText(256))} {
		checkViews(t, b)
		_, err := DecodeTopic(b)
		require.ErrorIs(t, err, ErrReturn)
		_, err = DecodeBrokers(b)
		require.ErrorIs(t, err, ErrReturn)
	}
}

// Names that must never change: other programs compute them too.
func TestGoldenNames(t *testing.T) {
	require.Equal(t, "0x0000000000000000000000000000000000000b03", TopicsAddress.Hex())
	require.Equal(t, "0x1d4808b0a596040f45b33d26b00e7e7c8b9ce1ba15317d37ddc6ac1bbded0f96", TopicID("acme.orders", 1).Hex())
	x := Token{Account: common.Address{1}, Issued: 2, Expires: 3, Scope: ScopeAdmin, Nonce: common.Hash{4}}
	require.Equal(t, "0xeb8ab8fe0b537a699d39dccb09b62bf26494930fdc9005d49db8ccd340790c9e", TokenDigest(1, x).Hex())
	require.Equal(t, "0xa1a1d12c86f10914e4ee1f2f58355cf623a5726f5f8ab05253ad44fc2d84e060", FoldOperations(common.Hash{1}, 2, []byte("entries"), 3).Hex())
	require.EqualValues(t, GroupID("acme.readers")[31]%16, GroupPartition(GroupID("acme.readers")))
}
