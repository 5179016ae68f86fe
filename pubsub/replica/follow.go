package replica

import (
	"errors"
	"fmt"

	"github.com/bornode/bornode/pubsub/batch"
	"go.uber.org/zap"
)

// state is the present log, for the leader.
func (c *core) state(it item) item {
	a, end := c.data.Position()
	it.Kind, it.Accepted, it.Start, it.End = kindState, a, c.data.Start(), end
	it.Epochs = c.data.Epochs()
	if n := len(it.Epochs); n > maxEpochs {
		it.Epochs, it.More = it.Epochs[n-maxEpochs:], true
	}
	return it
}

// nextUp is next for the leader of the lease.
func (c *core) nextUp(it item) (item, bool) {
	switch {
	case c.sendState && c.durable.promised == c.lease.Epoch:
		c.sendState = false
		return c.state(it), true
	case c.serving != nil:
		s := c.serving
		c.serving = nil
		it.Kind, it.From, it.UpTo, it.max = kindFetched, s.From, min(s.UpTo, c.data.End()), readBytes
		if it.From < c.data.Start() { // deleted meanwhile: the leader chooses anew
			return c.state(item{ID: c.id, Epoch: c.lease.Epoch}), true
		}
		return it, it.From < it.UpTo
	case c.sendAck:
		c.sendAck = false
		it.Kind, it.Accepted, it.End = kindAck, c.durable.accepted, c.durable.end
		return it, true
	}
	return c.nextSalvage(it)
}

// onAppend takes batches from the leader.
func (c *core) onAppend(it *item) {
	if it.First && (!c.aligned || it.Restart && it.From > c.data.End()) {
		if err := c.align(it.Match, it.Restart, it.From); err != nil {
			c.fail("its log cannot be brought in line with the leader's", err)
			return
		}
		c.aligned, c.apart = true, false
	}
	if !c.aligned || it.From > c.data.End() {
		c.sendState = true // something was lost on the way: begin again
		c.out.send(c.lease.Leader)
		return
	}
	if err := c.accept(it.Data); err != nil {
		c.fail("the leader's batches are not taken", err)
		return
	}
	c.leaderHW, c.leaderAt = max(c.leaderHW, it.Commit), max(c.leaderAt, it.Start)
	if a, end := c.data.Position(); a < c.lease.Epoch && end >= it.InitEnd {
		if err := c.enter(); err != nil {
			c.fail("the epoch cannot be entered", err)
			return
		}
	}
	if s := c.snapshot(); s == c.durable {
		if it.First || len(it.Data) > 0 {
			c.sendAck = true
			c.out.send(c.lease.Leader)
		}
		c.followHW()
	}
}

// accept writes those of the batches that the log does not have yet.
func (c *core) accept(data []byte) error {
	var last Mark
	n := 0
	err := batch.Each(data, func(h batch.Header, raw []byte) error {
		end := c.data.End()
		if h.NextOffset() <= end {
			return nil
		}
		if h.BaseOffset < end && c.data.Start() == end { // records were deleted up to its middle
			m, err := c.data.Reset(h.BaseOffset)
			if err := c.afterCut(m, err); err != nil {
				return err
			}
			end = h.BaseOffset
		}
		if h.BaseOffset != end || h.LeaderEpoch > c.lease.Epoch || h.LeaderEpoch < 0 {
			return fmt.Errorf("%w: batch %d-%d of epoch %d, the log ends at %d in epoch %d", errMessage, h.BaseOffset, h.NextOffset(), h.LeaderEpoch, end, c.lease.Epoch)
		}
		m, err := c.data.Accept(raw)
		last = m
		n++
		return err
	})
	if n > 0 {
		c.out.persist(last, c.snapshot())
		c.out.count(eventAccepted, n)
	}
	return err
}

func (c *core) enter() error {
	m, err := c.data.Enter(c.lease.Epoch)
	if err != nil {
		return err
	}
	c.out.persist(m, c.snapshot())
	return nil
}

// errApart: this log has what was committed, and the one that counts has not.
var errApart = errors.New("replica: the log that counts lacks what is committed")

// align cuts off what another log, which counts, does not have: all after match, or everything to go on at start.
func (c *core) align(match int64, restart bool, start int64) error {
	end := c.data.End()
	if restart {
		if start < c.hw && match < c.hw {
			return fmt.Errorf("%w: told to begin anew at %d, committed is %d", errApart, start, c.hw)
		}
		// What lies below the start of the log that counts was kept for as long as the topic says.
		if err := c.setAside(max(start, c.hw, c.data.Start()), end); err != nil {
			return err
		}
		m, err := c.data.Reset(start)
		return c.afterCut(m, err)
	}
	if match > end || match < c.data.Start() {
		return fmt.Errorf("replica: told to cut at %d, the log is %d-%d", match, c.data.Start(), end)
	}
	if match == end {
		return nil
	}
	if match < c.hw {
		return fmt.Errorf("%w: told to cut at %d what is committed up to %d", errApart, match, c.hw)
	}
	if err := c.setAside(match, end); err != nil {
		return err
	}
	c.log.Info("a partition's log is cut where the leader's differs", zap.Binary("topic", c.id.Topic[:]),
		zap.Int32("partition", c.id.Partition), zap.Int64("end", end), zap.Int64("cut_to", match))
	m, err := c.data.Truncate(match)
	return c.afterCut(m, err)
}

func (c *core) afterCut(m Mark, err error) error {
	if err != nil {
		return err
	}
	c.cuts++
	c.out.count(eventCut, 1)
	c.hw = min(max(c.hw, c.data.Start()), c.data.End())
	c.out.persist(m, c.snapshot())
	return nil
}

// followHW moves the high watermark to what the leader said, as far as it is on this disk.
func (c *core) followHW() {
	if c.durable.cuts == c.cuts {
		c.advance(min(c.leaderHW, c.durable.end))
	}
	c.followStart()
}

// followStart deletes what the leader has deleted, as far as it is known to be committed here.
func (c *core) followStart() {
	to := min(c.leaderAt, c.hw)
	if to <= c.data.Start() {
		return
	}
	if err := c.data.DeleteBefore(to); err != nil { // tried again with what comes next
		c.log.Warn("what the leader of a partition deleted stays here for now", zap.Binary("topic", c.id.Topic[:]),
			zap.Int32("partition", c.id.Partition), zap.Int64("before", to), zap.Error(err))
	}
}

// advance moves the high watermark.
func (c *core) advance(to int64) {
	if to <= c.hw {
		return
	}
	from := max(c.hw, c.data.Start())
	c.hw = to
	c.data.SetCommitted(to)
	if from < to {
		c.out.commit(from, to)
	}
}

// agree finds up to where log b is the same as log a: a's epochs are complete above a's start. restart: b has nothing that
// could be built on, and begins anew at a's start.
//
// A batch is told by offset and epoch, since one process leads an epoch; and two logs that share a batch share all before.
func agree(a, b *item) (match int64, restart bool) {
	ends := func(s *item, i int) int64 {
		if i+1 < len(s.Epochs) {
			return s.Epochs[i+1].Start
		}
		return s.End
	}
	inA := make(map[int32]int, len(a.Epochs))
	for i, e := range a.Epochs {
		inA[e.Epoch] = i
	}
	for j := len(b.Epochs) - 1; j >= 0; j-- {
		i, ok := inA[b.Epochs[j].Epoch]
		if !ok {
			continue
		}
		m := min(ends(a, i), ends(b, j))
		if m <= a.Epochs[i].Start || m <= b.Epochs[j].Start {
			continue // one has no batch of it
		}
		if m < a.Start {
			break
		}
		return m, false
	}
	if a.Start <= b.Start && b.Start <= a.End && !b.More {
		return b.Start, false // a log begins only where all before is committed: both had it
	}
	return a.Start, true
}
