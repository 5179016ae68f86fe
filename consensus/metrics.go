package consensus

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	headHeight, libHeight, justifiedSlot, reversible prometheus.Gauge
	silent, stalled                                  prometheus.Gauge
	produced, missed, failed                         prometheus.Counter
	votes                                            *prometheus.CounterVec // kind
	tallies                                          *prometheus.CounterVec // result
	badVotes, evidence                               prometheus.Counter
	aggregates, seals                                prometheus.Counter
	finality, logSync                                prometheus.Histogram
	rangeBlocks                                      *prometheus.CounterVec // mode
	rangeRate                                        prometheus.Gauge
	entered                                          prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	const ns, sub = "bornode", "consensus"
	var errs []error
	register := func(c prometheus.Collector) {
		if reg != nil {
			errs = append(errs, reg.Register(c))
		}
	}
	gauge := func(name, help string) prometheus.Gauge {
		g := prometheus.NewGauge(prometheus.GaugeOpts{Namespace: ns, Subsystem: sub, Name: name, Help: help})
		register(g)
		return g
	}
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Namespace: ns, Subsystem: sub, Name: name, Help: help})
		register(c)
		return c
	}
	vec := func(name, help, label string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: ns, Subsystem: sub, Name: name, Help: help}, []string{label})
		register(c)
		return c
	}
	histogram := func(name, help string, first, factor float64, count int) prometheus.Histogram {
		h := prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: ns, Subsystem: sub, Name: name, Help: help, Buckets: prometheus.ExponentialBuckets(first, factor, count)})
		register(h)
		return h
	}
	m := &metrics{
		headHeight:    gauge("head_height_blocks", "height of the preferred head"),
		libHeight:     gauge("lib_height_blocks", "height of the last irreversible block"),
		justifiedSlot: gauge("justified_slot_slots", "slot of the newest justified block"),
		reversible:    gauge("reversible_depth_blocks", "preferred head minus last irreversible block"),
		silent:        gauge("signer_silent_state", "1 while the signer waits for proof that it signs nothing twice"),
		stalled:       gauge("stalled_state", "1 while production is slowed since nothing becomes final"),
		produced:      counter("produced_blocks", "blocks this node produced"),
		missed:        counter("missed_slots", "own slots in which no block was produced"),
		failed:        counter("failed_blocks", "blocks that failed execution"),
		votes:         vec("sent_votes", "own votes sent", "kind"),
		tallies:       vec("tallies_total", "quorums of votes verified", "result"),
		badVotes:      counter("bad_votes", "votes whose signature was wrong"),
		evidence:      counter("evidence_total", "provable faults seen"),
		aggregates:    counter("aggregate_checks_total", "aggregate signatures verified, own tallies not counted"),
		seals:         counter("seal_checks_total", "block seals verified"),
		finality:      histogram("finality_latency_seconds", "start of a block's slot until it is final here", 0.002, 1.4, 28),
		logSync:       histogram("votelog_sync_seconds", "one write and fsync of the vote log", 0.0001, 2, 14),
		rangeBlocks:   vec("range_blocks", "blocks imported in ranges", "mode"),
		rangeRate:     gauge("range_rate_blocks_per_second", "rate of the newest range import"),
		entered:       counter("entered_blocks", "headers that entered the tree"),
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("register metrics of consensus: %w", err)
	}
	return m, nil
}
