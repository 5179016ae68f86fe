package evidence

import (
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/stretchr/testify/require"
	"github.com/syndtr/goleveldb/leveldb/util"

	"github.com/bornode/bornode/pubsub/proof"
)

// Two heads of one size that a leader signed are a report, which anybody can judge; nothing else is.
func TestTwoHeadsUnderOneSignatureAreAReport(t *testing.T) {
	c, ns := three(t)
	n := ns[0]
	n.open(t, c, quick)
	defer n.close(t)
	give := func(by *node, partition int32, leaves int64, root byte) {
		heads, err := proof.NewHeads([]proof.Head{{Topic: [32]byte{9}, Partition: 3, Leaves: 1, Next: 1}, {Topic: topicA, Partition: partition, Leaves: leaves, Root: proof.Hash{root}, Next: 2 * leaves}})
		require.NoError(t, err)
		d := heads.Digest(common.Hash{1})
		sig, err := crypto.Sign(d[:], by.key)
		require.NoError(t, err)
		require.NoError(t, n.e.keepSigned(heads, 1, sig, by.account))
	}
	give(ns[1], 0, 5, 1)
	give(ns[1], 0, 5, 1) // the same again
	give(ns[2], 0, 5, 2) // somebody else says otherwise: it does not show who lies
	give(ns[1], 1, 5, 2) // another partition
	give(ns[1], 0, 6, 2)
	require.Empty(t, n.e.Reports())
	give(ns[1], 0, 5, 3)
	give(ns[1], 0, 5, 4)
	files := n.e.Reports()
	require.Len(t, files, 1, "one for a broker and partition")
	require.Len(t, n.e.Alarms(), 1)
	require.Contains(t, n.e.Alarms()[0].Text, ns[1].account.Hex())
	r, err := proof.DecodeReport(files[0])
	require.NoError(t, err)
	g, err := r.Judge(&proof.Trust{Genesis: common.Hash{1}}, common.Address{})
	require.NoError(t, err)
	require.Equal(t, ns[1].account, g.Broker)

	for i := range int64(40) {
		give(ns[2], 2, i+1, 1)
	}
	it := n.e.db.NewIterator(util.BytesPrefix(signedPrefix(ID{topicA, 2})), nil)
	defer it.Release()
	kept := 0
	for it.Next() {
		s, err := proof.DecodeSignedHead(it.Value())
		require.NoError(t, err)
		require.Greater(t, s.Leaves, int64(40-keepSigned))
		kept++
	}
	require.Equal(t, keepSigned, kept)
}
