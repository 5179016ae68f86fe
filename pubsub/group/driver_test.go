package group

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/bornode/bornode/internal/leaks"
	"github.com/bornode/bornode/internal/pause"
	"github.com/bornode/bornode/pubsub/acl"
	"github.com/bornode/bornode/pubsub/batch"
)

func TestMain(m *testing.M) { leaks.Main(m) }

// memLog is a log that several coordinators share, one after the other.
type memLog struct {
	mu    sync.Mutex
	parts [Partitions]struct {
		raw  []byte
		next int64
	}
	delay   time.Duration
	fail    error // of every append
	unread  int   // replays that fail
	appends int
}

type memPending struct {
	l    *memLog
	base int64
	err  error
}

func (p memPending) Wait(ctx context.Context) (int64, int64, error) {
	t := time.NewTimer(p.l.delay)
	defer t.Stop()
	select {
	case <-t.C:
		return p.base, 0, p.err
	case <-ctx.Done():
		return 0, 0, ctx.Err()
	}
}

func (l *memLog) Append(_ context.Context, partition int32, raw []byte) (Pending, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fail != nil {
		return memPending{l, 0, l.fail}, nil
	}
	p := &l.parts[partition]
	h, _, err := batch.Parse(raw)
	if err != nil {
		return nil, err
	}
	batch.Assign(raw, p.next, 1)
	base := p.next
	p.next += int64(h.Count)
	p.raw = append(p.raw, raw...)
	l.appends++
	return memPending{l, base, nil}, nil
}

func (l *memLog) Replay(_ context.Context, partition int32, f func([]byte) error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.unread > 0 {
		l.unread--
		return errors.New("disk away")
	}
	return f(l.parts[partition].raw)
}

func (l *memLog) Trim(context.Context, int32, int64) error { return nil }

func (l *memLog) set(fail error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fail = fail
}

// rig is what consumers find: the coordinator of the moment.
type rig struct {
	mu   sync.Mutex
	c    *Coordinator
	done map[int32]int64 // partition -> newest acknowledged commit
}

func (g *rig) serve(ctx context.Context, name string, req kmsg.Request) kmsg.Response {
	g.mu.Lock()
	c := g.c
	g.mu.Unlock()
	return c.Serve(ctx, Client{Principal: "User:0x" + name, Host: "10.0.0.1", ID: name}, req)(ctx)
}

// consumer behaves like a client library until ctx ends; then it leaves. It tells what it was assigned last.
type consumer struct {
	name string
	mu   sync.Mutex
	gen  int32
	got  []string
}

func (c *consumer) set(gen int32, got []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gen, c.got = gen, got
}

func (c *consumer) state() (int32, []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.gen, c.got
}

const rigPartitions = 40

func (c *consumer) run(ctx context.Context, g *rig) {
	id := ""
	for ctx.Err() == nil {
		c.set(-1, nil)
		req := kmsg.NewPtrJoinGroupRequest()
		req.Version, req.Group, req.MemberID, req.ProtocolType, req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = 9, testGroup, id, "consumer", 10_000, 15_000
		p := kmsg.NewJoinGroupRequestProtocol()
		p.Name = "range"
		req.Protocols = append(req.Protocols, p)
		joined, _ := g.serve(ctx, c.name, req).(*kmsg.JoinGroupResponse)
		if joined == nil {
			break
		}
		if joined.ErrorCode != 0 {
			if id = joined.MemberID; joined.ErrorCode != kerr.MemberIDRequired.Code {
				id = ""
				pause.For(ctx, 200*time.Millisecond)
			}
			continue
		}
		id = joined.MemberID
		if got, ok := c.sync(ctx, g, id, joined); ok {
			c.set(joined.Generation, got)
			c.work(ctx, g, id, joined.Generation, got)
		}
	}
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Version, req.Group = 5, testGroup
	req.Members = []kmsg.LeaveGroupRequestMember{{MemberID: id}}
	g.serve(context.Background(), c.name, req)
}

func (c *consumer) sync(ctx context.Context, g *rig, id string, joined *kmsg.JoinGroupResponse) ([]string, bool) {
	req := kmsg.NewPtrSyncGroupRequest()
	req.Version, req.Group, req.MemberID, req.Generation = 4, testGroup, id, joined.Generation
	for i, m := range joined.Members {
		var mine []string
		for p := i; p < rigPartitions; p += len(joined.Members) {
			mine = append(mine, fmt.Sprint(p))
		}
		req.GroupAssignment = append(req.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{MemberID: m.MemberID, MemberAssignment: []byte(strings.Join(mine, ","))})
	}
	resp, _ := g.serve(ctx, c.name, req).(*kmsg.SyncGroupResponse)
	if resp == nil || resp.ErrorCode != 0 {
		return nil, false
	}
	return strings.Split(string(resp.MemberAssignment), ","), true
}

func (c *consumer) work(ctx context.Context, g *rig, id string, gen int32, got []string) {
	for i := int64(1); pause.For(ctx, time.Second); i++ {
		req := kmsg.NewPtrHeartbeatRequest()
		req.Version, req.Group, req.MemberID, req.Generation = 4, testGroup, id, gen
		if resp, _ := g.serve(ctx, c.name, req).(*kmsg.HeartbeatResponse); resp == nil || resp.ErrorCode != 0 {
			return
		}
		commit := kmsg.NewPtrOffsetCommitRequest()
		commit.Version, commit.Group, commit.MemberID, commit.Generation = 8, testGroup, id, gen
		t := kmsg.NewOffsetCommitRequestTopic()
		t.Topic = "acme.orders"
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		fmt.Sscan(got[0], &p.Partition)
		p.Offset = time.Now().UnixMilli()
		t.Partitions = append(t.Partitions, p)
		commit.Topics = append(commit.Topics, t)
		resp, _ := g.serve(ctx, c.name, commit).(*kmsg.OffsetCommitResponse)
		if resp != nil && resp.Topics[0].Partitions[0].ErrorCode == 0 {
			g.mu.Lock()
			g.done[p.Partition] = max(g.done[p.Partition], p.Offset)
			g.mu.Unlock()
		}
	}
}

// agreed waits until n consumers are in one generation and share the partitions, each given to one of them.
func agreed(t *testing.T, all []*consumer, n int) {
	t.Helper()
	for range 600 {
		gens, owners, members := map[int32]bool{}, map[string]int{}, 0
		for _, c := range all {
			if gen, got := c.state(); gen > 0 {
				gens[gen] = true
				members++
				for _, p := range got {
					owners[p]++
				}
			}
		}
		once := len(owners) == rigPartitions
		for _, k := range owners {
			once = once && k == 1
		}
		if members == n && len(gens) == 1 && once {
			return
		}
		pause.For(context.Background(), 200*time.Millisecond)
	}
	t.Fatal("the consumers do not agree")
}

func TestTwentyComeAndGoOverTakeOvers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &memLog{delay: 3 * time.Millisecond}
		lead := func(epoch int32) *Coordinator {
			c := New(DefaultConfig(), Deps{Log: log, Logger: zap.NewNop()})
			for p := range int32(Partitions) {
				c.Lead(p, epoch)
			}
			return c
		}
		g := &rig{c: lead(1), done: map[int32]int64{}}
		var wg sync.WaitGroup
		var all []*consumer
		ends := map[*consumer]context.CancelFunc{}
		start := func(i int) {
			ctx, cancel := context.WithCancel(context.Background())
			c := &consumer{name: fmt.Sprintf("c%d", i), gen: -1}
			all, ends[c] = append(all, c), cancel
			wg.Go(func() { c.run(ctx, g); c.set(-1, nil) })
		}
		for i := range 20 {
			start(i)
		}
		agreed(t, all, 20)
		r, ended := rand.New(rand.NewPCG(1, 2)), map[*consumer]bool{}
		for i := range 12 {
			c := all[r.IntN(len(all))]
			ends[c]()
			ended[c] = true
			start(100 + i)
			pause.For(context.Background(), time.Duration(r.IntN(3000))*time.Millisecond)
			if i%4 == 3 { // another broker takes over
				g.mu.Lock()
				old := g.c
				g.c = lead(int32(2 + i))
				g.mu.Unlock()
				old.Close()
			}
		}
		agreed(t, all, len(all)-len(ended))

		// Everything acknowledged is there, after one more take-over too.
		for range 2 {
			fetched := fetchAll(t, g)
			g.mu.Lock()
			require.NotEmpty(t, g.done)
			for p, want := range g.done {
				require.GreaterOrEqual(t, fetched[p], want)
			}
			old := g.c
			g.c = lead(99)
			g.mu.Unlock()
			old.Close()
			pause.For(context.Background(), time.Second)
		}
		for _, end := range ends {
			end()
		}
		wg.Wait()
		g.c.Close()
	})
}

func fetchAll(t *testing.T, g *rig) map[int32]int64 {
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Version = 8
	f := kmsg.NewOffsetFetchRequestGroup()
	f.Group = testGroup
	f.Topics = nil
	req.Groups = append(req.Groups, f)
	resp := g.serve(context.Background(), "x", req).(*kmsg.OffsetFetchResponse)
	require.Zero(t, resp.Groups[0].ErrorCode)
	out := map[int32]int64{}
	for _, topic := range resp.Groups[0].Topics {
		for _, p := range topic.Partitions {
			out[p.Partition] = p.Offset
		}
	}
	return out
}

func TestOffsetsOfTopicsThatWentMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &memLog{delay: time.Millisecond}
		gone := map[string]bool{}
		deps := Deps{Log: log, Logger: zap.NewNop(), Born: func(topic string) (int64, bool) { return 5, !gone[topic] }}
		for round, want := range []int{2, 1, 1} { // the third broker finds them gone in the log
			c := New(DefaultConfig(), deps)
			c.Lead(Partition(testGroup), int32(round)) //nolint:gosec // few
			synctest.Wait()
			g := &rig{c: c}
			if round == 0 {
				for _, topic := range []string{"acme.a", "acme.b"} {
					req := kmsg.NewPtrOffsetCommitRequest()
					req.Version, req.Group = 8, testGroup
					req.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: topic, Partitions: []kmsg.OffsetCommitRequestTopicPartition{{Offset: 5}}}}
					require.Zero(t, g.serve(t.Context(), "x", req).(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode)
				}
			}
			pause.For(t.Context(), time.Second)
			req := kmsg.NewPtrOffsetFetchRequest()
			req.Version, req.Group, req.Topics = 7, testGroup, nil
			require.Len(t, g.serve(t.Context(), "x", req).(*kmsg.OffsetFetchResponse).Topics, want)
			c.Close()
			gone["acme.a"] = round == 0
		}
	})
}

// A topic is deleted and made anew while nobody leads the group: what readers of the old one committed does not count for
// the new one. Offsets that do not say of which topic they are stay.
func TestOffsetsOfAnOlderTopicAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &memLog{delay: time.Millisecond}
		born := int64(5)
		deps := Deps{Log: log, Logger: zap.NewNop(), Born: func(string) (int64, bool) { return born, true }}
		old := committed{offset: 7, epoch: -1, time: 1}
		value := encodeOffset(old, -1)
		value = append([]byte{1}, value[1:len(value)-8]...) // as it was written before topics had a height
		_, err := log.Append(t.Context(), Partition(testGroup), encodeBatch([]Record{{offsetKey(place{testGroup, "acme.a", 3}), value}}, time.Unix(1, 0)))
		require.NoError(t, err)
		for round, want := range []map[int32]int64{{0: 5, 3: 7}, {0: 5, 3: 7}, {3: 7}, {3: 7}} {
			if round == 2 {
				born = 6
			}
			c := New(DefaultConfig(), deps)
			c.Lead(Partition(testGroup), int32(round)) //nolint:gosec // few
			synctest.Wait()
			pause.For(t.Context(), time.Second)
			g := &rig{c: c}
			if round == 0 {
				req := kmsg.NewPtrOffsetCommitRequest()
				req.Version, req.Group = 8, testGroup
				req.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: "acme.a", Partitions: []kmsg.OffsetCommitRequestTopicPartition{{Offset: 5}}}}
				require.Zero(t, g.serve(t.Context(), "x", req).(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode)
			}
			pause.For(t.Context(), time.Second)
			require.Equal(t, want, fetchAll(t, g), "round %d", round)
			c.Close()
		}
	})
}

func TestRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &memLog{delay: time.Millisecond, unread: 2}
		denied := map[string]*kerr.Error{"acme.secret": kerr.TopicAuthorizationFailed, "acme.others": kerr.GroupAuthorizationFailed}
		c := New(DefaultConfig(), Deps{Log: log, Logger: zap.NewNop(), Check: func(_ Client, op, resource uint8, name string) *kerr.Error {
			require.Contains(t, []uint8{acl.Read, acl.Describe, acl.Delete}, op)
			return denied[name]
		}})
		defer c.Close()
		g := &rig{c: c, done: map[int32]int64{}}
		commit := func(group string, topics ...string) []kmsg.OffsetCommitResponseTopic {
			req := kmsg.NewPtrOffsetCommitRequest()
			req.Version, req.Group = 8, group
			for _, name := range topics {
				topic := kmsg.NewOffsetCommitRequestTopic()
				topic.Topic = name
				topic.Partitions = []kmsg.OffsetCommitRequestTopicPartition{{Partition: 1, Offset: 5, LeaderEpoch: -1}}
				req.Topics = append(req.Topics, topic)
			}
			return g.serve(context.Background(), "x", req).(*kmsg.OffsetCommitResponse).Topics
		}
		code := func(l []kmsg.OffsetCommitResponseTopic) int16 { return l[0].Partitions[0].ErrorCode }
		require.Equal(t, kerr.NotCoordinator.Code, code(commit("acme.g", "acme.a")))
		c.Lead(Partition("acme.g"), 1)
		require.Equal(t, kerr.CoordinatorLoadInProgress.Code, code(commit("acme.g", "acme.a")))
		pause.For(context.Background(), 5*time.Second) // two failed reads
		require.Zero(t, code(commit("acme.g", "acme.a")))
		l := commit("acme.g", "acme.secret", "acme.b")
		byName := map[string]int16{l[0].Topic: l[0].Partitions[0].ErrorCode, l[1].Topic: l[1].Partitions[0].ErrorCode}
		require.Equal(t, map[string]int16{"acme.secret": kerr.TopicAuthorizationFailed.Code, "acme.b": 0}, byName)
		require.Equal(t, kerr.GroupAuthorizationFailed.Code, code(commit("acme.others", "acme.a")))

		changes := c.Changes(context.Background(), 10)
		require.ElementsMatch(t, []Change{{"acme.g", "acme.a", 1, 5}, {"acme.g", "acme.b", 1, 5}}, changes)
		require.Empty(t, c.Changes(context.Background(), 10))

		denied["acme.b"] = kerr.TopicAuthorizationFailed
		fetch := kmsg.NewPtrOffsetFetchRequest()
		fetch.Version, fetch.Group = 7, "acme.g"
		fetch.Topics = nil
		got := g.serve(context.Background(), "x", fetch).(*kmsg.OffsetFetchResponse)
		require.Len(t, got.Topics, 1, "what may not be seen is not listed")
		require.Equal(t, int64(5), got.Topics[0].Partitions[0].Offset)
		fetch.Topics = []kmsg.OffsetFetchRequestTopic{{Topic: "acme.b", Partitions: []int32{1}}}
		got = g.serve(context.Background(), "x", fetch).(*kmsg.OffsetFetchResponse)
		require.Equal(t, kerr.TopicAuthorizationFailed.Code, got.Topics[0].Partitions[0].ErrorCode)
		require.Equal(t, int64(-1), got.Topics[0].Partitions[0].Offset)

		for err, want := range map[error]*kerr.Error{
			kerr.NotLeaderForPartition: kerr.NotCoordinator, errors.New("disk full"): kerr.CoordinatorNotAvailable,
		} {
			log.set(err)
			require.Equal(t, want.Code, code(commit("acme.g", "acme.a")))
		}
		log.set(nil)
		log.delay = time.Hour
		require.Equal(t, kerr.CoordinatorNotAvailable.Code, code(commit("acme.g", "acme.a")), "an append that takes too long")

		list := kmsg.NewPtrListGroupsRequest()
		list.Version = 5
		groups := g.serve(context.Background(), "x", list).(*kmsg.ListGroupsResponse).Groups
		require.Len(t, groups, 1)
		require.Equal(t, "Empty", groups[0].GroupState)

		waiting := make(chan int16, 1)
		go func() { waiting <- code(commit("acme.g", "acme.a")) }()
		synctest.Wait()
		c.Resign(Partition("acme.g"))
		require.Equal(t, kerr.NotCoordinator.Code, <-waiting, "what waits when a partition is given up is answered")
		c.TopicGone(context.Background(), "acme.a")
	})
}

// Refusals cost a client its standing: what it did not name, such as the groups and topics of others, is left out in silence.
func TestListingRefusesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var refused []string
		hidden := map[string]bool{"acme.mine": true, "acme.secret": true}
		c := New(DefaultConfig(), Deps{Log: &memLog{}, Logger: zap.NewNop(),
			Check: func(_ Client, _, _ uint8, name string) *kerr.Error {
				if hidden[name] {
					refused = append(refused, name)
					return kerr.TopicAuthorizationFailed
				}
				return nil
			},
			Sees: func(_ Client, _ uint8, name string) bool { return !hidden[name] }})
		defer c.Close()
		g := &rig{c: c, done: map[int32]int64{}}
		c.Lead(Partition("acme.g"), 1)
		synctest.Wait()
		hidden["acme.secret"] = false
		commit := kmsg.NewPtrOffsetCommitRequest()
		commit.Version, commit.Group = 8, "acme.g"
		for _, name := range []string{"acme.secret", "acme.a"} {
			topic := kmsg.NewOffsetCommitRequestTopic()
			topic.Topic, topic.Partitions = name, []kmsg.OffsetCommitRequestTopicPartition{{Partition: 1, Offset: 5, LeaderEpoch: -1}}
			commit.Topics = append(commit.Topics, topic)
		}
		g.serve(context.Background(), "x", commit)
		hidden["acme.secret"], hidden["acme.g"] = true, true
		list := kmsg.NewPtrListGroupsRequest()
		list.Version = 5
		require.Empty(t, g.serve(context.Background(), "x", list).(*kmsg.ListGroupsResponse).Groups)
		hidden["acme.g"] = false
		fetch := kmsg.NewPtrOffsetFetchRequest()
		fetch.Version, fetch.Group, fetch.Topics = 7, "acme.g", nil
		require.Len(t, g.serve(context.Background(), "x", fetch).(*kmsg.OffsetFetchResponse).Topics, 1)
		require.Empty(t, refused)
		hidden["acme.g"] = true
		require.Equal(t, kerr.TopicAuthorizationFailed.Code, g.serve(context.Background(), "x", commit).(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode)
		require.Equal(t, []string{"acme.g"}, refused, "one request is refused once")
	})
}

// What only reads is made when its answer is written, and once for each name: else a client that repeats a name, or takes no
// answers, would fill the broker's memory with a few bytes.
func TestReadingIsAnsweredLateAndOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(DefaultConfig(), Deps{Log: &memLog{}, Logger: zap.NewNop()})
		defer c.Close()
		c.Lead(Partition("acme.g"), 1)
		synctest.Wait()
		ctx, who := context.Background(), Client{Principal: "User:0xx"}
		fetch := kmsg.NewPtrOffsetFetchRequest()
		fetch.Version = 8
		describe := kmsg.NewPtrDescribeGroupsRequest()
		for range 1000 {
			fetch.Groups = append(fetch.Groups, kmsg.OffsetFetchRequestGroup{Group: "acme.g"})
			describe.Groups = append(describe.Groups, "acme.g")
		}
		fetched, described, listed := c.Serve(ctx, who, fetch), c.Serve(ctx, who, describe), c.Serve(ctx, who, kmsg.NewPtrListGroupsRequest())
		synctest.Wait()
		commit := kmsg.NewPtrOffsetCommitRequest()
		commit.Version, commit.Group = 8, "acme.g"
		commit.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: "acme.a", Partitions: []kmsg.OffsetCommitRequestTopicPartition{{Offset: 5}}}}
		c.Serve(ctx, who, commit)(ctx)
		groups := fetched(ctx).(*kmsg.OffsetFetchResponse).Groups
		require.Len(t, groups, 1)
		require.Len(t, groups[0].Topics, 1)
		require.Equal(t, int64(5), groups[0].Topics[0].Partitions[0].Offset)
		require.Len(t, described(ctx).(*kmsg.DescribeGroupsResponse).Groups, 1)
		require.Len(t, listed(ctx).(*kmsg.ListGroupsResponse).Groups, 1)
	})
}
