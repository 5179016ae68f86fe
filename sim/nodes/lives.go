package nodes

import (
	"time"

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
	l := n.life
	l.die(nil, func() *faultfs.Disk {
		if cut := l.drive.disk.Crashed(); cut != nil {
			return cut
		}
		return l.drive.disk.Crash(seed)
	})
	n.awaitEnd(l)
}

// kill ends a life's process at this moment: the disk keeps all that was written.
func (n *node) kill() {
	l := n.life
	l.die(nil, l.killed)
	n.awaitEnd(l)
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

// cutWasPlanned ends a life whose drive met its planned power cut.
func (n *node) cutWasPlanned(l *life) {
	if n.life == l {
		n.cutPower(0)
	}
}

// hasEnded hears that a life has ended by itself.
func (n *node) hasEnded(l *life) {
	if n.life != l {
		return
	}
	n.awaitEnd(l)
	n.w.note("node %d, life %d, has ended: %v", n.id, l.number, l.fate.reason)
}

func (w *world) healAll() {}
