package replica

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// event is something that is counted.
type event int

const (
	eventAccepted event = iota
	eventCut
	eventSetAside
	eventSalvaged
	eventRefused
	eventBroken
	eventLed
	eventLost
	eventFsync
	events
)

// metrics counts what replication does. There are no labels: peers and partitions are many.
type metrics struct {
	counters  [events]prometheus.Counter
	sentBytes prometheus.Counter
	messages  prometheus.Counter
	led       prometheus.Gauge
	parts     prometheus.Gauge
	peers     prometheus.Gauge
	takeOver  prometheus.Histogram
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	const prefix = "bornode_topics_replica_"
	one := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: prefix + name, Help: help})
	}
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: prefix + name, Help: help})
	}
	m := &metrics{
		counters: [events]prometheus.Counter{
			eventAccepted: one("accepted_batches_total", "Batches taken from leaders."),
			eventCut:      one("cuts_total", "Times a partition's log was cut where the leader's differs."),
			eventSetAside: one("set_aside_batches_total", "Batches cut off and kept for the leader to append."),
			eventSalvaged: one("salvaged_batches_total", "Batches of other replicas appended as leader."),
			eventRefused:  one("refused_messages_total", "Messages of other brokers that were not taken."),
			eventBroken:   one("stopped_partitions_total", "Times replication of a partition stopped over an error."),
			eventLed:      one("take_overs_total", "Times this broker became the leader of a partition."),
			eventLost:     one("lost_leaders_total", "Times a partition's leader was reported lost."),
			eventFsync:    one("fsync_errors_total", "Failed waits for the disk."),
		},
		sentBytes: one("sent_bytes_total", "Bytes sent to other brokers."),
		messages:  one("sent_messages_total", "Messages sent to other brokers, heartbeats too."),
		led:       gauge("leading_partitions", "Partitions that this broker leads."),
		parts:     gauge("partitions", "Partitions that this broker has leases of."),
		peers:     gauge("links", "Brokers with a link."),
		takeOver: prometheus.NewHistogram(prometheus.HistogramOpts{Name: prefix + "take_over_seconds",
			Help: "From a lease being final here to the first append.", Buckets: prometheus.ExponentialBuckets(0.001, 2, 14)}),
	}
	if reg == nil {
		return m, nil
	}
	for _, c := range m.counters {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	for _, c := range []prometheus.Collector{m.sentBytes, m.messages, m.led, m.parts, m.peers, m.takeOver} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// watch registers what is counted when it is asked for.
func (m *Manager) watch(reg prometheus.Registerer) error {
	if reg == nil {
		return nil
	}
	count := func(name, help string, which func(*core) bool) error {
		return reg.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "bornode_topics_replica_" + name, Help: help}, func() float64 {
			n := 0
			for _, p := range m.all() {
				p.mu.Lock()
				if which(p.core) {
					n++
				}
				p.mu.Unlock()
			}
			return float64(n)
		}))
	}
	return errors.Join(
		count("under_replicated_partitions", "Partitions led here of which a replica lacks something committed, or is not there.", func(c *core) bool {
			for _, mb := range c.members {
				if c.role == leading && (!mb.linked || !mb.joined || mb.acked < c.hw) {
					return true
				}
			}
			return false
		}),
		count("taking_over_partitions", "Partitions whose lease this broker has and that it cannot lead yet.", func(c *core) bool {
			return c.lease.Leader == m.self && c.role != idle && !c.ready
		}),
		count("lost_partitions", "Partitions whose lease this broker has and that wait for their owner, as replicas lost their disks.", func(c *core) bool {
			return c.dataLost()
		}),
		count("stashed_partitions", "Partitions with batches set aside here that the leader has not taken yet.", func(c *core) bool { return c.stash != nil }),
		count("stopped_partitions", "Partitions whose replication stopped here over an error.", func(c *core) bool { return c.broken != nil }),
	)
}
