package replica

import (
	"errors"
	"fmt"
	"slices"

	"github.com/bornode/bornode/pubsub/batch"
	"go.uber.org/zap"
)

// onState takes a replica's promise.
func (c *core) onState(peer string, it *item) {
	m := c.members[peer]
	if m == nil || !m.linked || m.lied {
		return
	}
	m.state = it
	switch c.role {
	case fencing:
		c.elect()
	case fetching:
		if peer == c.source { // it has not any more what was asked of it
			c.role, c.source, c.askFetch = fencing, "", false
			c.elect()
		}
	case leading:
		c.stream(peer, m)
	}
}

// elect chooses the log that counts once a majority has promised: the one that accepted the latest epoch, and of those
// the longest. Replicas that lost their disk do not count, unless the owner wants it so. Who led the epoch before has the
// log that counts already.
func (c *core) elect() {
	if c.durable.promised != c.lease.Epoch {
		return
	}
	c.source = ""
	if c.kept {
		c.take()
		return
	}
	own := c.state(item{})
	own.Epochs, own.More = c.data.Epochs(), false
	best, count := &own, 0
	if c.counts(&own) {
		count++
	}
	for _, name := range c.lease.Replicas {
		m := c.members[name]
		if m == nil || m.state == nil || !c.counts(m.state) {
			continue
		}
		count++
		if s := m.state; s.Accepted > best.Accepted || s.Accepted == best.Accepted && s.End > best.End {
			best, c.source = s, name
		}
	}
	if count < c.majority() {
		return
	}
	if c.source == "" {
		c.take()
		return
	}
	match, restart := agree(best, &own)
	if err := c.align(match, restart, best.Start); err != nil {
		c.fail("the log cannot be brought in line with the best of a majority", err)
		return
	}
	c.role, c.fetchEnd = fetching, best.End
	c.fetchOn()
}

// counts reports whether a replica's state is that of all it ever said it had.
func (c *core) counts(s *item) bool { return s.Accepted >= 0 || c.lease.Unclean }

// dataLost reports that this leader is not let into office by replicas that are there, and lost their disks.
func (c *core) dataLost() bool {
	if c.role != fencing || c.lease.Unclean {
		return false
	}
	there, whole := 1, 0
	if !c.forgot() {
		whole++
	}
	for _, m := range c.members {
		if m.state == nil {
			continue
		}
		if there++; m.state.Accepted >= 0 {
			whole++
		}
	}
	return there >= c.majority() && whole < c.majority()
}

// tellLost says what is to be done, once in an epoch.
func (c *core) tellLost() {
	c.told = true
	var lost []string
	if c.forgot() {
		lost = append(lost, c.self)
	}
	for name, m := range c.members {
		if m.state != nil && m.state.Accepted < 0 {
			lost = append(lost, name)
		}
	}
	slices.Sort(lost)
	c.log.Error("a partition has no leader: replicas lost their disks, and what they had may be committed; start the brokers that still have it, or let the topic's owner set unclean.leader.election.enable to go on with what is left",
		zap.Binary("topic", c.id.Topic[:]), zap.Int32("partition", c.id.Partition), zap.Int32("epoch", c.lease.Epoch),
		zap.Int("replicas", len(c.lease.Replicas)), zap.Strings("lost", lost))
}

// fetchOn asks for what is missing, or takes office.
func (c *core) fetchOn() {
	if c.data.End() >= c.fetchEnd {
		c.take()
		return
	}
	c.askFetch = true
	c.out.send(c.source)
}

func (c *core) onFetched(peer string, it *item) {
	if c.role != fetching || peer != c.source || it.From > c.data.End() {
		return
	}
	before := c.data.End()
	err := c.accept(it.Data)
	if err == nil && c.data.End() == before {
		if it.From < before { // the answer to what was asked twice
			return
		}
		err = fmt.Errorf("%w: nothing that follows %d", errMessage, before)
	}
	if errors.Is(err, errMessage) || errors.Is(err, batch.ErrCorrupt) { // without it, if the others are a majority
		c.disown(err)
		return
	}
	if err != nil {
		c.fail("the best log of a majority cannot be copied", err)
		return
	}
	c.asked = 0
	c.fetchOn()
}

// disown goes on without the replica that is said to have the best log, if the others are a majority.
func (c *core) disown(err error) {
	c.out.count(eventRefused, 1)
	c.log.Error("a replica said that it has the best log, and does not give it", zap.String("peer", c.source), zap.Binary("topic", c.id.Topic[:]),
		zap.Int32("partition", c.id.Partition), zap.Int32("epoch", c.lease.Epoch), zap.Error(err))
	m := c.members[c.source]
	m.lied, m.state = true, nil
	c.role, c.source, c.askFetch, c.asked = fencing, "", false, 0
	c.out.busy()
	c.elect()
}

// take accepts the epoch with the log as it is now.
func (c *core) take() {
	c.role, c.initEnd = entering, c.data.End()
	if err := c.enter(); err != nil {
		c.fail("the epoch cannot be entered", err)
	}
}

// lead begins to replicate.
func (c *core) lead() {
	c.role = leading
	for name, m := range c.members {
		m.lied = false // it matters no more what it has: it gets what it lacks
		if m.state != nil {
			c.stream(name, m)
		}
	}
	c.evaluate()
	c.out.busy() // replicas that are not there yet, and an own stash
}

// stream begins to send to a replica, from where its log agrees with this one.
func (c *core) stream(peer string, m *member) {
	own := item{Start: c.data.Start(), End: c.data.End(), Epochs: c.data.Epochs()}
	if m.joined && m.state.End < m.acked {
		c.log.Error("a replica has lost what it said was on its disk", zap.String("peer", peer), zap.Binary("topic", c.id.Topic[:]),
			zap.Int32("partition", c.id.Partition), zap.Int64("acknowledged", m.acked), zap.Int64("end", m.state.End))
		m.joined, m.acked = false, 0
	}
	m.init = c.initEnd
	if m.state.Accepted < 0 { // it may have had all there is, on a disk that was lost, and said so
		m.init, m.joined, m.acked = own.End, false, 0
	}
	m.match, m.start = agree(&own, m.state)
	m.next = m.match
	m.stream++
	m.first, m.flight, m.flying, m.toldHW = true, nil, 0, 0
	c.out.send(peer)
}

// nextDown is next for another replica.
func (c *core) nextDown(peer string, m *member, it item) (item, bool) {
	switch {
	case m.fence && c.durable.promised == c.lease.Epoch:
		m.fence = false
		it.Kind = kindFence
		return it, true
	case c.role == fetching && peer == c.source && c.askFetch:
		c.askFetch = false
		it.Kind, it.From, it.UpTo = kindFetch, c.data.End(), c.fetchEnd
		return it, true
	case c.role != leading:
		return it, false
	case m.tellSalvaged:
		m.tellSalvaged = false
		it.Kind, it.End = kindSalvaged, m.salvaged
		return it, true
	case m.stream == 0:
		return it, false
	}
	end := c.data.End()
	if m.next < c.data.Start() { // retention was faster than the replica
		m.next, m.match, m.first, m.start = c.data.Start(), c.data.Start(), true, true
	}
	more := m.next < end && m.flying < windowBytes && len(m.flight) < windowMessages
	if !more && !m.first && (m.toldHW >= c.hw && m.toldAt >= c.data.Start() || m.next < end) {
		return it, false
	}
	it.Kind, it.From, it.UpTo = kindAppend, m.next, m.next
	it.First, it.Restart, it.Match = m.first, m.start, m.match
	it.InitEnd, it.Commit, it.Start, it.stream = m.init, c.hw, c.data.Start(), m.stream
	if more {
		it.UpTo, it.max = end, readBytes
	}
	m.first, m.start, m.toldHW, m.toldAt = false, false, c.hw, it.Start
	return it, true
}

// startMoved has the replicas told that the log starts later now.
func (c *core) startMoved() {
	for name, m := range c.members {
		if m.stream != 0 {
			c.out.send(name)
		}
	}
}

// filled tells whether an item that was read without the lock may go: its epoch and stream still stand, so that what was
// read is the log of this epoch. err is that of the read.
func (c *core) filled(peer string, it *item, err error) bool {
	if it.Epoch != c.lease.Epoch || c.broken != nil {
		return false
	}
	if it.Kind != kindAppend {
		if err != nil {
			c.log.Warn("a partition's log cannot be read for a peer", zap.String("peer", peer), zap.Error(err))
		}
		return err == nil && it.bytes() > 0
	}
	m := c.members[peer]
	if c.role != leading || m == nil || m.stream != it.stream {
		return false
	}
	if err != nil {
		c.log.Warn("a partition's log cannot be read for a replica; it is tried again", zap.String("peer", peer), zap.Error(err))
		m.stream, m.state = 0, nil // retry asks for its state
		c.out.busy()
		return false
	}
	size := it.bytes()
	if size == 0 {
		return true
	}
	next, err := lastOffset(it.pieces[len(it.pieces)-1])
	if err != nil {
		c.fail("its log is damaged", err)
		return false
	}
	m.next = max(m.next, next)
	m.flight = append(m.flight, sent{next: next, bytes: size})
	m.flying += size
	return true
}

// lastOffset is the offset after the last batch of data from a log, which were checked before.
func lastOffset(data []byte) (int64, error) {
	var next int64
	for len(data) > 0 {
		h, n, err := batch.ParseHeader(data)
		if err != nil {
			return 0, err
		}
		if n > len(data) {
			return 0, fmt.Errorf("replica: batch of %d bytes in %d", n, len(data))
		}
		next, data = h.NextOffset(), data[n:]
	}
	return next, nil
}

// onAck notes how far a replica's disk has the log of this epoch.
func (c *core) onAck(peer string, it *item) {
	m := c.members[peer]
	if c.role != leading || m == nil || it.Accepted > c.lease.Epoch {
		return
	}
	if it.End > c.data.End() {
		c.out.count(eventRefused, 1)
		return // it cannot have what was never sent
	}
	if it.Accepted == c.lease.Epoch && it.End >= m.init {
		m.joined, m.acked = true, max(m.acked, it.End)
	}
	i := 0
	for i < len(m.flight) && m.flight[i].next <= it.End {
		m.flying -= m.flight[i].bytes
		i++
	}
	m.flight = slices.Delete(m.flight, 0, i)
	if m.next < c.data.End() && i > 0 {
		c.out.send(peer)
	}
	c.evaluate()
}

// evaluate moves the high watermark to what a majority has that accepted this epoch.
func (c *core) evaluate() {
	if c.role != leading || c.durable.accepted != c.lease.Epoch {
		return
	}
	var buf [8]int64
	ends := append(buf[:0], min(c.durable.end, c.data.End()))
	for _, m := range c.members {
		if m.joined {
			ends = append(ends, m.acked)
		}
	}
	need := c.majority()
	if len(ends) < need {
		return
	}
	slices.Sort(ends)
	to := ends[len(ends)-need]
	if to < c.initEnd {
		return
	}
	c.advance(to)
	if !c.ready {
		c.ready, c.led = true, c.lease.Epoch
		c.out.ledNow(c.lease.Epoch)
		c.handOver()
	}
	n := 0
	for n < len(c.waiting) && c.waiting[n].next <= c.hw {
		c.waiting[n].done <- nil
		n++
	}
	c.waiting = slices.Delete(c.waiting, 0, n)
	for name, m := range c.members {
		if m.stream != 0 && m.toldHW < c.hw && m.next >= c.data.End() {
			c.out.send(name)
		}
	}
	c.settleSalvage()
}

// append adds a producer's batch to the log. wait: the channel tells when a majority has it.
func (c *core) append(raw []byte, now int64, wait bool) (Appended, chan error, error) {
	switch {
	case c.broken != nil && c.role != following:
		return Appended{}, nil, fmt.Errorf("%w: %w", ErrNotLeader, c.broken)
	case c.role == idle, c.role == following, c.role == retired:
		return Appended{}, nil, ErrNotLeader
	case c.dataLost():
		return Appended{}, nil, ErrLost
	case !c.ready:
		return Appended{}, nil, ErrNotReady
	case wait && len(c.waiting) >= maxWaiters:
		return Appended{}, nil, ErrBusy
	}
	a, err := c.data.Append(c.lease.Epoch, raw, now)
	if err != nil {
		return a, nil, err
	}
	if !a.Duplicate {
		c.appended(a.Mark)
	}
	if !wait {
		return a, nil, nil
	}
	done := make(chan error, 1)
	if a.Next <= c.hw {
		done <- nil
		return a, done, nil
	}
	w := waiter{next: a.Next, done: done}
	i := len(c.waiting)
	for i > 0 && c.waiting[i-1].next > a.Next { // a duplicate of one under way
		i--
	}
	c.waiting = slices.Insert(c.waiting, i, w)
	return a, done, nil
}

// appended tells everyone of a new batch.
func (c *core) appended(m Mark) {
	c.out.persist(m, c.snapshot())
	for name, m := range c.members {
		if m.stream != 0 && m.flying < windowBytes && len(m.flight) < windowMessages {
			c.out.send(name)
		}
	}
}
