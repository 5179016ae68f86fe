package group

import (
	"cmp"
	"container/heap"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Client is who sent a request.
type Client struct {
	Principal string
	Host      string
	ID        string // the client id it gives itself
	Session   any    // for the Check; nothing here looks at it
}

// Event is what the machine is told: one of Request, Appended, TopicGone.
type Event interface{ event() }

// Request is a request on one group, answered by an Answer with its Token. Requests that may name several groups name
// one: the Coordinator takes them apart.
type Request struct {
	Token  uint64
	Client Client
	Req    kmsg.Request
}

// Appended tells how the Append of that ID ended; Base is the offset of its first record. After an error the records
// may be in the log nevertheless.
type Appended struct {
	ID   uint64
	Base int64
	Err  *kerr.Error
}

// TopicGone tells that a topic was deleted: its offsets mean nothing to another one of its name. Before is the height at
// which that other one was made, 0 if there is none.
type TopicGone struct {
	Topic  string
	Before int64
}

func (Request) event()   {}
func (Appended) event()  {}
func (TopicGone) event() {}

// Effect is what the machine wants done, in order: one of Answer, Append, Trim.
type Effect interface{ effect() }

// Answer ends the request of that token.
type Answer struct {
	Token uint64
	Resp  kmsg.Response
}

// Append asks for records at the end of the log, after those of every earlier Append, and for an Appended.
type Append struct {
	ID      uint64
	Records []Record
}

// Trim says that the log before that offset is not needed any more.
type Trim struct{ Before int64 }

func (Answer) effect() {}
func (Append) effect() {}
func (Trim) effect()   {}

// Machine owns the groups of one shard.
type Machine struct {
	cfg   Config
	newID func() string // unique part of member ids
	born  func(topic string) int64

	now     time.Time
	groups  map[string]*group
	tenants map[string]*tenant
	wakes   wakes
	out     []Effect

	appends    map[uint64]*appending
	lastAppend uint64
	queued     int // bytes of records without an Appended
	waiting    int // tokens without an Answer

	changed map[place]struct{}
	tally   Tally
	copying
	replaying bool
	graves    map[place]int64 // offsets of what was deleted, while replaying
}

// tenant counts what the groups of one tenant hold.
type tenant struct{ groups, offsets int }

// appending is an Append without its Appended.
type appending struct {
	bytes, records int
	then           func(base int64, err *kerr.Error)
}

// NewMachine makes a machine without groups. newID gives the unique part of member ids; nobody must be able to guess it.
func NewMachine(cfg Config, newID func() string) *Machine {
	return &Machine{
		copying: copying{after: snapshotRecords},
		cfg:     cfg, newID: newID, born: func(string) int64 { return 0 }, groups: map[string]*group{}, tenants: map[string]*tenant{}, appends: map[uint64]*appending{},
		changed: map[place]struct{}{}, graves: map[place]int64{},
	}
}

// Step moves the time to now, tells the machine ev (nil: nothing but the time) and returns what is to be done.
func (m *Machine) Step(now time.Time, ev Event) []Effect {
	m.setTime(now)
	switch ev := ev.(type) {
	case Request:
		m.waiting++
		m.request(ev)
	case Appended:
		if a := m.appends[ev.ID]; a != nil {
			delete(m.appends, ev.ID)
			m.queued -= a.bytes
			if m.lost = ev.Err != nil; !m.lost {
				m.applied = ev.Base + int64(a.records)
			}
			a.then(ev.Base, ev.Err)
		}
	case TopicGone:
		m.topicGone(ev.Topic, ev.Before)
	}
	m.expire()
	m.maybeCopy()
	out := m.out
	m.out = nil
	return out
}

// Next is when Step is due without an event; the zero time: never.
func (m *Machine) Next() time.Time {
	if len(m.wakes) == 0 {
		return time.Time{}
	}
	return m.wakes[0].wake
}

// setTime never goes back.
func (m *Machine) setTime(now time.Time) {
	if now.After(m.now) {
		m.now = now
	}
}

func (m *Machine) answer(token uint64, resp kmsg.Response) {
	m.waiting--
	m.out = append(m.out, Answer{token, resp})
}

// full tells whether the log is so slow that nothing more is given to it on request.
func (m *Machine) full() bool { return m.queued > maxQueuedAppend }

func (m *Machine) append(records []Record, then func(base int64, err *kerr.Error)) {
	m.lastAppend++
	n := 0
	for _, r := range records {
		n += len(r.Key) + len(r.Value)
	}
	m.queued += n
	m.appends[m.lastAppend] = &appending{n, len(records), then}
	m.records += len(records)
	m.out = append(m.out, Append{m.lastAppend, records})
}

// tenantOf is the part of a group's name before the first dot.
func tenantOf(name string) string {
	t, _, _ := strings.Cut(name, ".")
	return t
}

// create makes a group, or returns nil if its tenant has too many.
func (m *Machine) create(name string) *group {
	t := m.tenants[tenantOf(name)]
	if t == nil {
		t = &tenant{}
		m.tenants[tenantOf(name)] = t
	}
	if t.groups >= m.cfg.Groups && !m.replaying {
		return nil
	}
	t.groups++
	g := &group{
		m: m, tenant: t, name: name, state: stateEmpty, emptySince: m.now, members: map[string]*member{},
		static: map[string]string{}, pending: map[string]time.Time{}, offsets: map[string]map[int32]committed{}, heap: -1, storedAt: -1,
	}
	m.groups[name] = g
	return g
}

func (m *Machine) forget(g *group) {
	g.state = stateDead
	for topic, ps := range g.offsets {
		for p := range ps {
			g.dropOffset(topic, p)
		}
	}
	if g.heap >= 0 {
		heap.Remove(&m.wakes, g.heap)
	}
	delete(m.groups, g.name)
	if g.tenant.groups--; g.tenant.groups == 0 {
		delete(m.tenants, tenantOf(g.name))
	}
}

// wakeAt makes the machine look at the group at t, or earlier.
func (g *group) wakeAt(t time.Time) {
	switch {
	case g.heap < 0:
		g.wake = t
		heap.Push(&g.m.wakes, g)
	case t.Before(g.wake):
		g.wake = t
		heap.Fix(&g.m.wakes, g.heap)
	}
}

// expire looks at every group that is due.
func (m *Machine) expire() {
	for len(m.wakes) > 0 && !m.wakes[0].wake.After(m.now) {
		g := heap.Pop(&m.wakes).(*group)
		g.expire()
		if g.state == stateDead {
			continue
		}
		if next := g.next(); !next.IsZero() {
			if !next.After(m.now) {
				next = m.now.Add(time.Millisecond) // never spin
			}
			g.wakeAt(next)
		}
	}
}

// sorted are the names of all groups.
func (m *Machine) sorted() []string {
	names := make([]string, 0, len(m.groups))
	for n := range m.groups {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// wakes is a heap of the groups that have something to come.
type wakes []*group

func (w wakes) Len() int { return len(w) }
func (w wakes) Less(i, j int) bool {
	return cmp.Or(w[i].wake.Compare(w[j].wake), cmp.Compare(w[i].name, w[j].name)) < 0
}
func (w wakes) Swap(i, j int) { w[i], w[j] = w[j], w[i]; w[i].heap, w[j].heap = i, j }
func (w *wakes) Push(x any)   { g := x.(*group); g.heap = len(*w); *w = append(*w, g) }
func (w *wakes) Pop() any {
	old := *w
	g := old[len(old)-1]
	*w, g.heap = old[:len(old)-1], -1
	return g
}

// request hands a request to its part.
func (m *Machine) request(ev Request) {
	if m.waiting > maxWaiting {
		m.answer(ev.Token, Refuse(ev.Req, kerr.CoordinatorNotAvailable))
		return
	}
	switch req := ev.Req.(type) {
	case *kmsg.JoinGroupRequest:
		m.join(ev, req)
	case *kmsg.SyncGroupRequest:
		m.sync(ev, req)
	case *kmsg.HeartbeatRequest:
		m.heartbeat(ev, req)
	case *kmsg.LeaveGroupRequest:
		m.leave(ev, req)
	case *kmsg.OffsetCommitRequest:
		m.commit(ev, req)
	case *kmsg.OffsetFetchRequest:
		m.fetch(ev, req)
	case *kmsg.OffsetDeleteRequest:
		m.deleteOffsets(ev, req)
	case *kmsg.DescribeGroupsRequest:
		m.describe(ev, req)
	case *kmsg.ListGroupsRequest:
		m.list(ev, req)
	case *kmsg.DeleteGroupsRequest:
		m.deleteGroup(ev, req)
	default:
		m.answer(ev.Token, Refuse(ev.Req, kerr.UnsupportedVersion))
	}
}
