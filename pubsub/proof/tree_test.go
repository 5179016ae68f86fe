package proof

import (
	"encoding/json"
	"flag"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/stretchr/testify/require"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/bornode/bornode/pubsub/batch"
)

var topic = [32]byte{1, 2, 3}

// someBatches is a log of consecutive batches under epoch 3.
func someBatches(n int) (raw [][]byte, leaves []Leaf) {
	base := int64(0)
	for i := range n {
		h := batch.Header{BaseOffset: base, LeaderEpoch: 3, LastOffsetDelta: int32(i % 4), Count: int32(i%4 + 1), ProducerID: -1, FirstSequence: -1}
		b := batch.Encode(h, []byte("records "+strings.Repeat("x", i)))
		h, _, err := batch.Parse(b)
		if err != nil {
			panic(err)
		}
		raw, leaves, base = append(raw, b), append(leaves, LeafOf(&h, batch.Covered(b))), h.NextOffset()
	}
	return raw, leaves
}

func treeOf(leaves []Leaf) (Head, tlog.HashReader) {
	hashes := make([]Hash, len(leaves))
	var f Frontier
	for i := range leaves {
		hashes[i] = leaves[i].Hash(topic, 1)
		f.Append(hashes[i])
	}
	return Head{topic, 1, f.Size(), f.Root(), after(leaves)}, memoryHashes(hashes)
}

func TestFrontierAgreesWithTlog(t *testing.T) {
	_, leaves := someBatches(70)
	for n := range len(leaves) + 1 {
		head, r := treeOf(leaves[:n])
		want, err := tlog.TreeHash(int64(n), r)
		require.NoError(t, err)
		if n > 0 {
			require.Equal(t, want, head.Root)
		}
		f, err := LoadFrontier(int64(n), r)
		require.NoError(t, err)
		require.Equal(t, head.Root, f.Root())
	}
}

func TestRangesAreProved(t *testing.T) {
	_, leaves := someBatches(21)
	for n := 1; n <= len(leaves); n++ {
		head, r := treeOf(leaves[:n])
		for a := range n {
			for b := a + 1; b <= n; b++ {
				path, err := ProveRange(int64(a), int64(b), int64(n), r)
				require.NoError(t, err)
				require.NoError(t, head.CheckLeaves(int64(a), leaves[a:b], path))
				if b == a+1 {
					rec, err := tlog.ProveRecord(int64(n), int64(a), r)
					require.NoError(t, err)
					require.ElementsMatch(t, []Hash(rec), path)
				}
				if a > 0 {
					require.Error(t, head.CheckLeaves(int64(a-1), leaves[a:b], path))
				}
				for i := range path {
					path[i][0]++
					require.ErrorIs(t, head.CheckLeaves(int64(a), leaves[a:b], path), ErrProof)
					path[i][0]--
				}
				require.Error(t, head.CheckLeaves(int64(a), leaves[a:b], append(path, Hash{})))
			}
		}
	}
}

func TestHeadsOfOneTopic(t *testing.T) {
	_, leaves := someBatches(9)
	var heads []Head
	for p := range int32(5) {
		h, _ := treeOf(leaves[:p+2])
		h.Partition = p
		heads = append(heads, h)
	}
	root, sum, err := TopicRoot(heads)
	require.NoError(t, err)
	require.Equal(t, int64(2+3+4+5+6), sum)
	for p := range heads {
		path, err := ProveHead(heads, int32(p))
		require.NoError(t, err)
		require.NoError(t, CheckHead(root, 5, &heads[p], path))
		h := heads[p]
		h.Next++
		require.ErrorIs(t, CheckHead(root, 5, &h, path), ErrProof)
	}
	_, _, err = TopicRoot(heads[1:])
	require.ErrorIs(t, err, ErrDecode, "a partition left out")
}

// Each way of tampering with what a broker serves is found, named and placed.
func TestTamperedBatchesAreNamed(t *testing.T) {
	raw, leaves := someBatches(6)
	fixed := func(b []byte, base int64, epoch int32) []byte {
		b = append([]byte(nil), b...)
		batch.Assign(b, base, epoch)
		return b
	}
	join := func(bs ...[]byte) (out []byte) {
		for _, b := range bs {
			out = append(out, b...)
		}
		return out
	}
	flipped := append([]byte(nil), raw[2]...)
	flipped[len(flipped)-1] ^= 1
	resealed := batch.WithRecords(raw[2], []byte("other"), 0)
	length := append([]byte(nil), raw[2]...)
	length[9] = 0xff
	for name, x := range map[string]struct {
		batches []byte
		kind    error
		offset  int64
	}{
		"flipped byte":                 {join(raw[0], raw[1], flipped, raw[3]), ErrFlipped, leaves[2].Base},
		"length changed":               {join(raw[0], raw[1], length), ErrFlipped, leaves[2].Base},
		"changed, checksum made anew":  {join(raw[0], raw[1], resealed, raw[3]), ErrForged, leaves[2].Base},
		"dropped":                      {join(raw[0], raw[1], raw[3], raw[4]), ErrDropped, leaves[2].Base},
		"dropped, offsets closed":      {join(raw[0], raw[1], fixed(raw[3], leaves[2].Base, 3)), ErrReordered, leaves[2].Base},
		"exchanged":                    {join(raw[0], raw[2], raw[1], raw[3]), ErrReordered, leaves[1].Base},
		"exchanged with their offsets": {join(raw[0], fixed(raw[2], leaves[1].Base, 3)), ErrReordered, leaves[1].Base},
		"twice":                        {join(raw[0], raw[1], raw[1]), ErrReordered, leaves[2].Base},
		"forged behind":                {join(join(raw...), fixed(resealed, leaves[5].Next(), 3)), ErrForged, leaves[5].Next()},
		"forged between":               {join(raw[0], fixed(resealed, leaves[1].Base+100, 3)), ErrForged, leaves[1].Base},
		"replayed old epoch":           {join(raw[0], fixed(raw[1], leaves[1].Base, 2)), ErrOldEpoch, leaves[1].Base},
		"other batch of an old epoch":  {join(raw[0], fixed(resealed, leaves[1].Base, 2)), ErrOldEpoch, leaves[1].Base},
		"later epoch":                  {join(raw[0], fixed(raw[1], leaves[1].Base, 4)), ErrForged, leaves[1].Base},
	} {
		err := Compare(topic, 1, leaves, x.batches)
		require.ErrorIs(t, err, x.kind, name)
		var tam *Tamper
		require.ErrorAs(t, err, &tam, name)
		require.Equal(t, [3]any{topic, int32(1), x.offset}, [3]any{tam.Topic, tam.Partition, tam.Offset}, name)
		require.Contains(t, err.Error(), "partition 1, offset ", name)
	}
	require.NoError(t, Compare(topic, 1, leaves, join(raw[:4]...)))
	require.ErrorIs(t, CompareAll(topic, 1, leaves, join(raw[:4]...)), ErrDropped)
	require.NoError(t, CompareAll(topic, 1, leaves, join(raw...)))
}

func TestForkedHeadIsNamed(t *testing.T) {
	_, leaves := someBatches(12)
	old, r := treeOf(leaves[:7])
	now, r2 := treeOf(leaves)
	path, err := tlog.ProveTree(12, 7, r2)
	require.NoError(t, err)
	require.NoError(t, now.CheckConsistent(&old, path))
	require.NoError(t, now.CheckConsistent(&now, nil))

	leaves[4].Digest[0]++ // another history from leaf 4 on
	forked, rf := treeOf(leaves[:7])
	require.ErrorIs(t, forked.CheckConsistent(&old, nil), ErrForked, "two roots for one size")
	require.ErrorIs(t, now.CheckConsistent(&forked, path), ErrForked, "the old head is no prefix")
	require.ErrorIs(t, old.CheckConsistent(&now, nil), ErrForked, "a shrunk tree")
	_, _ = r, rf
}

func TestReceiptsOfAGroup(t *testing.T) {
	key, err := crypto.GenerateKey()
	require.NoError(t, err)
	broker := crypto.PubkeyToAddress(key.PublicKey)
	signed := 0
	sign := func(d common.Hash) ([]byte, error) { signed++; return crypto.Sign(d[:], key) }
	_, leaves := someBatches(5)
	var group []Placed
	for _, l := range leaves {
		group = append(group, Placed{topic, 1, l})
	}
	chain := common.Hash{9}
	receipts, err := SignReceipts(chain, 12345, group, sign)
	require.NoError(t, err)
	require.Equal(t, 1, signed)
	for i := range receipts {
		r, err := DecodeReceipt(receipts[i].Encode())
		require.NoError(t, err)
		who, err := r.Signer(chain, &group[i])
		require.NoError(t, err)
		require.Equal(t, broker, who)
		other := group[i]
		other.Leaf.Digest[5]++
		who, err = r.Signer(chain, &other)
		require.True(t, err != nil || who != broker, "a receipt must not stand for another batch")
		who, err = r.Signer(common.Hash{8}, &group[i])
		require.True(t, err != nil || who != broker, "nor for another chain")
	}

	twin := group[2]
	twin.Leaf.Digest[0]++
	again, err := SignReceipts(chain, 12399, []Placed{twin}, sign)
	require.NoError(t, err)
	who, err := Equivocation(chain, &group[2], &twin, &receipts[2], &again[0])
	require.ErrorIs(t, err, ErrForked)
	require.Equal(t, broker, who)
	who, err = Equivocation(chain, &group[2], &group[3], &receipts[2], &receipts[3])
	require.NoError(t, err)
	require.Zero(t, who)
	twin.Leaf.Epoch++ // a later epoch may give the place anew
	moved, err := SignReceipts(chain, 12399, []Placed{twin}, sign)
	require.NoError(t, err)
	_, err = Equivocation(chain, &group[2], &twin, &receipts[2], &moved[0])
	require.NoError(t, err)
}

func sampleOperations(n int) (out []Operation) {
	for i := range n {
		o := Operation{Operator: common.Address{byte(i + 1)}, Role: RoleConsumer, Kind: KindRead, Partition: int32(i), First: 5, Last: 9,
			Count: 3, Start: 1000, End: 2000, Host: netip.MustParseAddr("10.0.0.1")}
		if i%2 == 1 {
			o.Code, o.Reason, o.Pseudonym, o.Host = 29, "no entry allows it", true, netip.MustParseAddr("fd00::7")
		}
		out = append(out, o)
	}
	return out
}

func TestOperationsFitTheirBounds(t *testing.T) {
	o := sampleOperations(2)[1]
	o.Reason = strings.Repeat("é", 200)
	b := o.Append(nil)
	require.LessOrEqual(t, len(b)-1, 187)
	require.LessOrEqual(t, MaxOperations*(1+MaxOperationBytes), 96<<10)
	list, err := DecodeOperations(b, 1)
	require.NoError(t, err)
	require.Equal(t, strings.Repeat("é", MaxReason/2), list[0].Reason)
}

func TestFoldingNeverMixesPrincipals(t *testing.T) {
	ops := sampleOperations(4)
	for _, coarse := range []bool{false, true} {
		for i := range ops {
			for j := range ops {
				require.Equal(t, i == j, ops[i].Key(coarse) == ops[j].Key(coarse))
			}
		}
	}
	refused := ops[1]
	refused.Partition++
	require.NotEqual(t, ops[1].Key(true), refused.Key(true), "refusals keep their partition")
	far := ops[0]
	far.Partition++
	require.Equal(t, ops[0].Key(true), far.Key(true))

	a, b := ops[0], ops[0]
	b.First, b.Last, b.Count, b.Start, b.End = 10, 30, 2, 500, 2500
	require.True(t, a.Fold(&b))
	require.Equal(t, [5]int64{5, 30, 5, 500, 2500}, [5]int64{a.First, a.Last, int64(a.Count), a.Start, a.End})
	require.True(t, a.Fold(&far))
	require.Equal(t, [3]int64{-1, -1, -1}, [3]int64{int64(a.Partition), a.First, a.Last})
	a.Count = 1<<32 - 2
	require.False(t, a.Fold(&b))
}

func chainOperations() (batches []OperationBatch, states []LogState) {
	states = []LogState{{}}
	for i, h := range []uint64{10, 10, 17, 30} {
		e := EncodeOperations(sampleOperations(i + 1))
		batches = append(batches, OperationBatch{Height: h, Count: uint32(i + 1), Entries: e})
		states = append(states, states[i].Next(h, e, uint32(i+1)))
	}
	return batches, states
}

func TestMissingOperationIsNamed(t *testing.T) {
	batches, states := chainOperations()
	end := states[4]
	list, err := CheckOperations(topic, LogState{}, end, batches)
	require.NoError(t, err)
	require.Len(t, list, 10)
	list, err = CheckOperations(topic, states[2], end, batches[2:])
	require.NoError(t, err)
	require.Len(t, list, 7)

	other := append([]OperationBatch(nil), batches...)
	other[1].Entries = append([]byte(nil), other[1].Entries...)
	other[1].Entries[2]++ // the operator
	for name, b := range map[string][]OperationBatch{
		"first left out": batches[1:], "last left out": batches[:3], "middle left out": {batches[0], batches[2], batches[3]},
		"exchanged": {batches[1], batches[0], batches[2], batches[3]}, "changed": other, "twice": append([]OperationBatch{batches[0]}, batches...),
		"none": nil,
	} {
		_, err := CheckOperations(topic, LogState{}, end, b)
		require.ErrorIs(t, err, ErrOperation, name)
	}
}

var update = flag.Bool("update", false, "write testdata/golden.json anew")

func TestGolden(t *testing.T) {
	raw, leaves := someBatches(3)
	head, r := treeOf(leaves)
	path, err := ProveRange(1, 2, 3, r)
	require.NoError(t, err)
	other := head
	other.Partition = 0
	root, _, err := TopicRoot([]Head{other, head})
	require.NoError(t, err)
	h := leaves[1].Hash(topic, 1)
	heads, err := NewHeads([]Head{other, head})
	require.NoError(t, err)
	got := map[string]any{
		"batch": common.Bytes2Hex(raw[1]), "leaf": common.Bytes2Hex(leaves[1].Append(nil)), "leafHash": common.Bytes2Hex(h[:]),
		"head": common.Bytes2Hex(head.Append(nil)), "topicRoot": common.Bytes2Hex(root[:]), "path": len(path),
		"operations":     common.Bytes2Hex(EncodeOperations(sampleOperations(2))),
		"operationsRoot": LogState{Count: 4, Root: common.Hash{1}, Height: 77}.Next(99, EncodeOperations(sampleOperations(2)), 2).Root.Hex(),
		"receiptDigest":  receiptDigest(common.Hash{9}, root, 2).Hex(), "headsDigest": heads.Digest(common.Hash{9}).Hex(),
		"checkpointed": checkpointedID.Hex(),
	}
	b, err := json.MarshalIndent(got, "", "  ")
	require.NoError(t, err)
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile("testdata/golden.json", append(b, '\n'), 0o644))
	}
	want, err := os.ReadFile("testdata/golden.json")
	require.NoError(t, err)
	require.JSONEq(t, string(want), string(b))
}
