package group

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// world plays clients, a log and time around a machine and checks what the protocol promises.
type world struct {
	t    testing.TB
	r    *rand.Rand
	cfg  Config
	now  time.Time
	m    *Machine
	ids  int
	toks uint64
	open map[uint64]func(kmsg.Response) // unanswered requests

	appends  []Append // in order, not done yet
	log      []Record // what was appended
	trimmed  int
	dead     map[uint64]bool // appends of a machine that is gone
	failures bool
	trims    int
	acks     int
	settled  int

	assigned map[int32]map[string]string // generation -> member -> what its leader assigned
	leaders  map[int32]string
	inGen    map[int32]map[string]bool
	acked    map[place]int64 // offset of the newest acknowledged commit
	tried    map[place]map[int64]bool
	clients  []*client
}

type client struct {
	name     string
	instance *string
	version  int16
	id       string
	state    string // "", joining, joined, syncing, stable
	gen      int32
	leader   bool
	members  []string
	life     int // answers to an earlier life are nobody's
	got      string
}

const testGroup = "acme.readers"

func newWorld(t testing.TB, seed uint64, cfg Config) *world {
	w := &world{t: t, r: rand.New(rand.NewPCG(seed, 7)), cfg: cfg, now: time.Unix(1_700_000_000, 0), open: map[uint64]func(kmsg.Response){},
		dead: map[uint64]bool{}, acked: map[place]int64{}, tried: map[place]map[int64]bool{}}
	w.forgetGenerations()
	w.m = NewMachine(cfg, w.newID)
	w.m.after = 40
	return w
}

func (w *world) forgetGenerations() {
	w.assigned, w.leaders, w.inGen = map[int32]map[string]string{}, map[int32]string{}, map[int32]map[string]bool{}
}

func (w *world) newID() string { w.ids++; return fmt.Sprintf("id%d", w.ids) }

// send gives the machine a request; then gets the answer, maybe at once.
func (w *world) send(c Client, req kmsg.Request, then func(kmsg.Response)) {
	w.toks++
	w.open[w.toks] = then
	w.step(Request{w.toks, c, req})
}

func (w *world) step(ev Event) {
	for _, e := range w.m.Step(w.now, ev) {
		switch e := e.(type) {
		case Answer:
			then := w.open[e.Token]
			require.NotNil(w.t, then, "token %d answered twice or never asked", e.Token)
			delete(w.open, e.Token)
			then(e.Resp)
		case Append:
			require.NotEmpty(w.t, e.Records)
			w.appends = append(w.appends, e)
		case Trim:
			require.LessOrEqual(w.t, e.Before, int64(len(w.log)))
			w.trimmed = max(w.trimmed, int(e.Before))
			w.trims++
		}
	}
	require.Len(w.t, w.open, w.m.waiting)
	if g := w.m.groups[testGroup]; g != nil && g.state == stateCompleting && len(w.clients) > 0 {
		for id, mem := range g.members {
			require.True(w.t, mem.instance != "" || w.inGen[g.generation][id], "%s is in generation %d without having joined it", id, g.generation)
		}
	}
}

// settle ends the oldest append.
func (w *world) settle() {
	if len(w.appends) == 0 {
		return
	}
	a := w.appends[0]
	w.appends = w.appends[1:]
	base := int64(len(w.log))
	if w.failures && w.r.IntN(8) == 0 {
		if w.r.IntN(2) == 0 {
			w.log = append(w.log, a.Records...)
		}
		w.step(Appended{a.ID, 0, kerr.RequestTimedOut})
		return
	}
	w.log = append(w.log, a.Records...)
	w.step(Appended{a.ID, base, nil})
}

// pass lets time go by, as the machine asks for it.
func (w *world) pass(d time.Duration) {
	end := w.now.Add(d)
	for i := 0; ; i++ {
		require.Less(w.t, i, 100_000, "the machine wakes again and again")
		next := w.m.Next()
		if next.IsZero() || next.After(end) {
			break
		}
		if next.After(w.now) {
			w.now = next
		}
		w.step(nil)
		for len(w.appends) > 0 && !w.failures {
			w.settle()
		}
	}
	w.now = end
	w.step(nil)
}

// takeOver lets another machine go on from the log.
func (w *world) takeOver() {
	for len(w.appends) > 0 && w.r.IntN(2) == 0 { // what was under way is in the log or not
		w.log = append(w.log, w.appends[0].Records...)
		w.appends = w.appends[1:]
	}
	w.appends, w.open = nil, map[uint64]func(kmsg.Response){}
	for _, c := range w.clients {
		c.life++
		if c.state == "joining" {
			c.state = ""
		} else if c.state == "syncing" {
			c.state = "joined"
		}
	}
	w.m = NewMachine(w.cfg, w.newID)
	w.m.after = 40
	for i, r := range w.log[w.trimmed:] {
		require.NoError(w.t, w.m.Replay(w.now, int64(w.trimmed+i), r))
	}
	w.m.Loaded(w.now)
	// Generations that were not settled are counted again.
	g := w.m.groups[testGroup]
	for gen := range w.leaders {
		if g == nil || gen > g.generation {
			delete(w.leaders, gen)
			delete(w.assigned, gen)
			delete(w.inGen, gen)
		}
	}
}

func (w *world) who(c *client) Client {
	return Client{Principal: "User:0x" + c.name, Host: "10.0.0.1", ID: c.name}
}

// act does one thing a client may do now.
func (w *world) act(c *client) {
	life := c.life
	mine := func(f func(kmsg.Response)) func(kmsg.Response) {
		return func(r kmsg.Response) {
			if c.life == life {
				f(r)
			}
		}
	}
	switch c.state {
	case "":
		w.join(c, mine)
	case "joined":
		w.sync(c, mine)
	case "stable":
		if w.r.IntN(3) == 0 {
			w.commit(c, mine)
			return
		}
		req := kmsg.NewPtrHeartbeatRequest()
		req.Version, req.Group, req.MemberID, req.Generation, req.InstanceID = 4, testGroup, c.id, c.gen, c.instance
		w.send(w.who(c), req, mine(func(r kmsg.Response) { w.outcome(c, r.(*kmsg.HeartbeatResponse).ErrorCode) }))
	}
}

// outcome is what a client does about an error.
func (w *world) outcome(c *client, code int16) {
	switch code {
	case 0:
	case kerr.RebalanceInProgress.Code, kerr.CoordinatorNotAvailable.Code, kerr.RequestTimedOut.Code:
		c.state = ""
	case kerr.UnknownMemberID.Code, kerr.IllegalGeneration.Code, kerr.FencedInstanceID.Code:
		c.state, c.id = "", ""
	default:
		require.Fail(w.t, "unexpected error", kerr.ErrorForCode(code))
	}
}

func (w *world) join(c *client, mine func(func(kmsg.Response)) func(kmsg.Response)) {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Version, req.Group, req.MemberID, req.InstanceID, req.ProtocolType = c.version, testGroup, c.id, c.instance, "consumer"
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = 10_000, 20_000
	p := kmsg.NewJoinGroupRequestProtocol()
	p.Name, p.Metadata = "range", []byte(c.name)
	req.Protocols = append(req.Protocols, p)
	c.state = "joining"
	then := mine(func(r kmsg.Response) {
		resp := r.(*kmsg.JoinGroupResponse)
		if c.state = ""; resp.ErrorCode == kerr.MemberIDRequired.Code {
			c.id = resp.MemberID
			return
		}
		if w.outcome(c, resp.ErrorCode); resp.ErrorCode != 0 {
			return
		}
		c.id, c.gen, c.leader, c.members, c.state = resp.MemberID, resp.Generation, resp.LeaderID == resp.MemberID, nil, "joined"
		require.NotEmpty(w.t, c.id)
		if l, ok := w.leaders[c.gen]; ok && c.instance == nil {
			require.True(w.t, w.same(l, resp.LeaderID), "generation %d has two leaders: %s and %s", c.gen, l, resp.LeaderID)
		} else if !ok {
			w.leaders[c.gen] = resp.LeaderID
		}
		for _, m := range resp.Members {
			c.members = append(c.members, m.MemberID)
		}
		if resp.SkipAssignment {
			c.members = nil
		}
	})
	w.send(w.who(c), req, func(r kmsg.Response) {
		if resp := r.(*kmsg.JoinGroupResponse); resp.ErrorCode == 0 {
			if w.inGen[resp.Generation] == nil {
				w.inGen[resp.Generation] = map[string]bool{}
			}
			w.inGen[resp.Generation][resp.MemberID] = true
		}
		then(r)
	})
}

// same tells whether two ids are of one member: a static one gets another id when it starts again.
func (w *world) same(a, b string) bool {
	name, _, _ := strings.Cut(a, "-")
	other, _, _ := strings.Cut(b, "-")
	return a == b || name == other && slices.ContainsFunc(w.clients, func(c *client) bool { return c.name == name && c.instance != nil })
}

func (w *world) sync(c *client, mine func(func(kmsg.Response)) func(kmsg.Response)) {
	req := kmsg.NewPtrSyncGroupRequest()
	kind, protocol := "consumer", "range"
	req.Version, req.Group, req.MemberID, req.Generation, req.InstanceID, req.ProtocolType, req.Protocol = 5, testGroup, c.id, c.gen, c.instance, &kind, &protocol
	if c.leader && len(c.members) > 0 {
		if w.assigned[c.gen] == nil {
			w.assigned[c.gen] = map[string]string{}
		}
		for _, id := range c.members {
			a := kmsg.NewSyncGroupRequestGroupAssignment()
			text := fmt.Sprintf("%s of generation %d", id, c.gen)
			a.MemberID, a.MemberAssignment = id, []byte(text)
			w.assigned[c.gen][id] = text
			req.GroupAssignment = append(req.GroupAssignment, a)
		}
	}
	c.state = "syncing"
	w.send(w.who(c), req, mine(func(r kmsg.Response) {
		resp := r.(*kmsg.SyncGroupResponse)
		c.state = "joined"
		if w.outcome(c, resp.ErrorCode); resp.ErrorCode != 0 {
			return
		}
		w.settled++
		c.state, c.got = "stable", string(resp.MemberAssignment)
		if c.instance == nil { // a static member may have got another id since
			require.Equal(w.t, w.assigned[c.gen][c.id], c.got, "member %s of generation %d", c.id, c.gen)
		}
		require.Contains(w.t, w.inGen[c.gen], c.id, "nobody outside of the generation learns an assignment")
	}))
}

func (w *world) commit(c *client, mine func(func(kmsg.Response)) func(kmsg.Response)) {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Version, req.Group, req.MemberID, req.Generation, req.InstanceID = 8, testGroup, c.id, c.gen, c.instance
	t := kmsg.NewOffsetCommitRequestTopic()
	t.Topic = "acme.orders"
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	p.Partition = int32(w.r.IntN(3))
	p.Offset = int64(w.toks) // rises in the order of the log
	at := place{testGroup, t.Topic, p.Partition}
	if w.tried[at] == nil {
		w.tried[at] = map[int64]bool{}
	}
	w.tried[at][p.Offset] = true
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	gen, id, now := c.gen, c.id, int32(-1)
	if g := w.m.groups[testGroup]; g != nil {
		now = g.generation
	}
	w.send(w.who(c), req, func(r kmsg.Response) {
		code := r.(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode
		if code == 0 {
			require.Equal(w.t, now, gen, "a commit of another generation")
			require.True(w.t, w.inGen[gen][id], "%s commits in generation %d without being in it", id, gen)
			w.acked[at] = p.Offset
			w.acks++
			w.check()
		}
		mine(func(kmsg.Response) { w.outcome(c, code) })(r)
	})
}

// check compares what can be fetched with what was acknowledged.
func (w *world) check() {
	g := w.m.groups[testGroup]
	for at, want := range w.acked {
		require.NotNil(w.t, g)
		got, ok := g.offsets[at.topic][at.partition]
		require.True(w.t, ok, "an acknowledged offset is lost")
		require.Equal(w.t, want, got.offset)
	}
}

// checkAfterReplay allows what was never acknowledged but is newer: it may have been in the log.
func (w *world) checkAfterReplay() {
	g := w.m.groups[testGroup]
	for at, want := range w.acked {
		require.NotNil(w.t, g)
		got, ok := g.offsets[at.topic][at.partition]
		require.True(w.t, ok, "an acknowledged offset is lost")
		require.True(w.t, got.offset == want || w.tried[at][got.offset] && got.offset > want, "%d was acknowledged, %d is there", want, got.offset)
		w.acked[at] = got.offset
	}
}

func TestRandomGroupsKeepTheirPromises(t *testing.T) {
	acks, settled, trims := 0, 0, 0
	for seed := range uint64(400) {
		cfg := DefaultConfig()
		if seed%3 == 0 {
			cfg.InitialDelay = 0
		}
		w := newWorld(t, seed, cfg)
		w.failures = seed%2 == 0
		for i := range 3 + w.r.IntN(5) {
			c := &client{name: fmt.Sprintf("c%d", i), version: []int16{0, 3, 5, 9}[w.r.IntN(4)]}
			if w.r.IntN(3) == 0 {
				c.version = 9
				c.instance = &c.name
			}
			w.clients = append(w.clients, c)
		}
		for range 600 {
			c := w.clients[w.r.IntN(len(w.clients))]
			switch k := w.r.IntN(100); {
			case k < 60:
				w.act(c)
			case k < 78:
				w.settle()
			case k < 92:
				w.pass(time.Duration(w.r.IntN(4000)) * time.Millisecond)
			case k < 94: // dies and starts again
				c.life, c.id, c.state = c.life+1, "", ""
			case k < 95:
				w.leave(c)
			case k < 96 && seed%5 == 0:
				w.takeOver()
				w.checkAfterReplay()
			}
		}
		w.converge()
		acks, settled, trims = acks+w.acks, settled+w.settled, trims+w.trims
	}
	require.Greater(t, acks, 2000)
	require.Greater(t, settled, 2000)
	require.Greater(t, trims, 100)
}

func (w *world) leave(c *client) {
	if c.id == "" || c.instance != nil {
		return
	}
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Version, req.Group = 5, testGroup
	m := kmsg.NewLeaveGroupRequestMember()
	m.MemberID = c.id
	req.Members = append(req.Members, m)
	c.life, c.id, c.state = c.life+1, "", ""
	w.send(w.who(c), req, func(kmsg.Response) {})
}

// converge ends the trouble: soon all clients are in one generation, each with its assignment.
func (w *world) converge() {
	w.failures = false
	for i := 0; ; i++ {
		require.Less(w.t, i, 200, "the group does not come to rest")
		for range 6 {
			for _, c := range w.clients {
				w.act(c)
			}
			for len(w.appends) > 0 {
				w.settle()
			}
		}
		w.pass(3 * time.Second)
		g := w.m.groups[testGroup]
		if g == nil || g.state != stateStable || len(g.members) != len(w.clients) {
			continue
		}
		settled := true
		for _, c := range w.clients {
			settled = settled && c.state == "stable" && c.gen == g.generation && g.members[c.id] != nil
		}
		if settled {
			break
		}
	}
	w.check()
	for _, c := range w.clients { // the whole generation is in the log
		want := string(w.m.groups[testGroup].members[c.id].assignment)
		require.NotEmpty(w.t, want)
		require.Equal(w.t, want, c.got)
	}
	before := w.m.groups[testGroup].generation
	w.takeOver()
	w.checkAfterReplay()
	g := w.m.groups[testGroup]
	require.Equal(w.t, before, g.generation)
	for _, c := range w.clients {
		require.Equal(w.t, c.got, string(g.members[c.id].assignment), "a take-over changes no assignment")
	}
}
