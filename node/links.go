package node

import (
	"context"
	"fmt"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/bornode/bornode/block"
	meters "github.com/bornode/bornode/internal/metrics"
)

// linkRecheck is how often a producer counts the producers that are linked with it.
const linkRecheck = 5 * time.Second

// producerLinks tells of a producer that cannot vote since too few others are linked with it directly: it needs the clocks
// of a quorum (docs/adr/0019). One goroutine uses it.
type producerLinks struct {
	self    common.Address
	log     *zap.Logger
	lacking prometheus.Gauge

	seen producerCount // of the last look
	told producerCount // what the log said last; the zero value: nothing is lacking
}

// producerCount is what one look found, of the schedule that lacks most.
type producerCount struct {
	linked  int // seats of other producers that are linked
	needed  int // of them
	lacking int // needed without linked, 0 if there are enough
}

func newProducerLinks(self common.Address, log *zap.Logger, reg prometheus.Registerer) (*producerLinks, error) {
	f := meters.New(reg, "node")
	l := &producerLinks{self: self, log: log, lacking: f.Gauge("lacking_producer_links", "seats of other producers that this producer lacks a direct link with, to vote; 0: enough")}
	if err := f.Err(); err != nil {
		return nil, fmt.Errorf("register metrics of the node: %w", err)
	}
	return l, nil
}

// countProducers counts seats: with its own a producer needs a quorum of each schedule. A node without a seat lacks
// nothing.
func countProducers(schedules []block.Schedule, self common.Address, linked map[common.Address]bool) (worst producerCount) {
	seated := false
	for _, s := range schedules {
		seated = seated || s.Index(self) >= 0
	}
	if !seated {
		return worst
	}
	for _, s := range schedules {
		var c producerCount
		for _, p := range s {
			if p.Account == self {
				continue
			}
			if linked[p.Account] {
				c.linked++
			}
		}
		c.needed = s.Quorum() // rule 12 needs the clocks of a quorum, the own included
		if s.Index(self) >= 0 {
			c.needed--
		}
		c.lacking = max(0, c.needed-c.linked)
		if c.lacking > worst.lacking || worst == (producerCount{}) {
			worst = c
		}
	}
	return worst
}

// look takes one count. A lack is told when two looks in a row find it, since links come up one after the other.
func (l *producerLinks) look(c producerCount) {
	l.lacking.Set(float64(c.lacking))
	lacked := l.seen.lacking > 0
	l.seen = c
	switch {
	case c.lacking == 0:
		if l.told.lacking > 0 {
			l.log.Info("enough producers are linked again with this one", zap.Int("linked", c.linked), zap.Int("needed", c.needed))
		}
		l.told = producerCount{}
	case c != l.told && lacked:
		l.told = c
		l.log.Warn("too few other producers are directly linked with this one: it casts no vote before more of them are; start them, or add their addresses to p2p.peers, and open the ports between them",
			zap.Int("linked", c.linked), zap.Int("needed", c.needed), zap.Int("lacking", c.lacking))
	}
}

// watchLinks counts the linked producers until ctx ends.
func (n *Node) watchLinks(ctx context.Context) {
	t := time.NewTicker(linkRecheck)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			n.links.look(countProducers(n.driver.Status().Schedules, n.links.self, n.linkedAccounts()))
		}
	}
}

// linkedAccounts are the accounts that peers have proven to sign for in their handshakes.
func (n *Node) linkedAccounts() map[common.Address]bool {
	linked := make(map[common.Address]bool)
	for _, p := range n.sync.Peers() {
		if p.Handshaken && p.Account != (common.Address{}) {
			linked[p.Account] = true
		}
	}
	return linked
}
