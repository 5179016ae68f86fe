package txpool

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	accepted *prometheus.CounterVec
	refused  *prometheus.CounterVec
	readded  prometheus.Counter
	lost     prometheus.Counter
	reset    prometheus.Histogram
}

func newMetrics(reg prometheus.Registerer, p *Pool) *metrics {
	m := &metrics{
		accepted: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "bornode_txpool_accepted_total", Help: "Transactions accepted, by origin."}, []string{"origin"}),
		refused:  prometheus.NewCounterVec(prometheus.CounterOpts{Name: "bornode_txpool_refused_total", Help: "Transactions refused, by reason."}, []string{"reason"}),
		readded:  prometheus.NewCounter(prometheus.CounterOpts{Name: "bornode_txpool_abandoned_total", Help: "Transactions put back after a branch switch."}),
		lost:     prometheus.NewCounter(prometheus.CounterOpts{Name: "bornode_txpool_events_dropped_total", Help: "New-transaction events dropped because subscribers were too slow."}),
		reset:    prometheus.NewHistogram(prometheus.HistogramOpts{Name: "bornode_txpool_reset_seconds", Help: "Time to move the pool to a new head.", Buckets: prometheus.ExponentialBuckets(0.0005, 2, 12)}),
	}
	if reg != nil {
		count := func(name, help string, f func() int) prometheus.Collector {
			return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return float64(f()) })
		}
		reg.MustRegister(m.accepted, m.refused, m.readded, m.lost, m.reset,
			count("bornode_txpool_pending_transactions", "Transactions ready for a block.", func() int { n, _ := p.Stats(); return n }),
			count("bornode_txpool_queued_transactions", "Transactions that wait for a missing nonce.", func() int { _, n := p.Stats(); return n }))
	}
	return m
}
