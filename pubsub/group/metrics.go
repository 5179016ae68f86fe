package group

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// countWait is how long a look at the metrics waits for a partition's groups.
const countWait = time.Second

// Tally counts what happened to the groups of a machine.
type Tally struct {
	Rebalances uint64 // generations made
	Lapsed     uint64 // members that were not heard of for their session's time
	Offsets    uint64 // offsets committed
}

// Counts is what a machine holds.
type Counts struct{ Groups, Members, Offsets int }

// Tally is what happened since the machine was made.
func (m *Machine) Tally() Tally { return m.tally }

// Counts counts what the machine holds.
func (m *Machine) Counts() (c Counts) {
	c.Groups = len(m.groups)
	for _, g := range m.groups {
		c.Members += len(g.members)
	}
	for _, t := range m.tenants {
		c.Offsets += t.offsets
	}
	return c
}

type metrics struct {
	rebalances, lapsed, offsets prometheus.Counter
	takenOver, appendErrors     prometheus.Counter
	load                        prometheus.Histogram
}

func newMetrics(reg prometheus.Registerer) *metrics {
	f := promauto.With(reg)
	counter := func(name, help string) prometheus.Counter {
		return f.NewCounter(prometheus.CounterOpts{Name: "bornode_topics_groups_" + name, Help: help})
	}
	return &metrics{
		rebalances:   counter("rebalances_total", "Generations of consumer groups made: members came or went."),
		lapsed:       counter("lapsed_members_total", "Members of consumer groups that were not heard of for their session's time."),
		offsets:      counter("committed_offsets_total", "Offsets that consumer groups committed."),
		takenOver:    counter("taken_over_total", "Partitions of the groups' log that this broker took over and read."),
		appendErrors: counter("append_errors_total", "Writes to the groups' log that were not acknowledged; clients try again."),
		load: f.NewHistogram(prometheus.HistogramOpts{Name: "bornode_topics_groups_load_seconds", Help: "Time to read a partition of the groups' log that was taken over.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 9)}),
	}
}

// told adds what happened since it was last told.
func (m *metrics) told(now Tally, last *Tally) {
	m.rebalances.Add(float64(now.Rebalances - last.Rebalances))
	m.lapsed.Add(float64(now.Lapsed - last.Lapsed))
	m.offsets.Add(float64(now.Offsets - last.Offsets))
	*last = now
}

// gauges asks the shards when somebody looks.
type gauges struct {
	c                                    *Coordinator
	partitions, groups, members, offsets *prometheus.Desc
}

func newGauges(c *Coordinator) *gauges {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("bornode_topics_groups_"+name, help, nil, nil)
	}
	return &gauges{c: c, partitions: desc("partitions_count", "Partitions of the groups' log that this broker coordinates."),
		groups: desc("groups_count", "Consumer groups that this broker coordinates."), members: desc("members_count", "Members of these groups."),
		offsets: desc("offsets_count", "Committed offsets of these groups.")}
}

// Describe is prometheus.Collector.
func (g *gauges) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{g.partitions, g.groups, g.members, g.offsets} {
		out <- d
	}
}

// Collect is prometheus.Collector. Partitions whose log is still being read count nothing.
func (g *gauges) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(g.c.ctx, countWait)
	defer cancel()
	var sum Counts
	partitions := 0
	for _, s := range g.c.led() {
		answer := make(chan Counts, 1)
		if !s.put(ctx, call{counted: answer}) {
			continue
		}
		select {
		case n := <-answer:
			partitions++
			sum.Groups, sum.Members, sum.Offsets = sum.Groups+n.Groups, sum.Members+n.Members, sum.Offsets+n.Offsets
		case <-s.done:
		case <-ctx.Done():
		}
	}
	for d, n := range map[*prometheus.Desc]int{g.partitions: partitions, g.groups: sum.Groups, g.members: sum.Members, g.offsets: sum.Offsets} {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n))
	}
}
