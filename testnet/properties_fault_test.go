package testnet

import (
	"bytes"
	"context"
	bin "encoding/binary"
	"fmt"
	"hash/crc32"
	"math/big"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/ethclient"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/errgroup"

	"github.com/bornode/bornode/contracts"
	bps "github.com/bornode/bornode/pubsub/client"
	"github.com/bornode/bornode/pubsub/gate"
	"github.com/bornode/bornode/pubsub/token"
)

// What can be told of speed without a clock: requests are judged from memory, operations go to the chain folded and in
// batches, and acknowledgements go on while the chain stands still.
func (p *properties) performance(t *testing.T) {
	const topic, requests = "steady.line", 400
	owner := p.owner("steady")
	id := p.topic(t, p.admin(t, p.open(t, owner)), contracts.NewTopic{Name: topic})
	c := p.kafka(t, owner, token.Data)
	began := time.Now()
	p.burst(t, c, id, topic, 16) // what is asked once is asked
	at, _ := p.leader(t, id, 0)
	leader := p.Nodes[at]
	from := p.final(t, p.eth)
	asked := metric(t, leader, "bornode_topics_ledger_calls_total")
	p.burst(t, c, id, topic, requests)
	took := time.Since(began)
	require.Equal(t, asked, metric(t, leader, "bornode_topics_ledger_calls_total"), "no request has the contract called")

	var entries int
	p.eventually(t, "every request is on record", func() bool {
		times := 0
		times, entries = p.written(t, id, owner.Address)
		return times == 16+requests
	})
	p.settled(t)
	commits := p.commits(t, leader.Account, from)
	t.Logf("%d requests of %s became %d entries in %d transactions", requests+16, took, entries, commits)
	// An entry holds a window's operations. A window may have two, and the bursts may touch one more at each end.
	require.LessOrEqual(t, entries, 2*(2+int(took/propertiesWindow)), "equal operations fold")
	head, err := p.eth.BlockNumber(p.ctx)
	require.NoError(t, err)
	require.LessOrEqual(t, commits, int(head-from), "and go to the chain together") //nolint:gosec // a few blocks
	if took < 10*time.Second {                                                      // slower, the same requests fill more windows and blocks
		require.Less(t, entries, requests/4)
		require.Less(t, commits, requests/10)
	}
	p.standstill(t, id, topic, at, c)
}

// burst has many single requests answered, some at a time.
func (p *properties) burst(t *testing.T, c *kgo.Client, id common.Hash, topic string, requests int) {
	t.Helper()
	code, _ := p.rawProduce(t, c, id, topic, recordBatch("one")) // finds the leader
	require.Zero(t, code)
	_, number := p.leader(t, id, 0)
	var g errgroup.Group
	g.SetLimit(8)
	for i := range requests - 1 {
		g.Go(func() error {
			req := kmsg.NewPtrProduceRequest()
			req.Acks, req.TimeoutMillis = -1, 30_000
			req.Topics = []kmsg.ProduceRequestTopic{{Topic: topic, TopicID: [16]byte(id[:16]),
				Partitions: []kmsg.ProduceRequestTopicPartition{{Records: recordBatch(strconv.Itoa(i))}}}}
			resp, err := req.RequestWith(p.ctx, c.Broker(int(number)))
			if err == nil && resp.Topics[0].Partitions[0].ErrorCode != 0 {
				err = fmt.Errorf("refused with code %d", resp.Topics[0].Partitions[0].ErrorCode)
			}
			return err
		})
	}
	require.NoError(t, g.Wait())
}

// written is how often an account wrote to a topic by its record, and in how many entries of it.
func (p *properties) written(t *testing.T, id common.Hash, who common.Address) (times, entries int) {
	t.Helper()
	list, _ := p.operations(t, id)
	for _, o := range list {
		if o.Operator == who && o.Allowed && o.Operation == "0x4" {
			n, err := strconv.ParseUint(o.Count, 0, 32)
			require.NoError(t, err)
			times, entries = times+int(n), entries+1
		}
	}
	return times, entries
}

// commits is how many transactions of a broker put something on record from a height on.
func (p *properties) commits(t *testing.T, broker common.Address, from uint64) int {
	t.Helper()
	logs, err := p.eth.FilterLogs(p.ctx, ethereum.FilterQuery{FromBlock: new(big.Int).SetUint64(from), Addresses: []common.Address{contracts.TopicsAddress},
		Topics: [][]common.Hash{{contracts.EventCommitted}, {common.BytesToHash(broker[:])}}})
	require.NoError(t, err)
	return len(logs)
}

// standstill stops a majority of the producers, a broker among them: nothing becomes final, and records are acknowledged
// by the majority of replicas and consumed. When the chain goes on, all that was done meanwhile comes on record.
func (p *properties) standstill(t *testing.T, id common.Hash, topic string, leader int, c *kgo.Client) {
	t.Helper()
	stopped := []int{3, 4, (leader + 1) % 3}
	for _, i := range stopped {
		require.NoError(t, p.Kill(p.ctx, i))
	}
	eth, err := ethclient.DialContext(p.ctx, p.Nodes[leader].HTTP)
	require.NoError(t, err)
	defer eth.Close()
	w := p.writer(t, "still", topic, p.owner("steady"))
	w.more(t, 100)
	still := p.stuck(t, eth)
	w.more(t, 200)
	w.stop()
	acked := <-w.acked
	seen := make(map[string]bool)
	reader := p.kafka(t, p.owner("steady"), token.Data, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	for n := 0; n < len(acked); {
		f := reader.PollFetches(p.ctx)
		require.NoError(t, f.Err0())
		f.EachRecord(func(r *kgo.Record) {
			if v := string(r.Value); acked[v] && !seen[v] {
				seen[v] = true
				n++
			}
		})
	}
	require.Equal(t, still, p.final(t, eth), "the chain stood still meanwhile")
	for _, i := range stopped {
		require.NoError(t, p.Restart(p.ctx, i))
	}
	finalAbove(t, p.Network, still+1, 0, 1, 2, 3, 4)
	p.eventually(t, "what was done meanwhile is on record", func() bool {
		times, _ := p.written(t, id, p.owner("steady").Address)
		return times >= 16+400+len(acked)
	})
}

// stuck waits until blocks come and nothing becomes final any more: what was on its way still may. It gives the last that did.
func (p *properties) stuck(t *testing.T, eth *ethclient.Client) (final uint64) {
	t.Helper()
	for {
		final = p.final(t, eth)
		head, err := eth.BlockNumber(p.ctx)
		require.NoError(t, err)
		p.eventually(t, "10 more blocks", func() bool {
			now, err := eth.BlockNumber(p.ctx)
			require.NoError(t, err)
			return now > head+10
		})
		if p.final(t, eth) == final {
			return final
		}
	}
}

// writer has an account write with acks=all until it is stopped.
func (p *properties) writer(t *testing.T, name, topic string, a Account) *writer {
	t.Helper()
	return writeWith(t, p.kafka(t, a, token.Data, kgo.DefaultProduceTopic(topic), kgo.RequiredAcks(kgo.AllISRAcks())), name)
}

// What nobody has the right to change stays as it is: rules of access, committed offsets, checkpoints, and the log on a
// broker's disk, where a changed byte is found before anything is served from it.
func (p *properties) tamperResistance(t *testing.T) {
	const topic = "stubborn.facts"
	owner, stranger := p.owner("stubborn"), p.spare()
	c := p.open(t, owner)
	id := p.topic(t, p.admin(t, c), contracts.NewTopic{Name: topic})
	facts := []string{"fact 0", "fact 1", "fact 2 of the stubborn", "fact 3", "fact 4"}
	p.send(t, c, topic, facts...)

	refused := func(from actor, words string, data []byte, err error) {
		t.Helper()
		require.NoError(t, err)
		_, err = p.transact(p.ctx, p.eth, from, contracts.TopicsAddress, nil, data)
		require.ErrorContains(t, err, words)
	}
	grant, err := contracts.GrantCall("stubborn", []contracts.Acl{rule(contracts.ResourceTopic, topic, stranger.Address, contracts.OperationAll, contracts.PermissionAllow)})
	refused(funded{stranger}, "Topics: only the tenant's owner", grant, err)
	forged := contracts.Commit{Number: 1, Checkpoints: []contracts.Checkpoint{{Topic: id, Seq: 1, Root: [32]byte{1}, Leaves: 1 << 40}},
		Offsets: []contracts.Offset{{Group: contracts.GroupID("stubborn.team"), Topic: id, Offset: 4}}}
	data, err := contracts.CommitCall(forged)
	refused(funded{stranger}, "Topics: only a registered, live broker", data, err)
	refused(funded{stranger}, "Topics: only the topic's or the tenant's owner", contracts.DeleteTopicCall(id), nil)

	// A broker's disk.
	leader, _ := p.leader(t, id, 0)
	victim := (leader + 1) % 3
	p.eventually(t, "every replica has the facts", func() bool { return len(p.filesWith(t, []byte(facts[4]))) == 3 })
	p.offsetStays(t, id, topic, victim)
	x := p.Nodes[victim]
	file, at := p.logWith(t, x, facts[2])
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	b[at] ^= 1
	require.NoError(t, os.WriteFile(file, b, 0o600))
	require.NoError(t, p.startNode(x))
	p.eventually(t, "the changed file is named", func() bool {
		said, err := os.ReadFile(x.LogFile())
		return err == nil && bytes.Contains(said, []byte("a file of the topic store is damaged")) && bytes.Contains(said, []byte(filepath.Base(file)))
	})
	require.Equal(t, facts, p.receive(t, p.open(t, owner, func(c *bps.Config) { c.Node = p.Nodes[leader].HTTP }), topic, len(facts)), "the others have everything")
	p.whole(t) // its copy came again from another replica
}

// offsetStays has a broker that does not coordinate a group, and is dead now, move its offset by its own key.
func (p *properties) offsetStays(t *testing.T, id common.Hash, topic string, victim int) {
	t.Helper()
	group := ""
	k := kadm.NewClient(p.kafka(t, p.owner("stubborn"), token.Data))
	p.eventually(t, "a group that another broker coordinates", func() bool {
		for i := range 64 {
			name := fmt.Sprintf("stubborn.team-%d", i)
			at := k.FindGroupCoordinators(p.ctx, name)[name]
			if at.Err == nil && fmt.Sprintf("%s:%d", at.Host, at.Port) != p.Nodes[victim].Broker {
				group = name
				return true
			}
		}
		return false
	})
	var list kadm.Offsets
	list.AddOffset(topic, 0, 3, -1)
	p.eventually(t, "the offset is committed", func() bool {
		resp, err := k.CommitOffsets(p.ctx, group, list)
		return err == nil && resp.Error() == nil
	})
	onChain := func() (int64, bool) {
		ret, err := read(p.ctx, p.alive(t, victim), contracts.TopicsAddress, contracts.OffsetCall(contracts.GroupID(group), id, 0))
		require.NoError(t, err)
		o, known, err := contracts.DecodeOffset(ret)
		require.NoError(t, err)
		return o, known
	}
	p.eventually(t, "the offset is on the chain", func() bool { _, known := onChain(); return known })
	require.NoError(t, p.Kill(p.ctx, victim))
	p.lie(t, victim, contracts.Commit{Offsets: []contracts.Offset{{Group: contracts.GroupID(group), Topic: id, Offset: 1}}})
	o, _ := onChain()
	require.EqualValues(t, 3, o, "only the coordinator moves it")
}

// alive asks a node that runs while another one does not.
func (p *properties) alive(t *testing.T, dead int) *ethclient.Client {
	t.Helper()
	c, err := ethclient.DialContext(p.ctx, p.Nodes[(dead+1)%3].HTTP)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// lie has whoever holds the key of a broker that is dead put something on record in its name.
func (p *properties) lie(t *testing.T, broker int, c contracts.Commit) {
	t.Helper()
	eth := p.alive(t, broker)
	key, err := p.producer(p.Nodes[broker])
	require.NoError(t, err)
	p.eventually(t, "what it had sent is in a block", func() bool { // else that has the number which comes next
		waiting, err := eth.PendingNonceAt(p.ctx, key.Account())
		require.NoError(t, err)
		next, err := eth.NonceAt(p.ctx, key.Account(), nil)
		require.NoError(t, err)
		return waiting == next
	})
	ret, err := read(p.ctx, eth, contracts.TopicsAddress, contracts.CommitsCall(key.Account()))
	require.NoError(t, err)
	number, err := contracts.DecodeCommits(ret)
	require.NoError(t, err)
	c.Number = number + 1
	data, err := contracts.CommitCall(c)
	require.NoError(t, err)
	_, err = p.transactFinal(p.ctx, eth, key, contracts.TopicsAddress, nil, data)
	require.NoError(t, err, "it is a broker's right to commit")
}

// logWith is the log file of a broker with a text, and where the text stands.
func (p *properties) logWith(t *testing.T, x *Node, text string) (file string, at int) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(x.Dir, "topics", "log", "*.log"))
	require.NoError(t, err)
	for _, f := range files {
		b, err := os.ReadFile(f)
		require.NoError(t, err)
		if at := bytes.Index(b, []byte(text)); at >= 0 {
			return f, at
		}
	}
	require.Fail(t, "the log does not have the record", "%q in %v", text, files)
	return "", 0
}

// whole waits until no broker lacks anything.
func (p *properties) whole(t *testing.T) {
	t.Helper()
	p.eventually(t, "all replicas have everything", func() bool {
		for _, x := range p.Nodes[:3] {
			for _, name := range []string{"under_replicated_partitions", "taking_over_partitions", "stashed_partitions", "stopped_partitions"} {
				if metric(t, x, "bornode_topics_replica_"+name) != 0 {
					return false
				}
			}
		}
		return true
	})
	p.settled(t)
}

// No broker alone can do harm that lasts: when it dies others take over, its key gives it no more than its duties, and
// when it changes its log the others find that and say whose checkpoint it is.
func (p *properties) decentralisedSecurity(t *testing.T) {
	const topic = "spread.ledger"
	owner, victim := p.owner("spread"), p.spare()
	c := p.open(t, owner)
	a := p.admin(t, c)
	id := p.topic(t, a, contracts.NewTopic{Name: topic})
	lines := []string{"line 0", "line 1", "line 2 as it was written", "line 3", "line 4"}
	p.send(t, c, topic, lines...)
	liar, _ := p.leader(t, id, 0)
	foreign := p.topicWithout(t, a, p.Nodes[liar].Account)

	// It dies.
	w := p.writer(t, "line", topic, owner)
	w.more(t, 20)
	require.NoError(t, p.Kill(p.ctx, liar))
	w.more(t, 20)
	w.stop()
	<-w.acked

	// What its key is good for.
	eth := p.alive(t, liar)
	info := func(id common.Hash) contracts.TopicInfo {
		ret, err := read(p.ctx, eth, contracts.TopicsAddress, contracts.TopicCall(id))
		require.NoError(t, err)
		x, err := contracts.DecodeTopic(ret)
		require.NoError(t, err)
		return x
	}
	require.NotEqual(t, p.Nodes[liar].Account, info(id).Leases[0].Leader, "another broker leads")
	mark := func() contracts.CheckpointInfo {
		ret, err := read(p.ctx, eth, contracts.TopicsAddress, contracts.CheckpointCall(id))
		require.NoError(t, err)
		x, err := contracts.DecodeCheckpoint(ret)
		require.NoError(t, err)
		return x
	}
	untrue := [32]byte{0xbad >> 4}
	for range 3 {
		p.lie(t, liar, contracts.Commit{Standings: []contracts.Standing{{Tenant: contracts.TenantID("spread"), Account: victim.Address, Refused: contracts.RefusedKinds}},
			Checkpoints: []contracts.Checkpoint{{Topic: id, Seq: mark().Seq + 1, Root: untrue, Leaves: 1 << 40}}})
	}
	ret, err := read(p.ctx, eth, contracts.TopicsAddress, contracts.ReputationCall(contracts.TenantID("spread"), victim.Address))
	require.NoError(t, err)
	standing, err := contracts.DecodeReputation(ret)
	require.NoError(t, err)
	require.Less(t, standing, uint8(contracts.Reputation))
	require.GreaterOrEqual(t, standing, uint8(contracts.Reputation-contracts.BrokerLowers), "it alone blacklists nobody")
	require.NotEqual(t, common.Hash(untrue), mark().Root, "nor checkpoints what it does not lead")
	key, err := p.producer(p.Nodes[liar])
	require.NoError(t, err)
	before := info(foreign).Leases[0]
	claim, err := contracts.ClaimCall([]contracts.Claim{{Topic: foreign, Epoch: before.Epoch}})
	require.NoError(t, err)
	_, err = p.transactFinal(p.ctx, eth, key, contracts.TopicsAddress, nil, claim)
	require.NoError(t, err)
	require.Equal(t, before, info(foreign).Leases[0], "nor takes a lease that it is no replica of")
	_, err = p.transact(p.ctx, eth, key, contracts.TopicsAddress, nil, contracts.SetReplicasCall(foreign, 0, before.Epoch, append(before.Replicas, key.Account())))
	require.ErrorContains(t, err, "Topics: only the partition's leader")

	p.forkFound(t, id, topic, liar, lines[2])
}

// topicWithout is a topic that a broker keeps no copy of.
func (p *properties) topicWithout(t *testing.T, a *bps.Admin, broker common.Address) common.Hash {
	t.Helper()
	for i := range 3 {
		id := p.topic(t, a, contracts.NewTopic{Name: fmt.Sprintf("spread.pair-%d", i), Replicas: 2})
		lease := p.topicInfo(t, id).Leases[0]
		if lease.Replicas[0] != broker && lease.Replicas[1] != broker {
			return id
		}
	}
	require.Fail(t, "the ledger gives all partitions to one broker")
	return common.Hash{}
}

// forkFound rewrites a record in the log of a dead broker, with all checksums right, and has it lead again: the other
// brokers raise alarms about its next checkpoint, and a consumer that it serves finds the record.
func (p *properties) forkFound(t *testing.T, id common.Hash, topic string, liar int, line string) {
	t.Helper()
	x := p.Nodes[liar]
	file, at := p.logWith(t, x, line)
	rewriteLog(t, file, at, strings.Replace(line, "written", "wished!", 1))
	require.NoError(t, os.RemoveAll(filepath.Join(x.Dir, "topics", "evidence")), "its trees are made anew from the log")
	require.NoError(t, p.Restart(p.ctx, liar))
	p.whole(t)
	key, err := p.producer(x)
	require.NoError(t, err)
	honest := (liar + 1) % 3
	eth := p.alive(t, liar)
	p.eventually(t, "the liar leads", func() bool {
		now := p.topicInfo(t, id).Leases[0]
		if now.Leader == x.Account {
			return true
		}
		claim, err := contracts.ClaimCall([]contracts.Claim{{Topic: id, Epoch: now.Epoch}})
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(p.ctx, startTimeout)
		defer cancel()
		_, _ = p.transact(ctx, eth, key, contracts.TopicsAddress, nil, claim) // its own transactions may be in the way
		return false
	})
	after := p.send(t, p.open(t, p.owner("spread")), topic, "a line after the lie")[0]
	for i := range 3 {
		if i == liar {
			continue
		}
		p.eventually(t, "the other brokers find the fork", func() bool {
			var list []struct {
				Topic  common.Hash `json:"topic"`
				Offset int64       `json:"offset"`
				Text   string      `json:"text"`
			}
			require.NoError(t, p.call(t, i, &list, "bps_alarms"))
			for _, a := range list {
				if a.Topic == id && a.Offset == 2 && strings.Contains(a.Text, x.Account.Hex()) {
					return true
				}
			}
			return false
		})
		require.Positive(t, metric(t, p.Nodes[i], "bornode_topics_evidence_alarms_total"))
	}
	reader, err := p.open(t, p.owner("spread"), func(c *bps.Config) { c.Node, c.Provers, c.Mode = p.Nodes[honest].HTTP, nil, bps.Proved }).
		Consumer(bps.ConsumerConfig{Topics: []string{topic}})
	require.NoError(t, err)
	defer reader.Close()
	var lie *bps.TamperError
	for lie == nil {
		records, err := reader.Records(p.ctx)
		require.NoError(t, p.ctx.Err())
		if err != nil {
			require.ErrorAs(t, err, &lie)
		}
		for _, r := range records {
			require.NotContains(t, string(r.Value), "wished")
		}
	}
	require.Equal(t, gate.Unproved, lie.What)
	require.EqualValues(t, 2, lie.Offset)
	p.disputed(t, topic, liar, honest, after.Offset)
}

// disputed reads what the liar's checkpoint alone binds, with the liar's proofs: a replica that the client knows disputes it.
func (p *properties) disputed(t *testing.T, topic string, liar, honest int, offset int64) {
	t.Helper()
	reader, err := p.open(t, p.owner("spread"), func(c *bps.Config) {
		c.Node, c.Provers, c.Mode = p.Nodes[liar].HTTP, []string{p.Nodes[honest].HTTP}, bps.Proved
	}).Consumer(bps.ConsumerConfig{Partitions: map[string]map[int32]int64{topic: {0: offset}}})
	require.NoError(t, err)
	defer reader.Close()
	var dispute *bps.DisputedError
	for dispute == nil {
		records, err := reader.Records(p.ctx)
		require.NoError(t, p.ctx.Err())
		require.Empty(t, records, "nothing is delivered as proved")
		if err != nil {
			require.ErrorAs(t, err, &dispute)
		}
	}
	require.Equal(t, p.Nodes[honest].Account, dispute.By)
	require.EqualValues(t, 2, dispute.Offset)
}

// rewriteLog puts a text of the same length in the place of another in a broker's log, and makes the checksums of its
// batch and record fit (pubsub/store/record.go).
func rewriteLog(t *testing.T, file string, at int, text string) {
	t.Helper()
	const segment, header, batchHeader = 32, 24, 61
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	salt := bin.BigEndian.Uint32(b[12:])
	pos := segment
	for {
		size := header + int(bin.BigEndian.Uint32(b[pos+4:]))
		if pos <= at && at < pos+size {
			break
		}
		pos += size
		require.Less(t, pos, at)
	}
	copy(b[at:], text)
	payload := b[pos+header : pos+header+int(bin.BigEndian.Uint32(b[pos+4:]))]
	reseal(payload)
	table := crc32.MakeTable(crc32.Castagnoli)
	bin.BigEndian.PutUint32(b[pos:], crc32.Update(crc32.Update(salt, table, b[pos+4:pos+header]), table, payload[:batchHeader]))
	require.NoError(t, os.WriteFile(file, b, 0o600))
}
