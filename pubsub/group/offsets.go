package group

import (
	"cmp"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// commit handles OffsetCommit. What is readable changes when the log has the records, and only then it is answered.
func (m *Machine) commit(ev Request, req *kmsg.OffsetCommitRequest) {
	refuse := func(err *kerr.Error) { m.answer(ev.Token, Refuse(req, err)) }
	count := 0
	for i := range req.Topics {
		count += len(req.Topics[i].Partitions)
	}
	g := m.groups[req.Group]
	switch {
	case req.Group == "" || len(req.Group) > maxGroupName:
		refuse(kerr.InvalidGroupID)
		return
	case count > maxCommit:
		refuse(kerr.InvalidRequest)
		return
	case m.full():
		refuse(kerr.CoordinatorNotAvailable)
		return
	case g == nil && req.Generation >= 0:
		refuse(kerr.IllegalGeneration)
		return
	case g == nil:
		if g = m.create(req.Group); g == nil {
			refuse(kerr.PolicyViolation)
			return
		}
		g.wakeAt(m.now.Add(idleGroup))
	}
	if err := g.mayCommit(req); err != nil {
		refuse(err)
		return
	}
	g.commit(ev.Token, req)
}

// mayCommit lets members of the generation commit, and anybody without one while the group has no members.
func (g *group) mayCommit(req *kmsg.OffsetCommitRequest) *kerr.Error {
	if req.Generation < 0 && req.MemberID == "" && req.InstanceID == nil && g.state == stateEmpty {
		return nil
	}
	mem, err := g.check(req.MemberID, req.InstanceID)
	switch {
	case err != nil:
		return err
	case mem.fresh || req.Generation != g.generation:
		return kerr.IllegalGeneration
	}
	g.alive(mem)
	if g.state == stateCompleting {
		return kerr.RebalanceInProgress
	}
	return nil
}

func (g *group) commit(token uint64, req *kmsg.OffsetCommitRequest) {
	resp := req.ResponseKind().(*kmsg.OffsetCommitResponse)
	var records []Record
	var places []place
	var values []committed
	room := g.m.cfg.Offsets - g.tenant.offsets
	for i := range req.Topics {
		t := &req.Topics[i]
		rt := kmsg.NewOffsetCommitResponseTopic()
		rt.Topic = t.Topic
		for j := range t.Partitions {
			p := &t.Partitions[j]
			rp := kmsg.NewOffsetCommitResponseTopicPartition()
			rp.Partition = p.Partition
			metadata := ""
			if p.Metadata != nil {
				metadata = *p.Metadata
			}
			_, have := g.offsets[t.Topic][p.Partition]
			switch {
			case t.Topic == "" || len(t.Topic) > maxTopicName:
				rp.ErrorCode = kerr.InvalidTopicException.Code
			case p.Partition < 0:
				rp.ErrorCode = kerr.UnknownTopicOrPartition.Code
			case p.Offset < 0:
				rp.ErrorCode = kerr.OffsetOutOfRange.Code
			case len(metadata) > maxOffsetMetadata:
				rp.ErrorCode = kerr.OffsetMetadataTooLarge.Code
			case !have && room <= 0:
				rp.ErrorCode = kerr.PolicyViolation.Code
			default:
				if !have {
					room--
				}
				at := place{g.name, t.Topic, p.Partition}
				c := committed{p.Offset, leaderEpoch(req.Version, p.LeaderEpoch), metadata, g.m.now.UnixMilli(), -1, g.m.born(t.Topic)}
				places, values = append(places, at), append(values, c)
				records = append(records, Record{offsetKey(at), encodeOffset(c, -1)})
			}
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	if len(records) == 0 {
		g.m.answer(token, resp)
		return
	}
	g.commits++
	g.m.append(records, func(base int64, err *kerr.Error) {
		g.commits--
		if err == nil && g.state == stateDead {
			err = kerr.NotCoordinator
		}
		if err != nil {
			g.m.answer(token, Refuse(req, err))
			return
		}
		for i, p := range places {
			values[i].at = base + int64(i)
			g.setOffset(p, values[i])
		}
		g.m.tally.Offsets += uint64(len(places))
		g.m.answer(token, resp)
	})
}

func leaderEpoch(version int16, epoch int32) int32 {
	if version < 6 {
		return -1
	}
	return epoch
}

// setOffset takes what the log has, unless it has something newer.
func (g *group) setOffset(p place, c committed) {
	ps := g.offsets[p.topic]
	if ps == nil {
		ps = map[int32]committed{}
		g.offsets[p.topic] = ps
	}
	old, have := ps[p.partition]
	if have && old.at >= c.at {
		return
	}
	if !have {
		g.tenant.offsets++
	}
	ps[p.partition] = c
	if have && old.offset == c.offset {
		return
	}
	if len(g.m.changed) < maxChanges {
		g.m.changed[p] = struct{}{}
	}
}

// dropOffset forgets an offset and tells whether there was one.
func (g *group) dropOffset(topic string, partition int32) bool {
	if _, ok := g.offsets[topic][partition]; !ok {
		return false
	}
	delete(g.offsets[topic], partition)
	if len(g.offsets[topic]) == 0 {
		delete(g.offsets, topic)
	}
	delete(g.m.changed, place{g.name, topic, partition})
	g.tenant.offsets--
	return true
}

// fetch handles OffsetFetch of one group.
func (m *Machine) fetch(ev Request, req *kmsg.OffsetFetchRequest) {
	resp := req.ResponseKind().(*kmsg.OffsetFetchResponse)
	if req.Version >= 8 {
		for i := range req.Groups {
			rg := kmsg.NewOffsetFetchResponseGroup()
			rg.Group = req.Groups[i].Group
			g := m.groups[rg.Group]
			if req.Groups[i].Topics == nil {
				rg.Topics = g.everything()
			}
			for j := range req.Groups[i].Topics {
				t := &req.Groups[i].Topics[j]
				rg.Topics = append(rg.Topics, g.some(t.Topic, t.Partitions))
			}
			resp.Groups = append(resp.Groups, rg)
		}
		m.answer(ev.Token, resp)
		return
	}
	g := m.groups[req.Group]
	var topics []kmsg.OffsetFetchResponseGroupTopic
	if req.Topics == nil && req.Version >= 2 {
		topics = g.everything()
	}
	for i := range req.Topics {
		topics = append(topics, g.some(req.Topics[i].Topic, req.Topics[i].Partitions))
	}
	resp.Topics = olderTopics(topics)
	m.answer(ev.Token, resp)
}

// olderTopics is the form of versions before 8.
func olderTopics(topics []kmsg.OffsetFetchResponseGroupTopic) []kmsg.OffsetFetchResponseTopic {
	out := make([]kmsg.OffsetFetchResponseTopic, 0, len(topics))
	for _, t := range topics {
		o := kmsg.NewOffsetFetchResponseTopic()
		o.Topic = t.Topic
		for _, p := range t.Partitions {
			q := kmsg.NewOffsetFetchResponseTopicPartition()
			q.Partition, q.Offset, q.LeaderEpoch, q.Metadata, q.ErrorCode = p.Partition, p.Offset, p.LeaderEpoch, p.Metadata, p.ErrorCode
			o.Partitions = append(o.Partitions, q)
		}
		out = append(out, o)
	}
	return out
}

// some are the offsets asked for; -1 where there is none. g may be nil.
func (g *group) some(topic string, partitions []int32) kmsg.OffsetFetchResponseGroupTopic {
	t := kmsg.NewOffsetFetchResponseGroupTopic()
	t.Topic = topic
	for _, n := range partitions {
		p := kmsg.NewOffsetFetchResponseGroupTopicPartition()
		none := ""
		p.Partition, p.Offset, p.LeaderEpoch, p.Metadata = n, -1, -1, &none
		if g != nil {
			if c, ok := g.offsets[topic][n]; ok {
				p.Offset, p.LeaderEpoch, p.Metadata = c.offset, c.epoch, &c.metadata
			}
		}
		t.Partitions = append(t.Partitions, p)
	}
	return t
}

func (g *group) everything() []kmsg.OffsetFetchResponseGroupTopic {
	topics := []kmsg.OffsetFetchResponseGroupTopic{}
	if g == nil {
		return topics
	}
	for _, topic := range sortedKeys(g.offsets) {
		topics = append(topics, g.some(topic, sortedKeys(g.offsets[topic])))
	}
	return topics
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K {
	keys := make([]K, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// erase writes that these offsets are gone, and takes them away once the log has it. whole takes the group's own
// record too.
func (g *group) erase(places []place, whole bool, then func(err *kerr.Error)) {
	records := make([]Record, 0, len(places)+1)
	for _, p := range places {
		records = append(records, Record{Key: offsetKey(p)})
	}
	if whole {
		records = append(records, Record{Key: groupKey(g.name)})
	}
	g.commits++
	g.m.append(records, func(base int64, err *kerr.Error) {
		g.commits--
		if g.state != stateDead && err == nil {
			for _, p := range places {
				if c, ok := g.offsets[p.topic][p.partition]; ok && c.at < base {
					g.dropOffset(p.topic, p.partition)
				}
			}
			if whole {
				g.stored, g.storedAt = nil, -1
			}
			if whole && g.idle() {
				g.m.forget(g)
			} else {
				g.wakeAt(g.m.now.Add(idleGroup))
			}
		}
		then(err)
	})
}

// idle tells whether nothing but a group's name is left.
func (g *group) idle() bool {
	return g.state == stateEmpty && len(g.pending) == 0 && len(g.offsets) == 0 && len(g.buried) == 0 && g.commits == 0 && len(g.members) == 0
}

// expireOffsets takes away what an empty group has kept for too long, and in the end the group.
func (g *group) expireOffsets() {
	if t := g.nextExpiry(); t.IsZero() || t.After(g.m.now) {
		return
	}
	if g.commits > 0 || g.m.full() {
		g.expireTry = g.m.now.Add(retryExpire)
		return
	}
	var old []place
	for _, topic := range sortedKeys(g.offsets) {
		for _, p := range sortedKeys(g.offsets[topic]) {
			if t := g.expiry(g.offsets[topic][p]); !t.IsZero() && !t.After(g.m.now) {
				old = append(old, place{g.name, topic, p})
			}
		}
	}
	left := 0
	for _, ps := range g.offsets {
		left += len(ps)
	}
	whole := left == len(old) && len(g.pending) == 0 && len(g.buried) == 0
	if whole && len(old) == 0 && g.storedAt < 0 { // the log knows nothing of it
		g.m.forget(g)
		return
	}
	g.expireTry = g.m.now.Add(retryExpire)
	if len(old) == 0 && !whole {
		return
	}
	g.erase(old, whole, func(*kerr.Error) {})
}

// expiry is when an offset of an empty group has been kept long enough; the zero time: never.
func (g *group) expiry(c committed) time.Time {
	if g.m.cfg.Retention == 0 {
		return time.Time{}
	}
	since := time.UnixMilli(c.time)
	if g.kind != "" && g.emptySince.After(since) { // offsets of a group with members count from its last member's going
		since = g.emptySince
	}
	return since.Add(g.m.cfg.Retention)
}

// nextExpiry is when expireOffsets has something to do; the zero time: never.
func (g *group) nextExpiry() (t time.Time) {
	for _, ps := range g.offsets {
		for _, c := range ps {
			if x := g.expiry(c); !x.IsZero() && (t.IsZero() || x.Before(t)) {
				t = x
			}
		}
	}
	if len(g.offsets) == 0 {
		t = g.emptySince.Add(idleGroup)
	}
	if !t.IsZero() && t.Before(g.expireTry) {
		t = g.expireTry
	}
	return t
}

// topicGone takes away all offsets of a topic, or those of topics of that name that were made before a height.
func (m *Machine) topicGone(topic string, before int64) {
	for _, name := range m.sorted() {
		g := m.groups[name]
		var gone []place
		for _, p := range sortedKeys(g.offsets[topic]) {
			if born := g.offsets[topic][p].born; before == 0 || born > 0 && born < before {
				gone = append(gone, place{name, topic, p})
			}
		}
		if len(gone) > 0 {
			g.bury(gone)
		}
	}
}

// bury erases offsets of a deleted topic. They are not read again even if the log does not take that now: another topic
// of the name must not begin where readers of this one were.
func (g *group) bury(gone []place) {
	g.erase(gone, false, func(err *kerr.Error) {
		if err == nil || g.state == stateDead {
			return
		}
		for _, p := range gone {
			g.dropOffset(p.topic, p.partition)
		}
		g.buried = append(g.buried, gone...)
		g.buryBy = g.m.now.Add(retryExpire)
		g.wakeAt(g.buryBy)
	})
}

// buryAgain tries that again, but for what was committed anew since: that is behind it in the log. While commits are on
// their way it waits, lest it erase these.
func (g *group) buryAgain() {
	g.buryBy = g.m.now.Add(retryExpire)
	if g.commits > 0 || g.m.full() {
		return
	}
	var gone []place
	for _, p := range g.buried {
		if _, anew := g.offsets[p.topic][p.partition]; !anew {
			gone = append(gone, p)
		}
	}
	if g.buried = nil; len(gone) > 0 {
		g.bury(gone)
	}
}
