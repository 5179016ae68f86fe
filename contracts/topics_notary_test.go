package contracts

import (
	"fmt"
	"math/big"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/stretchr/testify/require"
)

func (w *topicWorld) checkpoint(id common.Hash) CheckpointInfo {
	w.t.Helper()
	c, err := DecodeCheckpoint(w.readFrom(TopicsAddress, CheckpointCall(id)))
	require.NoError(w.t, err)
	return c
}

func (w *topicWorld) operations(id common.Hash) OperationsInfo {
	w.t.Helper()
	o, err := DecodeOperations(w.readFrom(TopicsAddress, OperationsCall(id)))
	require.NoError(w.t, err)
	return o
}

func TestCommitNumbers(t *testing.T) {
	w := newTopicWorld(t, 2)
	id := w.create(w.owner, "acme.t", 1, 1)
	ops := []Operations{{id, 1, []byte("one")}}
	first, err := CommitCall(Commit{Number: 1, Operations: ops})
	require.NoError(t, err)
	second, err := CommitCall(Commit{Number: 2, Operations: ops})
	require.NoError(t, err)
	a, b := w.brokers[0], w.brokers[1]
	w.no("commits before this one are missing", a, second, nil)
	w.no("counted before", a, bpsTopics().PackCommit(0, nil, ops, nil, nil), nil)
	w.must(a, first, nil)
	require.EqualValues(t, 1, eventsOf[Committed](w)[0].Number)
	w.no("counted before", a, first, nil)
	w.must(b, first, nil) // every broker has numbers of its own
	w.must(a, second, nil)
	require.Equal(t, []uint64{2, 1}, []uint64{w.commits(a), w.commits(b)})
	require.EqualValues(t, 3, w.operations(id).Count)
	w.no(onlyBrokers, w.owner, first, nil)
	require.Zero(t, w.commits(w.owner))
	// Retiring and coming back starts no new count.
	w.must(a, RetireBrokerCall(), nil)
	w.no(onlyBrokers, a, bpsTopics().PackCommit(3, nil, nil, nil, nil), nil)
	data, err := RegisterBrokerCall("h", 1, peerOf(1))
	w.must(a, data, err)
	w.no("counted before", a, second, nil)
	require.EqualValues(t, 2, w.commits(a))
}

// The log of a topic's operations is what Go folds, and events lead back through it.
func TestOperationsLog(t *testing.T) {
	w := newTopicWorld(t, 2)
	id, other := w.create(w.owner, "acme.t", 1, 1), w.create(w.owner, "acme.u", 1, 1)
	var root common.Hash
	var last, count uint64
	for i := range 6 {
		w.height += uint64(i)
		entries := []byte(fmt.Sprintf("entries %d", i))
		n := uint32(i + 1)
		b := w.brokers[i%2]
		w.commit(b, Commit{Operations: []Operations{{other, 1, []byte("x")}, {id, n, entries}, {common.Hash{}, 1, []byte("unknown topic")}}})
		e := eventsOf[Operated](w)[1]
		require.Equal(t, []any{[32]byte(id), b.account, last, [32]byte(root), n}, []any{e.Topic, e.Broker, e.PreviousHeight, e.PreviousRoot, e.Count})
		root = FoldOperations(root, last, entries, n)
		require.Equal(t, [32]byte(root), e.Root)
		last, count = w.height, count+uint64(n)
		require.Equal(t, OperationsInfo{count, root, last}, w.operations(id))
	}
	require.EqualValues(t, 6, w.operations(other).Count)
	require.EqualValues(t, 6, w.operations(common.Hash{}).Count)
	// Twice in one commit: one after the other.
	w.commit(w.brokers[0], Commit{Operations: []Operations{{id, 1, []byte("a")}, {id, 1, []byte("b")}}})
	root = FoldOperations(FoldOperations(root, last, []byte("a"), 1), w.height, []byte("b"), 1)
	require.Equal(t, root, w.operations(id).Root)
	// What is on record of a deleted topic stays, and may be completed.
	before := w.operations(id)
	w.must(w.owner, DeleteTopicCall(id), nil)
	require.Equal(t, before, w.operations(id))
	w.commit(w.brokers[0], Commit{Operations: []Operations{{id, 1, []byte("c")}}})
	require.Equal(t, before.Count+1, w.operations(id).Count)
}

func TestCommitBounds(t *testing.T) {
	w := newTopicWorld(t, 1)
	id := w.create(w.owner, "acme.t", 1, 1)
	b := w.brokers[0]
	refused := func(words string, c Commit) {
		t.Helper()
		c.Number = w.commits(b) + 1
		_, err := CommitCall(c)
		require.Error(t, err)
		w.no(words, b, bpsTopics().PackCommit(c.Number, c.Checkpoints, c.Operations, c.Standings, c.Offsets), nil)
	}
	refused("operations without entries", Commit{Operations: []Operations{{id, 0, []byte("x")}}})
	refused("operations without entries", Commit{Operations: []Operations{{id, 1, nil}}})
	refused("operations without entries", Commit{Operations: []Operations{{id, 3, []byte("xy")}}})
	refused("more than 512 operations", Commit{Operations: []Operations{{id, 513, make([]byte, 513)}}})
	refused("more than 512 operations", Commit{Operations: []Operations{{id, 512, make([]byte, 513)}, {id, 1, []byte{1}}}})
	refused("more than 512 operations", Commit{Operations: []Operations{{id, 1 << 31, make([]byte, 9)}, {id, 1 << 31, make([]byte, 9)}}})
	refused("more than 98304 bytes", Commit{Operations: []Operations{{id, 1, make([]byte, MaxEntriesBytes)}, {id, 1, []byte{1}}}})
	refused("more than 256 checkpoints", Commit{Checkpoints: make([]Checkpoint, MaxCheckpoints+1)})
	refused("more than 128 standings", Commit{Standings: make([]Standing, MaxStandings+1)})
	refused("more than 256 offsets", Commit{Offsets: make([]Offset, MaxOffsets+1)})
	refused("more than 122880 bytes", Commit{Checkpoints: make([]Checkpoint, MaxCheckpoints), Operations: []Operations{{id, 1, make([]byte, MaxEntriesBytes)}}})

	w.no("a topic that never was", b, bpsTopics().PackCommit(1, nil, []Operations{{common.Hash{1}, 1, []byte{1}}}, nil, nil), nil)
	w.commit(b, Commit{Operations: []Operations{{id, 512, make([]byte, MaxEntriesBytes)}}})
	require.EqualValues(t, 512, w.operations(id).Count)
}

// The call data of a commit can be read back from a block.
func TestDecodeCommit(t *testing.T) {
	c := Commit{
		Number:      7,
		Checkpoints: []Checkpoint{{common.Hash{1}, 2, common.Hash{3}, 4}},
		Operations:  []Operations{{common.Hash{5}, 1, []byte("six")}},
		Standings:   []Standing{{common.Hash{6}, common.Address{7}, 8, 9}},
		Offsets:     []Offset{{common.Hash{10}, common.Hash{11}, 12, 13}},
	}
	data, err := CommitCall(c)
	require.NoError(t, err)
	got, err := DecodeCommit(data)
	require.NoError(t, err)
	require.Equal(t, c, got)
	for _, bad := range [][]byte{nil, data[:3], data[:len(data)-1], claimOf(t), append([]byte{1}, data...), append(data, make([]byte, MaxCommitBytes)...)} {
		_, err := DecodeCommit(bad)
		require.ErrorIs(t, err, ErrReturn)
	}
}

func claimOf(t *testing.T) []byte {
	data, err := ClaimCall([]Claim{{}})
	require.NoError(t, err)
	return data
}

// Only a broker's key commits: what a contract passes on would not stand in the transaction.
func TestCommitIsTheTransaction(t *testing.T) {
	w := newTopicWorld(t, 1)
	// A broker whose account is code that passes its call data on to Topics.
	b := w.brokers[0]
	proxy := common.HexToAddress("0x77")
	w.state.SetCode(proxy, passOn(), 0)
	data, err := AddMemberCall("proxy", proxy, RoleBroker)
	_, err = w.ask(admin, data, err)
	require.NoError(t, err)
	register, err := RegisterBrokerCall("h", 1, "proxy")
	require.NoError(t, err)
	_, err = w.call(b.account, proxy, nil, register)
	require.NoError(t, err)
	require.Len(t, eventsOf[BrokerSet](w), 1)
	_, err = w.call(b.account, proxy, nil, bpsTopics().PackCommit(1, nil, nil, nil, nil))
	require.ErrorContains(t, err, "by a transaction of its own")
}

// Nor does one whose account named code of its own, which calls with data that is in no transaction.
func TestCommitIsNoCallOfTheAccountsOwnCode(t *testing.T) {
	w := newTopicWorld(t, 1)
	b := w.brokers[0]
	code := common.HexToAddress("0x77")
	w.state.SetCode(code, passOn(), 0)
	w.state.SetCode(b.account, types.AddressToDelegation(code), 0)
	commit, err := CommitCall(Commit{Number: 1})
	require.NoError(t, err)
	_, err = w.call(b.account, b.account, nil, RetireBrokerCall())
	require.NoError(t, err)
	require.Len(t, eventsOf[BrokerSet](w), 1, "the account's code calls as the account")
	register, err := RegisterBrokerCall("h", 1, peerOf(1))
	w.must(b, register, err)
	_, err = w.call(b.account, b.account, nil, commit)
	require.ErrorContains(t, err, "by a transaction of its own")
	w.state.SetCode(b.account, nil, 0)
	w.must(b, commit, nil)
}

// passOn is code that calls Topics with its call data and reverts with what Topics says.
func passOn() []byte {
	// calldatacopy(0, 0, size); call(gas, Topics, 0, 0, size, 0, 0); copy what it returned; revert if it failed
	code := common.FromHex("365f5f375f5f365f5f73")
	code = append(code, TopicsAddress[:]...)
	return append(code, common.FromHex("5af13d5f5f3e602a573d5ffd5b00")...)
}

func TestCheckpoints(t *testing.T) {
	w := newTopicWorld(t, 3)
	id := w.create(w.owner, "acme.t", 2, 2)
	l := w.topic(id).Leases[0]
	leader, next := w.broker(l.Replicas[0]), w.broker(l.Replicas[1])
	mark := func(b operator, seq, leaves uint64) bool {
		t.Helper()
		w.height++
		root := common.BigToHash(big64(seq*1000 + leaves))
		w.commit(b, Commit{Checkpoints: []Checkpoint{{id, seq, root, leaves}}})
		list := eventsOf[Checkpointed](w)
		if len(list) == 0 {
			return false
		}
		require.Equal(t, []any{[32]byte(id), seq, [32]byte(root), leaves, b.account},
			[]any{list[0].Topic, list[0].Seq, list[0].Root, list[0].Leaves, list[0].Broker})
		require.Equal(t, CheckpointInfo{seq, root, leaves, w.height}, w.checkpoint(id))
		return true
	}
	require.False(t, mark(next, 1, 10), "not the leader's")
	require.False(t, mark(leader, 2, 10), "one is left out")
	require.False(t, mark(leader, 0, 10))
	require.True(t, mark(leader, 1, 10))
	require.False(t, mark(leader, 1, 10), "taken")
	require.True(t, mark(leader, 2, 10))
	require.True(t, mark(leader, 3, 12))
	require.False(t, mark(leader, 4, 11), "fewer leaves")
	require.EqualValues(t, 12, w.checkpoint(id).Leaves)
	// The next leader goes on where the last one stopped, and the old one is told apart.
	w.must(next, bpsTopics().PackClaim([]Claim{{id, 0, 1}}), nil)
	require.False(t, mark(leader, 4, 20))
	require.True(t, mark(next, 4, 20))
	// The last one may come after the topic's deletion; what is on record stays.
	w.must(w.owner, DeleteTopicCall(id), nil)
	require.EqualValues(t, 4, w.checkpoint(id).Seq)
	require.True(t, mark(next, 5, 21))
	again := w.create(w.owner, "acme.t", 1, 1)
	require.Zero(t, w.checkpoint(again))
	w.commit(leader, Commit{Checkpoints: []Checkpoint{{common.Hash{9}, 1, common.Hash{1}, 1}}})
	require.Empty(t, eventsOf[Checkpointed](w), "of no topic")
}

func TestOffsets(t *testing.T) {
	w := newTopicWorld(t, 3)
	id := w.create(w.owner, "acme.t", 2, 1)
	group := GroupID("acme.readers")
	other := GroupID("acme.others")
	at := func(group common.Hash, p uint32) (int64, bool) {
		t.Helper()
		o, known, err := DecodeOffset(w.readFrom(TopicsAddress, OffsetCall(group, id, p)))
		require.NoError(t, err)
		return o, known
	}
	commit := func(b operator, list ...Offset) int {
		w.commit(b, Commit{Offsets: list})
		return len(eventsOf[OffsetCommitted](w))
	}
	for _, b := range w.brokers {
		require.Zero(t, commit(b, Offset{group, id, 0, 5}), "there are no coordinators yet")
	}
	data, err := CreateTopicCall(NewTopic{Name: OffsetsTopic, Partitions: OffsetsPartitions, Replicas: 2})
	own, err := DecodeTopicID(w.must(w.brokers[0], data, err))
	require.NoError(t, err)
	coordinator := w.leader(own, int(GroupPartition(group)))
	for _, b := range w.brokers {
		if b != coordinator {
			require.Zero(t, commit(b, Offset{group, id, 0, 5}), "not the coordinator")
		}
	}
	_, known := at(group, 0)
	require.False(t, known)
	require.Equal(t, 2, commit(coordinator, Offset{group, id, 0, 0}, Offset{group, id, 1, 1<<63 - 1}))
	e := eventsOf[OffsetCommitted](w)[1]
	require.Equal(t, []any{[32]byte(group), [32]byte(id), uint32(1), int64(1<<63 - 1)}, []any{e.Group, e.Topic, e.Partition, e.Offset})
	o, known := at(group, 0)
	require.True(t, known)
	require.Zero(t, o)
	o, _ = at(group, 1)
	require.EqualValues(t, 1<<63-1, o)
	_, known = at(other, 0)
	require.False(t, known)
	require.Equal(t, 1, commit(coordinator, Offset{group, id, 1, 3}), "a group may go back")
	o, _ = at(group, 1)
	require.EqualValues(t, 3, o)
	require.Zero(t, commit(coordinator, Offset{group, id, 2, 3}, Offset{group, common.Hash{1}, 0, 3}, Offset{group, id, 1, -1}))
	o, _ = at(group, 1)
	require.EqualValues(t, 3, o)
	require.Equal(t, 1, commit(coordinator, Offset{group, id, 1, -1}, Offset{group, id, 0, 8}), "what is wrong does not stop the rest")
}

// A full commit must fit a transaction with room to spare, the first of its topics' lives too.
func TestCommitGas(t *testing.T) {
	w := newTopicWorld(t, 1)
	b := w.brokers[0]
	var c Commit
	entry := make([]byte, 190)
	for i := range entry {
		entry[i] = byte(i + 1)
	}
	for i := range 100 {
		id := w.create(w.owner, fmt.Sprintf("acme.t%d", i), 1, 1)
		c.Checkpoints = append(c.Checkpoints, Checkpoint{id, 1, common.Hash{1}, 100})
		if i < 50 {
			n := 10 + i/38 // 512 in all
			o := Operations{Topic: id, Count: uint32(n)}
			for range n {
				o.Entries = append(o.Entries, entry...)
			}
			c.Operations = append(c.Operations, o)
		}
	}
	for i := range 20 {
		c.Standings = append(c.Standings, Standing{TenantID("acme"), common.BigToAddress(big64(uint64(i + 500))), RefusedKinds, 1})
	}
	cost := func() uint64 { // with what a transaction pays for its data
		data, err := CommitCall(c)
		require.NoError(t, err)
		rules := osaka().Rules(new(big.Int), true, w.seconds)
		to := TopicsAddress
		own, err := core.IntrinsicGas(data, nil, nil, b.account, &to, nil, rules)
		require.NoError(t, err)
		floor, err := core.FloorDataGas(rules, b.account, &to, nil, data, nil)
		require.NoError(t, err)
		return max(own+w.gas, floor)
	}
	w.commit(b, c)
	require.Len(t, eventsOf[Operated](w), 50)
	require.Len(t, eventsOf[Checkpointed](w), 100)
	t.Logf("first commit of 512 operations on 50 topics, 100 checkpoints, 20 standings: %d gas", cost())
	require.Less(t, cost(), uint64(maxTxGas)*2/3)
	w.height++
	for i := range c.Checkpoints {
		c.Checkpoints[i].Seq = 2
	}
	w.commit(b, c)
	require.Len(t, eventsOf[Checkpointed](w), 100)
	t.Logf("a later one: %d gas", cost())
	require.Less(t, cost(), uint64(maxTxGas)/3)
}
