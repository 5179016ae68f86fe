package proof

import (
	"errors"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/contracts"
	"github.com/bornode/bornode/pubsub/batch"
)

var contract = contracts.TopicsAddress

func checkpointLog(seq uint64, root Hash, leaves int64) *types.Log {
	data := append(root[:], common.BigToHash(common.Big0).Bytes()...)
	data[63] = byte(leaves)
	data = append(data, common.BytesToHash([]byte{0xbb}).Bytes()...)
	return &types.Log{Address: contract, Topics: []common.Hash{checkpointedID, topic, common.BigToHash(common.Big1)}, Data: data}
}

// proved is a world with a checkpoint in block 20, and its bundle for leaves 2 to 5 of 9.
func proved(t *testing.T) (*world, *Bundle) {
	raw, leaves := someBatches(9)
	head, r := treeOf(leaves)
	first := head
	first.Partition = 0
	heads := []Head{first, head}
	root, sum, err := TopicRoot(heads)
	require.NoError(t, err)
	var receipts types.Receipts
	for i := range 130 { // beyond one byte of key
		receipts = append(receipts, &types.Receipt{Type: types.DynamicFeeTxType, Status: 1, CumulativeGasUsed: uint64(i), Logs: []*types.Log{{Address: common.Address{7}}}})
	}
	receipts[128].Logs = append(receipts[128].Logs, checkpointLog(1, root, sum))
	w := newWorld(t)
	w.grow(9)
	w.next = seats(3, 4, 5, 6)
	w.grow(10)
	w.grow(1, receipts...)
	w.grow(12)

	b := &Bundle{Genesis: w.trust.Genesis, Runs: w.collect(20), Height: 20, Partitions: 2, Head: head, First: 2, Leaves: leaves[2:5]}
	ev, err := ProveEvent(w.receipts[20], 128, 1)
	require.NoError(t, err)
	b.Event = *ev
	b.HeadPath, err = ProveHead(heads, 1)
	require.NoError(t, err)
	b.Path, err = ProveRange(2, 5, 9, r)
	require.NoError(t, err)
	for i := 2; i < 5; i++ {
		b.Batches = append(b.Batches, raw[i]...)
	}
	return w, b
}

func copied(t *testing.T, b *Bundle) *Bundle {
	enc, err := b.Encode()
	require.NoError(t, err)
	x, err := DecodeBundle(enc)
	require.NoError(t, err)
	return x
}

func TestBundleProvesOffline(t *testing.T) {
	w, b := proved(t)
	v, err := copied(t, b).Verify(w.trust, contract)
	require.NoError(t, err)
	require.Equal(t, [4]int64{b.Leaves[0].Base, b.Leaves[2].Next(), 3, 1}, [4]int64{v.From, v.To, int64(v.Batches), int64(v.Checkpoint.Seq)})
	require.True(t, v.WithBytes)
	require.Equal(t, w.headers[20].Hash(), v.Block)

	b.Batches = nil // after retention
	v, err = copied(t, b).Verify(w.trust, contract)
	require.NoError(t, err)
	require.False(t, v.WithBytes)
}

func TestTamperedBundlesAreRefused(t *testing.T) {
	w, good := proved(t)
	for name, x := range map[string]struct {
		kind error
		f    func(b *Bundle)
	}{
		"flipped byte":       {ErrFlipped, func(b *Bundle) { b.Batches[len(b.Batches)-1] ^= 1 }},
		"dropped batch":      {ErrDropped, func(b *Bundle) { n, _ := batch.Size(b.Batches); b.Batches = b.Batches[n:] }},
		"last batch dropped": {ErrDropped, func(b *Bundle) { n, _ := batch.Size(b.Batches); b.Batches = b.Batches[:n] }},
		"old epoch":          {ErrOldEpoch, func(b *Bundle) { batch.Assign(b.Batches, b.Leaves[0].Base, 1) }},
		"forged leaf":        {ErrProof, func(b *Bundle) { b.Leaves[1].Digest[0]++ }},
		"leaf of old epoch":  {ErrProof, func(b *Bundle) { b.Leaves[1].Epoch-- }},
		"leaf left out":      {ErrDropped, func(b *Bundle) { b.Leaves = append(b.Leaves[:1], b.Leaves[2:]...) }},
		"leaves exchanged":   {ErrDropped, func(b *Bundle) { b.Leaves[0], b.Leaves[1] = b.Leaves[1], b.Leaves[0] }},
		"other place":        {nil, func(b *Bundle) { b.First++ }},
		"other partition":    {nil, func(b *Bundle) { b.Head.Partition = 0 }},
		"forked head":        {ErrProof, func(b *Bundle) { b.Head.Root[0]++ }},
		"other topic":        {ErrProof, func(b *Bundle) { b.Head.Topic[0]++ }},
		"more partitions":    {nil, func(b *Bundle) { b.Partitions++ }},
		"other event":        {ErrProof, func(b *Bundle) { b.Event.Log = 0 }},
		"no such event":      {ErrProof, func(b *Bundle) { b.Event.Log = 7 }},
		"other receipt":      {ErrProof, func(b *Bundle) { b.Event.Transaction = 127 }},
		"forged receipt":     {ErrProof, func(b *Bundle) { n := b.Event.Nodes; n[len(n)-1][40] ^= 1 }},
		"node left out":      {ErrProof, func(b *Bundle) { b.Event.Nodes = b.Event.Nodes[1:] }},
		"other block":        {nil, func(b *Bundle) { b.Height++ }},
		"block not shown":    {ErrFinality, func(b *Bundle) { b.Height = 999 }},
		"no headers":         {ErrFinality, func(b *Bundle) { b.Runs = nil }},
		"other chain":        {ErrProof, func(b *Bundle) { b.Genesis[0]++ }},
	} {
		b := copied(t, good)
		x.f(b)
		_, err := copied2(b).Verify(w.trust, contract)
		require.Error(t, err, name)
		if x.kind != nil {
			require.ErrorIs(t, err, x.kind, name)
		}
		var tam *Tamper
		if errors.Is(err, ErrFlipped) || errors.Is(err, ErrDropped) || errors.Is(err, ErrOldEpoch) {
			require.ErrorAs(t, err, &tam, name)
			require.Equal(t, int32(1), tam.Partition)
		}
	}
	_, err := good.Verify(w.trust, common.Address{1})
	require.ErrorIs(t, err, ErrProof, "an event of another contract")
}

// copied2 goes through the file where the file can hold it.
func copied2(b *Bundle) *Bundle {
	enc, err := b.Encode()
	if err != nil {
		return b
	}
	if x, err := DecodeBundle(enc); err == nil {
		return x
	}
	return b
}

// What the package reads by itself is what the contract's bindings read.
func TestCheckpointsAreTheContracts(t *testing.T) {
	require.Equal(t, contracts.EventCheckpointed, checkpointedID)
	l := checkpointLog(1, Hash{5}, 77)
	got, err := DecodeCheckpointed(contract, l)
	require.NoError(t, err)
	ev, err := contracts.DecodeTopicsEvent(l)
	require.NoError(t, err)
	want := ev.(*contracts.Checkpointed)
	require.Equal(t, Checkpointed{want.Topic, want.Seq, want.Root, want.Leaves, want.Broker}, got)
}

func TestFailedTransactionsProveNothing(t *testing.T) {
	r := &types.Receipt{Status: 0, Logs: []*types.Log{checkpointLog(1, Hash{}, 0)}}
	ev, err := ProveEvent(types.Receipts{r}, 0, 0)
	require.NoError(t, err)
	w := newWorld(t)
	w.grow(1, r)
	_, err = ev.Verify(w.headers[1].Header.ReceiptHash)
	require.ErrorIs(t, err, ErrProof)
}

func FuzzDecodeBundle(f *testing.F) {
	w, b := proved(&testing.T{})
	enc, err := b.Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(enc)
	f.Add(enc[:len(enc)/2])
	f.Fuzz(func(t *testing.T, in []byte) {
		x, err := DecodeBundle(in)
		if err != nil {
			require.ErrorIs(t, err, ErrDecode)
			return
		}
		again, err := x.Encode()
		require.NoError(t, err)
		y, err := DecodeBundle(again)
		require.NoError(t, err)
		require.Equal(t, again, must(y.Encode()))
		if v, err := x.Verify(w.trust, contract); err == nil {
			require.Equal(t, b.Head, x.Head, "a forged proof was taken: %v", v)
		}
	})
}

func must(b []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return b
}

func FuzzDecodeOperations(f *testing.F) {
	f.Add(EncodeOperations(sampleOperations(3)), 3)
	f.Fuzz(func(t *testing.T, in []byte, n int) {
		list, err := DecodeOperations(in, n)
		if err != nil {
			require.ErrorIs(t, err, ErrDecode)
			return
		}
		require.Len(t, list, n)
		require.Len(t, EncodeOperations(list), len(in))
	})
}

func FuzzDecodeSmall(f *testing.F) {
	_, leaves := someBatches(1)
	head, _ := treeOf(leaves)
	f.Add(leaves[0].Append(nil))
	f.Add(head.Append(nil))
	f.Add((&Receipt{Size: 3, Path: make([]Hash, 2)}).Encode())
	f.Add((&Dispute{Topic: head.Topic, Seq: 1, Partition: head.Partition, Own: head}).Encode())
	f.Fuzz(func(t *testing.T, in []byte) {
		if l, err := DecodeLeaf(in); err == nil {
			require.Equal(t, in[:LeafBytes], l.Append(nil))
		}
		if h, err := DecodeHead(in); err == nil {
			require.Equal(t, in[:HeadBytes], h.Append(nil))
		}
		if r, err := DecodeReceipt(in); err == nil {
			require.Equal(t, in, r.Encode())
			_, _ = r.Signer(common.Hash{}, &Placed{Leaf: leaves[0]})
		}
		if d, err := DecodeDispute(in); err == nil {
			require.Equal(t, in, d.Encode())
			_, _ = d.Signer(common.Hash{})
		}
	})
}
