package proof

import (
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/stretchr/testify/require"
)

func TestADisputeIsBoundToItsCheckpoint(t *testing.T) {
	key, err := crypto.GenerateKey()
	require.NoError(t, err)
	_, leaves := someBatches(3)
	own, _ := treeOf(leaves)
	d := &Dispute{Topic: own.Topic, Seq: 7, Root: Hash{1}, Partition: own.Partition, Offset: 4, Own: own}
	digest := d.Digest(common.Hash{9})
	sig, err := crypto.Sign(digest[:], key)
	require.NoError(t, err)
	copy(d.Signature[:], sig)
	got, err := DecodeDispute(d.Encode())
	require.NoError(t, err)
	require.Equal(t, d, got)
	who, err := got.Signer(common.Hash{9})
	require.NoError(t, err)
	require.Equal(t, crypto.PubkeyToAddress(key.PublicKey), who)
	c := Checkpointed{Topic: own.Topic, Seq: 7, Root: Hash{1}}
	require.True(t, got.Against(&c, own.Partition))
	require.False(t, got.Against(&c, own.Partition+1))
	for _, x := range []Checkpointed{{Topic: own.Topic, Seq: 8, Root: Hash{1}}, {Topic: own.Topic, Seq: 7, Root: Hash{2}}, {Topic: [32]byte{1}, Seq: 7, Root: Hash{1}}} {
		require.False(t, got.Against(&x, own.Partition))
	}
	for i := range disputeBytes { // every byte is signed
		b := d.Encode()
		b[i] ^= 0x10
		if x, err := DecodeDispute(b); err == nil {
			who, err := x.Signer(common.Hash{9})
			require.False(t, err == nil && who == crypto.PubkeyToAddress(key.PublicKey), "byte %d", i)
		}
	}
	withheld := &Dispute{Topic: own.Topic, Seq: 7, Root: Hash{1}, Partition: -1, Offset: -1}
	got, err = DecodeDispute(withheld.Encode())
	require.NoError(t, err)
	require.True(t, got.Against(&c, 5))
	withheld.Own = own
	_, err = DecodeDispute(withheld.Encode())
	require.ErrorIs(t, err, ErrDecode)
	_, err = DecodeDispute(d.Encode()[1:])
	require.ErrorIs(t, err, ErrDecode)
}
