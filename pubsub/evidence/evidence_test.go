package evidence

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/big"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/bornode/bornode/contracts"
	"github.com/bornode/bornode/internal/leaks"
	"github.com/bornode/bornode/pubsub/batch"
	"github.com/bornode/bornode/pubsub/proof"
)

func TestMain(m *testing.M) {
	leaks.Main(m, goleak.IgnoreTopFunction("github.com/syndtr/goleveldb/leveldb.(*DB).mpoolDrain"))
}

// three brokers keep two partitions: a leads the first, b the second.
func three(t *testing.T) (*fakeChain, []*node) {
	c := newChain(t)
	var ns []*node
	for _, name := range []string{"a", "b", "c"} {
		ns = append(ns, newNode(t, c, name))
	}
	all := []string{"a", "b", "c"}
	c.topics = []Topic{{ID: topicA, Partitions: []Partition{{"a", ns[0].account, all}, {"b", ns[1].account, all}}}}
	return c, ns
}

func TestCheckpointsAgreeAndProve(t *testing.T) {
	c, ns := three(t)
	for _, n := range ns {
		n.start(t, c, quick)
	}
	p0, p1 := ID{topicA, 0}, ID{topicA, 1}
	for round := range 3 {
		produce(p0, 5, ns...)
		produce(p1, 7, ns...)
		want := uint64((round + 1) * 12)
		for _, n := range ns {
			eventually(t, "the checkpoint of all batches agrees on "+n.name, func() bool {
				_, _, _, heads, err := n.e.Checkpoint(topicA)
				return err == nil && uint64(heads[0].Leaves+heads[1].Leaves) == want
			})
			require.Empty(t, n.e.Alarms())
		}
	}
	for _, n := range ns {
		p, err := n.e.Prove(p1, 4, 12, true)
		require.NoError(t, err)
		require.Equal(t, [2]int64{3, 12}, [2]int64{p.Leaves[0].Base, p.Leaves[len(p.Leaves)-1].Next()}, "whole batches around the offsets")
		require.Equal(t, c.marks[topicA].Root, p.Root)
		require.NoError(t, proof.CheckHead(p.Root, p.Partitions, &p.Head, p.HeadPath))
		require.NoError(t, p.Head.CheckLeaves(p.First, p.Leaves, p.Path))
		require.NoError(t, proof.CompareAll(topicA, 1, p.Leaves, p.Batches))
		_, err = n.e.Prove(p1, p.Head.Next, p.Head.Next+1, false)
		require.ErrorIs(t, err, ErrNotProved)
		_, err = n.e.Prove(ID{topicA, 2}, 0, 1, false)
		require.ErrorIs(t, err, ErrNotProved)
	}
	ns[2].log.retain(p1, 5)
	p, err := ns[2].e.Prove(p1, 4, 12, true)
	require.NoError(t, err, "a proof survives retention")
	require.Nil(t, p.Batches)
}

func TestTreesAreMadeAgainFromTheLog(t *testing.T) {
	c, ns := three(t)
	p0 := ID{topicA, 0}
	n := ns[0]
	produce(p0, 2500, n)
	n.start(t, c, quick)
	n.e.Committed(p0)
	eventually(t, "tree", func() bool { h, err := n.e.Head(p0); return err == nil && h.Leaves == 2500 })
	want, err := n.e.Head(p0)
	require.NoError(t, err)
	n.stop()

	n.start(t, c, quick) // as it was
	got, err := n.e.Head(p0)
	require.NoError(t, err)
	require.Equal(t, want, got)
	n.stop()

	require.NoError(t, os.RemoveAll(n.dir)) // all lost
	n.start(t, c, quick)
	n.e.Committed(p0)
	eventually(t, "tree", func() bool { h, err := n.e.Head(p0); return err == nil && h == want })

	// A new replica whose log begins late takes the leaves below from the others.
	late := ns[1]
	late.log.raw[p0] = append([][]byte(nil), n.log.raw[p0]...)
	late.log.retain(p0, 2000)
	late.start(t, c, quick)
	late.e.Committed(p0)
	eventually(t, "tree", func() bool { h, err := late.e.Head(p0); return err == nil && h == want })
}

func op(who byte, code int16, partition int32, first, last int64) proof.Operation {
	o := proof.Operation{Operator: common.Address{who}, Kind: proof.KindRead, Role: proof.RoleConsumer, Code: code, Partition: partition, First: first, Last: last, Count: 1, Start: 1000, End: 1000}
	if code != 0 {
		o.Reason = "not allowed"
	}
	return o
}

// count sums how often each principal's operations were recorded on the chain.
func count(list []proof.Operation) map[string]int {
	out := map[string]int{}
	for _, o := range list {
		out[fmt.Sprintf("%d/%d", o.Operator[0], o.Code)] += int(o.Count)
	}
	return out
}

// The log is told what is in no tree yet: once dropped there, no broker might have it.
func TestWhatIsInNoTreeIsNeeded(t *testing.T) {
	c, ns := three(t)
	p0 := ID{topicA, 0}
	n := ns[0]
	n.open(t, c, quick)
	produce(p0, 2, n)
	require.Zero(t, n.e.Read(p0, 0))
	_, err := n.e.trees.advance(p0, false)
	require.NoError(t, err)
	require.Equal(t, int64(6), n.e.Read(p0, 0))
	require.Equal(t, int64(6), n.e.Read(p0, 6))
	require.Equal(t, int64(math.MaxInt64), n.e.Read(p0, 7), "it is lost already")
	n.close(t)
}

func TestOperationsAreFoldedAndOnTheChain(t *testing.T) {
	c, ns := three(t)
	n := ns[0]
	n.open(t, c, quick)
	for i := range int64(100) {
		n.e.Operated(topicA, [32]byte{}, op(1, 0, 0, i, i))
	}
	n.e.Operated(topicA, tenantA, op(2, 29, 0, -1, -1))
	n.e.Operated(topicA, tenantA, op(3, 29, 0, -1, -1))
	n.e.Operated([32]byte{}, [32]byte{}, op(3, 3, -1, -1, -1))
	require.Len(t, n.e.ops.entries, 4)
	require.NoError(t, n.e.ops.flush())
	require.NoError(t, n.e.out.once(context.Background(), false))
	list := c.operations(topicA)
	require.Len(t, list, 3)
	require.Equal(t, [3]int64{0, 99, 100}, [3]int64{list[0].First, list[0].Last, int64(list[0].Count)})
	require.Len(t, c.operations([32]byte{}), 1)
	require.Equal(t, map[common.Address]int{{2}: 1, {3}: 1}, c.refused, "what counts in no tenant is charged to nobody")
	require.NoError(t, n.e.out.once(context.Background(), false), "nothing to do")
	require.Equal(t, uint64(1), c.commits[n.account])
	n.close(t)
}

// A client that is refused again and again is reported once in a minute for each kind of operation in a tenant.
func TestARefusalIsReportedOnceInAMinute(t *testing.T) {
	c, ns := three(t)
	n := ns[0]
	n.open(t, c, quick)
	at := func(tenant [32]byte, kind proof.Kind, minute int64) {
		o := op(2, 29, 0, -1, -1)
		o.Kind, o.Start, o.End = kind, minute*60_000, minute*60_000+59_999
		n.e.Operated(topicA, tenant, o)
		require.NoError(t, n.e.ops.flush())
		require.NoError(t, n.e.out.once(context.Background(), false))
	}
	reported := func(want int, what string) {
		t.Helper()
		require.Equal(t, want, c.refused[common.Address{2}], what)
	}
	for range 5 {
		at(tenantA, proof.KindRead, 7)
	}
	reported(1, "five refusals in a minute")
	at(tenantA, proof.KindWrite, 7)
	reported(2, "another kind")
	at([32]byte{9}, proof.KindRead, 7)
	reported(3, "another tenant")
	at(tenantA, proof.KindRead, 8)
	at(tenantA, proof.KindRead, 8)
	reported(4, "another minute")
	at(tenantA, proof.Kind(9), 8)
	at(tenantA, proof.Kind(200), 8)
	reported(4, "kinds that are not charged")
	require.Len(t, c.operations(topicA), 11, "all are on record")

	// A commit that is not taken reports it with its second try.
	bad := errors.New("reverted")
	c.fail = func([]byte) error { return bad }
	o := op(2, 29, 0, -1, -1)
	o.Kind, o.Start, o.End = proof.KindRead, 9*60_000, 9*60_000
	n.e.Operated(topicA, tenantA, o)
	require.NoError(t, n.e.ops.flush())
	require.ErrorIs(t, n.e.out.once(context.Background(), false), bad)
	c.fail = nil
	require.NoError(t, n.e.out.once(context.Background(), true))
	reported(5, "once, by the try that was taken")
	n.close(t)
}

// Whatever the moment of a crash, an operation that was queued is on the chain once.
func TestACommitCountsOnceAcrossCrashes(t *testing.T) {
	lost := errors.New("connection lost")
	for name, x := range map[string]struct{ fail, after bool }{"before it arrives": {fail: true}, "after it counted": {after: true}} {
		t.Run(name, func(t *testing.T) {
			c, ns := three(t)
			n := ns[0]
			n.open(t, c, quick)
			n.e.Operated(topicA, [32]byte{}, op(1, 0, 0, 1, 1))
			require.NoError(t, n.e.ops.flush())
			if x.fail {
				c.fail = func([]byte) error { return lost }
			} else {
				c.after = func() error { return lost }
			}
			require.ErrorIs(t, n.e.out.once(context.Background(), false), lost)
			first := append([]byte(nil), n.e.out.sent.Data...)
			n.e.Operated(topicA, [32]byte{}, op(2, 0, 0, 1, 1))
			require.NoError(t, n.e.ops.flush())
			require.NoError(t, n.e.db.Close()) // the crash
			c.fail, c.after = nil, nil

			n.open(t, c, quick)
			require.True(t, bytes.Equal(first, n.e.out.sent.Data), "the same bytes are sent again")
			for range 3 {
				require.NoError(t, n.e.out.once(context.Background(), false))
			}
			require.Equal(t, map[string]int{"1/0": 1, "2/0": 1}, count(c.operations(topicA)))
			_, rest, err := n.e.ops.peek(10)
			require.NoError(t, err)
			require.Empty(t, rest)
			n.e.Operated(topicA, [32]byte{}, op(3, 0, 0, 1, 1))
			require.NoError(t, n.e.ops.flush())
			require.NoError(t, n.e.db.Close())
			n.open(t, c, quick)
			require.NoError(t, n.e.out.once(context.Background(), false))
			require.Equal(t, map[string]int{"1/0": 1, "2/0": 1, "3/0": 1}, count(c.operations(topicA)))
			n.close(t)
		})
	}
}

// Accounts that cost nothing to make cannot use up the room of those that the ledger knows.
func TestStrangersWaitBeforeOthers(t *testing.T) {
	c, ns := three(t)
	n := ns[0]
	n.open(t, c, quick)
	asked := false
	stranger := func() bool { asked = true; return true }
	for i := range maxHeldStrangers - 1 {
		o := op(1, 29, 0, -1, -1)
		o.Operator = common.BigToAddress(big.NewInt(int64(i)))
		n.e.Operated(topicA, [32]byte{}, o)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.NoError(t, n.e.Spare(ctx, stranger))
	require.False(t, asked, "while there is room nobody asks who it is")
	n.e.Operated(topicA, [32]byte{}, op(2, 29, 0, -1, -1))
	require.ErrorIs(t, n.e.Spare(ctx, stranger), context.Canceled)
	require.NoError(t, n.e.Spare(ctx, func() bool { return false }))
	require.NoError(t, n.e.Ready(ctx))
	n.close(t)
}

func TestARefusedCommitKeepsItsOperations(t *testing.T) {
	c, ns := three(t)
	n := ns[0]
	n.open(t, c, quick)
	n.e.out.checkpoint(contracts.Checkpoint{Topic: topicA, Seq: 1, Leaves: 5})
	require.True(t, n.e.Offset(Offset{Group: [32]byte{1}, Topic: topicA}, 7))
	n.e.Operated(topicA, [32]byte{}, op(1, 29, 0, -1, -1))
	require.NoError(t, n.e.ops.flush())
	bad := errors.New("reverted")
	c.fail = func([]byte) error { return bad }
	require.ErrorIs(t, n.e.out.once(context.Background(), false), bad)
	n.e.Operated(topicA, [32]byte{}, op(2, 0, 0, 1, 1)) // came later: must not slip into the second try of the same number
	require.NoError(t, n.e.ops.flush())
	c.fail = nil
	require.NoError(t, n.e.out.once(context.Background(), true))
	require.Equal(t, map[string]int{"1/29": 1}, count(c.operations(topicA)))
	require.NoError(t, n.e.out.once(context.Background(), false))
	require.Equal(t, map[string]int{"1/29": 1, "2/0": 1}, count(c.operations(topicA)))
	require.Zero(t, c.marks[topicA].Seq)
	n.close(t)
}

func TestACommitKeepsItsBounds(t *testing.T) {
	c, ns := three(t)
	n := ns[0]
	n.open(t, c, quick)
	sizes := []int{}
	c.fail = func(data []byte) error { sizes = append(sizes, len(data)); return nil }
	total := 2500
	for i := range total {
		o := op(byte(i), int16(i%2*29), int32(i), -1, -1)
		o.Reason = proof.CutReason(string(bytes.Repeat([]byte("x"), 64)))
		topic := topicA
		if i%7 == 0 {
			topic = [32]byte{byte(i), byte(i >> 8)}
		}
		n.e.Operated(topic, [32]byte{}, o)
	}
	for i := range 500 {
		n.e.out.checkpoint(contracts.Checkpoint{Topic: [32]byte{1, byte(i), byte(i >> 8)}, Seq: 1, Leaves: 1})
	}
	require.NoError(t, n.e.ops.flush())
	for range 40 {
		require.NoError(t, n.e.out.once(context.Background(), false))
	}
	got := 0
	for topic := range c.batches {
		for _, b := range c.batches[topic] {
			require.LessOrEqual(t, int(b.Count), maxCommitOperations)
		}
		got += len(c.operations(topic))
	}
	require.Equal(t, total, got)
	require.Len(t, c.marks, 500)
	for _, s := range sizes {
		require.LessOrEqual(t, s, 120<<10)
	}
	n.close(t)
}

func TestPressureFoldsCoarselyThenHoldsBack(t *testing.T) {
	c, ns := three(t)
	n := ns[0]
	n.open(t, c, quick)
	r := n.e.ops
	for i := range maxQueued + 1 {
		n.e.Operated(topicA, [32]byte{}, op(1, 0, int32(i), 0, 0))
	}
	require.NoError(t, r.flush())
	require.True(t, r.isCoarse())
	for i := range 1000 {
		n.e.Operated(topicA, [32]byte{}, op(1, 0, int32(i), 0, 0))
		n.e.Operated(topicA, [32]byte{}, op(byte(2+i%2), 29, 5, -1, -1))
	}
	require.Len(t, r.entries, 3, "one of what is allowed, one for each refused principal")
	require.Equal(t, uint32(1000), r.entries[0].op.Count)

	require.NoError(t, n.e.Ready(context.Background()))
	r.mu.Lock()
	r.next += maxHeld
	r.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, n.e.Ready(ctx), context.DeadlineExceeded)
	waits := make(chan error, 1)
	go func() { waits <- n.e.Ready(context.Background()) }()
	r.dropped(maxHeld)
	require.NoError(t, <-waits)
	n.close(t)
}

func TestReceiptsAreTheBrokersWord(t *testing.T) {
	c, ns := three(t)
	n := ns[0]
	n.start(t, c, quick)
	p0 := ID{topicA, 0}
	produce(p0, 40, n)
	type answer struct {
		base int64
		b    []byte
	}
	answers := make(chan answer, 40)
	for i := range int64(40) {
		go func() { answers <- answer{i * 3, n.e.Receipt(context.Background(), p0, i*3)} }()
	}
	for range 40 {
		a := <-answers
		require.NotNil(t, a.b)
		r, err := proof.DecodeReceipt(a.b)
		require.NoError(t, err)
		h, _, err := batch.Parse(n.log.raw[p0][a.base/3])
		require.NoError(t, err)
		who, err := r.Signer(common.Hash{1}, &proof.Placed{Topic: topicA, Partition: 0, Leaf: proof.LeafOf(&h, batch.Covered(n.log.raw[p0][a.base/3]))})
		require.NoError(t, err)
		require.Equal(t, n.account, who)
	}
}

// A receipt that is begun with the append is the same word, and needs no log; more at once than the queue holds come too.
func TestReceiptsBeginWithTheAppend(t *testing.T) {
	c, ns := three(t)
	n := ns[0]
	n.start(t, c, quick)
	waits := make([]Signing, maxReceiptQueue+300)
	placed := func(i int) proof.Placed {
		raw := makeBatch(int64(i), 1, 1, "appended now")
		h, _, err := batch.Parse(raw)
		require.NoError(t, err)
		return proof.Placed{Topic: topicA, Partition: 7, Leaf: proof.LeafOf(&h, batch.Covered(raw))}
	}
	for i := range waits {
		waits[i] = n.e.Sign(placed(i))
	}
	for i := range waits {
		b := waits[i](context.Background())
		require.NotNil(t, b)
		if i%500 != 0 {
			continue
		}
		r, err := proof.DecodeReceipt(b)
		require.NoError(t, err)
		p := placed(i)
		who, err := r.Signer(common.Hash{1}, &p)
		require.NoError(t, err)
		require.Equal(t, n.account, who)
	}
}

// A batch that was hashed for its receipt is not hashed again, but only if base and epoch are those of the log.
func TestLeavesOfReceiptsServeTheTree(t *testing.T) {
	h, _, err := batch.Parse(makeBatch(9, 4, 3, "x"))
	require.NoError(t, err)
	raw := makeBatch(9, 4, 3, "x")
	own := proof.LeafOf(&h, batch.Covered(raw))
	known := own
	known.Digest[0]++ // to tell it from one made anew
	other := known
	other.Epoch--
	require.Equal(t, known, leafOf(&h, raw, []proof.Leaf{other, known}))
	require.Equal(t, own, leafOf(&h, raw, []proof.Leaf{other}))

	c, ns := three(t)
	n := ns[0]
	n.start(t, c, quick)
	p0 := ID{topicA, 0}
	produce(p0, 1, n) // opens the tree
	eventually(t, "the tree is there", func() bool { h, err := n.e.Head(p0); return err == nil && h.Leaves == 1 })
	raw = makeBatch(3, 1, 3, "hashed before")
	h, _, err = batch.Parse(raw)
	require.NoError(t, err)
	want := proof.LeafOf(&h, batch.Covered(raw))
	n.e.Sign(proof.Placed{Topic: topicA, Leaf: want})
	tree, err := n.e.trees.get(p0)
	require.NoError(t, err)
	require.Equal(t, []proof.Leaf{want}, tree.takeHints())
	n.log.add(p0, raw)
	n.e.Committed(p0)
	eventually(t, "the tree has it", func() bool { h, err := n.e.Head(p0); return err == nil && h.Leaves == 2 })
	require.Empty(t, tree.takeHints(), "what is in the tree is forgotten")
	l, err := n.e.trees.leaf(p0, 1)
	require.NoError(t, err)
	require.Equal(t, want, l)
}

// With evidence off nothing is made, nobody is told of trees that stand still, and the setting is no accident.
func TestEvidenceThatIsOffMakesNothing(t *testing.T) {
	c, ns := three(t)
	n := ns[0]
	off := quick
	off.Off = "yes"
	require.ErrorContains(t, off.Validate(), "empty")
	off.Off = OffForMeasuring
	n.start(t, c, off)
	p0 := ID{topicA, 0}
	produce(p0, 10, n)
	n.e.Operated(topicA, [32]byte{}, proof.Operation{Kind: proof.KindWrite})
	require.NoError(t, n.e.Final(3, []proof.Checkpointed{{Topic: topicA, Seq: 1}}))
	require.Nil(t, n.e.Receipt(context.Background(), p0, 0))
	require.Nil(t, n.e.Sign(proof.Placed{Topic: topicA})(context.Background()))
	_, err := n.e.Answer(context.Background(), AskHeads, make([]byte, 36))
	require.ErrorIs(t, err, ErrOff)
	require.Zero(t, n.e.ops.held())
	require.Empty(t, n.e.trees.takeDirty())
	require.Empty(t, n.e.watched.tries)
}

// A receipt for what only the leader has does not wait for the others.
func TestReceiptsOfWhatIsNotCommitted(t *testing.T) {
	c, ns := three(t)
	n := ns[0]
	n.start(t, c, quick)
	p0 := ID{topicA, 0}
	n.log.mu.Lock()
	n.log.until = 3
	n.log.mu.Unlock()
	produce(p0, 1, n)
	n.log.add(p0, makeBatch(3, 1, 3, "of the leader alone"))
	b := n.e.Receipt(context.Background(), p0, 3)
	require.NotNil(t, b)
	r, err := proof.DecodeReceipt(b)
	require.NoError(t, err)
	h, _, err := batch.Parse(n.log.raw[p0][1])
	require.NoError(t, err)
	who, err := r.Signer(common.Hash{1}, &proof.Placed{Topic: topicA, Leaf: proof.LeafOf(&h, batch.Covered(n.log.raw[p0][1]))})
	require.NoError(t, err)
	require.Equal(t, n.account, who)
	require.Nil(t, n.e.Receipt(context.Background(), p0, 4), "no batch begins there")
}

// A checkpoint made anew under the number of one that is on its way leaves the heads of both.
func TestHeadsOfACheckpointOnItsWayAreKept(t *testing.T) {
	c, ns := three(t)
	n := ns[0]
	n.log.raw[ID{topicA, 1}] = nil
	produce(ID{topicA, 0}, 2, n)
	n.open(t, c, quick)
	one, _ := c.Topic(topicA)
	one.Partitions = one.Partitions[:1]
	roots := []proof.Hash{}
	for range 2 {
		_, err := n.e.trees.advance(ID{topicA, 0}, false)
		require.NoError(t, err)
		require.NoError(t, n.e.checkpoint(context.Background(), &one, nil))
		roots = append(roots, n.e.out.checkpoints[topicA].Root)
		produce(ID{topicA, 0}, 2, n)
	}
	require.NotEqual(t, roots[0], roots[1])
	for i, root := range roots {
		r, err := n.e.heads(topicA, 1, root)
		require.NoError(t, err)
		require.EqualValues(t, 2*(i+1), r.Heads[0].Leaves)
	}
	n.close(t)
}

func TestAnswersBearForeignBytes(t *testing.T) {
	c, ns := three(t)
	n := ns[0]
	n.open(t, c, quick)
	for kind := range uint8(5) {
		for _, size := range []int{0, 1, 35, 36, 40, 48, 72, 36 * (maxAskHeads + 1)} {
			_, _ = n.e.Answer(context.Background(), kind, bytes.Repeat([]byte{0xff}, size))
		}
	}
	n.close(t)
}

func FuzzDecodeHeads(f *testing.F) {
	f.Add((&headsRecord{Height: 3, Heads: make([]proof.Head, 2)}).encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		if r, err := decodeHeads(b); err == nil {
			require.Equal(t, b, r.encode())
		}
	})
}

func BenchmarkCommittedBatch(b *testing.B) {
	for _, size := range []int{1 << 10, 16 << 10, 128 << 10} {
		b.Run(fmt.Sprintf("%dKiB", size>>10), func(b *testing.B) {
			log := newLog()
			raw := batch.Encode(batch.Header{Count: 1}, bytes.Repeat([]byte{7}, size))
			h, _, _ := batch.Parse(raw)
			db, err := openDatabase(b.TempDir(), zap.NewNop())
			if err != nil {
				b.Fatal(err)
			}
			defer db.Close()
			s := newTrees(db, log, newMetrics(nil))
			tr, err := s.get(ID{topicA, 0})
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			b.ResetTimer()
			var leaves []proof.Leaf
			for i := 0; i < b.N; i++ {
				h.BaseOffset = int64(i)
				leaves = append(leaves, proof.LeafOf(&h, batch.Covered(raw)))
				if len(leaves) == 16 {
					if err := s.add(tr, leaves, false); err != nil {
						b.Fatal(err)
					}
					leaves = leaves[:0]
				}
			}
		})
	}
}

// countingLog counts how often the log is read.
type countingLog struct {
	*memLog
	reads atomic.Int64
}

func (l *countingLog) Batches(id ID, from, upTo int64, f func(h batch.Header, raw []byte) error) error {
	l.reads.Add(1)
	return l.memLog.Batches(id, from, upTo, f)
}

// What is committed within a moment is read, hashed and written together.
func TestLeavesAreMadeInGroups(t *testing.T) {
	c, ns := three(t)
	n := ns[0]
	n.open(t, c, quick) // the database's goroutines do not live in the bubble
	log := &countingLog{memLog: n.log}
	n.e.trees.log = log
	const count = 200
	synctest.Test(t, func(t *testing.T) {
		n.e.trees.kick = make(chan struct{}, 1)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); n.e.work(ctx) }()
		for range count {
			produce(ID{topicA, 0}, 1, n)
			time.Sleep(100 * time.Microsecond)
		}
		time.Sleep(2 * gatherLeaves)
		cancel()
		<-done
	})
	h, err := n.e.Head(ID{topicA, 0})
	require.NoError(t, err)
	require.EqualValues(t, count, h.Leaves)
	require.LessOrEqual(t, log.reads.Load(), int64(count/50), "in 20 ms")
	n.close(t)
}
