package nodes

import (
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"github.com/bornode/bornode/chain"
	"github.com/bornode/bornode/internal/vfs/faultfs"
)

// stop ends a life in order.
func (n *node) stop() {
	l := n.life
	l.cancel()
	n.awaitEnd(l)
}

// cutPower ends a life at this moment; the seed says what of its unsynced changes the disk keeps.
func (n *node) cutPower(seed uint64) {
	if l := n.life; l != nil {
		l.die(nil, func() *faultfs.Disk {
			if cut := l.drive.disk.Crashed(); cut != nil {
				return cut
			}
			return l.drive.disk.Crash(seed)
		})
		n.awaitEnd(l)
		n.inspectVotes()
	}
}

// kill ends a life's process at this moment: the disk keeps all that was written.
func (n *node) kill() {
	if l := n.life; l != nil {
		l.die(nil, l.killed)
		n.awaitEnd(l)
		n.inspectVotes()
	}
}

// awaitEnd waits until the goroutines of a life have ended, and takes its disk.
func (n *node) awaitEnd(l *life) {
	t := time.NewTimer(endWithin)
	defer t.Stop()
	select {
	case <-l.ended:
	case <-t.C:
		n.w.check.report("end", "the goroutines of node %d, life %d, have not ended after %v", n.id, l.number, endWithin)
		<-l.ended
	}
	n.life, n.disk = nil, l.fate.left
}

// inspectVotes reads the vote log that a life has left: whatever of it others have heard is there.
func (n *node) inspectVotes() {
	if n.signer == nil {
		return
	}
	_, hash := n.told.get()
	above, ok := n.w.check.slotOf(hash)
	if !ok {
		return
	}
	log, ok := readVoteLog(n.disk)
	if !ok {
		log = &voteLogContents{}
	}
	if missing := n.w.check.unwritten(n.signer.Account(), n.logFrom, above, log); len(missing) > 0 {
		n.w.check.report("vote log", "others have heard what the vote log of node %d, life %d, lacks: %s", n.id, n.born, strings.Join(missing, ", "))
	}
}

// startAfter starts the node later, if it is off then.
func (n *node) startAfter(d time.Duration) {
	n.w.after(d, func() {
		if n.life == nil && !n.w.s.Bugs.StaysDown {
			n.w.plug(n)
			n.start()
		}
	})
}

// cutWasPlanned ends a life whose drive has met its planned power cut.
func (n *node) cutWasPlanned(l *life) {
	if n.life == l {
		n.w.note("node %d lost its power at a change of its disk", n.id)
		n.cutPower(0)
		n.startAfter(time.Second)
	}
}

// hasEnded hears that a life has ended by itself, and does what a supervisor and then an operator does.
func (n *node) hasEnded(l *life) {
	if n.life != l {
		return
	}
	n.awaitEnd(l)
	reason := ""
	if l.fate.reason != nil && !n.w.s.Bugs.EndsSilently {
		reason = strings.ReplaceAll(l.fate.reason.Error(), "\n", "; ")
	}
	n.w.note("node %d, life %d, has ended: %s", n.id, l.number, reason)
	n.ends = append(n.ends, reason)
	switch {
	case reason == "":
		n.w.check.report("end", "node %d, life %d, has ended without a sentence", n.id, l.number)
	case isWithoutHistory(reason): // see the package comment
	case !n.medium.wasHurt():
		n.w.check.report("end", "node %d, life %d, has ended though nothing was wrong with its disk: %s", n.id, l.number, reason)
	}
	n.inspectVotes()
	if time.Since(l.began) > lastedLong {
		n.failing = 0
	}
	if n.failing++; n.failing > startsBeforeRemedy {
		n.followRemedy(reason)
	}
	if n.failing > mostStarts {
		n.w.check.report("end", "no remedy helps node %d; it ends with: %s", n.id, reason)
		return
	}
	if n.medium.isWell() {
		n.startAfter(time.Second)
	} // else when it is healed
}

// isWithoutHistory reports whether a life ended since the state on its disk was of a losing branch: real nodes roll it back by
// the state history, which simulated ones lack. The next start makes the state again.
func isWithoutHistory(reason string) bool {
	return strings.Contains(reason, "roll the state back to block") && strings.Contains(reason, chain.ErrStateUnavailable.Error())
}

// followRemedy does what the sentence says that an operator should do, after starting again did not help.
func (n *node) followRemedy(reason string) {
	switch {
	case strings.Contains(reason, "vote log"):
		n.w.note("the operator moves the vote log of node %d away", n.id)
		n.disk.Lose(consensusDir + "/votes.log")
		n.logFrom = time.Now()
	case strings.Contains(reason, "the state database") && strings.Contains(reason, "move the folder"):
		n.w.note("the operator moves the state of node %d away", n.id)
		n.disk.Lose(stateDir + "/")
	default:
		n.w.note("the operator has node %d join again with an empty folder and its keys and vote log", n.id)
		n.disk.Lose(storeDir + "/")
		n.disk.Lose(stateDir + "/")
		n.told.set(0, common.Hash{})
	}
}

// restore has the node come back with an older copy of its disk.
func (n *node) restore(copied *faultfs.Disk, height uint64, hash common.Hash) {
	n.kill()
	n.disk = copied
	n.told.set(height, hash)
	n.logFrom = time.Now()
	n.voted.mu.Lock()
	n.voted.restored = true
	n.voted.mu.Unlock()
	n.startAfter(0)
}

// healAll ends all faults and starts what is off.
func (w *world) healAll() {
	w.note("all faults end")
	w.joinGroups()
	for _, n := range w.nodes {
		n.medium.heal()
		n.clock.set(0, 0)
		if n.life == nil {
			n.failing = 0
			n.startAfter(0)
		}
	}
}

// splitGroups cuts the nodes of other groups off from each other.
func (w *world) splitGroups(group map[int]int) {
	w.links.Lock()
	w.links.group = group
	w.links.Unlock()
	w.link()
}

func (w *world) joinGroups() { w.splitGroups(make(map[int]int)) }

// setLatency changes the time of every link.
func (w *world) setLatency(d time.Duration) {
	w.links.Lock()
	w.links.latency = d
	w.links.Unlock()
	w.link()
}

// checkTold holds what a start finds against what earlier lives have called final.
func (l *life) checkTold() {
	was, hash := l.n.told.get()
	if hash == (common.Hash{}) {
		return
	}
	c := l.n.w.check
	if height, _ := l.store.LIB(); height < was {
		c.report("final", "node %d, life %d, starts with block %d as its newest final one, and has called %d final before", l.n.id, l.number, height, was)
	}
	if h, err := l.store.HeaderByHeight(was); err == nil && h.Hash() != hash {
		c.report("final", "node %d, life %d, has block %d as %s, and has called %s final", l.n.id, l.number, was, h.Hash(), hash)
	}
}

// slotOf is the slot of a block that was heard.
func (c *checkers) slotOf(hash common.Hash) (uint64, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.headers[hash]
	if h == nil {
		return 0, false
	}
	if h.Number() == 0 {
		return 0, true
	}
	return h.Slot(), true
}
