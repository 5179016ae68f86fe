package blocksync

import (
	"errors"
	"time"

	"github.com/bornode/bornode/transport"
	"github.com/ethereum/go-ethereum/common"
)

// orphanage keeps live blocks whose parent is not known yet, bounded in count, per peer and in bytes.
type orphanage struct {
	byParent map[common.Hash][]*checkJob
	count    int
	bytes    int
}

func (o *orphanage) init() { o.byParent = make(map[common.Hash][]*checkJob) }

func (o *orphanage) add(j *checkJob) bool {
	if o.count >= maxOrphans || o.bytes+len(j.raw) > maxOrphanBytes || j.peer.orphans >= maxOrphansPerPeer {
		return false
	}
	parent := j.sealed.Parent()
	for _, k := range o.byParent[parent] {
		if k.sealed.Hash() == j.sealed.Hash() {
			return true
		}
	}
	o.byParent[parent] = append(o.byParent[parent], j)
	o.count++
	o.bytes += len(j.raw)
	j.peer.orphans++
	return true
}

func (o *orphanage) take(parent common.Hash) []*checkJob {
	js := o.byParent[parent]
	delete(o.byParent, parent)
	for _, j := range js {
		o.count--
		o.bytes -= len(j.raw)
		j.peer.orphans--
	}
	return js
}

// drop forgets the blocks of a peer.
func (o *orphanage) drop(id transport.PeerID) {
	for parent, js := range o.byParent {
		for _, j := range js {
			if j.peer.id == id {
				for _, k := range o.take(parent) {
					if k.peer.id != id {
						o.add(k)
					}
				}
				break
			}
		}
	}
}

// linked checks again the blocks that waited for this one.
func (o *orphanage) linked(m *Manager, hash common.Hash) {
	for _, j := range o.take(hash) {
		if !j.peer.leaving {
			m.check(j)
		}
	}
}

// retry checks all again: a catch-up has ended. Those still without a parent come back, or are dropped.
func (o *orphanage) retry(m *Manager) {
	lib := m.deps.Driver.Status().LIB.Height
	for parent := range o.byParent {
		_, err := m.deps.Blocks.Header(parent)
		for _, j := range o.take(parent) {
			if err == nil && !j.peer.leaving {
				m.check(j)
			} else if j.sealed.Number() > lib && !j.peer.leaving {
				o.add(j)
			}
		}
	}
}

// orphan keeps a block whose parent is unknown and asks its sender for the branch below it. While a catch-up runs such
// blocks are to be expected; otherwise they count against their sender.
func (m *Manager) orphan(j *checkJob) {
	p := j.peer
	if p.leaving || m.state == LIBCatchup {
		return
	}
	m.orphans.add(j)
	if m.ask == nil || m.ask.peer == p {
		m.unlinkable(p)
	}
	if p.leaving || m.ask != nil {
		return
	}
	now := time.Now()
	if now.Before(p.notAsk) {
		return
	}
	m.startAsk(p.id, now)
	if m.ask != nil && m.state == InSync {
		m.enter(decision{state: HeadCatchup, ask: p.id}, now)
	}
}

var errUnlinkable = errors.New("too many blocks whose parents nobody knows")

func (m *Manager) unlinkable(p *peer) {
	if p.unlinked++; p.unlinked > maxUnlinkable {
		m.punish(p, Unlinkable, errUnlinkable)
	}
}
