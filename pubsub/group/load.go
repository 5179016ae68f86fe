package group

import (
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// copying is the making of copies of what the machine knows, behind the end of the log.
type copying struct {
	after   int     // records between copies
	records int     // appended since the last copy
	applied int64   // the log before is known here
	lost    bool    // the last append failed: the log's end is not known
	todo    []place // of the copy under way; a group's own record has no topic
	busy    bool    // a part of it is on its way to the log
	before  int64   // the log before is in the copy
}

// Replay takes one record of the log, in order, before the first Step; it keeps the value. The error wraps ErrRecord.
func (m *Machine) Replay(now time.Time, offset int64, r Record) error {
	m.setTime(now)
	m.replaying, m.applied = true, offset+1
	m.records++
	p, isGroup, err := decodeKey(r.Key)
	if err != nil {
		return err
	}
	if isGroup {
		return m.replayGroup(p.group, offset, r.Value)
	}
	if r.Value == nil {
		m.graves[p] = offset
		if g := m.groups[p.group]; g != nil {
			g.dropOffset(p.topic, p.partition)
		}
		return nil
	}
	c, err := decodeOffset(r.Value, offset)
	if err != nil {
		return err
	}
	if dead, ok := m.graves[p]; ok && dead > c.at { // a copy of what was deleted meanwhile
		return nil
	}
	g := m.groups[p.group]
	if g == nil {
		g = m.create(p.group)
	}
	g.setOffset(p, c)
	return nil
}

func (m *Machine) replayGroup(name string, offset int64, value []byte) error {
	grave := place{group: name}
	g := m.groups[name]
	if value == nil {
		m.graves[grave] = offset
		if g != nil && g.storedAt < offset {
			g.clear()
			g.kind, g.generation, g.stored, g.storedAt = "", 0, nil, -1
		}
		return nil
	}
	s, err := decodeGroup(value, offset)
	if err != nil {
		return err
	}
	if m.graves[grave] > s.at || g != nil && g.storedAt >= s.at {
		return nil
	}
	if g == nil {
		g = m.create(name)
	}
	g.clear()
	g.generation, g.kind, g.protocol, g.leader, g.storedAt = s.generation, s.kind, s.protocol, s.leader, s.at
	g.stored = value
	g.emptySince = time.UnixMilli(s.emptySince)
	for _, t := range s.members {
		g.joins++
		mem := &member{
			id: t.id, instance: t.instance, client: t.client, host: t.host, number: g.joins, session: t.session,
			rebalance: t.rebalance, protocols: t.protocols, bytes: protocolBytes(t.protocols), assignment: t.assignment, synced: true,
		}
		g.members[mem.id] = mem
		if mem.instance != "" {
			g.static[mem.instance] = mem.id
		}
	}
	if len(g.members) > 0 {
		g.state = stateStable
	}
	return nil
}

func (g *group) clear() {
	g.state, g.protocol, g.leader = stateEmpty, "", ""
	g.members, g.static = map[string]*member{}, map[string]string{}
}

// Loaded ends the replay: members get a whole session to be heard of. Offsets committed within the ledger's window are
// handed out by Changes again, since nobody knows how far the last coordinator came with them.
func (m *Machine) Loaded(now time.Time) {
	m.setTime(now)
	m.replaying = false
	clear(m.graves)
	clear(m.changed)
	recent := now.Add(-m.cfg.LedgerWindow).UnixMilli()
	for _, name := range m.sorted() {
		g := m.groups[name]
		for topic, ps := range g.offsets {
			for p, c := range ps {
				if c.time >= recent && len(m.changed) < maxChanges {
					m.changed[place{name, topic, p}] = struct{}{}
				}
			}
		}
		for _, mem := range g.members {
			g.alive(mem)
		}
		if len(g.members) > 0 {
			continue
		}
		if len(g.offsets) == 0 && g.storedAt < 0 {
			m.forget(g)
			continue
		}
		g.wakeAt(now.Add(idleGroup))
	}
}

// maybeCopy starts to write all that is known to the end of the log when enough is behind it. Every record of the copy
// says where the record it copies was, so that what was appended meanwhile wins over it. A copy starts only when the
// one before ended and the end of the log is known: so none of its records is older than a deletion that is trimmed.
func (m *Machine) maybeCopy() {
	size := len(m.groups)
	for _, t := range m.tenants {
		size += t.offsets
	}
	if m.records < max(m.after, snapshotFactor*size) || m.busy || m.lost || m.full() {
		return
	}
	m.records, m.before, m.todo = 0, m.applied, nil
	for _, name := range m.sorted() {
		g := m.groups[name]
		if g.storedAt >= 0 {
			m.todo = append(m.todo, place{group: name})
		}
		for _, topic := range sortedKeys(g.offsets) {
			for _, p := range sortedKeys(g.offsets[topic]) {
				m.todo = append(m.todo, place{name, topic, p})
			}
		}
	}
	m.copyPart()
}

// copyPart writes the next part of the copy; after the last one the log before the copy is not needed.
func (m *Machine) copyPart() {
	var part []Record
	for bytes := 0; len(m.todo) > 0 && bytes < maxAppendBytes/2; m.todo = m.todo[1:] {
		p := m.todo[0]
		g := m.groups[p.group]
		if g == nil {
			continue
		}
		r := Record{Key: groupKey(p.group)}
		if c, ok := g.offsets[p.topic][p.partition]; ok {
			r = Record{offsetKey(p), encodeOffset(c, c.at)}
		} else if p.topic == "" && g.storedAt >= 0 {
			r.Value = movedGroup(g.stored, g.storedAt)
		} else {
			continue
		}
		part = append(part, r)
		bytes += len(r.Key) + len(r.Value)
	}
	m.busy = len(part) > 0
	if !m.busy {
		m.out = append(m.out, Trim{m.before})
		return
	}
	m.append(part, func(_ int64, err *kerr.Error) {
		if m.busy = false; err != nil {
			m.todo = nil // another copy is made after further records
			return
		}
		m.copyPart()
	})
	m.records -= len(part)
}

// Topics are all topics that there are offsets of.
func (m *Machine) Topics() []string {
	all := map[string]struct{}{}
	for _, g := range m.groups {
		for topic := range g.offsets {
			all[topic] = struct{}{}
		}
	}
	return sortedKeys(all)
}

// Change is an offset that the ledger is to be told.
type Change struct {
	Group, Topic string
	Partition    int32
	Offset       int64
}

// Changes hands out at most n offsets that changed since they were handed out last, each once.
func (m *Machine) Changes(n int) []Change {
	var out []Change
	for p := range m.changed {
		if len(out) == n {
			break
		}
		delete(m.changed, p)
		if g := m.groups[p.group]; g != nil {
			if c, ok := g.offsets[p.topic][p.partition]; ok {
				out = append(out, Change{p.group, p.topic, p.partition, c.offset})
			}
		}
	}
	return out
}

// containsFold tells whether one of the words is w, whatever the case.
func containsFold(words []string, w string) bool {
	for _, x := range words {
		if strings.EqualFold(x, w) {
			return true
		}
	}
	return false
}
