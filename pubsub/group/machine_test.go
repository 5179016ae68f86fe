package group

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// bench is a world with short words for requests.
type bench struct{ *world }

func newBench(t *testing.T, change func(*Config)) *bench {
	cfg := DefaultConfig()
	cfg.InitialDelay = 0
	if change != nil {
		change(&cfg)
	}
	return &bench{newWorld(t, 1, cfg)}
}

// ask sends a request and returns the answer, nil while there is none, in what it points to.
func ask[R kmsg.Response](b *bench, req kmsg.Request) *R {
	var out R
	got := &out
	b.send(Client{Principal: "User:0x", Host: "10.0.0.1", ID: "c"}, req, func(r kmsg.Response) { *got = r.(R) })
	return got
}

func (b *bench) flush() {
	for len(b.appends) > 0 {
		b.settle()
	}
}

func (b *bench) join(id, instance string, protocols ...string) **kmsg.JoinGroupResponse {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Version, req.Group, req.MemberID, req.ProtocolType, req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = 9, testGroup, id, "consumer", 10_000, 20_000
	if instance != "" {
		req.InstanceID = &instance
	}
	for _, p := range protocols {
		q := kmsg.NewJoinGroupRequestProtocol()
		q.Name = p
		req.Protocols = append(req.Protocols, q)
	}
	return ask[*kmsg.JoinGroupResponse](b, req)
}

// enter joins as a new dynamic member, with the id it was given.
func (b *bench) enter(protocols ...string) (string, **kmsg.JoinGroupResponse) {
	r := *b.join("", "", protocols...)
	require.Equal(b.t, kerr.MemberIDRequired.Code, r.ErrorCode)
	require.NotEmpty(b.t, r.MemberID)
	return r.MemberID, b.join(r.MemberID, "", protocols...)
}

func (b *bench) sync(id, instance string, gen int32, assign ...string) **kmsg.SyncGroupResponse {
	req := kmsg.NewPtrSyncGroupRequest()
	req.Version, req.Group, req.MemberID, req.Generation = 4, testGroup, id, gen
	if instance != "" {
		req.InstanceID = &instance
	}
	for _, a := range assign {
		req.GroupAssignment = append(req.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{MemberID: a, MemberAssignment: []byte("for " + a)})
	}
	r := ask[*kmsg.SyncGroupResponse](b, req)
	b.flush()
	return r
}

func (b *bench) beat(id, instance string, gen int32) int16 {
	req := kmsg.NewPtrHeartbeatRequest()
	req.Version, req.Group, req.MemberID, req.Generation = 4, testGroup, id, gen
	if instance != "" {
		req.InstanceID = &instance
	}
	return (*ask[*kmsg.HeartbeatResponse](b, req)).ErrorCode
}

func (b *bench) commit(id string, gen int32, topic string, partition int32, offset int64, metadata string) **kmsg.OffsetCommitResponse {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Version, req.Group, req.MemberID, req.Generation = 8, testGroup, id, gen
	t := kmsg.NewOffsetCommitRequestTopic()
	t.Topic = topic
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	p.Partition, p.Offset, p.Metadata = partition, offset, &metadata
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return ask[*kmsg.OffsetCommitResponse](b, req)
}

func committedCode(r **kmsg.OffsetCommitResponse) int16 {
	return (*r).Topics[0].Partitions[0].ErrorCode
}

func (b *bench) offset(topic string, partition int32) int64 {
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Version, req.Group = 7, testGroup
	req.Topics = []kmsg.OffsetFetchRequestTopic{{Topic: topic, Partitions: []int32{partition}}}
	return (*ask[*kmsg.OffsetFetchResponse](b, req)).Topics[0].Partitions[0].Offset
}

// stable makes a group of one, settled.
func (b *bench) stable() (id string, gen int32) {
	id, r := b.enter("range")
	b.pass(0)
	require.NotNil(b.t, *r)
	gen = (*r).Generation
	require.Zero(b.t, (*b.sync(id, "", gen, id)).ErrorCode)
	return id, gen
}

func TestJoinIsRefusedWithItsReason(t *testing.T) {
	b := newBench(t, func(c *Config) { c.Members, c.Groups = 1, 1 })
	join := func(change func(*kmsg.JoinGroupRequest)) int16 {
		req := kmsg.NewPtrJoinGroupRequest()
		req.Version, req.Group, req.ProtocolType, req.SessionTimeoutMillis = 5, testGroup, "consumer", 10_000
		req.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range"}}
		change(req)
		return (*ask[*kmsg.JoinGroupResponse](b, req)).ErrorCode
	}
	empty := ""
	for want, change := range map[*kerr.Error]func(*kmsg.JoinGroupRequest){
		kerr.InvalidGroupID:            func(r *kmsg.JoinGroupRequest) { r.Group = "" },
		kerr.InvalidSessionTimeout:     func(r *kmsg.JoinGroupRequest) { r.SessionTimeoutMillis = 1 },
		kerr.InvalidRequest:            func(r *kmsg.JoinGroupRequest) { r.InstanceID = &empty },
		kerr.InconsistentGroupProtocol: func(r *kmsg.JoinGroupRequest) { r.Protocols = nil },
		kerr.UnknownMemberID:           func(r *kmsg.JoinGroupRequest) { r.MemberID = "nobody" },
		kerr.MessageTooLarge:           func(r *kmsg.JoinGroupRequest) { r.Protocols[0].Metadata = make([]byte, maxMemberMetadata) },
	} {
		require.Equal(t, want.Code, join(change), want.Message)
	}
	b.stable()
	require.Equal(t, kerr.GroupMaxSizeReached.Code, join(func(*kmsg.JoinGroupRequest) {}), "one member is allowed")
	require.Equal(t, kerr.GroupMaxSizeReached.Code, join(func(r *kmsg.JoinGroupRequest) { r.Group = "acme.other" }), "one group is allowed")
	require.Equal(t, kerr.InconsistentGroupProtocol.Code, join(func(r *kmsg.JoinGroupRequest) { r.Group = "beta.g"; r.Protocols = nil }))
}

func TestProtocolOfAll(t *testing.T) {
	b := newBench(t, nil)
	x, first := b.enter("sticky", "range", "old")
	require.NotNil(t, *first)
	_, second := b.enter("range", "sticky")
	require.Equal(t, kerr.RebalanceInProgress.Code, b.beat(x, "", 1))
	require.Equal(t, kerr.InconsistentGroupProtocol.Code, (*b.join("", "", "other")).ErrorCode)
	b.join(x, "", "sticky", "range")
	require.Equal(t, "range", *(*second).Protocol, "of two with one vote each the first by name")
	require.Equal(t, int32(2), (*second).Generation)
	require.Empty(t, (*second).Members, "the leader alone learns of the members")
}

// What a member said is kept without the request that it came in, which may be far larger.
func TestMembersKeepNothingOfTheirRequests(t *testing.T) {
	b := newBench(t, nil)
	frame := []byte("subscription, assignment")
	id, _ := b.enter("range")
	join := kmsg.NewPtrJoinGroupRequest()
	join.Version, join.Group, join.MemberID, join.ProtocolType, join.SessionTimeoutMillis = 9, testGroup, id, "consumer", 10_000
	join.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: frame[:12]}}
	joined := *ask[*kmsg.JoinGroupResponse](b, join)
	require.Zero(t, joined.ErrorCode)
	sync := kmsg.NewPtrSyncGroupRequest()
	sync.Version, sync.Group, sync.MemberID, sync.Generation = 4, testGroup, id, joined.Generation
	sync.GroupAssignment = []kmsg.SyncGroupRequestGroupAssignment{{MemberID: id, MemberAssignment: frame[14:]}}
	synced := ask[*kmsg.SyncGroupResponse](b, sync)
	b.flush()
	require.Equal(t, "assignment", string((*synced).MemberAssignment))
	clear(frame)
	describe := kmsg.NewPtrDescribeGroupsRequest()
	describe.Groups = []string{testGroup}
	member := (*ask[*kmsg.DescribeGroupsResponse](b, describe)).Groups[0].Members[0]
	require.Equal(t, "subscription", string(member.ProtocolMetadata))
	require.Equal(t, "assignment", string(member.MemberAssignment))
}

func TestTimesOfAMember(t *testing.T) {
	b := newBench(t, nil)
	a, gen := b.stable()
	c, joined := b.enter("range")
	require.Equal(t, kerr.RebalanceInProgress.Code, b.beat(a, "", gen))
	b.pass(9 * time.Second)
	require.Nil(t, *joined, "it waits for the other one")
	require.Equal(t, kerr.RebalanceInProgress.Code, b.beat(a, "", gen))
	b.pass(9 * time.Second)
	require.Equal(t, kerr.RebalanceInProgress.Code, b.beat(a, "", gen))
	b.pass(3 * time.Second)
	require.NotNil(t, *joined, "20 s after the rebalance began the other one is let go")
	require.Equal(t, c, (*joined).LeaderID)
	require.Equal(t, kerr.UnknownMemberID.Code, b.beat(a, "", gen))

	// Who does not bring the assignment in time is let go too, and so is who falls silent.
	require.Zero(t, b.beat(c, "", gen+1))
	for range 6 {
		b.pass(4 * time.Second)
		b.beat(c, "", gen+1)
	}
	require.Equal(t, kerr.UnknownMemberID.Code, b.beat(c, "", gen+1))
	a, gen = b.stable()
	b.pass(9 * time.Second)
	require.Zero(t, b.beat(a, "", gen))
	b.pass(11 * time.Second)
	require.Equal(t, kerr.UnknownMemberID.Code, b.beat(a, "", gen))
	require.Equal(t, stateEmpty, b.m.groups[testGroup].state)
}

func TestFirstRebalanceWaitsForMore(t *testing.T) {
	b := newBench(t, func(c *Config) { c.InitialDelay = 3 * time.Second })
	_, first := b.enter("range")
	b.pass(2 * time.Second)
	_, second := b.enter("range")
	b.pass(2 * time.Second)
	require.Nil(t, *first, "a further member makes it wait once more")
	b.pass(2 * time.Second)
	require.NotNil(t, *first)
	require.Equal(t, (*first).Generation, (*second).Generation)
	require.Len(t, (*first).Members, 2)
}

func TestStaticMembersKeepTheirPlace(t *testing.T) {
	b := newBench(t, nil)
	first := *b.join("", "one", "range")
	require.Zero(t, first.ErrorCode)
	old, gen := first.MemberID, first.Generation
	require.Zero(t, (*b.sync(old, "one", gen, old)).ErrorCode)

	b.pass(5 * time.Second)
	again := b.join("", "one", "range") // started again
	require.Nil(t, *again, "the new id goes to the log first")
	b.flush()
	require.Equal(t, gen, (*again).Generation, "no rebalance")
	require.True(t, (*again).SkipAssignment)
	id := (*again).MemberID
	require.NotEqual(t, old, id)
	require.Equal(t, "for "+old, string((*b.sync(id, "one", gen)).MemberAssignment))
	require.Equal(t, kerr.FencedInstanceID.Code, b.beat(old, "one", gen))
	require.Equal(t, kerr.FencedInstanceID.Code, (*b.sync(old, "one", gen)).ErrorCode)
	require.Equal(t, kerr.FencedInstanceID.Code, (*b.join(old, "one", "range")).ErrorCode)
	require.Equal(t, kerr.UnknownMemberID.Code, b.beat(id, "two", gen))
	require.Zero(t, b.beat(id, "one", gen))

	leave := kmsg.NewPtrLeaveGroupRequest()
	leave.Version, leave.Group = 5, testGroup
	one, two := "one", "two"
	leave.Members = []kmsg.LeaveGroupRequestMember{{InstanceID: &two}, {MemberID: old, InstanceID: &one}, {InstanceID: &one}}
	r := *ask[*kmsg.LeaveGroupResponse](b, leave)
	require.Equal(t, []int16{kerr.UnknownMemberID.Code, kerr.FencedInstanceID.Code, 0}, []int16{r.Members[0].ErrorCode, r.Members[1].ErrorCode, r.Members[2].ErrorCode})
	require.Equal(t, kerr.UnknownMemberID.Code, b.beat(id, "one", gen))
}

func TestCommitsOfTheGenerationAlone(t *testing.T) {
	b := newBench(t, func(c *Config) { c.Offsets = 2 })
	require.Equal(t, kerr.IllegalGeneration.Code, committedCode(b.commit("x", 3, "acme.a", 0, 1, "")))
	simple := b.commit("", -1, "acme.a", 0, 5, "")
	require.Nil(t, *simple, "not before the log has it")
	require.Equal(t, int64(-1), b.offset("acme.a", 0), "nor read")
	b.flush()
	require.Zero(t, committedCode(simple))
	require.Equal(t, int64(5), b.offset("acme.a", 0))

	id, gen := b.stable()
	require.Equal(t, kerr.UnknownMemberID.Code, committedCode(b.commit("", -1, "acme.a", 0, 6, "")), "members alone commit now")
	require.Equal(t, kerr.IllegalGeneration.Code, committedCode(b.commit(id, gen-1, "acme.a", 0, 6, "")))
	require.Equal(t, kerr.IllegalGeneration.Code, committedCode(b.commit(id, gen+1, "acme.a", 0, 6, "")))
	require.Equal(t, kerr.OffsetMetadataTooLarge.Code, committedCode(b.commit(id, gen, "acme.a", 0, 6, strings.Repeat("x", maxOffsetMetadata+1))))
	require.Equal(t, kerr.OffsetOutOfRange.Code, committedCode(b.commit(id, gen, "acme.a", 0, -1, "")))
	ok := b.commit(id, gen, "acme.a", 1, 7, "note")
	b.flush()
	require.Zero(t, committedCode(ok))
	require.Equal(t, kerr.PolicyViolation.Code, committedCode(b.commit(id, gen, "acme.a", 2, 8, "")), "the tenant has two places")

	failed := b.commit(id, gen, "acme.a", 1, 9, "")
	a := b.appends[0]
	b.appends = nil
	b.step(Appended{a.ID, 0, kerr.NotCoordinator})
	require.Equal(t, kerr.NotCoordinator.Code, committedCode(failed))
	require.Equal(t, int64(7), b.offset("acme.a", 1), "a failed commit changes nothing")

	b.enter("range")
	late := b.commit(id, gen, "acme.a", 1, 10, "") // before it joins again it may commit
	b.flush()
	require.Zero(t, committedCode(late))
	require.Equal(t, gen+1, (*b.join(id, "", "range")).Generation)
	require.Equal(t, kerr.IllegalGeneration.Code, committedCode(b.commit(id, gen, "acme.a", 1, 11, "")))
	require.Equal(t, kerr.RebalanceInProgress.Code, committedCode(b.commit(id, gen+1, "acme.a", 1, 11, "")), "the generation has no assignment yet")
}

func TestOffsetsOfEmptyGroupsExpire(t *testing.T) {
	b := newBench(t, func(c *Config) { c.Retention = time.Hour })
	id, gen := b.stable()
	b.commit(id, gen, "acme.a", 0, 5, "")
	b.flush()
	for range 600 {
		b.pass(9 * time.Second)
		require.Zero(t, b.beat(id, "", gen))
	}
	require.Equal(t, int64(5), b.offset("acme.a", 0), "while there are members nothing expires")
	b.pass(59 * time.Minute)
	require.Equal(t, int64(5), b.offset("acme.a", 0))
	b.pass(2 * time.Minute)
	require.Equal(t, int64(-1), b.offset("acme.a", 0))
	require.Empty(t, b.m.groups)
	require.Empty(t, b.m.tenants)
	b.takeOver()
	require.Empty(t, b.m.groups, "the log knows that it is gone")
}

func TestUnusedIDsLapse(t *testing.T) {
	b := newBench(t, nil)
	id := (*b.join("", "", "range")).MemberID
	b.pass(11 * time.Second)
	require.Equal(t, kerr.UnknownMemberID.Code, (*b.join(id, "", "range")).ErrorCode)
	b.pass(2 * idleGroup)
	require.Empty(t, b.m.groups, "a group of nothing is forgotten")
	require.True(t, b.m.Next().IsZero())
}

func TestGroupsAreDescribedAndDeleted(t *testing.T) {
	b := newBench(t, nil)
	id, gen := b.stable()
	b.commit(id, gen, "acme.a", 0, 5, "")
	b.flush()
	describe := kmsg.NewPtrDescribeGroupsRequest()
	describe.Version, describe.Groups = 6, []string{testGroup, "acme.none"}
	d := *ask[*kmsg.DescribeGroupsResponse](b, describe)
	require.Equal(t, stateStable, d.Groups[0].State)
	require.Equal(t, "range", d.Groups[0].Protocol)
	require.Equal(t, "for "+id, string(d.Groups[0].Members[0].MemberAssignment))
	require.Equal(t, kerr.GroupIDNotFound.Code, d.Groups[1].ErrorCode)

	list := kmsg.NewPtrListGroupsRequest()
	list.Version, list.StatesFilter = 4, []string{"empty"}
	require.Empty(t, (*ask[*kmsg.ListGroupsResponse](b, list)).Groups)
	list.StatesFilter = []string{"stable"}
	require.Len(t, (*ask[*kmsg.ListGroupsResponse](b, list)).Groups, 1)

	offsets := kmsg.NewPtrOffsetDeleteRequest()
	offsets.Group, offsets.Topics = testGroup, []kmsg.OffsetDeleteRequestTopic{{Topic: "acme.a", Partitions: []kmsg.OffsetDeleteRequestTopicPartition{{Partition: 0}}}}
	r := *ask[*kmsg.OffsetDeleteResponse](b, offsets)
	require.Equal(t, kerr.GroupSubscribedToTopic.Code, r.Topics[0].Partitions[0].ErrorCode, "what its members say cannot be read")

	del := kmsg.NewPtrDeleteGroupsRequest()
	del.Version, del.Groups = 2, []string{testGroup}
	require.Equal(t, kerr.NonEmptyGroup.Code, (*ask[*kmsg.DeleteGroupsResponse](b, del)).Groups[0].ErrorCode)
	b.pass(time.Minute)
	done := ask[*kmsg.OffsetDeleteResponse](b, offsets)
	b.flush()
	require.Zero(t, (*done).Topics[0].Partitions[0].ErrorCode)
	require.Equal(t, int64(-1), b.offset("acme.a", 0))
	gone := ask[*kmsg.DeleteGroupsResponse](b, del)
	b.flush()
	require.Zero(t, (*gone).Groups[0].ErrorCode)
	require.Empty(t, b.m.groups)
	require.Equal(t, kerr.GroupIDNotFound.Code, (*ask[*kmsg.DeleteGroupsResponse](b, del)).Groups[0].ErrorCode)
}

func TestOffsetsOfDeletedTopicsGo(t *testing.T) {
	b := newBench(t, nil)
	b.commit("", -1, "acme.a", 0, 5, "")
	b.commit("", -1, "acme.b", 0, 6, "")
	b.flush()
	require.Len(t, b.m.Changes(10), 2)
	b.step(TopicGone{Topic: "acme.a"})
	b.flush()
	require.Equal(t, int64(-1), b.offset("acme.a", 0))
	require.Equal(t, int64(6), b.offset("acme.b", 0))
	b.takeOver()
	require.Equal(t, int64(-1), b.offset("acme.a", 0))
	require.Equal(t, []Change{{testGroup, "acme.b", 0, 6}}, b.m.Changes(10), "after a take-over what is recent is told again")
}

// The log does not take the end of a topic's offsets: they are gone all the same, and another topic of the name keeps its
// own.
func TestOffsetsOfDeletedTopicsStayGone(t *testing.T) {
	b := newBench(t, nil)
	fail := func() {
		require.Len(t, b.appends, 1)
		a := b.appends[0]
		b.appends = nil
		b.step(Appended{a.ID, 0, kerr.RequestTimedOut})
	}
	for p := range int32(2) {
		b.commit("", -1, "acme.a", p, 5, "")
	}
	b.flush()
	b.step(TopicGone{Topic: "acme.a"})
	fail()
	for p := range int32(2) {
		require.Equal(t, int64(-1), b.offset("acme.a", p))
	}
	b.commit("", -1, "acme.a", 0, 2, "") // of another topic
	b.flush()
	b.now = b.now.Add(retryExpire)
	b.step(nil)
	fail()
	b.pass(2 * retryExpire)
	b.flush()
	require.Empty(t, b.m.groups[testGroup].buried)
	b.takeOver()
	require.Equal(t, int64(2), b.offset("acme.a", 0))
	require.Equal(t, int64(-1), b.offset("acme.a", 1))
}

func TestLogStaysShort(t *testing.T) {
	b := newBench(t, nil)
	for i := range int64(1000) {
		r := b.commit("", -1, "acme.a", int32(i%5), i, "") //nolint:gosec // few
		b.flush()
		require.Zero(t, committedCode(r))
		require.Less(t, len(b.log)-b.trimmed, 120)
	}
	require.Greater(t, b.trims, 5)
	b.takeOver()
	for p := range int32(5) {
		require.Equal(t, int64(995+p), b.offset("acme.a", p))
	}
}

func FuzzRecords(f *testing.F) {
	p := place{"acme.g", "acme.t", 3}
	f.Add(offsetKey(p), encodeOffset(committed{5, 1, "note", 99, 7, 3}, -1), int64(9))
	f.Add(groupKey("acme.g"), encodeGroup(stored{generation: 3, kind: "consumer", protocol: "range", leader: "a", members: []storedMember{
		{id: "a", session: time.Second, rebalance: time.Second, protocols: []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: []byte{1}}}, assignment: []byte{2}},
	}}, 4), int64(9))
	f.Add([]byte{1, 1}, []byte{1}, int64(0))
	f.Fuzz(func(t *testing.T, key, value []byte, at int64) {
		m := NewMachine(DefaultConfig(), func() string { return "x" })
		now := time.Unix(1_700_000_000, 0)
		if m.Replay(now, max(at, 0), Record{key, value}) != nil {
			return
		}
		m.Loaded(now)
		m.Step(now.Add(24*time.Hour), nil)
		if k, isGroup, err := decodeKey(key); err == nil && !isGroup && value != nil {
			c, err := decodeOffset(value, max(at, 0))
			require.NoError(t, err)
			again, err := decodeOffset(encodeOffset(c, c.at), max(at, 0)+1)
			require.NoError(t, err)
			require.Equal(t, c, again)
			require.Equal(t, key, offsetKey(k))
		}
	})
}

func FuzzBatches(f *testing.F) {
	f.Add(encodeBatch([]Record{{groupKey("acme.g"), nil}, {[]byte("k"), []byte("v")}}, time.Unix(1, 0)))
	f.Fuzz(func(t *testing.T, raw []byte) {
		n := 0
		_ = eachRecord(raw, func(int64, Record) error { n++; return nil })
		require.LessOrEqual(t, n, len(raw))
	})
}

func TestBatchesComeBack(t *testing.T) {
	records := []Record{{[]byte("a"), nil}, {[]byte("b"), []byte("x")}, {[]byte("c"), make([]byte, 100_000)}}
	var got []Record
	require.NoError(t, eachRecord(encodeBatch(records, time.Unix(1, 0)), func(at int64, r Record) error {
		require.Equal(t, int64(len(got)), at)
		got = append(got, r)
		return nil
	}))
	require.Equal(t, fmt.Sprint(records), fmt.Sprint(got))
	require.Nil(t, got[0].Value)
}

// groupKeys are the requests of groups, by Kafka's numbers.
var groupKeys = []int16{8, 9, 11, 12, 13, 14, 15, 16, 42, 47}

// FuzzRequests lets a client say anything, many times: every request is answered in the end.
func FuzzRequests(f *testing.F) {
	join := kmsg.NewPtrJoinGroupRequest()
	join.Version, join.Group, join.ProtocolType, join.SessionTimeoutMillis = 3, testGroup, "consumer", 10_000
	join.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range"}}
	f.Add([]byte{2, 3, byte(len(join.AppendTo(nil)))}, join.AppendTo(nil))
	f.Add([]byte{0, 8, 9, 1, 7, 40}, []byte("any"))
	f.Fuzz(func(t *testing.T, plan, body []byte) {
		cfg := DefaultConfig()
		cfg.InitialDelay = 0
		w := newWorld(t, 1, cfg)
		for ; len(plan) >= 3; plan = plan[3:] {
			req := kmsg.RequestForKey(groupKeys[int(plan[0])%len(groupKeys)])
			req.SetVersion(int16(plan[1]) % (req.MaxVersion() + 1))
			n, version := min(int(plan[2]), len(body)), req.GetVersion()
			for req.IsFlexible() { // what the server checks before it decodes is package kafka's
				req.SetVersion(req.GetVersion() - 1)
			}
			if req.ReadFrom(body[:n]) != nil {
				continue
			}
			req.SetVersion(version)
			w.send(Client{ID: "c"}, req, func(r kmsg.Response) {
				r.SetVersion(req.GetVersion())
				r.AppendTo(nil)
			})
			body = body[n:]
			if plan[2]%3 == 0 {
				w.settle()
			}
		}
		for range 4 {
			w.pass(time.Hour)
			for len(w.appends) > 0 {
				w.settle()
			}
		}
		require.Empty(t, w.open)
		w.takeOver()
	})
}
